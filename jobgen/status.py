"""How a job stands, and how to end it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from jobgen import links, process, runs, schedulers
from jobgen.errors import RefusedError
from jobgen.runs import Job
from jobgen.schedulers.base import BatchScheduler, State


def state(job: Job) -> State:
    """The job's state: by its script's own record, else by the scheduler's word."""
    ended = runs.outcome(job)
    alive = job.scheduler == schedulers.LOCAL and process_started(job.pid) == job.started
    if alive and not (job.array and ended):
        if Path(job.run_dir, "waits").exists():
            return State("queued", "it waits for another job")
        begun = not job.array or runs.attempts(job.run_dir)
        return State("running") if begun else State("queued", "it waits for another task")
    final = ("done", "failed", "cancelled" if job.scheduler == schedulers.LOCAL else "")
    if ended and ended[0] in final:
        return State(ended[0], "" if ended[0] == "done" else f"exit code {ended[1]}")  # type: ignore[arg-type]
    if job.scheduler == schedulers.LOCAL:
        return State("failed", "its supervising script was killed")
    scheduler = schedulers.batch(job.scheduler)
    for job_id in links.left(job):
        try:
            found = scheduler.parse_state(process.run(scheduler.query_argv(job_id)))
        except RefusedError as error:  # it knows the job no more, or never did
            found = State("unknown", str(error))
            if ended and ended[0] == "cancelled":
                found = State("cancelled")
        if not found.ended and found.name != "unknown":
            break
    if ended and ended[0] == "cancelled" and job.links and found.ended:
        return State("cancelled")  # the jobs after the one that was, too, have only said so
    if ended and ended[0] == "continued" and found.name == "done":
        return State("failed", "it has stopped before it was done, and no job goes on")
    return found


def cancel(job: Job) -> None:
    """End the job. A local one is told to stop, and killed after 60 s."""
    if job.scheduler != schedulers.LOCAL:
        _cancel_all(links.left(job), schedulers.batch(job.scheduler))
        return
    if job.array:
        raise RefusedError(f"a task of a local array does not end alone; cancel {job.array}")
    if job.pid is None or process_started(job.pid) != job.started:
        raise RefusedError(f"job {job.id} has ended already")
    os.kill(job.pid, signal.SIGTERM)
    give_up = time.monotonic() + 60
    while process_started(job.pid) == job.started:
        if time.monotonic() > give_up:
            os.killpg(job.pid, signal.SIGKILL)
            break
        time.sleep(0.1)


def _cancel_all(ids: list[str], scheduler: BatchScheduler) -> None:
    """End jobs, the last first, so that none starts because the one before it has ended.

    Those that have ended already do not matter, as long as there is one that has not.
    """
    refusals = []
    for job_id in reversed(ids):
        try:
            process.run(scheduler.cancel_argv(job_id))
        except RefusedError as error:
            refusals.append(error)
    if len(refusals) == len(ids):
        raise refusals[-1]


def process_started(pid: int | None) -> int | None:
    """When a living process started, in clock ticks since boot (proc(5), field 22); else None."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])
