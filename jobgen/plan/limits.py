"""What a site refuses, said before its scheduler does: each rule with its source.

The limits of queues come first, then accounts and mandatory lists, then what a job may ask of a
node, and what its processes get if it does not ask.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from operator import mul

from jobgen.errors import Problem
from jobgen.output import format_count as count
from jobgen.plan.decision import Context
from jobgen.plan.nodes import count_memory, count_together
from jobgen.plan.plan import NodeGroup
from jobgen.records import NamedTuple
from jobgen.sites.profile import Filesystems, Limit, Node, SiteQueue, SiteSource
from jobgen.spec.model import JobSpec
from jobgen.spec.tables import Rules, read_rows
from jobgen.spec.units import format_memory, format_time

LATER = "it may be given later"  # the doubt of what the command that submits can still give

_UNITS = {"nodes": "node", "gpus": "GPU", "cpus": "CPU"}
_LEAST_CPUS = 2  # of a process: one computes, one loads data
_LEAST_MEMORY = 8 * 1024**2  # KiB of a process
_USUAL_CPUS, _USUAL_MEMORY = 8, 32 * 1024**2  # of a GPU


class Size(NamedTuple):
    """What a job asks for in all. `widest` is the most GPUs of one node, `narrowest` the least.

    CPUs are None if they are not known of each node.
    """

    nodes: int
    gpus: int
    cpus: int | None
    widest: int
    narrowest: int
    cpus_per_node: int | None  # the most
    walltime: int | None  # seconds


def measure(groups: Iterable[NodeGroup], walltime: int | None) -> Size:
    """Return what the nodes of a job are in all."""
    counts, gpus, cpus = zip(*((one.nodes, one.gpus, one.cpus or 0) for one in groups), strict=True)
    return Size(
        nodes=sum(counts),
        gpus=sum(map(mul, counts, gpus)),
        cpus=sum(map(mul, counts, cpus)) if all(cpus) else None,
        widest=max(gpus),
        narrowest=min(gpus),
        cpus_per_node=max(cpus) or None,
        walltime=walltime,
    )


class Breach(NamedTuple):
    """A rule that a job breaks: an error, or in doubt a warning."""

    problem: Problem
    doubt: str = ""


def find_breaches(
    context: Context, about: SiteSource, rules: Rules, doubt: str = "", /, **facts: object
) -> Iterator[Breach]:
    """Yield the breach of each rule that is broken, with its source and a doubt if there is one."""
    for path, message, hint in context.find_broken(rules, **facts):
        day = context.today or time.strftime("%Y-%m-%d")
        problem = context.loaded.problem(path, f"{message}{about}", hint)
        yield Breach(problem, about.doubt(day) or doubt)


def accepts(queue: SiteQueue, size: Size) -> bool:
    """Whether a queue takes a job of this size and walltime."""
    return not queue.limits or any(_gives_time(limit, size) for limit in _find_fitting(queue, size))


def rank_nearness(queue: SiteQueue, size: Size) -> tuple[bool, int]:
    """How near a queue is to taking a job that it does not take; the greatest is the nearest."""
    if limits := list(_find_fitting(queue, size)):
        return True, max(limit.times[1] or 0 for limit in limits)
    return False, max(((limit.nodes or (0,))[-1] for limit in queue.limits), default=0)


def check_queue(context: Context, name: str | None, size: Size) -> Iterator[Breach]:
    """The queue's limits on nodes, GPUs, CPUs, walltime and their products."""
    profile = context.site
    names = (name or "").split(",")
    known = {one: record for one in names if (record := profile.find_queue(one))}
    for one in context.spec.queue:
        if profile.queues and profile.find_queue(one) is None:
            yield from _refuse_unknown(context, one)
    about = profile.find_source(profile.cited.get("walltime_required"))
    rules = {"walltime_required": profile.walltime_required and size.walltime is None}
    yield from find_breaches(context, about, rules)
    if len(known) > 1 and any(accepts(record, size) for record in known.values()):
        known = {}
    for one, record in {"every queue": profile.every_queue, **known}.items():
        yield from _check_one_queue(context, one, record, size)


def _check_one_queue(context: Context, name: str, queue: SiteQueue, size: Size) -> Iterator[Breach]:
    profile = context.site
    rules = {"routed": queue.routed_from}
    yield from find_breaches(context, profile.cite(queue), rules, name=name, queue=queue)
    if accepts(queue, size):
        return
    for path, message, hint, limit in _explain_refusal(name, queue, size):
        if path == "resources.nodes" and context.spec.resources.nodes is None:
            path = "resources.gpus_per_node"
        about = profile.cite(limit, queue)
        facts = {"message": message, "hint": hint, "why": f": {limit.why}" if limit.why else ""}
        yield from find_breaches(context, about, {"size": True}, path=path, **facts)


