"""What Slurm jobs have used, by sacct; a cluster without accounting does not tell."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from jobgen.errors import RefusedError
from jobgen.schedulers.usage import AskAnswer, Used, parse_whole
from jobgen.spec.units import parse_bytes, parse_clock

# sacct(1); times as seconds since 1970, and amounts as they were recorded.
_FIELDS = (
    "JobID,Submit,Start,ElapsedRaw,TimelimitRaw,NNodes,AllocCPUS,TotalCPU,ReqMem,MaxRSS,AllocTRES,"
    "TRESUsageInAve,ConsumedEnergyRaw"
)


def read_usage(ids: Sequence[str], ask: AskAnswer) -> dict[str, Used]:
    options = ["--parsable2", "--noheader", "--noconvert", "--duplicates", f"--format={_FIELDS}"]
    argv = ["env", "SLURM_TIME_FORMAT=%s", "sacct", *options, f"--jobs={','.join(ids)}"]
    answer = ask(argv)
    if answer.code:
        raise RefusedError(answer.refusal("sacct"))
    return parse_sacct(answer.output)  # requeued jobs have a record for each start


def parse_sacct(output: str) -> dict[str, Used]:
    """What sacct reports, by the jobs' IDs, without jobs that it does not know."""
    jobs: dict[str, list[dict[str, str]]] = {}
    keys = _FIELDS.split(",")
    for line in output.splitlines():
        row = dict(zip(keys, line.split("|"), strict=False))
        if len(row) == len(keys):
            jobs.setdefault(re.split(r"[.+]", row["JobID"])[0], []).append(row)
    return {job_id: _sum_up(rows) for job_id, rows in jobs.items()}


def _count(values: Iterable[float]) -> int | None:
    """Return the sum of numbers of things; None if there are none."""
    return int(sum(values)) or None


def _sum_up(rows: list[dict[str, str]]) -> Used:
    """Of the rows of one job: of its starts, its components (12+1) and its steps (12.0)."""
    whole = [row for row in rows if "." not in row["JobID"]] or rows
    steps = [row for row in rows if "." in row["JobID"]]
    # Components run at the same time: the first one's time counts.
    starts = [row for row in whole if row["JobID"].partition("+")[2] in ("", "0")]
    elapsed = _list_values(starts, "ElapsedRaw")
    limits = _list_values(starts, "TimelimitRaw")
    last = [row for row in whole if row["Start"] == whole[-1]["Start"]]
    nodes, asked = _count(_list_values(last, "NNodes")), _list_values(last, "ReqMem", parse_bytes)
    return Used(
        "sacct",
        submitted=min(_list_values(whole, "Submit"), default=None),
        started=min(_list_values(whole, "Start"), default=None),
        elapsed=sum(elapsed) if elapsed else None,
        longest=max(elapsed, default=None),
        limit=limits[-1] * 60 if limits else None,
        nodes=nodes,
        cpus=_count(_list_values(last, "AllocCPUS")),
        cpu_seconds=sum(_list_values(whole, "TotalCPU", parse_clock)) or None,
        gpus=_count(_list_resources(last, "AllocTRES", "gres/gpu")),
        gpu_use=max(_list_resources(steps, "TRESUsageInAve", "gres/gpuutil"), default=None),
        memory_asked=sum(asked) / (nodes or 1) or None,
        memory=max(_list_values(steps, "MaxRSS", parse_bytes), default=None),
        of_one_node=True,
        energy=_sum_energy(rows),
    )


def _sum_energy(rows: list[dict[str, str]]) -> float | None:
    """Joules, where Slurm measures them; it has 0 elsewhere.

    A step counts all that its nodes use: those of a job whose own row lacks it overlap, and the
    one called extern is there on all nodes for all of the time.
    """
    for kind in ("", ".extern", ".[0-9]+"):
        own = [row for row in rows if re.fullmatch(rf"[^.]*{kind}", row["JobID"])]
        if energy := sum(_list_values(own, "ConsumedEnergyRaw")):
            return energy
    return None


def _list_values(
    rows: list[dict[str, str]], key: str, read: Callable[[str], float | None] = parse_whole
) -> list[float]:
    values = (read(row[key]) for row in rows)
    return [float(value) for value in values if value is not None]


def _list_resources(rows: list[dict[str, str]], key: str, name: str) -> list[float]:
    """Return the amount of a resource (TRES), row by row."""
    text = " ".join(row[key] for row in rows)
    return [float(number) for number in re.findall(rf"{name}=([0-9.]+)", text)]
