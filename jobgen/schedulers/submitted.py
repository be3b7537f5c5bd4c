"""The user's own jobs that a scheduler knows, each with how it was submitted."""

from __future__ import annotations

import os
import pwd
import re
import time
from collections.abc import Callable, Iterator, Sequence

from jobgen.errors import RefusedError, SchedulerUnavailableError
from jobgen.schedulers import pbs_jobs
from jobgen.schedulers.pbs import SCHEDULER as PBS

# Runs a command and returns what it has printed, as `process.run`.
Ask = Callable[[Sequence[str]], str]
Jobs = list[tuple[str, str]]  # id, and the words or the script of the submission
# Seconds by which the clock of a scheduler may differ from the one here.
_CLOCKS = 3600


def slurm(ask: Ask, since: float) -> Iterator[Jobs]:
    """squeue has each job's script, for some minutes after its end; sacct the whole command."""
    yield _listed(ask(["squeue", "--me", "--states=all", "--noheader", "--format=job|%i|%o"]))
    start = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(since - _CLOCKS))
    argv = ["sacct", "--allocations", "--noheader", "--parsable2", f"--starttime={start}"]
    try:
        found = ask([*argv, "--format=JobID,SubmitLine"])
    except (RefusedError, SchedulerUnavailableError):  # many clusters have no accounting
        return
    yield _listed("".join(f"job|{line}\n" for line in found.splitlines()))


def _listed(listing: str) -> Jobs:
    """Of each `job|12_[0-3]|/home/me/script`; the id is that of a whole array."""
    found = re.findall(r"^job\|([0-9]+)[^|\n]*\|(.*)", listing, re.MULTILINE)
    if listing.strip() and not found:
        raise RefusedError(f"there is no list of jobs but {listing[:200]!r}")
    return found


def pbs(ask: Ask, since: float) -> Iterator[Jobs]:
    """qselect has the ids, of ended jobs too where there is a history; qstat the arguments."""
    user = pwd.getpwuid(os.geteuid()).pw_name
    start = time.strftime("%Y%m%d%H%M.%S", time.localtime(since - _CLOCKS))
    listing = ask(["qselect", "-x", "-u", user, f"-tc.ge.{start}"])
    ids = listing.split()
    if not all(map(PBS.parse_job_id, ids)):
        raise RefusedError(f"qselect printed no ids of jobs but {listing[:200]!r}")
    if not ids:
        return
    answer = ask(pbs_jobs.argv(ids))
    try:
        jobs = pbs_jobs.parse(answer)
    except ValueError:
        raise RefusedError(f"qstat printed no jobs but {answer[:200]!r}") from None
    yield [(job_id, job.get("Submit_arguments", "")) for job_id, job in jobs.items()]


# For each scheduler a list from each of the places to ask, the best first. They raise what `ask`
# raises, and RefusedError for an answer that is none.
PLACES: dict[str, Callable[[Ask, float], Iterator[Jobs]]] = {"slurm": slurm, "pbs": pbs}
