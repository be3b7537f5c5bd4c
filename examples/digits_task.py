"""A task of one's own for the bundled trainer: images of handwritten digits.

    python -m jobgen.trainer --task examples/digits_task.py --steps 300

1,797 images of 8 by 8 dots come with scikit-learn. A perceptron with two hidden layers
(`--model mlp`) or a small convolutional network (`cnn`) is right about more than nineteen of twenty
images it has not seen, within seconds on a laptop.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional

from jobgen.trainer.tasks import Task

DEFAULTS = {"batch_samples": 64, "lr": 3e-3}
MODELS: dict[str, dict[str, Any]] = {"mlp": {}, "cnn": {}}


class Digits(Task):
    """Images and the digits they show; every tenth validates."""

    unit = "samples"
    units_per_item = 1

    def __init__(self, model: str) -> None:
        self.model = model
        digits = load_digits()
        images = torch.from_numpy(digits.images.astype(np.float32) / 16 - 0.5)[:, None]
        labels = torch.from_numpy(digits.target.astype(np.int64))
        validates = torch.arange(len(labels)) % 10 == 9
        self.training = images[~validates], labels[~validates]
        self.validation = images[validates], labels[validates]
        self.train_items, self.val_items = len(self.training[0]), len(self.validation[0])

    def build(self) -> nn.Module:
        """Return the network that --model names."""
        if self.model == "cnn":
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

    def batch(self, items: Sequence[int], *, training: bool) -> dict[str, Tensor]:
        """Return images (items, 1, 8, 8) and labels (items)."""
        images, labels = self.training if training else self.validation
        rows = torch.tensor(items)
        return {"images": images[rows], "labels": labels[rows]}

    def loss(self, model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
        """Return the cross-entropy, in nats."""
        return functional.cross_entropy(model(batch["images"]), batch["labels"], reduction="sum")

    def sample(self, model: nn.Module) -> str:
        """Return how many of the validation images are recognised."""
        images, labels = self.validation
        with torch.no_grad():
            guesses = model(images.to(next(model.parameters()).device)).argmax(1).cpu()
        right = int((guesses == labels).sum())
        return f"{right} of {len(labels)} images recognised, {100 * right / len(labels):.1f} %"

    def identity(self) -> Mapping[str, str | int]:
        """Return the network's name."""
        return {"--model": self.model}


def load(config: Any) -> Task:
    """Return the task, the images loaded."""
    return Digits(config.model)
