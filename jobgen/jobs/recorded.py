"""The plan of a job that was rendered, decided again by its recorded spec."""

from __future__ import annotations

from jobgen.plan.plan import Plan
from jobgen.plan.resolve import resolve
from jobgen.rendering.header import Header
from jobgen.spec.load import LoadedSpec


def resolve_recorded(
    loaded: LoadedSpec, about: Header, *, limits: bool = False, task: int | None = None
) -> Plan:
    """Return the plan of a spec for the target that a script's header names, or of another task.

    Raises SpecError where the spec cannot be resolved any more.
    """
    return resolve(
        loaded,
        scheduler=None if about.site else about.scheduler,
        site=about.site,
        limits=limits,
        task=about.task if task is None else task,
    )
