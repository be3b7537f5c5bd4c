"""From text to token numbers and back: characters, bytes, tiktoken, Hugging Face.

A tokenizer is named by one word, as in `--tokenizer`:

- char: the distinct characters of the text itself, sorted; they are kept in the prepared data
- byte: the 256 bytes of UTF-8, and one token that ends a document
- tiktoken:NAME: an encoding of tiktoken, such as gpt2 (its own extra)
- hf:NAME or hf:FOLDER: the tokenizer of a Hugging Face model (the extra `hf`)
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..config import TrainerError

Numbers = NDArray[np.integer[Any]]


class Tokenizer:
    """What every tokenizer is and can do."""

    name: str
    vocabulary: int
    end: int | None = None  # the token after a document

    def encode(self, texts: Sequence[str]) -> list[Numbers]:
        """Return the token numbers of each text."""
        raise NotImplementedError

    def decode(self, tokens: Iterable[int]) -> str:
        """Return the text that the numbers stand for."""
        raise NotImplementedError

    def save(self, folder: Path) -> None:
        """Keep in the folder what decoding will need and may be elsewhere only."""


class Characters(Tokenizer):
    """One token for each distinct character of a text."""

    name = "char"

    def __init__(self, characters: str) -> None:
        """Take the characters, sorted: each one's place is its number."""
        self.characters = characters
        self.vocabulary = len(characters)
        codes = _read_codes(characters)
        self._numbers = np.full(int(codes[-1]) + 1, -1, dtype=np.int32)
        self._numbers[codes] = np.arange(len(characters), dtype=np.int32)

    def encode(self, texts: Sequence[str]) -> list[Numbers]:
        """Return the token numbers of each text; TrainerError for a character without one."""
        return [self._encode(text) for text in texts]

    def _encode(self, text: str) -> Numbers:
        codes = _read_codes(text)
        known = codes < len(self._numbers)
        numbers = self._numbers[np.where(known, codes, 0)]
        missing = np.flatnonzero(~known | (numbers < 0))
        if len(missing):
            raise TrainerError(
                f"the character {text[missing[0]]!r} is not in the text that was prepared; "
                f"prepare anew, or use --tokenizer byte"
            )
        return cast(Numbers, numbers)

    def decode(self, tokens: Iterable[int]) -> str:
        """Return the text that the numbers stand for."""
        return "".join(self.characters[token] for token in tokens)


class Bytes(Tokenizer):
    """One token for each byte of UTF-8."""

    name = "byte"
    vocabulary = 257
    end = 256

    def encode(self, texts: Sequence[str]) -> list[Numbers]:
        """Return the bytes of each text."""
        return [np.frombuffer(text.encode(), dtype=np.uint8) for text in texts]

    def decode(self, tokens: Iterable[int]) -> str:
        """Return the text; bytes that are no UTF-8 become the replacement character."""
        return bytes(token for token in tokens if token < 256).decode(errors="replace")


class _Tiktoken(Tokenizer):
    def __init__(self, name: str) -> None:
        try:
            import tiktoken
        except ImportError as error:
            raise TrainerError("--tokenizer tiktoken:...: pip install tiktoken") from error
        try:
            self._encoding = tiktoken.get_encoding(name)
        except (ValueError, OSError) as error:  # unknown, or not downloaded and no network
            raise TrainerError(f"--tokenizer tiktoken:{name}: {error}") from error
        self.name = f"tiktoken:{name}"
        self.vocabulary = self._encoding.n_vocab
        if "<|endoftext|>" in self._encoding.special_tokens_set:
            self.end = self._encoding.eot_token

    def encode(self, texts: Sequence[str]) -> list[Numbers]:
        numbers = self._encoding.encode_ordinary_batch(list(texts))
        return [np.asarray(each, dtype=np.int32) for each in numbers]

    def decode(self, tokens: Iterable[int]) -> str:
        return cast(str, self._encoding.decode(list(tokens)))


class _HuggingFace(Tokenizer):
    def __init__(self, place: str) -> None:
        from .hub import load_tokenizer

        self._tokenizer = load_tokenizer(place)
        self.name = f"hf:{place}"
        self.vocabulary = len(self._tokenizer)
        self.end = self._tokenizer.eos_token_id

    def encode(self, texts: Sequence[str]) -> list[Numbers]:
        # Longer than the model's context is as it should be here: the windows come later.
        numbers = self._tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]
        return [np.asarray(each, dtype=np.int32) for each in numbers]

    def decode(self, tokens: Iterable[int]) -> str:
        return cast(str, self._tokenizer.decode(list(tokens)))

    def save(self, folder: Path) -> None:
        self._tokenizer.save_pretrained(folder)


def make_tokenizer(name: str, *, characters: str | None = None) -> Tokenizer:
    """Return the tokenizer of this name; `characters` belongs to char.

    Raises TrainerError for an unknown name, or for one whose library or files are not there.
    """
    kind, _, rest = name.partition(":")
    if name == "char" and characters is not None:
        return Characters(characters)
    if name == "byte":
        return Bytes()
    if kind == "tiktoken" and rest:
        return _Tiktoken(rest)
    if kind == "hf" and rest:
        return _HuggingFace(rest)
    raise TrainerError(
        f"--tokenizer {name}: it is char, byte, tiktoken:NAME (such as tiktoken:gpt2), or hf:NAME "
        f"or hf:FOLDER of a Hugging Face tokenizer"
    )


def _read_codes(text: str) -> NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
