"""From a plan to the states of a run."""
