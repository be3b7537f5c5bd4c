"""From text to token numbers and back: characters, bytes, or byte-pair encoding by tiktoken.

`--tokenizer` takes one word:

- char: the distinct characters of the text itself, sorted
- byte: the 256 bytes of UTF-8, and a token that ends a document
- tiktoken:NAME: an encoding of tiktoken, such as tiktoken:gpt2

What a tokenizer needs is kept with the prepared tokens, so a compute node needs no network.
"""

import base64
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..config import TrainerError

Numbers = NDArray[np.integer[Any]]


class Tokenizer:
    """What every tokenizer has."""

    name: str
    vocabulary: int
    end: int | None = None  # the token after a document

    def encode(self, texts: Sequence[str]) -> list[Numbers]:
        """Return the token numbers of each text."""
        raise NotImplementedError

    def decode(self, tokens: Iterable[int]) -> str:
        """Return the text that the numbers stand for."""
        raise NotImplementedError

    def as_json(self) -> dict[str, Any]:
        """Return what `load_tokenizer` needs to make the same tokenizer again."""
        return {"name": self.name}


class Characters(Tokenizer):
    """One token for each distinct character of a text."""

    name = "char"

    def __init__(self, characters: str) -> None:
        """Take the characters, sorted; the position of each is its number."""
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
                f"prepare the tokens again, or use --tokenizer byte"
            )
        return cast(Numbers, numbers)

    def decode(self, tokens: Iterable[int]) -> str:
        """Return the text that the numbers stand for."""
        return "".join(self.characters[token] for token in tokens)

    def as_json(self) -> dict[str, Any]:
        """Return the name and the characters."""
        return {"name": self.name, "characters": self.characters}


class Bytes(Tokenizer):
    """One token for each byte of UTF-8."""

    name = "byte"
    vocabulary = 257
    end = 256

    def encode(self, texts: Sequence[str]) -> list[Numbers]:
        """Return the bytes of each text."""
        return [np.frombuffer(text.encode(), dtype=np.uint8) for text in texts]

    def decode(self, tokens: Iterable[int]) -> str:
        """Return the text; bytes that are not UTF-8 become the replacement character."""
        return bytes(token for token in tokens if token < 256).decode(errors="replace")


class BytePairs(Tokenizer):
    """A byte-pair encoding of tiktoken."""

    def __init__(self, name: str, encoding: Any) -> None:
        """Take tiktoken's encoding."""
        self.name, self._encoding = name, encoding
        self.vocabulary = encoding.n_vocab
        if "<|endoftext|>" in encoding.special_tokens_set:
            self.end = encoding.eot_token

    def encode(self, texts: Sequence[str]) -> list[Numbers]:
        """Return the token numbers of each text."""
        numbers = self._encoding.encode_ordinary_batch(list(texts))
        return [np.asarray(each, dtype=np.int32) for each in numbers]

    def decode(self, tokens: Iterable[int]) -> str:
        """Return the text that the numbers stand for."""
        return cast(str, self._encoding.decode(list(tokens)))

    def as_json(self) -> dict[str, Any]:
        """Return the whole encoding, its byte strings in base64."""
        coder = self._encoding
        ranks = sorted(coder._mergeable_ranks.items(), key=lambda pair: pair[1])
        return {
            "name": self.name,
            "pattern": coder._pat_str,
            "special": coder._special_tokens,
            "pairs": {base64.b64encode(pair).decode(): rank for pair, rank in ranks},
        }


def make_tokenizer(name: str, *, characters: str = "", fetch: bool = True) -> Tokenizer:
    """Return the tokenizer of this name; `characters` is the vocabulary of char.

    Only with `fetch` may tiktoken use the network. Raises TrainerError for an unknown name, or if
    the library or its files are missing.
    """
    if name in ("char", "byte"):
        return Characters(characters) if name == "char" else Bytes()
    if not name.removeprefix("tiktoken:") or not name.startswith("tiktoken:"):
        raise TrainerError(
            f"--tokenizer {name}: use char, byte, or tiktoken:NAME, such as tiktoken:gpt2"
        )
    if not fetch and "TIKTOKEN_CACHE_DIR" not in os.environ:
        raise TrainerError(
            f"--tokenizer {name} is fetched from the network: run `python -m jobgen.trainer "
            f"prepare` with the same flags first, on a node that has one"
        )
    try:
        return BytePairs(name, _import_tiktoken().get_encoding(name.removeprefix("tiktoken:")))
    except (ValueError, OSError) as error:  # unknown, or not downloaded and no network
        raise TrainerError(f"--tokenizer {name}: {error}") from error


def load_tokenizer(saved: Mapping[str, Any]) -> Tokenizer:
    """Return the tokenizer that `as_json` describes, without the network."""
    if "pairs" not in saved:
        return make_tokenizer(saved["name"], characters=saved.get("characters", ""))
    encoding = _import_tiktoken().Encoding(
        saved["name"],
        pat_str=saved["pattern"],
        mergeable_ranks={base64.b64decode(pair): rank for pair, rank in saved["pairs"].items()},
        special_tokens=saved["special"],
    )
    return BytePairs(saved["name"], encoding)


def _import_tiktoken() -> Any:
    try:
        import tiktoken
    except ImportError as error:
        raise TrainerError("--tokenizer tiktoken:...: pip install tiktoken") from error
    return tiktoken


def _read_codes(text: str) -> NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
