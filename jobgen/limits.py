"""What a queue refuses, told before its scheduler does: each limit with its source.

`rules` has what holds beside the limits of queues.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from jobgen.errors import Problem
from jobgen.loaded import LoadedSpec
from jobgen.profile import Limit, Queue, SiteProfile

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


class Group(Protocol):
    """Nodes that are alike, as a plan has them."""

    @property
    def nodes(self) -> int:
        """How many."""

    @property
    def gpus(self) -> int:
        """GPUs of each."""

    @property
    def cpus(self) -> int | None:
        """CPUs of each."""


def size_of(groups: Iterable[Group], walltime: int | None) -> Size:
    """What the nodes of a job are in all."""
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


class Ground(NamedTuple):
    """What a rule stands on: `verified` and `as_of` say how far it can be trusted."""

    source: str
    as_of: str | None
    verified: str | None

    def __str__(self) -> str:
        parts = [self.source, f"as of {self.as_of}" if self.as_of else ""]
        return f" ({', '.join(part for part in parts if part)})" if any(parts) else ""

    def doubt(self, today: str) -> str:
        """Why a limit on this ground is only a warning; empty where it is sure enough.

        `today` is YYYY-MM-DD; a year or month alone counts from its first day.
        """
        if self.verified == "scripts":
            return "this is from users' scripts, so it may be wrong"
        if self.as_of:
            year, rest = self.as_of[:4], (self.as_of + "-01-01")[4:10]
            if f"{int(year) + 1}{rest}" < today:
                return "this is more than 12 months old, so it may have changed"
        return ""


class Finding(NamedTuple):
    """One rule that a job breaks: an error, or in doubt a warning."""

    problem: Problem
    doubt: str = ""


def ground(profile: SiteProfile, record: object, queue: Queue | None = None) -> Ground:
    """What the facts of `record` stand on, where it is part of `queue` if there is one."""
    source = getattr(record, "source", None) or getattr(queue, "source", None)
    about = record if isinstance(record, Queue) else queue
    return Ground(
        (profile.sources or {}).get(source, "") if source else "",
        getattr(about, "as_of", None) or profile.as_of,
        getattr(about, "verified", None) or profile.verified,
    )


def fits(queue: Queue, size: Size) -> bool:
    """Whether a queue takes a job of this size and walltime."""
    limits = [limit for limit in queue.limits if _holds(limit, size)]
    return not queue.limits or any(_long_enough(limit, size) for limit in limits)


def nearness(queue: Queue, size: Size) -> tuple[bool, int]:
    """How near a queue is to taking a job that it does not take; the greatest is the nearest."""
    limits = [limit for limit in queue.limits if _holds(limit, size)]
    if limits:
        return True, max(limit.times[1] or 0 for limit in limits)
    return False, max(((limit.nodes or (0,))[-1] for limit in queue.limits), default=0)


def check_queue(
    loaded: LoadedSpec, profile: SiteProfile, name: str | None, size: Size, today: str | None
) -> Iterator[Finding]:
    """The queue's limits on nodes, GPUs, CPUs, walltime and their products."""
    queues = profile.queues or {}
    checked = [("every queue", profile.every_queue)]
    if name is not None and name in queues:
        checked.append((name, queues[name]))
    elif name is not None and queues and loaded.spec.queue == name:
        message = f"the profile of {profile.title or 'this site'} knows no queue {name!r}"
        hint = f"it knows {', '.join(queues)}"
        yield Finding(loaded.problem("queue", message, hint), "the list may be incomplete")
    if profile.walltime_required and size.walltime is None:
        source = (profile.sources or {}).get((profile.cited or {}).get("walltime_required", ""), "")
        about = ground(profile, None)._replace(source=source)
        message = f"every job must say its walltime{about}"
        problem = loaded.problem("resources", message, "add walltime, such as 1h")
        yield Finding(problem, about.doubt(date(today)))
    for name, queue in checked:
        about = ground(profile, queue)
        doubt = about.doubt(date(today))
        if queue.routed_from:
            message = f"{name} takes no jobs itself{about}"
            hint = f"write queue: {queue.routed_from}, which leads there"
            yield Finding(loaded.problem("queue", message, hint), doubt)
        if queue.limits and not fits(queue, size):
            limits = [limit for limit in queue.limits if _holds(limit, size)]
            faults = _times(name, queue, limits, size) if limits else _sizes(name, queue, size)
            for path, message, hint in faults:
                if path == "resources.nodes" and loaded.spec.resources.nodes is None:
                    path = "resources.gpus_per_node"
                yield Finding(loaded.problem(path, f"{message}{about}", hint), doubt)


