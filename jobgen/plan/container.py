"""Containers: the options of each runtime on a node, or on the command line of srun."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jobgen.errors import Problem
from jobgen.plan.decision import Context
from jobgen.plan.plan import ContainerCommand, GpuOptions, ShellPath

# Those that srun itself enters, with a task; the others are commands.
_OF_SRUN = ("pyxis", "edf", "uenv")
_PODMAN = "run --rm --interactive --env-host --network=host --ipc=host --pid=host"


_OF_APPTAINER = GpuOptions(("--nv",), ("--rocm",))
_OF_PODMAN = GpuOptions(("--gpu",), ("--device=/dev/kfd", "--device=/dev/dri"))


def choose_runtime(context: Context) -> str | None:
    """Return what runs the container: as the spec says, else the site, else the image's name."""
    own, site = context.spec.environment.container, context.site.container
    of_image = "apptainer" if own and own.image.endswith(".sif") else None
    return (own and own.runtime) or (site and site.runtime) or of_image


def find_conflicts(context: Context) -> Iterator[Problem]:
    """Yield what cannot be: no runtime, or srun's without srun or with modules to load first."""
    own, runtime = context.spec.environment.container, choose_runtime(context)
    if own is None:
        return
    by_srun, enters = runtime in _OF_SRUN, context.site.can.enters_containers
    rules = {
        "no_runtime": runtime is None,
        "runtime_of_srun": by_srun and not enters,
        "modules_of_srun": by_srun and enters and context.spec.environment.modules,
        "edf_binds": runtime == "edf" and own.runtime is None and own.binds,
    }
    yield from context.refuse(rules, runtime=runtime)


def find_image_file(runtime: str, image: str) -> ShellPath | None:
    """Return the file or folder of an image; None if the image is known by a name."""
    if runtime in ("apptainer", "singularity"):
        return None if re.match(r"[a-z]+://", image) else ShellPath(image)
    suffix = {"pyxis": ".sqsh", "edf": ".toml"}.get(runtime)
    if suffix is None or not (image.endswith(suffix) or re.match(r"[/.~$]", image)):
        return None
    # srun takes a path from the root, or from a folder that it names, for one.
    return ShellPath(image if re.match(r"[/~$]", image) else f"$PWD/{image}")


def enter_by_command(
    context: Context, *, vendor: str | None, gpus: bool
) -> ContainerCommand | None:
    """Return the command that enters the container on a node; None if srun does it.

    `vendor` made the GPUs, if the job has `gpus`; None if that is not known.
    """
    own, runtime = context.spec.environment.container, choose_runtime(context)
    if own is None or runtime is None or runtime in _OF_SRUN:
        return None
    if runtime == "podman-hpc":
        words = [runtime, *_PODMAN.split(), "--workdir", ShellPath("$PWD")]
        option, for_gpus = "--volume", _OF_PODMAN
    else:
        words = [runtime, "exec", "--pwd", ShellPath("$PWD")]
        option, for_gpus = "--bind", _OF_APPTAINER
    if gpus and vendor is not None:
        words += getattr(for_gpus, vendor, ())
    more: list[str] = []
    for bind in _list_binds(context):
        more += [option, _write_both_sides(bind)]
    return ContainerCommand(
        runtime=runtime,
        words=tuple(words),
        bind=option,
        more=(*more, *own.options, _expand_home(own.image)),
        any_gpu=for_gpus if gpus and vendor is None else None,
    )


def _list_binds(context: Context) -> tuple[str, ...]:
    own, site = context.spec.environment.container, context.site.container
    return (*(site.binds if site else ()), *(own.binds if own else ()))


def list_step_options(context: Context) -> tuple[str, ...]:
    """Return the options by which srun enters the container; empty if a command does it."""
    own, runtime = context.spec.environment.container, choose_runtime(context)
    if own is None or runtime not in _OF_SRUN:
        return ()
    image = _expand_home(find_image_file(runtime, own.image) or own.image)
    if runtime in ("edf", "uenv"):
        option = "--environment" if runtime == "edf" else "--uenv"
        return (ShellPath(f"{option}={image}"), *own.options)
    mounts = ",".join(map(_write_both_sides, ("$PWD", "/tmp", *_list_binds(context))))
    return (
        ShellPath(f"--container-image={image}"),
        ShellPath(f"--container-mounts={mounts}"),
        *own.options,
    )


def _write_both_sides(bind: str) -> ShellPath:
    """SOURCE:TARGET; a runtime may have another idea of SOURCE alone."""
    text = _expand_home(bind)
    return ShellPath(text if ":" in text else f"{text}:{text}")


def _expand_home(text: str) -> ShellPath:
    """A path, or two, whose ~ expands also where it is not the first sign of a word."""
    return ShellPath(re.sub(r"(^|:)~(?=/|:|$)", r"\1$HOME", text))
