"""Prepared text: token numbers in memory-mapped files, with a manifest of their digests.

    <folder>/
      tokens-00000.bin tokens-00001.bin ...   little-endian integers, one after another
      manifest.json   tokenizer, vocabulary, dtype, source, and each file's length and SHA-256
      tokenizer/      the tokenizer's own files, where it has any

The folder appears whole or not at all. Each file is cut into windows of `context + 1` tokens that
share none: a window is one item, its inputs all tokens but the last, its targets all but the first.
"""

import hashlib
import json
import os
import shutil
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...config import TrainerError
from ...files import digest, sync
from .source import Piece, Source
from .tokenizers import Numbers, Tokenizer, tokenizer

_MANIFEST = "manifest.json"
_SAVED = "tokenizer"
_VERSION = 1
_SHARD_TOKENS = 100_000_000
_TENTH = 10
_PIECES_AT_ONCE = 64


class Tokens:
    """The tokens in a prepared folder, as windows of a context."""

    def __init__(self, folder: Path, context: int) -> None:
        """Open the folder; TrainerError when it is none, damaged in size, or too short."""
        manifest = read_manifest(folder)
        if manifest is None:
            raise TrainerError(f"{folder}: not a folder of prepared tokens")
        self._folder = folder
        self._manifest = manifest
        self.vocabulary = int(manifest["vocabulary"])
        self.digest = content_digest(manifest)
        self._length = context + 1
        self._files = [
            np.memmap(path, dtype=manifest["dtype"], mode="r", shape=(shard["tokens"],))
            for path, shard in _whole_files(folder, manifest)
        ]
        # The number of the first window of each file, and of the one after the last.
        counts = (len(file) // self._length for file in self._files)
        self._firsts = list(accumulate(counts, initial=0))
        windows = self._firsts[-1]
        self.val_items = windows // _TENTH
        self.train_items = windows - self.val_items
        if not self.val_items:
            raise TrainerError(
                f"the text has {manifest['tokens']} tokens, less than ten sequences of {context}; "
                f"choose a longer text or a smaller --context"
            )

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """What the tokens were made with; TrainerError when its library is not there."""
        name, saved = self._manifest["tokenizer"], self._folder / _SAVED
        if saved.is_dir():
            name = f"hf:{saved}"
        return tokenizer(name, characters=self._manifest.get("characters"))

    def batch(self, items: Iterable[int], *, training: bool) -> tuple[Tensor, Tensor]:
        """Return inputs and targets, both (items, context), int64."""
        rows = np.stack([self.window(window_of(item, training=training)) for item in items])
        numbers = torch.from_numpy(rows.astype(np.int64))
        return numbers[:, :-1], numbers[:, 1:]

    def window(self, number: int) -> NDArray[np.integer[Any]]:
        """Return the tokens of a window; reads nothing but them."""
        file = bisect_right(self._firsts, number) - 1
        start = (number - self._firsts[file]) * self._length
        return self._files[file][start : start + self._length]


def window_of(item: int, *, training: bool) -> int:
    """Return the window that an item is: every tenth window validates.

    So both are of the same kind, which two ends of one text need not be.
    """
    if training:
        return item + item // (_TENTH - 1)
    return item * _TENTH + _TENTH - 1


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """Return the manifest of a prepared folder, or None when there is no such folder."""
    try:
        manifest: dict[str, Any] = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise TrainerError(f"{folder / _MANIFEST} cannot be read: {error}") from error
    if manifest.get("version") != _VERSION:
        raise TrainerError(f"{folder} was prepared by another version; remove it")
    return manifest


def content_digest(manifest: dict[str, Any]) -> str:
    """Return a digest of the tokens and of what they stand for, wherever they lie."""
    content = [manifest["tokenizer"], manifest.get("characters"), manifest["dtype"]]
    content += [shard["sha256"] for shard in manifest["shards"]]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def describe(folder: Path) -> str:
    """Return a line about a prepared folder."""
    manifest = read_manifest(folder) or {}
    return (
        f"{folder}: {manifest['tokens']:,} tokens of {manifest['source']['name']}, "
        f"by {manifest['tokenizer']} from a vocabulary of {manifest['vocabulary']:,}"
    )


def verify(folder: Path) -> None:
    """Compare the files with their digests; TrainerError when one has changed."""
    for path, shard in _whole_files(folder, read_manifest(folder) or {}):
        if digest(path) != shard["sha256"]:
            raise TrainerError(f"{path} has changed since it was prepared; remove {folder}")


def make(
    source: Source, tokenizer_name: str, folder: Path, *, shard_tokens: int = _SHARD_TOKENS
) -> None:
    """Turn a text into a folder of tokens, in one move; one process only may do it at a time."""
    manifest: dict[str, Any] = {"version": _VERSION, "tokenizer": tokenizer_name}
    characters = None
    if tokenizer_name == "char":
        characters = "".join(sorted(set().union(*(text for text, _ in source.pieces()))))
        if not characters:
            raise TrainerError(f"--data {source.data}: there is no text in it")
        manifest["characters"] = characters
    coder = tokenizer(tokenizer_name, characters=characters)
    dtype = np.min_scalar_type(coder.vocabulary - 1).newbyteorder("<")
    temporary = folder.with_name(f".tmp-{folder.name}")
    if temporary.exists():
        shutil.rmtree(temporary)
    temporary.mkdir(parents=True)
    numbers = (part.astype(dtype) for part in _encoded(source.pieces(), coder))
    shards = _write(temporary, numbers, shard_tokens)
    manifest |= {
        "vocabulary": coder.vocabulary,
        "dtype": dtype.str,
        "tokens": sum(shard["tokens"] for shard in shards),
        "source": source.facts(),
        "shards": shards,
    }
    if not shards:
        raise TrainerError(f"--data {source.data}: there is no text in it")
    coder.save(temporary / _SAVED)
    (temporary / _MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    sync(temporary / _MANIFEST)
    sync(temporary)
    os.rename(temporary, folder)
    sync(folder.parent)


def _encoded(pieces: Iterator[Piece], coder: Tokenizer) -> Iterator[Numbers]:
    """Yield the pieces as numbers, the end of a document marked where the tokenizer can."""
    end = None if coder.end is None else np.array([coder.end])
    begun = False
    while some := list(islice(pieces, _PIECES_AT_ONCE)):
        for numbers, (_, ends) in zip(coder.encode([text for text, _ in some]), some, strict=True):
            if len(numbers):
                yield numbers
                begun = True
            if ends and begun and end is not None:
                yield end
            begun = begun and not ends


def _write(folder: Path, parts: Iterator[Numbers], shard_tokens: int) -> list[dict[str, Any]]:
    """Write the parts one after another into files of this length; returns what they hold."""
    shards: list[dict[str, Any]] = []
    rest = next(parts, None)
    while rest is not None:
        path = folder / f"tokens-{len(shards):05d}.bin"
        content = hashlib.sha256()
        room = shard_tokens
        with path.open("wb") as stream:
            while rest is not None and room:
                part, rest = rest[:room], rest[room:]
                data = part.tobytes()
                stream.write(data)
                content.update(data)
                room -= len(part)
                if not len(rest):
                    rest = next(parts, None)
        sync(path)
        shards.append(
            {"file": path.name, "tokens": shard_tokens - room, "sha256": content.hexdigest()}
        )
    return shards


def _whole_files(folder: Path, manifest: dict[str, Any]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield each file with what the manifest says of it; TrainerError for one of another size."""
    width = np.dtype(manifest["dtype"]).itemsize
    for shard in manifest["shards"]:
        path = folder / shard["file"]
        size = path.stat().st_size if path.exists() else 0
        if size != shard["tokens"] * width:
            raise TrainerError(
                f"{path} has {size} bytes instead of {shard['tokens'] * width}; remove {folder} "
                f"to have it prepared anew"
            )
        yield path, shard
