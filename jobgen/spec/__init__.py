"""job.yaml, read and typed: text to nodes to records, each with its place."""
