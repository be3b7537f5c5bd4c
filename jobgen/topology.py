"""Who runs where: the nodes of a plan with their ranks and devices, and as a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from jobgen.plan import Plan
from jobgen.units import format_memory


class NodeRow(NamedTuple):
    """One node, by its number in the job; CPUs and memory that are None are left to the site.

    `global_ranks` is None where only the job itself will tell. `devices` has what torch gives to
    each local rank by its number, such as `GPU 0` or `CPU`; it is empty where the processes share
    fewer GPUs, and the program decides.
    """

    node: int
    local_ranks: tuple[int, ...]
    global_ranks: tuple[int, ...] | None
    gpus: int
    devices: tuple[str, ...]
    cpus: int | None
    memory_kib: int | None
    hosts_rendezvous: bool

    @property
    def devices_in_words(self) -> str:
        """The devices of all its processes, shortly."""
        processes = len(self.local_ranks)
        if not self.gpus:
            return "CPU"
        if not self.devices:
            return f"{self.gpus} shared by {processes}"
        of_more = f" of {self.gpus}" if self.gpus > processes else ""
        return f"GPU {span(self.local_ranks)}{of_more}"

    @property
    def memory(self) -> str:
        """The memory, such as 180GB; empty where it is the site's."""
        return "" if self.memory_kib is None else "{}{}B".format(*format_memory(self.memory_kib))

    @property
    def ranks(self) -> str:
        """The global ranks in words."""
        return "by address" if self.global_ranks is None else span(self.global_ranks)


def rows(plan: Plan) -> Iterator[NodeRow]:
    """Every node of the job, in order."""
    known = plan.nodes == 1 or plan.rendezvous in ("static", "env")
    first = index = 0
    for group in plan.groups:
        local = tuple(range(group.processes))
        devices: tuple[str, ...] = ()
        if group.gpus == 0:
            devices = ("CPU",) * group.processes
        elif group.gpus >= group.processes:
            devices = tuple(f"GPU {rank}" for rank in local)
        for _ in range(group.nodes):
            yield NodeRow(
                node=index,
                local_ranks=local,
                global_ranks=tuple(first + rank for rank in local) if known else None,
                gpus=group.gpus,
                devices=devices,
                cpus=group.cpus,
                memory_kib=group.memory,
                hosts_rendezvous=index == 0,
            )
            first += group.processes
            index += 1


def device(plan: Plan) -> str | None:
    """What the site says that one torch device is, where it is no whole GPU."""
    site = plan.site
    queue = (site.queues or {}).get(plan.queue or "")
    of_type = (site.gpu_types or {}).get(plan.gpu_type or "")
    for node in (of_type, queue.node if queue else None, site.node):
        if node is not None and node.device:
            return node.device
    return None


def alike(nodes: Iterable[NodeRow]) -> list[list[NodeRow]]:
    """Nodes in a row that differ in their numbers alone, put together."""
    runs: list[list[NodeRow]] = []
    for row in nodes:
        shape = row._replace(node=0, global_ranks=None)
        if runs and runs[-1][0]._replace(node=0, global_ranks=None) == shape:
            runs[-1].append(row)
        else:
            runs.append([row])
    return runs


def table(nodes: Iterable[NodeRow]) -> list[str]:
    """Right-aligned columns; nodes that are alike share a line where their ranks are not known."""
    cells = [("node", "local ranks", "global ranks", "devices", "CPUs", "memory", "")]
    for run in alike(nodes):
        shared = run[0].global_ranks is None
        for row in run[:1] if shared else run:
            numbers = [member.node for member in run] if shared else [row.node]
            host = "hosts the rendezvous" if row.hosts_rendezvous else ""
            cpus = "" if row.cpus is None else str(row.cpus)
            ranks = (span(row.local_ranks), row.ranks, row.devices_in_words)
            cells.append((span(numbers), *ranks, cpus, row.memory, host))
    widths = [max(map(len, column)) for column in list(zip(*cells, strict=True))[:-1]]
    lines = []
    for *values, host in cells:
        aligned = [value.rjust(width) for value, width in zip(values, widths, strict=True)]
        lines.append("  ".join(["", *aligned, host]).rstrip())
    return lines


def span(numbers: tuple[int, ...] | list[int]) -> str:
    """`3`, or `0-7`."""
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}"
