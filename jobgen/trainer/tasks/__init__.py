"""Tasks: what is trained. The rest of the trainer knows nothing but this interface.

A task is one module with a function `load(config) -> Task`. It may also have

- `prepare(config, *, fetch) -> str | None`: make the data ready; one process calls it while the
  others wait
- `DEFAULTS`: values for settings that were not given; a literal, as it is read without torch
- `MODELS`: the same for each name that `--model` takes; the first is the usual one

`--task NAME` takes the file of that name in this folder: to add a task, put one here, as nothing
else names them. `--task FILE.py` and `--task PACKAGE.MODULE` take one from elsewhere. This module
imports no torch.
"""

from __future__ import annotations

import ast
import difflib
import importlib.util
import pkgutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from ..config import Config, TrainerError, UsageError

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

    def export(self, weights: Mapping[str, Tensor], folder: Path) -> str | None:
        """Write the trained weights into the folder in a form others read; returns what it is."""
        return None

    def facts(self) -> Mapping[str, Any]:
        """Return what else is worth recording at the start and in checkpoints, as JSON can hold."""
        return {}


@dataclass(frozen=True)
class About:
    """What can be known of a task without importing it, that is, without torch."""

    defaults: dict[str, Any]  # by the names of settings
    models: dict[str, dict[str, Any]]  # what else each model has, by its name; the first is usual


def names() -> list[str]:
    """Return the names of the tasks in this folder."""
    found = (module for module in pkgutil.iter_modules(__path__) if not module.ispkg)
    return sorted(module.name.replace("_", "-") for module in found)


def about(name: str) -> About:
    """Return what the task's file says in its literals DEFAULTS and MODELS, if it has them.

    Raises UsageError when there is no such task.
    """
    found: dict[str, Any] = {"DEFAULTS": {}, "MODELS": {}}
    try:
        statements = ast.parse(_file(name).read_bytes()).body
    except (OSError, SyntaxError) as error:
        raise UsageError(f"--task {name}: {error}") from error
    for statement in statements:
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id=constant)], value=literal)
                | ast.AnnAssign(target=ast.Name(id=constant), value=ast.expr() as literal)
            ) if constant in found:
                found[constant] = ast.literal_eval(literal)
    return About(found["DEFAULTS"], found["MODELS"])


def module(name: str) -> ModuleType:
    """Return the task's module, imported."""
    if name in names():
        return importlib.import_module(f".{name.replace('-', '_')}", __name__)
    if not name.endswith(".py"):
        return importlib.import_module(name)
    spec = importlib.util.spec_from_file_location(Path(name).stem, _file(name))
    assert spec is not None
    assert spec.loader is not None
    own = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(own)
    return own


def prepare(config: Config, *, fetch: bool) -> str | None:
    """Make the task's data ready, where that is not done yet; by one process for all.

    Only with `fetch` may it use the network. Returns a line for the user, if there is news.
    Raises TrainerError for what the user can put right.
    """
    make_ready = getattr(module(config.task), "prepare", None)
    news: str | None = make_ready(config, fetch=fetch) if make_ready else None
    return news


def load(config: Config) -> Task:
    """Return the task that the settings name, its data ready.

    Raises TrainerError for what the user can put right.
    """
    task: Task = module(config.task).load(config)
    if config.batch_units % task.units_per_item or (config.batch_tokens is None) == (
        task.unit == "tokens"
    ):
        raise TrainerError(
            f"--task {config.task} counts {task.unit}, {task.units_per_item} an item; give a "
            f"multiple of them as --batch-{task.unit}"
        )
    return task


def compare(task: Task, identity: Mapping[str, str | int], path: Path) -> None:
    """Raise TrainerError when a checkpoint of a task of this identity is not for this one."""
    for name, own in task.identity().items():
        if identity.get(name) != own:
            raise TrainerError(
                f"{path} was made with {name} {identity.get(name)}; this run has {name} {own}; "
                f"choose another --out"
            )


def _file(name: str) -> Path:
    """Return the file of a task: one of this folder, one that is named, or a module's."""
    if name in names():
        return Path(__file__).with_name(name.replace("-", "_") + ".py")
    if name.endswith(".py") and Path(name).is_file():
        return Path(name)
    try:
        spec = None if name.endswith(".py") else importlib.util.find_spec(name)
    except (ImportError, ValueError):
        spec = None
    if spec is None or not spec.origin:
        near = difflib.get_close_matches(name, names(), n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise UsageError(
            f"--task {name}: not one of {', '.join(names())}, nor a file or module{hint}"
        )
    return Path(spec.origin)
