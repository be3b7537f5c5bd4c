"""What the tasks on text have in common: windows of tokens, each predicted from those before it."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ...config import Config, TrainerError
from ...files import alone
from .. import Task
from .hub import let_fetch
from .source import Source
from .tokens import Tokens, describe, make, read_manifest, verify


class TextTask(Task):
    """A task whose items are windows of `--context` tokens."""

    unit = "tokens"

    def __init__(self, config: Config) -> None:
        """Open the tokens; raises TrainerError when they are damaged or too few."""
        assert config.context is not None, "the defaults of a task on text have it"
        self.config = config
        self.tokens = Tokens(config.tokens_folder, config.context)
        self.units_per_item = config.context
        self.train_items, self.val_items = self.tokens.train_items, self.tokens.val_items
        # Now, as it would be a pity to learn at the end of the run that it cannot be encoded.
        self.prompt = (
            [int(token) for token in self.tokens.tokenizer.encode([config.prompt])[0]]
            if config.prompt
            else []
        )

    def batch(self, items: Sequence[int], *, training: bool) -> tuple[Tensor, ...]:
        """Return inputs and targets, both (items, context)."""
        return self.tokens.batch(items, training=training)

    def scores(self, model: nn.Module, tokens: Tensor) -> Tensor:
        """Return the model's scores (rows, time, vocabulary or more) of what follows each token."""
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
        start = [int(self.tokens.window(0)[0]) if coder.end is None else coder.end]
        tokens = self.prompt or start
        device = next(model.parameters()).device
        for _ in range(config.sample_tokens):
            seen = torch.tensor([tokens[-self.units_per_item :]], device=device)
            with torch.no_grad():
                scores = self.scores(model, seen)[0, -1, : coder.vocabulary].float().cpu()
            tokens = [*tokens, int(torch.multinomial(scores.softmax(0), 1, generator=chance))]
        return coder.decode(tokens if self.prompt else tokens[1:])

    def identity(self) -> Mapping[str, str | int]:
        """Return the model, the length of a sequence, and a digest of the tokens."""
        return {
            "--model": str(self.config.model),
            "--context": self.units_per_item,
            "the tokens of SHA-256": self.tokens.digest,
        }

    def facts(self) -> Mapping[str, Any]:
        """Return the size of the vocabulary and the digest of the tokens."""
        return {"vocabulary": self.tokens.vocabulary, "data_sha256": self.tokens.digest}


def prepare_text(config: Config, *, tokenizer: str, fetch: bool) -> str | None:
    """Turn the text into tokens, unless the folder already holds them.

    `tokenizer` is the one to take when none is asked for. With `fetch` the network may be used,
    and tokens that are there are compared with their digests. Returns a line about new or compared
    ones. Raises TrainerError when the folder holds another text, or the same made with another
    tokenizer.
    """
    let_fetch(fetch)
    folder, source = config.tokens_folder, Source(config.data)
    if read_manifest(folder) is None:
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Runs that share them, as those of an array, may all find nothing at once.
        with alone(folder.with_name(f".{folder.name}.lock"), patience=math.inf):
            if read_manifest(folder) is None:
                make(source, config.tokenizer or tokenizer, folder)
                return describe(folder)
    manifest = read_manifest(folder)
    assert manifest is not None
    was, other = manifest["source"], f"choose another --tokens or --out, or remove {folder}"
    if config.data is not None:
        now = source.facts()
        if was.get("sha256", was["name"]) != now.get("sha256", now["name"]):
            raise TrainerError(
                f"{folder} holds the tokens of {was['name']}, not of --data {config.data}; {other}"
            )
    if config.tokenizer not in (None, manifest["tokenizer"]):
        raise TrainerError(
            f"{folder} was made with --tokenizer {manifest['tokenizer']}, not with "
            f"{config.tokenizer}; {other}"
        )
    if fetch:
        verify(folder)
        return f"{describe(folder)}; whole"
    return None
