"""What a site refuses, said before its scheduler does: each rule with its source.

The limits of queues come first, then shapes of nodes, accounts and mandatory lists.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from jobgen.errors import Problem
from jobgen.plan.plan import NodeGroup
from jobgen.sites.profile import Filesystems, Limit, Node, SiteProfile, SiteQueue
from jobgen.spec.load import LoadedSpec
from jobgen.spec.model import JobSpec
from jobgen.spec.units import format_memory

_UNITS = {"nodes": "node", "gpus": "GPU", "cpus": "CPU"}


class Size(NamedTuple):
    """What a job asks for in all. `widest` is the most GPUs of one node, `narrowest` the least.

    CPUs are those of one node; None where nobody says.
    """

    nodes: int
    gpus: int
    widest: int
    narrowest: int
    cpus_per_node: int | None
    walltime: int | None  # seconds

    def total(self, unit: str) -> int | None:
        """How many nodes, gpus or cpus the whole job has."""
        if unit == "cpus":
            return None if self.cpus_per_node is None else self.cpus_per_node * self.nodes
        return self.nodes if unit == "nodes" else self.gpus


def measure(groups: Iterable[NodeGroup], walltime: int | None) -> Size:
    """Return what the nodes of a job are in all."""
    groups = list(groups)
    gpus = [group.gpus for group in groups]
    return Size(
        nodes=sum(group.nodes for group in groups),
        gpus=sum(group.nodes * group.gpus for group in groups),
        widest=max(gpus),
        narrowest=min(gpus),
        cpus_per_node=max((group.cpus for group in groups if group.cpus), default=None),
        walltime=walltime,
    )


class Citation(NamedTuple):
    """What a rule stands on: `verified` and `as_of` say how far it can be trusted."""

    source: str
    as_of: str | None
    verified: str | None

    def __str__(self) -> str:
        parts = [self.source, f"as of {self.as_of}" if self.as_of else ""]
        return f" ({', '.join(part for part in parts if part)})" if any(parts) else ""

    def doubt(self, today: str) -> str:
        """Why a limit on this cite is only a warning; empty where it is sure enough.

        `today` is YYYY-MM-DD; a year or month alone counts from its first day.
        """
        if self.verified == "scripts":
            return "this is from users' scripts, so it may be wrong"
        if self.as_of:
            year, rest = self.as_of[:4], (self.as_of + "-01-01")[4:10]
            if f"{int(year) + 1}{rest}" < today:
                return "this is more than 12 months old, so it may have changed"
        return ""


class Breach(NamedTuple):
    """One rule that a job breaks: an error, or in doubt a warning."""

    problem: Problem
    doubt: str = ""


def cite(profile: SiteProfile, record: object, queue: SiteQueue | None = None) -> Citation:
    """What the facts of `record` stand on, where it is part of `queue` if there is one."""
    source = getattr(record, "source", None) or getattr(queue, "source", None)
    about = record if isinstance(record, SiteQueue) else queue
    return Citation(
        (profile.sources or {}).get(source, "") if source else "",
        getattr(about, "as_of", None) or profile.as_of,
        getattr(about, "verified", None) or profile.verified,
    )


def accepts(queue: SiteQueue, size: Size) -> bool:
    """Whether a queue takes a job of this size and walltime."""
    limits = [limit for limit in queue.limits if _covers(limit, size)]
    return not queue.limits or any(_gives_time(limit, size) for limit in limits)


def rank_nearness(queue: SiteQueue, size: Size) -> tuple[bool, int]:
    """How near a queue is to taking a job that it does not take; the greatest is the nearest."""
    limits = [limit for limit in queue.limits if _covers(limit, size)]
    if limits:
        return True, max(limit.times[1] or 0 for limit in limits)
    return False, max(((limit.nodes or (0,))[-1] for limit in queue.limits), default=0)


def check_queue(
    loaded: LoadedSpec, profile: SiteProfile, name: str | None, size: Size, today: str | None
) -> Iterator[Breach]:
    """The queue's limits on nodes, GPUs, CPUs, walltime and their products."""
    queues = profile.queues or {}
    checked = [("every queue", profile.every_queue)]
    if name is not None and (record := profile.find_queue(name)):
        checked.append((name, record))
    elif name is not None and queues and loaded.spec.queue == name:
        message = f"the profile of {profile.title or 'this site'} knows no queue {name!r}"
        hint = f"it knows {', '.join(queues)}"
        yield Breach(loaded.problem("queue", message, hint), "the list may be incomplete")
    if profile.walltime_required and size.walltime is None:
        source = (profile.sources or {}).get((profile.cited or {}).get("walltime_required", ""), "")
        about = cite(profile, None)._replace(source=source)
        message = f"every job must say its walltime{about}"
        problem = loaded.problem("resources", message, "add walltime, such as 1h")
        yield Breach(problem, about.doubt(choose_day(today)))
    for name, queue in checked:
        about = cite(profile, queue)
        doubt = about.doubt(choose_day(today))
        if queue.routed_from:
            message = f"{name} takes no jobs itself{about}"
            hint = f"write queue: {queue.routed_from}, which leads there"
            yield Breach(loaded.problem("queue", message, hint), doubt)
        if queue.limits and not accepts(queue, size):
            why = "".join(f": {limit.why}" for limit in queue.limits[:1] if limit.why)
            for path, message, hint in explain_refusal(name, queue, size):
                if path == "resources.nodes" and loaded.spec.resources.nodes is None:
                    path = "resources.gpus_per_node"
                yield Breach(loaded.problem(path, f"{message}{why}{about}", hint), doubt)


