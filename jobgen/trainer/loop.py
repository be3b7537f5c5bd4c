"""The run from start to end: begin or continue, step, validate, save, stop or finish.

Reads top to bottom: `run` is one start of the run, `_Run.until_done` is the loop; step.py has
a single step. Neither knows a task, only items and units.
"""

import gc
import json
import time
from collections import deque
from contextlib import ExitStack, closing
from typing import Any

import torch
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

from . import tasks
from .checkpoint import Checkpoints, Saved, Writer, read_into, read_state
from .config import BusyError, Config, TrainerError
from .distributed.device import (
    choose_arithmetic,
    prefer_attention,
    run_uncompiled,
    set_arithmetic,
)
from .distributed.world import World, join
from .optimizer import fix_length
from .output.files import alone, replace_text
from .output.metrics import Log, look_up_peak
from .output.trackers import Profiler
from .step import StepNumbers, Stepper
from .watch.status import Status
from .watch.stop import StopRequests, explain_request, get_end_of_job
from .watch.watchdog import Watchdog
from .weights import start_from

# Seconds; a run on another node that has just ended may seem to be there for so long.
_PATIENCE = 120.0
_STEPS_PER_COLLECTION = 100


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
            set_arithmetic(config, world.device)
            stack.enter_context(prefer_attention(world.device))
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
    if news := tasks.prepare_data(config, fetch=False):
        print(news, flush=True)


