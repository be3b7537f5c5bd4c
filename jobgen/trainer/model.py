"""A GPT: decoder-only transformer, pre-norm, learned positions, tied input and output embedding.

The shape follows GPT-2 (Radford et al., Language Models are Unsupervised Multitask Learners,
2019). There is no dropout, so nothing in a step is random.
"""

import math
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from .config import Preset


class Attention(nn.Module):
    """Causal self-attention over (batch, time, width)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.inward = nn.Linear(width, 3 * width)
        self.outward = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Mix each position with those before it; same shape out as in."""
        rows, time, width = x.shape
        query, key, value = (
            part.view(rows, time, self.heads, width // self.heads).transpose(1, 2)
            for part in self.inward(x).split(width, dim=2)
        )
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return cast(Tensor, self.outward(mixed.transpose(1, 2).reshape(rows, time, width)))


class Block(nn.Module):
    """Attention, then a two-layer network four times as wide, each added to its input."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm_attention = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm_network = nn.LayerNorm(width)
        self.inward = nn.Linear(width, 4 * width)
        self.outward = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Transform (batch, time, width); same shape out as in."""
        x = x + self.attention(self.norm_attention(x))
        hidden = functional.gelu(self.inward(self.norm_network(x)), approximate="tanh")
        return cast(Tensor, x + self.outward(hidden))


class GPT(nn.Module):
    """Next-token scores for sequences of at most `context` tokens."""

    def __init__(self, preset: Preset, *, vocabulary: int, context: int) -> None:
        super().__init__()
        self.context = context
        self.tokens = nn.Embedding(vocabulary, preset.width)
        self.positions = nn.Embedding(context, preset.width)
        self.blocks = nn.ModuleList(Block(preset.width, preset.heads) for _ in range(preset.layers))
        self.norm = nn.LayerNorm(preset.width)
        for name, parameter in self.named_parameters():
            if parameter.dim() < 2:
                continue
            # GPT-2's: the layers that add to the residual stream start smaller with depth.
            adds = name.endswith("outward.weight")
            nn.init.normal_(parameter, std=0.02 / (math.sqrt(2 * preset.layers) if adds else 1))
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return scores (batch, time, vocabulary) for token numbers (batch, time)."""
        place = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.positions(place)
        for block in self.blocks:
            x = block(x)
        return functional.linear(self.norm(x), self.tokens.weight)

    def continue_text(self, tokens: list[int], length: int, *, seed: int) -> list[int]:
        """Return `length` more tokens, drawn from the model's distribution one after another."""
        chance = torch.Generator().manual_seed(seed)
        tokens = list(tokens)
        for _ in range(length):
            seen = torch.tensor([tokens[-self.context :]], device=self.tokens.weight.device)
            with torch.no_grad():
                scores = self(seen)[0, -1].float().cpu()
            tokens.append(int(torch.multinomial(scores.softmax(0), 1, generator=chance)))
        return tokens[-length:]


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, object]]:
    """Return AdamW's groups: matrices decay, vectors (biases, norms) do not."""
    parameters = list(model.parameters())
    return [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
