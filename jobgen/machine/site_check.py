"""A site's profile compared with the cluster itself: its scheduler, modules, paths, interfaces."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

from jobgen.errors import JobgenError
from jobgen.output import format_count
from jobgen.process import run
from jobgen.records import NamedTuple
from jobgen.sites.profile import Limit, Node, SiteProfile, SiteQueue
from jobgen.spec.units import format_memory, format_time
from jobgen.spec.yaml_text import write_data

_DEFAULTS = ("default_cpus", "default_cpus_per_gpu", "default_memory", "default_memory_per_cpu")
_NODE = ("gpus", "cpus", "memory", *_DEFAULTS, "default_memory_per_gpu")


class Difference(NamedTuple):
    """Something that the profile and the cluster say differently.

    `change` is what a profile that extends this one would say, or None.
    """

    path: str
    message: str
    change: dict[str, Any] | None = None


def compare_scheduler(profile: SiteProfile, live: SiteProfile) -> Iterator[Difference]:
    """Yield what differs between a profile and what the scheduler of the cluster says."""
    if profile.scheduler != live.scheduler:
        yield Difference("scheduler", _contrast(profile.scheduler, live.scheduler))
        return
    queues = live.queues or {}
    for name, queue in _list_partitions(profile):
        place = f"queues.{name}"
        other = queues.get(queue.partition or name.partition("@")[0])
        if other is None:
            message = "the profile has it, the cluster does not"
            yield Difference(place, message, {"queues": {name: None}})
            continue
        yield from _compare_limits(name, queue, other)
        node = _merge(profile.node, queue.node)
        yield from _compare_nodes(name, node, _merge(live.node, other.node))
    yield from _list_new_queues(profile, live)


def _list_partitions(profile: SiteProfile) -> Iterator[tuple[str, SiteQueue]]:
    """The queues that the scheduler lists itself: a QoS has limits that it does not show."""
    if profile.slurm.queue_option == "qos":
        return
    for name, queue in (profile.queues or {}).items():
        if queue.qos is None:
            yield name, queue


def _list_new_queues(profile: SiteProfile, live: SiteProfile) -> Iterator[Difference]:
    """The cluster's queues with GPUs that the profile does not have."""
    if profile.slurm.queue_option == "qos" or not profile.queues:
        return
    known = {queue.partition or name.partition("@")[0] for name, queue in profile.queues.items()}
    for name, queue in (live.queues or {}).items():
        if name not in known and _merge(live.node, queue.node).gpus and not queue.routed_from:
            message = "the cluster has it, with GPUs; the profile does not"
            yield Difference(f"queues.{name}", message)


def _merge(node: Node, other: Node) -> Node:
    """A node with what another says on top of it."""
    return node._replace(**{key: value for key, value in other._asdict().items() if value})


def _compare_limits(name: str, queue: SiteQueue, live: SiteQueue) -> Iterator[Difference]:
    place = f"queues.{name}"
    mine, theirs = queue.longest, live.longest
    if mine and theirs and mine != theirs:
        words = format_time(theirs)
        change = _nest(name, {"limits": [{"walltime": words}]})
        message = _contrast(format_time(mine), words)
        yield Difference(f"{place}.limits: walltime", message, change)
    most, there = _find_most_nodes(queue.limits), _find_most_nodes(live.limits)
    if most and there and most > there:
        change = _nest(name, {"limits": [{"nodes": [1, there]}]})
        yield Difference(f"{place}.limits: nodes", _contrast(str(most), str(there)), change)
    if live.default_walltime and queue.default_walltime != live.default_walltime:
        before = format_time(queue.default_walltime) if queue.default_walltime else "nothing"
        words = format_time(live.default_walltime)
        change = _nest(name, {"default_walltime": words})
        yield Difference(f"{place}.default_walltime", _contrast(before, words), change)


def _nest(queue: str, change: dict[str, Any]) -> dict[str, Any]:
    return {"queues": {queue: change}}


def _find_most_nodes(limits: Iterable[Limit]) -> int | None:
    ends = [limit.nodes[-1] for limit in limits if limit.nodes and len(limit.nodes) > 1]
    return max(ends, default=None)


