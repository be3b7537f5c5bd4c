"""Site profiles: their records, how to find them, and how to show them."""
