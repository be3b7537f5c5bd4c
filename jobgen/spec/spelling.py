"""Words that are spelt nearly alike. Only an error imports this."""

from __future__ import annotations

import glob
import itertools
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from difflib import get_close_matches


def find_near(word: str, known: Iterable[str], *, cutoff: float = 0.75) -> str:
    """Return the one of `known` that is spelt nearly so, or the empty string.

    The first letters or the last have to agree: `cores` is not `nodes`. Words of four letters that
    differ in one are two words: `size` is not `site`. Initials are near an option.
    """
    known = list(known)
    for other in get_close_matches(word, known, n=3, cutoff=cutoff):
        ends = other[:2] == word[:2] or (other[:1], other[-2:]) == (word[:1], word[-2:])
        alike = ends or word in (other, other[1:]) or other == word[1:]
        short = len(other) == len(word) <= 4
        if sorted(other) == sorted(word) or (alike and not short):
            return other
    options = known if word[:2] == "--" else ()
    return next((other for other in options if _is_initials(word, other)), "")


def find_near_file(path: str, ends: tuple[str, ...] = ("",)) -> str:
    """Return the file that a path misspells, or the only one there that ends so; else nothing.

    The only file of that name here, or in a folder or two below, is meant, too.
    """
    folder, name = os.path.split(path)
    below = [f"{'*/' * depth}{glob.escape(name)}" for depth in range(3)]
    same = [*filter(os.path.isfile, itertools.chain(*map(glob.glob, below)))]
    if len(same) == 1:
        return same[0]
    with suppress(OSError):
        with os.scandir(os.path.expanduser(folder) or ".") as entries:
            files = sorted(one.name for one in entries if one.is_file() and one.name.endswith(ends))
        near = files[0] if len(files) == 1 and all(ends) else find_near(name, files)
        return os.path.join(folder, near) if near else ""
    return ""


def _is_initials(word: str, other: str) -> bool:
    """Whether one of two options is the other's initials: --lr, --learning-rate."""
    short, long = sorted((word.strip("-"), other.strip("-")), key=len)
    parts = re.split(r"[-_]", long)
    return len(short) > 1 and short == "".join(part[:1] for part in parts)