def date(today: str | None) -> str:
    """`today`, or the day that it is, as YYYY-MM-DD."""
    return today or time.strftime("%Y-%m-%d")


def _holds(limit: Limit, size: Size) -> bool:
    return not any(_outside(getattr(limit, unit), size.total(unit)) for unit in _UNITS)


def _outside(ends: tuple[int, ...] | None, number: int | None) -> bool:
    if ends is None or number is None:
        return False
    return number < ends[0] or (len(ends) > 1 and number > ends[1])


def _long_enough(limit: Limit, size: Size) -> bool:
    if size.walltime is None:
        return True
    least, most = limit.times
    product = size.walltime * size.nodes
    return (
        size.walltime >= least
        and (most is None or size.walltime <= most)
        and (limit.node_minutes is None or product <= limit.node_minutes * 60)
    )


def _sizes(name: str, queue: Queue, size: Size) -> Iterator[tuple[str, str, str]]:
    """No limit is for a job of this size."""
    for unit, word in _UNITS.items():
        ranges = [ends for limit in queue.limits if (ends := getattr(limit, unit))]
        number = size.total(unit)
        if not ranges or number is None or not all(_outside(ends, number) for ends in ranges):
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


def _times(
    name: str, queue: Queue, limits: list[Limit], size: Size
) -> Iterator[tuple[str, str, str]]:
    """The size is right, the walltime is not."""
    limit = max(limits, key=lambda limit: limit.times[1] or 0)
    least, most = limit.times
    asked, path = size.walltime or 0, "resources.walltime"
    extent = _extent(limit)
    if asked < least:
        message = f"{_time(asked)} is less than {name}'s {_time(least)}{extent}"
        yield path, message, f"use at least {_time(least)}"
    elif most is not None and asked > most:
        here = queue.limits.index(limit)
        longer = [
            (abs(index - here), other)
            for index, other in enumerate(queue.limits)
            if (other.times[1] or 0) >= asked
        ]
        other = min(longer, key=lambda pair: pair[0])[1] if longer else None
        sizes = f"{_sized(other, limit, size)} or " if other else ""
        message = f"{_time(asked)} exceeds {name}'s {_time(most)}{extent}"
        yield path, message, f"use at most {sizes}{_time(most)}"
    elif limit.node_minutes is not None:
        product = count(size.nodes, "node")
        message = (
            f"{product} for {_time(asked)} are {size.nodes * asked // 60} node-minutes, "
            f"more than {name}'s {limit.node_minutes}"
        )
        yield path, message, f"use at most {_time(limit.node_minutes * 60 // size.nodes)}"


def _sized(other: Limit, limit: Limit, size: Size) -> str:
    """The number of nodes that another limit is for."""
    for unit in _UNITS:
        ends, own = getattr(other, unit), getattr(limit, unit)
        if ends and own:
            each = max(1, (size.total(unit) or 1) // size.nodes)
            if ends[0] > own[0]:
                return f"{_time(other.times[1] or 0)} on {-(-ends[0] // each)} nodes or more,"
            return count(ends[-1] // each, "node")
    return ""


def _extent(limit: Limit) -> str:
    for unit, word in _UNITS.items():
        if ends := getattr(limit, unit):
            least = "" if len(ends) > 1 else "at least "
            return f" for {least}{'-'.join(map(str, dict.fromkeys(ends)))} {word}s"
    return ""


def count(number: int, word: str) -> str:
    """`1 node`, `2 nodes`."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _time(seconds: int) -> str:
    """`5h`, `90m`, `1h30m`: the form that a spec takes."""
    hours, rest = divmod(seconds, 3600)
    minutes, rest = divmod(rest, 60)
    parts = ((hours, "h"), (minutes, "m"), (rest, "s"))
    return "".join(f"{number}{unit}" for number, unit in parts if number) or "0s"
