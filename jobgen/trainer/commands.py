"""What `python -m jobgen.trainer` does, by command; all but training in one process."""

import os
from pathlib import Path

from . import tasks
from .checkpoint import Checkpoints, read_state, read_whole
from .config import Config, TrainerError
from .tasks import Task


def train(config: Config) -> None:
    """Train, or with --dry-run say what that would take."""
    if config.dry_run:
        from .dryrun import show_needs

        return show_needs(config)
    from .loop import run

    return run(config)


def prepare(config: Config) -> None:
    """Make the task's data ready; this may use the network."""
    print(tasks.prepare_data(config, fetch=True) or f"--task {config.task} has nothing to prepare")


def evaluate(config: Config) -> None:
    """Print the validation loss of the newest checkpoint's model."""
    from .distributed.device import choose_arithmetic, prefer_attention, set_arithmetic
    from .distributed.world import join
    from .step import Stepper
    from .weights import start_from

    if "RANK" in os.environ and os.environ.get("WORLD_SIZE", "1") != "1":
        raise TrainerError("eval runs in one process; start it without torchrun")
    task, path = _load_trained(config)
    if not task.val_items:
        raise TrainerError("this run has kept no items for validation")
    world = join(config)
    set_arithmetic(config, world.device)
    with prefer_attention(world.device):
        stepper = Stepper(task, config, world, choose_arithmetic(config, world.device))
        start_from(stepper.model, task, config.out)
        loss = stepper.validate()
    units = task.count_units(stepper.val, training=False)
    print(
        f"{path.name}: validation loss {loss:.6f} over {len(stepper.val)} items, "
        f"{units:,} {task.unit}"
    )


def sample(config: Config) -> None:
    """Print what the newest checkpoint's model makes."""
    task, path = _load_trained(config)
    model = task.build()
    model.load_state_dict(read_whole(path))
    print(task.sample(model.eval()) or f"--task {config.task} has no samples")


def export(config: Config) -> None:
    """Write the newest checkpoint's weights for other programs."""
    from .text.hub import write_safetensors

    task, path = _load_trained(config)
    weights, folder = read_whole(path), config.out / "export"
    write_safetensors(folder / "model.safetensors", weights)
    print(f"{folder / 'model.safetensors'}: the weights of {path.name}")
    print(task.export(weights, folder / "huggingface") or "the task has no other form")


# By the names that the command line has for them.
COMMANDS = {
    "train": train,
    "prepare": prepare,
    "eval": evaluate,
    "sample": sample,
    "export": export,
}


def _load_trained(config: Config) -> tuple[Task, Path]:
    path, skipped = Checkpoints(config.out).newest_whole()
    for damage in skipped:
        print(f"skipped {damage}")
    if path is None:
        raise TrainerError(f"{config.out} has no checkpoint yet")
    task = tasks.load_task(config)
    tasks.compare_identity(task, read_state(path)["identity"], path)
    return task, path
