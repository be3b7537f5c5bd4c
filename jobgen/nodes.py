"""The nodes of a job: how many, with what on each, those alike put together."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

from jobgen.loaded import LoadedSpec
from jobgen.profile import Node, SiteProfile
from jobgen.spec import NodeRange


class NodeGroup(NamedTuple):
    """Consecutive nodes that are alike. Memory in KiB; None leaves it to the site."""

    nodes: int
    processes: int
    gpus: int
    cpus: int | None
    memory: int | None

    @property
    def shape(self) -> tuple[int, int | None, int | None]:
        """What the scheduler is asked for on each node."""
        return (self.gpus, self.cpus, self.memory)


def groups_of(loaded: LoadedSpec, site: SiteProfile, node: Node) -> Iterator[NodeGroup]:
    """The nodes, those alike put together; most GPUs first, as PBS fills chunks in order.

    Of a range these are the most that there can be.

    OpenPBS places the chunks of a select one after the other and never goes back: small chunks
    first can take the large nodes, and then the job waits for ever.
    """
    resources, launch = loaded.spec.resources, loaded.spec.launch
    gpus, processes = resources.gpus_per_node, launch.processes_per_node
    said = resources.nodes.max if isinstance(resources.nodes, NodeRange) else resources.nodes
    nodes = said or next((len(value) for value in (gpus, processes) if isinstance(value, tuple)), 1)
    gpu_list = gpus if isinstance(gpus, tuple) else (gpus or 0,) * nodes
    if processes is None:
        process_list = tuple(max(1, count) for count in gpu_list)
    else:
        process_list = processes if isinstance(processes, tuple) else (processes,) * nodes
    cpus_per_gpu = resources.cpus_per_gpu or node.cpus_per_gpu
    local = site.scheduler == "local"  # this machine has what it has
    single = [
        NodeGroup(
            nodes=1,
            processes=process_count,
            gpus=gpu_count,
            cpus=None
            if local
            else resources.cpus_per_node or (cpus_per_gpu or 0) * gpu_count or None,
            memory=None
            if local
            else resources.memory_per_node or (node.memory_per_gpu or 0) * gpu_count or None,
        )
        for gpu_count, process_count in zip(gpu_list, process_list, strict=True)
    ]
    single.sort(key=lambda group: -group.gpus)
    for group, members in groupby(single):
        yield group._replace(nodes=len(list(members)))
