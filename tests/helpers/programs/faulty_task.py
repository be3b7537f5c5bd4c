"""A task for the bundled trainer whose third batch does what the variable FAULT says."""

import os
import time
from collections.abc import Sequence
from typing import Any

import torch

from jobgen.trainer.tasks import Task

DEFAULTS = {"batch_samples": 6}


class Faulty(Task):
    """A line through points."""

    unit, units_per_item, train_items, val_items = "samples", 1, 1000, 6
    batches = 0

    def build(self) -> torch.nn.Module:
        """One weight, one bias."""
        return torch.nn.Linear(1, 1)

    def batch(self, items: Sequence[int], *, training: bool) -> tuple[torch.Tensor, ...]:
        """The points; the third time, trouble. The trainer tries item 0 alone first."""
        counts = training and any(items)
        Faulty.batches += counts
        points = torch.tensor(items, dtype=torch.float32)[:, None] / 1000
        if counts and Faulty.batches == 3:
            if os.environ["FAULT"] == "nan":
                points *= float("nan")
            elif os.environ["RANK"] == "1":
                time.sleep(1000)
        return (points,)

    def loss(self, model: torch.nn.Module, batch: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """How far they are from a line of slope three."""
        error: torch.Tensor = (model(batch[0]) - 3 * batch[0]).square().sum()
        return error


def load(config: Any) -> Faulty:
    """What the trainer asks for."""
    return Faulty()
