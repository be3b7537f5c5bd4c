"""The machine that jobgen runs on: which cluster it is of, and whether it is ready."""
