"""The run from start to end: begin or continue, step, validate, save, stop or finish.

Reads top to bottom: `run` is one start of the run, `_Training.until_done` is the loop; step.py has
a single step. Neither knows a task, only items and units.
"""

import json
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

from . import tasks
from .checkpoint import Checkpoints, Saved, Writer, read_into, read_state
from .config import Config, TrainerError
from .files import replace_text
from .metrics import Log, memory_held, peak_flops
from .parallel import World, join
from .profiler import Profiler
from .status import Status
from .step import Stepper
from .stop import Pace, StopRequests, end_of_job, reason
from .watchdog import Watchdog

_MOST_ROLLBACKS = 10


def run(config: Config) -> None:
    """Train as configured, continuing what the run folder holds; returns when done or stopped.

    Every rank must call it. Raises TrainerError for what the user can put right, and
    FloatingPointError when the loss is no longer a number; the status then says failed.
    """
    checkpoints = Checkpoints(config.out)
    config.out.mkdir(parents=True, exist_ok=True)
    status = Status.of_job(config.out)
    requests = StopRequests(status.stop_file, end_of_job())
    with requests, Watchdog(config.hang_after, status, checkpoints.newest_step) as watchdog:
        try:
            world = join(config)
            print(f"{world}\n", end="", flush=True)
            if not world.main:
                requests.stop_file = requests.end = None
            world.first(
                lambda: _prepare(config), still=lambda: watchdog.begins("preparing the data")
            )
            training = _Training(config, world, checkpoints, requests, watchdog)
            training.resume()
            log = Log(config, step=training.stepper.done, writes=world.main)
            with closing(log), closing(training.writer):
                training.until_done(status, log)
        except BaseException as error:
            if not status.failed(error, step=checkpoints.newest_step()):
                # torchrun blames the error file of the earliest second: let it be the culprit's.
                time.sleep(1)
            raise


def _prepare(config: Config) -> None:
    """Record the settings, and make the data ready if they are not yet."""
    replace_text(config.out / "config.json", json.dumps(config.as_json(), indent=1) + "\n")
    if news := tasks.prepare(config, fetch=False):
        print(news, flush=True)


