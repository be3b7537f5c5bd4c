"""Handwritten digits, 1,797 images of 8 by 8 dots, which come with scikit-learn (extra `digits`).

A perceptron with two hidden layers, or a small convolutional network; both are right about more
than nineteen of twenty images within seconds on a laptop.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ..config import Config, TrainerError
from . import Task

DEFAULTS = {"batch_samples": 64, "lr": 3e-3}
MODELS: dict[str, dict[str, Any]] = {"mlp": {}, "cnn": {}}

_TENTH = 10


class Digits(Task):
    """Images and the digits they show; every tenth validates."""

    unit = "samples"
    units_per_item = 1

    def __init__(self, config: Config) -> None:
        """Load the images; TrainerError without scikit-learn."""
        try:
            from sklearn.datasets import load_digits
        except ImportError as error:
            raise TrainerError(f"--task digits: pip install 'jobgen[digits]' ({error})") from error
        self.config = config
        found = load_digits()
        images = torch.from_numpy(found.images.astype(np.float32) / 16 - 0.5)[:, None]
        labels = torch.from_numpy(found.target.astype(np.int64))
        validates = torch.arange(len(labels)) % _TENTH == _TENTH - 1
        self.training = images[~validates], labels[~validates]
        self.validation = images[validates], labels[validates]
        self.train_items, self.val_items = len(self.training[0]), len(self.validation[0])

    def build(self) -> nn.Module:
        """Return the network that --model names."""
        if self.config.model == "cnn":
            return nn.Sequential(
                nn.Conv2d(1, 16, 3, padding=1),
                nn.ReLU(),
                nn.Conv2d(16, 32, 3, padding=1),
                nn.ReLU(),
                nn.MaxPool2d(2),
                nn.Flatten(),
                nn.Linear(512, 10),
            )
        hidden = (nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU())
        return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(128, 10))

    def batch(self, items: Sequence[int], *, training: bool) -> tuple[Tensor, ...]:
        """Return images (items, 1, 8, 8) and labels (items)."""
        images, labels = self.training if training else self.validation
        rows = torch.tensor(items)
        return images[rows], labels[rows]

    def loss(self, model: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
        """Return the cross-entropy, in nats."""
        images, labels = batch
        return functional.cross_entropy(model(images), labels, reduction="sum")

    def sample(self, model: nn.Module) -> str:
        """Return how many of the validation images are recognised."""
        images, labels = self.validation
        with torch.no_grad():
            said = model(images.to(next(model.parameters()).device)).argmax(1).cpu()
        right = int((said == labels).sum())
        return f"{right} of {len(labels)} images recognised, {100 * right / len(labels):.1f} %"

    def identity(self) -> Mapping[str, str | int]:
        """Return the network's name."""
        return {"--model": str(self.config.model)}


def load(config: Config) -> Task:
    """Return the task, the images loaded."""
    return Digits(config)
