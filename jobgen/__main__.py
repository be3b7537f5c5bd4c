"""`python -m jobgen` is the `jobgen` command."""

from jobgen.cli import main

main()
