"""The trainer computes what others do: a plain loop as nanoGPT's.

How many processes there are, which share each has, and where a run was interrupted make no
difference either: test_strategy.py and test_runs.py.
"""

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the trainer needs torch")

import plain_gpt  # noqa: E402

from jobgen.trainer import commands, tasks  # noqa: E402
from jobgen.trainer.config import Config  # noqa: E402
from jobgen.trainer.data.order import list_items  # noqa: E402
from jobgen.trainer.distributed.world import leave  # noqa: E402
from jobgen.trainer.flags import parse_flags  # noqa: E402

pytestmark = pytest.mark.torch

STEPS, ITEMS, MICRO, WARMUP, LR = 30, 12, 4, 5, 1e-3


def train(out: Path, *flags: str) -> tuple[Config, list[float], float]:
    """Train in this process; returns the losses of all steps, and that of the validation."""
    given = ["--out", str(out), "--device", "cpu", "--steps", str(STEPS), "--log-every", "1"]
    given += ["--lr", str(LR), "--micro-batch", str(MICRO)]
    given += ["--save-every", "1000", "--val-every", str(STEPS)]
    config = parse_flags([*given, *flags])
    try:
        commands.train(config)
    finally:
        leave()
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    (val,) = [line["loss"] for line in lines if line["kind"] == "val"]
    return config, [line["loss"] for line in lines if line["kind"] == "step"], val


def list_windows(task: Any, step: int) -> torch.Tensor:
    """Return the windows of a step, in their order."""
    positions = range(step * ITEMS, step * ITEMS + ITEMS)
    items = list_items(positions, count=task.train_items, seed=0)
    return task.batch(items, training=True).long()


def cut(windows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return windows[:, :-1], windows[:, 1:]


def test_losses_are_those_of_a_plain_gpt_in_a_plain_loop(tmp_path: Path) -> None:
    flags = ["--context", "32", "--batch-tokens", str(ITEMS * 32), "--val-items", "8"]
    flags += ["--warmup-steps", str(WARMUP)]
    config, losses, val = train(tmp_path / "run", *flags)

    task: Any = tasks.load_task(config)
    torch.manual_seed(config.seed)
    weights = {name: each.detach() for name, each in task.build().named_parameters()}
    shape = task.shape
    model = plain_gpt.PlainGPT(
        plain_gpt.Size(shape.layers, shape.heads, shape.width, shape.context, shape.vocabulary)
    )
    plain_gpt.load_gpt2_weights(model, weights)
    optimizer = plain_gpt.make_adamw(model, LR)
    expected = []
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = plain_gpt.compute_rate(step, steps=STEPS, lr=LR, warmup=WARMUP)
        batches = [cut(part) for part in list_windows(task, step).split(MICRO)]
        expected.append(float(plain_gpt.take_step(model, optimizer, batches)))
    assert losses == pytest.approx(expected, rel=1e-6)
    assert losses[-1] < losses[0] - 1, "it has learnt, or equal losses would show little"
    items = [cut(task.batch([item], training=False).long()) for item in range(task.val_items)]
    assert val == pytest.approx(plain_gpt.measure_loss(model, items), rel=1e-6)
