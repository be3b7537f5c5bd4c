"""What is set up on every node, decided: the spec's own, and the site's where it is silent."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from jobgen.loaded import LoadedSpec
from jobgen.profile import Choice, SiteProfile
from jobgen.program import ShellPath, path_of
from jobgen.software import Modules

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


def settle(loaded: LoadedSpec, site: SiteProfile, chosen: Choice) -> NodeEnvironment:
    """The environment of a job, with what the site has `chosen` for it."""
    own = loaded.spec.environment
    variables: dict[str, str] = {key: ShellPath(value) for key, value in chosen.variables.items()}
    variables.update(own.variables or {})
    conda = own.conda or chosen.modules.conda
    return NodeEnvironment(
        modules=None if site.scheduler == "local" else _modules(own.modules, chosen),
        venv=None if own.venv is None else path_of(own.venv),
        conda=None if conda is None else ShellPath(conda),
        variables=variables,
        setup=own.setup,
        caches=tuple(_caches(variables, chosen.node.gpu)),
    )


def _modules(own: Modules | tuple[str, ...] | None, chosen: Choice) -> Modules | None:
    found = (
        chosen.modules if own is None else own if isinstance(own, Modules) else Modules(load=own)
    )
    modules = Modules(found.first, tuple(map(path_of, found.use)), found.load)
    return None if modules == Modules() else modules


def _caches(variables: Mapping[str, str], gpu: str | None) -> Iterator[str]:
    """The caches that nobody else has a place for, but those of other GPUs than the site's."""
    for name in _CACHES:
        other = name.startswith("MIOPEN") and _vendor(gpu) in ("nvidia", "intel")
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
