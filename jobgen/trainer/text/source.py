"""Where text comes from: files, folders of them, data sets of Hugging Face, or Python itself.

Read piece by piece, so that a text may be larger than the memory. A `.jsonl` file has one document
a line: in the field `text`, or as `prompt` and `completion`, of which only the completion is to be
learnt. Any other file is one document, in UTF-8.
"""

import codecs
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from ..config import TrainerError

_PIECE = 1 << 18  # bytes: a tokenizer may need a thousand times as many for it
_TEXTS = (".txt", ".jsonl")


class Piece(NamedTuple):
    """A piece of a document."""

    text: str
    ends: bool  # whether the document ends with it
    learnt: bool = True  # whether its tokens are targets
    numbers: Sequence[int] | None = None  # tokens already made, instead of the text


@dataclass(frozen=True)
class Source:
    """The text that `--data` names; without a name, the manual that ships inside Python."""

    data: str | None

    def pieces(self) -> Iterator[Piece]:
        """Yield the text; TrainerError when it is missing or cannot be read."""
        if self.data is None:
            yield Piece(_load_python_manual(), ends=True)
        elif self.data.startswith("hf:"):
            from .hub import read_rows

            yield from _convert_rows(read_rows(self.data.removeprefix("hf:")), self.data)
        elif is_data_set(Path(self.data)):
            from .hub import read_rows_on_disk

            yield from _convert_rows(read_rows_on_disk(Path(self.data)), self.data)
        else:
            for path in self._files():
                yield from _read_documents(path) if path.suffix == ".jsonl" else _read_file(path)

    def facts(self) -> dict[str, Any]:
        """Return what tells this text from another: its name and, where it can be had, a digest.

        The digest does not depend on where the files lie. Beside it stand the files' sizes and
        times: as long as these are the same, the text need not be read again.
        """
        if self.data is None:
            content = hashlib.sha256(_load_python_manual().encode())
            return {"name": "pydoc_data.topics", "sha256": content.hexdigest()}
        if self.data.startswith("hf:") or is_data_set(Path(self.data)):
            return {"name": self.data}
        content = hashlib.sha256()
        for path in self._files():
            with open_file(path) as stream:
                while piece := stream.read(_PIECE):
                    content.update(piece)
        return {"name": self.data, "sha256": content.hexdigest(), "files": self.stamps()}

    def stamps(self) -> list[list[object]]:
        """Return path, size and time of change of each file; none where there are no files."""
        if self.data is None or self.data.startswith("hf:") or is_data_set(Path(self.data)):
            return []
        stats = []
        for path in self._files():
            with open_file(path):  # says clearly what is wrong with it
                stat = path.stat()
            stats.append([str(path.resolve()), stat.st_size, stat.st_mtime_ns])
        return stats

    def list_token_files(self) -> list[Path]:
        """Return the files of tokens (.bin) that `--data` names; none where it names a text."""
        path = Path(self.data or "")
        if path.suffix == ".bin":
            return [path]
        return sorted(path.glob("*.bin")) if self.data and path.is_dir() else []

    def _files(self) -> list[Path]:
        path = Path(self.data or "")
        if not path.is_dir():
            return [path]
        if ready := self.list_token_files():
            return ready
        files = sorted(each for each in path.iterdir() if each.suffix in _TEXTS)
        if not files:
            raise TrainerError(f"--data {path}: no .txt, .jsonl or .bin file in this folder")
        return files


def is_data_set(path: Path) -> bool:
    """Return whether `save_to_disk` of Hugging Face's datasets made the folder."""
    return (path / "dataset_info.json").exists() or (path / "dataset_dict.json").exists()


def open_file(path: Path) -> BinaryIO:
    """Return the file, open; TrainerError when it cannot be opened."""
    try:
        return path.open("rb")
    except OSError as error:
        raise TrainerError(f"--data {path}: {error.strerror}") from error


def _read_file(path: Path) -> Iterator[Piece]:
    """Yield the file's text in pieces that end with a line, where it has lines."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    rest, place = "", 0
    with open_file(path) as stream:
        while True:
            content = stream.read(_PIECE)
            before = len(decoder.getstate()[0])
            try:
                text = rest + decoder.decode(content, final=not content)
            except UnicodeDecodeError as error:
                at = place - before + error.start
                raise TrainerError(f"--data {path}: not UTF-8 text (byte {at})") from error
            place += len(content)
            cut = text.rfind("\n") + 1 or len(text)
            if not content:
                yield Piece(text, ends=True)
                return
            yield Piece(text[:cut], ends=False)
            rest = text[cut:]


def _read_documents(path: Path) -> Iterator[Piece]:
    with open_file(path) as stream:
        for number, line in enumerate(stream, start=1):
            try:
                yield from _convert_row(json.loads(line))
            except (ValueError, KeyError, TypeError) as error:
                raise TrainerError(
                    f"--data {path}:{number}: not a JSON object with a field `text`, or with "
                    f"`prompt` and `completion`"
                ) from error


def _convert_rows(rows: Iterator[dict[str, Any]], data: str) -> Iterator[Piece]:
    for row in rows:
        try:
            yield from _convert_row(row)
        except (KeyError, TypeError) as error:
            raise TrainerError(
                f"--data {data}: no column `text`, `input_ids`, or `prompt` and `completion`, but "
                f"{', '.join(row)}"
            ) from error


def _convert_row(row: dict[str, Any]) -> Iterator[Piece]:
    """Yield the pieces of one document."""
    if "input_ids" in row:
        yield Piece("", ends=False, numbers=row["input_ids"])  # with their own marks at the end
    elif "prompt" in row:
        prompt, completion = str(row["prompt"]), str(row["completion"])
        yield Piece(prompt, ends=False, learnt=False)
        yield Piece(completion, ends=True)
    else:
        yield Piece(str(row["text"]), ends=True)


def _load_python_manual() -> str:
    try:
        from pydoc_data.topics import topics
    except ImportError as error:
        raise TrainerError(
            "this Python has no pydoc_data, the text used by default; give one with --data"
        ) from error
    return "\n".join(topics[name] for name in sorted(topics))
