"""The lines of what a job has left, and where they stand."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

from jobgen.jobs.record import open_left, read_left
from jobgen.records import NamedTuple

#: what rank 0 of the bundled trainer prints of a slow one: its rank, its node, how slow
SLOW_RANK = re.compile(r"rank (\d+) on (\S+) is slow: (.*)")

# Of a longer file the beginning and the end are read: a program may print gigabytes.
_HEAD = 64 * 1024
_TAIL = 192 * 1024
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class Line(NamedTuple):
    """One line of a file; numbers count from 1."""

    file: Path
    number: int
    text: str


def read_lines(path: Path) -> Iterator[Line]:
    """The lines of a file; of a long one its beginning and its end. None if there is no file."""
    try:
        with open_left(path) as file:
            head = file.read(_HEAD)
            yield from _split_lines(path, head, 1)
            about = os.fstat(file.fileno())
            number = 1 + head.count(b"\n")
            if (tail := about.st_size - _TAIL) > len(head):
                number += _count_lines(path, len(head), tail, about.st_mtime_ns)
                file.seek(tail)
            yield from _split_lines(path, file.read(_HEAD + _TAIL), number)
    except OSError:
        return


@lru_cache(maxsize=1024)  # the same log is looked at more than once
def _count_lines(path: Path, begin: int, end: int, changed: int) -> int:
    """How many lines end between two places of a file that was last changed then."""
    count = 0
    with path.open("rb") as file:
        file.seek(begin)
        while begin < end and (block := file.read(min(1 << 20, end - begin))):
            begin += len(block)
            count += block.count(b"\n")
    return count


def _split_lines(path: Path, text: bytes, number: int) -> Iterator[Line]:
    for line in text.removesuffix(b"\n").split(b"\n") if text else ():
        # Of a progress bar, which writes over itself, what was to be seen last.
        seen = line.rstrip(b"\r").rpartition(b"\r")[2]
        yield Line(path, number, _COLOUR.sub("", seen.decode(errors="replace")))
        number += 1


def split_traceback(line: Line) -> list[Line]:
    """The lines of a traceback that a program has logged as one, such as in JSON; else the line."""
    if "Traceback (most recent call last):\\n" not in line.text:
        return [line]
    before, begin, after = line.text.partition("Traceback (most recent call last):")
    parts = after.replace('\\"', '"').split("\\n")
    return [line._replace(text=text) for text in (before, begin, *parts[1:])]


def read_words(path: Path) -> list[str]:
    """The words of a file; none if there is no such file."""
    try:
        return read_left(path).split()
    except OSError:
        return []


def parse_listing(lines: Iterable[Line]) -> Iterator[tuple[int, int]]:
    """Rank and exit code of the processes that torchrun lists as failed."""
    rank = None
    for line in lines:
        key, _, value = line.text.partition(":")
        number = re.match(r"\s*(-?\d+)", value)
        if key.strip() == "rank" and number:
            rank = int(number[1])
        elif key.strip() == "exitcode" and number and rank is not None:
            yield rank, int(number[1])
            rank = None