def _refuse_unknown(context: Context, name: str) -> Iterator[Breach]:
    from jobgen.spec.spelling import find_near  # only a fault needs it

    queues, where = context.site.queues, context.site.title or "this site"
    near = find_near(name, queues)
    facts = {"near": f"did you mean {near}? " if near else "", "known": ", ".join(queues)}
    for problem in context.refuse({"unknown_queue": True}, name=name, where=where, **facts):
        yield Breach(problem, "the list may be incomplete")


def _find_fitting(queue: SiteQueue, size: Size) -> Iterator[Limit]:
    """Yield the limits that are for a job of this size."""
    for limit in queue.limits:
        if not any(_is_outside(getattr(limit, unit), getattr(size, unit)) for unit in _UNITS):
            yield limit


def _is_outside(ends: tuple[int, ...] | None, number: int | None) -> bool:
    if ends is None or number is None:
        return False
    return not ends[0] <= number <= (*ends, math.inf)[1]


def _gives_time(limit: Limit, size: Size) -> bool:
    if size.walltime is None:
        return True
    least, most = limit.times
    minutes = math.inf if limit.node_minutes is None else limit.node_minutes
    longest = math.inf if most is None else most
    return least <= size.walltime <= min(longest, minutes * 60 / size.nodes)


Refusal = tuple[str, str, str, Limit]


def _explain_refusal(name: str, queue: SiteQueue, size: Size) -> Iterator[Refusal]:
    """Key, message and hint of what a queue that does not take the job refuses, and its limit."""
    if limits := list(_find_fitting(queue, size)):
        yield _explain_time(name, limits, size)
        return
    for unit in _UNITS:  # no limit is for a job of this size
        limits = [limit for limit in queue.limits if getattr(limit, unit)]
        number = getattr(size, unit)
        if limits and all(_is_outside(getattr(limit, unit), number) for limit in limits):
            yield from _explain_number(name, unit, limits, size)
            longest = [limit.times[1] or math.inf for limit in limits]
            if max(longest) < (size.walltime or 0):
                yield _explain_time(name, limits, size)
            return


