"""How a job's processes start: by torchrun's agents or one by one, and through which launcher."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jobgen.capabilities import list_capabilities
from jobgen.errors import Problem
from jobgen.plan.decision import Context, Decision
from jobgen.plan.nodes import advise_on_devices
from jobgen.plan.plan import Nodes, Plan, Start
from jobgen.sites.profile import SiteLaunch
from jobgen.spec.model import NodeRange

# What tells a process which GPUs it sees, by maker.
VISIBLE = {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"}
# An option that names the cores of each process of a node: --cpu-bind=list:0-7:8-15.
_NAMES_CORES = r"--cpu-bind[= ](?:verbose,)?(?:list|mask_cpu):"
_ITSELF = "local"  # the launcher of a script that starts the processes itself
RENDEZVOUS = ("static", "c10d", "file", "env")
LAUNCHERS = (*(row.launcher for row in list_capabilities()), "mpiexec")


def decide(context: Context, plan: Plan) -> Decision[Start]:
    """Decide what starts the processes, and how they find one another."""
    launch = context.spec.launch
    if plan.roles.members:
        first = plan.roles.members[0].plan.launch
        return Decision(first._replace(mode="roles", rendezvous="static", decided_by=("roles",)))
    start = _choose_start(context, plan)
    alone = start.body or _is_alone(context, plan.nodes, start)
    start = start._replace(
        alone=alone,
        launcher=_ITSELF if alone else start.launcher,
        rendezvous=_choose_rendezvous(context, plan.nodes, start, alone=alone),
        max_restarts=launch.max_restarts or 0,
        interface=launch.interface or context.site.interface,
        address=plan.defaults.address,
    )
    return Decision(
        start,
        problems=_find_conflicts(context, plan.nodes, start),
        notes=_compare_to_site(context, start),
    )


def _is_alone(context: Context, nodes: Nodes, start: Start) -> bool:
    """Whether the script itself starts the one agent there is; srun has to enter its containers."""
    if nodes.place is not None or nodes.allocated > 1 or start.direct:
        return False
    own = context.spec.environment.container
    if own is None or start.launcher == _ITSELF:
        return context.spec.launch.launcher in (None, "auto", _ITSELF)
    from jobgen.plan.container import Entrance

    return context.spec.launch.launcher in (None, "auto") and not Entrance(context, own).by_srun


def _choose_start(context: Context, plan: Plan) -> Start:
    if context.spec.launches_itself and plan.nodes.place is None:
        by = "run.command" if context.spec.run.body is None else "run.body"
        return Start("body", _ITSELF, decided_by=(by,))
    site, asked = context.site.launch, context.spec.launch.launcher
    launcher = site.launcher if site else context.site.can.launcher
    if asked not in (None, "auto"):
        launcher = asked
    mode, keys = _choose_mode(context, plan)
    if site is None or site.launcher != launcher:
        return Start(mode, launcher, decided_by=keys)
    return _bind(context, plan, Start(mode, launcher, site.mpiexec, decided_by=keys), site)


def _bind(context: Context, plan: Plan, start: Start, site: SiteLaunch) -> Start:
    """Return a start with what the site says of cores and devices, as far as it fits the job."""
    gpus = plan.nodes.gpus_of_each
    whole = {*gpus} == {plan.defaults.node.gpus}
    free = whole and VISIBLE.isdisjoint(context.spec.environment.named_variables)
    if start.mode == "direct":
        # A table of cores is one of whole nodes: a part may have other cores.
        options = tuple(text for text in site.options if whole or not re.search(_NAMES_CORES, text))
        return start._replace(options=options, devices=site.devices if free else None)
    binds = free and gpus == plan.nodes.processes and not start.plain
    return start._replace(numa_binding=site.numa_binding if binds else None)


def _choose_mode(context: Context, plan: Plan) -> tuple[str, tuple[str, ...]]:
    asked, site = context.spec.launch, context.site.launch
    if asked.mode is not None:
        return asked.mode, ("launch.mode",)
    wants_torchrun = {
        "launch.rendezvous": asked.rendezvous is not None,
        "launch.max_restarts": asked.max_restarts is not None,
        "resources.nodes": isinstance(context.spec.resources.nodes, NodeRange),
        "array.together": plan.nodes.together > 1,
    }
    keys = tuple(key for key, wants in wants_torchrun.items() if wants)
    if keys or site is None:
        return "torchrun", keys
    return site.family, ("site.launch.family",)


def _choose_rendezvous(context: Context, nodes: Nodes, start: Start, *, alone: bool) -> str:
    """Return the rendezvous: static unless nodes may join or agents start processes again.

    The static one unpickles nothing, and numbers the nodes as the scheduler does. The processes of
    one node meet by a file, so that nothing listens; those of this machine on its loopback.
    """
    launch = context.spec.launch
    if start.mode != "torchrun":
        return "env"
    changes = nodes.fewest or launch.max_restarts
    chosen = launch.rendezvous or ("c10d" if changes else "static")
    by_address = launch.rendezvous or not context.site.can.batch
    return "file" if alone and (chosen == "c10d" or not by_address) else chosen


def _find_conflicts(context: Context, nodes: Nodes, start: Start) -> Iterator[Problem]:
    launch = context.spec.launch
    rules = {"plain_preflight": start.plain and context.spec.preflight}
    yield from context.refuse(rules, start=start)
    for key, value in (("mode", launch.mode), ("launcher", launch.launcher)):
        counts = nodes.fewest and value in ("direct", "plain", "ray", "mpiexec")
        yield from context.refuse({"range_mode": counts}, key=key, value=value)
    given = {"launch.mode": launch.mode, "launch.launcher": launch.launcher}
    path = next(filter(given.get, given), "array.together")
    together = nodes.together > 1 and nodes.total == 1  # of more it is refused by itself
    yield from context.refuse({"together_start": together and not start.alone}, path=path)
    yield from _check_unequal(context, nodes, start)
    yield from _check_launcher(context, nodes)


def _check_unequal(context: Context, nodes: Nodes, start: Start) -> Iterator[Problem]:
    resources, can = context.spec.resources, context.site.can
    split = nodes.unequal or (start.deals_evenly and len(nodes.groups) > 1)
    unknown = any(group.cpus is None for group in nodes.groups)
    # A node without GPUs gets none by cpus_per_gpu.
    keys = "cpus_per_node" if resources.cpus_per_gpu else "cpus_per_gpu or cpus_per_node"
    hint = advise_on_devices(resources.listed_gpus) or f"add {keys}"
    path = "resources.gpus_per_node" if nodes.unequal else "launch.processes_per_node"
    rules = {"unequal_cpus": split and can.components and unknown}
    return context.refuse(rules, path=path, hint=hint)


def _check_launcher(context: Context, nodes: Nodes) -> Iterator[Problem]:
    asked, can = context.spec.launch.launcher, context.site.can
    other = asked not in (None, "auto", "mpiexec", can.launcher)
    owner = {row.launcher: row for row in list_capabilities()}.get(asked or "", can)
    rules = {
        "unequal_mpiexec": asked == "mpiexec" and can.components and nodes.unequal,
        "other_launcher": other and owner.batch,
        "local_launcher": other and not owner.batch and nodes.total > 1,
    }
    return context.refuse(rules, owner=owner)


def _compare_to_site(context: Context, start: Start) -> Iterator[str]:
    """Yield a note if the job starts in another way than its site does."""
    profile, site = context.site, context.site.launch
    if site is None or not profile.can.batch or start.mode in (site.family, "plain", "ray", "body"):
        return
    where, about = profile.title or "this site", profile.cite(site)
    rules = {"agents_here": start.direct, "processes_here": not start.direct}
    yield from context.note(rules, where=where, site=site, about=about, advice=site.note or "")
