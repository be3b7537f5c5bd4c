"""One step: forward and backward over this rank's micro-batches, sums over all ranks, an update.

Also what is as close to the numbers: the learning rate, and a validation.
"""

import math
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from . import order
from .config import Config
from .feed import Feed, deal
from .metrics import memory_held
from .parallel import World
from .policy import LossScale, LossWatch
from .spread import DTYPES, spread
from .tasks import Task
from .watchdog import Clock, Stragglers

# The learning rate ends at this share of its peak.
_FINAL_LR = 0.1


def learning_rate(step: int, config: Config) -> float:
    """Return the rate of a step, counted from 0: up linearly, then down on half a cosine."""
    if step < config.warmup_steps:
        return config.lr * (step + 1) / config.warmup_steps
    way = (step - config.warmup_steps) / max(1, config.steps - config.warmup_steps)
    return config.lr * (_FINAL_LR + (1 - _FINAL_LR) * 0.5 * (1 + math.cos(math.pi * way)))


class Step(NamedTuple):
    """What a step has shown; sums are over all ranks."""

    numbers: dict[str, float]  # loss, lr, grad_norm, and mem_gb where a line is due
    flags: list[float]  # each the sum of what the ranks gave
    slow: list[str]  # stragglers, by name
    waited: float  # seconds in which this rank waited for data, since a line was last due
    problem: str | None  # why the weights were left as they were


