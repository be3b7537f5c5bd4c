"""What a scheduler knows of what jobs were given and have used, asked once for all of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from jobgen.schedulers import pbs_jobs
from jobgen.units import parse_memory

# sacct(1); times as seconds since 1970, and amounts as they were recorded.
_FIELDS = (
    "JobID,Submit,Start,ElapsedRaw,TimelimitRaw,NNodes,AllocCPUS,TotalCPU,ReqMem,MaxRSS,AllocTRES,"
    "TRESUsageInAve"
)


class Used(NamedTuple):
    """Of all starts of a job; memory is in bytes, times are in seconds. None is not known.

    Both memories are of all nodes together, or with `of_one_node` of the one that held most.
    """

    source: str
    submitted: float | None = None
    started: float | None = None  # the first time
    elapsed: float | None = None  # of all starts together
    longest: float | None = None  # of one start
    limit: float | None = None  # for one start
    nodes: int | None = None
    cpus: int | None = None
    cpu_seconds: float | None = None
    gpus: int | None = None
    gpu_use: float | None = None  # percent
    memory_asked: float | None = None
    memory: float | None = None
    of_one_node: bool = False

    def and_then(self, following: Used) -> Used:
        """The same, with a job that has gone on where this one ended."""

        def both(first: float | None, second: float | None) -> float | None:
            return second if first is None else first if second is None else first + second

        return following._replace(
            submitted=self.submitted,
            started=self.started,
            elapsed=both(self.elapsed, following.elapsed),
            longest=max(filter(None, (self.longest, following.longest)), default=None),
            cpu_seconds=both(self.cpu_seconds, following.cpu_seconds),
            memory=max(filter(None, (self.memory, following.memory)), default=None),
        )


def sacct_argv(ids: Iterable[str]) -> list[str]:
    """The command whose output `parse_sacct` reads: requeued jobs have a record for each start."""
    what = ["--parsable2", "--noheader", "--noconvert", "--duplicates", f"--format={_FIELDS}"]
    return ["env", "SLURM_TIME_FORMAT=%s", "sacct", *what, f"--jobs={','.join(ids)}"]


def parse_sacct(output: str) -> dict[str, Used]:
    """What sacct says, by the jobs' ids; those of which it knows nothing are not there."""
    jobs: dict[str, list[dict[str, str]]] = {}
    keys = _FIELDS.split(",")
    for line in output.splitlines():
        row = dict(zip(keys, line.split("|"), strict=False))
        if len(row) == len(keys):
            jobs.setdefault(re.split(r"[.+]", row["JobID"])[0], []).append(row)
    return {job_id: _account(rows) for job_id, rows in jobs.items()}


def _account(rows: list[dict[str, str]]) -> Used:
    """Of the rows of one job: of its starts, its components (12+1) and its steps (12.0)."""
    whole = [row for row in rows if "." not in row["JobID"]] or rows
    steps = [row for row in rows if "." in row["JobID"]]
    # Components run at the same time: the first one's time counts.
    starts = [row for row in whole if row["JobID"].partition("+")[2] in ("", "0")]
    elapsed = _numbers(starts, "ElapsedRaw")
    limits = _numbers(starts, "TimelimitRaw")
    last = [row for row in whole if row["Start"] == whole[-1]["Start"]]
    nodes, cpus = _numbers(last, "NNodes"), _numbers(last, "AllocCPUS")
    held = [value for row in steps if (value := memory(row["MaxRSS"])) is not None]
    cpu = [value for row in whole if (value := clock(row["TotalCPU"])) is not None]
    # From 21.08 on the memory of all nodes; before that of a node, or of a CPU (4000Mn, 4000Mc).
    asked = memory(whole[-1]["ReqMem"])
    per_node = {"n": 1.0, "c": sum(cpus) / (sum(nodes) or 1)}.get(
        whole[-1]["ReqMem"][-1:], 1 / (sum(nodes) or 1)
    )
    uses = re.findall(r"gres/gpuutil=([0-9.]+)", " ".join(row["TRESUsageInAve"] for row in steps))
    gpus = re.findall(r"gres/gpu=([0-9]+)", " ".join(row["AllocTRES"] for row in last))
    return Used(
        "sacct",
        submitted=min(_numbers(whole, "Submit"), default=None),
        started=min(_numbers(whole, "Start"), default=None),
        elapsed=sum(elapsed) if elapsed else None,
        longest=max(elapsed, default=None),
        limit=limits[-1] * 60 if limits else None,
        nodes=int(sum(nodes)) or None,
        cpus=int(sum(cpus)) or None,
        cpu_seconds=sum(cpu) or None,
        gpus=sum(map(int, gpus)) or None,
        gpu_use=max(map(float, uses), default=None),
        memory_asked=asked * per_node if asked else None,
        memory=max(held, default=None),
        of_one_node=True,
    )


