"""Tasks: what is trained. The rest of the trainer knows nothing but this interface.

A task is one module of this folder with a function `load(config) -> Task`; `--task NAME` takes
`NAME.py`. To add one, put a file here: nothing else names the tasks. This module imports no torch.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from torch import Tensor, nn

    from ..config import Config


class Task(Protocol):
    """A model, its data and its loss. Subclasses need what has no body here.

    Data are items, numbered from 0: the trainer decides which items each rank sees at which step,
    so that neither depends on the number of ranks. An item holds `units_per_item` units, and
    losses are means over units.
    """

    unit: str  # "tokens" or "samples"
    units_per_item: int
    train_items: int  # one epoch
    val_items: int

    def build(self) -> nn.Module:
        """Return a new model on the CPU, its weights drawn from torch's default generator."""

    def batch(self, items: Sequence[int], *, training: bool) -> tuple[Tensor, ...]:
        """Return these training or validation items as tensors on the CPU, items first.

        It may run in another thread, ahead of the step that needs it, and draws nothing at random.
        """

    def loss(self, model: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
        """Return the loss summed over all units of a batch that is on the model's device."""

    def blocks(self, model: nn.Module) -> Iterable[nn.Module]:
        """Return the repeated layers: what is sharded, and recomputed, one at a time."""
        return ()

    def flops_per_unit(self, model: nn.Module) -> float | None:
        """Return the floating-point operations that training on one unit takes, if known."""
        return None

    def sample(self, model: nn.Module) -> str | None:
        """Return what the trained model makes, to be shown at the end, if it makes anything."""
        return None

    def identity(self) -> Mapping[str, str | int]:
        """Return what a checkpoint must have in common with a run that continues it, by name."""
        return {}

    def facts(self) -> Mapping[str, Any]:
        """Return what else is worth recording at the start and in checkpoints, as JSON can hold."""
        return {}


def names() -> list[str]:
    """Return the names of all tasks."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def load(config: Config) -> Task:
    """Return the task that the settings name, its data ready.

    Raises TrainerError for what the user can put right.
    """
    task: Task = importlib.import_module(f".{config.task}", __name__).load(config)
    return task
