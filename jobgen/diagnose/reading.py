"""The lines of what a job has left, and where they stand."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from jobgen.jobs.files import open_left, parse_object
from jobgen.records import NamedTuple
from jobgen.spec.tables import read_table

_KINDS = read_table("words.yaml", room="diagnose")
#: what rank 0 of the bundled trainer prints of a slow one: its rank, its node, how slow
SLOW_RANK = re.compile(r"rank (\d{1,9}) on (\S+) is slow: (.*)")

# Of a longer file the beginning and the end are read: a program may print gigabytes.
_HEAD = 64 * 1024
_TAIL = 192 * 1024
# What colours a text, and a bar of progress before one.
_DRAWN = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|^[^|]{0,80}\d%\|[^|]*\| *\d+/\d+ \[[^\]]*\](?=\S)")
# Keys of records of structlog, python-json-logger, loguru, zap, pino, and of clouds.
_WORDS = ("event", "message", "msg", "text")
_LEVELS = ("level", "levelname", "severity", "log.level", "level_name")
_ERRORS = ("error", "err", "reason", "detail")
_NUMBERED = {"30": "info", "40": "warning", "50": "error", "60": "critical"}
_TRACEBACK = "Traceback (most recent call last):"


class Line(NamedTuple):
    """One line of a file; numbers count from 1."""

    file: Path
    number: int
    text: str


MOST_WORDS = 200  # characters of a line in a sentence
#: where no line shows it
NO_LINE = Line(Path(), 0, "")


def read_words(name: str, flags: int = 0) -> re.Pattern[str]:
    """Return how lines of a kind are known, by its name in `data/words.yaml`."""
    return re.compile("|".join(_KINDS[name]), flags)


def read_lines(path: Path) -> Iterator[Line]:
    """The lines of a file; of a long one its beginning and its end. None if there is no file."""
    try:
        with open_left(path) as file:
            head = file.read(_HEAD)
            yield from _split_lines(path, head, 1)
            size = os.fstat(file.fileno()).st_size
            number = 1 + head.count(b"\n")
            if (tail := size - _TAIL) > len(head):
                number += _count_lines(path, len(head), tail)
                file.seek(tail)
            yield from _split_lines(path, file.read(_HEAD + _TAIL), number)
    except OSError:
        return


def _count_lines(path: Path, begin: int, end: int) -> int:
    """How many lines end between two places of a file."""
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
        yield Line(path, number, _DRAWN.sub("", seen.decode(errors="replace")))
        number += 1


def split_record(line: Line) -> list[Line]:
    """The lines of what a program has logged as one line of JSON, with its exceptions; else it."""
    text = line.text.strip()
    if text.startswith("{") and text.endswith("}"):
        parts = list(_split_object(parse_object(text) or {}))
    else:
        before, begin, after = text.replace('\\"', '"').partition(_TRACEBACK + "\\n")
        parts = [before, _TRACEBACK, *after.split("\\n")] if begin else []
    return [line._replace(text=part) for part in parts] or [line]


def _split_object(record: dict[str, Any]) -> Iterator[str]:
    """What a record in JSON says, line by line; nothing if it is none of a log."""
    words, level = _find_value(record, _WORDS), _find_value(record, _LEVELS)
    if not (words and level):
        return
    message = ": ".join(filter(None, (words, _find_value(record, _ERRORS))))
    yield f"{_NUMBERED.get(level, level).upper()} {message}"
    for value in record.values():
        yield from _list_tracebacks(value)


def _list_tracebacks(value: object) -> Iterator[str]:
    if isinstance(value, str) and _TRACEBACK in value:
        yield _TRACEBACK
        yield from value.partition(_TRACEBACK)[2].splitlines()[1:]


def keep(lines: Iterable[Line], test: Callable[[str], object]) -> list[Line]:
    """Return the lines whose text passes a test, such as the `match` of a pattern."""
    return [line for line in lines if test(line.text)]


def drop(lines: Iterable[Line], test: Callable[[str], object]) -> list[Line]:
    """Return the lines whose text does not pass it."""
    return [line for line in lines if not test(line.text)]


def list_after_last(lines: list[Line], test: Callable[[str], object]) -> list[Line]:
    """Return the lines after the last that passes a test; all if none does."""
    passed = [at for at, line in enumerate(lines) if test(line.text)]
    return lines[passed[-1] + 1 :] if passed else lines


def _find_value(record: dict[str, Any], keys: Iterable[str]) -> str:
    values = (record.get(key) for key in keys)
    return next((str(one).strip() for one in values if isinstance(one, str | int) and one), "")
