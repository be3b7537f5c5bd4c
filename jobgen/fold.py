"""Lines of many files as one sequence, in which what many say at a time stands once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

from jobgen.tail import Tail

# Bytes that are held of all files together, and the least and most that are read of one at a time.
_HELD = 2 << 20
_LEAST, _MOST = 4 << 10, 256 << 10


def chunk(files: int) -> int:
    """How many bytes to read of each of so many files at a time."""
    return min(_MOST, max(_LEAST, _HELD // max(1, files)))


def folded(tails: Sequence[Tail]) -> Iterator[tuple[tuple[int, ...], bytes]]:
    """All that the tails have to read, each line with the indices of those whose it is.

    Each tail's lines keep their order. Those of one stay together up to a line that others are
    about to say too; that one waits for them.
    """
    limit = chunk(len(tails))
    read: Counter[bytes] = Counter()  # the lines that are held
    heads: dict[bytes, list[int]] = {}  # the next line of each
    ready: list[bytes] = []  # of these, those that nobody else is about to say
    last: list[int] = []  # how many lines each gave when it was read last

    def fill() -> None:
        """Read on in all that run low together, so that what they say alike is held at a time."""
        for index, tail in enumerate(tails):
            held = len(tail.lines)
            if held <= last[index] // 2:
                tail.fill(limit)
                last[index] = len(tail.lines) - held
                read.update(islice(tail.lines, held, None))

    def advance(index: int) -> None:
        lines = tails[index].lines
        if not lines and last[index]:
            fill()
        if lines:
            here = heads.setdefault(lines[0], [])
            here.append(index)
            if len(here) == read[lines[0]]:
                ready.append(lines[0])

    for tail in tails:
        read.update(tail.lines)
        last.append(2 * len(tail.lines))
    fill()
    for index in reversed(range(len(tails))):
        advance(index)
    while heads:
        line = ready.pop() if ready else next(iter(heads))
        if line not in heads:
            continue
        here = sorted(heads.pop(line))
        read[line] -= len(here)
        if not read[line]:
            del read[line]
        yield tuple(here), line
        for index in reversed(here):
            tails[index].lines.popleft()
            advance(index)
