"""Where text comes from: a file, a folder of files, or Python itself; read piece by piece.

A `.jsonl` file has one document a line: `text`, `prompt` and `completion`, or `messages`, the turns
of a chat. Of the latter two only the completion, or what the assistant says, is trained on. Any
other file is one document, in UTF-8.
"""

import hashlib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from ..config import TrainerError

_PIECE = 1 << 18  # bytes: a tokenizer may need a thousand times as many for it
_SUFFIXES = (".txt", ".jsonl")


class Piece(NamedTuple):
    """A piece of a document."""

    text: str
    ends: bool  # whether the document ends with it
    target: bool = True  # whether its tokens are trained on


def read_pieces(data: str | None) -> Iterator[Piece]:
    """Yield the text of --data; TrainerError if it is missing or cannot be read."""
    if data is None:
        yield Piece(_load_python_manual(), ends=True)
        return
    for path in list_files(data):
        yield from _read_documents(path) if path.suffix == ".jsonl" else _read_file(path)


def describe_source(data: str | None) -> dict[str, str]:
    """Return the name of the text and its SHA-256, which does not depend on where the files are."""
    content = hashlib.sha256()
    if data is None:
        content.update(_load_python_manual().encode())
        return {"name": "pydoc_data.topics", "sha256": content.hexdigest()}
    for path in list_files(data):
        with _open(path) as stream:
            while piece := stream.read(_PIECE):
                content.update(piece)
    return {"name": data, "sha256": content.hexdigest()}


def stamp_files(data: str | None) -> list[list[object]]:
    """Return path, size and time of change of each file; while these stay, so does the text."""
    stats = [(path, _open(path).close(), path.stat()) for path in list_files(data)] if data else []
    return [[str(path.resolve()), stat.st_size, stat.st_mtime_ns] for path, _, stat in stats]


def list_files(data: str) -> list[Path]:
    """Return the file, or the texts in the folder by name; TrainerError if there are none."""
    path = Path(data)
    if not path.is_dir():
        return [path]
    files = sorted(each for each in path.iterdir() if each.suffix in _SUFFIXES)
    if not files:
        raise TrainerError(f"--data {path}: this folder has no .txt or .jsonl file")
    return files


def _open(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise TrainerError(f"--data {path}: {error.strerror}") from error


def _read_file(path: Path) -> Iterator[Piece]:
    """Yield the file's text in pieces of whole lines."""
    with _open(path) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
        try:
            while lines := text.readlines(_PIECE):
                yield Piece("".join(lines), ends=False)
        except UnicodeDecodeError as error:
            raise TrainerError(f"--data {path}: not UTF-8 text ({error.reason})") from error
    yield Piece("", ends=True)


def _read_documents(path: Path) -> Iterator[Piece]:
    with _open(path) as stream:
        for number, line in enumerate(stream, start=1):
            try:
                yield from _read_row(json.loads(line))
            except (ValueError, KeyError, TypeError) as error:
                raise TrainerError(
                    f"--data {path}:{number}: write a JSON object with `text`, with `prompt` and "
                    f"`completion`, or with `messages`, each with `role` and `content`"
                ) from error


def _read_row(row: dict[str, Any]) -> Iterator[Piece]:
    if "messages" in row:
        *turns, last = row["messages"]
        for turn in turns:
            yield from _read_turn(turn, ends=False)
        yield from _read_turn(last, ends=True)
    elif "prompt" in row:
        yield Piece(str(row["prompt"]), ends=False, target=False)
        yield Piece(str(row["completion"]), ends=True)
    else:
        yield Piece(str(row["text"]), ends=True)


def _read_turn(turn: dict[str, str], *, ends: bool) -> Iterator[Piece]:
    """Yield a turn as `role: content`, a line for the role and an empty line after the content."""
    yield Piece(f"{turn['role']}:\n", ends=False, target=False)
    yield Piece(f"{turn['content']}\n\n", ends=ends, target=turn["role"] == "assistant")


def _load_python_manual() -> str:
    try:
        from pydoc_data.topics import topics
    except ImportError as error:
        raise TrainerError(
            "this Python has no pydoc_data, the default text; name one with --data"
        ) from error
    return "\n".join(topics[name] for name in sorted(topics))
