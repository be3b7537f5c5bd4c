"""The learning rate of each step, AdamW, and the scale of the loss in fp16."""

import math
from typing import Any

import torch
import torch._dynamo  # the first optimizer would: seconds under the eyes of the watchdog
from torch import Tensor, nn

from .config import Config

_FINAL_SHARE = 0.1  # of --lr, without --min-lr


def compute_learning_rate(step: int, config: Config) -> float:
    """Return the rate of a step, counted from 0: up linearly, then as --schedule says.

    cosine: half a cosine down to --min-lr; linear: a line down; constant: level.
    """
    highest, warmup = config.lr, config.warmup_steps or 0
    lowest = _FINAL_SHARE * highest if config.min_lr is None else config.min_lr
    if step < warmup:
        return highest * (step + 1) / warmup
    if config.schedule == "constant":
        return highest
    way = (step - warmup) / max(1, config.steps - warmup)
    left = 0.5 * (1 + math.cos(math.pi * way)) if config.schedule == "cosine" else 1 - way
    return lowest + (highest - lowest) * left


class Optimizer:
    """AdamW, which leaves everything as it is after a bad gradient."""

    def __init__(self, model: nn.Module, config: Config) -> None:
        """Take the model's parameters; biases and norms do not decay."""
        self.model = model
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        matrices: dict[str, Any] = {"params": [p for p in self.parameters if p.dim() >= 2]}
        vectors: dict[str, Any] = {"params": [p for p in self.parameters if p.dim() < 2]}
        self.adamw = torch.optim.AdamW(
            [matrices, vectors | {"weight_decay": 0.0}],
            lr=config.lr,
            betas=(0.9, 0.95),
            weight_decay=config.weight_decay,
            fused=True,
        )

    def set_learning_rate(self, rate: float) -> None:
        """Let the next step take this rate."""
        for group in self.adamw.param_groups:
            group["lr"] = rate

    def step(self, *, bad: Tensor) -> None:
        """Change the parameters, and clear the gradients; a bad step changes nothing.

        Only the device knows whether it is bad: the host does not wait for it.
        """
        # Fused AdamW reads this on the device, where a GradScaler would have left it.
        self.adamw.found_inf = bad.float()  # type: ignore[attr-defined]
        self.adamw.step()
        self.adamw.zero_grad()

    def collect_state(self) -> dict[str, Tensor]:
        """Return what is kept of each parameter, as NAME.exp_avg and so on; zeros before a step."""
        tensors: dict[str, Tensor] = {}
        for name, parameter in self.model.named_parameters():
            if not parameter.requires_grad:
                continue
            state = self.adamw.state[parameter]
            if not state:
                state["step"] = torch.zeros((), device=parameter.device)
                state |= {key: torch.zeros_like(parameter) for key in ("exp_avg", "exp_avg_sq")}
            tensors |= {f"{name}.{key}": each for key, each in state.items()}
        return tensors


class LossScale:
    """The factor that keeps fp16 gradients from vanishing, on the device as the rest of a step.

    As torch's GradScaler: halved by a gradient that is not finite, doubled after many that are. The
    norm of the whole gradient is the same on every rank, so the scale is, too.
    """

    _DOUBLE_AFTER = 2000  # good steps

    def __init__(self, device: torch.device) -> None:
        self.scale = torch.tensor(2.0**12, device=device)
        self.good = torch.tensor(0.0, device=device)

    def update(self, bad: Tensor) -> None:
        """Take note of a step."""
        self.good = torch.where(bad, 0.0, self.good + 1)
        double = self.good >= self._DOUBLE_AFTER
        factor = torch.where(bad, 0.5, torch.where(double, 2.0, 1.0))
        self.scale, self.good = self.scale * factor, torch.where(double, 0.0, self.good)

    def as_json(self) -> list[float]:
        """Return the scale and the good steps since it changed."""
        return [float(self.scale), float(self.good)]

    def restore(self, numbers: list[float]) -> None:
        """Continue from a checkpoint's."""
        self.scale.fill_(numbers[0])
        self.good.fill_(numbers[1])
