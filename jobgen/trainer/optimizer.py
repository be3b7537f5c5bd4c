"""The learning rate of each step, and what makes steps of gradients: AdamW, or Muon beside it."""

import dataclasses
import math
from typing import Any

import torch
from torch import Tensor, nn

from .config import Config, TrainerError
from .tasks import Task

_WARMUP_STEPS = 20  # at most, where only --epochs are given
_FINAL_SHARE = 0.1  # of --lr, where --min-lr is not given
_DECAY_SHARE = 0.2  # of --steps, where --decay-steps is not given


def compute_learning_rate(step: int, config: Config) -> float:
    """Return the rate of a step, counted from 0: up linearly, then as --schedule says.

    cosine: half a cosine down to --min-lr; linear: a line down; wsd (warmup, stable, decay): level,
    and a line down over the last --decay-steps; constant: level.
    """
    highest, warmup = config.lr, config.warmup_steps or 0
    lowest = _FINAL_SHARE * highest if config.min_lr is None else config.min_lr
    if step < warmup:
        return highest * (step + 1) / warmup
    first = warmup
    if config.schedule == "wsd":
        decay = config.decay_steps or max(1, round(_DECAY_SHARE * config.steps))
        first = max(warmup, config.steps - decay)
    if config.schedule == "constant" or step < first:
        return highest
    way = (step - first) / max(1, config.steps - first)
    left = 0.5 * (1 + math.cos(math.pi * way)) if config.schedule == "cosine" else 1 - way
    return lowest + (highest - lowest) * left


def fix_length(config: Config, task: Task) -> Config:
    """Return the settings with the steps that --epochs come to, and a warmup that suits them."""
    if config.epochs is None:
        return config
    items = config.batch_units // task.units_per_item
    steps = math.ceil(config.epochs * task.train_items / items)
    warmup = config.warmup_steps
    if warmup is None:
        warmup = min(_WARMUP_STEPS, steps // 10)
    return dataclasses.replace(config, steps=steps, warmup_steps=warmup)


class Optimizer:
    """One or two of torch's optimizers, stepped together, unless the gradient is bad."""

    def __init__(self, model: nn.Module, task: Task, config: Config) -> None:
        """Take the model's weights; TrainerError where --optimizer cannot be had."""
        self.weights = [weight for weight in model.parameters() if weight.requires_grad]
        inner = _list_inner_matrices(model, task) if config.optimizer == "muon" else []
        apart = {id(weight) for weight in inner}
        rest = [weight for weight in self.weights if id(weight) not in apart]
        matrices: dict[str, Any] = {"params": [weight for weight in rest if weight.dim() >= 2]}
        # Biases and norms do not decay.
        vectors: dict[str, Any] = {
            "params": [weight for weight in rest if weight.dim() < 2],
            "weight_decay": 0.0,
        }
        self.adamw = torch.optim.AdamW(
            [matrices, vectors],
            lr=config.lr,
            betas=config.betas,
            weight_decay=config.weight_decay,
            fused=True,
        )
        self.all: list[torch.optim.Optimizer] = [self.adamw]
        if config.optimizer == "muon":
            self.all.append(_make_muon(inner, config))

    def set_learning_rate(self, rate: float) -> None:
        """Let the next step take this rate."""
        for optimizer in self.all:
            for group in optimizer.param_groups:
                group["lr"] = rate

    def name_state(self, model: nn.Module) -> dict[str, dict[str, Tensor]]:
        """Return what is kept of each weight, by its name in the model."""
        states = {weight: state for each in self.all for weight, state in each.state.items()}
        return {name: states[w] for name, w in model.named_parameters() if w in states}

    def step(self, *, bad: Tensor) -> None:
        """Change the weights, and forget the gradients; a bad step changes nothing.

        Whether it is bad is known to the device alone: the host does not wait for it.
        """
        # Fused AdamW reads this on the device, where a gradient scaler would have left it.
        self.adamw.found_inf = bad.float()  # type: ignore[attr-defined]
        self.adamw.step()
        for muon in self.all[1:]:
            if not bad:  # It cannot skip a step by itself: here the host waits.
                muon.step()
        for optimizer in self.all:
            optimizer.zero_grad()


def _list_inner_matrices(model: nn.Module, task: Task) -> list[nn.Parameter]:
    """Return the matrices of the repeated layers: all but embeddings and head."""
    inner = [
        weight
        for block in task.blocks(model)
        for weight in block.parameters()
        if weight.dim() == 2 and weight.requires_grad
    ]
    if not inner:
        raise TrainerError(
            "--optimizer muon is for the matrices of layers; this task has no layers"
        )
    return inner


def _make_muon(weights: list[nn.Parameter], config: Config) -> torch.optim.Optimizer:
    if not hasattr(torch.optim, "Muon"):
        raise TrainerError(f"--optimizer muon: torch {torch.__version__} does not have it")
    if config.strategy != "ddp":
        raise TrainerError("--optimizer muon needs whole matrices: --strategy ddp")
    # Scaled so that its steps are as large as AdamW's: one learning rate suits both.
    return torch.optim.Muon(
        weights, lr=config.lr, weight_decay=config.weight_decay, adjust_lr_fn="match_rms_adamw"
    )
