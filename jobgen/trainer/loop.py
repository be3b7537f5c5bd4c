"""The run from start to end: begin or continue, step, validate, save, stop or finish.

Reads top to bottom: `run` is one start of the run, `_Run.until_done` is the loop; step.py has
a single step. Neither knows a task, only items and units.
"""

import json
import time
from collections import deque
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

from . import tasks
from .checkpoint import Checkpoints, Saved, Writer, read_into, read_state
from .config import BusyError, Config, TrainerError
from .files import alone, replace_text
from .metrics import Log, peak_flops
from .parallel import World, join
from .status import Status
from .step import Stepper
from .stop import StopRequests, end_of_job, reason
from .trackers import Profiler
from .watchdog import Watchdog

_MOST_ROLLBACKS = 10
# Seconds; a run on another node that has just ended may seem to be there for so long.
_PATIENCE = 120.0


def run(config: Config) -> None:
    """Train as configured, continuing what the run folder holds; returns when done or stopped.

    Every rank must call it. Raises TrainerError for what the user can put right, and
    FloatingPointError when the loss is no longer a number; the status then says failed.
    """
    this = _Run(config)
    with this.requests, ExitStack() as stack:
        try:
            world = join(config)
            print(f"{world}\n", end="", flush=True)
            world.first(lambda: _prepare(config, stack))
            with this.watchdog:
                this.begin(world)
                with closing(this.log), closing(this.writer):
                    this.until_done()
        except BusyError:
            raise  # The status is the other run's.
        except BaseException as error:
            if not this.status.failed(error, step=this.checkpoints.newest_step()):
                # torchrun blames the error file of the earliest second: let it be the culprit's.
                time.sleep(1)
            raise


def _prepare(config: Config, stack: ExitStack) -> None:
    """Keep other runs out, record the settings, and make the data ready if they are not yet."""
    stack.enter_context(alone(config.out / ".lock", patience=_PATIENCE))
    replace_text(config.out / "config.json", json.dumps(config.as_json(), indent=1) + "\n")
    if news := tasks.prepare(config, fetch=False):
        print(news, flush=True)


