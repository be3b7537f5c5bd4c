"""What jobs have used, from one query to each scheduler."""

from __future__ import annotations

from functools import partial, reduce

from jobgen import process
from jobgen.errors import JobgenError
from jobgen.jobs.record import JobRecord
from jobgen.jobs.run_folder import list_chain
from jobgen.output import format_count
from jobgen.schedulers import SCHEDULERS
from jobgen.schedulers.usage import Used

_QUERY_SECONDS = 30
#: of a job that its scheduler does not know
NOT_COUNTED = Used("", of_one_node=True)


def read_accounting(jobs: list[JobRecord]) -> tuple[dict[str, Used], str]:
    """Return the use of jobs by their IDs, and why that of others is not known."""
    usage: dict[str, Used] = {}
    problems = []
    for kind in dict.fromkeys(job.scheduler for job in jobs):
        own = [job for job in jobs if job.scheduler == kind]
        try:
            counted, problem = _count(kind, own)
        except JobgenError as error:
            words = " ".join(str(error).split())[:200]
            counted, problem = {}, f"{kind}'s accounting is not known: {words}"
        usage |= counted
        problems.append(problem)
    return usage, "; ".join(filter(None, problems))


def _count(kind: str, jobs: list[JobRecord]) -> tuple[dict[str, Used], str]:
    if jobs[0].local:
        return {}, "CPU time and memory are not known: this machine has no scheduler to count them"
    chains = {job.id: list_chain(job) for job in jobs if not job.shares}
    if not chains:  # who asks about no job is told of all
        return {}, f"{kind} counts a job that tasks share, and not each of its tasks"
    ids = [one for chain in chains.values() for one in chain]
    answers = SCHEDULERS[kind].usage.read_usage(ids, partial(process.ask, timeout=_QUERY_SECONDS))
    counted = {}
    for job_id, chain in chains.items():
        if known := [answers[one] for one in chain if one in answers]:
            counted[job_id] = reduce(Used.and_then, known)
    missing = len(chains) - len(counted)
    return counted, f"{kind} no longer knows {format_count(missing, 'job')}" if missing else ""
