"""The options of a program, and what the files of settings that it is given hold."""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Iterator, Sequence
from importlib import import_module

from jobgen.errors import JobgenError
from jobgen.review.rows import read_form
from jobgen.spec.table import read_here
from jobgen.spec.yaml_nodes import Mapping as YamlMapping
from jobgen.spec.yaml_nodes import parse_value, walk_leaves

_MOST_BYTES = 30_000  # of a configuration file, which take some 20 ms
Settings = tuple[tuple[str, str], ...]


def list_settings(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the options of a command, and what the configuration files that it names hold."""
    for option, value in list_options(words):
        yield option, value
        if re.fullmatch(r"[^$*?\[{:]+\.(ya?ml|json|toml)", value) and os.path.isfile(value):
            yield from _read_settings(value)


def _read_settings(path: str) -> Iterator[tuple[str, str]]:
    """Yield the keys of a configuration file, with their values; none of a large or broken one."""
    try:
        text = read_here(path) if os.path.getsize(path) <= _MOST_BYTES else ""
        if path.endswith(".json"):  # which tabs may indent, and no text within it has one
            text = text.replace("\t", " ")
        if path.endswith(".toml"):
            text = json.dumps(import_module("tomllib").loads(text), default=str)
        tree = parse_value(text, file=path, explain=False)
    except (OSError, ValueError, RecursionError, ImportError, JobgenError):
        return  # it is for the program to say so
    if isinstance(tree, YamlMapping):
        apart = read_form("submits").search  # what a tool of the project submits jobs by
        leaves = walk_leaves(tree, f"{path}:", joint=":")
        yield from ((key, leaf.text) for key, leaf in leaves if not apart(key))


def list_options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each word of a command with its value: what follows its `=`, else the next word."""
    for word, following in itertools.pairwise((*words, "")):
        option, equals, value = word.partition("=")
        yield option, value if equals else following


def list_numbers(options: Settings) -> Iterator[tuple[str, str, float]]:
    """Yield the options that are given a number: the last part of the name, the option, it."""
    for option, value in options:
        if re.fullmatch(r"\d+(\.\d+)?", value):
            name = re.split(r"[.:]", option)[-1].strip("-+").replace("-", "_")
            yield name, option, float(value) if "." in value else int(value)
