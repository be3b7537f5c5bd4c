"""Turning a text into a folder of tokens, in memory that does not grow with the text."""

import hashlib
import json
import math
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..config import Config, TrainerError
from ..output.files import alone, sync
from .hub import let_fetch
from .manifest import (
    MANIFEST,
    SAVED_TOKENIZER,
    VERSION,
    describe_folder,
    explain_shortage,
    read_manifest,
    verify_folder,
)
from .source import Piece, Source, open_file
from .tokenizers import Numbers, Tokenizer, make_tokenizer

_SHARD_TOKENS = 100_000_000
_CHARACTERS_AT_ONCE = 1 << 17
_PIECES_AT_ONCE = 1024
_BYTES_AT_ONCE = 1 << 22
# The first of 256 numbers of 32 bits at the start of a file that llm.c has made.
_LLM_C = {20240520: "<u2", 20240801: "<u4"}


def prepare_text(config: Config, *, tokenizer: str, fetch: bool) -> str | None:
    """Turn the text into tokens, unless the folder already holds them.

    `tokenizer` is the one to take when none is asked for. With `fetch` the network may be used,
    and tokens that are there are compared with their digests. Returns a line about new or compared
    ones. Raises TrainerError when the folder holds another text, or the same made with another
    tokenizer.
    """
    let_fetch(fetch)
    if config.mix:
        return None  # Each folder has been prepared for itself.
    folder, source = config.tokens_folder, Source(config.data)
    if read_manifest(folder) is None:
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Runs that share them, as those of an array, may all find nothing at once.
        with alone(folder.with_name(f".{folder.name}.lock"), patience=math.inf):
            if read_manifest(folder) is None:
                make_tokens(
                    source, config.tokenizer or tokenizer, folder, context=config.context or 1
                )
                return describe_folder(folder)
    manifest = read_manifest(folder)
    assert manifest is not None
    refuse_other_text(config, manifest)
    if fetch:
        verify_folder(folder)
        return f"{describe_folder(folder)}; whole"
    return None


def refuse_other_text(config: Config, manifest: dict[str, Any]) -> None:
    """Raise TrainerError when the folder was made of another text, or by another tokenizer."""
    folder, source = config.tokens_folder, Source(config.data)
    was, other = manifest["source"], f"choose another --tokens or --out, or remove {folder}"
    # Files of the same size and time are not read again.
    if config.data is not None and (not source.stamps() or source.stamps() != was.get("files")):
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


