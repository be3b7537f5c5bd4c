"""The end of jobs on the user's word."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress

from jobgen import process
from jobgen.errors import RefusedError
from jobgen.jobs.record import JobRecord
from jobgen.jobs.run_folder import note_cancel, read_traces
from jobgen.jobs.status import split_ids
from jobgen.schedulers import SCHEDULERS

_PATIENCE_SECONDS = 60


def cancel(jobs: Sequence[JobRecord]) -> list[JobRecord]:
    """End jobs, and return them. Local ones get a SIGTERM, and a SIGKILL after 60 s.

    Raises RefusedError, with all reasons, if some cannot be ended; the others are.
    """
    ended: list[JobRecord] = []
    refusals = []
    plain: dict[str, list[JobRecord]] = {}
    for job in jobs:
        try:
            if _cancel_alone(job):
                ended.append(job)
            else:
                plain.setdefault(job.scheduler, []).append(job)
        except RefusedError as error:
            refusals.append(str(error))
    for name, some in plain.items():
        ended += _cancel_together(some, name, refusals)
    for job in ended:
        note_cancel(job)
    if refusals:
        refusal = RefusedError("\n".join(refusals))
        refusal.cancelled = tuple(job.id for job in ended)
        raise refusal
    return ended


def _cancel_alone(job: JobRecord) -> bool:
    """End a local job, or all of a chain; say whether it was one of these."""
    if job.shares:
        raise RefusedError(
            f"task {job.id} shares job {job.shares} with other tasks, which would end with it; "
            f"cancel {job.array}"
        )
    if job.local:
        _stop(job)
        return True
    ids = read_traces(job).open_chain
    if len(ids) > 1:
        _cancel_all(ids, job.scheduler)
    return len(ids) > 1


def _cancel_together(jobs: list[JobRecord], name: str, refusals: list[str]) -> list[JobRecord]:
    """End jobs by few commands, and return them; why others could not be goes to `refusals`."""
    ended = []
    wanted = [read_traces(job).open_chain[0] for job in jobs]
    for ids in split_ids(wanted):
        try:
            process.run(SCHEDULERS[name].cancel_argv(ids))
            ended += [job for job, id in zip(jobs, wanted, strict=True) if id in ids]
        except RefusedError as error:
            gone = len(ids) == 1 and SCHEDULERS[name].queue.knows_none(str(error))
            refusals.append(f"job {ids[0]} has ended already" if gone else str(error))
    return ended


def _stop(job: JobRecord) -> None:
    """End a local job; of one whose script was killed, what that has left behind."""
    if job.array:
        raise RefusedError(f"a task of a local array cannot be cancelled alone; cancel {job.array}")
    marks = {f"JOBGEN_RUN_DIR={one.run_folder}" for one in (job, *job.parts)}
    over = job.alive and read_traces(job).word == "done"  # its script ends just after that word
    left = [job.pid] if job.alive and job.pid is not None else process.list_marked(marks)
    if over or not left:
        raise RefusedError(f"job {job.id} has ended already")
    _send_signal(left, signal.SIGTERM)
    give_up = time.monotonic() + _PATIENCE_SECONDS
    while job.alive or process.list_marked(marks):
        if time.monotonic() > give_up:
            if job.pid is not None and job.alive:
                _send_signal([-job.pid], signal.SIGKILL)
            _send_signal(process.list_marked(marks), signal.SIGKILL)
            break
        time.sleep(0.1)


def _send_signal(pids: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to processes, or to groups by negative numbers, as far as they are there."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _cancel_all(ids: list[str], name: str) -> None:
    """End jobs, the last first, so that none starts because the one before it has ended.

    Those that have ended already do not matter, as long as one has not.
    """
    for some in split_ids(ids[::-1]):
        argv = SCHEDULERS[name].cancel_argv(some)
        answer = process.ask(argv)
        ended = SCHEDULERS[name].queue.knows_none(answer.words)
        if answer.code and not (ended and len(answer.words.splitlines()) < len(some)):
            raise RefusedError(answer.refusal(argv[0]))
