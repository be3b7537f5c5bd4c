"""What `python -m jobgen.trainer` does, by command; all but training in one process."""

from pathlib import Path

from . import tasks
from .checkpoint import Checkpoints, read_state, read_whole
from .config import Config, TrainerError
from .tasks import Task


def train(config: Config) -> None:
    """Train, or with --dry-run say what that would take."""
    if config.dry_run:
        from .dryrun import show

        return show(config)
    from .loop import run

    return run(config)


def prepare(config: Config) -> None:
    """Make the task's data ready; this may use the network."""
    print(tasks.prepare(config, fetch=True) or f"--task {config.task} has nothing to prepare")


def sample(config: Config) -> None:
    """Print what the newest checkpoint's model makes."""
    task, path = _trained(config)
    model = task.build()
    model.load_state_dict(read_whole(path))
    print(task.sample(model.eval()) or f"--task {config.task} has no samples")


def export(config: Config) -> None:
    """Write the newest checkpoint's weights for other programs."""
    from .tasks.text.hub import write_safetensors

    task, path = _trained(config)
    weights, folder = read_whole(path), config.out / "export"
    write_safetensors(folder / "model.safetensors", weights)
    print(f"{folder / 'model.safetensors'}: the weights of {path.name}")
    print(task.export(weights, folder / "huggingface") or "the task has no other form")


def _trained(config: Config) -> tuple[Task, Path]:
    path, skipped = Checkpoints(config.out).newest_whole()
    for damage in skipped:
        print(f"skipped {damage}")
    if path is None:
        raise TrainerError(f"{config.out} has no checkpoint yet")
    task = tasks.load(config)
    tasks.compare(task, read_state(path)["identity"], path)
    return task, path
