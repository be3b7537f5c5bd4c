"""What a job may ask of a node, and what its processes get if it does not ask.

Each rule is said with its source.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jobgen.output import format_count as count
from jobgen.plan.decision import Context
from jobgen.plan.limits import Breach, Size, find_breaches, measure
from jobgen.plan.plan import NodeGroup
from jobgen.sites.profile import Node, SiteSource
from jobgen.spec.units import format_memory

_LEAST_CPUS = 2  # of a process: one computes, one loads data
_LEAST_MEMORY = 8 * 1024**2  # KiB of a process


class _Request:
    """What a job asks of a node of its site, beside what the node has.

    `about` has the source of each key of the node.
    """

    def __init__(
        self, context: Context, node: Node, size: Size, about: dict[str, SiteSource]
    ) -> None:
        self.context, self.node, self.size, self.about = context, node, size, about
        self.resources = context.spec.resources
        array = context.spec.array
        self.together = array.together if array else None
        self.shared = " together" if self.together else ""  # the numbers are those of all tasks
        # CPUs for each GPU count for those of a node: more GPUs are refused by themselves.
        each, self.gpus = self.resources.cpus_per_gpu, min(size.widest, node.gpus or size.widest)
        times = self.gpus if each else 1
        self.cpus = (each or size.cpus_per_node or 0) * times
        self.most_cpus = (node.cpus or 0) // max(1, times)
        self.memory = self.resources.memory_per_node or 0
        self.disk = self.resources.disk_per_node or 0

    @property
    def hosts(self) -> int:
        """How many nodes of the site have as many GPUs as each of the job's."""
        hosts = self.node.hosts or {}
        return sum(number for gpus, number in hosts.items() if int(gpus) >= self.size.narrowest)

    @property
    def most_share(self) -> int:
        """The memory that goes with its GPUs."""
        shares = (self.node.memory_per_gpu or 0) * self.size.widest
        if self.size.widest == self.node.gpus:  # all that the node has, also what is in no share
            return max(shares, self.node.memory or 0)
        return shares

    def list_rules(self) -> Iterator[dict[str, object]]:
        """Yield rules in groups, of each of which the first that is broken counts."""
        node, size = self.node, self.size
        full: dict[str | None, bool] = {"always": True, "several": size.nodes > 1}
        yield {
            f"gpus{self.shared}": _exceeds(size.widest, node.gpus),
            f"full {node.full}": full.get(node.full) and 0 < size.narrowest < (node.gpus or 0),
        }
        yield {"hosts": size.narrowest and 0 < self.hosts < size.nodes}
        yield {"job_gpus": _exceeds(size.gpus, node.job_gpus)}
        if self.resources.cpus_per_gpu or self.resources.cpus_per_node:
            yield self._judge_cpus()
        shared = node.memory_rule == "most" and node.memory_per_gpu and size.widest
        yield {
            "memory_rule forbidden": self.memory and node.memory_rule == "forbidden",
            "memory": _exceeds(self.memory, node.memory),
            "memory_rule most": shared and self.memory > self.most_share,
        }
        yield {"disk": _exceeds(self.disk, node.disk)}

    def _judge_cpus(self) -> dict[str, object]:
        rule, share = self.node.cpus_rule, (self.node.cpus_per_gpu or 0) * self.gpus
        broken: dict[str | None, bool] = {
            "implied": True,
            "exact": share not in (0, self.cpus),
            "most": 0 < share < self.cpus,
        }
        more = _exceeds(self.cpus, self.node.cpus)
        return {f"cpus_rule {rule}": broken.get(rule), f"cpus{self.shared}": more}

    def list_facts(self) -> dict[str, object]:
        """Return what the messages of the rules name."""
        node, size = self.node, self.size
        amounts = {
            "memory": self.memory,
            "most_memory": node.memory,
            "memory_per_gpu": node.memory_per_gpu,
            "most_share": self.most_share,
            "disk": self.disk,
            "most_disk": node.disk,
        }
        types, asked = self.context.site.gpu_types.items(), self.resources.gpu_type or ""
        larger = [name for name, one in types if (one.gpus or 0) >= size.widest]
        larger = sorted(larger, key=lambda name: name[:4] != asked[:4])[:3]  # a100, of a100_40gb
        return {
            "node": node,
            "size": size,
            "key": "cpus_per_gpu" if self.resources.cpus_per_gpu else "cpus_per_node",
            "gpus": count(size.widest, "GPU"),
            "fewest": count(size.narrowest, "GPU"),
            "nodes": count(size.nodes, "node"),
            "counted": count(self.gpus, "GPU"),
            "cpus": count(self.cpus, "CPU"),
            "most_cpus": self.most_cpus,
            "hosts": self.hosts,
            "together": self.together,
            "larger": f", or write gpu_type: {' or '.join(larger)}" if larger else "",
            **{name: format_memory(amount or 0) for name, amount in amounts.items()},
        }

    def advise_on_shares(self, processes: int) -> Iterator[str]:
        """Yield warnings about CPUs and memory that are too few for its processes."""
        share = f" for {count(processes, 'process', 'processes')}"
        cpus, why = self._find_share("cpus", self.cpus)
        few = 0 < cpus < _LEAST_CPUS * processes
        why = f"{count(cpus, 'CPU')}{share}{why}"
        yield from self.context.warn({"few_cpus": few}, why=why, share=_share_cpus(self.node))
        by_gpu = self.node.memory_per_gpu is not None
        memory, why = (self.memory, "") if by_gpu else self._find_share("memory", self.memory, cpus)
        little = 0 < memory < _LEAST_MEMORY * processes
        why = f"{format_memory(memory)} of memory{share}{why}"
        fitting = _share_memory(self.node, self.size)
        yield from self.context.warn({"little_memory": little}, why=why, share=fitting)

    def _find_share(self, thing: str, asked: int, cpus: int = 0) -> tuple[int, str]:
        """Return how much a job has of a thing, and who says it if it does not; 0 if unknown."""
        if asked:
            return asked, ""
        each, can = {"": 1, "gpus": self.size.widest, "cpus": cpus}, self.context.site.can
        for key, unit, why in _SHARES[thing]:
            amount = getattr(self.node, f"default_{key}") or 0
            if amount * each[unit]:
                facts = {"cpus": count(cpus, "CPU"), "each": format_memory(amount)}
                words = why.format(gpus=self.size.widest, **facts)
                return amount * each[unit], f": {words}{self.about.get(f'default_{key}', '')}"
        if thing == "cpus" and can.one_cpu:
            return 1, f": {can.title} gives one CPU unless a job asks for more"
        return 0, ""


