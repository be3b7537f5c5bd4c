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
from jobgen.spec.model import Resources
from jobgen.spec.units import format_memory

_LEAST_CPUS = 2  # of a process: one computes, one loads data
_LEAST_MEMORY = 8 * 1024**2  # KiB of a process


def check_node(
    context: Context, node: Node, size: Size, *, about: dict[str, SiteSource]
) -> Iterator[Breach]:
    """Yield what is wrong with the GPUs of a node, and with CPUs, memory and disk beside them.

    `about` has the source of each key of `node`.
    """
    resources = context.spec.resources
    together = context.spec.array.together if context.spec.array else None
    most_share = (node.memory_per_gpu or 0) * size.widest
    if size.widest == node.gpus:  # all that the node has, with what is in no GPU's share
        most_share = max(most_share, node.memory or 0)
    asks_cpus = resources.cpus_per_gpu or resources.cpus_per_node
    groups: list[dict[str, object]] = [
        *_check_gpus(node, size),
        _check_cpus(node, size) if asks_cpus else {},
        _check_memory(node, size, resources.memory_per_node or 0, most_share),
        {"disk": node.disk is not None and (resources.disk_per_node or 0) > node.disk},
    ]
    for rules in groups:
        for rule in [rule for rule, broken in rules.items() if broken][:1]:
            facts = _list_facts(node, size, resources, most_share)
            path, message, hint = context.explain(rule, **facts)
            if together and rule in ("gpus", "cpus"):  # the numbers are those of all of them
                message = f"{together} tasks together ask for {message}"
                hint = "write a smaller together"
            source = about[rule.partition(" ")[0]]
            yield report(context, source, f"resources.{path}", message, hint)


def _list_facts(node: Node, size: Size, resources: Resources, most_share: int) -> dict[str, object]:
    amounts = {
        "memory": resources.memory_per_node,
        "most_memory": node.memory,
        "memory_per_gpu": node.memory_per_gpu,
        "most_share": most_share,
        "disk": resources.disk_per_node,
        "most_disk": node.disk,
    }
    return {
        "node": node,
        "size": size,
        "key": "cpus_per_gpu" if resources.cpus_per_gpu else "cpus_per_node",
        "gpus": count(size.widest, "GPU"),
        "fewest": count(size.narrowest, "GPU"),
        "nodes": count(size.nodes, "node"),
        "cpus": count(size.cpus_per_node or 0, "CPU"),
        "hosts": _count_hosts(node, size),
        **{name: format_memory(amount or 0) for name, amount in amounts.items()},
    }


def _count_hosts(node: Node, size: Size) -> int:
    return sum(n for gpus, n in (node.hosts or {}).items() if int(gpus) >= size.narrowest)


def _check_gpus(node: Node, size: Size) -> Iterator[dict[str, object]]:
    """Yield the rules for the GPUs of a node, of which the first that is broken counts."""
    part = node.gpus is not None and 0 < size.narrowest < node.gpus
    yield {
        "gpus": node.gpus is not None and size.widest > node.gpus,
        "full always": part and node.full == "always",
        "full several": part and node.full == "several" and size.nodes > 1,
    }
    yield {"hosts": size.narrowest and 0 < _count_hosts(node, size) < size.nodes}
    yield {"job_gpus": node.job_gpus is not None and size.gpus > node.job_gpus}


def _check_cpus(node: Node, size: Size) -> dict[str, object]:
    cpus, share = size.cpus_per_node or 0, (node.cpus_per_gpu or 0) * size.widest
    return {
        "cpus_rule implied": node.cpus_rule == "implied",
        "cpus_rule exact": node.cpus_rule == "exact" and share and cpus != share,
        "cpus_rule most": node.cpus_rule == "most" and share and cpus > share,
        "cpus": node.cpus and cpus > node.cpus,
    }


def _check_memory(node: Node, size: Size, memory: int, most_share: int) -> dict[str, object]:
    shared = node.memory_rule == "most" and node.memory_per_gpu and size.widest
    return {
        "memory_rule forbidden": memory and node.memory_rule == "forbidden",
        "memory": node.memory is not None and memory > node.memory,
        "memory_rule most": shared and memory > most_share,
    }


def advise(
    context: Context, node: Node, groups: Sequence[NodeGroup], *, about: dict[str, SiteSource]
) -> Iterator[str]:
    """Yield warnings about what a GPU job does not ask for, and what it pays for unused."""
    size = measure(groups, None)
    processes = max(group.processes for group in groups)
    if not size.gpus or not context.site.can.batch:
        return
    part = node.whole and node.gpus and size.narrowest < node.gpus
    rules = {"part_of_node": part}
    yield from context.note(rules, size=size, node=node, about=about.get("whole", ""))
    if node.whole or context.spec.resources.exclusive or node.cpus_rule == "implied":
        return
    yield from _advise_on_shares(context, node, size, about, processes)


def _advise_on_shares(
    context: Context, node: Node, size: Size, about: dict[str, SiteSource], processes: int
) -> Iterator[str]:
    share = f" for {count(processes, 'process', 'processes')}"
    cpus, key, why = _count_cpus(context, node, size)
    few = cpus is not None and cpus < _LEAST_CPUS * processes
    why = f"{count(cpus or 0, 'CPU')}{share}{why}{about.get(key, '')}"
    yield from context.warn({"few_cpus": few}, why=why, share=_share_cpus(node))
    memory, key, why = _count_memory(context, node, size, cpus=cpus)
    little = memory is not None and memory < _LEAST_MEMORY * processes
    why = f"{format_memory(memory or 0)} of memory{share}{why}{about.get(key, '')}"
    yield from context.warn({"little_memory": little}, why=why, share=_share_memory(node, size))


Amount = tuple[int | None, str, str]  # None if it is not known; the key that says it; the reason


def _count_cpus(context: Context, node: Node, size: Size) -> Amount:
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
    if node.cpus_per_gpu:
        return str(node.cpus_per_gpu)
    return str(node.cpus // node.gpus) if node.cpus and node.gpus else "8, for instance"


def _share_memory(node: Node, size: Size) -> str:
    gpus = max(1, size.widest)
    if node.memory_per_gpu:
        return format_memory(node.memory_per_gpu * gpus)
    if node.memory and node.gpus:
        return f"{node.memory * min(gpus, node.gpus) // node.gpus // 1024**2}GB"
    return f"{32 * gpus}GB, for instance"
