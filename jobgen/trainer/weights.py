"""Weights to start from, `--init-from`: of another run, or of a folder of safetensors."""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from .checkpoint import Checkpoints, read_whole
from .config import TrainerError
from .distributed.strategy import copy_whole
from .tasks import Task
from .text.hub import WeightFiles


def read_weights(place: Path) -> Mapping[str, Tensor]:
    """Return the weights of a run's newest checkpoint, or of a folder of safetensors."""
    if (place / "checkpoints").is_dir():
        path, _ = Checkpoints(place).newest_whole()
        if path is not None:
            return read_whole(path)
    if any(place.glob("*.safetensors")):
        return WeightFiles(place)
    raise TrainerError(
        f"--init-from {place}: neither a run folder with a checkpoint, nor a folder with "
        f"*.safetensors"
    )


def start_from(model: nn.Module, task: Task, place: Path) -> None:
    """Give the model these weights, of which a rank that holds a shard keeps its own.

    Raises TrainerError when they are not the model's.
    """
    weights = task.adopt(read_weights(place))
    own = dict(model.named_parameters()) | {
        name: buffer for name, buffer in model.named_buffers() if name in model.state_dict()
    }
    # One matrix under two names may be in the file under either or both.
    aliases = {name for name, _ in model.named_parameters(remove_duplicate=False)} - own.keys()
    missing = sorted(own.keys() - weights.keys())
    foreign = sorted(weights.keys() - own.keys() - aliases)
    if missing or foreign:
        parts = [f"lacks {', '.join(missing[:3])}"] if missing else []
        parts += [f"has {', '.join(foreign[:3])} too much"] if foreign else []
        raise TrainerError(
            f"--init-from {place}: not this model's weights: it {', and '.join(parts)}"
        )
    with torch.no_grad():
        for name, tensor in own.items():
            whole = weights[name]
            if whole.shape != tensor.shape:
                raise TrainerError(
                    f"--init-from {place}: {name} is {tuple(whole.shape)}, in this model "
                    f"{tuple(tensor.shape)}"
                )
            copy_whole(tensor, whole)
