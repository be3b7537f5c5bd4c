"""What is shown of how jobs stand and how far they have come: words, a table, or a record."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from jobgen.jobs.files import open_left, parse_object, read_if_left
from jobgen.jobs.record import JobRecord, list_reruns
from jobgen.jobs.run_folder import Traces, find_tracked, read_nodes, read_port, read_traces
from jobgen.jobs.status import JobStatus
from jobgen.jobs.verdicts import BadNode, Verdict, read_bad_nodes, read_verdicts
from jobgen.output import format_count, format_table
from jobgen.records import NamedTuple
from jobgen.rendering import header
from jobgen.schedulers.base import State
from jobgen.spec.units import format_duration, read_number

# What a row has as a job's record has it.
_OF_RECORD = ("id", "name", "scheduler", "submitted", "commit", "changed", "rerun_of", "rerun_as")
# A run may write gigabytes of it; so much of its end, and of its beginning, is read.
_BYTES = 64 * 1024
_OF_TASK = re.compile(r"(?m)^ +(\d+)\) arguments=\((.*)\)((?: \w+=.*)?) ;;$")


class Progress(NamedTuple):
    """What rank 0 has written last to `metrics.jsonl`; what it leaves out is None."""

    step: int
    steps: int | None  # of the whole training
    loss: float | None
    per_second: float | None  # tokens, or what else `unit` says, over all ranks
    unit: str
    time: float  # when that was, in seconds since 1970
    left: float | None  # seconds until all steps are done

    def as_text(self) -> str:
        """Return it for a person to read."""
        of_all = "" if self.steps is None else f" of {self.steps}"
        loss = "" if self.loss is None else f", loss {self.loss:.4g}"
        speed = "" if self.per_second is None else f", {self.per_second:,.0f} {self.unit}/s"
        return f"step {self.step}{of_all}{loss}{speed}"


class TaskState(NamedTuple):
    """One task of an array, with the arguments and variables that only it has."""

    task: int
    state: str
    reason: str
    given: str = ""


class RoleState(NamedTuple):
    """One of several programs of a job: its nodes, and how it stands by its own record."""

    role: str
    state: str
    nodes: tuple[str, ...]
    port: int | None  # its own of the job's ports, at which the others ask it


class JobRow(NamedTuple):
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
    starts: int  # the number of the last; 0 of an array
    at_most: int | None  # and of the last that a chain may have; null where none goes on
    progress: Progress | None = None
    tasks: tuple[TaskState, ...] = ()
    commit: str = ""  # that git had checked out at submission
    changed: int = 0  # files that differed from it
    rerun_of: tuple[str, ...] = ()
    rerun_as: tuple[str, ...] = ()
    # Of several programs, those that have begun; `list` has those of jobs that have not ended.
    roles: tuple[RoleState, ...] = ()
    # Filled for `status` alone; `list` leaves these empty.
    tracked: tuple[str, ...] = ()  # addresses of its W&B or MLflow runs
    verdicts: tuple[Verdict, ...] = ()  # on its failures
    bad_nodes: tuple[BadNode, ...] = ()
    listed_as: str = ""  # the ID that the scheduler has now, of a chain in which that is another
    cause: str = ""  # who failed first, and of what, where it is asked of one job

    def details(self) -> list[str]:
        """Return all about it beyond the state, a sentence a line."""
        lines = list(filter(None, [self.reason, self.cause]))
        if self.listed_as:
            lines.append(f"the scheduler has it as job {self.listed_as}")
        if self.state == "queued" and self.start is not None:
            lines.append(f"expected to start {_format_moment(self.start)}")
        following = self.state == "queued"
        number = max(1, self.starts + following)
        if self.at_most or number > 1:
            # A start after a failure may be one more than the chain counts.
            most = f" of at most {self.at_most}" if number <= (self.at_most or 0) else ""
            lines.append(f"{'next: ' * following}start {number}{most}")
        if self.progress:
            lines.append(self.progress.as_text())
        lines += self._time_left()
        return lines

    def _time_left(self) -> list[str]:
        if self.state != "running" or self.start is None:  # its scheduler no longer knows it
            return []
        parts = []
        if self.limit is not None:
            parts.append(f"{_format_span(self.limit - time.time())} of the walltime")
        if self.progress and self.progress.left is not None:
            done = self.progress.time + self.progress.left
            parts.append(f"{_format_span(done - time.time())} of the training")
        return [f"left: {', '.join(parts)}"] if parts else []


def build_row(status: JobStatus, *, tracked: bool = False) -> JobRow:
    """Return what is known of one job; with `tracked`, also what its logs say of W&B and MLflow."""
    job, state = status.job, status.state
    tells = not state.ended or (tracked and status.tasks)
    script = read_if_left(f"{job.run_folder}/script") if tells else ""
    about = None if state.ended else header.read(script)
    given = read_given(script) if tracked else {}
    row = JobRow(
        **{key: getattr(job, key) for key in _OF_RECORD},
        run_folder=os.path.relpath(job.run_folder),
        state=state.name,
        reason=state.reason,
        start=state.start,
        limit=state.limit,
        starts=status.starts,
        at_most=job.counted_from + about.at_most if about and about.at_most else None,
        tasks=tuple(_list_states(status.tasks, given)),
    )
    if tracked:
        row = row._replace(rerun_as=list_reruns(job))
    if not status.attempts or (state.ended and not tracked):
        return row
    roles = job.roles
    if not state.ended:  # of the job, or of the last of its roles
        progress = _read_progress([job, *roles.values()][-1], state.name)
        row = row._replace(progress=progress, roles=tuple(_list_roles(roles)))
    return _add_tracked(row, status, roles) if tracked else row


def _add_tracked(row: JobRow, status: JobStatus, roles: dict[str, JobRecord]) -> JobRow:
    run_folder = status.job.run_folder
    if status.state.ended:
        left = Traces(status.job, run_folder, tuple(status.attempts))
        row = row._replace(start=left.begun, limit=left.limit)
    elif row.state != "unknown" and not status.state.hopeless:
        listed = read_traces(status.job).open_chain[0]
        row = row._replace(listed_as=listed if listed != status.job.id else "")
    return row._replace(
        tracked=find_tracked(run_folder),
        verdicts=tuple(read_verdicts(status.attempts)),
        bad_nodes=tuple(read_bad_nodes(run_folder)),
        roles=tuple(_list_roles(roles)),
    )


def _list_states(states: Sequence[State], given: dict[str, str]) -> Iterator[TaskState]:
    for index, (state, reason, *_) in enumerate(states):
        yield TaskState(index, state, reason, given.get(str(index), ""))


def read_given(text: str) -> dict[str, str]:
    """Return the arguments and variables that each task of an array alone has, by its script."""
    from jobgen.spec.secrets import mask_text

    rows = _OF_TASK.findall(text)
    return {index: mask_text(f"{arguments}{more}").strip() for index, arguments, more in rows}


def _read_progress(job: JobRecord, state: str) -> Progress | None:
    progress = read_progress(job.run_dir)
    # An earlier start's numbers tell how far the run has come, but not how it goes on.
    if progress and state == "running" and progress.time < (read_traces(job).begun or 0):
        return progress._replace(loss=None, per_second=None, left=None)
    return progress


def _list_roles(roles: dict[str, JobRecord]) -> Iterator[RoleState]:
    for name, role in roles.items():
        left = read_traces(role)
        words = {
            "": "running",
            "failed": f"failed with exit code {left.code}",
            "cancelled": "stopped",
        }
        if os.path.exists(f"{role.run_folder}/STOPPED"):  # at the notice, before it was done
            words["done"] = "stopped"
        word = words.get(left.word, left.word)
        yield RoleState(name, word, tuple(read_nodes(role)), read_port(left.last, name))


def format_jobs(rows: Sequence[JobRow], *, folders: bool = False) -> str:
    """Return a line for each job, under the names of the columns; with its run folder if asked."""
    lines: list[tuple[str, ...]] = [("JOB", "NAME", "STATE", "SUBMITTED", "")]
    for each in rows:
        where = [each.run_folder] if folders else []
        when = _format_moment(each.submitted)
        lines.append((each.id, each.name, each.state, when, "; ".join([*where, *each.details()])))
    return "".join(f"{line}\n" for line in format_table(lines))


def format_details(one: JobRow) -> str:
    """Return all about one job beyond its state, with the tasks of an array."""
    lines = [*one.details(), *list_origins(one)]
    lines += map(_format_role, one.roles)
    lines += [f"tracked at {address}" for address in one.tracked]
    lines += [str(judged) for judged in (*one.verdicts, *one.bad_nodes)]
    lines += _list_tasks(one.tasks)
    return "".join(f"{line}\n" for line in lines)


def _format_role(role: RoleState) -> str:
    port = f", port {role.port}" if role.port and role.state == "running" else ""
    return f"{role.role} {role.state}, on {', '.join(role.nodes)}{port}"


def _list_tasks(tasks: Sequence[TaskState]) -> Iterator[str]:
    for task in tasks:
        about = ", ".join(filter(None, [task.given, task.reason]))
        yield f"task {task.task}: {task.state}  {about}".rstrip()


def list_origins(one: JobRow | JobRecord) -> list[str]:
    """Return which code it runs, and what it has to do with other jobs, a sentence each."""
    lines = []
    if one.commit:
        files = format_count(one.changed, "changed file")
        more = f" and {files} (code.diff)" if one.changed else ""
        lines.append(f"code: commit {one.commit[:12]}{more}")
    if one.rerun_of:
        lines.append(f"reruns {', '.join(one.rerun_of)}")
    if one.rerun_as:
        lines.append(f"was rerun as {', '.join(one.rerun_as)}")
    return lines


def format_brief(status: JobStatus) -> str:
    """Return one line for who waits: `queued, Priority, expected to start 14:05`."""
    row, nodes = build_row(status), read_nodes(status.job)
    where = ""
    if nodes and row.state == "running":
        where = f" on {nodes[0]}-{nodes[-1]}" if len(nodes) > 1 else f" on {nodes[0]}"
    return ", ".join([row.state + where, *row.details()])


def _format_moment(moment: float) -> str:
    """Return a time of this machine's zone, without the date if that is today."""
    when, today = time.localtime(moment), time.localtime()
    return time.strftime("%H:%M" if when[:3] == today[:3] else "%Y-%m-%d %H:%M", when)


