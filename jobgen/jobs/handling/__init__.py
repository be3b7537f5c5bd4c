"""What is done with jobs that are on record: again, inside, and away."""
