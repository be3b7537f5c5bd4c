"""What a site refuses, said before its scheduler does: each rule with its source.

The limits of queues come first, then accounts and mandatory lists; `shapes` has those of nodes.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable, Iterator
from operator import mul

from jobgen.errors import Problem
from jobgen.output import format_count as count
from jobgen.plan.decision import Context
from jobgen.plan.plan import NodeGroup
from jobgen.records import NamedTuple
from jobgen.sites.profile import Filesystems, Limit, SiteQueue, SiteSource
from jobgen.spec.model import JobSpec
from jobgen.spec.tables import Rules
from jobgen.spec.units import format_time

_UNITS = {"nodes": "node", "gpus": "GPU", "cpus": "CPU"}


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
        yield Breach(problem, doubt or about.doubt(day))


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
    for path, message, hint, limit in explain_refusal(name, queue, size):
        if path == "resources.nodes" and context.spec.resources.nodes is None:
            path = "resources.gpus_per_node"
        words = {"path": path, "message": message, "hint": hint}
        why, about = f": {limit.why}" if limit.why else "", profile.cite(limit, queue)
        yield from find_breaches(context, about, {"size": True}, why=why, **words)


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


def explain_refusal(name: str, queue: SiteQueue, size: Size) -> Iterator[Refusal]:
    """Key, message and hint of what a queue that does not take the job refuses, and its limit."""
    if limits := list(_find_fitting(queue, size)):
        yield _explain_time(name, limits, size)
        return
    for unit in _UNITS:  # no limit is for a job of this size
        limits = [limit for limit in queue.limits if getattr(limit, unit)]
        number = getattr(size, unit)
        if limits and all(_is_outside(getattr(limit, unit), number) for limit in limits):
            yield from _explain_number(name, unit, limits, size)
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
        more = count(-(-least // each), "node") if number else count(least, word)
        yield "resources.nodes", message, f"use at least {more}", limits[0]
    elif number > most:
        nodes = most // each
        hint = f"use at most {count(nodes, 'node')}" if nodes else "use fewer GPUs on each node"
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
    option = rf"-l\s*(\S+,)?{re.escape(listed.resource)}="
    return any(re.search(option, line) for line in spec.directives)


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
    rules = {"account_required": given is None and account.required}
    yield from find_breaches(context, about, rules, "it may be given later")
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
