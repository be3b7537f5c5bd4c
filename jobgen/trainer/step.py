"""One step: forward and backward over this rank's micro-batches, sums over all ranks, an update.

`Stepper.step` has all of it, in the order in which it happens. The host never waits for the device
within a step: what a step has shown is read when the next one is on its way.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from .config import Config
from .data import order
from .data.deal import deal_items
from .data.feed import Feed, move_batch
from .distributed.device import (
    Arithmetic,
    count_parameters,
    observe_attention,
    run_uncompiled,
)
from .distributed.strategy import build_model
from .distributed.world import World
from .optimizer import Optimizer, compute_learning_rate
from .output.metrics import measure_memory
from .tasks import Task
from .watch.losses import BadSteps, SpikeWatch
from .watch.stragglers import Clock, Stragglers


class StepNumbers(NamedTuple):
    """What a step has shown, over all ranks."""

    step: int  # counted from 1
    position: int  # items used so far, this step's included
    loss: float  # mean over the global batch, before the update
    learning_rate: float
    grad_norm: float  # before clipping
    requests: list[float]  # how many ranks make each request
    problem: str | None  # why the weights were left as they were
    # Where a line is due:
    memory_gb: float | None = None  # most held by this rank
    waited: float = 0.0  # seconds in which this rank waited for data, since the line before
    slow_ranks: Sequence[str] = ()


class _Pending(NamedTuple):
    """A step whose numbers are not read yet."""

    numbers: StepNumbers
    read: Callable[[], list[float]]  # the sums over the ranks, once they are there
    units: int  # by which the loss is divided
    table_steps: int  # steps that the table of stragglers covers; 0 where there is none


class Stepper:
    """The model and its optimizer on this rank, and the place in the data."""

    def __init__(self, task: Task, config: Config, world: World, arithmetic: Arithmetic) -> None:
        """Build the model, the same on every rank, and spread it over them."""
        self.task, self.config, self.world, self.arithmetic = task, config, world, arithmetic
        self.deal = deal_items(config, config.batch_units // task.units_per_item, world.size)
        self.micro_batches = self.deal.micro_batches[world.rank]
        self.val = order.spread_evenly(task.val_items, config.val_items)
        self.strategy = build_model(task, config, world, arithmetic=arithmetic, deal=self.deal)
        self.model = self.strategy.module
        self.parameters = count_parameters(self.model)
        self.optimizer = Optimizer(self.model, task, config)
        self.feed = Feed(task, config, self.deal, rank=world.rank, device=world.device)
        self.stragglers = Stragglers(world, self.deal.shares, lockstep=self.strategy.lockstep)
        self.clock = Clock(world.device)  # of this rank's forward passes
        self.spikes = SpikeWatch(config.spike, world.device) if config.spike else None
        self.bad_steps = BadSteps()
        self.done = self.position = 0  # steps, and items of the data
        self._steps_since_line = 0  # steps
        self._pending: _Pending | None = None

    def step(self, requests: Sequence[float]) -> StepNumbers | None:
        """Take one step; returns what the step before has shown, or None when that is known.

        All ranks must call it, with as many requests: what each of them asks for.
        """
        config, world = self.config, self.world

        # The learning rate.
        learning_rate = compute_learning_rate(self.done, config)
        self.optimizer.set_learning_rate(learning_rate)

        # Forward and backward, one micro-batch after another: gradients add up, on this rank, and
        # with the last backward over all ranks.
        loss_sum = torch.zeros((), dtype=torch.float64, device=world.device)
        for micro_batch in self.micro_batches:
            batch, units = self.feed.take_batch()
            # What is drawn at random depends on the place in the data alone: not on the ranks, nor
            # on what was drawn before. So no state of a generator has to be kept.
            self.seed(order.mix(config.seed, self.position + micro_batch.start))
            with self.strategy.accumulate(last=micro_batch is self.micro_batches[-1]):
                with self.clock:
                    loss = self.compute_loss(self.strategy.model, batch)
                self.backward(loss, units=units)
            # In steps of 2^-32, so that the order of addition makes no difference.
            loss_sum += torch.round(loss.detach().double() * 2**32) / 2**32
        self.strategy.reduce()

        # The norm of the whole gradient, which is shortened where it is too long.
        grad_norm = self.clip()

        # An update, unless loss or gradient is bad; the host does not wait to know.
        bad = ~grad_norm.isfinite()
        if self.spikes:
            bad |= self.spikes.judge(self.sum_on_device(loss_sum) / units)
        self.optimizer.step(bad=bad)

        # The numbers of this step are summed over the ranks meanwhile; those of the one before are
        # there by now.
        self.done += 1
        self.position += self.deal.items
        self._steps_since_line += 1
        previous = self.read_numbers()
        self._pending = self.send_numbers(
            loss_sum, grad_norm, bad, requests, learning_rate=learning_rate, units=units
        )
        return previous

    def send_numbers(
        self,
        loss_sum: Tensor,
        grad_norm: Tensor,
        bad: Tensor,
        requests: Sequence[float],
        *,
        learning_rate: float,
        units: int,
    ) -> _Pending:
        """Begin to tell all ranks this step's numbers."""
        waited, memory, row, table_steps = 0.0, None, [], 0
        if self.config.line_due(self.done):
            table_steps, self._steps_since_line = self._steps_since_line, 0
            waited, memory = self.feed.take_wait(), measure_memory(self.world.device)
            row = self.stragglers.make_row(self.clock.take(), waited, memory)
        sums = torch.tensor([0.0, 0.0, 0.0, *requests, *row], dtype=torch.float64)
        if self.world.device.type != "cpu":
            sums = sums.pin_memory().to(self.world.device, non_blocking=True)
        sums[0] = loss_sum
        if self.world.main:  # all ranks have the same norm
            sums[1], sums[2] = grad_norm, bad
        numbers = StepNumbers(
            self.done, self.position, math.nan, learning_rate, math.nan, [], None, memory, waited
        )
        return _Pending(numbers, self.world.sum_later(sums), units, table_steps)

    def read_numbers(self) -> StepNumbers | None:
        """Return what the last step has shown, unless that is known."""
        if self._pending is None:
            return None
        numbers, read, units, table_steps = self._pending
        self._pending = None
        loss_sum, norm, bad, *sums = read()
        loss = loss_sum / units
        table = sums[len(sums) - self.stragglers.width :] if table_steps else []
        return numbers._replace(
            loss=loss,
            grad_norm=norm,
            requests=sums[: len(sums) - len(table)],
            problem=self.bad_steps.explain(bad=bad > 0, loss=loss, norm=norm),
            slow_ranks=self.stragglers.find_slow(table, steps=table_steps) if table else (),
        )

    def compute_loss(self, model: nn.Module, batch: Any) -> Tensor:
        """Return the loss summed over the units of a batch, in the chosen type."""
        dtype = self.arithmetic.torch_dtype
        with torch.autocast(self.world.device.type, dtype, enabled=dtype != torch.float32):
            return self.task.loss(model, batch)

    def backward(self, loss: Tensor, *, units: int) -> None:
        """Add this part of the step's mean loss to the gradients.

        A loss that is not finite makes gradients that are not: so all ranks come to know.
        """
        share = torch.full_like(loss, self.strategy.gain / units)
        torch.autograd.backward(loss, share + 0 * loss.detach())

    def seed(self, number: int) -> None:
        """Seed what this rank draws at random.

        torch.manual_seed takes longer, as it sees to devices that are not there.
        """
        torch.default_generator.manual_seed(number)
        if self.world.device.type != "cpu":
            getattr(torch, self.world.device.type).manual_seed(number)

    def clip(self) -> Tensor:
        """Return the norm of the whole gradient, after shortening it where it is too long."""
        norm = nn.utils.clip_grad_norm_(self.optimizer.weights, self.config.clip)
        return norm.full_tensor() if isinstance(norm, DTensor) else norm

    def sum_on_device(self, value: Tensor) -> Tensor:
        """Return the sum over the ranks of a number that stays on the device."""
        total = value.clone()
        if self.world.size > 1:
            torch.distributed.all_reduce(total)
        return total

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint must hold beside weights and optimizer."""
        usual = self.spikes.as_json() if self.spikes else []
        return {"step": self.done, "position": self.position, "losses": usual}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from there."""
        self.done, self.position = state["step"], state["position"]
        self.feed.move(self.position)
        if self.spikes:
            self.spikes.restore(state["losses"])

    def warm_up(self) -> str | None:
        """Run once for nothing what has an effect at its first run; returns the attention's kernel.

        DDP arranges its buckets anew after the first backward, which changes the order in which the
        ranks' numbers are added. With that behind it at its first step, a run that was interrupted
        adds as one that was not, and ends with the same bits. Torch may compile here for minutes.
        """
        self.model.eval()  # leaves running means as they are
        one = self.load_batch([0], training=not self.val)
        kernel = observe_attention(lambda: self.compute_loss(self.model, one))
        if self.strategy.model is not self.model:
            batch = self.load_batch([0] * self.deal.sizes[0], training=True)
            if not self.strategy.has_state:
                self.model.train()  # as in training, so that nothing is compiled twice
            self.backward(self.compute_loss(self.strategy.model, batch), units=1)
            self.model.zero_grad()
        self.model.train()
        return kernel

    def load_batch(self, items: Sequence[int], *, training: bool) -> Any:
        """Return these items on the device."""
        return move_batch(self.task.batch(items, training=training), self.world.device)

    def validate(self) -> float:
        """Return the mean loss over the validation items, each used exactly once."""
        world, size = self.world, self.deal.sizes[0]
        self.model.eval()
        total = torch.zeros((), dtype=torch.float64, device=world.device)
        own = self.val[world.rank :: world.size]
        most = math.ceil(len(self.val) / world.size)
        with torch.no_grad():
            for first in range(0, most, size):
                part = own[first : first + size]
                if not part and not self.strategy.lockstep:
                    continue
                batch = self.load_batch(part or self.val[:1], training=False)
                if len(part) == size:
                    loss = self.compute_loss(self.model, batch)
                else:  # Compiling once more, for the few that are left, takes longer than they do.
                    with run_uncompiled():
                        loss = self.compute_loss(self.model, batch)
                total += loss if part else 0
        self.model.train()
        return world.sum_later(total[None])()[0] / self.task.count_units(self.val, training=False)
