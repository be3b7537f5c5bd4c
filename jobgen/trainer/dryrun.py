"""`--dry-run`: the sizes and memory of a run, without training.

For N ranks set WORLD_SIZE=N.
"""

import os

import torch
from torch import Tensor, nn

from . import tasks
from .config import Config
from .data.feed import map_tensors
from .data.split import split_batch
from .distributed.device import DTYPES, choose_dtype
from .tasks import Task


def _assume_dtype(config: Config) -> tuple[str, str]:
    cuda = config.device != "cpu" and torch.cuda.is_available()
    if config.dtype == "auto" and config.device != "cpu" and not cuda:
        # A login node has none; the job, which is meant, probably has.
        return "bf16", "assuming GPUs, though none is visible here; for CPUs give --device cpu"
    return choose_dtype(config, torch.device("cuda" if cuda else "cpu"))


def show_needs(config: Config) -> None:
    """Print the facts known before the run; prepare the data, because their size matters."""
    if news := tasks.prepare_data(config, fetch=False):
        print(news)
    task = tasks.load_task(config)
    unit, each = task.unit, task.units_per_item
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    split = split_batch(config, config.batch_units // each, ranks)
    with torch.device("meta" if config.task == "gpt" else "cpu"):
        model = task.build()
    parameters = sum(parameter.numel() for parameter in model.parameters())
    dtype, why = _assume_dtype(config)
    width = torch.finfo(DTYPES[dtype]).bits // 8
    state = parameters * measure_state(config, ranks=ranks, accumulates=max(split.counts) > 1)
    activations = measure_activations(task, model) * split.sizes[0] * width / 4
    epochs = config.steps * split.items / task.train_items
    print(
        f"model    {config.task} {config.model or ''}: {parameters:,} parameters\n"
        f"batch    {config.batch_units:,} {unit} = {split.items:,} items of {each:,}; {split}\n"
        f"run      {config.steps:,} steps, {config.steps * config.batch_units:,} {unit}, "
        f"{epochs:.2f} epochs of {task.train_items:,} items\n"
        f"memory   {(state + activations) / 1e9:.2f} GB a rank in {dtype} ({why}): "
        f"{state / 1e9:.2f} parameters, gradients and optimizer, {activations / 1e9:.2f} "
        f"activations of a micro-batch; less if compiled, more for libraries and buffers"
    )


def measure_state(config: Config, *, ranks: int, accumulates: bool) -> float:
    """Return the bytes that a rank holds for each number of the model."""
    parameter, gradient, optimizer = 4.0, 4.0, 8.0  # of AdamW, two numbers
    shards = ranks if config.strategy == "fsdp" else 1
    # Until the last of several micro-batches, gradients are whole on each rank.
    whole = gradient if shards > 1 and accumulates else 0.0
    return (parameter + gradient + optimizer) / shards + whole


def measure_activations(task: Task, model: nn.Module) -> int:
    """Return the bytes that one item's forward pass in fp32 keeps for its backward.

    If the model takes no memory, neither does this.
    """
    own = {id(parameter) for parameter in model.parameters()}
    kept: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        if id(tensor) not in own and not isinstance(tensor, nn.Parameter):
            kept[tensor.untyped_storage()._cdata] = tensor
        return tensor

    device = next(model.parameters()).device
    batch = map_tensors(lambda tensor: tensor.to(device), task.batch([0], training=True))
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        task.loss(model, batch)
    return sum(tensor.untyped_storage().nbytes() for tensor in kept.values())
