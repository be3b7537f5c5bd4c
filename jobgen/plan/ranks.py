"""Who runs where: the nodes of a plan with their ranks and devices, and as a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from jobgen.output import format_table
from jobgen.plan.plan import NodeGroup, Plan
from jobgen.records import NamedTuple
from jobgen.spec.units import format_memory, format_ranges


class NodeRow(NamedTuple):
    """One node, by its number in the job; CPUs and memory that are None are left to the site.

    `global_ranks` is None where only the job itself will tell. `devices` has the device of each
    local rank, such as `GPU 0` or `CPU`; it is empty where the program decides: where processes
    share fewer GPUs, or one without a rank in torch sees several.
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
            return f"{self.gpus} GPUs" if processes == 1 else f"{self.gpus} shared by {processes}"
        if self.devices != tuple(f"GPU {rank}" for rank in self.local_ranks):
            return f"GPU {','.join(device.removeprefix('GPU ') for device in self.devices)}"
        of_more = f" of {self.gpus}" if self.gpus > processes else ""
        return f"GPU {format_ranges(self.local_ranks)}{of_more}"

    @property
    def memory(self) -> str:
        """The memory, such as 180GB; empty where it is the site's."""
        return "" if self.memory_kib is None else format_memory(self.memory_kib)

    @property
    def ranks(self) -> str:
        """The global ranks in words."""
        return "at the start" if self.global_ranks is None else format_ranges(self.global_ranks)


def list_nodes(plan: Plan) -> Iterator[NodeRow]:
    """Yield every node of the job, in order."""
    known = plan.nodes.total == 1 or plan.launch.rendezvous in ("static", "env")
    known = known and not plan.launch.body  # whose own launcher deals them
    place = plan.nodes.place
    first, index = 0, place.first if place else 0
    listens = plan.launch.mode in ("torchrun", "direct") and plan.launch.rendezvous != "file"
    start = index
    for group in plan.nodes.own:
        local, devices = tuple(range(group.processes)), _name_devices(plan, group)
        for _ in range(group.nodes):
            yield NodeRow(
                node=index,
                local_ranks=local,
                global_ranks=tuple(first + rank for rank in local) if known else None,
                gpus=group.gpus,
                devices=devices,
                cpus=group.cpus,
                memory_kib=group.memory,
                hosts_rendezvous=listens and index == start,
            )
            first += group.processes
            index += 1


def _name_devices(plan: Plan, group: NodeGroup) -> tuple[str, ...]:
    """Return the device of each process of a node; nothing where the program decides."""
    if group.gpus == 0:
        return ("CPU",) * group.processes
    by_rank = plan.launch.mode in ("torchrun", "direct")
    if group.gpus < group.processes or (group.gpus > group.processes and not by_rank):
        return ()
    first = plan.nodes.place.first_gpu if plan.nodes.place else 0
    numbers = plan.launch.devices or range(group.processes)
    return tuple(f"GPU {number + first}" for number in numbers[: group.processes])


def format_nodes(nodes: Iterable[NodeRow]) -> list[str]:
    """Right-aligned columns; nodes that are alike share a line where their ranks are not known."""
    head = ("node", "local ranks", "global ranks", "devices", "CPUs", "memory", "")
    cells = [head]
    for row, members in groupby(nodes, key=lambda node: node._replace(node=0)):
        numbers = format_ranges(member.node for member in members)
        ranks = (format_ranges(row.local_ranks), row.ranks, row.devices_in_words)
        host = "hosts the rendezvous" if row.hosts_rendezvous else ""
        cells.append((numbers, *ranks, str(row.cpus or ""), row.memory, host))
    return [f"  {line}" for line in format_table(cells, right=True)]
