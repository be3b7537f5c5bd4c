"""The jobs that a job waits for, or needed to end well, and how they stand."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from functools import cache
from glob import escape, iglob

from jobgen.jobs.files import RUNS, read_if_left
from jobgen.jobs.queries import SchedulerAnswer
from jobgen.jobs.record import RECORD, JobRecord, folder_name, read_sound
from jobgen.jobs.run_folder import read_traces
from jobgen.records import NamedTuple
from jobgen.schedulers import SCHEDULERS
from jobgen.schedulers.base import DEPENDENT, ENDED, State

_DEPENDENCY = re.compile(r"\b(after\w*):([^,?\s@]+)")


class _Other(NamedTuple):
    """A job that another waits for: how, its name and ID, and how it stands, as far as known."""

    kind: str
    name: str
    word: str = ""
    begun: bool = False

    def __str__(self) -> str:
        return f"{self.name} ({self.word})" if self.word else self.name

    @property
    def is_unmet(self) -> bool:
        """Whether it has not ended as it was to."""
        return self.kind == "afterok" and self.word in {*ENDED} - {"done"}


def name_others(job: JobRecord, state: State, *, begun: bool, alone: bool = False) -> State:
    """Add which jobs a job waits for and how they stand, or which it needed to end well.

    The scheduler is asked for those of a job that is looked at `alone`.
    """
    if state.name == "queued" and state.reason.startswith(DEPENDENT):
        waits = _describe_wait(job, list(_list_others(job, ask=alone)))
        return state._replace(reason=re.sub("[^;]*", waits, state.reason, count=1))
    if begun or state.name not in ("cancelled", "unknown"):
        return state
    reasons = filter(None, [state.reason, find_unmet(job)])
    return state._replace(reason="; ".join(reasons))


def _describe_wait(job: JobRecord, others: list[_Other]) -> str:
    """Say for which jobs one waits, and whether it does so in vain."""
    unmet = next((f"it needed {other}" for other in others if other.is_unmet), "")
    if SCHEDULERS[job.scheduler].can.deletes_waiting and not unmet:
        # PBS lets who waits for a job that ends before it begins wait without end, whatever for.
        lost = (one for one in others if one.word == "cancelled" and not one.begun)
        unmet = next((f"it waits for {other}, which never began" for other in lost), "")
    if unmet:  # the scheduler may keep it waiting all the same
        return f"{unmet}, so it never starts: cancel it"
    return f"it waits for {', '.join(map(str, others))}" if others else DEPENDENT


def find_unmet(job: JobRecord) -> str:
    """Return which job has not ended well that this one needed; empty if all may have."""
    return next((f"it needed {other}" for other in _list_others(job) if other.is_unmet), "")


def _list_others(job: JobRecord, *, ask: bool = False) -> Iterator[_Other]:
    """Yield each job that this one waits for; `ask` the scheduler about those not begun."""
    if ask and (link := read_traces(job).awaited) and _has_gone(job.scheduler, link):
        yield _Other("afterany", f"job {link}", "cancelled")  # whose later ones wait in vain
    for kind, job_id in _read_dependencies(job):
        other = _find_recorded(job.folder, job_id) or _find_chain(job, job_id)
        if other is None:
            yield _Other(kind, f"job {job_id}")
        else:
            yield _look_at_other(kind, other, ask=ask)


def _find_recorded(folder: str, job_id: str) -> JobRecord | None:
    """Return the job of an ID, or the task of an array, whose record is the array's."""
    number, _, index = folder_name(job_id).partition("_")
    job = next(_list_records(folder, number), None)
    if job and job.together == 1 and index.isdecimal() and int(index) < job.tasks:
        return job.task(int(index))
    return job


def _look_at_other(kind: str, other: JobRecord, *, ask: bool) -> _Other:
    word, begun = _describe_end(other), bool(read_traces(other).attempts)
    if ask and word == "not begun" and not other.local and _has_gone(other.scheduler, other.id):
        word = "cancelled"
    return _Other(kind, f"{other.name} {other.id}", word, begun)


def _has_gone(scheduler: str, job_id: str) -> bool:
    """Return whether the scheduler says that a job that has not begun has ended."""
    name = folder_name(job_id)
    answer = SchedulerAnswer(scheduler, {job_id: [name]})
    state = answer.states.get(name)
    return state.name == "cancelled" if state else not answer.doubt


def _list_records(folder: str, name: str = "*") -> Iterator[JobRecord]:
    return read_sound(iglob(f"{escape(folder)}/{RUNS}/*/{name}/{RECORD}"))


def _find_chain(waiting: JobRecord, job_id: str) -> JobRecord | None:
    """Return the job of whose chain a later one has this ID, which `--after` of a chain waits for.

    Of thousands of jobs that wait, all records are read for the first that needs it, and again for
    one that was submitted since.
    """
    if _read_chains(waiting.folder)[0] < waiting.submitted:
        _read_chains.cache_clear()
    return _read_chains(waiting.folder)[1].get(folder_name(job_id))


@cache
def _read_chains(folder: str) -> tuple[float, dict[str, JobRecord]]:
    """Return when this was read, and the jobs that are chains by the names of their later IDs."""
    jobs = _list_records(folder)
    return time.time(), {folder_name(id): job for job in jobs for id in job.links}


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
