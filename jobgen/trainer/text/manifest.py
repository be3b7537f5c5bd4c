"""What a folder of prepared tokens holds, and whether it is as it was written.

    <folder>/
      tokens-00000.bin tokens-00001.bin ...   little-endian integers, one after another
      masks-00000.bin ...   where not all tokens are to be learnt: a byte each, 1 for those that are
      manifest.json   tokenizer, vocabulary, dtype, source, and each file's length and SHA-256
      tokenizer/      the tokenizer's own files, where it has any

The folder appears whole or not at all. Tokens that others have made (.bin) stay where they are: the
manifest names them by their path.
"""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..config import TrainerError
from ..output.files import digest

MANIFEST = "manifest.json"
SAVED_TOKENIZER = "tokenizer"
VERSION = 2


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """Return the manifest of a prepared folder, or None when the folder is not there."""
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise TrainerError(f"{folder / MANIFEST} cannot be read: {error}") from error
    if manifest.get("version") != VERSION:
        raise TrainerError(f"{folder} was prepared by another version; remove it")
    return manifest


def compute_digest(manifest: dict[str, Any]) -> str:
    """Return a digest of the tokens and of what they stand for, wherever they lie."""
    content = [manifest["tokenizer"], manifest.get("characters"), manifest["dtype"]]
    for shard in manifest["shards"]:
        content += [shard["sha256"], *([shard["masks"]["sha256"]] if "masks" in shard else [])]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


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
        f"the text has {tokens} tokens, less than one sequence of {context} and its last target; "
        f"choose a longer text or a smaller --context"
    )


def verify_folder(folder: Path) -> None:
    """Compare the files with their digests; TrainerError when one has changed."""
    for path, about in list_files(folder, read_manifest(folder) or {}):
        if digest(path) != about["sha256"]:
            raise TrainerError(f"{path} has changed since it was prepared; remove {folder}")


def list_files(folder: Path, manifest: dict[str, Any]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield each file with what the manifest says of it; TrainerError for one of another size."""
    width = np.dtype(manifest["dtype"]).itemsize
    for shard in manifest["shards"]:
        sizes = [(shard, shard.get("offset", 0) + shard["tokens"] * width)]
        if "masks" in shard:
            sizes.append((shard["masks"], shard["tokens"]))
        for about, expected in sizes:
            path = folder / about["file"]
            size = path.stat().st_size if path.exists() else 0
            if size != expected:
                raise TrainerError(
                    f"{path} has {size} bytes instead of {expected}; remove {folder} to have it "
                    f"prepared anew"
                )
            yield path, about
