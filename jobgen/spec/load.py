"""A spec read from its file: overrides applied, every field with its place."""

from __future__ import annotations

import collections.abc
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from typing import Any

from jobgen.capabilities import get_capabilities
from jobgen.errors import Position, Problem, SpecError, UsageError
from jobgen.records import NamedTuple
from jobgen.schedulers.registry import PACKAGES
from jobgen.spec import roles, yaml_nodes
from jobgen.spec.bind import Positions, bind
from jobgen.spec.fields import read_fields
from jobgen.spec.model import JobSpec
from jobgen.spec.user_config import UserConfig, find_upwards, find_user_file, refuse_strangers
from jobgen.spec.yaml_nodes import (
    Mapping,
    Node,
    Scalar,
    Sequence,
    describe,
    lay_over,
    merge,
    walk_leaves,
)

# What a spec that is not a file is called.
SPEC = "the spec"


class LoadedSpec(NamedTuple):
    """A spec and where it came from: its file, the overrides applied, where each field stands.

    `digest` is of what was written, comments and layout aside: 16 hex digits of its SHA-256. `text`
    is the file's own, and `laid`, if other files lie below it, what came of them all.
    `defaults` are files that nothing names: the project's, and the user's own config. Of a
    `role`, `spec` is that of a job on its nodes alone, at `place`, and `whole` that of the file.
    """

    spec: JobSpec
    file: str
    digest: str
    positions: Positions
    overrides: tuple[str, ...] = ()
    text: str = ""
    laid: Mapping | None = None
    defaults: tuple[str, ...] = ()
    role: str = ""
    place: roles.Spot | None = None
    whole: JobSpec | None = None
    has_lines: bool = True  # as keys and values from Python have not
    tree: Mapping = Mapping(Position(SPEC))  # all that is given, overrides too

    def where(self, path: str) -> Position:
        """The place of the field at `path`, or of the nearest one around it that is there."""
        path = self.find_path(path)
        while path and path not in self.positions:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        where = self.positions.get(path, Position(self.file, 1, 1))
        return where if self.has_lines or where.file != SPEC else Position(SPEC)

    def write_whole(self) -> str:
        """Return the text of a spec that needs no other files: `overrides` are not in it."""
        if self.laid is None:
            return self.text
        from jobgen.spec.yaml_text import write_data

        return write_data(self.laid)

    def programs(self) -> Iterator[LoadedSpec]:
        """Yield the spec, or those of its roles, each as that of a job on its own nodes."""
        if not self.spec.roles:
            yield self
            return
        places, _ = roles.deal_nodes(self.spec)
        for name, place in places.items():
            spec = roles.make_spec(self.spec, name, place)
            yield self._replace(spec=spec, role=name, place=place, whole=self.spec)

    def problem(self, path: str, message: str, hint: str = "") -> Problem:
        """A problem with the value at `path`."""
        return Problem(self.where(path), self.find_path(path), message, hint)

    def find_path(self, path: str) -> str:
        """Where the value at `path` is written: of a role, with the role or with the job."""
        run = self.spec.run
        if run.words and {"run.args": not run.args, "run.module": True}.get(path):
            path = "run.command"
        if self.whole is None or not self.whole.roles:
            return path
        return roles.find_path(self.role, path, self.whole.roles[self.role])


Source = str | os.PathLike[str] | collections.abc.Mapping[str, Any]
Overrides = Iterable[str] | collections.abc.Mapping[str, Any]


