"""Events: what a run watches for and does there."""