def scontrol_argv(job_id: str) -> list[str]:
    """The command whose output `parse_scontrol` reads."""
    return ["scontrol", "--oneliner", "show", "job", job_id]


def parse_scontrol(output: str) -> dict[str, Used]:
    """What `scontrol --oneliner show job` says: times and what was given, nothing of its use."""
    found: dict[str, Used] = {}
    for line in output.splitlines():
        record = dict(re.findall(r"(\S+?)=(\S*)", line))
        if "JobId" not in record:
            continue
        tres = record.get("AllocTRES") or record.get("ReqTRES") or record.get("TRES", "")
        gpus = re.search(r"gres/gpu=([0-9]+)", tres)
        asked = re.search(r"\bmem=([0-9.]+[KMGT])", tres)
        elapsed = clock(record.get("RunTime"))
        found[record["JobId"]] = Used(
            "scontrol",
            elapsed=elapsed,
            longest=elapsed,
            limit=clock(record.get("TimeLimit")),
            nodes=_whole(record.get("NumNodes", "").partition("-")[0]),
            cpus=_whole(record.get("NumCPUs", "").partition("-")[0]),
            gpus=int(gpus[1]) if gpus else None,
            memory_asked=memory(asked[1]) if asked else None,
        )
    return found


def parse_qstat(output: str) -> dict[str, Used]:
    """What the qstat of `pbs_jobs.argv` says, by the jobs' ids; nothing where it is no answer."""
    try:
        jobs = pbs_jobs.parse(output)
    except ValueError:
        return {}
    found = {}
    for job_id, job in jobs.items():
        elapsed = clock(job.get("resources_used.walltime"))
        found[job_id] = Used(
            "qstat",
            elapsed=elapsed,
            longest=elapsed,
            limit=clock(job.get("Resource_List.walltime")),
            nodes=_whole(job.get("Resource_List.nodect")),
            cpus=_whole(job.get("Resource_List.ncpus")),
            cpu_seconds=clock(job.get("resources_used.cput")),
            gpus=_whole(job.get("Resource_List.ngpus")),
            memory_asked=memory(job.get("Resource_List.mem")),
            memory=memory(job.get("resources_used.mem")),
        )
    return found


def clock(text: Any) -> float | None:
    """Seconds in `1-02:03:04`, `02:03:04` or `03:04.123`."""
    match = re.fullmatch(
        r"(?:([0-9]+)-)?(?:([0-9]+):)?([0-9]+):([0-9]+(?:\.[0-9]+)?)", str(text), re.ASCII
    )
    if not match:
        return None
    days, hours, minutes = (int(part or 0) for part in match.groups()[:3])
    return days * 86400 + hours * 3600 + minutes * 60 + float(match[4])


def memory(text: Any) -> float | None:
    """Bytes in `1234K`, `4000Mn`, `12gb` or `100kb`; a number alone is of bytes."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([KMGTPkmgtp]?)[bB]?[cn]?", str(text), re.ASCII)
    if not match:
        return None
    return float(match[1]) * (parse_memory(f"1{match[2]}") * 1024 if match[2] else 1)


def _numbers(rows: list[dict[str, str]], key: str) -> list[float]:
    return [float(row[key]) for row in rows if re.fullmatch(r"[0-9]{1,12}", row[key])]


def _whole(text: Any) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,12}", str(text)) else None
