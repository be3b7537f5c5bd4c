"""The keys of a spec that its scheduler or site has no use for: one table for all parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from jobgen.plan.decision import Context
from jobgen.spec.load import LoadedSpec
from jobgen.spec.tables import read_lines

# Keys that decide which nodes the job has, also where no directive says them.
_KEPT = ("resources.gpu_type", "queue")


def list_left_out(context: Context) -> Iterator[str]:
    """Yield the keys that are given and lead to nothing, in the order of the parts of a plan."""
    specs, facts = [part.spec for part in context.loaded.programs()], _list_facts(context)
    for key, *uses in map(str.split, read_lines("uses.txt", room="plan")):
        if key == "directives":
            yield from _name_directives(context)
        elif not any(map(facts.get, uses)) and any(_is_given(one, key) for one in specs):
            yield key


def _list_facts(context: Context) -> dict[str, object]:
    """Return what `uses.txt` names: what the scheduler can, and what holds for this job."""
    spec, site, can = context.spec, context.site, context.site.can
    several = context.task is None and len([*islice(spec.choices(), 2)]) > 1
    return can._asdict() | {
        "site_disk": site.pbs.disk,
        "site_gpu_type": site.pbs.gpu_type,
        "filesystems": site.filesystems,
        "several": several,
        "several_jobs": several and can.batch,
        "own_launcher": spec.launch.launcher in ("auto", can.launcher),
        "stops": spec.on_walltime and spec.on_walltime.then == "stop",
        "no_reservation": not (can.reservation_queue and spec.reservation),
        "takes_constraint": takes_constraint(context),
        "takes_exclusive": can.exclusive and not _takes_totals(context),
        "mails": can.mail and site.mail != "none",
    }


def leave_out(loaded: LoadedSpec, keys: Iterable[str]) -> LoadedSpec:
    """Return a spec without keys that lead to nothing, as all parts of a plan read it."""
    spec = loaded.spec
    for key in keys:
        if key not in _KEPT:
            spec = _clear(spec, key)
    return loaded._replace(spec=spec)


def _is_given(record: Any, path: str) -> bool:
    """Return whether a record has another value than the default at a path of its keys."""
    key, _, inner = path.partition(".")
    if key not in getattr(record, "_fields", ()):
        return False
    value = getattr(record, key)
    return _is_given(value, inner) if inner else value != record._field_defaults[key]


def _clear(record: Any, path: str) -> Any:
    """Return a record with the default at a path of its keys; a path of others has no effect."""
    key, _, inner = path.partition(".")
    if key not in getattr(record, "_fields", ()):
        return record
    value = _clear(getattr(record, key), inner) if inner else record._field_defaults[key]
    return record._replace(**{key: value})


def _name_directives(context: Context) -> Iterator[str]:
    sign = f"{context.site.can.sign} "
    if others := [line for line in context.spec.directives if not line.startswith(sign)]:
        named = " ".join(line.partition(" ")[2].strip() for line in others)
        yield f"directives of another scheduler ({named})"


def takes_constraint(context: Context) -> bool:
    """Return whether the scheduler has a place for the constraint: its features, or its chunks."""
    site = context.site
    if "=" in (context.spec.resources.constraint or ""):
        return site.can.chunks and not _takes_totals(context)
    return site.can.constraint or site.pbs.constraint is not None


def _takes_totals(context: Context) -> bool:
    return context.site.pbs.resources == "totals"
