"""A fourth scheduler, as CONTRIBUTING.md says: a package with its modules."""
