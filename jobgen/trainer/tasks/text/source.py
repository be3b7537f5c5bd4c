"""Where text comes from: a file, a folder of files, a data set of Hugging Face, or Python itself.

Read piece by piece, so that a text may be larger than the memory. A `.jsonl` file has one document
a line, in the field `text`; any other file is one document, in UTF-8.
"""

import codecs
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ...config import TrainerError

_PIECE = 1 << 22

# A piece of text, and whether a document ends with it.
Piece = tuple[str, bool]


@dataclass(frozen=True)
class Source:
    """The text that `--data` names; without a name, the manual that ships inside Python."""

    data: str | None

    def pieces(self) -> Iterator[Piece]:
        """Yield the text; TrainerError when there is none, or it cannot be read."""
        if self.data is None:
            yield _python_manual(), True
        elif self.data.startswith("hf:"):
            from .hub import documents

            for text in documents(self.data.removeprefix("hf:")):
                yield text, True
        else:
            for path in self._files():
                yield from _documents(path) if path.suffix == ".jsonl" else _file(path)

    def facts(self) -> dict[str, str]:
        """Return what tells this text from another: its name, and where it can be had, a digest.

        The digest does not depend on where the files lie.
        """
        if self.data is None:
            content = hashlib.sha256(_python_manual().encode())
            return {"name": "pydoc_data.topics", "sha256": content.hexdigest()}
        if self.data.startswith("hf:"):
            return {"name": self.data}
        content = hashlib.sha256()
        for path in self._files():
            with _opened(path) as stream:
                while piece := stream.read(_PIECE):
                    content.update(piece)
        return {"name": self.data, "sha256": content.hexdigest()}

    def _files(self) -> list[Path]:
        path = Path(self.data or "")
        if not path.is_dir():
            return [path]
        files = sorted(each for each in path.iterdir() if each.suffix in (".txt", ".jsonl"))
        if not files:
            raise TrainerError(f"--data {path}: no .txt or .jsonl file in this folder")
        return files


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise TrainerError(f"--data {path}: {error.strerror}") from error


def _file(path: Path) -> Iterator[Piece]:
    """Yield the file's text in pieces that end with a line, where it has lines."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    rest, place = "", 0
    with _opened(path) as stream:
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
                yield text, True
                return
            yield text[:cut], False
            rest = text[cut:]


def _documents(path: Path) -> Iterator[Piece]:
    with _opened(path) as stream:
        for number, line in enumerate(stream, start=1):
            try:
                yield str(json.loads(line)["text"]), True
            except (ValueError, KeyError, TypeError) as error:
                raise TrainerError(
                    f"--data {path}:{number}: not a JSON object with a field `text`"
                ) from error


def _python_manual() -> str:
    try:
        from pydoc_data.topics import topics
    except ImportError as error:
        raise TrainerError(
            "this Python has no pydoc_data, the text used by default; give one with --data"
        ) from error
    return "\n".join(topics[name] for name in sorted(topics))
