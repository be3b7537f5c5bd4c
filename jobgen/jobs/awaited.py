"""The jobs that a submission is to wait for: found by name, and told apart by how they stand."""

from __future__ import annotations

from dataclasses import replace

from jobgen.errors import UsageError
from jobgen.jobs.dependencies import list_dependencies
from jobgen.jobs.find import find_job
from jobgen.jobs.queries import SchedulerAnswer
from jobgen.jobs.record import folder_name
from jobgen.jobs.status import look
from jobgen.jobs.submission import Submission
from jobgen.plan.plan import Dependency
from jobgen.schedulers.base import Scheduler


def find_awaited(text: str) -> str:
    """Return the `KIND:JOB` or `JOB` of --after with the ID of a job that it has by its name.

    Of a chain that is its last job. Raises UsageError if no job below ./runs has the name.
    """
    kind, colon, word = text.rpartition(":")
    if not word[:1].isalpha():
        return text
    try:
        job = find_job(word)
    except UsageError as error:
        raise UsageError(f"--after {text!r}: {error}") from None
    return f"{kind}{colon}{[job.id, *job.links][-1]}"


def settle_waits(submission: Submission) -> Submission:
    """Return the submission without the jobs of --after that have ended as they are to.

    Raises UsageError for a job that has ended otherwise, and on PBS for one that it no longer
    knows: it would delete this one at once.
    """
    scheduler, left = submission.scheduler, []
    for one in submission.after:
        jobs = tuple(id for id in one.jobs if not _has_come(one.kind, id, scheduler))
        left += [Dependency(one.kind, jobs)] if jobs else []
    for kind, id in list_dependencies(scheduler.dependencies(submission.head)):
        if _has_come(kind, id, scheduler) and scheduler.can.deletes_waiting:
            hint = "take it out of after; for a rerun, give --set after=null"
            raise UsageError(f"job {id}, for which this one would wait, has ended; {hint}")
    return replace(submission, after=tuple(left))


def _has_come(kind: str, id: str, scheduler: Scheduler) -> bool:
    """Return whether a job has ended, as it is to."""
    try:
        job = find_job(id)
    except UsageError:  # of another folder
        if not scheduler.can.deletes_waiting:
            return False
        answer = SchedulerAnswer(scheduler.name, {id: [folder_name(id)]})
        if answer.doubt or answer.states:
            return False
        title = scheduler.can.title
        raise UsageError(f"{title} knows no job {id}, and deletes one that waits for it") from None
    state = look([job]).jobs[0].state
    if (kind, state.name == "done") in (("afterok", False), ("afternotok", True)) and state.ended:
        words = f"{job.name} {id} has ended ({state.name})"
        raise UsageError(f"{kind}:{id}: {words}, so a job that waits for it never starts")
    return state.ended
