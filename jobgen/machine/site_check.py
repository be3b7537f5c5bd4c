"""Compare a site's profile with the cluster itself: its scheduler, modules, paths, interfaces."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from jobgen.errors import JobgenError
from jobgen.output import format_count
from jobgen.process import run
from jobgen.records import NamedTuple
from jobgen.sites.profile import Node, SiteProfile, SiteQueue, Variables
from jobgen.spec.units import format_memory, format_time

_NODE = (
    *("gpus", "cpus", "memory", "default_cpus", "default_cpus_per_gpu"),
    *("default_memory", "default_memory_per_cpu", "default_memory_per_gpu"),
)
# What a site may keep a part of: for the system, or for other jobs.
_MAY_BE_LESS = ("limits: nodes", "node.cpus", "node.memory")


class Difference(NamedTuple):
    """A difference between the profile and the cluster."""

    path: str
    message: str


def compare_scheduler(profile: SiteProfile, live: SiteProfile) -> Iterator[Difference]:
    """Yield the differences between a profile and the report of the cluster's scheduler."""
    if profile.scheduler != live.scheduler:
        yield _contrast("scheduler", profile.scheduler, live.scheduler)
        return
    if profile.slurm.queue_option == "qos" or not profile.queues:
        return  # a QoS has limits that the scheduler does not show
    for name, queue in profile.queues.items():
        other = live.queues.get(_name_there(name, queue))
        if queue.qos is not None:
            continue
        if other is None:
            yield Difference(f"queues.{name}", "the profile has it, the cluster does not")
        else:
            facts = _list_facts(queue, profile.node)
            yield from _compare_facts(f"queues.{name}", facts, _list_facts(other, live.node))
    yield from _find_unknown_queues(profile, live)


def _find_unknown_queues(profile: SiteProfile, live: SiteProfile) -> Iterator[Difference]:
    """Yield the queues with GPUs that the cluster has and the profile does not."""
    theirs = {_name_there(name, queue) for name, queue in profile.queues.items()}
    for name, queue in live.queues.items():
        has_gpus = _list_facts(queue, live.node)["node.gpus"]
        if has_gpus and name not in theirs and not queue.routed_from:
            message = "the cluster has it, with GPUs; the profile does not"
            yield Difference(f"queues.{name}", message)


def _name_there(name: str, queue: SiteQueue) -> str:
    return queue.partition or name.partition("@")[0]


def _list_facts(queue: SiteQueue, node: Node) -> dict[str, int]:
    """Return a queue's facts by key, including its nodes; 0 for facts that it lacks."""
    ends = [limit.nodes[-1] for limit in queue.limits if limit.nodes and len(limit.nodes) > 1]
    numbers = {f"node.{key}": getattr(queue.node, key) or getattr(node, key) for key in _NODE}
    facts = {
        "limits: walltime": queue.longest,
        "limits: nodes": max(ends, default=0),
        "default_walltime": queue.default_walltime,
        **numbers,
    }
    return {key: value or 0 for key, value in facts.items()}


def _compare_facts(
    place: str, mine: dict[str, int], theirs: dict[str, int]
) -> Iterator[Difference]:
    for key, there in theirs.items():
        here = mine[key]
        known = here or "default" in key  # a profile need not say the rest
        kept = key in _MAY_BE_LESS and here < there
        if there and known and not kept and here != there:
            yield _contrast(f"{place}.{key}", _write(key, here), _write(key, there))


def _contrast(path: str, mine: str, theirs: str) -> Difference:
    return Difference(path, f"the profile says {mine}, the cluster {theirs}")


def _write(key: str, value: int) -> str:
    if not value:
        return "nothing"
    if "walltime" in key:
        return format_time(value)
    return format_memory(value) if "memory" in key else str(value)


def compare_machine(profile: SiteProfile) -> Iterator[Difference]:
    """Yield the modules, folders and interfaces of a profile that this machine does not have."""
    contained = profile.container.modules.load if profile.container else ()
    for name in dict.fromkeys((*profile.modules.load, *contained)):
        if _lacks_module(name):
            yield Difference(f"modules: {name}", "`module avail` does not list it here")
    for path in _list_paths(profile):
        if not os.path.isdir(path):
            yield Difference(f"path {path}", "does not exist here")
    yield from _compare_interface(profile.interface or "")


def _compare_interface(interface: str) -> Iterator[Difference]:
    names = os.listdir("/sys/class/net") if os.path.isdir("/sys/class/net") else []
    kind = interface.rstrip("0123456789")
    if names and not any(name.startswith(kind) for name in names):
        message = f"no {interface} on this machine, which has {', '.join(sorted(names))}"
        yield Difference("interface", message)


def _list_paths(profile: SiteProfile) -> list[str]:
    """Return folders that do not depend on the user: from `module use` and library paths."""
    texts, groups = [*profile.modules.use], (profile.network or Variables(), profile.variables)
    for group in groups:
        for variables in (group.always, group.one_node, group.several_nodes):
            texts += variables.get("LD_LIBRARY_PATH", "").split(":")
    return [text for text in dict.fromkeys(texts) if text.startswith("/") and "$" not in text]


def _lacks_module(name: str) -> bool:
    """Return whether this machine has modules, and `module avail` does not list this one."""
    script = 'type module >/dev/null 2>&1 || exit 0; echo asked; module -t avail "$1" 2>&1'
    try:
        asked, _, listed = run(["bash", "-lc", script, "jobgen", name], timeout=60).partition("\n")
    except JobgenError:
        return False
    return asked == "asked" and not re.search(rf"^\s*{re.escape(name)}", listed, re.MULTILINE)


def report(name: str, differences: list[Difference], today: str) -> str:
    """Describe the differences, and how to correct them."""
    if not differences:
        return f"{name}: the profile matches this cluster (checked {today})\n"
    number = format_count(len(differences), "difference")
    rows = [f"{name}: {number} (checked {today})"]
    rows += [f"  {one.path}: {one.message}" for one in differences]
    rows += ["", "To use what the cluster says, write these keys in a profile that extends this:"]
    rows += ["", f"  # .jobgen/sites/{name}.yaml", f"  extends: {name}"]
    form = "'A cluster that jobgen was run on' (.github/ISSUE_TEMPLATE/site.yml)"
    rows += ["", f"To correct it for everyone, send this to the project with the form {form}."]
    return "\n".join(rows) + "\n"
