"""The nodes of a running job: what its processes use there, as noted last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from jobgen.jobs.record import JobRecord, read_left
from jobgen.jobs.run_folder import list_attempts
from jobgen.jobs.usage import GpuSample, Sample, measure_busy, read_last_samples
from jobgen.output import format_table


class NodeUse(NamedTuple):
    """One node; what is not known yet is None. Memory is in bytes, `age` in seconds."""

    node: str
    gpus: tuple[GpuSample, ...]
    cpus: float | None  # busy between the last two notes
    memory: float | None
    processes: int | None
    age: float | None  # since it was noted


def list_nodes(job: JobRecord, *, now: float) -> list[NodeUse]:
    """Return the nodes of the job's last start, in their order."""
    own = list_attempts(job.run_dir)[job.first_attempt :]
    if not own:
        return []
    try:
        nodes = read_left(own[-1] / "nodes").split()
    except OSError:
        return []
    attempt = int(own[-1].name)
    return [
        _describe(
            node,
            [one for one in read_last_samples(job.run_dir, node) if one.attempt == attempt],
            now=now,
        )
        for node in nodes
    ]


def _describe(node: str, samples: list[Sample], *, now: float) -> NodeUse:
    if not samples:
        return NodeUse(node, (), None, None, None, None)
    last = samples[-1]
    return NodeUse(
        node=node,
        gpus=last.gpus,
        cpus=measure_busy(samples),
        memory=last.memory,
        processes=last.processes,
        age=max(0.0, now - last.time),
    )


def format_nodes(nodes: Sequence[NodeUse]) -> list[str]:
    """Return a table, a line for each node."""
    head = ("NODE", "GPUS", "GPU MEMORY", "POWER", "CPUS", "MEMORY", "PROCESSES", "NOTED")
    rows = [
        (
            each.node,
            _format_uses(each.gpus),
            _format_gpu_memory(each.gpus),
            _format_power(each.gpus),
            "-" if each.cpus is None else f"{each.cpus:.1f}",
            "-" if each.memory is None else _format_gb(each.memory),
            "-" if each.processes is None else str(each.processes),
            "not yet" if each.age is None else f"{each.age:.0f} s ago",
        )
        for each in nodes
    ]
    return format_table([head, *rows])


def _format_uses(gpus: Sequence[GpuSample]) -> str:
    """`97 %`, of several with the least and the most: `8: 91 % (62-99)`."""
    uses = [gpu.use for gpu in gpus if gpu.use is not None]
    if not uses:
        return "-"
    if len(uses) == 1:
        return f"{uses[0]:.0f} %"
    return f"{len(uses)}: {sum(uses) / len(uses):.0f} % ({min(uses):.0f}-{max(uses):.0f})"


def _format_gpu_memory(gpus: Sequence[GpuSample]) -> str:
    """Of the GPU that holds most."""
    held = max((gpu for gpu in gpus if gpu.memory is not None), key=_read_memory, default=None)
    if held is None:
        return "-"
    total = f" of {_format_gb(held.total)}" if held.total else ""
    return f"{_format_gb(_read_memory(held))}{total}"


def _read_memory(gpu: GpuSample) -> float:
    return gpu.memory or 0.0


def _format_power(gpus: Sequence[GpuSample]) -> str:
    powers = [gpu.power for gpu in gpus if gpu.power is not None]
    return f"{sum(powers):,.0f} W" if powers else "-"


def _format_gb(size: float) -> str:
    return f"{size / 1024**3:.1f} GB"
