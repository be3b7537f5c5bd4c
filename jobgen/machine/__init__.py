"""The machine that jobgen runs on: its cluster, and whether it is ready."""
