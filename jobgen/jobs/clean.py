"""Run folders that are no longer needed: find them, measure them, remove them."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from jobgen.jobs.code import DIFF, name_copy
from jobgen.jobs.files import RUNS, read_run_file
from jobgen.jobs.record import PLAN, RECORD, JobRecord
from jobgen.jobs.run_folder import CANCEL, NOTE, read_traces
from jobgen.jobs.status import JobStatus, StatusReport
from jobgen.records import NamedTuple
from jobgen.schedulers.base import State

# What `keep` leaves beside that: by it the job is known, and how it has ended.
_KEPT = {RECORD, PLAN, DIFF, NOTE, CANCEL, "job.yaml", "script", "attempts"}
# Where the calls of a function are, as the script of its job has it (see `function`).
_CALLS = re.compile(rf"{RUNS}/[A-Za-z0-9._-]+/calls/[0-9]+-[0-9]+-[0-9a-f]+(?=/call\.py)")


class Waste(NamedTuple):
    """What to remove of a job that has ended."""

    job: JobRecord
    state: State
    paths: tuple[Path, ...]
    size: int  # bytes


def find_waste(
    seen: StatusReport, *, before: float, named: bool, failed: bool, keep: Collection[str]
) -> list[Waste]:
    """Return what can be removed of the jobs seen that ended before the time `before`.

    Of those that the user has `named`, also of one that its scheduler no longer knows. With
    `failed`, only of those that are not done: of an array with tasks that are, its other tasks.
    What is in `keep` stays, by its name in the run folder, and the record with it. The calls of a
    function go with the last job that makes them.
    """
    unknown = named and not seen.silences
    ended = (one for one in seen.jobs if one.state.ended or (unknown and one.forgotten))
    over = [one for one in ended if _find_end(one.job) < before]
    going = [part for one in over for part in _list_going(one, failed=failed)]
    calls = _find_calls([job for job, _ in going])
    wastes, counted = list[Waste](), set[Path]()  # a task may be named beside its array
    for job, state in going:
        if paths := tuple(sorted({*_list_removed(job, keep), *calls[job.run_dir]} - counted)):
            wastes.append(Waste(job, state, paths, sum(map(_measure, paths))))
            counted.update(paths)
    return wastes


def _list_going(one: JobStatus, *, failed: bool) -> list[tuple[JobRecord, State]]:
    """Return a job, or with `failed` only those tasks that are not done if others of it are."""
    parts = zip(one.job.parts, one.states, strict=True)
    undone = [(job, state) for job, state in parts if state.name != "done"]
    return undone if failed and len(undone) < len(one.states) else [(one.job, one.state)]


def remove_waste(waste: Waste) -> None:
    """Remove it without following links, and the folders that it leaves empty."""
    for path in waste.paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    for name in ("submissions", "code", "calls", ""):
        _remove_empty(waste.job.run_dir.parent / name)


def _remove_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):  # others have files there
        folder.rmdir()


def _is_own(folder: Path, runs: Path) -> bool:
    """Return whether a folder exists below `runs`, and no link leads elsewhere."""
    return folder.is_dir() and folder.resolve() == runs.resolve() / folder.relative_to(runs)


def _list_parts(job: JobRecord) -> list[JobRecord]:
    return [job, *job.parts[: job.tasks]]


def _find_end(job: JobRecord) -> float:
    return max(job.submitted, *(read_traces(part).ended for part in _list_parts(job)))


def _find_calls(jobs: Sequence[JobRecord]) -> dict[Path, list[Path]]:
    """Find the calls of functions that only these jobs make, by the run folder of one."""
    going, makers = {job.run_dir for job in jobs}, defaultdict[Path, list[Path]](list)
    for runs in {Path(job.folder, RUNS) for job in jobs}:
        for path in runs.glob("*/*/script") if any(runs.glob("*/calls")) else ():
            with contextlib.suppress(OSError):
                for calls in set(_CALLS.findall(read_run_file(path).decode(errors="replace"))):
                    if _is_own(runs.parent / calls, runs):
                        makers[runs.parent / calls].append(path.parent)
    unneeded = defaultdict[Path, list[Path]](list)
    for calls, folders in makers.items():
        if going.issuperset(folders):
            unneeded[folders[0]].append(calls)
    return unneeded


def _list_removed(job: JobRecord, keep: Collection[str]) -> Iterator[Path]:
    """Yield what to remove: the run folders, or their contents, and the copy of the code."""
    runs = Path(job.folder, RUNS)
    for folder in (one.run_dir for one in _list_parts(job) if _is_own(one.run_dir, runs)):
        if keep:
            yield from (path for path in folder.iterdir() if path.name not in {*keep, *_KEPT})
        else:
            yield folder
    copy = Path(job.folder, name_copy(job.name, job.token))
    if job.token and not job.array and _is_own(copy, runs):  # which all tasks run
        yield copy


def _measure(path: Path) -> int:
    if path.is_symlink() or not path.is_dir():
        return path.lstat().st_size
    files = (os.path.join(where, name) for where, _, names in os.walk(path) for name in names)
    return sum(os.lstat(file).st_size for file in files)
