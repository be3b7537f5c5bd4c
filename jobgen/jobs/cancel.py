"""Cancel jobs."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from jobgen import process
from jobgen.errors import RefusedError, SchedulerUnavailableError
from jobgen.jobs.queries import split_ids
from jobgen.jobs.record import JobRecord
from jobgen.jobs.run_folder import note_cancel, read_traces
from jobgen.jobs.status import read_state
from jobgen.schedulers import SCHEDULERS

_PATIENCE_SECONDS = 60


def cancel(jobs: Sequence[JobRecord]) -> list[JobRecord]:
    """Cancel jobs and return them. Local ones get SIGTERM, and SIGKILL after 60 s.

    Raises RefusedError, with all reasons, if some cannot be cancelled; the others are. Raises
    SchedulerUnavailableError if the scheduler does not answer.
    """
    ended: list[JobRecord] = []
    over = [job for job in jobs if not job.local and _is_over(job)]
    refusals = [f"job {job.id} has already ended" for job in over]
    for group in _group(job for job in jobs if job not in over):
        try:
            left = _end(group)
        except RefusedError as error:
            refusals.append(str(error))
        else:
            refusals += left.values()
            done = [job for job in group if job.id not in left]
            for job in done:
                note_cancel(job)
            ended += done
    if refusals:
        refusal = RefusedError("\n".join(refusals))
        refusal.cancelled = tuple(job.id for job in ended)
        raise refusal
    return ended


def _is_over(job: JobRecord) -> bool:
    """Return whether a job has ended; of some scancel would not say so.

    These are arrays, tasks, and jobs whose script has just failed, which Slurm may start again.
    """
    if all(map(_has_ended, job.parts)):
        return True
    failed = not job.links and read_traces(job).word == "failed"
    if not (job.tasks or job.array or failed):
        return False
    with suppress(SchedulerUnavailableError):  # then the command itself says what is wrong
        return read_state(job).ended
    return False


def _has_ended(job: JobRecord) -> bool:
    """Return whether a job or task has surely ended, without a question to its scheduler."""
    left = read_traces(job)
    over = left.word in ("failed", "cancelled") or not left.attempts
    return (left.word == "done" and not job.links) or (left.cancelled and over)


def _group(jobs: Iterable[JobRecord]) -> Iterator[list[JobRecord]]:
    """Yield jobs by the command that ends them: a scheduler's plain jobs together, others alone."""
    plain: dict[str, list[JobRecord]] = {}
    for job in jobs:
        if job.local or job.shares or len(read_traces(job).open_chain) > 1:
            yield [job]
        else:
            plain.setdefault(job.scheduler, []).append(job)
    for some in plain.values():
        yield from split_ids(some)


def _end(group: Sequence[JobRecord]) -> dict[str, str]:
    """End jobs by one command; return why it did not end some, by their ids.

    Raises RefusedError if it ended none.
    """
    job, scheduler = group[0], SCHEDULERS[group[0].scheduler]
    if job.shares:
        raise RefusedError(
            f"task {job.id} shares job {job.shares} with other tasks, which would end with it; "
            f"cancel {job.array}"
        )
    if job.local:
        _stop(job)
        return {}
    # The last of a chain first, so that none starts because the one before it has ended.
    ids = [job_id for one in group for job_id in reversed(read_traces(one).open_chain)]
    argv = scheduler.cancel_argv(ids)
    answer = process.ask(argv)
    return _read_refusal(answer, group, ids, argv[0]) if answer.code else {}


def _read_refusal(
    answer: process.CommandResult, group: Sequence[JobRecord], ids: Sequence[str], command: str
) -> dict[str, str]:
    """Return the jobs that a refusal names; raise an error if it is of all."""
    if process.NOT_HEARD.search(answer.words):
        raise SchedulerUnavailableError(answer.refusal(command))
    job = group[0]
    over = SCHEDULERS[job.scheduler].queue.knows_none
    if len(group) > 1 and (named := _find_named(group, answer.words)):
        return {id: f"job {id} has already ended" if over(word) else word for id, word in named}
    if len(group) > 1 or not over(answer.words):
        raise RefusedError(answer.refusal(command))
    # Those of a chain that have ended already do not matter, as long as one has not.
    if len(answer.words.splitlines()) >= len(ids) and not _may_go_on(job):
        raise RefusedError(f"job {job.id} has already ended")
    return {}


def _may_go_on(job: JobRecord) -> bool:
    """Return whether a chain was to go on, and it is not known yet that it does not."""
    return read_traces(job).word == "continued" and not read_state(job).ended


def _find_named(jobs: Iterable[JobRecord], words: str) -> list[tuple[str, str]]:
    """Return the ids that a refusal of several jobs names, each with its line."""
    lines = words.splitlines()
    forms = {job.id: rf"(?<![\w.]){re.escape(job.id.partition('.')[0])}(?!\w)" for job in jobs}
    return [(id, line) for id, form in forms.items() for line in lines if re.search(form, line)]


def _stop(job: JobRecord) -> None:
    """End a local job; if its script was killed, end the processes that it left behind."""
    if job.array:
        raise RefusedError(f"a task of a local array cannot be cancelled alone; cancel {job.array}")
    marks = {f"JOBGEN_RUN_DIR={one.run_folder}" for one in (job, *job.parts)}
    over = job.alive and read_traces(job).over  # its script's last
    if over or not (left := _list_left(job, marks)):
        raise RefusedError(f"job {job.id} has already ended")
    _send_signal(left, signal.SIGTERM)
    _wait_for_end(job, marks)


def _wait_for_end(job: JobRecord, marks: set[str]) -> None:
    """Wait until a job's processes have ended; kill those that take too long."""
    give_up = time.monotonic() + _PATIENCE_SECONDS
    looks = 0  # that have found nothing: a process that its script starts just now has no mark yet
    while looks < 2:
        left = _list_left(job, marks)
        looks = 0 if left else looks + 1
        if left and time.monotonic() > give_up:
            group = [-pid for pid in left if pid == job.pid]
            _send_signal([*group, *process.list_marked(marks)], signal.SIGKILL)
            break
        time.sleep(0.1)


def _list_left(job: JobRecord, marks: set[str]) -> list[int]:
    return [job.pid] if job.pid is not None and job.alive else process.list_marked(marks)


def _send_signal(pids: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to the processes, or groups by negative numbers, that still exist."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
