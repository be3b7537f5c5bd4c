"""The nodes of a running job: what its processes use there, asked of the nodes themselves."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from jobgen import process
from jobgen.errors import JobgenError
from jobgen.jobs.files import read_if_left
from jobgen.jobs.gpu_samples import GpuSample, read_last_gpus
from jobgen.jobs.record import JobRecord
from jobgen.jobs.run_folder import read_traces
from jobgen.output import format_table
from jobgen.records import NamedTuple
from jobgen.schedulers import SCHEDULERS
from jobgen.spec.units import describe_bytes

_TIMEOUT = 20.0  # seconds that a node has for its answer
_AT_ONCE = 16  # nodes that are asked at the same time
_PROBE = Path(__file__).with_name("probe.sh")


class NodeUse(NamedTuple):
    """One node; what is not known is None. Memory is in bytes, `age` in seconds.

    `role` is the one of several programs that it is about.
    """

    node: str
    gpus: tuple[GpuSample, ...]
    cpus: float | None  # busy during a second
    memory: float | None
    processes: int | None
    age: float | None  # since the node answered
    role: str = ""


def list_nodes(job: JobRecord, *, running: bool) -> list[NodeUse]:
    """Return the nodes of the job's last start, in their order; those of a running job are asked.

    A node that does not answer has no CPUs, memory and processes. Of several programs, each has its
    own nodes.
    """
    if roles := job.roles:
        return [
            use._replace(role=name)
            for name, role in roles.items()
            for use in list_nodes(role, running=running)
        ]
    listed = Path(f"{read_traces(job).last}/nodes")
    nodes = read_if_left(listed).split()  # none before it has begun
    describe = partial(_describe, job, since=listed, running=running)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        described = list(pool.map(describe, nodes))
    now = time.monotonic()
    return [use._replace(age=now - use.age) if use.age is not None else use for use in described]


def _describe(job: JobRecord, node: str, *, since: Path, running: bool) -> NodeUse:
    """Return what a node uses; its `age` is the moment of its answer."""
    gpus = read_last_gpus(job.run_dir, node, since=since)
    if running and (use := _ask_node(job, node)):
        return NodeUse(node, gpus, *use, time.monotonic())
    return NodeUse(node, gpus, None, None, None, None)


def _ask_node(job: JobRecord, node: str) -> tuple[float, float, int] | None:
    """Return the CPUs that are busy, bytes and processes of the job there; None if unanswered."""
    words = ["bash", "-c", _PROBE.read_text(), "bash", job.run_folder, node]
    ask = partial(process.run, timeout=_TIMEOUT)
    try:
        if not job.local:
            access = SCHEDULERS[job.scheduler].access
            words = access.shell_argv(job.shares or job.id, node, words, ask, terminal=False)
        answer = ask(words).split()[-7:]
        ticks, began, later, ended, memory, hertz, processes = map(int, answer)
    except (JobgenError, ValueError):
        return None
    seconds = (ended - began) / 1e9
    if seconds <= 0 or hertz <= 0:
        return None
    return max(0, later - ticks) / hertz / seconds, float(memory), processes


def format_nodes(nodes: Sequence[NodeUse], *, running: bool) -> list[str]:
    """Return a table, a line for each node; those of a job that does not run were not asked."""
    silence = "no answer" if running else "not asked"
    rows = [("ROLE", "NODE", "GPUS", "GPU MEMORY", "CPUS", "MEMORY")]
    rows += (
        (
            each.role,
            each.node,
            _format_uses([gpu.use for gpu in each.gpus if gpu.use is not None]),
            _format_gpu_memory(each.gpus),
            silence if each.cpus is None else f"{each.cpus:.1f}",
            "-" if each.memory is None else describe_bytes(each.memory),
        )
        for each in nodes
    )
    return format_table(rows if any(each.role for each in nodes) else [row[1:] for row in rows])


def _format_uses(uses: Sequence[float]) -> str:
    """`97 %`, of several with the least and the most: `8: 91 % (62-99)`."""
    if len(uses) < 2:
        return f"{uses[0]:.0f} %" if uses else "-"
    return f"{len(uses)}: {sum(uses) / len(uses):.0f} % ({min(uses):.0f}-{max(uses):.0f})"


def _format_gpu_memory(gpus: Sequence[GpuSample]) -> str:
    """Of the GPU that holds most."""
    held = max(gpus, key=lambda gpu: gpu.memory or 0.0, default=None)
    if held is None or held.memory is None:
        return "-"
    total = f" of {describe_bytes(held.total)}" if held.total else ""
    return f"{describe_bytes(held.memory)}{total}"