def choose_day(today: str | None) -> str:
    """`today`, or the day that it is, as YYYY-MM-DD."""
    return today or time.strftime("%Y-%m-%d")


def _covers(limit: Limit, size: Size) -> bool:
    return not any(_is_outside(getattr(limit, unit), size.total(unit)) for unit in _UNITS)


def _is_outside(ends: tuple[int, ...] | None, number: int | None) -> bool:
    if ends is None or number is None:
        return False
    return number < ends[0] or (len(ends) > 1 and number > ends[1])


def _gives_time(limit: Limit, size: Size) -> bool:
    if size.walltime is None:
        return True
    least, most = limit.times
    product = size.walltime * size.nodes
    return (
        size.walltime >= least
        and (most is None or size.walltime <= most)
        and (limit.node_minutes is None or product <= limit.node_minutes * 60)
    )


def explain_refusal(name: str, queue: SiteQueue, size: Size) -> Iterator[tuple[str, str, str]]:
    """Key, message and hint of what a queue that does not take the job refuses."""
    limits = [limit for limit in queue.limits if _covers(limit, size)]
    if limits:
        yield from _explain_time(name, queue, limits, size)
    else:
        yield from _explain_size(name, queue, size)


def _explain_size(name: str, queue: SiteQueue, size: Size) -> Iterator[tuple[str, str, str]]:
    """No limit is for a job of this size."""
    for unit, word in _UNITS.items():
        ranges = [ends for limit in queue.limits if (ends := getattr(limit, unit))]
        number = size.total(unit)
        if not ranges or number is None or not all(_is_outside(ends, number) for ends in ranges):
            continue
        least = min(ends[0] for ends in ranges)
        most = None if any(len(ends) < 2 for ends in ranges) else max(ends[1] for ends in ranges)
        asked = count(size.nodes, "node")
        if unit != "nodes":
            asked += f" with {count(number, word)}"
        each = max(1, number // size.nodes)
        if number < least:
            nodes = -(-least // each)
            yield (
                "resources.nodes",
                f"{asked}: less than {name}'s least of {count(least, word)}",
                f"use at least {count(nodes, 'node')}",
            )
        elif most is not None and number > most:
            nodes = most // each
            hint = f"use at most {count(nodes, 'node')}" if nodes else "use fewer GPUs on each"
            yield "resources.nodes", f"{asked}: more than {name}'s {count(most, word)}", hint
        return


def _explain_time(
    name: str, queue: SiteQueue, limits: list[Limit], size: Size
) -> Iterator[tuple[str, str, str]]:
    """The size is right, the walltime is not."""
    limit = max(limits, key=lambda limit: limit.times[1] or 0)
    least, most = limit.times
    asked, path = size.walltime or 0, "resources.walltime"
    extent = _describe_extent(limit)
    if asked < least:
        message = f"{format_time(asked)} is less than {name}'s {format_time(least)}{extent}"
        yield path, message, f"use at least {format_time(least)}"
    elif most is not None and asked > most:
        here = queue.limits.index(limit)
        longer = [
            (abs(index - here), other)
            for index, other in enumerate(queue.limits)
            if (other.times[1] or 0) >= asked
        ]
        other = min(longer, key=lambda pair: pair[0])[1] if longer else None
        sizes = f"{_describe_size(other, limit, size)} or " if other else ""
        message = f"{format_time(asked)} exceeds {name}'s {format_time(most)}{extent}"
        yield path, message, f"use at most {sizes}{format_time(most)}"
    elif limit.node_minutes is not None:
        product = count(size.nodes, "node")
        message = (
            f"{product} for {format_time(asked)} are {size.nodes * asked // 60} node-minutes, "
            f"more than {name}'s {limit.node_minutes}"
        )
        yield path, message, f"use at most {format_time(limit.node_minutes * 60 // size.nodes)}"


def _describe_size(other: Limit, limit: Limit, size: Size) -> str:
    """The number of nodes that another limit is for."""
    for unit in _UNITS:
        ends, own = getattr(other, unit), getattr(limit, unit)
        if ends and own:
            each = max(1, (size.total(unit) or 1) // size.nodes)
            if ends[0] > own[0]:
                return f"{format_time(other.times[1] or 0)} on {-(-ends[0] // each)} nodes or more,"
            return count(ends[-1] // each, "node")
    return ""


def _describe_extent(limit: Limit) -> str:
    for unit, word in _UNITS.items():
        if ends := getattr(limit, unit):
            least = "" if len(ends) > 1 else "at least "
            return f" for {least}{'-'.join(map(str, dict.fromkeys(ends)))} {word}s"
    return ""


def count(number: int, word: str) -> str:
    """`1 node`, `2 nodes`."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def format_time(seconds: int) -> str:
    """`5h`, `90m`, `1h30m`: the form that a spec takes."""
    hours, rest = divmod(seconds, 3600)
    minutes, rest = divmod(rest, 60)
    parts = ((hours, "h"), (minutes, "m"), (rest, "s"))
    return "".join(f"{number}{unit}" for number, unit in parts if number) or "0s"


def check_node(
    loaded: LoadedSpec,
    node: Node,
    size: Size,
    *,
    about: dict[str, Citation],
    today: str | None,
) -> Iterator[Breach]:
    """The shape of a node: its GPUs, and the CPUs and memory that go with each.

    `about` says for each key of `node` what it stands on.
    """
    resources = loaded.spec.resources
    cpus_key = "cpus_per_gpu" if resources.cpus_per_gpu is not None else "cpus_per_node"
    cpus_given = resources.cpus_per_gpu is not None or resources.cpus_per_node is not None
    given = "memory_per_node"

    def report(rule: str, key: str, message: str, hint: str) -> Breach:
        path = f"resources.{key}" if key else "resources"
        doubt = about[rule].doubt(choose_day(today))
        return Breach(loaded.problem(path, f"{message}{about[rule]}", hint), doubt)

    if node.gpus is not None and size.widest > node.gpus:
        message = f"{count(size.widest, 'GPU')}, more than the {node.gpus} of a node"
        yield report("gpus", "gpus_per_node", message, f"use at most {node.gpus}")
    elif node.gpus is not None and 0 < size.narrowest < node.gpus:
        several = node.full == "several" and size.nodes > 1
        if several or node.full == "always":
            whose = "a job on several nodes" if several else "a job"
            message = f"{count(size.narrowest, 'GPU')}, but {whose} has all {node.gpus} of each"
            yield report("full", "gpus_per_node", message, f"write gpus_per_node: {node.gpus}")
    if node.hosts and size.narrowest:
        most = sum(n for gpus, n in node.hosts.items() if int(gpus) >= size.narrowest)
        if 0 < most < size.nodes:
            each = count(size.narrowest, "GPU")
            message = f"{count(size.nodes, 'node')} with {each} each; {most} have so many"
            yield report("hosts", "nodes", message, f"use at most {most}, or fewer GPUs on each")
    if node.job_gpus is not None and size.gpus > node.job_gpus:
        message = f"{size.gpus} GPUs in all, more than the {node.job_gpus} that a job can have"
        yield report("job_gpus", "gpus_per_node", message, f"use at most {node.job_gpus}")
    if node.cpus_rule == "required" and size.gpus and not (cpus_given or node.cpus_per_gpu):
        hint = "add cpus_per_gpu, such as 8"
        yield report("cpus_rule", "", "this site gives a GPU job one CPU unless it asks", hint)
    if cpus_given:
        for rule, message, hint in _check_cpus(node, size, cpus_key):
            yield report(rule, cpus_key, message, hint)
    memory = resources.memory_per_node
    if memory is None:
        if node.memory_rule == "required":
            hint = "add memory_per_node, such as 180GB"
            yield report("memory_rule", "", "this site wants the memory of every job", hint)
        return
    if node.memory_rule == "forbidden":
        asked = _format_memory(memory)
        message = f"{asked}, but the memory follows from the nodes or GPUs here: do not ask"
        yield report("memory_rule", given, message, f"leave {given} out")
    elif node.memory is not None and memory > node.memory:
        message = f"{_format_memory(memory)}, more than the {_format_memory(node.memory)} of a node"
        yield report("memory", given, message, f"use at most {_format_memory(node.memory)}")
    elif node.memory_rule == "most" and node.memory_per_gpu and size.widest:
        most = node.memory_per_gpu * size.widest
        if size.widest == node.gpus:  # all that the node has, with what no GPU's share is
            most = max(most, node.memory or 0)
        if memory > most:
            each = _format_memory(node.memory_per_gpu)
            message = f"{_format_memory(memory)}, more than {each} for each GPU"
            yield report("memory_rule", given, message, f"use at most {_format_memory(most)}")


def _check_cpus(node: Node, size: Size, key: str) -> Iterator[tuple[str, str, str]]:
    """The CPUs of a node, where the spec says them by `key`: rule, message, hint."""
    cpus, gpus, each = size.cpus_per_node or 0, size.widest, node.cpus_per_gpu
    asked = f"{count(cpus, 'CPU')} for {count(gpus, 'GPU')} a node"
    leave = f"leave {key} out"
    if node.cpus_rule == "implied":
        message = f"{asked}, but the CPUs follow from the nodes or GPUs here: do not ask"
        yield "cpus_rule", message, leave
    elif node.cpus_rule == "exact" and gpus and each and cpus != each * gpus:
        message = f"{asked}: there are {each} with each GPU, no other number"
        yield "cpus_rule", message, leave
    elif node.cpus_rule == "most" and gpus and each and cpus > each * gpus:
        yield "cpus_rule", f"{asked}: more than {each} with each GPU", leave
    elif node.cpus and cpus > node.cpus:
        message = f"{count(cpus, 'CPU')}, more than the {node.cpus} of a node"
        yield "cpus", message, f"use at most {node.cpus}"


def _format_memory(kib: int) -> str:
    return "{}{}B".format(*format_memory(kib))


def is_listed_by_hand(listed: Filesystems, spec: JobSpec) -> bool:
    """Whether a directive of the spec's own names the file systems."""
    option = rf"-l\s*(\S+,)?{re.escape(listed.resource)}="
    return any(re.search(option, line) for line in spec.directives)


def check_lists(
    loaded: LoadedSpec,
    profile: SiteProfile,
    *,
    gpu_type: str | None,
    gpus: int,
    filesystems: tuple[str, ...],
    today: str | None,
) -> Iterator[Breach]:
    """The account, the file systems and the type of GPU."""
    spec, account, listed = loaded.spec, profile.account, profile.filesystems

    def report(about: Citation, path: str, message: str, hint: str) -> Breach:
        return Breach(
            loaded.problem(path, f"{message}{about}", hint), about.doubt(choose_day(today))
        )

    if account is not None:
        about = cite(profile, account)
        if spec.account is None:
            if account.required:
                hint = "write account: NAME, or give it to the command that submits"
                message = f"every job here needs an account{about}"
                yield Breach(loaded.problem("", message, hint), "it may be given later")
        elif not account.takes(spec.account):
            message = f"{spec.account!r} is no account of this site"
            yield report(about, "account", message, f"it must be {account.meaning}")
    if listed is not None and not is_listed_by_hand(listed, spec):
        about = cite(profile, listed)
        example = ", ".join(listed.known or ("NAME",))
        if not filesystems and listed.required:
            message = "every job must name the file systems that it uses"
            yield report(about, "", message, f"add filesystems: [{example}]")
        elif not filesystems:
            message = f"names no {listed.resource}: what the job uses must be listed{about}"
            hint = "add filesystems: [scratch/PROJECT]"
            yield Breach(loaded.problem("", message, hint), "the job may use none")
        for index, name in enumerate(filesystems):
            if listed.known is not None and name not in listed.known:
                message = f"{name!r} is no file system of this site"
                path = f"filesystems[{index}]"
                yield report(about, path, message, f"known are {', '.join(listed.known)}")
    types = profile.gpu_types
    if types is not None and gpus:
        about = cite(profile, next(iter(types.values())))
        if gpu_type is None and profile.gpu_type_required:
            message, hint = "every GPU job must name the type", f"one of {', '.join(types)}"
            yield report(about, "resources", message, f"add gpu_type, {hint}")
        elif gpu_type is not None and gpu_type not in types:
            message = f"{gpu_type!r} is no GPU of this site"
            yield report(about, "resources.gpu_type", message, f"known are {', '.join(types)}")
