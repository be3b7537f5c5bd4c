"""The run from start to end: begin or continue, step, validate, save, stop or finish.

Reads top to bottom: `run` is one start of the run, `_Run.until_done` is the loop; step.py has
a single step. Neither knows a task, only items and units.
"""

import gc
import json
import platform
import signal
import time
from collections import deque
from contextlib import ExitStack, closing
from typing import Any

import torch

from ..loop import Loop
from . import tasks
from .checkpoint import Checkpoints, Saved, Writer, read_into, read_state
from .config import BusyError, Config, TrainerError
from .distributed.device import choose_arithmetic, prefer_attention, set_arithmetic
from .distributed.world import World, join
from .output.files import lock, replace_text
from .output.metrics import Log, StepNumbers, look_up_peak
from .step import Stepper
from .watch.status import Status
from .watch.watchdog import Watchdog

# Seconds; a run on another node that has just ended may seem to be there for so long.
_PATIENCE = 120.0
_STEPS_PER_COLLECTION = 100


def run(config: Config) -> None:
    """Train as configured, continuing what the run folder holds; returns when done or stopped.

    Every rank must call it. Raises TrainerError for what the user can fix; the status then says
    failed.
    """
    this = _Run(config)
    with ExitStack() as stack:
        try:
            world = join(config)
            print(f"{world}\n", end="", flush=True)
            set_arithmetic(config, world.device)
            stack.enter_context(prefer_attention(world.device))
            world.first(lambda: _prepare(config, stack))
            with this.watchdog:
                this.begin(world)
                with closing(this.writer):
                    this.until_done()
        except BusyError:
            raise  # The status is the other run's.
        except BaseException as error:
            if not this.status.failed(error, step=this.checkpoints.newest_step()):
                # torchrun blames the error file of the earliest second: let it be the culprit's.
                time.sleep(1)
            raise


def _prepare(config: Config, stack: ExitStack) -> None:
    """Keep other runs out, and prepare the data if necessary."""
    stack.enter_context(lock(config.out / ".lock", patience=_PATIENCE))
    if news := tasks.prepare_data(config, fetch=False):
        print(news, flush=True)


