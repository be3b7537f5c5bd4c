"""The tables of the rooms: what jobgen knows of words and commands, and its sentences, as text."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import yaml

# A problem of a record: key, message, what to write.
Conflict = tuple[str, str, str]
Rules = Mapping[str, object]  # by their names in a table, each with whether it is broken
_ROOMS = os.path.dirname(os.path.dirname(__file__))


def read_table(name: str, *, room: str = "spec") -> dict[str, Any]:
    """Return the sections of a room's table by their names; every value in them is text."""
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # takes every scalar for text
    with open(os.path.join(_ROOMS, room, "data", name), encoding="utf-8") as file:
        sections: dict[str, Any] = yaml.load(file, Loader=loader)
    return sections


@cache
def read_lines(name: str, *, room: str) -> list[str]:
    """Return the lines of a room's table, without comments and empty ones."""
    with open(os.path.join(_ROOMS, room, name), encoding="utf-8") as lines:
        return [line.rstrip("\n") for line in lines if line[0] not in "#\n"]


@cache
def read_rows(name: str, *, room: str) -> list[list[str]]:
    """Return the rows of a room's table with a row in each line, parted by ` | `."""
    return [line.split(" | ") for line in read_lines(name, room=room)]


@cache
def read_needs(text: str, apart: frozenset[str]) -> tuple[dict[str, bool], dict[str, bool]]:
    """Return what a row needs, by the words for it: `!` before one denies it; some stand apart."""
    needs = {name: not no for no, name in re.findall(r"(!?)([\w#][\w.-]*)", text)}
    return needs, {name: needs.pop(name) for name in apart & needs.keys()}


@cache
def read_rules(room: str) -> dict[str, list[str]]:
    """Return the rows of a room's `rules.txt` by the names of the rules; `-` is an empty cell."""
    rows = read_rows("rules.txt", room=room)
    return {rule: ["" if cell == "-" else cell for cell in cells] for rule, *cells in rows}


def explain(rule: str, facts: Mapping[str, object], room: str = "spec") -> Conflict:
    """Return the key, message and hint of a rule of a room's `rules.txt`, with values in them."""
    key, message, hint = (cell.format(**facts) for cell in read_rules(room)[rule])
    return key, message, hint


def refuse(rules: Rules, room: str = "spec", /, **facts: object) -> Iterator[Conflict]:
    """Yield the conflict of each rule that is broken, of those in a room's `rules.txt`."""
    for rule, broken in rules.items():
        if broken:
            yield explain(rule, facts, room)
