"""What is done about bad losses, ranks that hang, and a slow beginning."""

import re
import time
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the trainer needs torch")

from .conftest import Start  # noqa: E402

pytestmark = pytest.mark.torch


# A task whose items say what goes wrong where: the loss of one is no number, a rank hangs at one.
FAULTY = """
import glob, os, time
from jobgen.trainer.tasks import Task
import torch

DEFAULTS = {{"batch_samples": 4}}

class Faulty(Task):
    unit, units_per_item, train_items, val_items = "samples", 1, 1000, 4
    batches = 0

    def build(self):
        return torch.nn.Linear(1, 1)

    def batch(self, items, *, training):
        Faulty.batches += training
        x = torch.tensor(items, dtype=torch.float32)[:, None] / 1000
        if training and Faulty.batches == 16:
            {fault}
        return (x,)

    def loss(self, model, batch):
        return (model(batch[0]) - 3 * batch[0]).square().sum()

def load(config):
    return Faulty()
"""
NAN = "x = x * float('nan')"
# The first loss takes a thousand seconds, by the clock that durations are measured with.
SLOW = """
    def loss(self, model, batch):
        global passed
        passed = 1000
        return"""
SLOW_CLOCK = """
passed, real = 0, time.perf_counter
time.perf_counter = lambda: real() + passed
"""
HANG = "Clock.stands = False; time.sleep(1000 if os.environ['RANK'] == '1' else 0)"
# The watchdog's clock stands still but where a test says so; a process that it ends waits for the
# stacks of the other.
WATCH = """
from jobgen.trainer.watch import watchdog

class Clock:
    stands, stood = True, time.monotonic()

    def monotonic(self):
        if Clock.stands:
            Clock.stood = time.monotonic()
        return time.monotonic() - Clock.stood

    def sleep(self, seconds):
        while len(glob.glob("run/hangs/*.stacks")) < 2:
            time.sleep(0.1)

watchdog.time = Clock()
"""
# A thousand seconds pass while data are made.
PREPARE = (
    WATCH
    + """
Clock.monotonic = lambda self: 1000 * os.path.exists("begun")

def prepare(config, *, fetch):
    open("begun", "w").close()
    time.sleep(3)  # the watchdog of the other rank would look each second
    return "made"
"""
)
# `should_stop` asks it before the first step and after each, as each takes a second.
CLOCK = """
from jobgen import loop

class Clock:
    now = 1000

    def monotonic(self):
        self.now += 1
        return self.now

    def time(self):
        return self.now

loop.time = Clock()
"""
# The disk of the checkpoints is full.
FULL = """
from jobgen.trainer import checkpoint

def sync(path):
    raise OSError(28, os.strerror(28), str(path))

checkpoint.sync = sync
"""
FLAGS = ("--steps", 40, "--log-every", 1, "--save-every", 10, "--lr", "0.01")


def faulty(tmp_path: Path, fault: str, more: str = "") -> tuple[object, ...]:
    (tmp_path / "faulty.py").write_text(FAULTY.format(fault=fault) + more)
    return (*FLAGS, "--task", tmp_path / "faulty.py")


def test_a_loss_that_is_not_a_number_ends_the_run_with_a_line(start: Start, tmp_path: Path) -> None:
    run = start(tmp_path / "run", *faulty(tmp_path, NAN), processes=None)
    assert run.wait() == 1, run.output
    problem = "at step 16 the loss is nan and the gradient's norm nan"
    assert problem in run.output
    assert "Traceback" not in run.output
    assert run.status()["state"] == "failed"
    assert run.status()["step"] == 10
    assert problem in run.status()["reason"]


def test_a_run_that_finds_no_room_for_its_last_checkpoint_fails_by_that(
    start: Start, tmp_path: Path
) -> None:
    """Only a warning named the full disk, and said that the checkpoint of step 0 is kept."""
    run = start(tmp_path / "run", *faulty(tmp_path, "pass", FULL), processes=None)
    assert run.wait() == 1, run.output
    assert "No space left on device" in run.status()["reason"]
    assert run.output.count("; there is no other\n") == 4


def test_a_loss_that_is_bad_on_one_rank_alone_is_told_as_that_of_all(
    start: Start, tmp_path: Path
) -> None:
    fault = "x = x * float('nan' if os.environ['RANK'] == '1' else 1)"
    flags = (*faulty(tmp_path, fault), "--log-every", 100)  # no step before the last gets a line
    run = start(tmp_path / "run", *flags, processes=2)
    assert run.wait() != 0, run.output
    # One batch earlier than alone: DDP has a warm-up.
    assert "at step 15 the loss is nan and the gradient's norm nan" in run.status()["reason"]


def test_a_rank_that_hangs_ends_the_run_and_leaves_all_stacks(start: Start, tmp_path: Path) -> None:
    flags = faulty(tmp_path, HANG, WATCH)
    run = start(tmp_path / "run", *flags, "--hang-after", 5, processes=2)
    assert run.wait() != 0, run.output
    assert run.status()["state"] == "failed"
    assert "no progress for 5 s in step" in run.status()["reason"]
    stacks = {path.name.rpartition("-")[2]: path.read_text() for path in run.out.glob("hangs/*ks")}
    assert sorted(stacks) == ["0.stacks", "1.stacks"]
    assert "faulty.py" in stacks["1.stacks"], "where it hangs"
    assert "faulty.py" not in stacks["0.stacks"]


def test_data_may_take_longer_to_make_than_a_step_may_hang(start: Start, tmp_path: Path) -> None:
    flags = faulty(tmp_path, "pass", PREPARE)
    run = start(tmp_path / "run", *flags, "--hang-after", 8, processes=2)
    assert run.wait() == 0, run.output
    assert run.output.count("made") == 1


def test_the_run_ends_before_the_job_does(start: Start, tmp_path: Path) -> None:
    """By a clock that says that each step takes a second: a real one is no measure under load."""
    flags = (*faulty(tmp_path, "pass", CLOCK), "--steps", 10**6, "--save-every", 10**6)
    run = start(tmp_path / "run", *flags, processes=None, JOBGEN_END="1060")
    assert run.wait() == 0, run.output
    # The clock is asked before the first step too. What is left must cover two steps and 5 s.
    assert run.status() | {"time": 0} == {
        "state": "stopped",
        "reason": "time limit",
        "step": 53,
        "resumable": True,
        "time": 0,
    }
    flags = faulty(tmp_path, "pass")
    late = start(tmp_path / "late", *flags, processes=None, JOBGEN_END=str(int(time.time())))
    assert late.wait() == 0, late.output
    assert late.status() | {"time": 0} == {
        "state": "stopped",
        "reason": "time limit",
        "step": 0,
        "resumable": False,
        "time": 0,
    }


@pytest.mark.parametrize("processes", [None, 2])
def test_what_the_beginning_took_is_told(
    start: Start, tmp_path: Path, processes: int | None
) -> None:
    """Several processes run forward and backward before the first step; one compiles in it."""
    flags = (*faulty(tmp_path, "pass"), "--log-every", 10)
    task = tmp_path / "faulty.py"
    task.write_text(re.sub(r"\n    def loss.*\n +return", SLOW, task.read_text()) + SLOW_CLOCK)
    run = start(tmp_path / "run", *flags, processes=processes)
    assert run.wait() == 0, run.output
    warm_up, first = run.metrics("start")[0]["warm_up_s"], run.metrics("step")[0]
    assert (warm_up if processes else first["step_max_s"]) >= 1000
    assert (first["step_max_s"] if processes else warm_up) < 1000
    assert run.metrics("step")[1]["step_max_s"] < 1000
