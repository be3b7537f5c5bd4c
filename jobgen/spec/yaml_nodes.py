"""YAML text to a tree of nodes that know where they stand. The only module that knows PyYAML.

Scalars follow the core schema of YAML 1.2, not 1.1: `2:00:00`, `on`, `no`, `010` and dates stay
the text that was written, and only what the tree calls int, float, bool or null is such.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import yaml
from yaml.resolver import BaseResolver

from jobgen.errors import Position, Problem, SpecError

MAX_BYTES = 1 << 20
MAX_DEPTH = 32
MAX_VALUES = 100_000  # with those that aliases repeat
_NO_TAGS = "write the value itself, or extends: FILE for another spec"
# A line with so many of the characters that can stand before its first value.
_DEEP_LINE = re.compile(r"^[ \t\-?:]{12}", re.MULTILINE)
_FEW_BRACKETS = MAX_DEPTH - 12


_MAP, _LIST, _TEXT = (f"tag:yaml.org,2002:{kind}" for kind in ("map", "seq", "str"))


class Scalar:
    """One value: its text as written (quotes and folding undone) and what YAML 1.2 calls it.

    `kind` is str, int, float, bool or null.
    """

    def __init__(self, where: Position, text: str, kind: str) -> None:
        self.where = where
        self.text = text
        self.kind = kind


class Sequence:
    """A list of nodes."""

    kind = "list"

    def __init__(self, where: Position, items: list[Node]) -> None:
        self.where = where
        self.items = items


class Mapping:
    """Nodes by key, in document order; `keys` holds each key's own place."""

    kind = "map"

    def __init__(self, where: Position) -> None:
        self.where = where
        self.items: dict[str, Node] = {}
        self.keys: dict[str, Position] = {}

    def copy(self) -> Mapping:
        """Return the same entries, to be changed: an alias may share this mapping."""
        result = Mapping(self.where)
        result.items, result.keys = dict(self.items), dict(self.keys)
        return result

    def without(self, key: str) -> Mapping:
        """Return the same entries but for one."""
        result = self.copy()
        result.items.pop(key, None)
        return result


Node = Scalar | Sequence | Mapping


class Resolver(BaseResolver):
    """YAML 1.2's core schema (yaml.org/spec/1.2.2, section 10.3.2)."""

    def resolve(self, kind: Any, value: str, implicit: tuple[bool, bool]) -> str:
        """Return what a node is, of plain text by its form; PyYAML asks paths and tables, too."""
        if kind is not yaml.ScalarNode:
            return _MAP if kind is yaml.MappingNode else _LIST
        plain, _ = implicit
        for tag, pattern in self.yaml_implicit_resolvers.get(value[:1], ()) if plain else ():
            if pattern.match(value):
                return str(tag)
        return _TEXT


for _tag, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"
        r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
):
    Resolver.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_pattern})\Z"), _first
    )


class PlainComposer(
    yaml.reader.Reader, yaml.scanner.Scanner, yaml.parser.Parser, yaml.composer.Composer, Resolver
):
    """Text to PyYAML's nodes, by its parser in Python."""

    def __init__(self, text: str) -> None:
        yaml.reader.Reader.__init__(self, text)
        yaml.scanner.Scanner.__init__(self)
        yaml.parser.Parser.__init__(self)
        yaml.composer.Composer.__init__(self)
        Resolver.__init__(self)


try:
    from yaml._yaml import CParser
except ImportError:  # PyYAML built without libyaml: slower, the same trees
    _Composer = PlainComposer
else:

    class _Composer(CParser, Resolver):  # type: ignore[no-redef]
        def __init__(self, text: str) -> None:
            CParser.__init__(self, text)
            Resolver.__init__(self)


_KINDS = {f"tag:yaml.org,2002:{kind}": kind for kind in ("str", "int", "float", "bool", "null")}
_CONTAINERS = {_MAP, _LIST}


