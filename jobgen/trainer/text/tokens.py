"""Prepared tokens as items: windows of `context + 1` tokens that share none.

A window's inputs are all its tokens but the last, its targets all but the first. Few windows are
withheld for validation, evenly over the text: a hundredth at most, and no more than are wanted.
"""

from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..config import Config, TrainerError
from .manifest import (
    SAVED_TOKENIZER,
    compute_digest,
    explain_shortage,
    list_files,
    read_manifest,
)
from .tokenizers import Tokenizer, make_tokenizer

_VALIDATING_AT_MOST = 100  # one window of so many


class Tokens:
    """The tokens in a prepared folder, as windows of a context."""

    def __init__(self, folder: Path, context: int, *, val_items: int) -> None:
        """Open the folder; TrainerError when it is none, damaged in size, or too short."""
        manifest = read_manifest(folder)
        if manifest is None:
            raise TrainerError(f"{folder}: not a folder of prepared tokens; `prepare` makes one")
        self._folder, self._manifest = folder, manifest
        self.vocabulary = int(manifest["vocabulary"])
        self.end: int | None = manifest["end"]
        self.digest = compute_digest(manifest)
        self._length = context + 1
        self.masked = any("masks" in shard for shard in manifest["shards"])
        self._files: list[NDArray[np.integer]] = []
        self._masks: list[NDArray[np.uint8] | None] = []
        for _ in list_files(folder, manifest):
            pass  # refuses files of another size
        for shard in manifest["shards"]:
            self._files.append(
                np.memmap(
                    folder / shard["file"],
                    dtype=manifest["dtype"],
                    mode="r",
                    offset=shard.get("offset", 0),
                    shape=(shard["tokens"],),
                ).view(np.ndarray)  # which is cut five times as fast
            )
            masks = shard.get("masks")
            self._masks.append(np.memmap(folder / masks["file"], np.uint8, "r") if masks else None)
        # The number of the first window of each file, and of the one after the last.
        counts = (len(file) // self._length for file in self._files)
        self._firsts = list(accumulate(counts, initial=0))
        self.windows = self._firsts[-1]
        self.val_items = min(self.windows // _VALIDATING_AT_MOST, val_items)
        self.train_items = self.windows - self.val_items
        if not self.windows:
            raise TrainerError(explain_shortage(manifest["tokens"], context))

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """What the tokens were made with; TrainerError when its library is not there."""
        name, saved = self._manifest["tokenizer"], self._folder / SAVED_TOKENIZER
        if saved.is_dir():
            name = f"hf:{saved}"
        return make_tokenizer(name, characters=self._manifest.get("characters"))

    @property
    def tokenizer_name(self) -> str:
        """The tokenizer as `--tokenizer` had it."""
        return str(self._manifest["tokenizer"])

    def read_item(self, item: int, *, training: bool) -> NDArray[np.int32]:
        """Return the tokens of an item; one that is not to be learnt as its complement, below 0."""
        number = place_window(item, windows=self.windows, val=self.val_items, training=training)
        return self.read_window(number)

    def read_window(self, number: int) -> NDArray[np.int32]:
        """Return the tokens of a window, as `read_item` does; reads nothing but them."""
        file = bisect_right(self._firsts, number) - 1
        start = (number - self._firsts[file]) * self._length
        tokens = self._files[file][start : start + self._length].astype(np.int32)
        masks = self._masks[file]
        if masks is not None:
            np.invert(tokens, out=tokens, where=masks[start : start + self._length] == 0)
        return tokens

    def parts(self) -> list[tuple[int, int]]:
        """Return one part: all items, of any weight."""
        return [(self.train_items, 1)]


class Mixture:
    """Several prepared folders, from which items are drawn in proportion to weights."""

    def __init__(self, mix: Sequence[str], context: int, *, val_items: int) -> None:
        """Open the folders; TrainerError when one cannot be, or they differ in kind."""
        folders, weights = zip(*(part.rsplit("=", 1) for part in mix), strict=True)
        self.weights = [int(weight) for weight in weights]
        wanted = [-(-val_items * weight // sum(self.weights)) for weight in self.weights]
        self.members = [
            Tokens(Path(folder), context, val_items=most)
            for folder, most in zip(folders, wanted, strict=True)
        ]
        first = self.members[0]
        for folder, member in zip(folders, self.members, strict=True):
            if member.tokenizer_name != first.tokenizer_name or (
                member.tokenizer_name == "char"
                and member.tokenizer.decode(range(member.vocabulary))
                != first.tokenizer.decode(range(first.vocabulary))
            ):
                raise TrainerError(
                    f"--mix: {folder} was made with the tokenizer {member.tokenizer_name}, "
                    f"{folders[0]} with {first.tokenizer_name}, or of other characters; prepare "
                    f"them with the same"
                )
        self.vocabulary, self.end, self.tokenizer = first.vocabulary, first.end, first.tokenizer
        self.digest = " ".join(member.digest for member in self.members)
        self.masked = any(member.masked for member in self.members)
        self.train_items = sum(member.train_items for member in self.members)
        self.val_items = sum(member.val_items for member in self.members)

    def read_item(self, item: int, *, training: bool) -> NDArray[np.int32]:
        """Return the tokens of an item; items are numbered through the folders."""
        for member in self.members:
            count = member.train_items if training else member.val_items
            if item < count:
                return member.read_item(item, training=training)
            item -= count
        raise IndexError(item)

    def read_window(self, number: int) -> NDArray[np.int32]:
        """Return the tokens of a window of the first folder."""
        return self.members[0].read_window(number)

    def parts(self) -> list[tuple[int, int]]:
        """Return each folder's items and weight."""
        counts = (member.train_items for member in self.members)
        return list(zip(counts, self.weights, strict=True))


def open_tokens(config: Config) -> Tokens | Mixture:
    """Return the prepared tokens that the settings name."""
    assert config.context is not None, "the defaults of a task on text have it"
    wanted = config.val_items if config.val_every else 0
    if config.mix:
        return Mixture(config.mix, config.context, val_items=wanted)
    return Tokens(config.tokens_folder, config.context, val_items=wanted)


def place_window(item: int, *, windows: int, val: int, training: bool) -> int:
    """Return the window that an item is: the last one of each of `val` equal stretches validates.

    So both are of the same kind, which two ends of one text need not be.
    """
    stretch = windows // val if val else windows
    if not training:
        return item * stretch + stretch - 1
    return item + min(item // (stretch - 1), val) if val else item


def stack_items(tokens: Tokens | Mixture, items: Sequence[int], *, training: bool) -> Tensor:
    """Return the windows of these items, (items, context + 1), as 32-bit integers in one piece."""
    return torch.from_numpy(np.stack([tokens.read_item(i, training=training) for i in items]))


def count_targets(tokens: Tokens | Mixture, items: Sequence[int], *, training: bool) -> int:
    """Return how many tokens of these items are to be learnt."""
    return sum(
        int(np.count_nonzero(tokens.read_item(item, training=training)[1:] >= 0)) for item in items
    )