# What a job gets that asks for none: the site's default_KEY, for each of what, and why.
_SHARES = {
    "cpus": (
        ("cpus_per_gpu", "gpus", "the site's share of {gpus} GPUs"),
        ("cpus", "", "what a task gets that asks for none"),
    ),
    "memory": (
        ("memory_per_gpu", "gpus", "the site's share of {gpus} GPUs"),
        ("memory_per_cpu", "cpus", "a job that asks for none gets {each} with each of its {cpus}"),
        ("memory", "", "what a job gets that asks for none"),
    ),
}


def check_node(
    context: Context, node: Node, size: Size, *, about: dict[str, SiteSource]
) -> Iterator[Breach]:
    """Yield what is wrong with the GPUs of a node, and with CPUs, memory and disk beside them.

    `about` has the source of each key of `node`.
    """
    request = _Request(context, node, size, about)
    for rules in request.list_rules():
        for rule in [rule for rule, broken in rules.items() if broken][:1]:
            source = about[rule.partition(" ")[0]]
            yield from find_breaches(context, source, {rule: True}, **request.list_facts())


def advise(
    context: Context, node: Node, groups: Sequence[NodeGroup], *, about: dict[str, SiteSource]
) -> Iterator[str]:
    """Yield warnings about what a GPU job does not ask for, and what it pays for unused."""
    size = measure(groups, None)
    if not size.gpus or not context.site.can.batch:
        return
    part = node.whole and node.gpus and size.narrowest < node.gpus
    rules = {"part_of_node": part}
    yield from context.note(rules, size=size, node=node, about=about.get("whole", ""))
    if not (node.whole or context.spec.resources.exclusive or node.cpus_rule == "implied"):
        processes = max(group.processes for group in groups)
        yield from _Request(context, node, size, about).advise_on_shares(processes)


def _exceeds(amount: int, most: int | None) -> bool:
    return most is not None and amount > most


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
