"""How the model is spread over the ranks, and how their gradients become one.

Each rank runs its own number of micro-batches. Their losses are parts of one mean, so that
gradients are added up, never averaged, and no rank counts more than its share. Within a step only
a rank's last micro-batch communicates; nothing has to be joined when ranks have unequal numbers.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from ..config import Config, TrainerError
from ..data.deal import Deal
from ..tasks import Task
from .device import Arithmetic
from .world import World


def build_model(
    task: Task, config: Config, world: World, *, arithmetic: Arithmetic, deal: Deal
) -> "Replicas":
    """Build the task's model with its first weights, the same on every rank, and spread it.

    Raises TrainerError when the ranks cannot be arranged as wanted.
    """
    if config.reduce == "exact" and config.strategy != "ddp":
        raise TrainerError("--reduce exact needs the whole model on each process: --strategy ddp")
    torch.manual_seed(config.seed)
    sharded = config.strategy != "ddp"
    with torch.device("meta") if task.in_pieces else nullcontext():
        model = task.build()
    if not task.in_pieces:
        model.to(world.device)
    elif not sharded:
        fill_in(task, model, world.device)
    wrap_layers(model, task, config, compiled=arithmetic.compiled)
    if sharded:
        shards = Shards(model, task, config, world, arithmetic=arithmetic, deal=deal)
        if task.in_pieces:
            fill_in(task, model, world.device)
        return shards
    if config.reduce == "exact":
        return ExactReplicas(model, world, micro_batches=sum(deal.counts))
    return Replicas(model, world)


def fill_in(task: Task, model: nn.Module, device: torch.device) -> None:
    """Give a model on the meta device its weights, one after another; a rank keeps its shard."""
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    model.to_empty(device=device)
    for name, buffer in model.named_buffers():
        buffer.copy_(buffers[name])
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            copy_whole(parameter, task.initial_weight(name, parameter.shape))


def copy_whole(parameter: Tensor, whole: Tensor) -> None:
    """Give a parameter its values, of which a rank that holds a shard keeps its own."""
    whole = whole.to(parameter.device)
    if isinstance(parameter, DTensor):
        mesh, placements = parameter.device_mesh, parameter.placements
        # Each rank has drawn or read the same: nothing need be sent.
        whole = distribute_tensor(whole, mesh, placements, src_data_rank=None)
    parameter.copy_(whole)


def wrap_layers(model: nn.Module, task: Task, config: Config, *, compiled: bool) -> None:
    """Compile the model, or its layers one by one, and let layers be recomputed in backward.

    Whole where it can be: then Inductor fuses the head with the loss. Where layers are sharded or
    recomputed, each is compiled alone, and head and loss as one more unit.
    """
    blocks = list(task.blocks(model))
    if config.recompute != "none":
        for block in blocks:
            block.forward = recompute(block.forward, selective=config.recompute == "selective")
    by_layer = blocks and (config.strategy != "ddp" or config.recompute != "none")
    if compiled and not by_layer:
        model.forward = torch.compile(model.forward, dynamic=False)
    elif compiled:
        for owner, name in [*((block, "forward") for block in blocks), *task.compiled_parts(model)]:
            setattr(owner, name, torch.compile(getattr(owner, name), dynamic=False))


def recompute(forward: Callable[..., Any], *, selective: bool) -> Callable[..., Any]:
    """Return the forward pass, made so that backward runs it again instead of keeping results."""
    options: dict[str, Any] = {"use_reentrant": False}
    if selective:
        options["context_fn"] = partial(create_selective_checkpoint_contexts, keep_products)

    def run(*args: Any) -> Any:
        return checkpoint(forward, *args, **options)

    return run


def keep_products(context: Any, operation: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    """Keep the results of products of matrices and of attention; the rest is cheap to do again."""
    name = str(operation).removeprefix("aten.").partition(".")[0]
    if name in ("mm", "addmm", "bmm", "linear") or "attention" in name:
        return CheckpointPolicy.MUST_SAVE
    return CheckpointPolicy.PREFER_RECOMPUTE


def has_state(model: nn.Module) -> bool:
    """Return whether the model keeps more than weights from step to step, as running means."""
    weights = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    return not model.state_dict().keys() <= weights


class Replicas:
    """The whole model on every rank (DistributedDataParallel)."""

    #: whether all ranks must call the model equally often
    lockstep = False

    def __init__(self, model: nn.Module, world: World) -> None:
        self.gain = world.size  # as gradients are averaged, and sums are wanted
        self.module = model
        self.model = model  # what is called in training
        self.has_state = has_state(model)
        if world.size > 1:
            given = inspect.signature(DistributedDataParallel).parameters
            # What older versions of torch call otherwise.
            sync = next(n for n in ("forward_sync_buffers", "broadcast_buffers") if n in given)
            buffers: dict[str, Any] = {sync: self.has_state}
            self.model = DistributedDataParallel(
                model,
                device_ids=[world.device] if world.device.type != "cpu" else None,
                gradient_as_bucket_view=True,
                # Running means differ by rank, and are rank 0's; tables of constants, which are
                # not in the state, are the same everywhere.
                **buffers,
            )

    def accumulate(self, *, last: bool) -> AbstractContextManager[None]:
        """Return a context for one forward and backward; the last one communicates."""
        if last or not isinstance(self.model, DistributedDataParallel):
            return nullcontext()
        return cast(AbstractContextManager[None], self.model.no_sync())

    def reduce(self) -> None:
        """Complete the gradients, once all micro-batches have run."""


class Shards(Replicas):
    """A part of every layer on each rank (fully_shard, "FSDP2"): layers are put together in turn.

    The parts are those of all ranks or, hybrid, of a node's, the nodes being replicas. Until a
    step's last micro-batch the gradients of its own stay whole on each rank.
    """

    lockstep = True

    def __init__(
        self,
        model: nn.Module,
        task: Task,
        config: Config,
        world: World,
        *,
        arithmetic: Arithmetic,
        deal: Deal,
    ) -> None:
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
        short = arithmetic.torch_dtype
        # Ranks with fewer micro-batches than others would miss their calls to put layers
        # together: then each layer is put together once, and stays so until the step's end.
        self.even = len(set(deal.counts)) == 1
        options: dict[str, Any] = {
            "mesh": init_device_mesh(world.device.type, shape, mesh_dim_names=names),
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
        self.module = self.model = model
        self.limit = self._LIMIT / micro_batches
        self.gain, self.size = 1, world.size
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.gradient = torch.zeros(sum(p.numel() for p in self.parameters), device=world.device)
        self.scratch = torch.zeros_like(self.gradient)
        # The last element counts micro-batches whose gradient is not a number, or too large.
        self.sums = torch.zeros(len(self.gradient) + 1, dtype=torch.int64, device=world.device)
        self.views: tuple[Tensor, ...] = torch.split(
            self.gradient, [p.numel() for p in self.parameters]
        )

    @contextmanager
    def accumulate(self, *, last: bool) -> Iterator[None]:
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
