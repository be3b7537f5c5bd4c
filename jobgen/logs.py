"""Follow what a job writes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from jobgen import links, runs, schedulers, status
from jobgen.runs import Job
from jobgen.schedulers.base import State

# Sites ask scripts to leave a minute between questions to the scheduler; files may be read freely.
POLL_SECONDS = 60.0


def follow(job: Job, write: Callable[[str], None]) -> State:
    """Pass on the job's output and rank 0's as they grow, until its end; returns its last state."""
    offsets: dict[Path, int] = {}
    interval = POLL_SECONDS if job.scheduler != schedulers.LOCAL else 0.5
    next_query = time.monotonic() + interval
    recorded = None
    while True:
        previous, recorded = recorded, runs.outcome(job)
        state = None
        # The script's own record is worth one question; without it, only now and then.
        if recorded != previous or time.monotonic() >= next_query:
            next_query = time.monotonic() + interval
            state = status.state(job)
        _pass_on(job, offsets, write)
        if state and state.ended:
            return state
        time.sleep(0.3 if job.tasks < 20 else 5)  # each task has files to look at


def _pass_on(job: Job, offsets: dict[Path, int], write: Callable[[str], None]) -> None:
    """Hand over whole lines that are new since the last time."""
    output_file = schedulers.get(job.scheduler).output_file
    paths = []
    for one in map(job.task, range(job.tasks)) if job.tasks else [job]:
        outputs = [Path(one.folder, output_file(one.name, job_id)) for job_id in links.ids(one)]
        paths += [*outputs, *sorted(one.run_dir.glob("logs/*/rank-0.out"))]
    for path in paths:
        try:
            with path.open("rb") as file:
                file.seek(offsets.get(path, 0))
                data = file.read()
        except FileNotFoundError:
            continue
        whole = data[: data.rfind(b"\n") + 1]
        if whole:
            offsets[path] = offsets.get(path, 0) + len(whole)
            write(whole.decode(errors="replace"))
