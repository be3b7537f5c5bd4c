"""How commands print: data to stdout, messages to stderr."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence

from jobgen.output import format_json, make_printable, offer_line


def can_ask() -> bool:
    """Return whether somebody reads a question on stderr and can answer it."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def put_err(text: str, *, end: str = "\n") -> None:
    """Write to stderr; what schedulers and jobs have said may hold what a terminal would obey."""
    sys.stderr.write((make_printable(text) if sys.stderr.isatty() else text) + end)
    sys.stderr.flush()


def put_out(data: object) -> None:
    """Write to stdout now: a text as it is, anything else as JSON (`docs/reference/json.md`).

    A closed pipe is noticed here and not when Python ends.
    """
    if sys.stdout is None:  # by `>&-`
        raise OSError(errno.EBADF, os.strerror(errno.EBADF), "stdout")
    sys.stdout.write(data if isinstance(data, str) else format_json(data))
    sys.stdout.flush()


def put_answer(data: object, text: str, *, as_json: bool) -> None:
    """Write what a command answers: its data as JSON where --json asks for that, or its text."""
    put_out(data) if as_json else put_text(text)


def put_text(text: str) -> None:
    """Write to stdout what may hold words of schedulers and jobs, as `put_err` does to stderr."""
    put_out(make_printable(text) if sys.stdout and sys.stdout.isatty() else text)


def report_recoveries() -> None:
    """Report what became of interrupted submissions, before a command looks at jobs."""
    from jobgen import recover_submissions

    for message in recover_submissions():
        put_err(message)


def take_host() -> list[str]:
    """Return the option by which a laptop that sent this command names this place; of no job."""
    host = os.environ.pop("JOBGEN_HOST", "")
    return ["--host", host] if host else []


def put_next(host: list[str], ids: Sequence[str]) -> None:
    """Write what to type about submitted jobs; a shell may take brackets for a pattern."""
    logs = offer_line("jobgen", "logs", "-f", *host, ids[0])
    put_err(f"next: {logs}, {offer_line('jobgen', 'status', *host, *ids)}")
