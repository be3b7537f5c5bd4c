"""One step: forward and backward over this rank's micro-batches, sums over all ranks, an update.

`Stepper.step` has all of it, in the order in which it happens. The host never waits for the device
within a step: a step's numbers are read when the next one is on its way.
"""

import math
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from .config import Config
from .data import order
from .data.feed import Feed, move_batch
from .data.split import split_batch
from .distributed.device import DTYPES, Arithmetic
from .distributed.strategy import build_model, get_local
from .distributed.world import World
from .optimizer import LossScale, Optimizer, compute_learning_rate
from .output.metrics import StepNumbers, measure_memory
from .tasks import Task

_MOST_BAD = 20  # steps in a row in which fp16 may overflow


class Stepper:
    """The model and its optimizer on this rank, and the position in the data."""

    def __init__(self, task: Task, config: Config, world: World, arithmetic: Arithmetic) -> None:
        """Build the model, the same on every rank, and spread it over them."""
        self.task, self.config, self.world, self.arithmetic = task, config, world, arithmetic
        self.split = split_batch(config, config.batch_units // task.units_per_item, world.size)
        self.micro_batches = self.split.micro_batches[world.rank]
        self.units = self.split.items * task.units_per_item  # of a step, if they are not counted
        self.val = order.spread_evenly(task.val_items, config.val_items)
        self.strategy = build_model(task, config, world, arithmetic=arithmetic, split=self.split)
        self.model = self.strategy.module
        self.parameters = sum(parameter.numel() for parameter in self.model.parameters())
        self.optimizer = Optimizer(self.model, config)
        self.loss_scale = LossScale(world.device) if arithmetic.dtype == "fp16" else None
        self.feed = Feed(task, config, self.split, rank=world.rank, device=world.device)
        self.done = self.position = 0  # steps, and items of the data
        self._bad_steps = 0  # in a row
        self._own_s = 0.0  # seconds for data and forward passes, since the last line
        self._pending: tuple[StepNumbers, Any, Callable[[], dict[str, float]]] | None = None

    def step(self) -> StepNumbers | None:
        """Take one step; returns the numbers of the step before, or None if they are known.

        All ranks must call it.
        """
        config, world = self.config, self.world

        learning_rate = compute_learning_rate(self.done, config)
        self.optimizer.set_learning_rate(learning_rate)

        # Forward and backward, one micro-batch after another: gradients add up, on this rank, and
        # with the last backward over all ranks.
        loss_sum = torch.zeros((), dtype=torch.float64, device=world.device)
        units = 0
        for micro_batch in self.micro_batches:
            began = time.perf_counter()
            batch, own_units = self.feed.take_batch()
            units += own_units
            # Random numbers depend only on the position in the data: not on the ranks, nor on what
            # was drawn before. So no generator's state has to be saved.
            self.seed(order.mix(config.seed, self.position + micro_batch.start))
            with self.strategy.accumulate(last=micro_batch is self.micro_batches[-1]):
                loss = self.compute_loss(self.strategy.model, batch)
                self._own_s += time.perf_counter() - began
                self.backward(loss)
            # In steps of 2^-32, so that the order of addition makes no difference.
            loss_sum += torch.round(loss.detach().double() * 2**32) / 2**32

        self.rescale_gradients(units)
        grad_norm = self.clip()

        # An update, unless loss or gradient is bad; the host does not wait to know.
        bad = ~grad_norm.isfinite()
        self.optimizer.step(bad=bad)
        if self.loss_scale:
            self.loss_scale.update(bad)

        # The numbers of a step that gets a line are summed over the ranks meanwhile; those of the
        # step before have arrived by now.
        self.done += 1
        self.position += self.split.items
        previous = self.read_numbers()
        numbers = StepNumbers(self.done, self.position, learning_rate)
        if logged := config.is_logged(self.done):
            memory_gb, waited = measure_memory(world.device), self.feed.take_wait()
            numbers = numbers._replace(memory_gb=memory_gb, waited=waited)
        # All ranks have the same norm: rank 0's counts.
        own: dict[str, Any] = {"loss": loss_sum, "units": units, "bad": bad}
        own["grad_norm"] = grad_norm * world.main
        if logged:
            own |= {f"rank {rank}": 0.0 for rank in range(world.size)}
            own[f"rank {world.rank}"], self._own_s = self._own_s, 0.0
        self._pending = numbers, own, world.sum_later(own, alone=not logged)
        return previous

    def read_numbers(self) -> StepNumbers | None:
        """Return the last step's numbers, unless they were returned before."""
        if self._pending is None:
            return None
        numbers, own, read = self._pending
        self._pending = None
        sums = read()
        bad = sums["bad"] != 0
        if bad and not self.config.is_logged(numbers.step):
            sums = self.world.sum_later(own)()
        self._bad_steps = self._bad_steps + 1 if bad else 0
        loss, norm = sums["loss"] / sums["units"], sums["grad_norm"]
        problem = f"the loss is {loss} and the gradient's norm {norm}" if bad else None
        if self.loss_scale and math.isfinite(loss) and self._bad_steps < _MOST_BAD:
            problem = None  # fp16 has overflowed: the scale is halved, and the step left out
        by_rank = tuple(value for name, value in sums.items() if name.startswith("rank "))
        return numbers._replace(loss=loss, grad_norm=norm, problem=problem, by_rank=by_rank)

    def compute_loss(self, model: nn.Module, batch: Any) -> Tensor:
        """Return the loss summed over the units of a batch, in the chosen type."""
        dtype = DTYPES[self.arithmetic.dtype]
        with torch.autocast(self.world.device.type, dtype, enabled=dtype != torch.float32):
            return self.task.loss(model, batch)

    def backward(self, loss: Tensor) -> None:
        """Add this part of the step's mean loss to the gradients.

        A loss that is not finite makes gradients that are not, so all ranks come to know.
        """
        share = torch.full_like(loss, self.strategy.gain / self.units)
        if self.loss_scale:
            share = share * self.loss_scale.scale
        torch.autograd.backward(loss, share + 0 * loss.detach())

    def rescale_gradients(self, units: int) -> None:
        """Undo the scale of the loss, and divide by the units that the step really has.

        Each rank has counted its own; their sum stays on the device.
        """
        factor: Tensor | None = None
        if self.task.counted:
            total = torch.tensor(units, dtype=torch.float32).to(self.world.device)
            if self.world.size > 1:
                torch.distributed.all_reduce(total)
            factor = self.units / total
        if self.loss_scale:
            factor = (1.0 if factor is None else factor) / self.loss_scale.scale
        if factor is not None:
            for parameter in self.optimizer.parameters:
                if parameter.grad is not None:
                    get_local(parameter.grad).mul_(factor)

    def seed(self, number: int) -> None:
        """Seed this rank's random numbers.

        torch.manual_seed takes longer, as it also seeds devices that do not exist.
        """
        torch.default_generator.manual_seed(number)
        if self.world.device.type == "cuda":
            torch.cuda.manual_seed(number)

    def clip(self) -> Tensor:
        """Return the norm of the whole gradient, after shortening it if it is too long."""
        norm = nn.utils.clip_grad_norm_(self.optimizer.parameters, self.config.clip)
        return norm.full_tensor() if isinstance(norm, DTensor) else norm

    def collect_tensors(self) -> dict[str, Tensor]:
        """Return the tensors of a checkpoint by name: of the model, and of the optimizer."""
        model = {f"model.{name}": each for name, each in self.model.state_dict().items()}
        state = self.optimizer.collect_state()
        return model | {f"optimizer.{name}": each for name, each in state.items()}

    def collect_state(self) -> dict[str, Any]:
        """Return what a checkpoint must hold besides tensors."""
        scale = self.loss_scale.as_json() if self.loss_scale else None
        return {"step": self.done, "position": self.position, "loss_scale": scale}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from there."""
        self.done, self.position = state["step"], state["position"]
        self.feed.seek(self.position)
        if self.loss_scale and state["loss_scale"]:
            self.loss_scale.restore(state["loss_scale"])

    def warm_up(self) -> None:
        """Run forward and backward once, without an update, for what happens at their first run.

        DDP rearranges its buckets after the first backward, which changes the order in which the
        ranks' numbers are added. With that done before its first step, a run that was interrupted
        adds as one that was not, and ends with the same bits. Torch may compile here for minutes.
        """
        if self.strategy.model is self.model:
            return
        buffers = [(buffer, buffer.clone()) for buffer in self.model.buffers()]
        batch = self.load_batch([0] * self.split.sizes[0], training=True)
        self.backward(self.compute_loss(self.strategy.model, batch))
        self.model.zero_grad()
        for buffer, before in buffers:  # as running means
            buffer.copy_(before)

    def load_batch(self, items: Sequence[int], *, training: bool) -> Any:
        """Return these items on the device."""
        return move_batch(self.task.batch(items, training=training), self.world.device)

    def validate(self) -> float:
        """Return the mean loss over the validation items, each used exactly once."""
        world, size = self.world, self.split.sizes[0]
        self.model.eval()
        total, units = torch.zeros((), dtype=torch.float64, device=world.device), 0
        own = self.val[world.rank :: world.size]
        most = math.ceil(len(self.val) / world.size)
        with torch.no_grad():
            for first in range(0, most, size):
                part = own[first : first + size]
                if not part and not self.strategy.lockstep:
                    continue
                batch = self.load_batch(part or self.val[:1], training=False)
                # Compiling once more, for the few that are left, takes longer than they do.
                whole = len(part) >= min(size, most)
                with nullcontext() if whole else torch.compiler.set_stance("force_eager"):
                    loss = self.compute_loss(self.model, batch)
                if part:
                    total += loss
                    counted = self.task.counted
                    each = self.task.units_per_item
                    units += self.task.count_units(batch) if counted else len(part) * each
        self.model.train()
        sums = world.sum_later({"loss": total, "units": units})()
        return sums["loss"] / sums["units"]
