"""Prepared tokens as items: windows of `context + 1` tokens that do not overlap.

A window's inputs are all its tokens but the last, its targets all but the first. Few windows are
kept for validation, evenly over the text: at most a hundredth, and no more than are wanted.
"""

import hashlib
import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..config import TrainerError
from .preparation import explain_shortage, list_token_files, read_manifest
from .tokenizers import Tokenizer, load_tokenizer

_MOST_VALIDATION = 100  # one window of so many


class Tokens:
    """The tokens in a prepared folder, as windows of a context."""

    def __init__(self, folder: Path, context: int, *, val_items: int) -> None:
        """Open the folder; TrainerError if it is not prepared, damaged in size, or too short."""
        manifest = read_manifest(folder)
        if manifest is None:
            raise TrainerError(f"{folder}: not a folder of prepared tokens; `prepare` makes one")
        paths = {path.name: path for path, _ in list_token_files(folder, manifest)}
        self._folder, self._length = folder, context + 1
        self.vocabulary, self.end = int(manifest["vocabulary"]), manifest["end"]
        # A view of an array, which is cut five times as fast as a memory map.
        self._tokens = np.memmap(paths["tokens.bin"], manifest["dtype"], "r").view(np.ndarray)
        masks = paths.get("targets.bin")
        self._targets = np.memmap(masks, np.uint8, "r").view(np.ndarray) if masks else None
        self.masked = self._targets is not None
        content = [manifest["tokenizer"], manifest["vocabulary"], manifest["dtype"]]
        content += [about["sha256"] for about in manifest["files"].values()]
        self.digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()
        self.windows = len(self._tokens) // self._length
        self.val_items = min(self.windows // _MOST_VALIDATION, val_items)
        self.train_items = self.windows - self.val_items
        if not self.windows:
            raise TrainerError(explain_shortage(manifest["tokens"], context))

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """What the tokens were made with; TrainerError if its library is missing."""
        return load_tokenizer(json.loads((self._folder / "tokenizer.json").read_text("utf-8")))

    def read_item(self, item: int, *, training: bool) -> NDArray[np.int32]:
        """Return the tokens of an item; one that is not a target as its complement, below 0."""
        number = find_window(item, windows=self.windows, val=self.val_items, training=training)
        window = slice(number * self._length, (number + 1) * self._length)
        tokens = self._tokens[window].astype(np.int32)
        if self._targets is not None:
            np.invert(tokens, out=tokens, where=self._targets[window] == 0)
        return tokens

    def stack_items(self, items: Sequence[int], *, training: bool) -> Tensor:
        """Return the windows of these items, (items, context + 1), as 32-bit integers."""
        rows = [self.read_item(item, training=training) for item in items]
        return torch.from_numpy(np.stack(rows))


def find_window(item: int, *, windows: int, val: int, training: bool) -> int:
    """Return the window that an item is: the last one of each of `val` equal stretches validates.

    So both are of the same kind, which two ends of one text need not be.
    """
    stretch = windows // val if val else windows
    if not training:
        return item * stretch + stretch - 1
    return item + min(item // (stretch - 1), val) if val else item