def read(path: str) -> Mapping:
    """The document in the file at `path`; raises SpecError if it cannot be read."""
    return parse(read_text(path), file=path)


def _suggest_file(path: str) -> str:
    """Return what a path that leads nowhere may be meant for: a job, or another spec."""
    from jobgen.spec.spelling import find_near

    if re.fullmatch(r"\d+(_\d+)?(\.[\w.-]+)?", path):  # as a job is named
        return f"`jobgen status {path}` shows a job"
    if re.search(r"[*?\[]", path):  # which the shell has left
        return "jobgen expands no patterns; `jobgen check --all` checks the specs below this folder"
    folder = os.path.dirname(path)
    with suppress(OSError):
        with os.scandir(folder or ".") as entries:
            files = sorted(entry.name for entry in entries if entry.is_file())
        there = [name for name in files if name.endswith((".yaml", ".yml"))]
        shown = there if len(there) == 1 else [find_near(os.path.basename(path), there)]
        if shown[0]:
            return f"did you mean {os.path.join(folder, shown[0])}?"
    return "`jobgen init` writes a first one"


def read_text(path: str) -> str:
    """The text of the file at `path`; raises SpecError if it cannot be read."""
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        hint = ""
        if isinstance(error, FileNotFoundError):
            hint = _suggest_file(path)
        elif isinstance(error, IsADirectoryError):
            near = _suggest_file(os.path.join(path, ""))
            hint = near if near.startswith("did") else "name the YAML file in it"
        raise SpecError([Problem(Position(path), "", error.strerror or str(error), hint)]) from None
    if len(data) > MAX_BYTES:
        message = f"is larger than {MAX_BYTES >> 20} MiB"
        raise SpecError([Problem(Position(path), "", message, "a job spec is a short file")])
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, start = data.count(b"\n", 0, error.start) + 1, data.rfind(b"\n", 0, error.start)
        message = f"byte 0x{data[error.start]:02x} is not UTF-8"
        where = Position(path, line, error.start - start)
        raise SpecError([Problem(where, "", message, "save the file as UTF-8")]) from None


def parse(text: str, *, file: str) -> Mapping:
    """The one mapping that `text` holds; raises SpecError with every problem found in it.

    `file` is the name that positions carry.
    """
    node = parse_value(text, file=file)
    if isinstance(node, Mapping):
        return node
    from jobgen.spec.table import explain_syntax, point_to_spec

    if node.kind == "null":
        hint = f"write at least name, run, resources; {point_to_spec(file)}"
        raise SpecError([Problem(Position(file, 1, 1), "", "is empty", hint)])
    refuse_other_files(file, text)
    if slip := explain_syntax(text.splitlines()[:1], 1):
        problem = Problem(Position(file, 1, slip[1]), "", *slip[2:])
    else:
        items = node.items if isinstance(node, Sequence) else [node]
        hint = "leave out the dashes" if all(isinstance(one, Mapping) for one in items) else ""
        problem = Problem(node.where, "", f"holds {describe(node)}, not keys and values", hint)
    raise SpecError([problem])


def refuse_other_files(file: str, text: str) -> None:
    """Raise SpecError for a file that is known to be something other than a spec."""
    from jobgen.spec.table import explain_file

    if about := explain_file(file, text):
        raise SpecError([Problem(Position(file), "", *about)]) from None


def parse_value(text: str, *, file: str) -> Node:
    """The one node, of whatever kind, that `text` holds; raises SpecError as `parse` does."""
    _check_depth(text, file)
    try:
        root = _Composer(text).get_single_node()
    except yaml.YAMLError as error:
        raise SpecError(_list_syntax_problems(error, text, file)) from None
    if root is None:
        return Scalar(Position(file, 1, 1), "", "null")
    converter = _Converter(file)
    tree = converter.convert(root)
    if converter.problems:
        raise SpecError(converter.problems)
    # Only aliases, which begin with an asterisk, repeat a value.
    if (_count_values(tree, {}) if "*" in text else len(converter.done)) > MAX_VALUES:
        message = f"holds more than {MAX_VALUES:,} values, counted as often as aliases repeat them"
        raise SpecError([Problem(Position(file), "", message)])
    return tree


