"""The commands of `python -m jobgen.trainer`; all but training run in one process."""

from . import tasks
from .checkpoint import Checkpoints, read_state, read_whole
from .config import Config, TrainerError


def train(config: Config) -> None:
    """Train, or with --dry-run print what training would need."""
    if config.dry_run:
        from .dryrun import show_needs

        return show_needs(config)
    from .run import run

    return run(config)


def prepare(config: Config) -> None:
    """Prepare the task's data; this may use the network."""
    print(tasks.prepare_data(config, fetch=True) or f"--task {config.task} has nothing to prepare")


def sample(config: Config) -> None:
    """Print a sample from the newest checkpoint's model."""
    path, skipped = Checkpoints(config.out).newest_whole()
    for damage in skipped:
        print(f"skipped {damage}")
    if path is None:
        raise TrainerError(f"{config.out} has no checkpoint yet")
    task = tasks.load_task(config)
    tasks.compare_identity(task, read_state(path)["identity"], path)
    model = task.build()
    model.load_state_dict(read_whole(path))
    print(task.sample(model.eval()) or f"--task {config.task} has no samples")
