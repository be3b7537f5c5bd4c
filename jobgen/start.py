"""How a job's processes start: by torchrun's agents or one by one, and through which launcher."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from jobgen.errors import Problem
from jobgen.loaded import LoadedSpec
from jobgen.nodes import NodeGroup
from jobgen.profile import SiteProfile
from jobgen.spec import NodeRange

LAUNCHERS = ("srun", "pbsdsh", "mpiexec", "local")
OWN = {"slurm": "srun", "pbs": "pbsdsh", "local": "local"}


class Watch(NamedTuple):
    """How the loss of a node is noticed, by files that nodes write anew and the first one looks at.

    Twice an NFS client's longest belief in what it knows of a file (nfs(5), acregmax: 60 s) passes
    before a node counts as lost: 120 s without a sign of life, or 300 s where none ever came. With
    `reaches` a node gives a sign only while the first one answers it.
    """

    beat: int = 20  # seconds between two signs of life, and between two looks
    silent: int = 6  # looks without a new sign
    missing: int = 15  # looks without a first sign, or without the agent that others have
    reaches: bool = False  # where the network can part the nodes
    patience: int = 5  # seconds until no answer is none
    told: int = 3  # beats after the job's end in which a node should have been told of it


class Start(NamedTuple):
    """What starts the processes.

    `mode` is torchrun, with an agent on each node, or direct. `options` are the site's, for the
    launcher in direct mode; `devices` the order in which the processes of a node take its GPUs.
    """

    mode: str = "torchrun"
    launcher: str = "srun"
    flavor: str | None = None  # of mpiexec: pals, hydra or openmpi; None: the job finds out
    options: tuple[str, ...] = ()
    devices: tuple[int, ...] | None = None
    decided_by: tuple[str, ...] = ()  # the keys that decided the mode

    @property
    def direct(self) -> bool:
        """Whether processes start one by one."""
        return self.mode == "direct"

    @property
    def numbers(self) -> bool:
        """Whether the launcher starts, and numbers, each process itself."""
        return self.direct and self.launcher in ("srun", "mpiexec")

    @property
    def deals_evenly(self) -> bool:
        """Whether as many processes start on each node of a part of the job, as srun has it."""
        return self.direct and self.launcher == "srun"

    @property
    def part(self) -> str:
        """What a launcher starts: one process, or all that a node runs."""
        return "process" if self.numbers else "node"

    @property
    def bindings(self) -> dict[str, tuple[str, ...]]:
        """What each mpiexec is told of CPUs: the site's options, else to leave them to the node."""
        found: dict[str, tuple[str, ...]] = {
            "pals": ("--cpu-bind", "none"),
            "hydra": ("-bind-to", "none"),
            "openmpi": ("--bind-to", "none"),
        }
        if self.flavor and self.options:
            found[self.flavor] = self.words
        return found

    @property
    def words(self) -> tuple[str, ...]:
        """The site's options, word by word."""
        return tuple(word for text in self.options for word in text.split())


def start_of(loaded: LoadedSpec, profile: SiteProfile, groups: tuple[NodeGroup, ...]) -> Start:
    """What the spec says, else what the site does, else torchrun through the scheduler's own."""
    said, site = loaded.spec.launch, profile.launch
    torchrun_keys = tuple(
        f"launch.{key}" for key in ("rendezvous", "max_restarts") if getattr(said, key) is not None
    )
    if isinstance(loaded.spec.resources.nodes, NodeRange):
        torchrun_keys += ("resources.nodes",)
    mode: str
    keys: tuple[str, ...]
    if said.mode is not None:
        mode, keys = said.mode, ("launch.mode",)
    elif torchrun_keys or site is None:
        mode, keys = "torchrun", torchrun_keys
    else:
        mode, keys = site.family, ("site.launch.family",)
    launcher: str = (site.launcher if site else None) or OWN[profile.scheduler]
    if profile.scheduler == "local":
        launcher = "local"
    elif said.launcher not in (None, "auto"):
        launcher = said.launcher
    if site is None or site.launcher != launcher:
        return Start(mode, launcher, decided_by=keys)
    if mode != "direct":
        return Start(mode, launcher, site.mpiexec, decided_by=keys)
    whole = all(group.gpus == len(site.devices or ()) for group in groups)
    own = "CUDA_VISIBLE_DEVICES" in (loaded.spec.environment.variables or {})
    devices = site.devices if whole and not own else None
    return Start(mode, launcher, site.mpiexec, site.options, devices, keys)


def conflicts(
    loaded: LoadedSpec, profile: SiteProfile, groups: tuple[NodeGroup, ...]
) -> Iterator[Problem]:
    """A launcher that this scheduler does not have."""
    ranged = isinstance(loaded.spec.resources.nodes, NodeRange)
    for key, value in (("mode", "direct"), ("launcher", "mpiexec")):
        if ranged and getattr(loaded.spec.launch, key) == value:
            message = (
                f"{value} is told how many processes there are, and resources.nodes is a range"
            )
            yield loaded.problem(f"launch.{key}", message, "leave it out, or say how many nodes")
    own, asked = OWN[profile.scheduler], loaded.spec.launch.launcher
    hint = f"write {own}, mpiexec or auto"
    if asked == "mpiexec" and own == "srun" and len({group.shape for group in groups}) > 1:
        message = "unequal nodes on Slurm are parts of a job, and mpiexec sees only the first"
        yield loaded.problem("launch.launcher", message, "write srun")
    if profile.scheduler == "local" or asked in (None, "auto", "mpiexec", own):
        return
    if asked != "local":
        message = f"{asked} is for {'Slurm' if asked == 'srun' else 'PBS'} alone"
        yield loaded.problem("launch.launcher", message, hint)
    elif sum(group.nodes for group in groups) > 1:
        yield loaded.problem("launch.launcher", "local starts nothing on other nodes", hint)


def notes(profile: SiteProfile, start: Start) -> Iterator[str]:
    """Where the spec wants another mode than its site's."""
    site = profile.launch
    if site is None or profile.scheduler == "local" or site.family == start.mode:
        return
    from jobgen.limits import ground

    usual, this = "one process for each GPU", "one torchrun agent on each node"
    if start.direct:
        usual, this = this, usual
    advice = f"; {site.note}" if site.note else ""
    yield (
        f"note: {profile.title or 'this site'} starts {usual} by {site.launcher}, this script"
        f" {this}{ground(profile, site)}{advice}"
    )
