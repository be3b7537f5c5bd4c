"""A program of a job, with what its keys say of files, folders and variables."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from jobgen.plan.plan import Plan, RolePlan
from jobgen.plan.program import read_sources
from jobgen.records import NamedTuple
from jobgen.review.rows import read_form
from jobgen.review.settings import Settings, list_options, list_settings
from jobgen.spec.launchers import find_launcher, name_kind
from jobgen.spec.load import LoadedSpec
from jobgen.spec.model import Container, JobSpec
from jobgen.spec.table import read_here

# The name of words in `review.txt`, the place, and the values in them.
Found = Iterator[tuple[str, str, Mapping[str, Any]]]


# Which task of its array a job is.
TASK = "JOBGEN_TASK|SLURM_ARRAY_TASK_ID|PBS_ARRAY_INDEX|PBS_ARRAYID"


class Subject(NamedTuple):
    """A program of a job: its spec and plan, as those of a job on its own nodes."""

    loaded: LoadedSpec
    plan: Plan
    sources: str | None  # of its program, by `read_sources`
    settings: Settings  # its options with their values, and those of files that it names
    copied: Sequence[str] | None  # of its snapshot
    roles: tuple[RolePlan, ...]  # of the job, if it has some
    role: RolePlan | None  # the one that this is
    lines: Sequence[tuple[str, str]]  # of setup, by `_list_setup`

    @property
    def spec(self) -> JobSpec:
        """Its spec."""
        return self.loaded.spec

    @property
    def own_setup(self) -> str:
        """Its lines of setup."""
        return self.spec.environment.setup or ""

    @property
    def setup(self) -> str:
        """Its lines of setup, with those that it sources."""
        return "\n".join(line for _, line in self.lines)

    @property
    def own_folders(self) -> list[str]:
        """The folders that nodes see as this machine does, where its cluster is known."""
        can = self.plan.can
        known = not can.batch or shutil.which(can.commands[0])
        return [os.path.expanduser("~"), os.getcwd()] if known else []

    def mentions(self, file: str) -> bool:
        """Whether its setup has the name of a file or folder, which it may make."""
        return os.path.basename(os.path.normpath(file)) in self.setup

    def provides(self, file: str) -> bool:
        """Whether its setup may make a file, or nodes see it where it is here."""
        return self.mentions(file) or is_below(os.path.expanduser(file), self.own_folders)

    @property
    def container(self) -> Container:
        """Its container; one without an image if it has none."""
        return self.spec.environment.container or Container(image="")

    @property
    def binds(self) -> list[list[str]]:
        """Where each folder that its container is shown lies, and where it is seen."""
        # A folder alone is seen at the same path.
        return [(bind.split(":") * 2)[:2] for bind in self.container.binds]

    @property
    def of_site(self) -> list[str]:
        """The folders that the site shows each container."""
        site = self.plan.site.container
        return [bind.partition(":")[0] for bind in site.binds] if site else []

    @property
    def seen(self) -> list[str]:
        """The folders that its container sees: those of its binds, and some by itself."""
        return [*(target for _, target in self.binds), os.getcwd(), os.path.expanduser("~"), "/tmp"]

    @property
    def whole(self) -> JobSpec:
        """The spec of all roles."""
        return self.loaded.whole or self.spec

    def list_variables(self) -> Iterator[tuple[str, str, str]]:
        """Yield variables with their values: the spec's own, and those that its setup exports."""
        own, values = self.spec.environment.named_variables, self.plan.environment.variables
        for name in filter(own.__contains__, values):  # and not its site's
            yield f"environment.variables.{name}", name, values[name]
        for place, line in self.lines:
            exported = "".join(read_form("exports").findall(line))
            for name, value in read_form("assigned").findall(exported):
                yield place, name, value.strip("\"'")


def list_subjects(
    loaded: LoadedSpec, plan: Plan, copied: Sequence[str] | None
) -> Iterator[Subject]:
    """Yield the programs of a job: one, or one of each role."""
    roles = plan.roles.members
    for part, own, role in zip(loaded.programs(), plan.parts, roles or [None], strict=True):
        sources = read_sources(own)
        settings = _read_options(own.program.command)
        lines = (*_list_setup(part.spec.environment.setup or ""),)
        yield Subject(part, own, sources, settings, copied, roles, role, lines)


def _list_setup(setup: str) -> Iterator[tuple[str, str]]:
    """Yield the lines of setup, and of files of this folder that it sources, with their places."""
    for line in setup.split("\n"):
        yield "environment.setup", line
        for file in map(os.path.normpath, read_form("included").findall(line)):
            inner = enumerate(read_here(file).splitlines(), 1)
            yield from ((f"{file}:{number}", one) for number, one in inner)


def _read_options(words: Sequence[str]) -> Settings:
    """Return the options of a program, and as `step-n` those of what starts it for each task."""
    if name_kind(find_launcher(words)) != "step":
        return tuple(list_settings(words))
    program = re.compile(r"(\S*/)?python[\d.]*|\S+\.(py|sh)|\.?/\S+")
    start = next((i for i, word in enumerate(words) if program.fullmatch(word)), len(words))
    own = words[: start % len(words)]  # none where it is unclear which word is the program
    steps = ((f"step{option}", value) for option, value in list_options(own))
    return (*list_settings(words[start:]), *steps)


def is_below(path: str, folders: Iterable[str]) -> bool:
    """Whether a path is one of some folders, or below one."""
    return any(f"{path}/".startswith(folder.rstrip("/") + "/") for folder in folders)


def is_here(name: str) -> bool:
    """Whether a name is of a file or folder below this one."""
    return name[:1] not in "/~$" and os.path.exists(name)
