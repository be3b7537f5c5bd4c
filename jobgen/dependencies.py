"""What a job waits for: other jobs, by what becomes of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from jobgen.errors import Problem, UsageError
from jobgen.loaded import LoadedSpec
from jobgen.spec import After

KINDS = ("afterok", "afterany", "afternotok", "after")
_ID = re.compile(r"([0-9]+)(?:_([0-9]+)|\[([0-9]*)\])?(\.[A-Za-z0-9.-]+)?")
_LOCAL_ID = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9]+(_[0-9]+)?")


class Dependency(NamedTuple):
    """Jobs, as this scheduler writes their ids, and what has to become of them."""

    kind: str
    jobs: tuple[str, ...]

    def __str__(self) -> str:
        return ":".join([self.kind, *self.jobs])


def dependencies_of(loaded: LoadedSpec, scheduler: str) -> tuple[Dependency, ...]:
    """What the spec waits for; `conflicts` says which ids are no ids here."""
    found = []
    for kind, jobs, _ in _written(loaded):
        names = [name for job in jobs if (name := _spell(job, scheduler))]
        found.append(Dependency(kind, tuple(names)))
    return tuple(found)


def conflicts(loaded: LoadedSpec, scheduler: str) -> Iterator[Problem]:
    """Ids that are not of this scheduler's jobs."""
    for _, jobs, path in _written(loaded):
        for index, job in enumerate(jobs):
            if _spell(job, scheduler) is None:
                yield loaded.problem(f"{path}[{index}]", _wrong(job, scheduler))


def parse(text: str, scheduler: str) -> Dependency:
    """`ID` (which has to end well) or `KIND:ID[:ID]...`; raises UsageError."""
    kind, colon, rest = text.partition(":")
    if not colon:
        kind, rest = "afterok", text
    names = []
    for job in rest.split(":"):
        name = _spell(job, scheduler)
        if kind not in KINDS or not job:
            hint = f"write an id, or KIND:ID with one of {', '.join(KINDS)}"
            raise UsageError(f"--after {text!r}: {hint}")
        if name is None:
            raise UsageError(f"--after {text!r}: {_wrong(job, scheduler)}")
        names.append(name)
    return Dependency(kind, tuple(names))


def _written(loaded: LoadedSpec) -> Iterator[tuple[str, tuple[int | str, ...], str]]:
    """Kind, ids and path of each list of the spec."""
    after = loaded.spec.after
    if after is None:
        return
    if isinstance(after, After):
        for kind, jobs in after._asdict().items():
            if jobs is not None:
                yield kind, jobs, f"after.{kind}"
    else:
        yield "afterok", after, "after"


def _spell(job: int | str, scheduler: str) -> str | None:
    """The id as the scheduler writes it: Slurm 12_3, PBS 12[3]; None where it is not of its own."""
    if scheduler == "local":
        return str(job) if _LOCAL_ID.fullmatch(str(job)) else None
    match = _ID.fullmatch(str(job))
    if match is None:
        return None
    number, of_slurm, of_pbs, server = match.groups()
    member = of_slurm or of_pbs
    if scheduler == "slurm":
        return None if server else f"{number}_{member}" if member else number
    array = "" if of_slurm is of_pbs is None else f"[{member}]"
    return f"{number}{array}{server or ''}"


def _wrong(job: int | str, scheduler: str) -> str:
    form = {"slurm": "12345 or 12345_7", "pbs": "12345.server or 12345[7].server"}
    looks = form.get(scheduler, "20300101-120000-42, as jobgen submit prints it")
    name = {"slurm": "Slurm", "pbs": "PBS"}.get(scheduler, "this machine")
    return f"{str(job)!r} is no id of a job of {name}; such an id looks like {looks}"
