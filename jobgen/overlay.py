"""What lies below a spec: what it extends, the project's defaults, the user's own.

All are trees of nodes, so that each value keeps the place where it is written.
"""

import json
import os
from collections.abc import Iterator
from typing import Annotated, NamedTuple

from jobgen import document
from jobgen.bind import bind
from jobgen.document import Mapping, Node, Scalar, Sequence, merged
from jobgen.errors import Position, Problem, SpecError
from jobgen.fields import Label
from jobgen.spec import Notify


class UserConfig(NamedTuple):
    """What a user's own config may say: who one is, and where; never what a job is."""

    site: Annotated[Label | None, "The cluster's profile, for specs that say no scheduler."] = None
    account: Annotated[Label | None, "The project or account that pays."] = None
    notify: Annotated[Notify | None, "The e-mail that the scheduler sends."] = None


def whole(root: Mapping, path: str) -> Mapping:
    """The spec `root`, read from `path`, over the one that it `extends`, and so on.

    Raises SpecError where a file is not there, or leads back to itself.
    """
    layers, files = [root], [path]
    while isinstance(extends := layers[-1].items.get("extends"), Scalar):
        base = os.path.join(os.path.dirname(files[-1]), os.path.expanduser(extends.text))
        if any(_same(base, file) for file in files):
            chain = " -> ".join([*files, base])
            raise SpecError([Problem(extends.where, "extends", f"leads back to itself: {chain}")])
        if not os.path.isfile(base):
            hint = "it is looked for from the folder of the file that names it"
            raise SpecError([Problem(extends.where, "extends", f"there is no file {base!r}", hint)])
        files.append(base)
        layers.append(document.read(base))
    result = layers.pop()
    while layers:
        result = merged(_without(result, "extends"), layers.pop())
    return result


def over_project(root: Mapping, file: str) -> Mapping:
    """`root` over the project's defaults in `file`."""
    return merged(_without(whole(document.read(file), file), "extends"), root)


def of_user(
    root: Mapping, file: str, *, given: tuple[str, ...], target: str | None
) -> Iterator[tuple[str, Position]]:
    """What the user's config adds to `root`, as `--set` would say it, and where it is written.

    `given` are the paths that were set on the command line; `target` is the scheduler or site that
    was given there. A job on this machine has no use for any of it.
    """
    config = document.read(file)
    bind(config, UserConfig)
    scheduler = root.items.get("scheduler")
    if (target or (scheduler.text if isinstance(scheduler, Scalar) else "")) == "local":
        return
    for path, node in _leaves(config, ""):
        key, _, inner = path.partition(".")
        if key == "site" and (target or {"site", "scheduler"} & root.items.keys()):
            continue
        if any(path == taken or path.startswith(f"{taken}.") for taken in given):
            continue
        present = root.items.get(key)
        if present is None or (isinstance(present, Mapping) and inner not in present.items):
            yield f"{path}={_text(node)}", node.where


def _leaves(node: Mapping, path: str) -> Iterator[tuple[str, Node]]:
    for key, item in node.items.items():
        if isinstance(item, Mapping):
            yield from _leaves(item, f"{path}{key}.")
        else:
            yield f"{path}{key}", item


def _text(node: Node) -> str:
    """A node as `--set` reads it."""
    if isinstance(node, Sequence):
        return f"[{', '.join(map(_text, node.items))}]"
    assert isinstance(node, Scalar)
    again = document.parse_value(node.text, file="")
    same = isinstance(again, Scalar) and (again.kind, again.text) == (node.kind, node.text)
    return node.text if same else json.dumps(node.text)


def _without(root: Mapping, key: str) -> Mapping:
    nothing = Mapping(root.where)
    nothing.items[key] = Scalar(Position(""), "", "null")
    nothing.keys[key] = root.where
    return merged(root, nothing)


def _same(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)
