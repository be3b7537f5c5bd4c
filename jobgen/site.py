"""Site profiles: one cluster as data, in `sites/NAME.yaml`."""

from __future__ import annotations

import os
from functools import cache
from typing import Annotated, Literal, NamedTuple

from jobgen import document
from jobgen.bind import bind
from jobgen.errors import Position, Problem, SpecError
from jobgen.spec import Count, Label, SchedulerName

_FOLDER = os.path.join(os.path.dirname(__file__), "sites")


class Pbs(NamedTuple):
    """What differs between PBS clusters."""

    resources: Annotated[
        Literal["select", "totals"], "select: chunks, one a node; totals: of the whole job."
    ] = "select"
    account_option: Annotated[Literal["-A", "-P"], "The option of qsub that names who pays."] = "-A"


class Queue(NamedTuple):
    """One queue or partition."""

    cpus_per_gpu: Annotated[Count | None, "CPUs to ask for with each GPU, no more, no less."] = None


class SiteProfile(NamedTuple):
    """One cluster. What is not known of it is left out."""

    scheduler: Annotated[SchedulerName, "slurm, pbs or local."]
    as_of: Annotated[str | None, "When the sources were read."] = None
    verified: Annotated[
        Literal["docs", "scripts"] | None, "From the site's documentation, or users' scripts."
    ] = None
    sources: Annotated[tuple[str, ...], "Where the facts are from."] = ()
    pbs: Annotated[Pbs, "What differs between PBS clusters."] = Pbs()
    memory_required: Annotated[bool, "Whether every job must say its memory."] = False
    queues: Annotated[dict[Label, Queue] | None, "The queues, by name."] = None


def names() -> list[str]:
    """The profiles there are, sorted."""
    return sorted(file.removesuffix(".yaml") for file in os.listdir(_FOLDER))


@cache
def load(name: str) -> SiteProfile:
    """The profile called `name`; raises SpecError where there is none, or it is invalid."""
    if name not in names():
        hint = f"known are {', '.join(names())}"
        raise SpecError([Problem(Position(name), "", "no such site", hint)])
    return bind(document.read(os.path.join(_FOLDER, f"{name}.yaml")), SiteProfile)[0]
