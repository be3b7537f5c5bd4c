"""GPT-2: a decoder-only transformer with pre-norm (Radford et al., 2019), named as in nanoGPT.

Without dropout, so that nothing in a step is random.
"""

import math
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional


class Shape(NamedTuple):
    """All that decides what a GPT computes, except its parameters."""

    layers: int
    heads: int
    width: int
    context: int
    vocabulary: int

    @property
    def rows(self) -> int:
        """Rows of the token embedding: the vocabulary rounded up to a multiple of 64.

        Matrix units work in tiles: with GPT-2's 50,257 rows the last layer takes far longer than
        with 50,304. The logits of the added rows are dropped: otherwise the gradients of what is
        never a target would be rounding errors, and AdamW makes steps of them.
        """
        return -(-self.vocabulary // 64) * 64


class CausalSelfAttention(nn.Module):
    """Causal self-attention over (batch, time, width)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.c_attn = nn.Linear(shape.width, 3 * shape.width)
        self.c_proj = nn.Linear(shape.width, shape.width)

    def forward(self, x: Tensor) -> Tensor:
        """Mix each position with those before it; same shape out as in."""
        batch, time, width = x.shape
        query, key, value = (
            part.view(batch, time, self.heads, width // self.heads).transpose(1, 2)
            for part in self.c_attn(x).split(width, dim=2)
        )
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return cast(Tensor, self.c_proj(mixed.transpose(1, 2).reshape(batch, time, width)))


class MLP(nn.Module):
    """Two layers, the hidden one four times as wide."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.c_fc = nn.Linear(shape.width, 4 * shape.width)
        self.c_proj = nn.Linear(4 * shape.width, shape.width)

    def forward(self, x: Tensor) -> Tensor:
        """Transform each position separately; same shape out as in."""
        return cast(Tensor, self.c_proj(functional.gelu(self.c_fc(x), approximate="tanh")))


class Block(nn.Module):
    """Attention, then an MLP, each added to the residual stream."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(shape.width)
        self.attn = CausalSelfAttention(shape)
        self.ln_2 = nn.LayerNorm(shape.width)
        self.mlp = MLP(shape)

    def forward(self, x: Tensor) -> Tensor:
        """Transform (batch, time, width); same shape out as in."""
        x = x + self.attn(self.ln_1(x))
        return cast(Tensor, x + self.mlp(self.ln_2(x)))


class GPT(nn.Module):
    """Next-token logits for sequences of at most `context` tokens."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.wte = nn.Embedding(shape.rows, shape.width)  # the head, too
        self.wpe = nn.Embedding(shape.context, shape.width)
        self.h = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.ln_f = nn.LayerNorm(shape.width)
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:  # as GPT-2, smaller if it adds to the residual stream
                adds = name.endswith("c_proj.weight")
                nn.init.normal_(parameter, std=0.02 / (math.sqrt(2 * shape.layers) if adds else 1))
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, tokens: Tensor, targets: Tensor | None = None) -> Tensor:
        """Return logits (batch, time, vocabulary) for tokens (batch, time).

        With targets, return instead the cross-entropy summed over them, in nats; those below 0 do
        not count.
        """
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = cast_to_autocast(self.wte(tokens)) + cast_to_autocast(self.wpe(positions))
        for block in self.h:
            x = block(x)
        return self.compute_logits(x) if targets is None else self.sum_loss(x, targets)

    def compute_logits(self, x: Tensor) -> Tensor:
        """Return the logits, given the residual stream after the last block."""
        logits = functional.linear(self.ln_f(x), self.wte.weight)
        return logits[..., : self.shape.vocabulary]

    def sum_loss(self, x: Tensor, targets: Tensor) -> Tensor:
        """Return the cross-entropy, given the residual stream after the last block.

        Head and loss are one function: compiled, it never writes the logits as 32-bit numbers.
        """
        logits = self.compute_logits(x).flatten(0, 1)
        return functional.cross_entropy(logits, targets.flatten(), reduction="sum")


def cast_to_autocast(x: Tensor) -> Tensor:
    """Return the start of the residual stream in autocast's type, if autocast is on.

    Embeddings are 32 bits wide; left so, every sum along the stream would be, at twice the memory.
    """
    if not x.is_meta and torch.is_autocast_enabled(x.device.type):
        return x.to(torch.get_autocast_dtype(x.device.type))
    return x
