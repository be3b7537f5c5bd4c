"""What a run would take: sizes and memory, without training. `--dry-run`.

For N ranks set WORLD_SIZE=N, and LOCAL_WORLD_SIZE where a shard is a node's.
"""

import os

import torch
from torch import Tensor, nn

from . import tasks
from .config import Config
from .data.deal import deal_items
from .data.feed import map_tensors
from .distributed.device import DTYPES, choose_arithmetic, count_parameters
from .optimizer import fix_length
from .tasks import Task


def show_needs(config: Config) -> None:
    """Print all that can be said before the run; prepares the data, as their size matters."""
    if news := tasks.prepare_data(config, fetch=False):
        print(news)
    task = tasks.load_task(config)
    config = fix_length(config, task)
    unit, each = task.unit, task.units_per_item
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    deal = deal_items(config, config.batch_units // each, ranks)
    with torch.device("meta" if task.in_pieces else "cpu"):
        model = task.build()
    parameters = count_parameters(model)
    print(
        f"model    {config.task} {config.model or ''}: {parameters:,} parameters\n"
        f"batch    {config.batch_units:,} {unit} = {deal.items:,} items of {each:,}; {deal}\n"
        f"run      {config.steps:,} steps, {config.steps * config.batch_units:,} {unit}, "
        f"{config.steps * deal.items / task.train_items:.2f} epochs of {task.train_items:,} items"
    )
    cuda = config.device in ("auto", "cuda") and torch.cuda.is_available()
    arithmetic = choose_arithmetic(config, torch.device("cuda" if cuda else "cpu"))
    width = torch.finfo(DTYPES[arithmetic.dtype]).bits // 8
    state = parameters * measure_state(config, ranks=ranks, accumulates=max(deal.counts) > 1)
    activations = measure_activations(task, model) * deal.sizes[0] * width / 4
    less = f"; less with --recompute {config.recompute}, not counted here"
    print(
        f"memory   {(state + activations) / 1e9:.2f} GB a rank: {state / 1e9:.2f} weights, "
        f"gradients and optimizer, {activations / 1e9:.2f} activations of a micro-batch (of one "
        f"item's in fp32{less if config.recompute != 'none' else ''}); libraries and buffers come "
        f"on top"
    )


def measure_state(config: Config, *, ranks: int, accumulates: bool) -> float:
    """Return the bytes that a rank holds for each number of the model."""
    # Itself, its gradient (exact sums: 4 + 4 + 8 bytes), and two numbers of AdamW.
    weight, gradient, optimizer = 4.0, 16.0 if config.reduce == "exact" else 4.0, 8.0
    shards = {"fsdp": ranks, "hybrid": int(os.environ.get("LOCAL_WORLD_SIZE", ranks))}
    parts = shards.get(config.strategy, 1)
    # Until the last of several micro-batches, gradients are whole on each rank.
    whole = gradient if parts > 1 and accumulates else 0.0
    return (weight + gradient + optimizer) / parts + whole


def measure_activations(task: Task, model: nn.Module) -> int:
    """Return the bytes that one item's forward pass keeps for its backward.

    Where the model takes no memory, neither does this.
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
