"""The run from start to end: begin or continue, step, validate, save, stop or finish.

Reads top to bottom: `run` is one start of the run, `_Training.until_done` is the loop,
`_Training.step` is one step.
"""

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import torch
from torch import Tensor, nn

from . import order, stop, tasks
from .checkpoint import Checkpoints, read_part, read_state
from .config import Config, TrainerError
from .metrics import Log
from .parallel import World, accumulating, join
from .status import Status

# The learning rate ends at this share of its peak.
_FINAL_LR = 0.1


def run(config: Config) -> None:
    """Train as configured, continuing what the run folder holds; returns when done or stopped.

    Every rank must call it. Raises TrainerError for what the user can put right, and
    FloatingPointError when the loss is no longer a number; the status then says failed.
    """
    checkpoints = Checkpoints(config.out)
    config.out.mkdir(parents=True, exist_ok=True)
    status = Status.of_job(config.out)
    try:
        world = join(config.device)
        print(f"{world}\n", end="", flush=True)
        training = _Training(config, world, checkpoints)
        training.resume()
        with closing(Log(config, step=training.done, writes=world.main)) as log:
            training.until_done(status, log)
    except BaseException as error:
        if not status.failed(error, step=checkpoints.newest_step()):
            # torchrun blames the error file of the earliest second: let it be the culprit's.
            time.sleep(1)
        raise


def learning_rate(step: int, config: Config) -> float:
    """Return the rate of a step, counted from 0: up linearly, then down on half a cosine."""
    if step < config.warmup_steps:
        return config.lr * (step + 1) / config.warmup_steps
    way = (step - config.warmup_steps) / max(1, config.steps - config.warmup_steps)
    return config.lr * (_FINAL_LR + (1 - _FINAL_LR) * 0.5 * (1 + math.cos(math.pi * way)))