def load(
    source: Source,
    overrides: Overrides = (),
    *,
    user: bool = False,
    target: str | None = None,
    alone: bool = False,
) -> LoadedSpec:
    """Read a spec, with `overrides` on top: texts such as `resources.nodes=4`, or values by path.

    `source` is a file's path; or the spec itself, as keys and values or a text of several lines.
    Below it lie what it extends and the project's defaults, unless it is to stand `alone`, and with
    `user` the user's own config; what that adds is among the overrides of the result, so that
    others can render the same. `target` is the scheduler or site that is given in the place of the
    spec's.

    A position's file is the path as given. Raises SpecError with every problem, and UsageError
    for an override that is not PATH=VALUE.
    """
    overrides = write_overrides(overrides)
    path, text = _read_source(source)
    root = yaml_nodes.parse(text, file=path)
    project = None if alone else _find_project_file(path)
    laid = None
    if "extends" in root.items or project:
        root, _ = lay_over(root, path, _find_base)
        if project:
            below, _ = lay_over(yaml_nodes.read(project), project, _find_base)
            root = merge(below.without("extends"), root)
        laid = root.without("extends")
    for override in overrides:
        _apply_override(root, override)
    own = find_user_file() if user else None
    added = _apply_user_config(root, own, given=overrides, target=target) if own else ()
    spec, positions = _bind(root, source, path, text)
    loaded = LoadedSpec(
        spec=spec,
        file=path,
        digest=_compute_digest(root),
        positions=positions,
        overrides=overrides + added,
        text=text,
        laid=laid,
        defaults=tuple(filter(None, (project, own if added else None))),
        has_lines=not isinstance(source, collections.abc.Mapping),
        tree=root,
    )
    if problems := [loaded.problem(*conflict) for conflict in roles.find_conflicts(spec)]:
        raise SpecError(problems)
    return loaded


def _bind(root: Mapping, source: Source, path: str, text: str) -> tuple[JobSpec, Positions]:
    try:
        return bind(root, JobSpec, text)
    except SpecError as error:
        if isinstance(source, collections.abc.Mapping):
            nowhere = Position(SPEC)
            raise SpecError([one._replace(where=nowhere) for one in error.problems]) from None
        is_spec = isinstance(root.items.get("run"), Mapping)
        if not (is_spec or {"roles", "extends"} & root.items.keys()):
            yaml_nodes.refuse_other_files(path, text, error.problems)
            _refuse_other_keys(path, root)
        raise


def _refuse_other_keys(path: str, root: Mapping) -> None:
    """Raise SpecError for a file that has no keys of a spec, in whatever words."""
    from jobgen.spec.table import point_to_spec
    from jobgen.spec.words import is_group

    given = Mapping(root.where)
    given.items = {key: one for key, one in root.items.items() if one.where.file == path}
    own = read_fields(JobSpec).keys() & given.items.keys() - {"name"}
    if given.items and not own and not is_group(given, JobSpec):
        message = f"is not a job spec: it has {', '.join([*given.items][:8])}"
        raise SpecError([Problem(Position(path, 1, 1), "", message, point_to_spec(path))]) from None


def write_overrides(overrides: Overrides) -> tuple[str, ...]:
    """Return overrides as the texts that --set takes."""
    if isinstance(overrides, collections.abc.Mapping):
        items = overrides.items()
        overrides = (f"{path}={json.dumps(value, default=os.fspath)}" for path, value in items)
    return tuple(overrides)


def _read_source(source: Source) -> tuple[str, str]:
    """Return the name that positions carry, and the text."""
    if isinstance(source, collections.abc.Mapping):
        from jobgen.spec.yaml_text import write_data

        text = json.dumps(source, default=os.fspath)
        return SPEC, write_data(yaml_nodes.parse(text, file=SPEC))
    path = os.fspath(source)
    if isinstance(source, str) and "\n" in path and re.search(r":\s", path):
        return SPEC, path
    if not path or not os.path.basename(path).isprintable():
        message = "this name cannot stand in a comment of a script"
        raise SpecError([Problem(Position(repr(path)), "", message)])
    return path, yaml_nodes.read_text(path)


def _find_base(extends: Scalar, files: list[str]) -> str:
    file, folder = files[-1], os.path.dirname(files[-1])
    base = os.path.join(folder, os.path.expanduser(extends.text))
    if os.path.isfile(base):
        return base
    from jobgen.spec.spelling import find_near_file

    hint = "a relative path begins at the folder of the file that names it"
    near = find_near_file(base, (".yaml", ".yml"))
    if near and os.path.realpath(near) != os.path.realpath(file):
        hint = f"did you mean {os.path.relpath(near, folder or '.')}?"
    raise SpecError([Problem(extends.where, "extends", f"{base!r} does not exist", hint)])


