"""A GPT: decoder-only transformer, pre-norm.

With layer norms and learned positions, and one matrix for tokens in and out, it is GPT-2 (Radford
et al., Language Models are Unsupervised Multitask Learners, 2019) without dropout, so nothing in a
step is random. With RMS norms (Zhang and Sennrich, 2019) it has no biases; rotary positions are
those of RoFormer (Su et al., 2021).
"""

import math
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional


class Shape(NamedTuple):
    """All that decides what a GPT computes, but its weights."""

    layers: int
    heads: int
    width: int
    context: int
    vocabulary: int
    norm: str  # layer or rms
    positions: str  # learned or rotary
    tie: bool

    @property
    def rows(self) -> int:
        """Rows of the token embedding: the vocabulary up to a multiple of 64.

        Matrix units work in tiles: with GPT-2's 50,257 rows the last layer takes far longer than
        with 50,304. The scores of the rows that are added are dropped: left in, the gradients of
        what is never a target would be rounding errors, and AdamW makes steps of them.
        """
        return -(-self.vocabulary // 64) * 64

    def make_norm(self) -> nn.Module:
        """Return a norm of the kind."""
        return nn.LayerNorm(self.width) if self.norm == "layer" else nn.RMSNorm(self.width)

    def linear(self, inputs: int, outputs: int) -> nn.Linear:
        """Return a matrix, with biases as the kind of norm has them."""
        return nn.Linear(inputs, outputs, bias=self.norm == "layer")


class Rotary(nn.Module):
    """Positions as rotations of queries and keys, (batch, heads, time, size)."""

    def __init__(self, size: int, context: int) -> None:
        super().__init__()
        speeds = 10000.0 ** (-torch.arange(0, size, 2, dtype=torch.float32) / size)
        angles = torch.arange(context, dtype=torch.float32)[:, None] * speeds
        self.register_buffer("cosine", angles.cos(), persistent=False)
        self.register_buffer("sine", angles.sin(), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Turn each pair of numbers by its position's angle; same shape out as in."""
        cosine = cast(Tensor, self.cosine)[: x.shape[2]].to(x.dtype)
        sine = cast(Tensor, self.sine)[: x.shape[2]].to(x.dtype)
        one, other = x.chunk(2, dim=-1)
        return torch.cat((one * cosine - other * sine, one * sine + other * cosine), dim=-1)


class Attention(nn.Module):
    """Causal self-attention over (batch, time, width)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.inward = shape.linear(shape.width, 3 * shape.width)
        self.outward = shape.linear(shape.width, shape.width)
        rotary = shape.positions == "rotary"
        size = shape.width // shape.heads
        self.turn = Rotary(size, shape.context) if rotary else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Mix each position with those before it; same shape out as in."""
        rows, time, width = x.shape
        query, key, value = (
            part.view(rows, time, self.heads, width // self.heads).transpose(1, 2)
            for part in self.inward(x).split(width, dim=2)
        )
        mixed = functional.scaled_dot_product_attention(
            self.turn(query), self.turn(key), value, is_causal=True
        )
        return cast(Tensor, self.outward(mixed.transpose(1, 2).reshape(rows, time, width)))


class Block(nn.Module):
    """Attention, then a two-layer network four times as wide, each added to its input."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.norm_attention = shape.make_norm()
        self.attention = Attention(shape)
        self.norm_network = shape.make_norm()
        self.inward = shape.linear(shape.width, 4 * shape.width)
        self.outward = shape.linear(4 * shape.width, shape.width)

    def forward(self, x: Tensor) -> Tensor:
        """Transform (batch, time, width); same shape out as in."""
        x = x + self.attention(self.norm_attention(x))
        hidden = functional.gelu(self.inward(self.norm_network(x)), approximate="tanh")
        return cast(Tensor, x + self.outward(hidden))


class GPT(nn.Module):
    """Next-token scores for sequences of at most `context` tokens."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.vocabulary = shape.vocabulary
        self.tokens = nn.Embedding(shape.rows, shape.width)
        learned = shape.positions == "learned"
        self.positions = nn.Embedding(shape.context, shape.width) if learned else None
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = shape.make_norm()
        self.scores = None if shape.tie else nn.Linear(shape.width, shape.rows, bias=False)
        for name, parameter in self.named_parameters():
            # GPT-2's: the layers that add to the residual stream start smaller with depth.
            adds = name.endswith("outward.weight")
            if parameter.dim() >= 2:
                nn.init.normal_(parameter, std=0.02 / (math.sqrt(2 * shape.layers) if adds else 1))
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, tokens: Tensor, targets: Tensor | None = None) -> Tensor:
        """Return scores (batch, time, vocabulary) for tokens (batch, time).

        With targets, return the cross-entropy summed over them, in nats, instead: so a compiled
        model never writes the scores to memory as 32-bit numbers.
        """
        x = self.tokens(tokens)
        if self.positions is not None:
            x = x + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        matrix = self.tokens if self.scores is None else self.scores
        scores = functional.linear(self.norm(x), matrix.weight)[..., : self.vocabulary]
        if targets is None:
            return scores
        return functional.cross_entropy(scores.flatten(0, 1), targets.flatten(), reduction="sum")
