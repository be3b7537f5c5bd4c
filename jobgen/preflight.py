"""What is compared between the nodes before the program starts."""

from __future__ import annotations

from typing import NamedTuple

from jobgen.nodes import NodeGroup


class Preflight(NamedTuple):
    """The GPUs that each node must see at least, in order; 0 where that is nobody's concern."""

    gpus: tuple[int, ...]

    @property
    def everywhere(self) -> int | None:
        """The one number of GPUs, where the nodes are alike."""
        return self.gpus[0] if len(set(self.gpus)) == 1 else None

    @property
    def alike(self) -> bool:
        """Whether all nodes must see as many."""
        return self.everywhere is not None


def preflight_of(groups: tuple[NodeGroup, ...], scheduler: str) -> Preflight:
    """For these nodes; this machine has the GPUs that it has."""
    local = scheduler == "local"
    return Preflight(tuple(0 if local else g.gpus for g in groups for _ in range(g.nodes)))
