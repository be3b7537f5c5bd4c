"""Where site profiles are, and how one changes another."""

from __future__ import annotations

import os
import re
from functools import cache
from typing import NamedTuple

from jobgen import document
from jobgen.bind import bind
from jobgen.document import Scalar, merged
from jobgen.errors import Position, Problem, SpecError, UsageError
from jobgen.profile import SiteProfile as SiteProfile

BUILT_IN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sites")


class Found(NamedTuple):
    """A profile and the files it is made of, the first one on top."""

    profile: SiteProfile
    files: tuple[str, ...]


def folders() -> list[str]:
    """The folders that may hold profiles; a later one hides what an earlier one has.

    Built-in, the machine's, $JOBGEN_SITE_PATH's (a centre sets it in a module), the user's, and
    the project's: `.jobgen/sites` here or in the nearest folder above, up to that of `.git`.
    """
    listed = os.environ.get("JOBGEN_SITE_PATH", "").split(":")
    found = [BUILT_IN, "/etc/jobgen/sites", *(folder for folder in listed if folder)]
    found.append(_own_folder())
    here = os.getcwd()
    while True:
        project = os.path.join(here, ".jobgen", "sites")
        if os.path.isdir(project):
            return [*found, project]
        above = os.path.dirname(here)
        if above == here or os.path.exists(os.path.join(here, ".git")):
            return found
        here = above


def _own_folder() -> str:
    user = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return os.path.join(user, "jobgen", "sites")


def own_file(name: str) -> str:
    """Where the user's own profile called `name` is kept; raises UsageError for no name."""
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*", name):
        raise UsageError(f"{name!r}: is no name of a site; use letters, digits and any of _ . + -")
    return os.path.join(_own_folder(), f"{name}.yaml")


def names() -> list[str]:
    """The profiles there are, sorted."""
    found: set[str] = set()
    for folder in folders():
        if os.path.isdir(folder):
            found.update(name[:-5] for name in os.listdir(folder) if name.endswith(".yaml"))
    return sorted(found)


def exists(name: str) -> bool:
    """Whether there is a profile called `name`."""
    return bool(_files(name))


def load(name: str) -> SiteProfile:
    """The profile called `name`; raises SpecError where there is none, or it is invalid."""
    return find(name).profile


def find(name: str) -> Found:
    """The profile called `name` and its files; raises SpecError as `load` does."""
    files = _files(name)
    if not files:
        raise SpecError([Problem(Position(name), "", "no such site", unknown())])
    return _read(files[-1], tuple(files[:-1]))


def read(file: str) -> Found:
    """The profile in `file`, wherever that is; one of its own name that it extends is looked up."""
    own = os.path.abspath(file)
    name = os.path.basename(file).removesuffix(".yaml")
    below = [path for path in _files(name) if os.path.abspath(path) != own]
    return _read(file, tuple(below))


def unknown() -> str:
    """What to say of a site that is not known."""
    return f"known are {', '.join(names())}"


def _files(name: str) -> list[str]:
    """The files of that name, those that win last."""
    if os.path.basename(name) != name or name.startswith("."):
        return []
    paths = (os.path.join(folder, f"{name}.yaml") for folder in folders())
    return [path for path in paths if os.path.isfile(path)]


@cache
def _read(file: str, below: tuple[str, ...]) -> Found:
    root, files = document.read(file), [file]
    while True:
        extends = root.items.get("extends")
        if not isinstance(extends, Scalar):  # none, or binding says what is wrong with it
            break
        base = extends.text
        if base == os.path.basename(files[-1]).removesuffix(".yaml"):
            others = list(below) or files[-1:]  # what this file hides
        else:
            others = _files(base)
        if not others:
            problem = Problem(extends.where, "extends", f"no such site {base!r}", unknown())
            raise SpecError([problem])
        if others[-1] in files:
            chain = " -> ".join([*files[files.index(others[-1]) :], others[-1]])
            raise SpecError([Problem(extends.where, "extends", f"leads back to itself: {chain}")])
        files.append(others[-1])
        below = tuple(others[:-1])
        lower = document.read(files[-1])
        del root.items["extends"], root.keys["extends"]
        root = merged(lower, root)
    return Found(bind(root, SiteProfile)[0], tuple(files))
