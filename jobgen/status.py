"""How a job stands, and how to end it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from jobgen import process, runs, schedulers
from jobgen.errors import RefusedError
from jobgen.runs import Job
from jobgen.schedulers.base import State


def state(job: Job) -> State:
    """The job's state: by its script's own record, else by the scheduler's word."""
    if job.scheduler == schedulers.LOCAL and process_started(job.pid) == job.started:
        waits = Path(job.run_dir, "waits").exists()
        return State("queued", "it waits for another job") if waits else State("running")
    ended = runs.outcome(job)
    if ended and (ended[0] != "cancelled" or job.scheduler == schedulers.LOCAL):
        return State(ended[0], "" if ended[0] == "done" else f"exit code {ended[1]}")  # type: ignore[arg-type]
    if job.scheduler == schedulers.LOCAL:
        return State("failed", "its supervising script was killed")
    scheduler = schedulers.batch(job.scheduler)
    try:
        answer = process.run(scheduler.query_argv(job.id))
    except RefusedError as error:  # it knows the job no more, or never did
        return State(*ended[:1]) if ended else State("unknown", str(error))  # type: ignore[arg-type]
    return scheduler.parse_state(answer)


def cancel(job: Job) -> None:
    """End the job. A local one is told to stop, and killed after 60 s."""
    if job.scheduler != schedulers.LOCAL:
        process.run(schedulers.batch(job.scheduler).cancel_argv(job.id))
        return
    if job.pid is None or process_started(job.pid) != job.started:
        raise RefusedError(f"job {job.id} has ended already")
    os.kill(job.pid, signal.SIGTERM)
    give_up = time.monotonic() + 60
    while process_started(job.pid) == job.started:
        if time.monotonic() > give_up:
            os.killpg(job.pid, signal.SIGKILL)
            break
        time.sleep(0.1)


def process_started(pid: int | None) -> int | None:
    """When a living process started, in clock ticks since boot (proc(5), field 22); else None."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])