class Stepper:
    """The model and its optimizer on this rank, and the place in the data."""

    def __init__(self, task: Task, config: Config, world: World) -> None:
        """Build the model, the same on every rank, and spread it over them."""
        self.task, self.config, self.world = task, config, world
        self.deal = deal(config, config.batch_units // task.units_per_item, world.size)
        self.val = order.spread(task.val_items, config.val_items)
        torch.manual_seed(config.seed)
        self.model = task.build().to(world.device)
        self.parameters = sum(parameter.numel() for parameter in self.model.parameters())
        self.spread = spread(self.model, task, config, world, counts=self.deal.counts)
        self.weights = list(self.model.parameters())
        # Vectors, that is biases and norms, do not decay.
        vectors: dict[str, Any] = {"params": [p for p in self.weights if p.dim() < 2]}
        vectors["weight_decay"] = 0.0
        matrices = {"params": [p for p in self.weights if p.dim() >= 2]}
        decay, betas = config.weight_decay, (0.9, 0.95)
        self.optimizer = torch.optim.AdamW(
            [matrices, vectors], config.lr, betas, weight_decay=decay, fused=True
        )
        self.feed = Feed(task, config, self.deal, rank=world.rank, device=world.device)
        self.stragglers = Stragglers(world, self.deal.counts, lockstep=self.spread.lockstep)
        self.clock = Clock(world.device)  # of this rank's forward passes
        self.losses = LossWatch(config.spike)
        self.scale = LossScale(config.dtype)
        self.done = self.position = self.since = 0  # steps since a line was due

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint must hold beside weights and optimizer."""
        scale = {"factor": self.scale.factor, "good": self.scale.good}
        usual = {"losses": list(self.losses.usual), "scale": scale}
        return {"step": self.done, "position": self.position} | usual

    def restore(self, state: dict[str, Any], *, keep_position: bool) -> None:
        """Continue from there; with `keep_position`, with the data that would have come next."""
        self.done = state["step"]
        if not keep_position:
            self.position = state["position"]
        self.feed.move(self.position)
        self.losses.usual = deque(state["losses"], maxlen=self.losses.usual.maxlen)
        if not self.scale.fixed:
            self.scale.factor, self.scale.good = state["scale"]["factor"], state["scale"]["good"]

    def settle(self) -> None:
        """Run backward once for nothing, where the first one has an effect that lasts.

        DDP arranges its buckets anew after it, which changes the order in which the ranks' numbers
        are added. With that behind it at its first step, a run that was interrupted adds as one
        that was not, and ends with the same bits. Torch may compile here for minutes.
        """
        if self.spread.model is not self.model:
            self.model.eval()  # leaves running means as they are
            self.backward(self.loss(self.spread.model, [0] * self.deal.size))
            self.model.zero_grad()
        self.model.train()

    def step(self, flags: Sequence[float]) -> Step:
        """Take one step, unless its loss or gradient says better not.

        All ranks must call it, with as many flags; their sums are among what is returned.
        """
        config, world = self.config, self.world
        lr = learning_rate(self.done, config)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        loss = torch.zeros((), dtype=torch.float64, device=world.device)
        own = self.deal.of(world.rank)
        for number in own:
            batch = self.feed.take()
            # What is drawn at random depends on the place in the data alone: not on the ranks, nor
            # on what was drawn before. So no state of a generator has to be kept.
            self.seed(order.mix(config.seed, self.position + number * self.deal.size))
            with self.spread.micro_batch(last=number == own[-1]):
                with self.clock:
                    part = self.loss(self.spread.model, batch)
                self.backward(part)
            # In steps of 2^-32, so that the order of addition makes no difference.
            loss += torch.round(part.detach().double() * 2**32) / 2**32
        self.spread.reduce()
        norm = self.clip()
        self.since += 1
        waited, memory, mine, slow = 0.0, {}, [], []
        if due := config.line_due(self.done + 1):
            waited, memory = self.feed.take_wait(), {"mem_gb": memory_held(world.device)}
            mine = self.stragglers.mine(self.clock.take(), waited, memory["mem_gb"])
        total, *sums = world.sum([0.0, *flags, *mine], loss)
        numbers = {"loss": total / config.batch_units, "lr": lr, "grad_norm": float(norm)} | memory
        if due:
            slow = self.stragglers.find(sums[len(flags) :], steps=self.since)
            self.since = 0

        overflowed = self.scale.update(overflowed=not math.isfinite(numbers["grad_norm"]))
        problem = None
        if not overflowed:
            problem = self.losses.judge(numbers["loss"], numbers["grad_norm"])
            if problem is None:
                self.optimizer.step()
        self.optimizer.zero_grad()
        self.done += problem is None
        self.position += self.deal.items
        return Step(numbers, sums[: len(flags)], slow, waited, problem)

    def loss(
        self, model: nn.Module, batch: tuple[Tensor, ...] | Sequence[int], *, training: bool = True
    ) -> Tensor:
        """Return the loss summed over the units of a batch, or of items, in the chosen type."""
        dtype, device = DTYPES[self.config.dtype], self.world.device
        if not isinstance(batch, tuple):
            batch = tuple(t.to(device) for t in self.task.batch(batch, training=training))
        with torch.autocast(device.type, dtype, enabled=dtype != torch.float32):
            return self.task.loss(model, batch)

    def backward(self, loss: Tensor) -> None:
        """Add this part of the step's mean loss to the gradients."""
        share = self.spread.gain * self.scale.factor / self.config.batch_units
        torch.autograd.backward(loss * share)

    def seed(self, number: int) -> None:
        """Seed what this rank draws at random.

        torch.manual_seed takes longer, as it sees to devices that are not there.
        """
        torch.default_generator.manual_seed(number)
        if self.world.device.type != "cpu":
            getattr(torch, self.world.device.type).manual_seed(number)

    def clip(self) -> Tensor:
        """Return the norm of the whole gradient, after shortening it where it is too long."""
        if self.scale.factor != 1:
            gradients = [p.grad for p in self.weights if p.grad is not None]
            torch._foreach_mul_(gradients, 1 / self.scale.factor)
        norm = nn.utils.clip_grad_norm_(self.weights, self.config.clip)
        return norm.full_tensor() if isinstance(norm, DTensor) else norm

    def validate(self) -> float:
        """Return the mean loss over the validation items, each used exactly once."""
        world, size = self.world, self.deal.size
        self.model.eval()
        total = torch.zeros((), dtype=torch.float64, device=world.device)
        share = self.val[world.rank :: world.size]
        most = math.ceil(len(self.val) / world.size)
        with torch.no_grad():
            for first in range(0, most, size):
                part = share[first : first + size]
                if part or self.spread.lockstep:
                    loss = self.loss(self.model, part or self.val[:1], training=False)
                    total += loss if part else 0
        self.model.train()
        return world.sum([0.0], total)[0] / (len(self.val) * self.task.units_per_item)
