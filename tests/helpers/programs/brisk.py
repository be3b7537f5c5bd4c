"""The command jobgen, whose jobs miss a node after 20 s and not after minutes."""

from jobgen.__main__ import run
from jobgen.rendering import runtime

read = runtime.read_text


def read_brisk(path: str) -> str:
    """A file of the runtime, with other numbers."""
    return read(path).replace("BEAT=20 SILENT=6 MISSING=15", "BEAT=2 SILENT=10 MISSING=30")


runtime.read_text = read_brisk
run()
