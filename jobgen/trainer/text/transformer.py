"""A GPT: decoder-only transformer, pre-norm. Parts are named as in GPT-2 and nanoGPT.

With layer norms and learned positions, and one matrix for tokens in and out, it is GPT-2 (Radford
et al., Language Models are Unsupervised Multitask Learners, 2019) without dropout, so nothing in a
step is random. With RMS norms (Zhang and Sennrich, 2019) it has no biases; rotary positions are
those of RoFormer (Su et al., 2021).
"""

from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from .attention import attend, forbid_other_documents


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
        with 50,304. The logits of the rows that are added are dropped: left in, the gradients of
        what is never a target would be rounding errors, and AdamW makes steps of them.
        """
        return -(-self.vocabulary // 64) * 64

    def make_norm(self) -> nn.Module:
        """Return a norm of the kind."""
        return nn.LayerNorm(self.width) if self.norm == "layer" else nn.RMSNorm(self.width)

    def make_linear(self, inputs: int, outputs: int) -> nn.Linear:
        """Return a matrix, with biases as the kind of norm has them."""
        return nn.Linear(inputs, outputs, bias=self.norm == "layer")


def make_rotations(size: int, time: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return cosines and sines, (time, size / 2), of the angle of each pair at each position."""
    speeds = 10000.0 ** (-torch.arange(0, size, 2, dtype=torch.float32, device=device) / size)
    angles = torch.arange(time, dtype=torch.float32, device=device)[:, None] * speeds
    return angles.cos(), angles.sin()


def rotate(x: Tensor, rotations: tuple[Tensor, Tensor]) -> Tensor:
    """Turn each pair of numbers in (batch, heads, time, size) by its position's angle."""
    cosine, sine = (table.to(x.dtype) for table in rotations)
    one, other = x.chunk(2, dim=-1)
    return torch.cat((one * cosine - other * sine, one * sine + other * cosine), dim=-1)


class CausalSelfAttention(nn.Module):
    """Causal self-attention over (batch, time, width)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.c_attn = shape.make_linear(shape.width, 3 * shape.width)
        self.c_proj = shape.make_linear(shape.width, shape.width)

    def forward(self, x: Tensor, rotations: tuple[Tensor, Tensor] | None, mask: Any) -> Tensor:
        """Mix each position with those before it; same shape out as in."""
        batch, time, width = x.shape
        query, key, value = (
            part.view(batch, time, self.heads, width // self.heads).transpose(1, 2)
            for part in self.c_attn(x).split(width, dim=2)
        )
        if rotations is not None:
            query, key = rotate(query, rotations), rotate(key, rotations)
        mixed = attend(query, key, value, mask)
        return cast(Tensor, self.c_proj(mixed.transpose(1, 2).reshape(batch, time, width)))


class MLP(nn.Module):
    """A network of two layers, the hidden one four times as wide."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.c_fc = shape.make_linear(shape.width, 4 * shape.width)
        self.c_proj = shape.make_linear(4 * shape.width, shape.width)

    def forward(self, x: Tensor) -> Tensor:
        """Transform each position by itself; same shape out as in."""
        return cast(Tensor, self.c_proj(functional.gelu(self.c_fc(x), approximate="tanh")))


class Block(nn.Module):
    """Attention, then a network, each added to the residual stream."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.ln_1 = shape.make_norm()
        self.attn = CausalSelfAttention(shape)
        self.ln_2 = shape.make_norm()
        self.mlp = MLP(shape)

    def forward(self, x: Tensor, rotations: tuple[Tensor, Tensor] | None, mask: Any) -> Tensor:
        """Transform (batch, time, width); same shape out as in."""
        x = x + self.attn(self.ln_1(x), rotations, mask)
        return cast(Tensor, x + self.mlp(self.ln_2(x)))


class GPT(nn.Module):
    """Next-token logits for sequences of at most `context` tokens."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.wte = nn.Embedding(shape.rows, shape.width)
        learned = shape.positions == "learned"
        self.wpe = nn.Embedding(shape.context, shape.width) if learned else None
        self.h = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.ln_f = shape.make_norm()
        self.lm_head = None if shape.tie else nn.Linear(shape.width, shape.rows, bias=False)

    def forward(
        self, tokens: Tensor, targets: Tensor | None = None, documents: Tensor | None = None
    ) -> Tensor:
        """Return logits (batch, time, vocabulary) for tokens (batch, time).

        With targets, return instead the cross-entropy summed over them, in nats; those below 0 do
        not count. With the number of the document of each token, tokens see their own document.
        """
        time, device = tokens.shape[1], tokens.device
        x = cast_to_autocast(self.wte(tokens))
        rotations = None
        if self.wpe is not None:
            x = x + cast_to_autocast(self.wpe(torch.arange(time, device=device)))
        else:
            rotations = make_rotations(self.shape.width // self.shape.heads, time, device)
        mask = None if documents is None else forbid_other_documents(documents)
        for block in self.h:
            x = block(x, rotations, mask)
        return self.make_logits(x) if targets is None else self.sum_loss(x, targets)

    def make_logits(self, x: Tensor) -> Tensor:
        """Return the logits, given the residual stream after the last block."""
        matrix = self.wte if self.lm_head is None else self.lm_head
        logits = functional.linear(self.ln_f(x), matrix.weight)
        return logits[..., : self.shape.vocabulary]

    def sum_loss(self, x: Tensor, targets: Tensor) -> Tensor:
        """Return the cross-entropy, given the residual stream after the last block.

        Head and loss are one function: compiled, it never writes the logits as 32-bit numbers.
        """
        logits = self.make_logits(x).flatten(0, 1)
        return functional.cross_entropy(logits, targets.flatten(), reduction="sum")


def cast_to_autocast(x: Tensor) -> Tensor:
    """Return the start of the residual stream in autocast's type, where that is in force.

    Embeddings are 32 bits wide; left so, every sum along the stream would be, at twice the memory.
    """
    if not x.is_meta and torch.is_autocast_enabled(x.device.type):
        return x.to(torch.get_autocast_dtype(x.device.type))
    return x
