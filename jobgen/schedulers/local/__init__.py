"""This machine as a scheduler: its jobs are processes here."""
