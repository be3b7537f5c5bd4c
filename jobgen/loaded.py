"""A spec read from its file: overrides applied, every field with its place."""

import hashlib
import json
import os
from collections.abc import Iterable
from typing import Any, NamedTuple

from jobgen import document
from jobgen.bind import Positions, bind
from jobgen.errors import Position, Problem, SpecError, UsageError
from jobgen.spec import JobSpec


class LoadedSpec(NamedTuple):
    """A spec and where it came from: its file, the overrides applied, where each field stands.

    `digest` is of what was written, comments and layout aside: 16 hex digits of its SHA-256.
    """

    spec: JobSpec
    file: str
    digest: str
    positions: Positions
    overrides: tuple[str, ...] = ()

    def where(self, path: str) -> Position:
        """The place of the field at `path`, or of the nearest one around it that is there."""
        while path:
            if path in self.positions:
                return self.positions[path]
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return Position(self.file, 1, 1)

    def problem(self, path: str, message: str, hint: str = "") -> Problem:
        """A problem with the value at `path`."""
        return Problem(self.where(path), path, message, hint)


def load(
    path: str, overrides: Iterable[str] = (), *, user: bool = False, target: str | None = None
) -> LoadedSpec:
    """Read the spec in the file at `path`, with `overrides` (`resources.nodes=4`) on top.

    Below it lie what it extends and the project's defaults, and with `user` the user's own config;
    what that adds is among the overrides of the result, so that others can render the same.
    `target` is the scheduler or site that is given in the place of the spec's.

    A position's file is `path` as given. Raises SpecError with every problem found, and UsageError
    for an override that is no PATH=VALUE.
    """
    overrides = tuple(overrides)
    if not path or not os.path.basename(path).isprintable():
        raise SpecError([Problem(Position(repr(path)), "", "a script cannot cite such a name")])
    root = document.read(path)
    project, own = _project_file(path), _user_file() if user else None
    if "extends" in root.items or project or own:
        from jobgen import overlay

        root = overlay.whole(root, path)
        if project:
            root = overlay.over_project(root, project)
    for override in overrides:
        _override(root, override)
    if own:
        given = tuple(override.partition("=")[0] for override in overrides)
        for override, where in list(overlay.of_user(root, own, given=given, target=target)):
            _override(root, override, where)
            overrides += (override,)
    spec, positions = bind(root, JobSpec)
    return LoadedSpec(spec, path, _digest(root), positions, overrides)


def _project_file(path: str) -> str | None:
    """The project's defaults for the spec in `path`.

    It is `.jobgen.yaml` in the spec's folder or the nearest above that has one, up to that of
    `.git`; None where there is none.
    """
    folder = os.path.dirname(os.path.abspath(path))
    while True:
        found = os.path.join(folder, ".jobgen.yaml")
        if os.path.isfile(found):
            return None if os.path.samefile(found, path) else os.path.relpath(found)
        above = os.path.dirname(folder)
        if above == folder or os.path.exists(os.path.join(folder, ".git")):
            return None
        folder = above


def _user_file() -> str | None:
    """The user's own config; None where there is none."""
    folder = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    found = os.path.join(folder, "jobgen", "config.yaml")
    return found if os.path.isfile(found) else None


def _digest(root: document.Mapping) -> str:
    def plain(node: document.Node) -> Any:
        if isinstance(node, document.Mapping):
            return {key: plain(item) for key, item in node.items.items()}
        if isinstance(node, document.Sequence):
            return [plain(item) for item in node.items]
        return [node.kind, node.text]

    return hashlib.sha256(json.dumps(plain(root)).encode()).hexdigest()[:16]


def _override(root: document.Mapping, override: str, where: Position | None = None) -> None:
    """Set one value of the tree, written at `where`; `null` takes the key out."""
    path, equals, text = override.partition("=")
    keys = path.split(".")
    if not equals or not all(keys) or not override.isprintable():
        raise UsageError(f"--set {override!r}: write it as resources.nodes=4, on one line")
    where = where or Position(f"--set {path}")
    value = document.parse_value(text, file=where.file)
    value.where = where
    gone = isinstance(value, document.Scalar) and value.kind == "null"
    node = root
    for key in keys[:-1]:
        outer, node = node, document.Mapping(where)
        inner = outer.items.get(key)
        if isinstance(inner, document.Mapping):  # a copy: an alias may share it with another key
            node.where = inner.where
            node.items.update(inner.items)
            node.keys.update(inner.keys)
        elif gone:
            return
        else:
            outer.keys[key] = where
        outer.items[key] = node
    if gone:
        node.items.pop(keys[-1], None)
    else:
        node.items[keys[-1]] = value
        node.keys[keys[-1]] = where
