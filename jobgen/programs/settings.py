"""The settings files that a program names, and what is in them."""

from __future__ import annotations

import ast
import itertools
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress

from jobgen.programs.program import ReadProgram

_MOST_FILES = 30
# An entry of a defaults list: a file, or a group of them and the one that it takes.
_ENTRY = r"[-\[{,] *(?:override +|optional +)*(/?[\w/-]+)(?:@[\w./]*)?(?:: *([\w./-]+))?"
# How YAML spells what Python has words for.
_SPELLED = {"true": True, "yes": True, "on": True, "null": None, "~": None, "": None}
_SPELLED |= dict.fromkeys(("false", "no", "off"), False)


def list_files(program: ReadProgram, words: Sequence[str]) -> list[str]:
    """Return the files that the text of a program names, and those that Hydra reads.

    `words` are the program's arguments, by which Hydra may take other files.
    """
    files = re.findall(r"[\"']([\w./-]+\.(?:ya?ml|json))[\"']", program.entry.text)
    folder, name = find_hydra(program)
    composed = _list_composed(folder, name, words) if folder else ()
    return [*itertools.islice(itertools.chain(files, composed), _MOST_FILES)]


def find_hydra(program: ReadProgram) -> tuple[str, str]:
    """Return the folder of Hydra's files and the name of the first, as far as the source has them.

    Both are empty where it does not.
    """
    for call in program.find("hydra"):
        names = [*re.findall("config_name='([^']+)'", call.text), "config"]
        for folder in re.findall("config_path='(?!pkg:)([^']+)'", call.text):
            path = os.path.join(os.path.dirname(call.module.path), folder)
            return os.path.normpath(path), names[0]
    return "", ""


def _list_composed(folder: str, name: str, words: Sequence[str]) -> Iterator[str]:
    """Yield a file of Hydra's, then those of its defaults list and of theirs; a circle never ends.

    Source: Hydra's documentation, "The Defaults List".
    """
    chosen = dict(re.findall(r"(?m)^\+?([\w/-]+)=([\w./-]+)$", "\n".join(words)))
    waiting = [name]
    for one in waiting:
        path = os.path.normpath(f"{folder}/{one.removesuffix('.yaml')}.yaml")
        if os.path.isfile(path):
            yield path
            for entry in _list_defaults(path):
                group = os.path.normpath(os.path.join(os.path.dirname(one), entry[0])).lstrip("/")
                waiting.append("/".join(filter(None, (group, chosen.get(group, entry[1])))))


def _list_defaults(path: str) -> list[tuple[str, str]]:
    """Return the groups in the defaults list of a file, each with the file that it takes of it."""
    text = ""
    with suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
        text = re.sub(r"(?m)(^|\s)#.*", "", file.read())
    block = re.search(r"(?m)^defaults:(.*\n(?:[ -].*\n|\n)*)", f"{text}\n")
    return re.findall(_ENTRY, block[1]) if block else []


def read_fields(settings: str) -> dict[str, ast.expr]:
    """Return the values of keys of files, by their last names, where all files have the same."""
    pairs = set(re.findall(r"(?m)^\S+\.(?:ya?ml|json):(?:\S*:)?(\w+) (.*)$", settings))
    counts = Counter(name for name, _ in pairs)
    return {name: ast.Constant(_read_value(one)) for name, one in pairs if counts[name] == 1}


def _read_value(text: str) -> str | int | None:
    """Return what a word means in YAML: a number, a word of `_SPELLED`, or itself."""
    return int(text) if re.fullmatch(r"-?\d+", text) else _SPELLED.get(text.lower(), text)
