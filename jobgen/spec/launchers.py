"""The launchers and wrappers on a command line, by name: `data/launchers.yaml` is their table."""

from __future__ import annotations

import itertools
import os
import re
import shlex
from collections.abc import Sequence
from functools import cache
from typing import Any

from jobgen.spec.tables import read_table


@cache
def load_launchers() -> dict[str, Any]:
    """Return the rows of the table, all of them text."""
    return read_table("launchers.yaml")


@cache
def read_names(*kinds: str) -> frozenset[str]:
    """Return the names of all of these kinds."""
    return frozenset(name for kind in kinds for name in load_launchers()[kind].split())


def find_launcher(words: Sequence[str]) -> str:
    """Return the launcher that a command starts its program with, or the empty string."""
    wrappers = read_names("prefixes", "runners", "profilers", "containers")
    for index, word in enumerate(words):
        name, following = os.path.basename(word), words[index + 1 :]
        if launcher := _name_launcher(name, following):
            return launcher
        if re.fullmatch(r"python[\d.]*", name):
            return _find_in_python(following)
        if name in read_names("shells"):
            pairs = itertools.pairwise(following)
            scripts = (script for flag, script in pairs if re.fullmatch(r"-[a-z]*c", flag))
            return find_launcher_in_text(next(scripts, ""))
        first_is_program = index == 0 and name not in wrappers and not re.match(r"\w+=", word)
        if first_is_program or re.search(r"\.(py|sh)$", name):
            return ""
    return ""


def find_module_launcher(module: str) -> str:
    """Return the name of a Python module if it is a launcher, or the empty string."""
    known = module in read_names("torchrun_modules") or module in load_launchers()["agent_modules"]
    return module if known else ""


def find_launcher_in_text(text: str) -> str:
    """Return the launcher that a line of bash starts something with, or the empty string."""
    return find_launcher(split_words(find_launch(text)))


def find_launch(text: str) -> str:
    """Return the first command in lines of bash that has a launcher, or the empty string."""
    for line in text.replace("\\\n", " ").splitlines():
        bare = re.sub(r"(^|\s)#.*", "", line)
        for command in re.split(r"&&|\|\|?|;|\bthen\b|\bdo\b|[(){}]", bare):
            if find_launcher(split_words(command)):
                return command
    return ""


def name_kind(launcher: str) -> str:
    """Return what a launcher does: `submitter`, `step` (one start a task), `ray` or `agent`."""
    name = launcher.rpartition("/")[2]
    if name.startswith("ray "):
        return "ray"
    kinds = {"submitter": ("submitters",), "step": ("mpi", "steps")}
    return next((kind for kind, names in kinds.items() if name in read_names(*names)), "agent")


def split_words(text: str) -> list[str]:
    """Return the words of a command line; an open quote is taken for an ordinary character."""
    if set("'\"\\").isdisjoint(text):  # shlex takes a hundred times as long
        return text.split()
    try:
        return shlex.split(text.replace("\\\n", ""))  # which bash joins, and shlex does not
    except ValueError:
        return text.split()


def _name_launcher(name: str, following: Sequence[str]) -> str:
    if name in read_names("mpi", "steps", "submitters", "agents"):
        return name
    first = next((word for word in following if not word.startswith("-")), "")
    if first in load_launchers()["agent_commands"].get(name, "").split():
        return f"{name} {first}"
    if name == "tune" and first == "run" and any("nproc" in word for word in following):
        return "tune run"
    return ""


def _find_in_python(words: Sequence[str]) -> str:
    """Return the launcher that Python runs as a module, or as a file of a venv."""
    for index, word in enumerate(words):
        if word in ("-W", "-X"):
            continue
        if word.startswith("-m"):
            module = word[2:] or next(iter(words[index + 1 :]), "")
            known = find_module_launcher(module)
            return f"python -m {module}" if module in read_names("torchrun_modules") else known
        if not word.startswith("-"):
            return _name_launcher(os.path.basename(word), words[index + 1 :])
    return ""


def show_program(words: Sequence[str]) -> str:
    """Return the program behind a launcher as keys of `run`."""
    line = " ".join(words)
    if match := re.search(r"(?:^|\s)(\S+\.py)(?=\s|$)(.*)$", line):
        script, args = f"script: {match[1]}", ", ".join(match[2].split())
        return f"{script}, args: [{args}]" if args else script
    modules = re.findall(r"(?<!python)\s(?:-m|--module)\s+(\S+)", line)
    programs = [f"module: {one}" for one in modules if not find_module_launcher(one)]
    return (programs or ["script: train.py"])[0]
