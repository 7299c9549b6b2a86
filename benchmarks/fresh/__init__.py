"""Tasks for fresh processes: what a user waits for before anything is compiled."""
