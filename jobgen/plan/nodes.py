"""The nodes of a job: how many, with what on each, those alike put together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby

from jobgen.errors import Problem
from jobgen.plan.decision import Context, Decision
from jobgen.plan.plan import NodeGroup, Nodes, Plan
from jobgen.plan.walltime import count_restarts
from jobgen.sites.profile import Node, SiteProfile
from jobgen.spec.load import LoadedSpec
from jobgen.spec.model import ONE_A_NODE, JobSpec

_MOST_PROCESSES = 1_000_000  # several times what the largest machines have GPUs


def decide(context: Context, plan: Plan) -> Decision[Nodes]:
    """Decide the nodes, on those that the site has for the job."""
    spec, place, node = context.spec, context.loaded.place, plan.defaults.node
    groups = tuple(group_nodes(context.loaded, context.site, node))
    share = node.cpus_per_gpu or 0
    own_cpus = any(group.cpus not in (None, share * group.gpus) for group in groups)
    nodes = Nodes(
        groups=groups,
        fewest=spec.resources.ends[0],
        cpus_asked=node.cpus_rule != "implied" or own_cpus,
        tasks_asked=spec.launch.processes_per_node is not None,
        device=node.device,
        disk=spec.resources.disk_per_node,
        together=count_together(context),
        usage=spec.report.usage,
        spare=spec.resources.spare_nodes or 0,
        place=place,
    )
    if spec.preflight:  # this machine has the GPUs that it has
        seen = nodes.gpus_of_each if context.site.can.batch else (0,) * nodes.total
        nodes = nodes._replace(preflight=seen)
    return Decision(nodes, problems=_find_conflicts(context, nodes))


def count_together(context: Context) -> int:
    """Return how many tasks of the array share a node."""
    array = context.spec.array
    if array is None or array.together is None:
        return 1
    return min(array.together, len([*context.spec.choices()]))


def group_nodes(loaded: LoadedSpec, site: SiteProfile, node: Node) -> Iterator[NodeGroup]:
    """Yield the nodes, those alike put together; most GPUs first, as PBS fills chunks in order.

    Of a range these are the most that there can be.

    OpenPBS places the chunks of a select one after the other and never goes back: small chunks
    first can take the large nodes, and then the job waits without end.
    """
    shared = _count_processes(loaded, site, node) if loaded.spec.roles else ()
    gpus = _list_gpus(loaded.spec, len(shared))
    processes = shared or _list_processes(loaded.spec, gpus)
    single = [
        NodeGroup(1, process_count, gpu_count, *_count_shares(loaded.spec, site, node, gpu_count))
        for gpu_count, process_count in zip(gpus, processes, strict=True)
    ]
    single.sort(key=lambda group: -group.gpus)
    for group, members in groupby(single):
        yield group._replace(nodes=len(list(members)))


def _count_shares(
    spec: JobSpec, site: SiteProfile, node: Node, gpus: int
) -> tuple[int | None, int | None]:
    resources = spec.resources
    cpus_per_gpu = resources.cpus_per_gpu or node.cpus_per_gpu or 0
    cpus = resources.cpus_per_node or cpus_per_gpu * gpus or None
    memory = resources.memory_per_node or (node.memory_per_gpu or 0) * gpus
    given = node.memory_rule == "forbidden" and memory == count_memory(node, gpus)
    return cpus, None if given else memory or None


def count_memory(node: Node, gpus: int) -> int:
    """Return the KiB that go with GPUs of a node: with all of them also what is in no share."""
    shares = (node.memory_per_gpu or 0) * gpus
    return max(shares, node.memory or 0) if gpus == node.gpus else shares


def _list_gpus(spec: JobSpec, known: int) -> tuple[int, ...]:
    """Return the GPUs of each node; how many nodes there are may be `known`."""
    gpus, listed = spec.resources.gpus_per_node, spec.launch.processes_per_node
    if isinstance(gpus, tuple):
        return gpus
    of_list = len(listed) if isinstance(listed, tuple) else 1
    return (gpus or 0,) * (known or spec.resources.ends[1] or of_list)


def _list_processes(spec: JobSpec, gpus: tuple[int, ...]) -> tuple[int, ...]:
    given = spec.launch.processes_per_node
    if isinstance(given, tuple):
        return given
    one = spec.launch.mode in ONE_A_NODE or spec.run.body is not None
    return tuple(given or (1 if one else max(1, count)) for count in gpus)


def _count_processes(loaded: LoadedSpec, site: SiteProfile, node: Node) -> tuple[int, ...]:
    counts = Counter[int]()
    for role in loaded.programs():
        groups = group_nodes(role, site, node)
        own = (group.processes for group in groups for _ in range(group.nodes))
        counts.update(dict(enumerate(own, role.place.first if role.place else 0)))
    return tuple(counts[index] for index in sorted(counts))


def _find_conflicts(context: Context, nodes: Nodes) -> Iterator[Problem]:
    asked, can = context.spec.resources, context.site.can
    rules: dict[str, object] = {
        "processes": nodes.world_size > _MOST_PROCESSES,
        "cpus_without_gpus": asked.cpus_per_gpu and not nodes.gpus,
        "range" if can.batch else "range_here": nodes.fewest and not can.node_range,
        "together_nodes": nodes.together > 1 and nodes.total > 1,
        "totals": nodes.unequal and context.site.pbs.resources == "totals",
    }
    if nodes.spare:
        several = len(nodes.groups) > 1 and not context.spec.roles
        rules |= {
            "spare_unused": not count_restarts(context.spec),
            "spare_unlike": nodes.unequal or several,
            "spare_range": nodes.fewest,
        }
    return context.refuse(rules, nodes=nodes, asked=asked.nodes, most=_MOST_PROCESSES)


def advise_on_devices(gpus: tuple[int, ...]) -> str:
    """Return what to write for `gpus_per_node` that lists devices, as [0, 1]; else nothing."""
    if len(gpus) < 2 or gpus != tuple(range(len(gpus))):
        return ""
    return f"for {len(gpus)} GPUs on each node write gpus_per_node: {len(gpus)}"
