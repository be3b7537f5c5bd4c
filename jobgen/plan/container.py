"""Containers: the options of each runtime on a node, or on the command line of srun."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jobgen.errors import Problem
from jobgen.plan.decision import Context
from jobgen.plan.plan import ContainerCommand, NeededPath, ShellPath
from jobgen.spec.model import Container
from jobgen.spec.tables import read_rows


class Entrance:
    """How the processes of a job enter its container: by a command on a node, or by srun.

    `runtime` runs it, as the spec says, else the site, else the image's name; empty if none does.
    """

    def __init__(self, context: Context, own: Container) -> None:
        self.context, self.own, self.image = context, own, own.image
        site = context.site.container
        self.runtime: str = own.runtime or (site.runtime if site else "")
        if not self.runtime and self.image.endswith(".sif"):
            self.runtime = "apptainer"
        rows = {name: cells for name, *cells in read_rows("containers.txt", room="plan")}
        cells: list[str] = rows.get(self.runtime, ["-", ""])
        self.file, self.start, self.options = cells[0], cells[1], cells[2:]
        self.by_srun = self.start.startswith("-")
        self.binds = (*site.binds, *own.binds) if site else own.binds

    def find_conflicts(self) -> Iterator[Problem]:
        """Yield what cannot be: no runtime, or srun's without srun or with modules to load."""
        enters = self.context.site.can.enters_containers
        rules = {
            "no_runtime": not self.runtime,
            "runtime_of_srun": self.by_srun and not enters,
            "enroot_image": not self.by_srun and re.search("://[^/#]+#", self.image),
            "foreign_image": re.fullmatch(r"pyxis .*\.sif", f"{self.runtime} {self.image}"),
            "modules_of_srun": self.by_srun and enters and self.context.spec.environment.modules,
            "edf_binds": self.runtime == "edf" and self.own.runtime is None and self.own.binds,
        }
        return self.context.refuse(rules, entrance=self, plain=self.image.replace("#", "/", 1))

    @property
    def image_file(self) -> ShellPath | None:
        """The file or folder of the image; None if the image is known by a name."""
        if self.file == "-" or not re.match(self.file, self.image):
            return None
        # srun takes a path from the root, or from a folder that it names, for one.
        if self.by_srun and self.image[0] not in "/~$":
            return ShellPath(f"$PWD/{self.image}")
        return NeededPath(self.image)

    def make_command(self, *, vendor: str | None, gpus: bool) -> ContainerCommand | None:
        """Return the command that enters the container on a node; None if srun does it.

        `vendor` made the GPUs, if the job has `gpus`; None if that is not known.
        """
        if self.by_srun or not self.start:
            return None
        folder, option, *for_gpus = self.options
        makers = dict(zip(("nvidia", "amd"), map(tuple, map(str.split, for_gpus)), strict=True))
        words = [*self.start.split(), folder, ShellPath("$PWD")]
        words += makers.get(vendor or "", ()) if gpus else ()
        unknown = makers if gpus and vendor is None else {}
        binds = (word for bind in self.binds for word in (option, _write_both_sides(bind)))
        return ContainerCommand(
            runtime=self.runtime,
            words=tuple(words),
            bind=option,
            more=(*binds, *self.own.options, _expand_home(self.image)),
            **unknown,
        )

    @property
    def step_options(self) -> tuple[str, ...]:
        """The options by which srun enters the container; empty if a command does it."""
        if not self.by_srun:
            return ()
        image = _expand_home(self.image_file or self.image)
        mounts = ",".join(map(_write_both_sides, ("$PWD", "/tmp", *self.binds)))
        words = (word.format(image=image, mounts=mounts) for word in self.start.split())
        return (*map(ShellPath, words), *self.own.options)


def _write_both_sides(bind: str) -> NeededPath:
    """SOURCE:TARGET; a runtime may have another idea of SOURCE alone."""
    text = _expand_home(bind)
    return NeededPath(text if ":" in text else f"{text}:{text}")


def _expand_home(text: str) -> NeededPath:
    """A path, or two, whose ~ expands also where it is not the first sign of a word."""
    return NeededPath(re.sub(r"(^|:)~(?=/|:|$)", r"\1$HOME", text))
