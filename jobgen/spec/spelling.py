"""Words that are spelt nearly alike. Only an error imports this."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def find_near(word: str, known: Iterable[str], *, cutoff: float = 0.75) -> str:
    """Return the one of `known` that is spelt nearly so, or the empty string.

    The first letters or the last have to agree: `cores` is not `nodes`. Words of four letters that
    differ in one are two words: `size` is not `site`.
    """
    for other in get_close_matches(word, list(known), n=3, cutoff=cutoff):
        if len(other) == len(word) <= 4 and sorted(other) != sorted(word):
            continue
        if other[:2] == word[:2] or (other[:1] == word[:1] and other[-2:] == word[-2:]):
            return other
        if other[1:] == word or word[1:] == other or sorted(other) == sorted(word):
            return other
    return ""
