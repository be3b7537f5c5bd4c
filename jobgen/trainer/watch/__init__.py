"""What a run leaves word of: its status, and ranks that hang."""