def merge(lower: Mapping, upper: Mapping) -> Mapping:
    """`lower` as `upper` changes it: mappings merged, all else replaced, a null key taken out."""
    result = lower.copy()
    result.where = upper.where
    for key, node in upper.items.items():
        if node.kind == "null":
            result.items.pop(key, None)
            continue
        if isinstance(node, Mapping):
            below = lower.items.get(key)
            node = merge(below if isinstance(below, Mapping) else Mapping(node.where), node)
        result.items[key] = node
        result.keys[key] = upper.keys[key]
    return result


def lay_over(
    root: Mapping, file: str, find_base: Callable[[Scalar, list[str]], str]
) -> tuple[Mapping, list[str]]:
    """Return a document over the one that it `extends`, and so on, and the files from the top down.

    `find_base` returns the file that is extended, of the value and the files so far. Raises
    SpecError for one that extends itself.
    """
    layers, files = [root], [file]
    while isinstance(extends := layers[-1].items.get("extends"), Scalar):
        base = find_base(extends, files)
        known = [os.path.realpath(one) for one in files]
        if os.path.realpath(base) in known:
            chain = " -> ".join([*files[known.index(os.path.realpath(base)) :], base])
            raise SpecError([Problem(extends.where, "extends", f"extends itself: {chain}")])
        files.append(base)
        layers.append(read(base))
    result = layers.pop()
    while layers:
        result = merge(result.without("extends"), layers.pop())
    return result, files


def describe(node: Node) -> str:
    """What a node is, in words for a message."""
    words = {"null": "nothing", "list": "a list", "map": "keys and values"}
    if not isinstance(node, Scalar) or node.kind == "null":
        return words[node.kind]
    words = {"str": "text", "bool": "true or false"}
    return f"{words.get(node.kind, 'a number')} ({node.text!r})"


def _check_depth(text: str, file: str) -> None:
    """Refuse absurd nesting before anything recurses over it: libyaml's stack overflows."""
    if text.count("[") + text.count("{") < _FEW_BRACKETS and not _DEEP_LINE.search(text):
        return  # each level takes one of these characters; most specs have few enough
    depth = 0
    try:
        composer = _Composer(text)
        while (event := composer.get_event()) is not None:  # type: ignore[no-untyped-call]
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                if depth > MAX_DEPTH:
                    where = _make_position(event.start_mark, file)
                    message = f"is nested deeper than {MAX_DEPTH} levels"
                    raise SpecError([Problem(where, "", message)])
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
    except yaml.YAMLError:
        pass  # composing it reports the same fault


