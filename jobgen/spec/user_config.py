"""The user's own config: who one is, where jobs run, and whose defaults are taken."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from typing import Annotated

from jobgen.errors import Position, Problem, SpecError
from jobgen.records import NamedTuple
from jobgen.spec import yaml_nodes
from jobgen.spec.bind import bind
from jobgen.spec.model import Notify
from jobgen.spec.value_types import Label


class UserConfig(NamedTuple):
    """What a user's own config may say: who one is, and where; never what a job is."""

    site: Annotated[Label | None, "The cluster's profile, for specs that say no scheduler."] = None
    account: Annotated[Label | None, "The project or account that pays."] = None
    notify: Annotated[Notify | None, "The e-mail that the scheduler sends."] = None
    trust: Annotated[
        tuple[str, ...],
        "Folders, with all below, whose .jobgen.yaml and site profiles count whoever owns them.",
    ] = ()


def name_user_file(name: str = "config.yaml") -> str:
    """Return where the user's own config is, or would be, or what is called `name` beside it."""
    folder = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return os.path.join(folder, "jobgen", name)


def find_user_file() -> str | None:
    """Return the path of the user's own config, or None if it does not exist."""
    file = name_user_file()
    return file if exists(file) and os.path.isfile(file) else None


def exists(path: str) -> bool:
    """Return whether there is such a path; os.path raises and catches an exception if not."""
    return os.access(path, os.F_OK)


def find_upwards(name: str, folder: str, *, fits: Callable[[str], bool]) -> str | None:
    """Return what is called `name`, and fits, in a folder or the nearest above it.

    The last to be searched is that of `.git`.
    """
    folder = folder.rstrip("/")
    while not (exists(path := f"{folder}/{name}") and fits(path)):
        if not folder or exists(f"{folder}/.git"):
            return None
        folder = folder.rpartition("/")[0]
    return path


def refuse_strangers(path: str) -> None:
    """Raise SpecError if defaults at `path`, a file or a folder, may be what a stranger wants.

    They change what a job runs, unasked. So they have to be the user's own or
    root's, and not writable by all, or by a group that the user is not in, unless the user's config
    trusts a folder that they are in.
    """
    faults = [*_list_faults(os.lstat(path)), *_list_faults(os.stat(path))]
    if not faults or _is_trusted(path):
        return
    folder = os.path.abspath(path if os.path.isdir(path) else os.path.dirname(path))
    hint = f"if you trust it, write `trust: [{folder}]` into {name_user_file()}"
    raise SpecError([Problem(Position(path), "", faults[0], hint)])


def _list_faults(about: os.stat_result) -> Iterator[str]:
    """Yield why a file, or a link, may be what a stranger wants."""
    writable = 0 if stat.S_ISLNK(about.st_mode) else about.st_mode
    if about.st_uid not in (os.geteuid(), 0):
        yield f"belongs to user {about.st_uid}; jobgen does not use their defaults"
    elif writable & stat.S_IWOTH:
        yield "can be changed by everyone on this machine"
    elif writable & stat.S_IWGRP and about.st_gid not in {os.getegid(), *os.getgroups()}:
        yield f"can be changed by group {about.st_gid}, which you are not in"


def _is_trusted(path: str) -> bool:
    file, inside = find_user_file(), os.path.realpath(path)
    trusted = bind(yaml_nodes.read(file), UserConfig)[0].trust if file else ()
    folders = (os.path.realpath(os.path.expandvars(os.path.expanduser(one))) for one in trusted)
    return any(os.path.commonpath([folder, inside]) == folder for folder in folders)
