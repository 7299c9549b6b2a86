"""`jit` for functions that users write: a second value compiles nothing new."""