def _compare_nodes(name: str, node: Node, live: Node) -> Iterator[Difference]:
    for key in _NODE:
        mine, theirs = getattr(node, key), getattr(live, key)
        if theirs is None or mine == theirs or (mine is None and key not in _DEFAULTS):
            continue
        if key in ("cpus", "memory") and mine < theirs:
            continue  # sites keep some for the system
        words = [_write(key, value) for value in (mine, theirs)]
        change = _nest(name, {"node": {key: words[1] if "memory" in key else theirs}})
        yield Difference(f"queues.{name}.node.{key}", _contrast(*words), change)


def _contrast(mine: str, theirs: str) -> str:
    return f"the profile says {mine}, the cluster {theirs}"


def _write(key: str, value: int | None) -> str:
    if value is None:
        return "nothing"
    return format_memory(value) if "memory" in key else str(value)


def compare_machine(profile: SiteProfile) -> Iterator[Difference]:
    """Yield the modules, folders and interfaces of a profile that this machine does not have."""
    for name in _list_modules(profile):
        if _has_module(name) is False:
            yield Difference(f"modules: {name}", "`module avail` does not list it here")
    for path in _list_paths(profile):
        if not os.path.isdir(path):
            yield Difference(f"path {path}", "does not exist here")
    names = os.listdir("/sys/class/net") if os.path.isdir("/sys/class/net") else []
    kind = (profile.interface or "").rstrip("0123456789")
    if names and not any(name.startswith(kind) for name in names):
        message = f"no {profile.interface} on this machine, which has {', '.join(sorted(names))}"
        yield Difference("interface", message)


def _list_modules(profile: SiteProfile) -> list[str]:
    own = profile.modules.load if profile.modules else ()
    contained = profile.container.modules.load if profile.container else ()
    return list(dict.fromkeys((*own, *contained)))


def _list_paths(profile: SiteProfile) -> list[str]:
    """Folders that do not depend on the user: of `module use`, and of library paths."""
    texts = [*(profile.modules.use if profile.modules else ())]
    for group in (profile.network, profile.variables):
        if group is not None:
            for variables in (group.always, group.one_node, group.several_nodes):
                texts += (variables or {}).get("LD_LIBRARY_PATH", "").split(":")
    return [text for text in dict.fromkeys(texts) if text.startswith("/") and "$" not in text]


def _has_module(name: str) -> bool | None:
    """Whether `module avail` lists a module; None if this machine has no modules."""
    script = 'type module >/dev/null 2>&1 || exit 0; echo asked; module -t avail "$1" 2>&1'
    try:
        answer = run(["bash", "-lc", script, "jobgen", name], timeout=60)
    except JobgenError:
        return None
    if not answer.startswith("asked"):
        return None
    return any(line.strip().startswith(name) for line in answer.splitlines()[1:])


def report(name: str, differences: list[Difference], today: str) -> str:
    """Say what differs, and the profile that would put it right."""
    if not differences:
        return f"{name}: the profile matches this cluster (checked {today})\n"
    number = format_count(len(differences), "difference")
    rows = [f"{name}: {number} (checked {today})"]
    for one in differences:
        rows.append(f"  {one.path}: {one.message}")
    changes: dict[str, Any] = {}
    for one in differences:
        _join(changes, one.change or {})
    if changes:
        rows += ["", f"To use what the cluster says, save this as .jobgen/sites/{name}.yaml:", ""]
        text = write_data({"extends": name, **changes})
        rows += [f"  {line}" for line in text.splitlines()]
    form = "'A cluster that jobgen was run on' (.github/ISSUE_TEMPLATE/site.yml)"
    rows += ["", f"To correct it for everyone, send this to the project with the form {form}."]
    return "\n".join(rows) + "\n"


def _join(into: dict[str, Any], change: dict[str, Any]) -> None:
    """Add a change to others: of two limits of one queue, both keys."""
    for key, value in change.items():
        mine = into.get(key)
        if isinstance(mine, dict) and isinstance(value, dict):
            _join(mine, value)
        elif isinstance(mine, list) and isinstance(value, list):
            _join(mine[0], value[0])
        else:
            into[key] = value
