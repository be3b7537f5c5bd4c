"""Words that are spelt nearly alike. Only an error imports this."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from difflib import get_close_matches

_MOST_FOLDERS = 300  # in which a file is looked for


def find_near(word: str, known: Iterable[str], *, cutoff: float = 0.75) -> str:
    """Return the one of `known` that is spelt nearly so, or the empty string.

    The first letters or the last have to agree: `cores` is not `nodes`. Words of four letters that
    differ in one are two words: `size` is not `site`. Initials are near an option.
    """
    known = list(known)
    swapped = [one for one in known if _is_swapped(one.lower(), word.lower())]
    for other in [*swapped, *get_close_matches(word, known, n=3, cutoff=cutoff)]:
        ends = other[:2] == word[:2] or (other[:1], other[-2:]) == (word[:1], word[-2:])
        alike = ends or word.lower() in (other.lower(), other[1:]) or other == word[1:]
        short = len(other) == len(word) <= 4
        if other in swapped or (alike and not short):
            return other
    options = known if word[:2] == "--" else ()
    return next((other for other in options if _is_initials(word, other)), "")


def find_near_file(path: str, ends: tuple[str, ...] = ("",)) -> str:
    """Return the only file so named here or below, one spelt so, or the only one of a folder.

    A name may lack its end.
    """
    folder, name = os.path.split(path.replace("\\", "/"))
    if folder[:1] not in ("/", "~") and not os.path.isdir(folder):
        folder = ""
    names = [name + end for end in dict.fromkeys(["", *ends])]
    same = _find_files(names)
    wanted = [os.path.normpath(os.path.join(folder, one)) for one in names]
    here = [one for one in same if one in wanted] or same
    if len(here) == 1:
        return here[0]
    files = _list_files(os.path.expanduser(folder) or ".", ends)
    near = files[0] if len(files) == 1 and not name else find_near(name, files)
    return os.path.join(folder, near) if near else ""


def _list_files(folder: str, ends: tuple[str, ...]) -> list[str]:
    """Return the names of the files in a folder that end so; none if it cannot be read."""
    with suppress(OSError), os.scandir(folder) as entries:
        return sorted(one.name for one in entries if one.is_file() and one.name.endswith(ends))
    return []


def _find_files(names: Iterable[str]) -> list[str]:
    """Return the files so named here and below; those of runs are records."""
    folders = [""]
    for one in folders:  # and for those in it, which come behind
        if len(folders) < _MOST_FOLDERS:
            below = {*glob.glob(f"{glob.escape(one)}*/")} - {f"{one}runs/"}
            folders += sorted(below)[: _MOST_FOLDERS // 4]
    return [*filter(os.path.isfile, (one + each for one in folders for each in names))]


def _is_swapped(word: str, other: str) -> bool:
    """Whether two words differ at most by two neighbours, which have changed places."""
    differ = [
        place for place, pair in enumerate(zip(word, other, strict=False)) if len({*pair}) > 1
    ]
    return sorted(word) == sorted(other) and (not differ or differ[-1] == differ[0] + 1)


def _is_initials(word: str, other: str) -> bool:
    """Whether one of two options is the other's initials: --lr, --learning-rate."""
    short, long = sorted((word.strip("-"), other.strip("-")), key=len)
    parts = re.split(r"[-_]", long)
    return len(short) > 1 and short == "".join(part[:1] for part in parts)
