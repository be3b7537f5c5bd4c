"""Find site profiles, and merge those that extend others."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from functools import cache

from jobgen.errors import Position, Problem, SpecError, UsageError
from jobgen.output import offer_line
from jobgen.records import NamedTuple
from jobgen.sites.profile import SiteProfile as SiteProfile
from jobgen.spec import user_config, yaml_nodes
from jobgen.spec.bind import bind
from jobgen.spec.user_config import find_upwards, name_user_file, refuse_strangers
from jobgen.spec.yaml_nodes import Scalar

_HOW_TO_GET = "`jobgen sites capture` writes a profile; `jobgen sites` lists the known ones"
BUILT_IN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")


class LoadedProfile(NamedTuple):
    """A profile and the files it comes from, the topmost first."""

    profile: SiteProfile
    files: tuple[str, ...]


def list_folders() -> list[str]:
    """The folders that can hold profiles; a later one hides what an earlier one has.

    Built-in, the machine's, $JOBGEN_SITE_PATH's (a centre sets it in a module), the user's, and
    the project's: `.jobgen/sites` here or in the nearest folder above, up to that of `.git`.
    Raises SpecError if one is a stranger's.
    """
    listed = os.environ.get("JOBGEN_SITE_PATH", "").split(":")
    project = find_upwards(".jobgen/sites", os.getcwd(), fits=os.path.isdir)
    candidates = filter(None, ["/etc/jobgen/sites", *listed, name_user_file("sites"), project])
    folders = [folder for folder in filter(user_config.exists, candidates) if os.path.isdir(folder)]
    for folder in folders:
        refuse_strangers(folder)
        if os.path.basename(parent := os.path.dirname(folder)) == ".jobgen":
            refuse_strangers(parent)  # its owner may exchange what lies in it
    return [BUILT_IN, *folders]


def name_own_file(name: str) -> str:
    """Where the user's own profile called `name` is kept; raises UsageError for no name."""
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*", name):
        raise UsageError(f"{name!r} cannot name a site; use letters, digits and any of _ . + -")
    return os.path.join(name_user_file("sites"), f"{name}.yaml")


def list_names() -> list[str]:
    """Return the names of all profiles, sorted."""
    return sorted(_map_files())


def list_profiles() -> Iterator[tuple[str, LoadedProfile | None]]:
    """Yield every profile with its name, sorted; None for one that cannot be read.

    The folders are looked at once for all of them.
    """
    for name, files in sorted(_map_files().items()):
        try:
            _refuse_strangers(files)
            yield name, _read(files[-1], tuple(files[:-1]))
        except SpecError:
            yield name, None


def exists(name: str) -> bool:
    """Return whether a profile called `name` exists."""
    return bool(_find_files(name))


def load(name: str) -> SiteProfile:
    """Return the profile called `name`; raise SpecError if it does not exist or is invalid."""
    return find(name).profile


def find(name: str) -> LoadedProfile:
    """The profile called `name` and its files; raises SpecError as `load` does."""
    files = _find_files(name)
    if not files:
        raise SpecError([Problem(Position(name), "", "unknown site", suggest(name))])
    return _read(files[-1], tuple(files[:-1]))


def read(file: str) -> LoadedProfile:
    """The profile in `file`; one of the same name that it extends is looked up."""
    _refuse_other_file(file)
    own = os.path.abspath(file)
    name = os.path.basename(file).removesuffix(".yaml")
    below = [path for path in _find_files(name) if os.path.abspath(path) != own]
    return _read(file, tuple(below))


def _refuse_other_file(file: str) -> None:
    """Raise SpecError for a file that is not here, or that is a job's spec."""
    from jobgen.spec.spelling import find_near_file
    from jobgen.spec.table import read_here

    def runs(path: str) -> bool:
        return bool(re.search(r"(?m)^(run|roles):", read_here(path)))

    message, hint = "", f"to check it, type: {offer_line('jobgen', 'check', file)}"
    if runs(file):
        message = "is a job's spec, not a site's profile"
    elif not os.path.exists(file):
        message, near = os.strerror(errno.ENOENT), find_near_file(file, (".yaml", ".yml"))
        hint = f"did you mean {near}?" if near and not runs(near) else _HOW_TO_GET
    if message:
        raise SpecError([Problem(Position(file), "", message, hint)])


def list_near(name: str) -> list[str]:
    """Return the sites with names that contain an unknown name, or resemble it."""
    from difflib import get_close_matches  # only an error needs it

    known, word = list_names(), name.lower()
    parts = {(part, other) for other in known for part in other.lower().split("-") if part[3:]}
    near = [other for other in known if word and word in other.lower()]
    near = near or sorted({other for part, other in parts if part in word})
    return near or get_close_matches(word, known, n=3, cutoff=0.7)


def suggest(name: str) -> str:
    """Return a hint for an unknown name."""
    known, word = list_names(), name.lower()
    if f"{word}-generic" in known:
        return f"it is a scheduler; write scheduler: {word}, or the site {word}-generic"
    if near := list_near(name):
        return f"did you mean {' or '.join(near[:3])}?"
    return f"`jobgen sites` lists the {len(known)} known ones"


def _find_files(name: str) -> list[str]:
    """Return the files with that name, the one that wins last."""
    if os.path.basename(name) != name or name.startswith("."):
        return []
    paths = (os.path.join(folder, f"{name}.yaml") for folder in list_folders())
    files = [path for path in paths if os.path.isfile(path)]
    _refuse_strangers(files)
    return files


def _map_files() -> dict[str, list[str]]:
    """Return the files of all names, those that win last."""
    files: dict[str, list[str]] = {}
    for folder in list_folders():
        for file in os.listdir(folder):
            if file.endswith(".yaml"):
                files.setdefault(file[:-5], []).append(os.path.join(folder, file))
    return files


def _refuse_strangers(files: list[str]) -> None:
    for file in files:
        if os.path.dirname(file) != BUILT_IN:
            refuse_strangers(file)


@cache
def _read(file: str, below: tuple[str, ...]) -> LoadedProfile:
    def find_base(extends: Scalar, files: list[str]) -> str:
        nonlocal below
        name = extends.text
        if name == os.path.basename(files[-1]).removesuffix(".yaml"):
            others = list(below) or files[-1:]
        else:
            others = _find_files(name)
        if not others:
            problem = Problem(extends.where, "extends", f"unknown site {name!r}", suggest(name))
            raise SpecError([problem])
        below = tuple(others[:-1])
        return others[-1]

    root, files = yaml_nodes.lay_over(yaml_nodes.read(file), file, find_base)
    if isinstance(root.items.get("extends"), Scalar):  # else binding says what is wrong with it
        root = root.without("extends")
    return LoadedProfile(bind(root, SiteProfile)[0], tuple(files))