class _Run:
    """A start of the run on this rank."""

    def __init__(self, config: Config) -> None:
        config.out.mkdir(parents=True, exist_ok=True)
        self.config, self.checkpoints = config, Checkpoints(config.out)
        self.status = Status(config.out)
        self.watchdog = Watchdog(config.hang_after, self.status, self.checkpoints.newest_step)
        # Seconds that things take here: the last steps, the last validation.
        self.steps_s: deque[float] = deque([0.0], maxlen=20)
        self.unnoted: list[float] = []  # of these, since a step's numbers were noted
        self.val_s = 0.0
        # Steps after which a checkpoint was begun, and is known to be on disk.
        self.begun = self.saved = 0
        self.problem = ""  # with which the last one that failed did so
        self.stopping = False

    def begin(self, world: World) -> None:
        """Build all parts, continue from the newest checkpoint, and record the settings."""
        self.loop = Loop(self.status.folder)
        signal.signal(signal.SIGUSR1, signal.getsignal(signal.SIGTERM))
        config = self.config
        self.world, self.task = world, tasks.load_task(config)
        self.arithmetic = choose_arithmetic(config, world.device)
        self.stepper = Stepper(self.task, config, world, self.arithmetic)
        self.writer = Writer(self.checkpoints, world, keep=config.keep)
        self.resume()  # which refuses settings that are not the checkpoint's
        text = json.dumps(config.as_json(), indent=1) + "\n"
        world.first(lambda: replace_text(config.out / "config.json", text))
        self.log = Log(config, step=self.stepper.done, writes=world.main)

    def resume(self) -> None:
        """Load the newest complete checkpoint, if there is one."""
        self.watchdog.begins("reading checkpoints")
        stepper, (path, skipped) = self.stepper, self.checkpoints.newest_whole(self.world)
        for problem in skipped if self.world.main else ():
            print(f"skipped {problem}", flush=True)
        # No rank begins to write before rank 0 has tidied.
        self.world.first(self.checkpoints.tidy)
        if path is None:
            return
        state = self.world.first(lambda: read_state(path))
        tasks.compare_identity(self.task, state["identity"], path)
        with torch.no_grad():
            read_into(path, stepper.collect_tensors())
        stepper.restore(state)
        self.begun = self.saved = stepper.done
        if self.world.main:
            print(f"continuing after step {stepper.done} from {path}", flush=True)

    def until_done(self) -> None:
        """Take steps until the last one or a request to stop, and record how the run ended."""
        config, stepper, log = self.config, self.stepper, self.log
        if self.world.main:
            self.status.running(stepper.done)
        self.watchdog.begins("the first forward and backward")
        began = time.perf_counter()
        stepper.warm_up()
        took = time.perf_counter() - began
        dtype, compiled, reasons = self.arithmetic
        log.start(stepper.done, **self.facts(), dtype=dtype, compiled=compiled, warm_up_s=took)
        log.say(f"arithmetic: {reasons}")
        if note := stepper.split.explain_unevenness():
            log.say(note)
        if config.val_every and not stepper.val:
            log.say("note: too few items to keep any for validation")
        self.stopping = self.loop.should_stop()
        # Python's search for cycles stops a rank at any moment, and all others wait for it: it is
        # done at the same step everywhere instead.
        gc.collect()
        gc.freeze()
        gc.disable()
        try:
            while stepper.done < config.steps and not self.stopping:
                self.take_step()
        finally:
            gc.enable()
            gc.unfreeze()
        self.note_step(stepper.read_numbers())
        self.save()
        self.note_save(self.writer.wait())
        self.leave_word()

    def take_step(self) -> None:
        """Take a step, then do what is due: a collection, a checkpoint, a validation."""
        config, stepper = self.config, self.stepper
        began = time.perf_counter()
        self.watchdog.begins(f"step {stepper.done + 1}")
        previous = stepper.step()
        self.steps_s.append(time.perf_counter() - began)
        self.unnoted.append(self.steps_s[-1])
        self.note_step(previous)
        self.note_save(self.writer.poll())
        if stepper.done % _STEPS_PER_COLLECTION == 0:
            gc.collect(1)
        self.stopping = self.loop.should_stop()
        if stepper.done == config.steps or stepper.done % config.save_every == 0:
            self.save()
        if self.validates_after(stepper.done):
            self.note_step(stepper.read_numbers())
            self.validate()

    def validates_after(self, step: int) -> bool:
        """Return whether a validation is due after this step, and there is time for it."""
        every = self.config.val_every
        if not every or not self.stepper.val or self.stopping:
            return False
        if step % every and step != self.config.steps:
            return False
        needed = self.val_s + 3 * max(self.steps_s) + 2 * self.loop.save_s
        return self.world.tell(self.loop.seconds_left() > needed)

    def note_step(self, numbers: StepNumbers | None) -> None:
        """Take note of a step's numbers: log them, and end a run that cannot go on."""
        if numbers is None:
            return
        if numbers.problem is not None:
            raise TrainerError(
                f"at step {numbers.step} {numbers.problem}; try a lower --lr or more --warmup-steps"
            )
        # A step's numbers come with the next one; the first of a start compiles before it has any.
        self.log.step(numbers, seconds=max(self.unnoted, default=self.steps_s[-1]))
        self.unnoted.clear()

    def validate(self) -> None:
        """Measure the loss on the validation items, and how each rank fares."""
        stepper, log = self.stepper, self.log
        began = time.perf_counter()
        self.watchdog.begins("validation")
        loss = stepper.validate()
        self.val_s = time.perf_counter() - began
        log.write("val", stepper.done, loss=loss, val_s=self.val_s)
        if stepper.done == self.config.steps:
            log.say(f"validation loss {loss:.4f}")

    def leave_word(self) -> None:
        """Say how it ended."""
        config, main, stepper, log = self.config, self.world.main, self.stepper, self.log
        if stepper.done < config.steps:
            if main:
                reason = self.explain_stop()
                self.status.ended(self.saved, reason=reason)
                log.say(f"stopped after step {stepper.done} by {reason}; start again to continue")
            return
        if self.saved < stepper.done:
            raise TrainerError(
                f"the parameters after step {stepper.done} could not be saved: {self.problem}"
            )
        if main:
            self.status.ended(stepper.done)
        log.say(f"completed {stepper.done} steps; everything is in {config.out}")

    def explain_stop(self) -> str:
        """Return what asked the run to stop, as far as rank 0 knows."""
        if self.status.stop_file.exists():
            return "STOP file"
        return "a signal" if self.loop.signals or self.loop.seconds_left() > 600 else "time limit"

    def save(self) -> None:
        """Begin to write a checkpoint, and wait for its end if requested."""
        stepper = self.stepper
        self.note_step(stepper.read_numbers())  # A run that has failed saves nothing.
        if stepper.done == self.begun:
            return
        self.watchdog.begins("a checkpoint")
        self.begun = stepper.done
        about = {"config": self.config.as_json(), "identity": dict(self.task.identity())}
        state = stepper.collect_state() | about | self.facts()
        self.note_save(self.writer.start(stepper.done, stepper.collect_tensors(), state))
        if not self.config.async_save:
            self.note_save(self.writer.wait())

    def note_save(self, saved: Saved | None) -> None:
        """Take note of how writing a checkpoint ended."""
        if saved is None:
            return
        if saved.problem is not None:
            self.problem = saved.problem
            kept = f"the one of step {self.saved} is kept" if self.saved else "there is no other"
            self.log.say(f"warning: no checkpoint of step {saved.step}: {saved.problem}; {kept}")
            return
        self.saved, self.loop.save_s = saved.step, max(self.loop.save_s, saved.seconds)
        self.log.write("save", saved.step, save_s=saved.seconds, ckpt_s=saved.blocked)
        if self.world.main:
            self.status.saved(saved.step)

    def facts(self) -> dict[str, Any]:
        """Return the facts about this start of the run."""
        world, cuda = self.world, self.world.device.type == "cuda"
        name = torch.cuda.get_device_name(world.device) if cuda else platform.machine()
        return {
            "world_size": world.size,
            "device": world.device.type,
            "device_name": name,
            "peak_flops": look_up_peak(name),
            "flops_per_unit": self.task.flops_per_unit(self.stepper.model),
            "parameters": self.stepper.parameters,
            "unit": self.task.unit,
            "units_per_item": self.task.units_per_item,
            "items": self.task.train_items,
            "micro_batches": self.stepper.split.counts,
            "torch": torch.__version__,
            **self.task.facts(),
        }
