"""The command jobgen, whose jobs miss a node after 20 s and not after minutes."""

from jobgen.__main__ import run
from jobgen.rendering import runtime

read = runtime.read_text


def read_brisk(path: str) -> str:
    """A file of the runtime, with other numbers."""
    return read(path).replace(
        "pause=20 most_same=6 most_absent=15", "pause=2 most_same=10 most_absent=30"
    )


runtime.read_text = read_brisk
run()
