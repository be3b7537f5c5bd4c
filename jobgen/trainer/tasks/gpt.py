"""A GPT that learns to write like a text: characters by default, or any tokenizer's tokens.

Sizes from one that learns on a laptop in half a minute to GPT-2's two smaller ones. Attention is
fused where torch has a kernel for it (`scaled_dot_product_attention`).
"""

import math
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from ..config import Config
from ..data.order import mix
from ..text.gpt2 import convert_from_gpt2, convert_to_gpt2, describe_as_gpt2, is_gpt2
from ..text.hub import save_model
from ..text.preparation import prepare_text
from ..text.task import TextTask
from ..text.transformer import GPT, Shape
from . import Task

# What GPT-2's sizes are trained with, here and in nanoGPT: half a million tokens a step, a warmup
# of 700 steps. A checkpoint of 1.5 GB every 100 steps would be too many.
_LONG = {"context": 1024, "batch_tokens": 524288, "warmup_steps": 700}
_LONG |= {"save_every": 1000, "val_every": 250}

# The names of the gpt2 sizes count GPT-2's 50,257 tokens; with the hundred or so characters of a
# text, gpt2-124m has about 86 million parameters.
MODELS: dict[str, dict[str, Any]] = {
    "gpt-tiny": {
        "layers": 4,
        "heads": 4,
        "width": 128,
        "context": 64,
        "batch_tokens": 1536,
        "lr": 3e-3,
    },
    "gpt-small": {
        "layers": 6,
        "heads": 6,
        "width": 384,
        "context": 256,
        "batch_tokens": 16384,
        "lr": 1e-3,
    },
    "gpt2-124m": {"layers": 12, "heads": 12, "width": 768, "lr": 6e-4, **_LONG},
    "gpt2-355m": {"layers": 24, "heads": 16, "width": 1024, "lr": 3e-4, **_LONG},
}


class Text(TextTask):
    """Windows of a text for a GPT of one of the sizes."""

    in_pieces = True

    def __init__(self, config: Config) -> None:
        """Open the tokens; raises TrainerError when they are damaged or too few."""
        super().__init__(config)
        size = MODELS[str(config.model)]
        self.shape = Shape(
            layers=size["layers"],
            heads=size["heads"],
            width=size["width"],
            context=self.units_per_item,
            vocabulary=self.tokens.vocabulary,
            norm=config.norm,
            positions=config.positions,
            tie=config.tie,
        )

    def build(self) -> GPT:
        """Return a model of the chosen size."""
        return GPT(self.shape)

    def initial_weight(self, name: str, shape: torch.Size) -> Tensor:
        """Return a weight as GPT-2 starts: the layers that add to the residual stream smaller."""
        if len(shape) == 1:
            return torch.zeros(shape) if name.endswith("bias") else torch.ones(shape)
        adds = name.endswith("c_proj.weight")
        std = 0.02 / (math.sqrt(2 * self.shape.layers) if adds else 1)
        # Each by a generator of its own, so that the order in which they are drawn is free.
        chance = torch.Generator().manual_seed(mix(self.config.seed, zlib.crc32(name.encode())))
        return torch.empty(shape).normal_(std=std, generator=chance)

    def loss(self, model: nn.Module, batch: Tensor) -> Tensor:
        """Return the cross-entropy, in nats."""
        return cast(Tensor, model(*self.split_windows(batch)))

    def logits(self, model: nn.Module, tokens: Tensor) -> Tensor:
        """Return the model's logits of what follows each token."""
        return cast(Tensor, model(tokens))

    def blocks(self, model: nn.Module) -> Iterable[nn.Module]:
        """Return the transformer's blocks."""
        return cast(nn.ModuleList, model.h)

    def compiled_parts(self, model: nn.Module) -> Iterable[tuple[Any, str]]:
        """Return the head together with the loss."""
        return [(model, "sum_loss")]

    def flops_per_unit(self, model: nn.Module) -> float:
        """Return 6 N + 12 L C T, N without positions (PaLM, appendix B: full attention).

        Untied, the input embedding is a look-up and not counted either.
        """
        aside = ("wpe.",) if self.shape.tie else ("wpe.", "wte.")
        used = sum(p.numel() for name, p in model.named_parameters() if not name.startswith(aside))
        return 6 * used + 12 * self.shape.layers * self.shape.width * self.shape.context

    def identity(self) -> Mapping[str, str | int]:
        """Return what decides the shape of the model, and the tokens."""
        return {
            **super().identity(),
            "--norm": self.shape.norm,
            "--positions": self.shape.positions,
            "tied embeddings:": str(self.shape.tie),
        }

    def adopt(self, weights: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return the weights of a GPT-2 of transformers, where they are those, as they are here."""
        names = [name for name in weights if name.endswith("h.0.attn.c_attn.weight")]
        width = self.shape.width
        if not names or weights[names[0]].shape != (width, 3 * width):
            return weights
        return convert_from_gpt2(self.shape, weights)

    def export(self, weights: Mapping[str, Tensor], folder: Path) -> str:
        """Write what transformers' GPT2LMHeadModel loads, if the architecture is GPT-2's."""
        if not is_gpt2(self.shape):
            return "not GPT-2's architecture: no form for Hugging Face"
        coder = self.tokens.tokenizer
        coder.save(folder)
        form = describe_as_gpt2(self.shape, end=coder.end)
        save_model(folder, form, convert_to_gpt2(self.shape, weights))
        return f"{folder}: for transformers' GPT2LMHeadModel"


def prepare(config: Config, *, fetch: bool) -> str | None:
    """Turn the text into tokens, unless that is done; with `fetch`, verify them."""
    return prepare_text(config, tokenizer="char", fetch=fetch)


def load(config: Config) -> Task:
    """Return the task, the tokens open."""
    return Text(config)
