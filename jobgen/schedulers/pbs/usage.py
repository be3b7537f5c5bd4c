"""What PBS jobs have used: qstat, which knows ended jobs if the server keeps a history."""

from __future__ import annotations

from collections.abc import Sequence

from jobgen.errors import RefusedError
from jobgen.schedulers.pbs import qstat
from jobgen.schedulers.usage import AskAnswer, Used, parse_whole
from jobgen.spec.units import parse_bytes, parse_clock


def read_usage(ids: Sequence[str], ask: AskAnswer) -> dict[str, Used]:
    """See `UsageReader`; if qstat refuses some jobs, it no longer knows them."""
    usage: dict[str, Used] = {}
    for ended in (False, True):
        if missing := [job_id for job_id in ids if job_id not in usage]:
            argv = qstat.argv(missing, ended=ended)
            answer = ask(argv)
            usage |= parse_qstat(answer.output)
    if answer.code and not usage:
        raise RefusedError(answer.refusal(argv[0]))
    return usage


def parse_qstat(output: str) -> dict[str, Used]:
    """Return the use of each job by its id; nothing if the output is not an answer."""
    try:
        jobs = qstat.parse(output)
    except ValueError:
        return {}
    usage = {}
    for job_id, job in jobs.items():
        elapsed = parse_clock(job.get("resources_used.walltime"))
        usage[job_id] = Used(
            "qstat",
            elapsed=elapsed,
            longest=elapsed,
            limit=parse_clock(job.get("Resource_List.walltime")),
            nodes=parse_whole(job.get("Resource_List.nodect")),
            cpus=parse_whole(job.get("Resource_List.ncpus")),
            cpu_seconds=parse_clock(job.get("resources_used.cput")),
            gpus=parse_whole(job.get("Resource_List.ngpus")),
            memory_asked=parse_bytes(job.get("Resource_List.mem")),
            memory=parse_bytes(job.get("resources_used.mem")),
        )
    return usage