def _explain_number(name: str, unit: str, limits: list[Limit], size: Size) -> Iterator[Refusal]:
    word, number = _UNITS[unit], getattr(size, unit) or 0
    least = min(getattr(limit, unit)[0] for limit in limits)
    most = max(getattr(limit, unit)[-1] for limit in limits)
    asked = count(size.nodes, "node")
    if unit != "nodes":
        asked += f" with {count(number, word)}"
    each = max(1, number // size.nodes)
    if number < least:
        message = f"{asked}: less than {name}'s least of {count(least, word)}"
        yield "resources.nodes", message, f"use at least {count(least, word)}", limits[0]
    elif number > most:
        nodes = most // each
        hint = f"use at most {count(nodes, 'node')}" if nodes else "use fewer GPUs"
        message = f"{asked}: more than {name}'s {count(most, word)}"
        yield "resources.nodes", message, hint, limits[-1]


def _explain_time(name: str, limits: list[Limit], size: Size) -> Refusal:
    limit = max(limits, key=lambda limit: limit.times[1] or 0)
    asked, (least, most) = size.walltime or 0, limit.times
    if asked < least:
        order, bound, hint = "is less than", least, "use at least"
    elif most is not None and asked > most:
        order, bound, hint = "exceeds", most, "use at most"
    else:
        minutes = limit.node_minutes or 0
        message = (
            f"{count(size.nodes, 'node')} for {format_time(asked)} are"
            f" {size.nodes * asked // 60} node-minutes, more than {name}'s {minutes}"
        )
        hint = f"use at most {format_time(minutes * 60 // size.nodes)}"
        return "resources.walltime", message, hint, limit
    ends = f"{name}'s {format_time(bound)}{_describe_extent(limit)}"
    message = f"{format_time(asked)} {order} {ends}"
    return "resources.walltime", message, f"{hint} {format_time(bound)}", limit


def _describe_extent(limit: Limit) -> str:
    for unit, word in _UNITS.items():
        if ends := getattr(limit, unit):
            least = "at least " if len(ends) == 1 else ""
            return f" for {least}{'-'.join(map(str, dict.fromkeys(ends)))} {word}s"
    return ""


def is_listed_by_hand(listed: Filesystems, spec: JobSpec) -> bool:
    """Whether a directive of the spec's own names the file systems."""
    return has_option(spec.directives, rf"-l\s*(?:\S+,)?{re.escape(listed.resource)}")


def has_option(directives: Sequence[str], *options: str) -> bool:
    """Whether a directive of the spec's own has an option of one of these forms."""
    return any(re.search(rf"\s({'|'.join(options)})\b", line) for line in directives)


def check_lists(
    context: Context, *, gpu_type: str | None, gpus: int, filesystems: tuple[str, ...]
) -> Iterator[Breach]:
    """The account, the file systems and the type of GPU."""
    yield from _check_account(context)
    yield from _check_filesystems(context, filesystems)
    types = context.site.gpu_types if gpus else {}
    rules = {
        "gpu_type_required": types and gpu_type is None and context.site.gpu_type_required,
        "gpu_type": types and gpu_type not in (None, *types),
    }
    about = context.site.cite(*types.values())
    yield from find_breaches(context, about, rules, gpu_type=gpu_type, known=", ".join(types))


def _check_account(context: Context) -> Iterator[Breach]:
    given, account = context.spec.account, context.site.account
    about = context.site.cite(account)
    options = [one for one, key in context.site.option_keys.items() if key == "account"]
    needs = given is None and account.required
    rules = {"account_required": needs and not has_option(context.spec.directives, *options)}
    yield from find_breaches(context, about, rules, LATER)
    rules = {"account": given is not None and not account.takes(given)}
    yield from find_breaches(context, about, rules, account=account)


def _check_filesystems(context: Context, named: tuple[str, ...]) -> Iterator[Breach]:
    listed = context.site.filesystems
    if listed is None or is_listed_by_hand(listed, context.spec):
        return
    about, known = context.site.cite(listed), listed.known or ("NAME",)
    rules = {"filesystems_required": not named and listed.required}
    yield from find_breaches(context, about, rules, known=", ".join(known))
    rules = {"filesystems_used": not (named or listed.required)}
    yield from find_breaches(context, about, rules, "the job may use none", listed=listed)
    for index, name in enumerate(named):
        facts = {"index": index, "name": name, "known": ", ".join(known)}
        rules = {"filesystem": bool(listed.known) and name not in known}
        yield from find_breaches(context, about, rules, **facts)


class _Request:
    """What a job asks of a node of its site, beside what the node has.

    `about` has the source of each key of the node.
    """

    def __init__(
        self, context: Context, node: Node, size: Size, about: dict[str, SiteSource]
    ) -> None:
        self.context, self.node, self.size, self.about = context, node, size, about
        self.resources = context.spec.resources
        self.together = count_together(context)
        # The numbers are those of all tasks.
        self.shared = " together" if self.together > 1 else ""
        # CPUs for each GPU count for those of a node: more GPUs are refused by themselves.
        each, self.gpus = self.resources.cpus_per_gpu, min(size.widest, node.gpus or size.widest)
        times = self.gpus if each else 1
        self.cpus = (each or size.cpus_per_node or 0) * times
        self.most_cpus = (node.cpus or 0) // max(1, times)
        self.memory = (self.resources.memory_per_node or 0) * self.together
        self.disk = (self.resources.disk_per_node or 0) * self.together

    @property
    def hosts(self) -> int:
        """How many nodes of the site have as many GPUs as each of the job's."""
        return _count_hosts(self.node, self.size.narrowest)

    @property
    def most_share(self) -> int:
        """The memory that goes with its GPUs."""
        return count_memory(self.node, self.size.widest)

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
        own_memory = self.memory not in (0, self.most_share)
        shared = node.memory_rule == "most" and node.memory_per_gpu and size.widest
        yield {
            "memory_rule forbidden": node.memory_rule == "forbidden" and own_memory,
            f"memory{self.shared}": _exceeds(self.memory, node.memory),
            "memory_rule most": shared and self.memory > self.most_share,
        }
        yield {f"disk{self.shared}": _exceeds(self.disk, node.disk)}

    def _judge_cpus(self) -> dict[str, object]:
        rule, share = self.node.cpus_rule, (self.node.cpus_per_gpu or 0) * self.gpus
        broken: dict[str | None, bool] = {
            "implied": share != self.cpus,
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
            "most_share": self.most_share // self.together,
            "disk": self.disk,
            "most_disk": node.disk,
        }
        types, asked = self.context.site.gpu_types.items(), self.resources.gpu_type or ""
        larger = [name for name, one in types if (one.gpus or 0) >= size.widest]
        larger = sorted(larger, key=lambda name: name[:4] != asked[:4])[:3]  # a100, of a100_40gb
        return {
            "request": self,
            "key": "cpus_per_gpu" if self.resources.cpus_per_gpu else "cpus_per_node",
            "gpus": count(size.widest, "GPU"),
            "fewest": count(size.narrowest, "GPU"),
            "nodes": count(size.nodes, "node"),
            "counted": count(self.gpus, "GPU"),
            "cpus": count(self.cpus, "CPU"),
            "spread": _spread(size, node),
            "larger": f", or write gpu_type: {' or '.join(larger)}" if larger else "",
            **{name: format_memory(amount or 0) for name, amount in amounts.items()},
        }

    def advise_on_shares(self, processes: int) -> Iterator[str]:
        """Yield warnings about CPUs and memory that are too few for its processes."""
        share = f" for {count(processes, 'process', 'processes')}"
        tasks = processes if self.context.spec.launch.mode == "direct" else 1
        cpus, why = self._find_share("cpus", self.cpus, tasks=tasks)
        few = 0 < cpus < _LEAST_CPUS * processes
        why = f"{count(cpus, 'CPU')}{share}{why}"
        fitting = _share(self.node.cpus_per_gpu, self.node.cpus, self.node.gpus, _USUAL_CPUS)
        of_node = self.cpus and not self.resources.cpus_per_gpu
        fitting *= self.gpus // self.together if of_node else 1
        facts = {"key": "cpus_per_node" if of_node else "cpus_per_gpu", "share": fitting}
        yield from self.context.warn({"few_cpus": few}, why=why, **facts)
        by_gpu = self.node.memory_per_gpu is not None
        memory, why = (self.memory, "") if by_gpu else self._find_share("memory", self.memory, cpus)
        little = 0 < memory < _LEAST_MEMORY * processes
        why = f"{format_memory(memory)} of memory{share}{why}"
        node = self.node
        fitting = _share(node.memory_per_gpu, node.memory, node.gpus, _USUAL_MEMORY)
        shown = format_memory(fitting * self.gpus // self.together)
        yield from self.context.warn({"little_memory": little}, why=why, share=shown)

    def _find_share(self, thing: str, asked: int, cpus: int = 0, tasks: int = 1) -> tuple[int, str]:
        """Return how much a job has of a thing, and who says it if it does not; 0 if unknown."""
        if asked:
            return asked, ""
        each, can = {"-": 1, "gpus": self.size.widest, "cpus": cpus}, self.context.site.can
        for of, key, unit, why in read_rows("shares.txt", room="plan"):
            amount = (of == thing and getattr(self.node, f"default_{key}")) or 0
            if amount * each[unit]:
                facts = {"cpus": count(cpus, "CPU"), "each": format_memory(amount)}
                words = why.format(gpus=self.size.widest, **facts)
                return amount * each[unit], f": {words}{self.about.get(f'default_{key}', '')}"
        gives_one = thing == "cpus" and can.one_cpu
        if gives_one and not has_option(self.context.spec.directives, *_ASK_CPUS):
            return tasks, f": {can.title} gives each task one CPU unless a job asks for more"
        return 0, ""


# Options of a directive that ask for more CPUs than one.
_ASK_CPUS = ("--cpus", "--ntasks", "--cores", r"-[cn]\d*")


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
    rules = {"part_of_node": node.whole and node.gpus and size.narrowest < node.gpus}
    yield from context.note(rules, size=size, node=node, about=about.get("whole", ""))
    if not (node.whole or context.spec.resources.exclusive or node.cpus_rule == "implied"):
        processes = max(group.processes for group in groups)
        yield from _Request(context, node, size, about).advise_on_shares(processes)


def _count_hosts(node: Node, gpus: int) -> int:
    """Return how many nodes of the site have so many GPUs; 0 where that is not known."""
    return sum(number for has, number in (node.hosts or {}).items() if int(has) >= gpus)


def _spread(size: Size, node: Node) -> str:
    """Return how GPUs that one node does not have stand on several, if the site has so many."""
    nodes, rest = divmod(size.gpus, node.gpus or 1)
    known = _count_hosts(node, node.gpus or 1) or nodes
    words = f"; for {size.gpus} in all, write nodes: {nodes}, gpus_per_node: {node.gpus}"
    return words if rest == 0 < nodes <= known else ""


def _exceeds(amount: int, most: int | None) -> bool:
    return most is not None and amount > most


def _share(each: int | None, all_of_them: int | None, gpus: int | None, usual: int) -> int:
    """Return what goes with a GPU: as the site says, else a node's by its GPUs, else the usual."""
    return each or ((all_of_them or 0) // gpus if gpus else 0) or usual
