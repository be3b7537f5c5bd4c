"""The tables of `data/`: what jobgen knows of words and commands, as plain text."""

from __future__ import annotations

import os
from typing import Any

import yaml


def read_table(name: str) -> dict[str, Any]:
    """Return the sections of a table by their names; every value in them is text."""
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # takes every scalar for text
    with open(os.path.join(os.path.dirname(__file__), "data", name), encoding="utf-8") as file:
        sections: dict[str, Any] = yaml.load(file, Loader=loader)
    return sections