class _Training:
    """Model, optimizer and the place in the data: what a checkpoint holds."""

    def __init__(self, config: Config, world: World, checkpoints: Checkpoints) -> None:
        self.config = config
        self.world = world
        self.checkpoints = checkpoints
        self.task = tasks.load(config)
        self.batch_items = config.batch_tokens // self.task.units_per_item
        self.slots = order.deal(self.batch_items, rank=world.rank, size=world.size)
        chosen = order.spread(self.task.val_items, config.val_sequences)
        self.val_units = len(chosen) * self.task.units_per_item
        self.val_share = chosen[world.rank :: world.size]

        torch.manual_seed(config.seed)
        self.model = self.task.build().to(world.device)
        self.optimizer = torch.optim.AdamW(
            _parameter_groups(self.model, config.weight_decay),
            lr=config.lr,
            betas=(0.9, 0.95),
            fused=world.device.type == "cuda",
        )
        self.done = 0
        self.position = 0

    def resume(self) -> None:
        """Load the newest whole checkpoint, if there is any.

        Rank 0 chooses for all, so that none is misled by a file system that lags behind.
        """
        path, skipped = self.world.agree(self.checkpoints.newest_whole)
        for damage in skipped if self.world.main else ():
            print(f"skipped {damage}", flush=True)
        if path is None:
            return
        state = read_state(path)
        for name, own in self.task.identity().items():
            if state["identity"].get(name) != own:
                raise TrainerError(
                    f"{path} was made with {name} {state['identity'].get(name)}; this run has "
                    f"{name} {own}; choose another --out"
                )
        self.model.load_state_dict(read_part(path, "model"))
        self.optimizer.load_state_dict(read_part(path, "optimizer"))
        self.done, self.position = state["step"], state["position"]
        if self.world.main:
            print(f"continuing after step {self.done} from {path}", flush=True)

    def until_done(self, status: Status, log: Log) -> None:
        """Take steps until the last one or a request to stop, and leave word of how it ended."""
        world, config = self.world, self.config
        if world.main:
            status.running(self.done)
        log.start(self.done, **self.facts())
        model = world.wrap(self.model)
        self.settle(model)
        asked = None
        with stop.StopRequests(status.stop_file if world.main else None) as requests:
            while self.done < config.steps and not asked:
                measured, flags = self.step(model, requests.flags())
                asked = stop.reason(flags)
                log.step(self.done, tokens=self.position * self.task.units_per_item, **measured)
                last = self.done == config.steps
                began = time.perf_counter()
                if last or (self.done % config.val_every == 0 and not asked):
                    loss = self.validate()
                    log.validation(self.done, loss, seconds=time.perf_counter() - began)
                    began = time.perf_counter()
                if world.main and (last or asked or self.done % config.save_every == 0):
                    self.save()
                    log.saved(self.done, seconds=time.perf_counter() - began)
        if world.main and self.done < config.steps and asked:
            status.stopped(self.done, asked)
            log.say(f"stopped after step {self.done} by {asked}; start again to continue")
        elif world.main:
            status.completed(self.done)
            log.say(f"completed {self.done} steps; everything is in {config.out}")
            if sample := self.task.sample(self.model):
                log.say(f"--- a sample ---\n{sample}")

    def settle(self, model: nn.Module) -> None:
        """Run backward once for nothing.

        DDP arranges its buckets anew after the first backward, which changes the order in which
        the ranks' numbers are added. With that behind it at its first step, a run that was
        interrupted adds as one that was not, and ends with the same bits.
        """
        torch.autograd.backward(self.loss(model, [0], training=True))
        self.optimizer.zero_grad()

    def step(
        self, model: nn.Module, flags: Sequence[float]
    ) -> tuple[dict[str, float], list[float]]:
        """Take one step; returns what was measured and the stop flags of all ranks added up.

        The gradient is the mean over all tokens of the global batch, whatever the ranks' shares.
        """
        config, world = self.config, self.world
        began = time.perf_counter()
        lr = learning_rate(self.done, config)
        for group in self.optimizer.param_groups:
            group["lr"] = lr

        positions = [self.position + slot for slot in self.slots]
        items = order.items_at(positions, count=self.task.train_items, seed=config.seed)
        loss_here = 0.0
        for part, last in _parts(items, config.micro_batch):
            with accumulating(model, more=not last):
                loss = self.loss(model, part, training=True) / config.batch_tokens
                # DDP averages over the ranks, each of which has only its share of the sum.
                torch.autograd.backward(loss * world.size)
            loss_here += float(loss.detach())
        norm = float(torch.nn.utils.clip_grad_norm_(self.model.parameters(), config.clip))
        loss_mean, *all_flags = world.sum([loss_here, *flags])
        if not (math.isfinite(loss_mean) and math.isfinite(norm)):
            raise FloatingPointError(
                f"at step {self.done + 1} the loss is {loss_mean} and the gradient's norm {norm}; "
                f"try a lower --lr or a larger --warmup-steps"
            )
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.done += 1
        self.position += self.batch_items
        seconds = time.perf_counter() - began
        return {"loss": loss_mean, "lr": lr, "grad_norm": norm, "seconds": seconds}, all_flags

    def validate(self) -> float:
        """Return the mean loss over the validation items, each used exactly once."""
        total = 0.0
        with torch.no_grad():
            for part, _ in _parts(self.val_share, self.config.micro_batch):
                total += float(self.loss(self.model, part, training=False))
        return self.world.sum([total])[0] / self.val_units

    def loss(self, model: nn.Module, items: Sequence[int], *, training: bool) -> Tensor:
        """Return the loss summed over the units of these items."""
        batch = self.task.batch(items, training=training)
        return self.task.loss(model, tuple(part.to(self.world.device) for part in batch))

    def save(self) -> None:
        """Write a checkpoint; only rank 0 may."""
        parts = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        state = {
            "step": self.done,
            "position": self.position,
            "config": self.config.as_json(),
            "identity": dict(self.task.identity()),
            **self.facts(),
        }
        self.checkpoints.save(self.done, parts=parts, state=state, keep=self.config.keep)

    def facts(self) -> dict[str, Any]:
        """Return what is worth knowing about this start of the run."""
        return {
            "world_size": self.world.size,
            "device": self.world.device.type,
            "parameters": sum(parameter.numel() for parameter in self.model.parameters()),
            "unit": self.task.unit,
            "units_per_item": self.task.units_per_item,
            "items": self.task.train_items,
            "torch": torch.__version__,
            **self.task.facts(),
        }


def _parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Return AdamW's groups: matrices decay, vectors (biases, norms) do not."""
    parameters = list(model.parameters())
    return [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]


def _parts(items: Sequence[int], size: int) -> Iterator[tuple[Sequence[int], bool]]:
    """Yield pieces of at most `size`, each with whether it is the last."""
    for first in range(0, len(items), size):
        yield items[first : first + size], first + size >= len(items)
