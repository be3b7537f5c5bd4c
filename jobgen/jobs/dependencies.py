"""The jobs that a job waits for, or needed to end well, and how they stand."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from functools import cache
from glob import escape, iglob

from jobgen.jobs.files import RUNS, read_if_left
from jobgen.jobs.queries import GONE, SchedulerAnswer
from jobgen.jobs.record import RECORD, JobRecord, folder_name, read_sound
from jobgen.jobs.run_folder import list_chain, read_traces
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
        return self.kind == "afterok" and self.word in {*ENDED, GONE} - {"done"}

    @property
    def never_began(self) -> bool:
        """Whether it ended before: PBS deletes who waits for it, or lets it wait without end."""
        return self.word in ("cancelled", GONE) and not self.begun


def name_others(
    job: JobRecord, state: State, answer: SchedulerAnswer | None, *, begun: bool
) -> State:
    """Add which jobs a job waits for and how they stand, or which it needed to end well.

    Of those not begun the scheduler's answer may tell.
    """
    if state.name == "queued" and state.reason.startswith(DEPENDENT):
        others = [*_list_lost_links(job, state.reason, answer), *_list_others(job, answer)]
        waits = _describe_wait(job, others)
        return state._replace(reason=re.sub("[^;]*", waits, state.reason, count=1))
    if begun or state.name not in ("cancelled", "unknown"):
        return state
    reasons = filter(None, [state.reason, _tell_unmet(job, _list_others(job, answer))])
    return state._replace(reason="; ".join(reasons))


def _describe_wait(job: JobRecord, others: list[_Other]) -> str:
    """Say for which jobs one waits, and whether it does so in vain."""
    if unmet := _tell_unmet(job, others):  # the scheduler may keep it waiting all the same
        return f"{unmet}, so it never starts: cancel it"
    return f"it waits for {', '.join(map(str, others))}" if others else DEPENDENT


def find_unmet(job: JobRecord) -> str:
    """Return which job has not ended as this one needed, by its files; empty if all may have."""
    return _tell_unmet(job, _list_others(job))


def _tell_unmet(job: JobRecord, others: Iterable[_Other]) -> str:
    vain = SCHEDULERS[job.scheduler].can.deletes_waiting
    for other in others:
        if other.is_unmet or (vain and other.never_began):
            return f"it needed {other}{', which never began' * (not other.is_unmet)}"
    return ""


def _list_lost_links(
    job: JobRecord, reason: str, answer: SchedulerAnswer | None
) -> Iterator[_Other]:
    """Yield the jobs of a chain that are gone, and for which its next one waits in vain."""
    chain = {*map(folder_name, list_chain(job))}
    for kind, job_id in list_dependencies(reason):
        if answer and folder_name(job_id) in chain and (word := answer.find_end(job_id)):
            yield _Other(kind, f"job {job_id}", word)


def _list_others(job: JobRecord, answer: SchedulerAnswer | None = None) -> Iterator[_Other]:
    """Yield each job that this one waits for; of those not begun, the scheduler may tell."""
    for kind, job_id in _read_dependencies(job):
        other = _find_recorded(job.folder, job_id) or _find_chain(job, job_id)
        if other is None:
            yield _Other(kind, f"job {job_id}")
        else:
            yield _look_at_other(kind, other, answer)


def _find_recorded(folder: str, job_id: str) -> JobRecord | None:
    """Return the job of an ID, or the task of an array, whose record is the array's."""
    number, _, index = folder_name(job_id).partition("_")
    job = next(_list_records(folder, number), None)
    if job and job.together == 1 and index.isdecimal() and int(index) < job.tasks:
        return job.task(int(index))
    return job


def _look_at_other(kind: str, other: JobRecord, answer: SchedulerAnswer | None) -> _Other:
    word, begun = _describe_end(other), bool(read_traces(other).attempts)
    if answer and word == "not begun" and not other.local:
        word = answer.find_end(other.id) or word
    return _Other(kind, f"{other.name} {other.id}", word, begun)


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
