"""A GPT that learns to write like a text, character by character.

A decoder-only transformer, pre-norm, with learned positions and tied input and output embedding.
The shape follows GPT-2 (Radford et al., Language Models are Unsupervised Multitask Learners,
2019). There is no dropout, so nothing in a step is random.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from .. import data
from ..config import Config, Preset, TrainerError
from . import Task


class Text(Task):
    """Windows of a text, each token predicted from those before it."""

    unit = "tokens"

    def __init__(self, config: Config) -> None:
        """Read the text; raises TrainerError when there is none or it is too short."""
        self.config = config
        self.corpus = data.load_corpus(config.data)
        self.units_per_item = config.context
        # A window's last target is the first character of the next window.
        windows = (len(self.corpus.tokens) - 1) // config.context
        self.train_items, self.val_items = data.split(windows)
        if not self.val_items:
            raise TrainerError(
                f"the text has {len(self.corpus.tokens)} characters, less than ten sequences of "
                f"{config.context}; choose a longer text or a smaller --context"
            )

    def build(self) -> "GPT":
        """Return a model of the chosen size."""
        vocabulary = len(self.corpus.vocabulary)
        return GPT(self.config.preset, vocabulary=vocabulary, context=self.config.context)

    def batch(self, items: Sequence[int], *, training: bool) -> tuple[Tensor, ...]:
        """Return inputs and targets, both (items, context)."""
        windows = data.windows(items, training=training)
        return data.batch(self.corpus.tokens, windows, self.config.context)

    def loss(self, model: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
        """Return the cross-entropy, in nats."""
        inputs, targets = batch
        scores = model(inputs)
        return functional.cross_entropy(scores.flatten(0, 1), targets.flatten(), reduction="sum")

    def blocks(self, model: nn.Module) -> Iterable[nn.Module]:
        """Return the transformer's blocks."""
        return cast(nn.ModuleList, model.blocks)

    def flops_per_unit(self, model: nn.Module) -> float:
        """Return 6 N + 12 L C T, N without positions (PaLM, appendix B: full attention)."""
        shape, context = self.config.preset, self.config.context
        used = sum(parameter.numel() for parameter in model.parameters()) - context * shape.width
        return 6 * used + 12 * shape.layers * shape.width * context

    def sample(self, model: nn.Module) -> str | None:
        """Return text that the model writes after the start of a line."""
        if not self.config.sample_chars:
            return None
        start = max(self.corpus.vocabulary.find("\n"), 0)
        writer = cast(GPT, model)
        tokens = writer.continue_text([start], self.config.sample_chars, seed=self.config.seed)
        return self.corpus.decode(tokens)

    def identity(self) -> Mapping[str, str | int]:
        """Return the size of the model and the text."""
        return {
            "--model": self.config.model,
            "--context": self.config.context,
            "the text of SHA-256": self.corpus.digest,
        }

    def facts(self) -> Mapping[str, Any]:
        """Return the tokens' characters and the text's digest."""
        return {"characters": self.corpus.vocabulary, "data_sha256": self.corpus.digest}


def load(config: Config) -> Task:
    """Return the task, the text read."""
    return Text(config)


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