def make_tokens(
    source: Source,
    tokenizer: str,
    folder: Path,
    *,
    context: int = 1,
    shard_tokens: int = _SHARD_TOKENS,
) -> None:
    """Turn a text into a folder of tokens, in one move; one process only may do it at a time.

    TrainerError, and no folder, when the text is shorter than a sequence of this context.
    """
    ready = source.list_token_files()
    manifest: dict[str, Any] = {"version": VERSION, "tokenizer": tokenizer}
    if tokenizer == "char":
        if ready:
            raise TrainerError(
                f"--data {source.data}: say with --tokenizer what these tokens were made with"
            )
        manifest["characters"] = _collect_characters(source)
    coder = make_tokenizer(tokenizer, characters=manifest.get("characters"))
    temporary = folder.with_name(f".tmp-{folder.name}")
    if temporary.exists():
        shutil.rmtree(temporary)
    temporary.mkdir(parents=True)
    if ready:
        shards, dtype = _adopt_files(ready, coder.vocabulary)
    else:
        dtype = np.min_scalar_type(coder.vocabulary - 1).newbyteorder("<").str
        shards = _write_shards(
            temporary, _encode_pieces(source.pieces(), coder), dtype, shard_tokens
        )
    if not shards:
        raise TrainerError(f"--data {source.data}: there is no text in it")
    tokens = sum(shard["tokens"] for shard in shards)
    if tokens <= context:
        shutil.rmtree(temporary)
        raise TrainerError(explain_shortage(tokens, context))
    manifest |= {
        "vocabulary": coder.vocabulary,
        "end": coder.end,
        "dtype": dtype,
        "tokens": tokens,
        "source": source.facts(),
        "shards": shards,
    }
    coder.save(temporary / SAVED_TOKENIZER)
    (temporary / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    sync(temporary / MANIFEST)
    sync(temporary)
    os.rename(temporary, folder)
    sync(folder.parent)


def _collect_characters(source: Source) -> str:
    """Return the distinct characters of a text, sorted."""
    characters: set[str] = set()
    for piece in source.pieces():
        characters.update(piece.text)
    if not characters:
        raise TrainerError(f"--data {source.data}: there is no text in it")
    return "".join(sorted(characters))


def _encode_pieces(pieces: Iterator[Piece], coder: Tokenizer) -> Iterator[tuple[Numbers, bool]]:
    """Yield the pieces as numbers, and whether they are to be learnt.

    The end of a document is marked where the tokenizer can.
    """
    end = None if coder.end is None else np.array([coder.end])
    begun = False
    for some in _group_pieces(pieces):
        texts = iter(coder.encode([piece.text for piece in some if piece.numbers is None]))
        for piece in some:
            ready = piece.numbers
            numbers = next(texts) if ready is None else np.asarray(ready, dtype=np.int64)
            if len(numbers):
                yield numbers, piece.learnt
                begun = True
            if piece.ends and begun and end is not None:
                yield end, piece.learnt
            begun = begun and not piece.ends


def _group_pieces(pieces: Iterator[Piece]) -> Iterator[list[Piece]]:
    """Yield the pieces in groups, as tokenizers are faster with several, of bounded length."""
    group: list[Piece] = []
    length = 0
    for piece in pieces:
        group.append(piece)
        length += len(piece.text)
        if length >= _CHARACTERS_AT_ONCE or len(group) >= _PIECES_AT_ONCE:
            yield group
            group, length = [], 0
    if group:
        yield group


class _ShardWriter:
    """Writes one file of tokens and, where some are not to be learnt, one of masks beside it."""

    def __init__(self, folder: Path, number: int, dtype: str) -> None:
        self._path = folder / f"tokens-{number:05d}.bin"
        self._masks = folder / f"masks-{number:05d}.bin"
        self._dtype, self._stream, self._content = dtype, self._path.open("wb"), hashlib.sha256()
        self._runs: list[tuple[int, bool]] = []
        self.tokens = 0

    def write(self, numbers: Numbers, *, learnt: bool) -> None:
        """Add these tokens."""
        data = numbers.astype(self._dtype).tobytes()
        self._stream.write(data)
        self._content.update(data)
        self.tokens += len(numbers)
        if self._runs and self._runs[-1][1] == learnt:
            self._runs[-1] = self._runs[-1][0] + len(numbers), learnt
        else:
            self._runs.append((len(numbers), learnt))

    def close(self) -> dict[str, Any]:
        """Return what the file holds, now that it is on disk."""
        self._stream.close()
        sync(self._path)
        about: dict[str, Any] = {"file": self._path.name, "tokens": self.tokens}
        about["sha256"] = self._content.hexdigest()
        if not all(learnt for _, learnt in self._runs):
            content = hashlib.sha256()
            with self._masks.open("wb") as stream:
                for length, learnt in self._runs:
                    data = bytes([learnt]) * length
                    stream.write(data)
                    content.update(data)
            sync(self._masks)
            about["masks"] = {"file": self._masks.name, "sha256": content.hexdigest()}
        return about


def _write_shards(
    folder: Path, parts: Iterable[tuple[Numbers, bool]], dtype: str, shard_tokens: int
) -> list[dict[str, Any]]:
    """Write the parts one after another into files of this length; returns what they hold."""
    shards: list[dict[str, Any]] = []
    writer: _ShardWriter | None = None
    for part, learnt in parts:
        rest = part
        while len(rest):
            writer = writer or _ShardWriter(folder, len(shards), dtype)
            room = shard_tokens - writer.tokens
            writer.write(rest[:room], learnt=learnt)
            rest = rest[room:]
            if writer.tokens == shard_tokens:
                shards.append(writer.close())
                writer = None
    return [*shards, writer.close()] if writer else shards


def _adopt_files(files: list[Path], vocabulary: int) -> tuple[list[dict[str, Any]], str]:
    """Return what files of tokens hold that others have made; they stay where they are.

    Numbers of 16 bits, or of 32 where the vocabulary needs them; a header of llm.c is skipped.
    """
    dtype = "<u2" if vocabulary <= 1 << 16 else "<u4"
    shards = []
    for path in files:
        with open_file(path) as stream:
            header = np.frombuffer(stream.read(4), dtype="<i4")
        offset = 0
        if len(header) and int(header[0]) in _LLM_C:
            dtype, offset = _LLM_C[int(header[0])], 1024
        width, content, largest = np.dtype(dtype).itemsize, hashlib.sha256(), 0
        with open_file(path) as stream:
            content.update(stream.read(offset))
            while data := stream.read(_BYTES_AT_ONCE):
                content.update(data)
                if len(data) % width:
                    raise TrainerError(f"--data {path}: not whole numbers of {8 * width} bits")
                largest = max(largest, int(np.frombuffer(data, dtype=dtype).max()))
        if largest >= vocabulary:
            raise TrainerError(
                f"--data {path}: token {largest} is not in the vocabulary of {vocabulary}; choose "
                f"the --tokenizer it was made with"
            )
        tokens = (path.stat().st_size - offset) // width
        about = {"file": str(path.resolve()), "tokens": tokens, "sha256": content.hexdigest()}
        shards.append(about | ({"offset": offset} if offset else {}))
    return shards, dtype
