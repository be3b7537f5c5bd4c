"""A task for the bundled trainer in whose third batch rank 1 hangs."""

import os
import time
from collections.abc import Sequence
from typing import Any

import torch

from jobgen.trainer.tasks import Task

DEFAULTS = {"batch_samples": 6}


class Hanging(Task):
    """A line through points."""

    unit, units_per_item, train_items, val_items = "samples", 1, 1000, 6
    batches = 0

    def build(self) -> torch.nn.Module:
        """One weight, one bias."""
        return torch.nn.Linear(1, 1)

    def batch(self, items: Sequence[int], *, training: bool) -> tuple[torch.Tensor, ...]:
        """The points, but the third time. The trainer tries item 0 alone first."""
        counts = training and any(items)
        Hanging.batches += counts
        points = torch.tensor(items, dtype=torch.float32)[:, None] / 1000
        if counts and Hanging.batches == 3 and os.environ["RANK"] == "1":
            time.sleep(1000)
        return (points,)

    def loss(self, model: torch.nn.Module, batch: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """How far they are from a line of slope three."""
        error: torch.Tensor = (model(batch[0]) - 3 * batch[0]).square().sum()
        return error


def load(config: Any) -> Hanging:
    """What the trainer asks for."""
    return Hanging()
