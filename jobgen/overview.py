"""What is shown of how jobs stand: a word, a table, or a record for programs."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from typing import NamedTuple

from jobgen import progress
from jobgen.progress import Progress
from jobgen.status import Standing
from jobgen.units import format_duration

_AT_MOST = re.compile(r"^out_of_starts\(\) \{ \(\(attempt \+ 1 >= (\d+)\)\)", re.MULTILINE)


class Task(NamedTuple):
    """One task of an array."""

    task: int
    state: str
    reason: str


class Row(NamedTuple):
    """A job as `--json` prints it; times are in seconds since 1970."""

    id: str
    name: str
    scheduler: str
    run_folder: str
    submitted: float
    state: str
    reason: str
    start: float | None  # of a queued job, when that is expected
    limit: float | None  # when its walltime ends
    starts: int  # so far; 0 of an array
    at_most: int | None  # starts of a chain; null where it is none, or has ended
    progress: Progress | None
    tasks: tuple[Task, ...]

    def details(self) -> list[str]:
        """All that there is to say beyond the state, a sentence a line."""
        lines = [self.reason] if self.reason else []
        if self.state == "queued" and self.start is not None:
            lines.append(f"expected to start {_clock(self.start)}")
        if self.at_most:
            lines.append(f"start {max(1, self.starts)} of at most {self.at_most}")
        elif self.starts > 1:
            lines.append(f"start {self.starts}")
        if self.progress:
            lines.append(self.progress.as_text())
        lines += self._time_left()
        return lines

    def _time_left(self) -> list[str]:
        if self.state != "running":
            return []
        parts = []
        if self.limit is not None:
            parts.append(f"{_span(self.limit - time.time())} of the walltime")
        if self.progress and self.progress.left is not None:
            done = self.progress.time + self.progress.left
            parts.append(f"{_span(done - time.time())} of the training")
        return [f"left: {', '.join(parts)}"] if parts else []


def row(standing: Standing) -> Row:
    """What is known of one job."""
    job, state = standing.job, standing.state
    begun = bool(standing.starts)
    return Row(
        id=job.id,
        name=job.name,
        scheduler=job.scheduler,
        run_folder=os.path.relpath(job.run_folder),
        submitted=job.submitted,
        state=state.name,
        reason=state.reason,
        start=state.start,
        limit=state.limit,
        starts=standing.starts,
        at_most=None if state.ended else _at_most(standing),
        progress=progress.read(job.run_dir) if begun and not state.ended else None,
        tasks=tuple(Task(index, *task[:2]) for index, task in enumerate(standing.tasks)),
    )


def table(rows: Sequence[Row]) -> str:
    """A line for each job, and the names of the columns before them."""
    lines = [("JOB", "NAME", "STATE", "SUBMITTED", "")]
    lines += [
        (each.id, each.name, each.state, _clock(each.submitted), "; ".join(each.details()))
        for each in rows
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "".join(
        "  ".join(f"{cell:{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()
        + "\n"
        for line in lines
    )


def alone(one: Row) -> str:
    """What there is to say of one job beyond its state, with the tasks of an array."""
    lines = one.details()
    for task in one.tasks:
        reason = f"  {task.reason}" if task.reason else ""
        lines.append(f"task {task.task}: {task.state}{reason}")
    return "".join(f"{line}\n" for line in lines)


def _at_most(standing: Standing) -> int | None:
    try:
        script = (standing.job.run_dir / "script").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None
    found = _AT_MOST.search(script)
    return int(found[1]) if found else None


def _clock(moment: float) -> str:
    """A time of this machine's zone, without the date where that is today."""
    when, today = time.localtime(moment), time.localtime()
    return time.strftime("%H:%M" if when[:3] == today[:3] else "%Y-%m-%d %H:%M", when)


def _span(seconds: float) -> str:
    return format_duration(max(0, round(seconds)))
