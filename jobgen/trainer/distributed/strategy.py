"""How the model is spread over the ranks, and how their gradients become one.

Each rank runs its own number of micro-batches. Their losses are parts of one mean, so gradients are
summed, never averaged, and no rank counts more than its share. Within a step only a rank's last
micro-batch communicates; ranks with unequal numbers need not be joined.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from ..config import Config
from ..data.split import BatchSplit
from ..tasks import Task
from .device import DTYPES, Arithmetic
from .world import World


def build_model(
    task: Task, config: Config, world: World, *, arithmetic: Arithmetic, split: BatchSplit
) -> "Replicas":
    """Build the task's model with its first parameters, the same on every rank, and spread it."""
    torch.manual_seed(config.seed)
    sharded = config.strategy == "fsdp"
    model = task.build().to(world.device)
    if arithmetic.compiled:
        compile_model(model, task, sharded=sharded)
    if sharded:
        return Shards(model, task, world, arithmetic=arithmetic, split=split)
    return Replicas(model, world)


def get_local(tensor: Tensor) -> Tensor:
    """Return this rank's rows of a tensor, which shares their memory."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def get_first_row(tensor: Tensor) -> int:
    """Return the first of this rank's rows; fully_shard cuts the rows as torch.chunk does."""
    if not isinstance(tensor, DTensor):
        return 0
    rows, mesh = tensor.shape[0], tensor.device_mesh
    return min(rows, mesh.get_local_rank() * -(-rows // mesh.size()))


def compile_model(model: nn.Module, task: Task, *, sharded: bool) -> None:
    """Compile the model whole: then Inductor fuses the head with the loss.

    If layers are sharded, each is compiled alone, and head and loss as one more unit.
    """
    parts: list[tuple[Any, str]] = [(block, "forward") for block in task.blocks(model)]
    if not sharded or not parts:
        parts = [(model, "forward")]
    else:
        parts += task.compiled_parts(model)
    for owner, name in parts:
        setattr(owner, name, torch.compile(getattr(owner, name), dynamic=False))


class Replicas:
    """The whole model on every rank (DistributedDataParallel)."""

    #: whether all ranks must call the model equally often
    lockstep = False

    def __init__(self, model: nn.Module, world: World) -> None:
        self.gain = world.size  # as gradients are averaged, and sums are wanted
        self.module = model
        self.model = model  # what is called in training
        if world.size > 1:
            self.model = DistributedDataParallel(
                model,
                device_ids=[world.device] if world.device.type != "cpu" else None,
                gradient_as_bucket_view=True,
            )

    def accumulate(self, *, last: bool) -> AbstractContextManager[None]:
        """Return a context for one forward and backward; the last one communicates."""
        if last or not isinstance(self.model, DistributedDataParallel):
            return nullcontext()
        return cast(AbstractContextManager[None], self.model.no_sync())


class Shards(Replicas):
    """A shard of every layer on each rank (fully_shard, "FSDP2"); layers are gathered in turn.

    Until a step's last micro-batch a rank keeps its own gradients whole.
    """

    lockstep = True

    def __init__(
        self,
        model: nn.Module,
        task: Task,
        world: World,
        *,
        arithmetic: Arithmetic,
        split: BatchSplit,
    ) -> None:
        self.gain = world.size
        short = DTYPES[arithmetic.dtype]
        # Ranks with fewer micro-batches than others would miss calls to gather layers: then each
        # layer is gathered once, and stays so until the step's end.
        self.even = len(set(split.counts)) == 1
        options: dict[str, Any] = {
            "mesh": init_device_mesh(world.device.type, (world.size,), mesh_dim_names=("shard",)),
            "mp_policy": MixedPrecisionPolicy(
                param_dtype=None if short == torch.float32 else short, reduce_dtype=torch.float32
            ),
        }
        for block in task.blocks(model):
            fully_shard(block, **options, reshard_after_forward=self.even)
        # What is outside of the layers is needed again at once in backward.
        self.root = fully_shard(model, **options, reshard_after_forward=False)
        self.module = self.model = model

    def accumulate(self, *, last: bool) -> AbstractContextManager[None]:
        """Return a context for one forward and backward; the last one reduces gradients."""
        self.root.set_requires_gradient_sync(last)
        self.root.set_reshard_after_backward(self.even or last)
        return nullcontext()