def _apply_user_config(
    root: Mapping, file: str, *, given: tuple[str, ...], target: str | None
) -> tuple[str, ...]:
    """Add the user's config to `root`; return it as overrides, below those that are `given`.

    `target` is the scheduler or site that the command line gives. A job on this machine needs none
    of it.
    """
    from jobgen.spec.yaml_text import write_value

    config = yaml_nodes.read(file)
    bind(config, UserConfig)
    named = root.items.get("scheduler")
    scheduler = target or (named.text if named else "")
    if scheduler in PACKAGES and not get_capabilities(scheduler).batch:
        return ()
    taken = [f"{override.partition('=')[0]}." for override in given]
    if target or {"site", "scheduler"} & root.items.keys():
        taken.append("site.")
    overrides = []
    for path, node in walk_leaves(merge(config.without("trust"), root)):
        if node.where.file == file and not f"{path}.".startswith(tuple(taken)):
            overrides.append(f"{path}={write_value(node)}")
            _apply_override(root, overrides[-1], node.where)
    return tuple(overrides)


def _find_project_file(path: str) -> str | None:
    """The project's defaults for the spec in `path`.

    It is `.jobgen.yaml` in the spec's folder or the nearest above that has one, up to that of
    `.git`. Returns None if no folder has one, and raises SpecError if it is a stranger's.
    """
    folder = os.path.dirname(os.path.abspath(path))
    file = find_upwards(".jobgen.yaml", folder, fits=os.path.isfile)
    if file is None or os.path.realpath(file) == os.path.realpath(path):
        return None
    refuse_strangers(file)
    return os.path.relpath(file)


def _compute_digest(root: Mapping) -> str:
    def write(node: Node) -> object:
        return [node.kind, node.text] if isinstance(node, Scalar) else node.items

    text = json.dumps(root, default=write, check_circular=False)  # aliases make no circle
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _apply_override(root: Mapping, override: str, where: Position | None = None) -> None:
    """Set one value of the tree, written at `where`; `null` takes the key out."""
    path, _, text = override.partition("=")
    if path == "run.args+" and override.isprintable():
        from jobgen.spec.arguments import add_words

        add_words(root, text, Position("the command line"))
        return
    _refuse_form(override)
    where = where or Position(f"--set {path}")
    value = _parse_value(text, where)
    gone = value.kind == "null"
    *outer, last = path.split(".")
    node = root
    for key in outer:
        inner = node.items.get(key)
        if isinstance(inner, Sequence) or (inner and inner.kind == "str"):
            hint = "; give its options behind `--`" if path.startswith("run.args.") else ""
            raise UsageError(f"--set {override!r}: {key} is {describe(inner)}{hint}")
        if not isinstance(inner, Mapping):
            if gone:
                return
            inner = Mapping(where)
            node.keys[key] = where
        node.items[key] = node = inner.copy()
    if gone:
        node.items.pop(last, None)
    else:
        node.items[last], node.keys[last] = value, where


def _refuse_form(override: str) -> None:
    path, equals, text = override.partition("=")
    if path.endswith("+"):
        whole = f"{path[:-1]}=[...]"
        raise UsageError(f"--set {override!r}: adds to run.args alone; write the whole: {whole}")
    if not equals or not all(path.split(".")) or not override.isprintable():
        named = not equals and re.fullmatch(r"[\w.-]+", path)
        form = f"{path}=VALUE" if named else "resources.nodes=4"
        raise UsageError(f"--set {override!r}: write it as {form}, on one line")
    paths = r".*,\s*(resources|environment|run|launch|array|notify|on_\w+)\.[\w.]+=.*"
    if re.fullmatch(rf"{paths}|[^\s,=]+(,[a-z_]+=[^\s,=]+)+", text):
        raise UsageError(f"--set {override!r}: sets one value; give --set again for the next")


def _parse_value(text: str, where: Position) -> Node:
    value, plain = yaml_nodes.parse_value(text, file=where.file), text.strip()
    if isinstance(value, Scalar) and "#" in text and plain[0] not in "\"'|>":
        value = Scalar(where, plain, "str")  # a command line has no comments
    value.where = where
    return value
