"""The keys of a spec that its scheduler or site has no use for: one table for all parts."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from jobgen.plan.decision import Context
from jobgen.spec.model import OnWalltime


def list_left_out(context: Context) -> Iterator[str]:
    """Yield the keys that are given and lead to nothing, in the order of the parts of a plan."""
    spec, site, can = context.spec, context.site, context.site.can
    resources, launch, on_walltime = spec.resources, spec.launch, spec.on_walltime or OnWalltime()
    at_once, together = (spec.array.at_once, spec.array.together) if spec.array else (None, None)
    choices = spec.array.choices() if spec.array and context.task is None else ()
    several = len([*islice(choices, 2)]) > 1
    own = ("auto", can.launcher)
    modules = any(part.spec.environment.modules for part in context.loaded.programs())
    others = [line for line in spec.directives if not line.startswith(f"{can.sign} ")]
    named = " ".join(line.partition(" ")[2].strip() for line in others)
    for key, given, taken in (
        ("resources.disk_per_node", resources.disk_per_node, can.disk or site.pbs.disk),
        ("resources.cpus_per_gpu", resources.cpus_per_gpu, can.batch),
        ("resources.cpus_per_node", resources.cpus_per_node, can.batch),
        ("resources.memory_per_node", resources.memory_per_node, can.batch),
        ("resources.spare_nodes", resources.spare_nodes, can.batch),
        ("array.at_once", at_once, several),
        ("array.together", together, several and can.batch),
        ("launch.interface", launch.interface, can.batch),
        ("launch.launcher", launch.launcher, can.batch or launch.launcher in own),
        ("environment.modules", modules, can.batch),
        ("on_walltime.then", on_walltime.then, can.batch or on_walltime.then == "stop"),
        ("resources.gpu_type", resources.gpu_type, can.gpu_type or site.pbs.gpu_type),
        ("filesystems", spec.filesystems, site.filesystems),
        ("account", spec.account, can.batch),
        ("queue", spec.queue, can.batch),
        (f"directives of another scheduler ({named})", others, False),
        ("qos", spec.qos, can.qos),
        ("reservation", spec.reservation, can.reservation),
        ("queue", spec.queue, not (can.reservation_queue and spec.reservation)),
        ("resources.constraint", resources.constraint, takes_constraint(context)),
        ("resources.exclusive", resources.exclusive, can.exclusive and not _takes_totals(context)),
        ("notify", spec.notify, can.mail and site.mail != "none"),
    ):
        if given and not taken:
            yield key


def takes_constraint(context: Context) -> bool:
    """Return whether the scheduler has a place for the constraint: its features, or its chunks."""
    site = context.site
    if "=" in (context.spec.resources.constraint or ""):
        return site.can.chunks and not _takes_totals(context)
    return site.can.constraint or site.pbs.constraint is not None


def _takes_totals(context: Context) -> bool:
    """Return whether the site is asked for totals of the job, and not for nodes."""
    return context.site.pbs.resources == "totals"
