"""What a run keeps an eye on: requests to stop, its status, bad losses, hanging and slow ranks."""
