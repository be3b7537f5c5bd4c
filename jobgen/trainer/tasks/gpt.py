"""A GPT that learns to write like a text: characters by default, or any tokenizer's tokens.

Sizes from one that learns on a laptop in half a minute to GPT-2's two smaller ones. Attention is
fused where torch has a kernel for it (`scaled_dot_product_attention`).
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from torch import Tensor, nn

from ..config import Config
from . import Task
from .text.gpt2 import config_as_gpt2, is_gpt2, weights_as_gpt2
from .text.hub import save_form
from .text.task import TextTask, prepare_text
from .text.transformer import GPT, Shape

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
    "gpt2-124m": {
        "layers": 12,
        "heads": 12,
        "width": 768,
        "context": 1024,
        "batch_tokens": 524288,
        "lr": 6e-4,
    },
    "gpt2-355m": {
        "layers": 24,
        "heads": 16,
        "width": 1024,
        "context": 1024,
        "batch_tokens": 524288,
        "lr": 3e-4,
    },
}


class Text(TextTask):
    """Windows of a text for a GPT of one of the sizes."""

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

    def loss(self, model: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
        """Return the cross-entropy, in nats."""
        return cast(Tensor, model(*batch))

    def scores(self, model: nn.Module, tokens: Tensor) -> Tensor:
        """Return the model's scores of what follows each token."""
        return cast(Tensor, model(tokens))

    def blocks(self, model: nn.Module) -> Iterable[nn.Module]:
        """Return the transformer's blocks."""
        return cast(nn.ModuleList, model.blocks)

    def flops_per_unit(self, model: nn.Module) -> float:
        """Return 6 N + 12 L C T, N without positions (PaLM, appendix B: full attention).

        Untied, the input embedding is a look-up and not counted either.
        """
        aside = ("positions.",) if self.shape.tie else ("positions.", "tokens.")
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

    def export(self, weights: Mapping[str, Tensor], folder: Path) -> str:
        """Write what transformers' GPT2LMHeadModel loads, if the architecture is GPT-2's."""
        if not is_gpt2(self.shape):
            return "not GPT-2's architecture: no form for Hugging Face"
        coder = self.tokens.tokenizer
        coder.save(folder)
        form = config_as_gpt2(self.shape, end=coder.end)
        save_form(folder, form, weights_as_gpt2(self.shape, weights))
        return f"{folder}: for transformers' GPT2LMHeadModel"


def prepare(config: Config, *, fetch: bool) -> str | None:
    """Turn the text into tokens, unless that is done; with `fetch`, verify them."""
    return prepare_text(config, tokenizer="char", fetch=fetch)


def load(config: Config) -> Task:
    """Return the task, the tokens open."""
    return Text(config)
