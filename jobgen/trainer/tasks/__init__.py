"""Tasks: what is trained. The rest of the trainer knows nothing but this interface.

A task is one module with a function `load(config) -> Task`. It may also have

- `prepare(config, *, fetch) -> str | None`: make the data ready; one process calls it while the
  others wait
- `DEFAULTS`: values for settings that were not given
- `MODELS`: the same for each name that `--model` takes; the first is the usual one

`--task gpt` takes gpt.py in this folder, `--task FILE.py` any other file. This module imports no
torch.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from ..config import Config, FlagError, TrainerError

if TYPE_CHECKING:
    from torch import Tensor, nn


class Task(Protocol):
    """A model, its data and its loss. Subclasses need what has no body here.

    Data are items, numbered from 0: the trainer decides which items each rank sees at which step,
    so that neither depends on the number of ranks. An item holds `units_per_item` units, and
    losses are means over units.
    """

    unit: str  # "tokens" or "samples"
    units_per_item: int
    train_items: int  # one epoch
    val_items: int  # 0: nothing validates
    counted: bool = False  # whether items differ in units, so that `count_units` must be asked

    def build(self) -> nn.Module:
        """Return a new model on the CPU, its parameters drawn from torch's default generator."""

    def batch(self, items: Sequence[int], *, training: bool) -> Any:
        """Return these training or validation items as tensors on the CPU, items first.

        Tensors may be in tuples, lists and dicts. It may run in another thread, ahead of the step
        that needs it, and draws nothing at random.
        """

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        """Return the loss summed over all units of a batch that is on the model's device."""

    def count_units(self, batch: Any) -> int:
        """Return by how many units the loss of a batch is divided; asked only if `counted`."""
        raise TypeError(f"{type(self).__name__} is `counted`, but has no `count_units`")

    def blocks(self, model: nn.Module) -> Iterable[nn.Module]:
        """Return the repeated layers: what is sharded, compiled or recomputed one at a time."""
        return ()

    def compiled_parts(self, model: nn.Module) -> Iterable[tuple[Any, str]]:
        """Return functions, as owner and attribute, worth compiling beside single blocks."""
        return ()

    def flops_per_unit(self, model: nn.Module) -> float | None:
        """Return the floating-point operations that training on one unit takes, if known."""
        return None

    def sample(self, model: nn.Module) -> str | None:
        """Return what the trained model makes, for the command `sample`."""
        return None

    def identity(self) -> Mapping[str, str | int]:
        """Return what a checkpoint must have in common with a run that continues it, by name."""
        return {}

    def facts(self) -> Mapping[str, Any]:
        """Return what else to record at the start and in checkpoints, as JSON can hold it."""
        return {}


@cache
def import_task(name: str) -> ModuleType:
    """Return the task's module; FlagError when there is no such task."""
    if name == "gpt":
        return importlib.import_module(".gpt", __name__)
    if name.endswith(".py") and Path(name).is_file():
        spec = importlib.util.spec_from_file_location(Path(name).stem, name)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    raise FlagError(f"--task {name}: neither gpt nor an existing file")


def prepare_data(config: Config, *, fetch: bool) -> str | None:
    """Make the task's data ready, where that is not done yet; by one process for all.

    Only with `fetch` may it use the network. Returns a line for the user, if there is news.
    Raises TrainerError for what the user can fix.
    """
    make_ready = getattr(import_task(config.task), "prepare", None)
    news: str | None = make_ready(config, fetch=fetch) if make_ready else None
    return news


def load_task(config: Config) -> Task:
    """Return the task that the settings name, its data ready.

    Raises TrainerError for what the user can fix.
    """
    task: Task = import_task(config.task).load(config)
    if config.batch_units % task.units_per_item or (config.batch_tokens is None) == (
        task.unit == "tokens"
    ):
        raise TrainerError(
            f"--task {config.task} counts {task.unit}, {task.units_per_item} an item; give a "
            f"multiple of them as --batch-{task.unit}"
        )
    return task


def compare_identity(task: Task, identity: Mapping[str, str | int], path: Path) -> None:
    """Raise TrainerError when a checkpoint of a task of this identity is not for this one."""
    for name, own in task.identity().items():
        if identity.get(name) != own:
            raise TrainerError(
                f"{path} was made with {name} {identity.get(name)}; this run has {name} {own}; "
                f"choose another --out"
            )
