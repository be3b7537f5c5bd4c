"""Containers: what each runtime is told on a node, or on the command line of srun."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from jobgen.errors import Problem
from jobgen.loaded import LoadedSpec
from jobgen.profile import SiteProfile
from jobgen.program import ShellPath

# Those that srun itself enters, with a task; the others are commands.
_OF_SRUN = ("pyxis", "edf")
_PODMAN = "run --rm --interactive --env-host --network=host --ipc=host --pid=host"


class GpuOptions(NamedTuple):
    """What shows the GPUs inside, by who made them."""

    nvidia: tuple[str, ...]
    amd: tuple[str, ...]


_OF_APPTAINER = GpuOptions(("--nv",), ("--rocm",))
_OF_PODMAN = GpuOptions(("--gpu",), ("--device=/dev/kfd", "--device=/dev/dri"))


class Container(NamedTuple):
    """A container that a command enters: `words`, a `bind` for each path, then `more`."""

    runtime: str
    words: tuple[str, ...]
    bind: str  # the option
    more: tuple[str, ...]  # the image last
    any_gpu: GpuOptions | None = None  # where only the node knows who made them


def runtime_of(loaded: LoadedSpec, site: SiteProfile) -> str | None:
    """What runs the container: as the spec says, or the site."""
    own = loaded.spec.environment.container
    return (own and own.runtime) or (site.container and site.container.runtime)


def conflicts(loaded: LoadedSpec, site: SiteProfile) -> Iterator[Problem]:
    """What cannot be: no runtime, or srun's where there is no srun or modules come first."""
    own, runtime = loaded.spec.environment.container, runtime_of(loaded, site)
    where = "environment.container"
    if own is None:
        return
    if runtime is None:
        hint = "add runtime: apptainer, singularity, podman-hpc, pyxis or edf"
        yield loaded.problem(where, "names no runtime, nor does the site", hint)
    elif runtime in _OF_SRUN and site.scheduler != "slurm":
        hint = "use apptainer, singularity or podman-hpc"
        yield loaded.problem(f"{where}.runtime", f"{runtime} is for srun, Slurm's launcher", hint)
    elif runtime in _OF_SRUN and loaded.spec.environment.modules:
        message = f"srun enters the container of {runtime} before a module could be loaded"
        yield loaded.problem("environment.modules", message, "leave them out")
    if runtime == "edf" and own.runtime is None and own.binds:
        hint = "write them as mounts in the environment file"
        yield loaded.problem(f"{where}.binds", "are of no use to edf, this site's runtime", hint)


def image_file(runtime: str, image: str) -> ShellPath | None:
    """The file or folder to look for; None where the image is known by a name."""
    if runtime in ("apptainer", "singularity"):
        return None if re.match(r"[a-z]+://", image) else ShellPath(image)
    suffix = {"pyxis": ".sqsh", "edf": ".toml"}.get(runtime)
    if suffix is None or not (image.endswith(suffix) or re.match(r"[/.~$]", image)):
        return None
    # srun takes a path from the root, or from a folder that it names, for one.
    return ShellPath(image if re.match(r"[/~$]", image) else f"$PWD/{image}")


def entered_by_command(
    loaded: LoadedSpec, site: SiteProfile, *, vendor: str | None, gpus: bool
) -> Container | None:
    """The words that enter the container on a node; None where srun does it, or there is none.

    `vendor` made the GPUs, if the job has `gpus`; None where that is not known.
    """
    own, runtime = loaded.spec.environment.container, runtime_of(loaded, site)
    if own is None or runtime is None or runtime in _OF_SRUN:
        return None
    binds = [*(site.container.binds if site.container else ()), *own.binds]
    if runtime == "podman-hpc":
        words = [runtime, *_PODMAN.split(), "--workdir", ShellPath("$PWD")]
        option, for_gpus = "--volume", _OF_PODMAN
    else:
        words = [runtime, "exec", "--pwd", ShellPath("$PWD")]
        option, for_gpus = "--bind", _OF_APPTAINER
    if gpus and vendor is not None:
        words += getattr(for_gpus, vendor, ())
    more: list[str] = []
    for bind in binds:
        more += [option, _both_sides(bind)]
    return Container(
        runtime=runtime,
        words=tuple(words),
        bind=option,
        more=(*more, *own.options, _expanding(own.image)),
        any_gpu=for_gpus if gpus and vendor is None else None,
    )


def step_options(loaded: LoadedSpec, site: SiteProfile) -> tuple[str, ...]:
    """What srun is told to enter the container with a task; nothing where a command does it."""
    own, runtime = loaded.spec.environment.container, runtime_of(loaded, site)
    if own is None or runtime not in _OF_SRUN:
        return ()
    image = _expanding(image_file(runtime, own.image) or own.image)
    if runtime == "edf":
        return (ShellPath(f"--environment={image}"), *own.options)
    binds = ["$PWD", "/tmp", *(site.container.binds if site.container else ()), *own.binds]
    mounts = ",".join(map(_both_sides, binds))
    return (
        ShellPath(f"--container-image={image}"),
        ShellPath(f"--container-mounts={mounts}"),
        *own.options,
    )


def _both_sides(bind: str) -> ShellPath:
    """SOURCE:TARGET; a runtime may have another idea of SOURCE alone."""
    text = _expanding(bind)
    return ShellPath(text if ":" in text else f"{text}:{text}")


def _expanding(text: str) -> ShellPath:
    """A path, or two, whose ~ expands also where it is not the first sign of a word."""
    return ShellPath(re.sub(r"(^|:)~(?=/|:|$)", r"\1$HOME", text))
