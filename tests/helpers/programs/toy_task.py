"""Linear regression: the smallest thing to train, for trying out launchers and restarts.

2,048 samples of 20 numbers, as in PyTorch's tutorial on DDP, but with a truth to be found: targets
are a weighted sum of the numbers, with a little noise. Read it first when you write your own task.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from jobgen.trainer.config import Config
from jobgen.trainer.tasks import Task

DEFAULTS = {"batch_samples": 64, "lr": 0.03, "weight_decay": 0.0}

_SAMPLES, _WIDTH, _NOISE = 2048, 20, 0.1


class Toy(Task):
    """Pairs of 20 numbers and one; the first tenth validates."""

    unit = "samples"
    units_per_item = 1

    def __init__(self) -> None:
        """Make the samples: the same for every run, whatever its seed."""
        chance = torch.Generator().manual_seed(0)
        self.truth = torch.randn(_WIDTH, generator=chance)
        self.inputs = torch.randn(_SAMPLES, _WIDTH, generator=chance)
        noise = _NOISE * torch.randn(_SAMPLES, generator=chance)
        self.targets = self.inputs @ self.truth + noise
        self.val_items = _SAMPLES // 10
        self.train_items = _SAMPLES - self.val_items

    def build(self) -> nn.Module:
        """Return a linear layer."""
        return nn.Linear(_WIDTH, 1)

    def batch(self, items: Sequence[int], *, training: bool) -> tuple[Tensor, ...]:
        """Return inputs (items, 20) and targets (items)."""
        rows = torch.tensor(items) + (self.val_items if training else 0)
        return self.inputs[rows], self.targets[rows]

    def loss(self, model: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
        """Return the sum of the squared errors."""
        inputs, targets = batch
        return functional.mse_loss(model(inputs).squeeze(1), targets, reduction="sum")

    def sample(self, model: nn.Module) -> str:
        """Return how far from the truth the weights are."""
        weight = model.get_parameter("weight").detach().float().cpu()
        return f"largest error of a weight: {float((weight - self.truth).abs().max()):.3f}"


def load(config: Config) -> Task:
    """Return the task."""
    return Toy()
