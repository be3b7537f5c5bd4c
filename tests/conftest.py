"""Fixtures for all tests; the clusters are in cluster_fixtures.py."""

pytest_plugins = ["cluster_fixtures"]