class _Converter:
    """PyYAML's nodes as ours, with what is wrong with them.

    `done` holds what became of a node met before (by its id): an alias shares its anchor's node, so
    that aliases of aliases cost nothing. A node is None there while what is in it is converted.
    """

    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[Problem] = []
        self.done: dict[int, Node | None] = {}

    def convert(self, node: Any) -> Node:
        """Return a node and all below it."""
        where = _make_position(node.start_mark, self.file)
        if id(node) in self.done:
            return self.done[id(node)] or self.refuse(where, "an alias that holds itself")
        if isinstance(node, yaml.ScalarNode):
            if node.tag not in _KINDS:
                self.refuse(where, f"unknown tag {node.tag!r}", _NO_TAGS)
            result: Node = Scalar(where, node.value, _KINDS.get(node.tag, "str"))
        elif node.tag not in _CONTAINERS:
            return self.refuse(where, f"unknown tag {node.tag!r}", _NO_TAGS)
        else:
            self.done[id(node)] = None
            if isinstance(node, yaml.SequenceNode):
                result = Sequence(where, [self.convert(item) for item in node.value])
            else:
                result = self.convert_mapping(node, where)
        self.done[id(node)] = result
        return result

    def convert_mapping(self, node: Any, where: Position) -> Mapping:
        """Return keys with their values, but for keys that cannot be."""
        result = Mapping(where)
        for key_node, value_node in node.value:
            where = _make_position(key_node.start_mark, self.file)
            if self.check_key(key_node, where, result):
                result.keys[key_node.value] = where
                result.items[key_node.value] = self.convert(value_node)
        return result

    def check_key(self, node: Any, where: Position, before: Mapping) -> bool:
        """Whether a key is right, beside those before it; what is wrong is noted."""
        if not isinstance(node, yaml.ScalarNode):
            template = isinstance(node, yaml.MappingNode)
            hint = "jobgen does not fill in {{templates}}; --set sets a value" if template else ""
            self.refuse(where, "a key must be text", hint)
        elif "\xa0" in node.value:
            self.refuse(
                where, f"key {node.value!r} holds a no-break space", "write an ordinary one"
            )
        elif not node.value.isprintable():  # messages cite keys as they are
            self.refuse(where, f"key {node.value!r} holds a control character")
        elif node.value == "<<":
            self.refuse(where, "merge keys ('<<') are not supported", "write the keys out")
        elif node.value in before.items:
            first = before.keys[node.value].line
            self.refuse(where, f"duplicate key {node.value!r}", f"line {first} already has it")
        else:
            return True
        return False

    def refuse(self, where: Position, message: str, hint: str = "") -> Scalar:
        """Note a problem; return what stands in the place of the value."""
        self.problems.append(Problem(where, "", message, hint))
        return Scalar(where, "", "null")


def _count_values(node: Node, known: dict[int, int]) -> int:
    """Count a tree's values as who walks it meets them; `known` has the counts of shared nodes."""
    if isinstance(node, Scalar):
        return 1
    if id(node) not in known:
        items = node.items.values() if isinstance(node, Mapping) else node.items
        known[id(node)] = 1 + sum(_count_values(item, known) for item in items)
    return known[id(node)]


def _make_position(mark: Any, file: str) -> Position:
    # Not by Position's own name: that takes half of the time of reading a spec's nodes.
    return tuple.__new__(Position, (file, mark.line + 1, mark.column + 1))


def _find_tabs(lines: list[str], file: str) -> Iterator[Problem]:
    for number, line in enumerate(lines, 1):
        if "\t" in line[: len(line) - len(line.lstrip())]:
            where = Position(file, number, line.index("\t") + 1)
            yield Problem(where, "", "a tab", "indent with spaces")


def _list_syntax_problems(error: yaml.YAMLError, text: str, file: str) -> list[Problem]:
    """PyYAML's error in our form; all lines indented by tabs, where those are the reason."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is None:  # ReaderError; its position counts bytes or characters, by the parser
        match = yaml.reader.Reader.NON_PRINTABLE.search(text)
        index = match.start() if match else 0
        line = text.count("\n", 0, index) + 1
        where = Position(file, line, index - text.rfind("\n", 0, index))
        return [Problem(where, "", f"character {text[index]!r} is not allowed in YAML")]
    where = _make_position(mark, file)
    lines = text.splitlines()
    tabs = list(_find_tabs(lines, file))
    if tabs and "\t" in "".join(lines[where.line - 1 : where.line]):
        return tabs
    from jobgen.spec.table import explain_syntax

    refuse_other_files(file, text)
    if slip := explain_syntax(lines, where.line):
        line, column, fault, hint = slip
        return [Problem(Position(file, line, column), "", fault, hint)]
    parts = [getattr(error, "context", None), getattr(error, "problem", None)]
    hint = "write KEY: VALUE or - ITEM, and text with special characters in quotes"
    hint = hint if len(lines) > 1 else ""  # a value alone, as of --set, has no keys
    return [Problem(where, "", ": ".join(part for part in parts if part) or "is not YAML", hint)]
