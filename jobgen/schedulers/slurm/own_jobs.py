"""The user's own jobs that Slurm knows, each with how it was submitted."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

from jobgen.errors import RefusedError, SchedulerUnavailableError
from jobgen.schedulers.base import CLOCKS, Ask, OwnJobs


def list_own_jobs(ask: Ask, since: float) -> Iterator[OwnJobs]:
    """squeue has each job's script, for some minutes after its end; sacct the whole command."""
    yield _parse_listing(
        ask(["squeue", "--me", "--states=all", "--noheader", "--format=job|%i|%o"])
    )
    start = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(since - CLOCKS))
    argv = ["sacct", "--allocations", "--noheader", "--parsable2", f"--starttime={start}"]
    try:
        answer = ask([*argv, "--format=JobID,SubmitLine"])
    except (RefusedError, SchedulerUnavailableError):  # many clusters have no accounting
        return
    yield _parse_listing("".join(f"job|{line}\n" for line in answer.splitlines()))


def _parse_listing(listing: str) -> OwnJobs:
    """Of each `job|12_[0-3]|/home/me/script`; the id is that of a whole array."""
    jobs = re.findall(r"^job\|([0-9]+)[^|\n]*\|(.*)", listing, re.MULTILINE)
    if listing.strip() and not jobs:
        raise RefusedError(f"there is no list of jobs but {listing[:200]!r}")
    return jobs