class _Run:
    """A start of the run on this rank."""

    def __init__(self, config: Config) -> None:
        config.out.mkdir(parents=True, exist_ok=True)
        self.config, self.checkpoints = config, Checkpoints(config.out)
        self.status = Status(config.out)
        self.requests = StopRequests(self.status.stop_file, get_end_of_job())
        self.watchdog = Watchdog(config.hang_after, self.status, self.checkpoints.newest_step)
        # Seconds that things take here: the last steps, the longest save, the last validation.
        self.steps_s: deque[float] = deque([0.0], maxlen=20)
        self.save_s = self.val_s = 0.0
        # Steps after which a checkpoint was begun, and is known to be on disk.
        self.begun = self.saved = 0
        # What ranks have asked for, of the steps whose numbers are known.
        self.asked: str | None = None
        self.no_time_to_validate = False

    def begin(self, world: World) -> None:
        """Build all that takes part, and continue from the newest checkpoint."""
        if not world.main:
            self.requests.stop_file = self.requests.end = None
        self.world, self.task = world, tasks.load_task(self.config)
        self.config = config = fix_length(self.config, self.task)
        self.arithmetic = choose_arithmetic(config, world.device)
        self.stepper = Stepper(self.task, config, world, self.arithmetic)
        self.writer = Writer(
            self.checkpoints, world, keep=config.keep, keep_every=config.keep_every
        )
        self.resume()
        self.log = Log(config, step=self.stepper.done, writes=world.main)

    def resume(self) -> None:
        """Load the newest whole checkpoint; without one, the weights of --init-from."""
        self.watchdog.begins("reading checkpoints")
        stepper, (path, skipped) = self.stepper, self.checkpoints.newest_whole(self.world)
        for problem in skipped if self.world.main else ():
            print(f"skipped {problem}", flush=True)
        # No rank begins to write before rank 0 has tidied.
        self.world.first(lambda: self.checkpoints.tidy(path))
        if path is None:
            if self.config.init_from:
                start_from(stepper.model, self.task, self.config.init_from)
                if self.world.main:
                    print(f"starting from the weights of {self.config.init_from}", flush=True)
            return
        state = self.world.first(lambda: read_state(path))
        tasks.compare_identity(self.task, state["identity"], path)
        model, optimizer = get_state_dict(stepper.model, stepper.optimizer.all)
        read_into(path, {"model": model, "optimizer": optimizer["state"]}, self.world)
        set_state_dict(
            stepper.model, stepper.optimizer.all, model_state_dict=model, optim_state_dict=optimizer
        )
        stepper.restore(state)
        self.begun = self.saved = stepper.done
        if self.world.main:
            print(f"continuing after step {stepper.done} from {path}", flush=True)

    def until_done(self) -> None:
        """Take steps until the last one or a request to stop, and leave word of how it ended."""
        config, stepper, log = self.config, self.stepper, self.log
        if self.world.main:
            self.status.running(stepper.done)
        self.watchdog.begins("the first forward and backward")
        attention = stepper.warm_up()
        reasons = f"{self.arithmetic.reasons}, attention: {attention or 'none of torch'}"
        log.start(
            stepper.done,
            **self.facts(),
            nodes=stepper.stragglers.nodes,
            dtype=self.arithmetic.dtype,
            compiled=self.arithmetic.compiled,
            attention=attention,
        )
        log.say(f"arithmetic: {reasons}")
        for line in filter(None, (stepper.deal.warn(), self.explain_validation())):
            log.say(line)
        profiler = Profiler(config, active=self.world.main)
        self.asked = explain_request(self.world.sum(self.requests.flags()))
        # Python's search for cycles stops a rank at any moment, and all others wait for it: it is
        # done at the same step everywhere instead.
        gc.collect()
        gc.freeze()
        gc.disable()
        try:
            while stepper.done < config.steps and not self.asked:
                self.take_step(profiler)
        finally:
            gc.enable()
            gc.unfreeze()
        self.note_step(stepper.read_numbers())
        self.save()
        self.note_save(self.writer.wait())
        self.leave_word(self.asked)

    def take_step(self, profiler: Profiler) -> None:
        """Take a step, and what is due after it: a collection, a checkpoint, a validation."""
        config, stepper = self.config, self.stepper
        began = time.perf_counter()
        self.watchdog.begins(f"step {stepper.done + 1}")
        # A request is known a step late; then that step is to be finished and saved.
        needed = 3 * max(self.steps_s) + 2 * self.save_s
        no_validation = not self.requests.time_for(needed + self.val_s)
        profiler.before(stepper.done + 1)
        previous = stepper.step([*self.requests.flags(needed=needed), no_validation])
        self.steps_s.append(time.perf_counter() - began)
        self.note_step(previous)
        if traced := profiler.after(stepper.done):
            self.log.say(traced)
        self.note_save(self.writer.poll())
        if stepper.done % _STEPS_PER_COLLECTION == 0:
            gc.collect(1)
        last = stepper.done == config.steps
        if last or stepper.done % config.save_every == 0:
            self.save()
        if self.validates_after(stepper.done):
            self.note_step(stepper.read_numbers())
            if not self.asked and not self.no_time_to_validate:
                self.validate()

    def validates_after(self, step: int) -> bool:
        """Return whether a validation is due after this step."""
        every = self.config.val_every
        if not every or not self.stepper.val:
            return False
        return step % every == 0 or step == self.config.steps

    def note_step(self, numbers: StepNumbers | None) -> None:
        """Take note of what a step has shown: log it, and stop where ranks ask for it."""
        if numbers is None:
            return
        *requests, no_validation = numbers.requests
        self.asked = self.asked or explain_request(requests)
        self.no_time_to_validate = bool(no_validation)
        for line in numbers.slow_ranks:
            self.log.say(line)
        if numbers.problem is not None:
            problem = f"at step {numbers.step} {numbers.problem}"
            if self.config.on_nan == "stop" or self.stepper.bad_steps.hopeless:
                raise FloatingPointError(f"{problem}; try a lower --lr or a larger --warmup-steps")
            self.log.say(f"{problem}; its items are skipped")
        self.log.step(numbers, seconds=self.steps_s[-1])

    def validate(self) -> None:
        """Measure the loss on the validation items."""
        began = time.perf_counter()
        self.watchdog.begins("validation")
        loss = self.stepper.validate()
        self.val_s = time.perf_counter() - began
        self.log.write("val", self.stepper.done, loss=loss, val_s=self.val_s)
        self.log.write("ranks", self.stepper.done, **self.stepper.stragglers.take())
        if self.stepper.done == self.config.steps:
            self.log.say(f"validation loss {loss:.4f}")

    def explain_validation(self) -> str | None:
        """Return a line when nothing validates though it was to be."""
        if self.config.val_every and not self.stepper.val:
            return "note: too few items to keep any for validation: there is none"
        return None

    def leave_word(self, asked: str | None) -> None:
        """Say how it ended, and show what the model makes."""
        config, main, stepper, log = self.config, self.world.main, self.stepper, self.log
        if stepper.stragglers.steps:
            log.write("ranks", stepper.done, **stepper.stragglers.take())
        if stepper.done < config.steps:
            if main:
                self.status.ended(self.saved, reason=asked)
            log.say(f"stopped after step {stepper.done} by {asked}; start again to continue")
            return
        if self.saved < stepper.done:
            raise TrainerError(f"the weights after step {stepper.done} could not be saved")
        if main:
            self.status.ended(stepper.done)
        log.say(f"completed {stepper.done} steps; everything is in {config.out}")
        self.watchdog.begins("a sample")
        stepper.model.eval()
        # Compiled, it would be compiled anew for each length of the text.
        with run_uncompiled():
            sample = self.task.sample(stepper.model) if main or stepper.strategy.lockstep else None
        if sample:
            log.say(f"--- a sample ---\n{sample}")

    def save(self) -> None:
        """Begin to write a checkpoint, and wait for its end where that is wanted."""
        stepper = self.stepper
        self.note_step(stepper.read_numbers())  # A run that has failed saves nothing.
        if stepper.done == self.begun:
            return
        self.watchdog.begins("a checkpoint")
        self.begun = stepper.done
        tensors = {
            "model": stepper.model.state_dict(),
            "optimizer": stepper.optimizer.name_state(stepper.model),
        }
        about = {"config": self.config.as_json(), "identity": dict(self.task.identity())}
        self.note_save(
            self.writer.start(stepper.done, tensors, stepper.state() | about | self.facts())
        )
        if not self.config.async_save:
            self.note_save(self.writer.wait())

    def note_save(self, saved: Saved | None) -> None:
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
            "peak_flops": look_up_peak(name),
            "flops_per_unit": self.task.flops_per_unit(self.stepper.model),
            "parameters": self.stepper.parameters,
            "unit": self.task.unit,
            "units_per_item": self.task.units_per_item,
            "items": self.task.train_items,
            "micro_batches": self.stepper.deal.counts,
            "torch": torch.__version__,
            **self.task.facts(),
        }
