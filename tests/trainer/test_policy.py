"""What is done about bad losses, fp16, ranks that are slow and ranks that hang."""

import math
import time
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the trainer needs torch")

from jobgen.trainer.policy import LossScale, LossWatch  # noqa: E402
from jobgen.trainer.watchdog import Stragglers  # noqa: E402

from .conftest import Start  # noqa: E402


def test_a_loss_that_leaps_is_bad_once_it_is_known_what_is_usual() -> None:
    watch = LossWatch(spike=3)
    assert watch.judge(100.0, 1.0) is None
    for _ in range(20):
        assert watch.judge(2.0, 1.0) is None
    assert watch.judge(5.9, 1.0) is None
    assert "the loss is 6.1, more than 3 times the usual 2" in str(watch.judge(6.1, 1.0))
    assert "the gradient's norm nan" in str(watch.judge(2.0, math.nan))
    again = LossWatch(spike=3)
    again.usual = watch.usual
    assert again.judge(6.1, 1.0) is not None
    assert LossWatch(spike=0).judge(1e9, 1.0) is None


def test_many_bad_steps_in_a_row_are_hopeless() -> None:
    watch = LossWatch(spike=0)
    for _ in range(9):
        watch.judge(math.inf, 1.0)
    assert not watch.hopeless
    watch.judge(1.0, 1.0)
    for _ in range(10):
        watch.judge(math.inf, 1.0)
    assert watch.hopeless


def test_the_scale_of_fp16_halves_on_overflow_and_grows_again() -> None:
    scale = LossScale("fp16")
    first = scale.factor
    assert scale.update(overflowed=True)
    assert scale.factor == first / 2
    for _ in range(1000):
        assert not scale.update(overflowed=False)
    assert scale.factor == first
    for _ in range(17):
        blamed = scale.update(overflowed=True)
    assert not blamed, "a gradient that overflows unscaled is no fault of the scale"
    assert not LossScale("bf16").update(overflowed=True)


class _World:
    """Three ranks on two nodes, as rank 1 sees them."""

    rank, size = 1, 3

    def gather(self, value: object) -> list[Any]:
        return ["n1", "n1", "n2"]


def test_a_slow_rank_is_named_with_its_node_when_it_stays_slow() -> None:
    found = Stragglers(_World(), [1, 1, 2], lockstep=False)  # type: ignore[arg-type]
    assert found.mine(3.0, 0.5, 2.0) == [0, 3.0, 0, 0, 0.5, 0, 0, 2.0, 0]
    assert found.find([1, 1, 2, 0, 0, 0]) == []  # rank 2 has twice the work
    assert found.find([1, 1, 4, 0, 0, 0]) == []
    (said,) = found.find([1, 1, 5, 0, 0, 0])
    assert said.startswith("rank 2 on n2 is slow: 5.0 s of forward passes since the last line")
    assert found.find([1, 1, 2, 0, 9, 0]) == []
    (said,) = found.find([1, 1, 2, 0, 9, 0])
    assert said.startswith("rank 1 on n1 is slow: 9.0 s of waiting for data")
    assert found.find([0.01, 0.01, 0.4, 0, 0, 0]) == found.find([0.01, 0.01, 0.4, 0, 0, 0]) == []


# A task whose items say what goes wrong where: the loss of one is no number, a rank hangs at one.
FAULTY = """
import os, time
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
HANG = "time.sleep(1000 if os.environ['RANK'] == '1' else 0)"
FLAGS = ("--steps", 40, "--log-every", 1, "--save-every", 10, "--lr", "0.01")


def faulty(tmp_path: Path, fault: str) -> tuple[object, ...]:
    (tmp_path / "faulty.py").write_text(FAULTY.format(fault=fault))
    return (*FLAGS, "--task", tmp_path / "faulty.py")


@pytest.mark.parametrize("policy", ["stop", "skip", "rollback"])
def test_a_loss_that_is_no_number(policy: str, start: Start, tmp_path: Path) -> None:
    flags = faulty(tmp_path, NAN)
    run = start(tmp_path / "run", *flags, "--on-nan", policy, processes=None)
    assert run.wait(60) == (1 if policy == "stop" else 0), run.output
    said = "at step 16 the loss is nan and the gradient's norm nan"
    assert said in run.output
    if policy == "stop":
        assert run.status()["state"] == "failed"
        assert run.status()["step"] == 10
        assert said in run.status()["reason"]
        return
    after = 15 if policy == "skip" else 10
    assert f"these items are skipped, and training goes on after step {after}" in run.output
    assert run.status()["state"] == "completed"
    assert [step for step, _ in run.losses()] == list(range(1, 41))
    # Every item counts as used, also those without effect.
    assert run.metrics("step")[-1]["samples"] == 4 * (41 if policy == "skip" else 46)


def test_a_rank_that_hangs_ends_the_run_and_leaves_all_stacks(start: Start, tmp_path: Path) -> None:
    flags = faulty(tmp_path, HANG)
    run = start(tmp_path / "run", *flags, "--hang-after", 5, processes=2)
    assert run.wait(90) != 0, run.output
    assert run.status()["state"] == "failed"
    assert "no progress for 5 s in step" in run.status()["reason"]
    stacks = {path.name.rpartition("-")[2]: path.read_text() for path in run.out.glob("hangs/*ks")}
    assert sorted(stacks) == ["0.stacks", "1.stacks"]
    assert "faulty.py" in stacks["1.stacks"], "where it hangs"
    assert "faulty.py" not in stacks["0.stacks"]


def test_data_may_take_longer_to_make_than_a_step_may_hang(start: Start, tmp_path: Path) -> None:
    flags = faulty(tmp_path, "pass")
    with (tmp_path / "faulty.py").open("a") as file:
        file.write("\ndef prepare(config, *, fetch):\n    time.sleep(9)\n    return 'made'\n")
    run = start(tmp_path / "run", *flags, "--hang-after", 5, processes=2)
    assert run.wait(90) == 0, run.output
    assert run.output.count("made") == 1


def test_the_run_ends_before_the_job_does(start: Start, tmp_path: Path) -> None:
    flags = (*faulty(tmp_path, "time.sleep(0)"), "--steps", 10**6, "--log-every", 1000)
    end = int(time.time()) + 18
    run = start(tmp_path / "run", *flags, processes=None, JOBGEN_END=str(end))
    assert run.wait(60) == 0, run.output
    assert end - 10 < time.time() < end
    assert run.status()["state"] == "stopped"
    assert run.status()["reason"] == "time limit"
    assert run.status()["resumable"] is True
    late = start(tmp_path / "late", *flags, processes=None, JOBGEN_END=str(int(time.time())))
    assert late.wait(60) == 0, late.output
    assert late.status() | {"time": 0} == {
        "state": "stopped",
        "reason": "time limit",
        "step": 0,
        "resumable": False,
        "time": 0,
    }
