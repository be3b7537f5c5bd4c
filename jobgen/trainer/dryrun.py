"""What a run would take: sizes, memory and time, without training. `--dry-run`.

For N ranks set WORLD_SIZE=N, and LOCAL_WORLD_SIZE where a shard is a node's.
"""

import os
import time

import torch
from torch import Tensor, nn

from . import tasks
from .config import Config
from .feed import deal
from .metrics import peak_flops
from .spread import DTYPES
from .tasks import Task

# Of the dense bf16 peak: what readable trainers reach with GPT-2's size on an H100.
_ASSUMED_MFU, _ASSUMED_DEVICE = 0.4, "H100"
# More takes too long to be measured for a dry run, in floating-point operations on a CPU.
_MOST = 1e12


def show(config: Config) -> None:
    """Print all that can be said before the run; prepares the data, as their size matters."""
    if news := tasks.prepare(config, fetch=False):
        print(news)
    task = tasks.load(config)
    unit, each = task.unit, task.units_per_item
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    dealt = deal(config, config.batch_units // each, ranks)
    model = task.build()
    parameters = sum(parameter.numel() for parameter in model.parameters())
    counts = ":".join(map(str, dealt.counts)) if len(set(dealt.counts)) > 1 else dealt.counts[0]
    print(
        f"model    {config.task} {config.model or ''}: {parameters:,} parameters\n"
        f"batch    {config.batch_units:,} {unit} = {dealt.items:,} items of {each:,}; "
        f"{ranks} ranks, {counts} micro-batches of {dealt.size} each\n"
        f"run      {config.steps:,} steps, {config.steps * config.batch_units:,} {unit}, "
        f"{config.steps * dealt.items / task.train_items:.2f} epochs of {task.train_items:,} items"
    )
    kept, seconds = _measure(config, task, model)

    # A weight: itself, its gradient (exact sums: 4 + 4 + 8 bytes), two numbers of AdamW.
    bytes_each = 4 + (16 if config.reduce == "exact" else 4) + 8
    shards = {"fsdp": ranks, "hybrid": int(os.environ.get("LOCAL_WORLD_SIZE", ranks))}
    state = parameters * bytes_each / shards.get(config.strategy, 1)
    activations = kept * dealt.size * (1 if config.dtype == "fp32" else 0.5)
    less = "; less with --recompute, not counted here" if config.recompute else ""
    print(
        f"memory   {(state + activations) / 1e9:.2f} GB a rank: {state / 1e9:.2f} weights, "
        f"gradients and optimizer, {activations / 1e9:.2f} activations of a micro-batch (measured "
        f"with one item in fp32{less}); libraries and buffers come on top"
    )
    slowest = max(dealt.counts) * dealt.size
    if seconds is not None:
        where = "GPU" if next(model.parameters()).is_cuda else "CPU"
        print(
            f"step     {slowest * seconds:.3g} s for {slowest} items in turn on this machine's "
            f"{where}, measured with one; more at once may take less"
        )
    flops, peak = task.flops_per_unit(model), peak_flops(_ASSUMED_DEVICE)
    if flops and peak:
        # An estimate for whoever has a GPU in mind; a dry run often happens on a login node.
        print(
            f"         {slowest * each * flops / (_ASSUMED_MFU * peak):.3g} s if each rank has an "
            f"{_ASSUMED_DEVICE} and reaches {_ASSUMED_MFU:.0%} of its {peak / 1e12:.0f} TFLOP/s; "
            f"an assumption, with {flops / 1e6:.1f} MFLOP for each of the {unit}"
        )


def _measure(config: Config, task: Task, model: nn.Module) -> tuple[float, float | None]:
    """Return the bytes that one item's forward keeps for backward, and the seconds both take.

    The seconds are None where they would take minutes to find out.
    """
    gpu = config.device in ("auto", "cuda") and torch.cuda.is_available()
    model.to(device := torch.device("cuda" if gpu else "cpu"))
    own = {parameter.data_ptr() for parameter in model.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        if tensor.data_ptr() not in own:
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    batch = tuple(part.to(device) for part in task.batch([0], training=True))
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = task.loss(model, batch)
    work = (task.flops_per_unit(model) or 0.0) * task.units_per_item
    if device.type == "cpu" and work > _MOST:
        return sum(kept.values()), None
    torch.autograd.backward(loss)
    began = time.perf_counter()
    dtype = DTYPES[config.dtype]
    with torch.autocast(device.type, dtype, enabled=dtype != torch.float32):
        loss = task.loss(model, batch)
    torch.autograd.backward(loss)
    float(loss.detach())  # waits for a GPU
    return sum(kept.values()), time.perf_counter() - began
