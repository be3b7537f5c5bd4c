"""PBS: its syntax, its commands and their answers."""
