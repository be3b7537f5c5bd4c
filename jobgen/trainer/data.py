"""The text, and which piece of it each rank sees at which step.

The text is cut into windows, one sequence each; every tenth is kept for validation. The place in
the data is one integer, the number of sequences used so far: it and the seed decide which window
comes next. So a run continues exactly where it was, at no cost, on any number of ranks, and no
window comes twice in one epoch.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from .config import TrainerError

_TENTH = 10
_MASK = (1 << 64) - 1


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


def split(windows: int) -> tuple[int, range]:
    """Return how many of the windows are trained on, and which ones validate: every tenth.

    So both are of the same kind, which two ends of one text need not be.
    """
    validating = range(_TENTH - 1, windows, _TENTH)
    return windows - len(validating), validating


def samples(positions: Iterable[int], *, count: int, seed: int) -> list[int]:
    """Return the window at each position of the run, given how many windows are trained on."""
    picked = (permute(at % count, size=count, key=(seed, at // count)) for at in positions)
    return [index + index // (_TENTH - 1) for index in picked]


def spread(windows: Sequence[int], wanted: int) -> list[int]:
    """Return at most `wanted` of the windows, evenly over all of them."""
    wanted = min(wanted, len(windows))
    return [windows[i * len(windows) // wanted] for i in range(wanted)]


def deal(slots: int, *, rank: int, size: int) -> range:
    """Return the slots of a batch that belong to one of `size` ranks.

    Shares differ by at most one slot, so any number of ranks can run any batch. Raises
    TrainerError when a rank would get none.
    """
    if slots < size:
        raise TrainerError(
            f"a step of {slots} sequences cannot be dealt to {size} ranks; "
            f"raise --batch-tokens or start fewer processes"
        )
    return range(rank * slots // size, (rank + 1) * slots // size)


def permute(index: int, *, size: int, key: tuple[int, int]) -> int:
    """Return where a pseudo-random permutation of range(size), chosen by key, sends index.

    A Feistel network over the next power of four, walked until it lands below size (Black and
    Rogaway, Ciphers with Arbitrary Finite Domains, CT-RSA 2002): no table to build or to keep,
    and the same order in every version of torch.
    """
    half = max(1, ((size - 1).bit_length() + 1) // 2)
    mask = (1 << half) - 1
    start = _mix(_mix(key[0]) ^ key[1])
    while True:
        left, right = index >> half, index & mask
        for turn in range(4):
            left, right = right, left ^ (_mix(start ^ (turn << 58) ^ right) & mask)
        index = (left << half) | right
        if index < size:
            return index


def _mix(value: int) -> int:
    """Scramble 64 bits (the finalizer of SplitMix64: Steele, Lea and Flood, OOPSLA 2014)."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)
