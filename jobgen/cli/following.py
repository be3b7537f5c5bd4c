"""What a command prints while it waits for a job."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from glob import escape, glob
from threading import Event, Thread
from typing import TYPE_CHECKING

from jobgen.cli.printing import put_err, put_text
from jobgen.errors import JobFailedError
from jobgen.output import make_printable, offer_line

if TYPE_CHECKING:
    from jobgen.api import Job
    from jobgen.jobs.record import JobRecord
    from jobgen.jobs.status import JobStatus, StatusReport
    from jobgen.schedulers.base import State


class QueueNews:
    """Why jobs wait in the queue, in the scheduler's words: once, and at each change."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}

    def tell(self, report: StatusReport) -> None:
        """Print what has changed since the last report."""
        for each in report.jobs:
            reason = _find_wait(each)
            last = each.state.hopeless and len(report.jobs) == 1  # the end says it
            if reason and not last and reason != self._reasons.get(each.job.id):
                put_err(f"job {each.job.id} is queued: {reason}")
                self._reasons[each.job.id] = reason


def _find_wait(seen: JobStatus) -> str:
    """Return why a job is queued, or all tasks of an array that have not ended."""
    if seen.state.name == "queued":
        return seen.state.reason
    left = {task.name: task.reason for task in seen.tasks if not task.ended}
    return left["queued"] if left.keys() == {"queued"} else ""


class StatusLine:
    """The state of a job, on one line of the terminal that changes with it."""

    def __init__(self) -> None:
        self.state: State | None = None  # as it was reported last
        self._on_terminal = sys.stderr.isatty()
        self._shown = ""
        self._news = QueueNews()

    def show(self, report: StatusReport) -> None:
        """Write the line if it has changed; off a terminal, only say why the job is queued."""
        self.state = report.jobs[0].state
        if not self._on_terminal:
            self._news.tell(report)
            return
        from shutil import get_terminal_size

        from jobgen.jobs.table import format_brief

        text = make_printable(format_brief(report.jobs[0]))[: get_terminal_size().columns - 1]
        if text != self._shown:
            sys.stdout.flush()
            self._write(text)

    def clear(self) -> None:
        """Clear the line before other output."""
        if self._shown:
            self._write("")

    def _write(self, text: str) -> None:
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()
        self._shown = text


def follow_job(job: Job) -> State:
    """Print the lines of the script and of rank 0 until the job ends; return its last state."""
    standing = StatusLine()
    try:
        for line in job.follow(rank=0, script=True, notice=standing.show):
            standing.clear()
            put_err(line.text if line.task is None else str(line))
    except KeyboardInterrupt:
        standing.clear()
        say_they_go_on([job.id])
        raise
    standing.clear()
    assert standing.state is not None
    return standing.state


_PRINTED = ("logs/*/rank-0.out", "roles/*/logs/*/rank-0.out")  # in a run folder


def run_shown(argv: Sequence[str], name: str) -> int:
    """Run the script of a job here, and print what its rank 0 prints; return its exit code."""
    from jobgen.jobs.files import RUNS
    from jobgen.process import run_here

    runs, ended = os.path.join(RUNS, escape(name), "*"), Event()
    before = (path for one in ("attempts/*", *_PRINTED) for path in glob(f"{runs}/{one}"))
    known = {path: os.path.getsize(path) for path in before}
    reader = Thread(target=_show_rank, args=(f"{runs}/attempts/*", known, ended))
    reader.start()
    try:
        return run_here(argv)
    finally:
        ended.set()
        reader.join()


def _show_rank(starts: str, known: dict[str, int], ended: Event) -> None:
    """Print what rank 0 adds to its files where a start is not `known`, until the end."""
    over = False
    while not over:
        over = ended.wait(1)  # what came before it is read after it
        folders = [escape(one.rpartition("/attempts/")[0]) for one in {*glob(starts)} - {*known}]
        files = [path for one in folders for form in _PRINTED for path in glob(f"{one}/{form}")]
        with suppress(OSError):  # of a folder that is removed, or a terminal that is gone
            for path in files:
                known[path] = _print_lines(path, known.get(path, 0), whole=not over)


def _print_lines(path: str, start: int, *, whole: bool) -> int:
    """Print a file from a place on; return where it ends, or the `whole` lines in it do."""
    with open(path, "rb") as file:
        file.seek(start)
        lines = file.read()
    lines = lines[: lines.rfind(b"\n") + 1] if whole else lines
    put_text(lines.decode(errors="replace"))
    return start + len(lines)


def name_cause(job: JobRecord, state: State) -> str:
    """Return who failed first, and of what, as `jobgen diagnose` says, if that is known.

    Empty if the state's reason says the same.
    """
    import time

    from jobgen.diagnose import find_failure

    with suppress(OSError, ValueError):
        failure = None if job.tasks else find_failure(job, state, now=time.time())
        if failure and failure.cause != "unknown" and failure.headline != state.reason:
            return failure.brief
    return ""


def raise_failures(ended: Sequence[tuple[JobRecord, State]]) -> None:
    """Raise JobFailedError for jobs that are not done; of one, with the cause."""
    bad = [(job, state) for job, state in ended if state.name != "done"]
    lines = [f"job {job.id}: {state.described}" for job, state in bad]
    if bad and len(ended) == 1 and bad[0][1].ended:
        lines.append(name_cause(*bad[0]))
    if bad:
        raise JobFailedError("\n".join(filter(None, lines)))


def say_they_go_on(ids: Sequence[str]) -> None:
    """Say, after Ctrl-C, that the jobs are still running."""
    if not ids:
        return
    subject, verb, them = ("job", "is", "it") if len(ids) == 1 else ("jobs", "are", "them")
    wait, end = (offer_line("jobgen", what, *ids) for what in ("wait", "cancel"))
    hint = f"wait for {them} with {wait}, or end {them} with {end}"
    put_err(f"{subject} {', '.join(ids)} {verb} not cancelled; {hint}")
