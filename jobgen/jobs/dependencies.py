"""The jobs that a job waits for, or needed to end well, and how they stand."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from glob import escape, iglob

from jobgen.jobs.files import RUNS, read_if_left
from jobgen.jobs.record import RECORD, JobRecord, folder_name, read_sound
from jobgen.jobs.run_folder import read_traces
from jobgen.schedulers import SCHEDULERS
from jobgen.schedulers.base import DEPENDENT, ENDED, State

_DEPENDENCY = re.compile(r"\b(after\w*):([^,?\s@]+)")


def name_others(job: JobRecord, state: State, *, begun: bool) -> State:
    """Add which jobs a job waits for and how they stand, or which it needed to end well."""
    if state.name == "queued" and state.reason.startswith(DEPENDENT):
        others = ", ".join(words for _, words, _ in _list_others(job))
        waits = f"it waits for {others}" if others else DEPENDENT
        if unmet := find_unmet(job):  # PBS may keep it waiting for ever
            waits = f"{unmet}, so it never starts: cancel it"
        return state._replace(reason=re.sub("[^;]*", waits, state.reason, count=1))
    if begun or state.name not in ("cancelled", "unknown"):
        return state
    reasons = filter(None, [state.reason, find_unmet(job)])
    return state._replace(reason="; ".join(reasons))


def find_unmet(job: JobRecord) -> str:
    """Return which job has not ended well that this one needed; empty if all may have."""
    needed = (words for kind, words, bad in _list_others(job) if bad and kind == "afterok")
    return next((f"it needed {words}" for words in needed), "")


def _list_others(job: JobRecord) -> Iterator[tuple[str, str, bool]]:
    """Yield the kind of each dependency, its job in words, and whether that has failed."""
    for kind, job_id in _read_dependencies(job):
        records = _list_records(job.folder, folder_name(job_id))
        other = next(records, None) or _read_chains(job.folder).get(folder_name(job_id))
        if other is None:
            yield kind, f"job {job_id}", False
        else:
            word = _describe_end(other)
            yield kind, f"{other.name} {other.id} ({word})", word in {*ENDED} - {"done"}


def _list_records(folder: str, name: str = "*") -> Iterator[JobRecord]:
    return read_sound(iglob(f"{escape(folder)}/{RUNS}/*/{name}/{RECORD}"))


@cache
def _read_chains(folder: str) -> dict[str, JobRecord]:
    """Return the jobs that are chains by their later IDs, for which `--after` of a chain waits.

    They are read once, as thousands of jobs may wait.
    """
    return {folder_name(id): job for job in _list_records(folder) for id in job.links}


def _read_dependencies(job: JobRecord) -> list[tuple[str, str]]:
    waits = " ".join(job.argv)  # these are in the place of the script's, and have them too
    if not _DEPENDENCY.search(waits):
        text = read_if_left(job.whole_dir / "script")
        waits = SCHEDULERS[job.scheduler].dependencies(text)
    return list_dependencies(waits)


def list_dependencies(waits: str) -> list[tuple[str, str]]:
    """Return each kind and ID in what an option says, such as `afterok:12:13`."""
    return [(kind, id) for kind, ids in _DEPENDENCY.findall(waits) for id in ids.split(":")]


def _describe_end(job: JobRecord) -> str:
    left = read_traces(job)
    if kept := left.kept_state:
        return kept.name
    parts = [left] if left.attempts else [*map(read_traces, job.parts)]  # of a local array its own
    words = [part.word for part in parts]
    word = next((word for word in words if word != "done"), "done")
    if all(words) and word != "continued":
        return "cancelled" if left.cancelled and left.told_to_end else word
    if any(part.attempts for part in parts):
        return "running"
    return "cancelled" if left.cancelled else "not begun"