def _format_span(seconds: float) -> str:
    return format_duration(max(0, round(seconds)))


def read_progress(run_dir: Path) -> Progress | None:
    """Return how far the program has come by its metrics; None if there are none to read."""
    try:
        with open_left(run_dir / "metrics.jsonl") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - _BYTES))
            end = file.read()
            step, start = _read_last("step", end), _read_last("start", end)
            if step and start is None:
                file.seek(0)
                start = _read_last("start", file.read(_BYTES))
        return _build_progress(step, start or {}) if step else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _read_last(kind: str, data: bytes) -> dict[str, Any] | None:
    """Return the last complete line of this kind."""
    for text in reversed(data.splitlines()):
        # To look for the word is far quicker than to read the line.
        line = parse_object(text) if f'"{kind}"'.encode() in text else None
        if line and line.get("kind") == kind:
            return line
    return None


def _build_progress(last: dict[str, Any], start: dict[str, Any]) -> Progress:
    speed = next((key for key in last if key.endswith("_per_s")), "")
    step, steps = int(last["step"]), start.get("steps")
    steps = steps if isinstance(steps, int) else None
    seconds = read_number(last.get("step_s"))
    left = None if steps is None or seconds is None else max(0, steps - step) * seconds
    return Progress(
        step=step,
        steps=steps,
        loss=read_number(last.get("loss")),
        per_second=read_number(last.get(speed)),
        unit=speed.removesuffix("_per_s"),
        time=float(last["time"]),
        left=left,
    )