class _Training:
    """A start of the run on this rank."""

    def __init__(
        self,
        config: Config,
        world: World,
        checkpoints: Checkpoints,
        requests: StopRequests,
        watchdog: Watchdog,
    ) -> None:
        self.config, self.world, self.checkpoints = config, world, checkpoints
        self.requests, self.watchdog = requests, watchdog
        self.task = tasks.load(config)
        self.stepper = Stepper(self.task, config, world)
        self.writer = Writer(checkpoints, world, keep=config.keep, keep_every=config.keep_every)
        self.pace = Pace()
        # Steps after which a checkpoint was begun, and is known to be on disk.
        self.begun = self.saved = 0
        self.rollbacks = 0

    def resume(self, *, keep_position: bool = False) -> Path | None:
        """Load the newest whole checkpoint, if there is any, and return it."""
        self.watchdog.begins("reading checkpoints")
        path, skipped = self.checkpoints.newest_whole(self.world)
        if self.world.main:
            for problem in skipped:
                print(f"skipped {problem}", flush=True)
            self.checkpoints.tidy(path)
        self.world.tell(None)  # No rank begins to write before rank 0 has tidied.
        if path is None:
            return None
        state = self.world.agree(lambda: read_state(path))
        tasks.compare(self.task, state["identity"], path)
        own = self.stepper
        model, optimizer = get_state_dict(own.model, own.optimizer)
        read_into(path, {"model": model, "optimizer": optimizer["state"]}, self.world)
        set_state_dict(own.model, own.optimizer, model_state_dict=model, optim_state_dict=optimizer)
        own.done = self.begun = self.saved = state["step"]
        own.losses.restore(state["losses"])
        own.scale.restore(state["scale"])
        if not keep_position:
            own.position = state["position"]
        own.feed.move(own.position)
        if self.world.main:
            print(f"continuing after step {own.done} from {path}", flush=True)
        return path

    def until_done(self, status: Status, log: Log) -> None:
        """Take steps until the last one or a request to stop, and leave word of how it ended."""
        config, pace, own = self.config, self.pace, self.stepper
        if self.world.main:
            status.running(own.done)
        log.start(own.done, **self.facts())
        self.watchdog.begins("the first forward and backward")
        own.settle()
        profiler = Profiler(config, active=self.world.main)
        asked = reason(self.world.sum(own.vector(self.requests.flags())))
        while own.done < config.steps and not asked:
            began = time.perf_counter()
            self.watchdog.begins(f"step {own.done + 1}")
            needed = 2 * (pace.step + pace.save)
            no_validation = not self.requests.time_for(needed + pace.validation)
            profiler.before(own.done + 1)
            step = own.step([*self.requests.flags(needed=needed), no_validation])
            asked = reason(step.flags[:-1])
            for name in step.slow:
                log.say(name)
            if step.problem is not None:
                self.recover(step.problem, log)
                continue
            seconds = time.perf_counter() - began
            pace.took(seconds)
            log.step(
                own.done,
                loss=step.loss,
                lr=step.lr,
                grad_norm=step.grad_norm,
                seconds=seconds,
                waited=step.waited,
                units=own.position * self.task.units_per_item,
                memory=memory_held(self.world.device),
            )
            if traced := profiler.after(own.done):
                log.say(traced)
            last = own.done == config.steps
            if last or (own.done % config.val_every == 0 and not asked and not step.flags[-1]):
                began = time.perf_counter()
                self.watchdog.begins("validation")
                loss = own.validate()
                pace.validation = time.perf_counter() - began
                log.validation(own.done, loss, seconds=pace.validation)
            self.note(self.writer.poll(), log)
            if last or own.done % config.save_every == 0:
                self.save(log)
        self.save(log)
        self.note(self.writer.wait(), log)
        self.leave_word(status, log, asked)

    def leave_word(self, status: Status, log: Log, asked: str | None) -> None:
        """Say how it ended, and show what the model makes."""
        config, main, own = self.config, self.world.main, self.stepper
        if own.done < config.steps:
            if main:
                status.stopped(self.saved, str(asked))
            log.say(f"stopped after step {own.done} by {asked}; start again to continue")
            return
        if self.saved < own.done:
            raise TrainerError(f"the weights after step {own.done} could not be saved")
        if main:
            status.completed(own.done)
        log.say(f"completed {own.done} steps; everything is in {config.out}")
        self.watchdog.begins("a sample")
        own.model.eval()
        sample = self.task.sample(own.model) if main or own.spread.lockstep else None
        if sample:
            log.say(f"--- a sample ---\n{sample}")

    def recover(self, problem: str, log: Log) -> None:
        """After a step whose loss or gradient is bad, and had no effect: stop, or go on."""
        own = self.stepper
        problem = f"at step {own.done + 1} {problem}"
        policy = self.config.on_nan
        self.rollbacks += policy == "rollback"
        if policy == "stop" or own.losses.hopeless or self.rollbacks > _MOST_ROLLBACKS:
            raise FloatingPointError(f"{problem}; try a lower --lr or a larger --warmup-steps")
        if policy == "rollback":
            self.note(self.writer.wait(), log)
            if self.resume(keep_position=True) is None:
                raise FloatingPointError(f"{problem}; there is no checkpoint to go back to")
            own.model.train()
            log.rewind(own.done)
        log.say(f"{problem}; these items are skipped, and training goes on after step {own.done}")

    def save(self, log: Log) -> None:
        """Begin to write a checkpoint, and wait for its end where that is wanted."""
        own = self.stepper
        if own.done == self.begun:
            return
        self.watchdog.begins("a checkpoint")
        self.begun = own.done
        model, optimizer = get_state_dict(own.model, own.optimizer)
        state = {
            "step": own.done,
            "position": own.position,
            "losses": own.losses.state(),
            "scale": own.scale.state(),
            "config": self.config.as_json(),
            "identity": dict(self.task.identity()),
            **self.facts(),
        }
        tensors = {"model": model, "optimizer": optimizer["state"]}
        self.note(self.writer.start(own.done, tensors, state), log)
        if not self.config.async_save:
            self.note(self.writer.wait(), log)

    def note(self, saved: Saved | None, log: Log) -> None:
        """Take note of how writing a checkpoint ended."""
        if saved is None:
            return
        if saved.problem is None:
            self.saved = saved.step
            self.pace.save = max(self.pace.save, saved.seconds)
            log.saved(saved.step, seconds=saved.seconds, blocked=saved.blocked)
        else:
            log.say(
                f"warning: no checkpoint of step {saved.step}: {saved.problem}; the one of step "
                f"{self.saved} is kept"
            )

    def facts(self) -> dict[str, Any]:
        """Return what is worth knowing about this start of the run."""
        name = self.world.device_name
        return {
            "world_size": self.world.size,
            "device": self.world.device.type,
            "device_name": name,
            "peak_flops": peak_flops(name),
            "flops_per_unit": self.task.flops_per_unit(self.stepper.model),
            "parameters": self.stepper.parameters,
            "unit": self.task.unit,
            "units_per_item": self.task.units_per_item,
            "items": self.task.train_items,
            "micro_batches": self.stepper.deal.counts,
            "torch": torch.__version__,
            **self.task.facts(),
        }
