"""From text to token numbers and back: characters, bytes, or byte-pair encoding by tiktoken.

`--tokenizer` takes one word:

- char: the distinct characters of the text itself, sorted
- byte: the 256 bytes of UTF-8, and a token that ends a document
- tiktoken:NAME: an encoding of tiktoken, such as tiktoken:gpt2

What a tokenizer needs is kept with the prepared tokens, so a compute node needs no network.
"""

import base64
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..config import TrainerError

Numbers = NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Tokenizer:
    """Turns texts into token numbers, and token numbers into a text."""

    vocabulary: int
    end: int | None  # the token after a document
    encode: Callable[[Sequence[str]], list[Numbers]]
    decode: Callable[[Iterable[int]], str]
    saved: dict[str, Any]  # what `load_tokenizer` needs to make it again


def _number_characters(characters: str) -> Tokenizer:
    """Return one token for each character of a vocabulary, which is sorted."""
    own = _read_codes(characters)
    numbers = np.full(int(own[-1]) + 1, -1, dtype=np.int32)
    numbers[own] = np.arange(len(characters), dtype=np.int32)

    def encode(text: str) -> Numbers:
        codes = _read_codes(text)
        known = codes < len(numbers)
        tokens = numbers[np.where(known, codes, 0)]
        missing = np.flatnonzero(~known | (tokens < 0))
        if len(missing):
            raise TrainerError(
                f"the character {text[missing[0]]!r} is not in the text that was prepared; "
                f"prepare the tokens again, or use --tokenizer byte"
            )
        return cast(Numbers, tokens)

    return Tokenizer(
        vocabulary=len(characters),
        end=None,
        encode=lambda texts: [encode(text) for text in texts],
        decode=lambda tokens: "".join(characters[token] for token in tokens),
        saved={"name": "char", "characters": characters},
    )


_BYTES = Tokenizer(
    vocabulary=257,
    end=256,
    encode=lambda texts: [np.frombuffer(text.encode(), dtype=np.uint8) for text in texts],
    decode=lambda tokens: bytes(each for each in tokens if each < 256).decode(errors="replace"),
    saved={"name": "byte"},
)


def _wrap_pairs(name: str, encoding: Any) -> Tokenizer:
    """Return a byte-pair encoding of tiktoken; what is saved has its byte strings in base64."""
    ranks = sorted(encoding._mergeable_ranks.items(), key=lambda pair: pair[1])

    def encode(texts: Sequence[str]) -> list[Numbers]:
        numbers = encoding.encode_ordinary_batch(list(texts))
        return [np.asarray(each, dtype=np.int32) for each in numbers]

    return Tokenizer(
        vocabulary=encoding.n_vocab,
        end=encoding.eot_token if "<|endoftext|>" in encoding.special_tokens_set else None,
        encode=encode,
        decode=lambda tokens: cast(str, encoding.decode(list(tokens))),
        saved={
            "name": name,
            "pattern": encoding._pat_str,
            "special": encoding._special_tokens,
            "pairs": {base64.b64encode(pair).decode(): rank for pair, rank in ranks},
        },
    )


def make_tokenizer(name: str, *, characters: str = "", fetch: bool = True) -> Tokenizer:
    """Return the tokenizer of this name; `characters` is the vocabulary of char.

    Only with `fetch` may tiktoken use the network. Raises TrainerError for an unknown name, or if
    the library or its files are missing.
    """
    if name in ("char", "byte"):
        return _number_characters(characters) if name == "char" else _BYTES
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
        return _wrap_pairs(name, _import_tiktoken().get_encoding(name.removeprefix("tiktoken:")))
    except (ValueError, OSError) as error:  # unknown, or not downloaded and no network
        raise TrainerError(f"--tokenizer {name}: {error}") from error


def load_tokenizer(saved: Mapping[str, Any]) -> Tokenizer:
    """Return the tokenizer that was saved, without the network."""
    if "pairs" not in saved:
        return make_tokenizer(saved["name"], characters=saved.get("characters", ""))
    encoding = _import_tiktoken().Encoding(
        saved["name"],
        pat_str=saved["pattern"],
        mergeable_ranks={base64.b64decode(pair): rank for pair, rank in saved["pairs"].items()},
        special_tokens=saved["special"],
    )
    return _wrap_pairs(saved["name"], encoding)


def _import_tiktoken() -> Any:
    try:
        import tiktoken
    except ImportError as error:
        raise TrainerError("--tokenizer tiktoken:...: pip install tiktoken") from error
    return tiktoken


def _read_codes(text: str) -> NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
