"""How the model is spread over the ranks, and how their gradients become one.

Each rank runs its own number of equal micro-batches. Their losses are parts of one mean, so that
gradients are added up, never averaged, and no rank counts more than its share. Within a step only
a rank's last micro-batch communicates; nothing has to be joined when ranks have unequal numbers.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from .config import Config, TrainerError
from .parallel import World
from .tasks import Task

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def spread(
    model: nn.Module, task: Task, config: Config, world: World, *, counts: Sequence[int]
) -> "Replicas":
    """Spread the model, which is on the rank's device; `counts`: each rank's micro-batches.

    Raises TrainerError when the ranks cannot be arranged as wanted.
    """
    if config.reduce == "exact" and config.strategy != "ddp":
        raise TrainerError("--reduce exact needs the whole model on each process: --strategy ddp")
    whole = config.strategy == "ddp" and not config.recompute
    if config.compile and whole:
        model.forward = torch.compile(model.forward, dynamic=False)
    for block in task.blocks(model):
        if config.compile and not whole:
            block.forward = torch.compile(block.forward, dynamic=False)
        if config.recompute:
            block.forward = partial(checkpoint, block.forward, use_reentrant=False)
    if config.reduce == "exact":
        return ExactReplicas(model, world, micro_batches=sum(counts))
    if config.strategy == "ddp":
        return Replicas(model, world)
    return Shards(model, task, config, world, even=len(set(counts)) == 1)


class Replicas:
    """The whole model on every rank (DistributedDataParallel)."""

    #: whether all ranks must call the model equally often
    lockstep = False

    def __init__(self, model: nn.Module, world: World) -> None:
        self.gain = world.size  # as gradients are averaged, and sums are wanted
        self.model = model  # what is called in training
        if world.size > 1:
            devices = [world.device] if world.device.type != "cpu" else None
            self.model = DistributedDataParallel(
                model, device_ids=devices, gradient_as_bucket_view=True
            )

    def micro_batch(self, *, last: bool) -> AbstractContextManager[None]:
        """Return a context for one forward and backward; the last one communicates."""
        if last or not isinstance(self.model, DistributedDataParallel):
            return nullcontext()
        return cast(AbstractContextManager[None], self.model.no_sync())

    def reduce(self) -> None:
        """Complete the gradients, once all micro-batches have run."""


class Shards(Replicas):
    """A part of every layer on each rank (fully_shard, "FSDP2"): layers are put together in turn.

    The parts are those of all ranks or, hybrid, of a node's, the nodes being replicas.
    """

    lockstep = True

    def __init__(
        self, model: nn.Module, task: Task, config: Config, world: World, *, even: bool
    ) -> None:
        self.model = model
        self.gain = world.size
        shape: tuple[int, ...] = (world.size,)
        names: tuple[str, ...] = ("shard",)
        if config.strategy == "hybrid":
            nodes = set(world.gather((world.rank // world.local_size, world.local_size)))
            if nodes != {(node, world.local_size) for node in range(len(nodes))}:
                raise TrainerError(
                    "--strategy hybrid needs the same number of processes on every node, numbered "
                    "node by node; use --strategy fsdp"
                )
            shape, names = (len(nodes), world.local_size), ("replicate", "shard")
        dtype = None if config.dtype == "fp32" else DTYPES[config.dtype]
        # Ranks with fewer micro-batches than others would miss their calls to put layers
        # together: then each layer is put together once, and stays so until the step's end.
        self.even = even
        options: dict[str, Any] = {
            "mesh": init_device_mesh(world.device.type, shape, mesh_dim_names=names),
            "mp_policy": MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32),
            "reshard_after_forward": even,
        }
        for block in task.blocks(model):
            fully_shard(block, **options)
        self.root = fully_shard(model, **options)

    def micro_batch(self, *, last: bool) -> AbstractContextManager[None]:
        """Return a context for one forward and backward; the last one adds gradients up."""
        self.root.set_requires_gradient_sync(last)
        self.root.set_reshard_after_backward(self.even or last)
        return nullcontext()


class ExactReplicas(Replicas):
    """The whole model on every rank, and sums that are the same in whatever order they are taken.

    The gradient of each micro-batch is rounded to a multiple of 2^-36 and added up in whole
    numbers of 64 bits, over micro-batches and over ranks. So all worlds, and all ways to deal
    micro-batches to ranks, end with the same bits. The rounding is finer than that of the usual
    32-bit sum as long as gradients are above 1e-4; their sum must stay below 6e7.
    """

    _ONE = 2.0**36
    _LIMIT = 2.0**26  # of the sum; 2^27 times 2^36 would overflow

    def __init__(self, model: nn.Module, world: World, *, micro_batches: int) -> None:
        self.model = model
        self.limit = self._LIMIT / micro_batches
        self.gain, self.size = 1, world.size
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.gradient = torch.zeros(sum(p.numel() for p in self.parameters), device=world.device)
        self.scratch = torch.zeros_like(self.gradient)
        # The last element counts micro-batches whose gradient is no number, or too large.
        self.sums = torch.zeros(len(self.gradient) + 1, dtype=torch.int64, device=world.device)
        self.views = torch.split(self.gradient, [p.numel() for p in self.parameters])

    @contextmanager
    def micro_batch(self, *, last: bool) -> Iterator[None]:
        """Add the micro-batch's own gradient to the rank's sums."""
        self.gradient.zero_()
        for parameter, view in zip(self.parameters, self.views, strict=True):
            parameter.grad = view.view_as(parameter)
        yield
        self.sums[-1] += ~(torch.linalg.vector_norm(self.gradient, torch.inf) < self.limit)
        torch.mul(self.gradient, self._ONE, out=self.scratch)
        self.sums[:-1] += self.scratch.round_().to(torch.int64)

    def reduce(self) -> None:
        """Add up over the ranks, and go back to fractions."""
        if self.size > 1:
            dist.all_reduce(self.sums)
        self.gradient.copy_(self.sums[:-1].to(torch.float64).div_(self._ONE))
        self.gradient[0] += torch.where(self.sums[-1] > 0, torch.nan, 0.0)
        self.sums.zero_()
