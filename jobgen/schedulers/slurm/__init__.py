"""Slurm: what is written for it, asked of it, read from it."""
