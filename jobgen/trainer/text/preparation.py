"""Turning a text into a folder of tokens, in memory that does not grow with the text.

    <folder>/
      tokens.bin      little-endian integers, one after another
      targets.bin     a byte for each token, 1 if it is trained on; only if some are not
      tokenizer.json  what decoding needs
      manifest.json   tokenizer, vocabulary, dtype, source, length and the files' SHA-256

The folder appears whole or not at all.
"""

import hashlib
import json
import math
import os
import shutil
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ...loop import sync
from ..config import Config, TrainerError
from ..output.files import digest, lock
from .source import Piece, describe_source, read_pieces, stamp_files
from .tokenizers import Numbers, Tokenizer, make_tokenizer

MANIFEST, VERSION = "manifest.json", 3
_PIECES_AT_ONCE = 16


def prepare_text(config: Config, *, fetch: bool) -> str | None:
    """Turn the text into tokens, unless the folder already holds them; returns a line about it.

    With `fetch`, the network may be used, and existing tokens are compared with their digests.
    Raises TrainerError if the folder holds another text.
    """
    folder = config.tokens_folder
    manifest = read_manifest(folder)
    if manifest is None:
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Runs that share the folder, as those of an array do, may all start at once.
        with lock(folder.with_name(f".{folder.name}.lock"), patience=math.inf):
            manifest = read_manifest(folder)
            if manifest is None:
                make_tokens(config, config.tokenizer or "char", folder, fetch=fetch)
                return describe_folder(folder)
    _refuse_other_text(config, manifest)
    if not fetch:
        return None
    for path, about in list_token_files(folder, manifest):
        if digest(path) != about["sha256"]:
            raise TrainerError(f"{path} has changed since it was prepared; remove {folder}")
    return f"{describe_folder(folder)}; the files are whole"


def make_tokens(config: Config, name: str, folder: Path, *, fetch: bool = True) -> None:
    """Turn --data into a folder of tokens, in one move; one process at a time may do it.

    Raises TrainerError, and leaves no folder, if the text is shorter than a sequence.
    """
    characters = _collect_characters(config.data) if name == "char" else ""
    coder = make_tokenizer(name, characters=characters, fetch=fetch)
    temporary = folder.with_name(f".tmp-{folder.name}")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    dtype = np.min_scalar_type(coder.vocabulary - 1).newbyteorder("<").str
    files = _write_files(temporary, _encode(read_pieces(config.data), coder), dtype)
    count, context = files["tokens.bin"]["bytes"] // np.dtype(dtype).itemsize, config.context or 1
    if count <= context:
        shutil.rmtree(temporary)
        raise TrainerError(explain_shortage(count, context))
    manifest = {"version": VERSION, "tokenizer": name, "vocabulary": coder.vocabulary}
    manifest |= {"end": coder.end, "dtype": dtype, "tokens": count, "files": files}
    manifest |= {"source": describe_source(config.data), "read": stamp_files(config.data)}
    for path, content in (("tokenizer.json", coder.saved), (MANIFEST, manifest)):
        (temporary / path).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        sync(temporary / path)
    sync(temporary)
    os.rename(temporary, folder)
    sync(folder.parent)


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """Return the manifest of a prepared folder, or None if the folder does not exist."""
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise TrainerError(f"{folder / MANIFEST} cannot be read: {error}") from error
    if manifest.get("version") != VERSION:
        raise TrainerError(f"{folder} was prepared by another version; remove it")
    return manifest


def list_token_files(
    folder: Path, manifest: dict[str, Any]
) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield each file and what the manifest says about it; TrainerError if its size differs."""
    for name, about in manifest["files"].items():
        path = folder / name
        size = path.stat().st_size if path.exists() else 0
        if size != about["bytes"]:
            raise TrainerError(
                f"{path} has {size} bytes instead of {about['bytes']}; remove {folder} to have it "
                f"prepared again"
            )
        yield path, about


def describe_folder(folder: Path) -> str:
    """Return a line about a prepared folder."""
    manifest = read_manifest(folder) or {}
    return (
        f"{folder}: {manifest['tokens']:,} tokens of {manifest['source']['name']}, "
        f"by {manifest['tokenizer']} from a vocabulary of {manifest['vocabulary']:,}"
    )


def explain_shortage(tokens: int, context: int) -> str:
    """Return what is wrong with a text of so few tokens."""
    return (
        f"the text has {tokens} tokens, fewer than one sequence of {context} and its last target; "
        f"choose a longer text or a smaller --context"
    )


def _refuse_other_text(config: Config, manifest: dict[str, Any]) -> None:
    """Raise TrainerError if the tokens are of another text, or by another tokenizer."""
    was, folder = manifest["source"], config.tokens_folder
    other = f"choose another --tokens or --out, or remove {folder}"
    changed = config.data is not None and stamp_files(config.data) != manifest["read"]
    if changed and describe_source(config.data)["sha256"] != was["sha256"]:
        raise TrainerError(
            f"{folder} holds the tokens of {was['name']}, not of --data {config.data}; {other}"
        )
    if config.tokenizer not in (None, manifest["tokenizer"]):
        raise TrainerError(
            f"{folder} was made with --tokenizer {manifest['tokenizer']}, not with "
            f"{config.tokenizer}; {other}"
        )


def _collect_characters(data: str | None) -> str:
    characters: set[str] = set()
    for piece in read_pieces(data):
        characters.update(piece.text)
    if not characters:
        raise TrainerError(f"--data {data}: contains no text")
    return "".join(sorted(characters))


def _encode(pieces: Iterator[Piece], coder: Tokenizer) -> Iterator[tuple[Numbers, bool]]:
    """Yield the pieces as numbers, and whether they are targets; a document ends with its token."""
    end = None if coder.end is None else np.array([coder.end])
    begun = False
    # Tokenizers are faster with several texts at once.
    while group := list(islice(pieces, _PIECES_AT_ONCE)):
        for piece, numbers in zip(group, coder.encode([p.text for p in group]), strict=True):
            if len(numbers):
                yield numbers, piece.target
                begun = True
            if piece.ends and begun and end is not None:
                yield end, piece.target
            begun = begun and not piece.ends


def _write_files(
    folder: Path, parts: Iterable[tuple[Numbers, bool]], dtype: str
) -> dict[str, dict[str, Any]]:
    """Write tokens and, if some are not trained on, targets; returns sizes and digests."""
    paths, masked = (folder / "tokens.bin", folder / "targets.bin"), False
    contents = hashlib.sha256(), hashlib.sha256()
    with paths[0].open("wb") as tokens, paths[1].open("wb") as targets:
        for numbers, target in parts:
            masked = masked or not target
            both = numbers.astype(dtype).tobytes(), bytes([target]) * len(numbers)
            for stream, content, data in zip((tokens, targets), contents, both, strict=True):
                stream.write(data)
                content.update(data)
    if not masked:
        paths[1].unlink()
    files = {}
    for path, content in zip(paths[: 1 + masked], contents, strict=False):
        sync(path)
        files[path.name] = {"bytes": path.stat().st_size, "sha256": content.hexdigest()}
    return files
