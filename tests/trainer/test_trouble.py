"""What is done about bad losses, ranks that are slow and ranks that hang."""

import math
import time
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the trainer needs torch")

from jobgen.trainer.watch.losses import BadSteps, SpikeWatch  # noqa: E402
from jobgen.trainer.watch.stragglers import Stragglers  # noqa: E402

from .conftest import Start  # noqa: E402

pytestmark = pytest.mark.torch


def test_a_loss_that_leaps_is_bad_once_it_is_known_what_is_usual() -> None:
    def judge(watch: SpikeWatch, loss: float) -> bool:
        return bool(watch.judge(torch.tensor(loss, dtype=torch.float64)))

    watch = SpikeWatch(3, torch.device("cpu"))
    assert not judge(watch, 100.0)
    for _ in range(20):
        assert not judge(watch, 2.0)
    assert not judge(watch, 5.9)
    assert judge(watch, 6.1)
    assert judge(watch, math.nan)
    again = SpikeWatch(3, torch.device("cpu"))
    again.restore(watch.as_json())
    assert again.as_json() == watch.as_json()
    assert judge(again, 6.1)
    assert not judge(again, 5.9)


def test_many_bad_steps_in_a_row_are_hopeless() -> None:
    steps = BadSteps()
    for _ in range(9):
        assert "the loss is inf" in str(steps.explain(bad=True, loss=math.inf, norm=1.0))
    assert not steps.hopeless
    assert steps.explain(bad=False, loss=1.0, norm=1.0) is None
    for _ in range(10):
        assert steps.explain(bad=True, loss=6.1, norm=1.0) == "the loss leaps to 6.1"
    assert steps.hopeless


class _World:
    """Three ranks on two nodes, as rank 1 sees them."""

    rank, size = 1, 3

    def gather(self, value: object) -> list[Any]:
        return ["n1", "n1", "n2"]


def test_a_slow_rank_is_named_with_its_node_when_it_stays_slow() -> None:
    ranks = Stragglers(_World(), [1, 1, 2], lockstep=False)  # type: ignore[arg-type]
    assert ranks.make_row(3.0, 0.5, 2.0) == [0, 3.0, 0, 0, 0.5, 0, 0, 2.0, 0]
    find = ranks.find_slow
    assert find([1, 1, 2, 0, 0, 0]) == []  # rank 2 has twice the work
    assert find([1, 1, 4, 0, 0, 0]) == []
    (line,) = find([1, 1, 5, 0, 0, 0])
    assert line.startswith("rank 2 on n2 is slow: 5.0 s of forward passes since the last line")
    assert find([1, 1, 2, 0, 9, 0]) == []
    (line,) = find([1, 1, 2, 0, 9, 0])
    assert line.startswith("rank 1 on n1 is slow: 9.0 s of waiting for data")
    assert find([0.01, 0.01, 0.4, 0, 0, 0]) == find([0.01, 0.01, 0.4, 0, 0, 0]) == []


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


@pytest.mark.parametrize("policy", ["stop", "skip"])
def test_a_loss_that_is_not_a_number(policy: str, start: Start, tmp_path: Path) -> None:
    flags = faulty(tmp_path, NAN)
    run = start(tmp_path / "run", *flags, "--on-nan", policy, processes=None)
    assert run.wait() == (1 if policy == "stop" else 0), run.output
    problem = "at step 16 the loss is nan and the gradient's norm nan"
    assert problem in run.output
    if policy == "stop":
        assert run.status()["state"] == "failed"
        assert run.status()["step"] == 10
        assert problem in run.status()["reason"]
        return
    assert f"{problem}; its items are skipped" in run.output
    assert run.status()["state"] == "completed"
    losses = dict(run.losses())
    assert sorted(losses) == list(range(1, 41))
    assert [step for step, loss in losses.items() if loss is None] == [16]
    assert losses[40] < losses[15], "the weights were left as they were"


def test_a_rank_that_hangs_ends_the_run_and_leaves_all_stacks(start: Start, tmp_path: Path) -> None:
    flags = faulty(tmp_path, HANG)
    run = start(tmp_path / "run", *flags, "--hang-after", 5, processes=2)
    assert run.wait() != 0, run.output
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
    assert run.wait() == 0, run.output
    assert run.output.count("made") == 1


def test_the_run_ends_before_the_job_does(start: Start, tmp_path: Path) -> None:
    flags = (*faulty(tmp_path, "time.sleep(0)"), "--steps", 10**6, "--log-every", 1000)
    end = int(time.time()) + 18
    run = start(tmp_path / "run", *flags, processes=None, JOBGEN_END=str(end))
    assert run.wait() == 0, run.output
    assert end - 10 < time.time() < end
    assert run.status()["state"] == "stopped"
    assert run.status()["reason"] == "time limit"
    assert run.status()["resumable"] is True
    late = start(tmp_path / "late", *flags, processes=None, JOBGEN_END=str(int(time.time())))
    assert late.wait() == 0, late.output
    assert late.status() | {"time": 0} == {
        "state": "stopped",
        "reason": "time limit",
        "step": 0,
        "resumable": False,
        "time": 0,
    }
