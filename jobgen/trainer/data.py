"""The text, cut into windows of one sequence each; every tenth is kept for validation."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from .config import TrainerError

_TENTH = 10


@dataclass(frozen=True)
class Corpus:
    """A text as token numbers; the vocabulary is its characters, sorted."""

    vocabulary: str
    tokens: Tensor
    digest: str

    def decode(self, tokens: Iterable[int]) -> str:
        """Return the text that these token numbers stand for."""
        return "".join(self.vocabulary[token] for token in tokens)


def load_corpus(path: Path | None) -> Corpus:
    """Read the text file, or without one the manual that ships inside Python, as tokens.

    Raises TrainerError when there is no such text.
    """
    text = _python_manual() if path is None else _read(path)
    if not text:
        raise TrainerError(f"--data {path}: the file is empty")
    codes = torch.frombuffer(bytearray(text.encode("utf-32-le")), dtype=torch.int32)
    vocabulary = sorted(set(text))
    number_of_code = torch.zeros(ord(vocabulary[-1]) + 1, dtype=torch.int32)
    number_of_code[[ord(character) for character in vocabulary]] = torch.arange(
        len(vocabulary), dtype=torch.int32
    )
    digest = hashlib.sha256(text.encode()).hexdigest()
    return Corpus("".join(vocabulary), number_of_code[codes], digest)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise TrainerError(f"--data {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TrainerError(f"--data {path}: not UTF-8 text (byte {error.start})") from error


def _python_manual() -> str:
    try:
        from pydoc_data.topics import topics
    except ImportError as error:
        raise TrainerError(
            "this Python has no pydoc_data, the text used by default; give one with --data"
        ) from error
    return "\n".join(topics[name] for name in sorted(topics))


def batch(tokens: Tensor, windows: Iterable[int], context: int) -> tuple[Tensor, Tensor]:
    """Return inputs and targets, both (sequences, context), int64, of windows of the text."""
    starts = torch.tensor([window * context for window in windows])
    pieces = tokens[starts[:, None] + torch.arange(context + 1)].long()
    return pieces[:, :-1], pieces[:, 1:]


def windows(items: Iterable[int], *, training: bool) -> list[int]:
    """Return the windows that these items are: every tenth window validates.

    So both are of the same kind, which two ends of one text need not be.
    """
    if training:
        return [item + item // (_TENTH - 1) for item in items]
    return [item * _TENTH + _TENTH - 1 for item in items]


def split(count: int) -> tuple[int, int]:
    """Return how many of the windows are trained on, and how many validate."""
    return count - count // _TENTH, count // _TENTH
