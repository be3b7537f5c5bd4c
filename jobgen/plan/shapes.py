"""What a job may ask of a node, and what its processes get if it does not ask.

Each rule is said with its source.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jobgen.output import format_count as count
from jobgen.plan.decision import Context
from jobgen.plan.limits import Breach, Size, measure, report
from jobgen.plan.plan import NodeGroup
from jobgen.sites.profile import Node, SiteSource
from jobgen.spec.units import format_memory

_LEAST_CPUS = 2  # of a process: one computes, one loads data
_LEAST_MEMORY = 8 * 1024**2  # KiB of a process
Fault = tuple[str, str, str, str]  # key of the site's rule, key of the spec, message, hint


def check_node(
    context: Context, node: Node, size: Size, *, about: dict[str, SiteSource]
) -> Iterator[Breach]:
    """Yield what is wrong with the GPUs of a node, and with CPUs, memory and disk beside them.

    `about` has the source of each key of `node`.
    """
    resources = context.spec.resources
    faults = list(_check_gpus(node, size))
    for key in ("cpus_per_gpu", "cpus_per_node"):
        if getattr(resources, key) is not None:
            faults += _check_cpus(node, size, key)
    if resources.memory_per_node is not None:
        faults += _check_memory(node, size, resources.memory_per_node)
    if resources.disk_per_node is not None:
        faults += _check_most("disk", "disk_per_node", resources.disk_per_node, node.disk)
    together = context.spec.array.together if context.spec.array else None
    for rule, key, message, hint in faults:
        if together and rule in ("gpus", "cpus"):  # the numbers are those of all of them
            message = f"{together} tasks together ask for {message}"
            hint = "write a smaller together"
        yield report(context, about[rule], f"resources.{key}", message, hint)


def _check_most(rule: str, key: str, asked: int, most: int | None) -> Iterator[Fault]:
    """The memory or disk of a node, in KiB."""
    if most is not None and asked > most:
        message = f"{format_memory(asked)}, more than the {format_memory(most)} of a node"
        yield rule, key, message, f"use at most {format_memory(most)}"


def _check_gpus(node: Node, size: Size) -> Iterator[Fault]:
    if node.gpus is not None and size.widest > node.gpus:
        message = f"{count(size.widest, 'GPU')}, more than the {node.gpus} of a node"
        yield "gpus", "gpus_per_node", message, f"use at most {node.gpus}"
    elif node.gpus is not None and 0 < size.narrowest < node.gpus:
        whose = {"always": "a job", "several": "a job on several nodes"}.get(node.full or "")
        if whose and (node.full == "always" or size.nodes > 1):
            message = f"{count(size.narrowest, 'GPU')}, but {whose} has all {node.gpus} of each"
            yield "full", "gpus_per_node", message, f"write gpus_per_node: {node.gpus}"
    yield from _check_hosts(node, size)


def _check_hosts(node: Node, size: Size) -> Iterator[Fault]:
    """The nodes that have so many GPUs, and the GPUs of all of them."""
    if node.hosts and size.narrowest:
        most = sum(n for gpus, n in node.hosts.items() if int(gpus) >= size.narrowest)
        if 0 < most < size.nodes:
            each = count(size.narrowest, "GPU")
            message = f"{count(size.nodes, 'node')} with {each} each; only {most} have that many"
            yield "hosts", "nodes", message, f"use at most {most}, or fewer GPUs on each"
    if node.job_gpus is not None and size.gpus > node.job_gpus:
        message = f"{size.gpus} GPUs in all, more than the {node.job_gpus} that a job can have"
        yield "job_gpus", "gpus_per_node", message, f"use at most {node.job_gpus}"


def _check_cpus(node: Node, size: Size, key: str) -> Iterator[Fault]:
    """The CPUs of a node that the spec asks for by `key`."""
    cpus, gpus, each = size.cpus_per_node or 0, size.widest, node.cpus_per_gpu
    asked = f"{count(cpus, 'CPU')} for {count(gpus, 'GPU')} a node"
    share, leave = (each or 0) * gpus, f"leave {key} out"
    if node.cpus_rule == "implied":
        message = f"{asked}, but the CPUs follow from the nodes or GPUs here: do not ask"
        yield "cpus_rule", key, message, leave
    elif node.cpus_rule == "exact" and share and cpus != share:
        message = f"{asked}: there are {each} with each GPU, no other number"
        yield "cpus_rule", key, message, leave
    elif node.cpus_rule == "most" and share and cpus > share:
        yield "cpus_rule", key, f"{asked}: more than {each} with each GPU", leave
    elif node.cpus and cpus > node.cpus:
        message = f"{count(cpus, 'CPU')}, more than the {node.cpus} of a node"
        yield "cpus", key, message, f"use at most {node.cpus}"


def _check_memory(node: Node, size: Size, memory: int) -> Iterator[Fault]:
    """The memory of a node that the spec asks for, in KiB."""
    key, share = "memory_per_node", node.memory_per_gpu or 0
    most = share * size.widest
    if size.widest == node.gpus:  # all that the node has, with what is in no GPU's share
        most = max(most, node.memory or 0)
    if node.memory_rule == "forbidden":
        message = "but the memory follows from the nodes or GPUs here: do not ask"
        yield "memory_rule", key, f"{format_memory(memory)}, {message}", f"leave {key} out"
    elif node.memory is not None and memory > node.memory:
        yield from _check_most("memory", key, memory, node.memory)
    elif node.memory_rule == "most" and share and size.widest and memory > most:
        message = f"{format_memory(memory)}, more than {format_memory(share)} for each GPU"
        yield "memory_rule", key, message, f"use at most {format_memory(most)}"


def advise(
    context: Context, node: Node, groups: Sequence[NodeGroup], *, about: dict[str, SiteSource]
) -> Iterator[str]:
    """Yield warnings about what a GPU job does not ask for, and what it pays for unused."""
    size = measure(groups, None)
    processes = max(group.processes for group in groups)
    if not size.gpus or not context.site.can.batch:
        return
    if node.whole and node.gpus and size.narrowest < node.gpus:
        words = f"{size.narrowest} of the {node.gpus} GPUs of a node{about['whole']}"
        yield f"note: resources.gpus_per_node: a job has its nodes to itself here: it uses {words}"
    if node.whole or context.spec.resources.exclusive or node.cpus_rule == "implied":
        return
    yield from _advise_on_shares(context, node, size, about, processes)


def _advise_on_shares(
    context: Context, node: Node, size: Size, about: dict[str, SiteSource], processes: int
) -> Iterator[str]:
    """Yield warnings about CPUs and memory that are too little for the processes of a node."""
    share = f" for {count(processes, 'process', 'processes')}"
    cpus, key, why = _count_cpus(context, node, size)
    if cpus is not None and cpus < _LEAST_CPUS * processes:
        message = f"{count(cpus, 'CPU')}{share}{why}{about.get(key, '')}"
        hint = f"add cpus_per_gpu: {_share_cpus(node)}"
        yield f"warning: {context.loaded.problem('resources', message, hint)}"
    memory, key, why = _count_memory(context, node, size, cpus=cpus)
    if memory is not None and memory < _LEAST_MEMORY * processes:
        message = f"{format_memory(memory)} of memory{share}{why}{about.get(key, '')}"
        hint = f"add memory_per_node: {_share_memory(node, size)}"
        yield f"warning: {context.loaded.problem('resources', message, hint)}"


Amount = tuple[int | None, str, str]  # None if it is not known; the key that says it; the reason


def _count_cpus(context: Context, node: Node, size: Size) -> Amount:
    """The CPUs that the job has on a node."""
    if size.cpus_per_node is not None:
        return size.cpus_per_node, "", ""
    if node.default_cpus_per_gpu is not None:
        cpus, key = node.default_cpus_per_gpu * size.widest, "default_cpus_per_gpu"
        return cpus, key, f": the site's share of {size.widest} GPUs"
    if node.default_cpus is not None:
        return node.default_cpus, "default_cpus", ": what a task gets that asks for none"
    title = context.site.can.title
    one = 1 if context.site.can.one_cpu else None
    return one, "", f": {title} gives one CPU unless a job asks for more"


def _count_memory(context: Context, node: Node, size: Size, *, cpus: int | None) -> Amount:
    """The memory in KiB that the job has on a node."""
    asked = context.spec.resources.memory_per_node
    if asked is not None or node.memory_per_gpu is not None:
        return asked, "", ""
    if node.default_memory_per_gpu is not None:
        memory, key = node.default_memory_per_gpu * size.widest, "default_memory_per_gpu"
        return memory, key, f": the site's share of {size.widest} GPUs"
    if node.default_memory_per_cpu is not None and cpus is not None:
        each = format_memory(node.default_memory_per_cpu)
        why = f": a job that asks for none gets {each} with each of its {count(cpus, 'CPU')}"
        return node.default_memory_per_cpu * cpus, "default_memory_per_cpu", why
    return node.default_memory, "default_memory", ": what a job gets that asks for none"


def _share_cpus(node: Node) -> str:
    """The CPUs that go with one GPU, or an example of them."""
    if node.cpus_per_gpu:
        return str(node.cpus_per_gpu)
    return str(node.cpus // node.gpus) if node.cpus and node.gpus else "8, for instance"


def _share_memory(node: Node, size: Size) -> str:
    """The memory of a node that is the share of the job's GPUs, or an example of it."""
    gpus = max(1, size.widest)
    if node.memory_per_gpu:
        return format_memory(node.memory_per_gpu * gpus)
    if node.memory and node.gpus:
        return f"{node.memory * min(gpus, node.gpus) // node.gpus // 1024**2}GB"
    return f"{32 * gpus}GB, for instance"
