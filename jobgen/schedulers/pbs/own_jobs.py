"""The user's own jobs that PBS knows, each with how it was submitted."""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Iterator

from jobgen.errors import RefusedError
from jobgen.schedulers.base import CLOCKS, Ask, OwnJobs
from jobgen.schedulers.pbs import qstat
from jobgen.schedulers.pbs.directives import SCHEDULER


def list_own_jobs(ask: Ask, since: float) -> Iterator[OwnJobs]:
    """qselect has the ids, qstat the arguments; with -x those of ended jobs, if PBS keeps them.

    All are one list: the first jobs of a chain may have ended while the others wait.
    """
    user = pwd.getpwuid(os.geteuid()).pw_name
    start = time.strftime("%Y%m%d%H%M.%S", time.localtime(since - CLOCKS))
    jobs: dict[str, str] = {}
    for ended in (False, True):
        listing = ask(["qselect", *(["-x"] if ended else []), "-u", user, f"-tc.ge.{start}"])
        ids = listing.split()
        if not all(map(SCHEDULER.parse_job_id, ids)):
            raise RefusedError(f"qselect printed no ids of jobs but {listing[:200]!r}")
        if not (new := [job_id for job_id in ids if job_id not in jobs]):
            continue
        answer = ask(qstat.argv(new, ended=ended))
        try:
            shown = qstat.parse(answer)
        except ValueError:
            raise RefusedError(f"qstat printed no jobs but {answer[:200]!r}") from None
        jobs |= {job_id: job.get("Submit_arguments", "") for job_id, job in shown.items()}
    yield list(jobs.items())
