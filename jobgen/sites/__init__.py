"""Site profiles: the records, where they lie, how they are shown."""
