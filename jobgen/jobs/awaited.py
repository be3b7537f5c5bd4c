"""The jobs that a submission is to wait for: found by name, and told apart by how they stand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from jobgen.errors import UsageError
from jobgen.jobs.dependencies import list_dependencies
from jobgen.jobs.files import read_if_left
from jobgen.jobs.find import find_job
from jobgen.jobs.queries import SchedulerAnswer
from jobgen.jobs.record import JobRecord, folder_name
from jobgen.jobs.status import list_namesakes, look
from jobgen.jobs.submission import Submission
from jobgen.output import offer_line
from jobgen.plan.plan import Dependency
from jobgen.rendering import header
from jobgen.schedulers.base import Scheduler, StateName

_Warn = Callable[[str], object]
_Wait = tuple[str, str]  # the kind, and the ID of the job


def find_awaited(text: str) -> tuple[str, list[str]]:
    """Return the `[KIND:]JOB` of --after with the IDs of jobs that it has by name, and remarks.

    Of a chain it is the ID of the last job, or for `after` of the first. Raises UsageError if no
    job below ./runs has the name.
    """
    if "," in text:  # as sbatch takes it
        each = offer_line(*(word for part in text.split(",") for word in ("--after", part)))
        raise UsageError(f"--after {text!r}: give the option, with its kind, for each: {each}")
    kind, colon, words = text.rpartition(":") if text.count(":") < 2 else text.partition(":")
    jobs = [(word, _find_named(text, word)) for word in words.split(":")]
    ids = [_choose_id(word, job, kind) if job else word for word, job in jobs]
    remarks = [_name_others(job) for word, job in jobs if job and word == job.name]
    return f"{kind}{colon}{':'.join(ids)}", [remark for remark in remarks if remark]


def _find_named(text: str, word: str) -> JobRecord | None:
    try:
        return find_job(word) if word else None
    except UsageError as error:
        if word[0].isalpha():
            raise UsageError(f"--after {text!r}: {error}") from None
        return None


def _choose_id(word: str, job: JobRecord, kind: str) -> str:
    if not job.links:
        return job.id if word[0].isalpha() else word
    return job.id if kind == "after" else job.links[-1]


def _name_others(job: JobRecord) -> str:
    others = list_namesakes(job)
    go = "go" if others[1:] else "goes"
    also = f"{', '.join(others)} of that name {go} on, too"
    return f"--after {job.name}: it waits for the latest, {job.id}; {also}" if others else ""


def settle_waits(submission: Submission, warn: _Warn) -> Submission:
    """Return the submission without the jobs of --after that have ended as they are to.

    Raises UsageError for a job that has ended otherwise. A job that its scheduler no longer knows
    is worth a warning, and on PBS UsageError: it would delete this one at once.
    """
    scheduler, given = submission.scheduler, submission.after
    own = list_dependencies(scheduler.dependencies(submission.head))
    waits = [*((one.kind, id) for one in given for id in one.jobs), *own]
    come = _find_come(waits, scheduler, warn)
    if scheduler.can.deletes_waiting:
        _refuse_ended([id for kind, id in own if (kind, id) in come])
    jobs = (tuple(id for id in one.jobs if (one.kind, id) not in come) for one in given)
    left = (Dependency(one.kind, some) for one, some in zip(given, jobs, strict=True) if some)
    return replace(submission, after=tuple(left))


def _refuse_ended(ids: list[str]) -> None:
    if ids:
        hint = "take it out of after; for a rerun, give --set after=null"
        raise UsageError(f"job {ids[0]}, for which this one would wait, has ended; {hint}")


def _find_come(waits: list[_Wait], scheduler: Scheduler, warn: _Warn) -> list[_Wait]:
    """Return those whose job has ended, as it is to; raise UsageError for one that never comes."""
    jobs = {id: job for _, id in waits if (job := _find_known(id, scheduler, warn))}
    states = {id: one.state for id, one in zip(jobs, look([*jobs.values()]).jobs, strict=True)}
    come = [(kind, id) for kind, id in waits if id in states and states[id].ended]
    for kind, id in come:
        _refuse_missed(kind, id, jobs[id].name, states[id].name)
    for kind, id in waits:
        if kind != "after" and id in jobs and not states[id].ended:
            _refuse_link(f"{kind}:{id}", jobs[id])
    return come


def _refuse_missed(kind: str, id: str, name: str, end: StateName) -> None:
    """Raise UsageError for a job that has ended otherwise than as it is to."""
    if (kind, end == "done") in (("afterok", False), ("afternotok", True)):
        words = f"{name} {id} has ended ({end}), so a job that waits for it never starts"
        raise UsageError(f"{kind}:{id}: {words}")


def _refuse_link(wait: str, job: JobRecord) -> None:
    """Raise UsageError for a job of a chain that goes on: its end is not that of the chain."""
    about = header.read(read_if_left(job.run_dir / "script"))
    if about and about.then == "resubmit":
        why = f"{job.name} {job.id} is a chain, whose next jobs do not exist yet"
        line = offer_line("jobgen", "wait", job.id)
        raise UsageError(f"{wait}: {why}; instead: {line} && jobgen submit ...")
    if job.links and folder_name(wait.rpartition(":")[2]) != folder_name(job.links[-1]):
        raise UsageError(
            f"{wait}: the chain {job.name} {job.id} ends with {job.links[-1]}: write that"
        )


def _find_known(id: str, scheduler: Scheduler, warn: _Warn) -> JobRecord | None:
    """Return a job of this folder; raise UsageError for another that would have this deleted."""
    try:
        return find_job(id)
    except UsageError:
        answer = SchedulerAnswer(scheduler.name, {id: [folder_name(id)]})
        if not (answer.doubt or answer.states):
            title = scheduler.can.title
            if scheduler.can.deletes_waiting:
                why = f"{title} knows no job {id}, and deletes one that waits for it"
                raise UsageError(why) from None
            warn(f"warning: {title} knows no job {id}, and so waits for none")
        return None
