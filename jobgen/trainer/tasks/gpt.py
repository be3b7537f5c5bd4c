"""A GPT that learns to write like a text: characters by default, or any tokenizer's tokens.

Sizes from one that learns on a laptop in half a minute to GPT-2's two smaller ones.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from ..config import Config
from ..text.preparation import prepare_text
from ..text.tokens import Tokens
from ..text.transformer import GPT, Shape
from . import Task

_IGNORED = -100  # torch's number for a target that does not count

# What GPT-2's sizes are trained with, here and in nanoGPT: half a million tokens a step, a warmup
# of 700 steps. A checkpoint of 1.5 GB every 100 steps would be too many.
_LONG = {"context": 1024, "batch_tokens": 524288, "warmup_steps": 700}
_LONG |= {"save_every": 1000, "val_every": 250}
_TINY, _SMALL = {"context": 64, "batch_tokens": 1536}, {"context": 256, "batch_tokens": 16384}

# The names of the gpt2 sizes count GPT-2's 50,257 tokens; with the hundred or so characters of a
# text, gpt2-124m has about 86 million parameters.
MODELS: dict[str, dict[str, Any]] = {
    "gpt-tiny": {"layers": 4, "heads": 4, "width": 128, "lr": 3e-3, **_TINY},
    "gpt-small": {"layers": 6, "heads": 6, "width": 384, "lr": 1e-3, **_SMALL},
    "gpt2-124m": {"layers": 12, "heads": 12, "width": 768, "lr": 6e-4, **_LONG},
    "gpt2-355m": {"layers": 24, "heads": 16, "width": 1024, "lr": 3e-4, **_LONG},
}


class Text(Task):
    """Windows of a text, in which each token is predicted from those before it."""

    unit = "tokens"

    def __init__(self, config: Config) -> None:
        """Open the tokens; raises TrainerError if they are damaged or too few."""
        assert config.context is not None, "MODELS has it"
        self.config, size = config, MODELS[str(config.model)]
        wanted = config.val_items if config.val_every else 0
        self.tokens = Tokens(config.tokens_folder, config.context, val_items=wanted)
        self.units_per_item, self.counted = config.context, self.tokens.masked
        self.train_items, self.val_items = self.tokens.train_items, self.tokens.val_items
        sizes = {name: size[name] for name in ("layers", "heads", "width")}
        self.shape = Shape(**sizes, context=config.context, vocabulary=self.tokens.vocabulary)

    def build(self) -> GPT:
        """Return a model of the chosen size."""
        return GPT(self.shape)

    def loss(self, model: nn.Module, batch: Tensor) -> Tensor:
        """Return the cross-entropy, in nats."""
        return cast(Tensor, model(*self.split_windows(batch)))

    def blocks(self, model: nn.Module) -> Iterable[nn.Module]:
        """Return the transformer's blocks."""
        return cast(nn.ModuleList, model.h)

    def compiled_parts(self, model: nn.Module) -> Iterable[tuple[Any, str]]:
        """Return the head together with the loss."""
        return [(model, "sum_loss")]

    def flops_per_unit(self, model: nn.Module) -> float:
        """Return 6 N + 12 L C T, N without positions (PaLM, appendix B: full attention)."""
        counted = (p.numel() for name, p in model.named_parameters() if not name.startswith("wpe."))
        return 6 * sum(counted) + 12 * self.shape.layers * self.shape.width * self.shape.context

    def batch(self, items: Sequence[int], *, training: bool) -> Tensor:
        """Return the windows of these items, which `split_windows` cuts on the device."""
        return self.tokens.stack_items(items, training=training)

    def split_windows(self, windows: Tensor) -> tuple[Tensor, Tensor]:
        """Return inputs and targets, (items, context) each."""
        tokens = windows.long()
        targets = tokens[:, 1:]
        if self.tokens.masked:
            targets = torch.where(targets < 0, _IGNORED, targets)
            tokens = torch.where(tokens < 0, ~tokens, tokens)
        return tokens[:, :-1], targets

    def count_units(self, batch: Tensor) -> int:
        """Return how many tokens of a batch are targets."""
        targets = batch[:, 1:]
        return int((targets >= 0).sum()) if self.tokens.masked else targets.numel()

    def sample(self, model: nn.Module) -> str | None:
        """Return text that the model writes after `--prompt`, or after the end of a document."""
        config, coder = self.config, self.tokens.tokenizer
        generator = torch.Generator().manual_seed(config.seed)
        first = int(self.tokens.read_item(0, training=True)[0])
        tokens = [max(first, ~first) if coder.end is None else coder.end]
        if config.prompt:
            tokens = [int(token) for token in coder.encode([config.prompt])[0]]
        device = next(model.parameters()).device
        for _ in range(config.sample_tokens):
            seen = torch.tensor([tokens[-self.units_per_item :]], device=device)
            with torch.no_grad():
                logits = model(seen)[0, -1, : coder.vocabulary].float().cpu()
            tokens += torch.multinomial(logits.softmax(0), 1, generator=generator).tolist()
        return coder.decode(tokens if config.prompt else tokens[1:])

    def identity(self) -> Mapping[str, str | int]:
        """Return the model, the length of a sequence, and which tokens are trained on."""
        return {
            "--model": str(self.config.model),
            "--context": self.units_per_item,
            "the tokens of SHA-256": self.tokens.digest,
            "so many items kept for validation:": self.val_items,
        }

    def facts(self) -> Mapping[str, Any]:
        """Return the size of the vocabulary and the digest of the tokens."""
        return {"vocabulary": self.tokens.vocabulary, "data_sha256": self.tokens.digest}


prepare = prepare_text  # under the name by which the trainer asks for it


def load(config: Config) -> Task:
    """Return the task, the tokens open."""
    return Text(config)
