"""What a run leaves to look at, and how its files are written."""
