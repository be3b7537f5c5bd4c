"""What calls do, by their full names and `calls.txt`."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import cache

from jobgen.spec import tables


@cache
def classify(name: str) -> frozenset[str]:
    """Return what a call does with processes and GPUs, by its full name."""
    kinds, forms = _read_kinds()
    by_name = itertools.chain(*(kinds.get(one, ()) for one in _spell(name)))
    return frozenset(itertools.chain(by_name, (kind for kind, fits in forms if fits(name))))


@cache
def list_heads() -> frozenset[str]:
    """Return the libraries that `calls.txt` knows."""
    return frozenset(name.partition(".")[0] for name in _read_kinds()[0])


def _spell(name: str) -> Iterator[str]:
    """Yield the ways in which `calls.txt` may write a name."""
    owner, dot, last = name.rpartition(".")
    places = [".", f".{owner.rpartition('.')[2]}."]
    if name.partition(".")[0] in list_heads():
        below = itertools.accumulate(owner.split("."), "{}.{}".format)
        places += [owner + dot, *map("{}...".format, below)]
    ends = [last, "", f"{last.partition('_')[0]}_*"]
    if not last.islower():
        ends += [f"*{word}" for word in re.findall("[A-Z][a-z0-9]+$", last)]
    return map("".join, itertools.product(places, ends))


@cache
def _read_kinds() -> tuple[Mapping[str, list[str]], list[tuple[str, Callable[[str], object]]]]:
    """Return the kinds of names, as `calls.txt` writes these, and those of regular expressions."""
    kinds: dict[str, list[str]] = defaultdict(list)
    forms: list[tuple[str, Callable[[str], object]]] = []
    for line in tables.read_lines("calls.txt", room="programs"):
        kind, *names = line.split()
        for name in names:
            if name[0] == "~":
                forms.append((kind, re.compile(name[1:]).fullmatch))
            else:
                kinds[name].append(kind)
    return kinds, forms
