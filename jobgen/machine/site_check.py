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

    `keys` lead to the `value` that a profile which extends this one would have, if there are any.
    """

    path: str
    message: str
    keys: tuple[str, ...] = ()
    value: object = None


def compare_scheduler(profile: SiteProfile, live: SiteProfile) -> Iterator[Difference]:
    """Yield what differs between a profile and what the scheduler of the cluster says."""
    if profile.scheduler != live.scheduler:
        yield Difference("scheduler", _contrast(profile.scheduler, live.scheduler))
        return
    if profile.slurm.queue_option == "qos" or not profile.queues:
        return  # a QoS has limits that the scheduler does not show
    new = dict(live.queues)
    for name, queue in profile.queues.items():
        there = queue.partition or name.partition("@")[0]
        new.pop(there, None)
        if queue.qos is not None:
            continue
        if there in live.queues:
            other = live.queues[there]
            node = _merge(profile.node, queue.node)
            yield from _compare_limits(name, queue, other)
            yield from _compare_nodes(name, node, _merge(live.node, other.node))
        else:
            message = "the profile has it, the cluster does not"
            yield Difference(f"queues.{name}", message, ("queues", name))
    for name, queue in new.items():
        if _merge(live.node, queue.node).gpus and not queue.routed_from:
            message = "the cluster has it, with GPUs; the profile does not"
            yield Difference(f"queues.{name}", message)


def _merge(node: Node, other: Node) -> Node:
    """A node with what another says on top of it."""
    return node._replace(**{key: value for key, value in other._asdict().items() if value})


def _compare_limits(name: str, queue: SiteQueue, live: SiteQueue) -> Iterator[Difference]:
    place, keys = f"queues.{name}", ("queues", name)
    mine, theirs = queue.longest, live.longest
    if mine and theirs and mine != theirs:
        message = _contrast(format_time(mine), format_time(theirs))
        limits = (*keys, "limits", "walltime")
        yield Difference(f"{place}.limits: walltime", message, limits, format_time(theirs))
    most, there = _find_most_nodes(queue.limits), _find_most_nodes(live.limits)
    if there and most > there:
        message, limits = _contrast(str(most), str(there)), (*keys, "limits", "nodes")
        yield Difference(f"{place}.limits: nodes", message, limits, [1, there])
    key, usual = "default_walltime", live.default_walltime
    if usual and queue.default_walltime != usual:
        words = _write(key, usual)
        message = _contrast(_write(key, queue.default_walltime), words)
        yield Difference(f"{place}.{key}", message, (*keys, key), words)


def _find_most_nodes(limits: Iterable[Limit]) -> int:
    ends = [limit.nodes[-1] for limit in limits if limit.nodes and len(limit.nodes) > 1]
    return max(ends, default=0)


def _compare_nodes(name: str, node: Node, live: Node) -> Iterator[Difference]:
    for key in _NODE:
        mine, theirs = getattr(node, key), getattr(live, key)
        if theirs is None or mine == theirs or (mine is None and key not in _DEFAULTS):
            continue
        if key in ("cpus", "memory") and mine < theirs:
            continue  # sites keep some for the system
        words, keys = _write(key, theirs), ("queues", name, "node", key)
        message, value = _contrast(_write(key, mine), words), theirs
        if "memory" in key:
            value = words
        yield Difference(".".join(keys), message, keys, value)


def _contrast(mine: str, theirs: str) -> str:
    return f"the profile says {mine}, the cluster {theirs}"


def _write(key: str, value: int | None) -> str:
    if value is None:
        return "nothing"
    if "walltime" in key:
        return format_time(value)
    return format_memory(value) if "memory" in key else str(value)


def compare_machine(profile: SiteProfile) -> Iterator[Difference]:
    """Yield the modules, folders and interfaces of a profile that this machine does not have."""
    contained = profile.container.modules.load if profile.container else ()
    for name in dict.fromkeys((*profile.modules.load, *contained)):
        if _has_module(name) is False:
            yield Difference(f"modules: {name}", "`module avail` does not list it here")
    for path in _list_paths(profile):
        if not os.path.isdir(path):
            yield Difference(f"path {path}", "does not exist here")
    yield from _compare_interface(profile)


def _compare_interface(profile: SiteProfile) -> Iterator[Difference]:
    names = os.listdir("/sys/class/net") if os.path.isdir("/sys/class/net") else []
    kind = (profile.interface or "").rstrip("0123456789")
    if names and not any(name.startswith(kind) for name in names):
        message = f"no {profile.interface} on this machine, which has {', '.join(sorted(names))}"
        yield Difference("interface", message)


def _list_paths(profile: SiteProfile) -> list[str]:
    """Folders that do not depend on the user: of `module use`, and of library paths."""
    texts = [*profile.modules.use]
    for group in (profile.network, profile.variables):
        for variables in (group.always, group.one_node, group.several_nodes) if group else ():
            texts += variables.get("LD_LIBRARY_PATH", "").split(":")
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
    rows += [f"  {one.path}: {one.message}" for one in differences]
    changed: dict[str, Any] = {"extends": name}
    for one in differences:
        inside = changed
        for key in one.keys[:-1]:
            inside = inside.setdefault(key, {})
        inside |= dict.fromkeys(one.keys[-1:], one.value)
    for queue in filter(None, changed.get("queues", {}).values()):
        if "limits" in queue:
            queue["limits"] = [queue["limits"]]
    if "queues" in changed:
        rows += ["", f"To use what the cluster says, save this as .jobgen/sites/{name}.yaml:", ""]
        rows += [f"  {line}" for line in write_data(changed).splitlines()]
    form = "'A cluster that jobgen was run on' (.github/ISSUE_TEMPLATE/site.yml)"
    rows += ["", f"To correct it for everyone, send this to the project with the form {form}."]
    return "\n".join(rows) + "\n"
