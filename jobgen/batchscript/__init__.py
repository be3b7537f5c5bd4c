"""Batch scripts that people already have: read, linted, converted to a spec."""
