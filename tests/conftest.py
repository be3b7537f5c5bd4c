"""Fixtures for all tests; the clusters are in cluster_fixtures.py."""

import signal

# A shell that starts the tests in the background has them ignore Ctrl-C, and all that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = ["cluster_fixtures"]
