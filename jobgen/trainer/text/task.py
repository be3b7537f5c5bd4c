"""What the tasks on text have in common: windows of tokens, each predicted from those before it."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..config import Config, TrainerError
from ..tasks import Task
from .attention import number_documents
from .tokens import count_targets, open_tokens, stack_items

_IGNORED = -100  # torch's number for a target that does not count


class TextTask(Task):
    """A task whose items are windows of `--context` tokens."""

    unit = "tokens"

    def __init__(self, config: Config) -> None:
        """Open the tokens; raises TrainerError when they are damaged or too few."""
        assert config.context is not None, "the defaults of a task on text have it"
        self.config = config
        self.tokens = open_tokens(config)
        self.units_per_item, self.counted = config.context, self.tokens.masked
        self.train_items, self.val_items = self.tokens.train_items, self.tokens.val_items
        if config.mask_documents and self.tokens.end is None:
            raise TrainerError(
                "--mask-documents: this tokenizer has no token that ends a document; use "
                "--tokenizer byte, or a model's"
            )
        # Now, as it would be a pity to learn at the end of the run that it cannot be encoded.
        self.prompt = (
            [int(token) for token in self.tokens.tokenizer.encode([config.prompt])[0]]
            if config.prompt
            else []
        )

    def batch(self, items: Sequence[int], *, training: bool) -> Tensor:
        """Return the windows of these items, which `split_windows` cuts on the device."""
        return stack_items(self.tokens, items, training=training)

    def split_windows(self, windows: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return inputs, targets and the inputs' documents, (items, context) each.

        Documents are None unless --mask-documents asks for them.
        """
        tokens = windows.long()
        targets = tokens[:, 1:]
        if self.tokens.masked:
            targets = torch.where(targets < 0, _IGNORED, targets)
            tokens = torch.where(tokens < 0, ~tokens, tokens)
        inputs, documents = tokens[:, :-1], None
        if self.config.mask_documents:
            assert self.tokens.end is not None
            documents = number_documents(inputs, self.tokens.end)
        return inputs, targets, documents

    def count_units(self, items: Sequence[int], *, training: bool) -> int:
        """Return how many tokens of these items are targets."""
        if not self.tokens.masked:
            return len(items) * self.units_per_item
        return count_targets(self.tokens, items, training=training)

    def parts(self) -> Sequence[tuple[int, int]]:
        """Return items and weight of each folder of tokens."""
        return self.tokens.parts()

    def logits(self, model: nn.Module, tokens: Tensor) -> Tensor:
        """Return the model's logits (rows, time, vocabulary or more) of what follows each token."""
        raise NotImplementedError

    def sample(self, model: nn.Module) -> str | None:
        """Return text that the model writes after `--prompt`, or after the end of a document."""
        config, chance = self.config, torch.Generator().manual_seed(self.config.seed)
        if not config.sample_tokens:
            return None
        try:
            coder = self.tokens.tokenizer
        except TrainerError as error:
            return f"none, as its tokens cannot be read: {error}"
        first = int(self.tokens.read_window(0)[0])
        start = [max(first, ~first) if coder.end is None else coder.end]
        tokens = self.prompt or start
        device = next(model.parameters()).device
        for _ in range(config.sample_tokens):
            seen = torch.tensor([tokens[-self.units_per_item :]], device=device)
            with torch.no_grad():
                logits = self.logits(model, seen)[0, -1, : coder.vocabulary].float().cpu()
            tokens = [*tokens, int(torch.multinomial(logits.softmax(0), 1, generator=chance))]
        return coder.decode(tokens if self.prompt else tokens[1:])

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