class _Run:
    """A start of the run on this rank."""

    def __init__(self, config: Config) -> None:
        config.out.mkdir(parents=True, exist_ok=True)
        self.config, self.checkpoints = config, Checkpoints(config.out)
        self.status = Status(config.out)
        self.requests = StopRequests(self.status.stop_file, end_of_job())
        self.watchdog = Watchdog(config.hang_after, self.status, self.checkpoints.newest_step)
        # Seconds that things take here: the last steps, the longest save, the last validation.
        self.steps_s: deque[float] = deque([0.0], maxlen=20)
        self.save_s = self.val_s = 0.0
        # Steps after which a checkpoint was begun, and is known to be on disk.
        self.begun = self.saved = 0
        self.rollbacks = 0

    def begin(self, world: World) -> None:
        """Build all that takes part, and continue from the newest checkpoint."""
        config = self.config
        if not world.main:
            self.requests.stop_file = self.requests.end = None
        self.world, self.task = world, tasks.load(config)
        self.own = Stepper(self.task, config, world)
        self.writer = Writer(
            self.checkpoints, world, keep=config.keep, keep_every=config.keep_every
        )
        self.resume()
        self.log = Log(config, step=self.own.done, writes=world.main)

    def resume(self, *, keep_position: bool = False) -> Path | None:
        """Load the newest whole checkpoint, if there is any, and return it."""
        self.watchdog.begins("reading checkpoints")
        own, (path, skipped) = self.own, self.checkpoints.newest_whole(self.world)
        for problem in skipped if self.world.main else ():
            print(f"skipped {problem}", flush=True)
        # No rank begins to write before rank 0 has tidied.
        self.world.first(lambda: self.checkpoints.tidy(path))
        if path is None:
            return None
        state = self.world.first(lambda: read_state(path))
        tasks.compare(self.task, state["identity"], path)
        model, optimizer = get_state_dict(own.model, own.optimizer)
        read_into(path, {"model": model, "optimizer": optimizer["state"]}, self.world)
        set_state_dict(own.model, own.optimizer, model_state_dict=model, optim_state_dict=optimizer)
        own.restore(state, keep_position=keep_position)
        self.begun = self.saved = own.done
        if self.world.main:
            print(f"continuing after step {own.done} from {path}", flush=True)
        return path

    def until_done(self) -> None:
        """Take steps until the last one or a request to stop, and leave word of how it ended."""
        config, own, log = self.config, self.own, self.log
        if self.world.main:
            self.status.running(own.done)
        log.start(own.done, **self.facts(), nodes=own.stragglers.nodes)
        self.watchdog.begins("the first forward and backward")
        own.settle()
        profiler = Profiler(config, active=self.world.main)
        asked = reason(self.world.sum(self.requests.flags()))
        while own.done < config.steps and not asked:
            began = time.perf_counter()
            self.watchdog.begins(f"step {own.done + 1}")
            needed = 2 * (max(self.steps_s) + self.save_s)
            no_validation = not self.requests.time_for(needed + self.val_s)
            profiler.before(own.done + 1)
            step = own.step([*self.requests.flags(needed=needed), no_validation])
            asked = reason(step.flags[:-1])
            for name in step.slow:
                log.say(name)
            if step.problem is not None:
                self.recover(step.problem)
                continue
            self.steps_s.append(seconds := time.perf_counter() - began)
            units = own.position * self.task.units_per_item
            log.step(own.done, step.numbers, seconds=seconds, waited=step.waited, units=units)
            if traced := profiler.after(own.done):
                log.say(traced)
            self.note(self.writer.poll())
            last = own.done == config.steps
            if last or own.done % config.save_every == 0:
                self.save()
            if not asked and not step.flags[-1] and (last or own.done % config.val_every == 0):
                self.validate()
        self.save()
        self.note(self.writer.wait())
        self.leave_word(asked)

    def validate(self) -> None:
        """Measure the loss on the validation items."""
        began = time.perf_counter()
        self.watchdog.begins("validation")
        loss = self.own.validate()
        self.val_s = time.perf_counter() - began
        self.log.write("val", self.own.done, loss=loss, val_s=self.val_s)
        self.log.write("ranks", self.own.done, **self.own.stragglers.take())
        if self.own.done == self.config.steps:
            self.log.say(f"validation loss {loss:.4f}")

    def leave_word(self, asked: str | None) -> None:
        """Say how it ended, and show what the model makes."""
        config, main, own, log = self.config, self.world.main, self.own, self.log
        if own.stragglers.steps:
            log.write("ranks", own.done, **own.stragglers.take())
        if own.done < config.steps:
            if main:
                self.status.ended(self.saved, reason=asked)
            log.say(f"stopped after step {own.done} by {asked}; start again to continue")
            return
        if self.saved < own.done:
            raise TrainerError(f"the weights after step {own.done} could not be saved")
        if main:
            self.status.ended(own.done)
        log.say(f"completed {own.done} steps; everything is in {config.out}")
        self.watchdog.begins("a sample")
        own.model.eval()
        sample = self.task.sample(own.model) if main or own.spread.lockstep else None
        if sample:
            log.say(f"--- a sample ---\n{sample}")

    def recover(self, problem: str) -> None:
        """After a step whose loss or gradient is bad, and had no effect: stop, or go on."""
        own, policy = self.own, self.config.on_nan
        problem = f"at step {own.done + 1} {problem}"
        self.rollbacks += policy == "rollback"
        if policy == "stop" or own.losses.hopeless or self.rollbacks > _MOST_ROLLBACKS:
            raise FloatingPointError(f"{problem}; try a lower --lr or a larger --warmup-steps")
        if policy == "rollback":
            self.note(self.writer.wait())
            if self.resume(keep_position=True) is None:
                raise FloatingPointError(f"{problem}; there is no checkpoint to go back to")
            own.model.train()
            self.log.rewind(own.done)
        self.log.say(
            f"{problem}; these items are skipped, and training goes on after step {own.done}"
        )

    def save(self) -> None:
        """Begin to write a checkpoint, and wait for its end where that is wanted."""
        own = self.own
        if own.done == self.begun:
            return
        self.watchdog.begins("a checkpoint")
        self.begun = own.done
        model, optimizer = get_state_dict(own.model, own.optimizer)
        tensors = {"model": model, "optimizer": optimizer["state"]}
        about = {"config": self.config.as_json(), "identity": dict(self.task.identity())}
        self.note(self.writer.start(own.done, tensors, own.state() | about | self.facts()))
        if not self.config.async_save:
            self.note(self.writer.wait())

    def note(self, saved: Saved | None) -> None:
        """Take note of how writing a checkpoint ended."""
        if saved is None:
            return
        if saved.problem is not None:
            self.log.say(
                f"warning: no checkpoint of step {saved.step}: {saved.problem}; the one of step "
                f"{self.saved} is kept"
            )
            return
        self.saved, self.save_s = saved.step, max(self.save_s, saved.seconds)
        self.log.write("save", saved.step, save_s=saved.seconds, ckpt_s=saved.blocked)
        if self.world.main:
            self.status.saved(saved.step)

    def facts(self) -> dict[str, Any]:
        """Return what is worth knowing about this start of the run."""
        name = self.world.device_name
        return {
            "world_size": self.world.size,
            "device": self.world.device.type,
            "device_name": name,
            "peak_flops": peak_flops(name),
            "flops_per_unit": self.task.flops_per_unit(self.own.model),
            "parameters": self.own.parameters,
            "unit": self.task.unit,
            "units_per_item": self.task.units_per_item,
            "items": self.task.train_items,
            "micro_batches": self.own.deal.counts,
            "torch": torch.__version__,
            **self.task.facts(),
        }
