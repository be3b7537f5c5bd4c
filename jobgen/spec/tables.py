"""The tables of `data/`: what jobgen knows of words and commands, as plain text."""

from __future__ import annotations

import os
from typing import Any

import yaml


def read_table(name: str, *, room: str = "spec") -> dict[str, Any]:
    """Return the sections of a room's table by their names; every value in them is text."""
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # takes every scalar for text
    rooms = os.path.dirname(os.path.dirname(__file__))
    with open(os.path.join(rooms, room, "data", name), encoding="utf-8") as file:
        sections: dict[str, Any] = yaml.load(file, Loader=loader)
    return sections
