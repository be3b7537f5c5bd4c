"""A GPT-2 and a loop that does nothing but train it: what the bundled trainer is held against.

Written from GPT-2's description alone: nothing here is jobgen's. A test compares losses, and
`benchmarks/trainer_speed.py` speed and memory.
"""

import math
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel


class Size(NamedTuple):
    """The size of a model."""

    n_layer: int
    n_head: int
    n_embd: int
    block_size: int
    vocab_size: int


class PlainBlock(nn.Module):
    """One layer: attention and a perceptron, each behind a norm and added to what came in."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.n_head, n = size.n_head, size.n_embd
        self.norm_attention, self.norm_perceptron = nn.LayerNorm(n), nn.LayerNorm(n)
        self.qkv, self.out = nn.Linear(n, 3 * n), nn.Linear(n, n)
        self.up, self.down = nn.Linear(n, 4 * n), nn.Linear(4 * n, n)

    def forward(self, x: Tensor) -> Tensor:
        b, t, n = x.shape
        heads = self.qkv(self.norm_attention(x)).reshape(b, t, 3, self.n_head, n // self.n_head)
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, n))
        return x + self.down(functional.gelu(self.up(self.norm_perceptron(x)), approximate="tanh"))


class PlainGPT(nn.Module):
    """The whole model; called with inputs and targets it returns their mean loss."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.tokens = nn.Embedding(size.vocab_size, size.n_embd)
        self.places = nn.Embedding(size.block_size, size.n_embd)
        self.layers = nn.ModuleList(PlainBlock(size) for _ in range(size.n_layer))
        self.norm = nn.LayerNorm(size.n_embd)

    def forward(self, inputs: Tensor, targets: Tensor) -> Tensor:
        x = self.tokens(inputs) + self.places.weight[: inputs.shape[1]]
        for layer in self.layers:
            x = layer(x)
        logits = self.norm(x) @ self.tokens.weight.T
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


# The names of GPT-2's weights, which the trainer's model has, and those above.
GPT2_NAMES = {
    **{"wte": "tokens", "wpe": "places", "ln_f": "norm"},
    **{"ln_1": "norm_attention", "ln_2": "norm_perceptron", "attn.c_attn": "qkv"},
    **{"attn.c_proj": "out", "mlp.c_fc": "up", "mlp.c_proj": "down"},
}


def load_gpt2_weights(model: PlainGPT, weights: dict[str, Tensor]) -> None:
    """Give the model the weights of another, which may have more rows for tokens."""
    own = {}
    for name, tensor in weights.items():
        place, _, kind = name.rpartition(".")
        layer = ""
        if place.startswith("h."):
            _, number, place = place.split(".", 2)
            layer = f"layers.{number}."
        own[f"{layer}{GPT2_NAMES[place]}.{kind}"] = tensor
    own["tokens.weight"] = own["tokens.weight"][: model.tokens.num_embeddings]
    model.load_state_dict(own)


def make_adamw(model: nn.Module, lr: float) -> torch.optim.AdamW:
    """Return the usual optimizer: only matrices decay."""
    groups = [
        {"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.1},
        {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95), fused=True)


def compute_rate(step: int, *, steps: int, lr: float, warmup: int) -> float:
    """Return nanoGPT's learning rate: up linearly, and down to a tenth by half a cosine."""
    if step < warmup:
        return lr * (step + 1) / warmup
    share = (step - warmup) / (steps - warmup)
    return lr / 10 + (1 + math.cos(math.pi * share)) / 2 * (lr - lr / 10)


def take_step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: Sequence[tuple[Tensor, Tensor]],
    autocast: AbstractContextManager[Any] | None = None,
) -> Tensor:
    """Take one step over micro-batches of equal size; returns the mean loss of this rank's."""
    total = torch.zeros((), device=batches[0][0].device)
    for number, (inputs, targets) in enumerate(batches, start=1):
        if isinstance(model, DistributedDataParallel):
            model.require_backward_grad_sync = number == len(batches)
        with autocast or nullcontext():
            loss = model(inputs, targets) / len(batches)
        loss.backward()
        total += loss.detach()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    return total


@torch.no_grad()
def measure_loss(model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]]) -> float:
    """Return the mean loss of batches of equal size."""
    losses = [float(model(*batch)) for batch in batches]
    return sum(losses) / len(losses)
