"""What schedulers say of the use of jobs, each of them asked once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce

from jobgen import process, schedulers
from jobgen.errors import JobgenError
from jobgen.jobs.record import JobRecord
from jobgen.jobs.run_folder import list_chain
from jobgen.report.figures import format_count
from jobgen.schedulers.usage import Used

_QUERY_SECONDS = 30


def read_accounting(jobs: list[JobRecord]) -> tuple[dict[str, Used], str]:
    """Return the use of jobs by their ids, and why that of others is not known."""
    usage: dict[str, Used] = {}
    problems = []
    for kind in dict.fromkeys(job.scheduler for job in jobs):
        own = [job for job in jobs if job.scheduler == kind]
        try:
            counted = dict(_ask(kind, own))
        except JobgenError as error:
            problems.append(
                f"what {kind} counts is not known: {' '.join(str(error).split())[:200]}"
            )
            continue
        usage |= counted
        if not schedulers.SCHEDULERS[kind].can.batch:
            problems.append(
                "CPU time and memory are not counted on this machine, which has no scheduler"
            )
        elif len(counted) < len(own):
            missing = format_count(len(own) - len(counted), "job")
            problems.append(f"{kind} no longer knows {missing}")
    return usage, "; ".join(problems)


def _ask(kind: str, jobs: list[JobRecord]) -> Iterator[tuple[str, Used]]:
    """Yield each job that the scheduler knows, with the use of its whole chain."""
    if not schedulers.SCHEDULERS[kind].can.batch:
        return
    chains = {job.id: list_chain(job) for job in jobs if not job.shares}
    ids = [one for chain in chains.values() for one in chain]
    answers = schedulers.SCHEDULERS[kind].usage.read_usage(ids, _run)
    for job_id, chain in chains.items():
        known = [answers[one] for one in chain if one in answers]
        if known:
            yield job_id, reduce(Used.and_then, known)


def _run(argv: Sequence[str]) -> process.CommandResult:
    return process.ask(argv, timeout=_QUERY_SECONDS)
