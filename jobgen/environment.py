"""What is set up on every node, decided: the spec's own, and the site's where it is silent."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from jobgen.errors import Problem
from jobgen.loaded import LoadedSpec
from jobgen.profile import Choice, SiteProfile
from jobgen.program import ShellPath, path_of
from jobgen.software import Environment, Modules

if TYPE_CHECKING:
    from jobgen.container import Container

# Where libraries keep the kernels that they compile, by variable. All but TorchInductor's are in
# the home folder by default: slow where that is shared, and MIOpen's databases break there.
_CACHES = (
    "TRITON_CACHE_DIR",
    "TORCHINDUCTOR_CACHE_DIR",
    "MIOPEN_USER_DB_PATH",
    "MIOPEN_CUSTOM_CACHE_DIR",
)


class NodeEnvironment(NamedTuple):
    """What a node's part of the script sets up. Paths in it are ShellPaths."""

    modules: Modules | None = None
    container: Container | None = None  # that a command enters
    step_options: tuple[str, ...] = ()  # by which srun enters one
    image_file: ShellPath | None = None
    stage: ShellPath | None = None
    venv: ShellPath | None = None
    conda: ShellPath | None = None
    variables: Mapping[str, str] = MappingProxyType({})
    setup: str | None = None
    caches: tuple[str, ...] = ()  # variables that name a folder of the node's own

    @property
    def purge(self) -> tuple[str, ...]:
        """The words that unload modules; some versions call it a failure that sticky ones stay."""
        words = {"purge": ("purge",), "force-purge": ("--force", "purge")}
        return words.get((self.modules and self.modules.first) or "", ())

    @property
    def reset(self) -> bool:
        """Whether the modules that the system loads come back first."""
        return self.modules is not None and self.modules.first == "reset"


def settle(loaded: LoadedSpec, site: SiteProfile, chosen: Choice, *, gpus: bool) -> NodeEnvironment:
    """The environment of a job, with what the site has, or has `chosen`, where the spec is silent.

    `gpus` says whether any node has some.
    """
    own = loaded.spec.environment
    variables: dict[str, str] = {key: ShellPath(value) for key, value in chosen.variables.items()}
    variables.update(own.variables or {})
    conda = own.conda
    if site.modules and not (own.modules is not None or own.container or own.venv or own.stage):
        conda = conda or site.modules.conda
    vendor = _vendor(chosen.node.gpu)
    found = NodeEnvironment(
        modules=None if site.scheduler == "local" else _modules(own, site),
        stage=None if own.stage is None else ShellPath(own.stage),
        venv=None if own.venv is None else path_of(own.venv),
        conda=None if conda is None else ShellPath(conda),
        variables=variables,
        setup=own.setup,
        caches=tuple(_caches(variables, vendor)),
    )
    if own.container is None:
        return found
    from jobgen import container

    gpus = gpus or site.scheduler == "local"  # this machine has what it has
    runtime = container.runtime_of(loaded, site) or ""
    step_options = container.step_options(loaded, site)
    return found._replace(
        modules=None if step_options else found.modules,
        container=container.entered_by_command(loaded, site, vendor=vendor, gpus=gpus),
        step_options=step_options,
        image_file=container.image_file(runtime, own.container.image),
    )


def conflicts(loaded: LoadedSpec, site: SiteProfile) -> Iterator[Problem]:
    """What of the environment cannot be."""
    if loaded.spec.environment.container is not None:
        from jobgen import container

        yield from container.conflicts(loaded, site)


def _modules(own: Environment, site: SiteProfile) -> Modules | None:
    """The spec's own, or the site's; beside a container only those that its runtime needs."""
    if isinstance(own.modules, Modules):
        found = own.modules
    elif own.modules is not None:
        found = Modules(load=own.modules)
    elif site.modules is not None and own.container is None:
        found = Modules(site.modules.first, site.modules.use, site.modules.load)
    else:
        found = Modules()
    if own.container is not None and site.container is not None:
        first, use, load = site.container.modules
        found = Modules(found.first or first, use + found.use, load + found.load)
    modules = found._replace(use=tuple(map(path_of, found.use)))
    return None if modules == Modules() else modules


def _caches(variables: Mapping[str, str], vendor: str | None) -> Iterator[str]:
    """The caches that nobody else has a place for, but those of other GPUs than the site's."""
    for name in _CACHES:
        other = name.startswith("MIOPEN") and vendor in ("nvidia", "intel")
        # Triton's folder follows from TRITON_HOME unless it is named.
        named = {name, name.replace("CACHE_DIR", "HOME")} & variables.keys()
        if not other and not named:
            yield name


def _vendor(gpu: str | None) -> str | None:
    """Who makes a GPU, by its name in a profile; None where the name does not tell."""
    if gpu is None:
        return None
    if re.match(r"MI[0-9]", gpu):
        return "amd"
    if gpu.startswith("PVC"):
        return "intel"
    return "nvidia" if re.match(r"([AVHBL]|G[HB])[0-9]{2,3}\b|RTX|T4\b", gpu) else None
