"""What a run leaves behind to look at, and how its files are written."""
