"""YAML text to a tree of nodes that know where they stand. The only module that knows PyYAML.

Scalars follow the core schema of YAML 1.2, not 1.1: `2:00:00`, `on`, `no`, `010` and dates stay
the text that was written, and only what the tree calls int, float, bool or null is such.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import yaml
from yaml.composer import ComposerError
from yaml.resolver import BaseResolver

from jobgen.errors import Position, Problem, SpecError

MAX_BYTES = 1 << 20
_PAGE = 1 << 12
MAX_DEPTH = 32
MAX_VALUES = 100_000  # with those that aliases repeat
_NO_TAGS = "write the value itself, or extends: FILE for another spec"
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

    kind, text = "list", ""

    def __init__(self, where: Position, items: list[Node]) -> None:
        self.where = where
        self.items = items


class Mapping:
    """Nodes by key, in document order; `keys` holds each key's own place."""

    kind, text = "map", ""

    def __init__(self, where: Position) -> None:
        self.where = where
        self.items: dict[str, Node] = {}
        self.keys: dict[str, Position] = {}

    def __repr__(self) -> str:
        return f"Mapping({self.keys})"

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
        return f"tag:yaml.org,2002:{_name_kind(value) if implicit[0] else 'str'}"


_FORMS = re.compile(
    r"(?P<null>~|null|Null|NULL|)|(?P<bool>true|True|TRUE|false|False|FALSE)"
    r"|(?P<int>[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)"
    r"|(?P<float>[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))"
)


def _name_kind(plain: str) -> str:
    """Return what text without quotes and without a tag is."""
    match = _FORMS.fullmatch(plain)
    return (match and match.lastgroup) or "str"


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
    from yaml._yaml import CParser as _Parser
except ImportError:  # PyYAML built without libyaml: slower, the same events
    _Parser = PlainComposer  # type: ignore[assignment,misc]


# What a value is by its tag; where it has none, or only a mark of one, quotes decide.
_SCALARS: dict[str | None, str] = {None: "str", "!": "str"}
_SCALARS |= {f"tag:yaml.org,2002:{kind}": kind for kind in ("str", "int", "float", "bool", "null")}
_CONTAINERS = {_MAP, _LIST, None, "!"}


def read(path: str) -> Mapping:
    """The document in the file at `path`; raises SpecError if it cannot be read."""
    return parse(read_text(path), file=path)


def _suggest_file(path: str) -> str:
    """Return what a path that leads nowhere may be meant for: a job, or another spec."""
    from jobgen.spec.spelling import find_near_file
    from jobgen.spec.table import find_rule, point_to_spec

    if answer := find_rule("missing_files", {"path": path}):
        return answer["say"]
    near = find_near_file(path, (".yaml", ".yml"))
    return f"did you mean {near}?" if near else point_to_spec(path)


def read_text(path: str) -> str:
    """The text of the file at `path`; raises SpecError if it cannot be read."""
    try:
        with open(path, "rb") as file:
            data = file.read(_PAGE)  # Python makes room for as many bytes as it is asked for
            data += file.read(MAX_BYTES) if len(data) == _PAGE else b""
    except OSError as error:
        hint = ""
        if isinstance(error, FileNotFoundError):
            hint = _suggest_file(path)
        elif isinstance(error, IsADirectoryError):
            own, near = os.path.join(path, "job.yaml"), _suggest_file(os.path.join(path, ""))
            near = f"did you mean {own}?" if os.path.isfile(own) else near
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


def refuse_other_files(file: str, text: str, problems: Iterable[Problem] = ()) -> None:
    """Raise SpecError for a file of another kind; of a job, with the `problems` of its keys."""
    from jobgen.spec.table import explain_file

    if about := explain_file(file, text):
        own = [*problems] if "job" in about else []
        hint = "what its keys are called here follows" if own else about["hint"]
        raise SpecError([Problem(Position(file), "", about["say"], hint), *own]) from None


def parse_value(text: str, *, file: str, explain: bool = True) -> Node:
    """The one node, of whatever kind, that `text` holds; raises SpecError as `parse` does.

    It names no problem if it is not to `explain` them, which takes seconds for a long text.
    """
    composer = _Composer(text, file)
    try:
        root = composer.compose_document()
    except yaml.YAMLError as error:
        faults = composer.problems or _list_syntax_problems(error, text, file) if explain else []
        raise SpecError(faults) from None
    if composer.problems:
        raise SpecError(composer.problems)
    if composer.count > MAX_VALUES:
        message = f"holds more than {MAX_VALUES:,} values, counted as often as aliases repeat them"
        raise SpecError([Problem(Position(file), "", message)])
    return root


def merge(lower: Mapping, upper: Mapping) -> Mapping:
    """`lower` as `upper` changes it: mappings merged, all else replaced, a null key taken out.

    Raises SpecError where arguments with keys would replace words, of which nothing would stay.
    """
    result = lower.copy()
    result.where = upper.where
    for key, node in upper.items.items():
        if node.kind == "null":
            result.items.pop(key, None)
            continue
        if isinstance(node, Mapping):
            below = lower.items.get(key)
            if key == "args" and isinstance(below, Scalar | Sequence) and below.kind != "null":
                fault = f"these keys would replace all of {describe(below)} at {below.where}"
                hint = "write keys and values there, too, or all of the arguments here"
                raise SpecError([Problem(upper.keys[key], "run.args", fault, hint)])
            node = merge(below if isinstance(below, Mapping) else Mapping(node.where), node)
        result.items[key] = node
        result.keys[key] = upper.keys[key]
    return result


def walk_leaves(node: Mapping, path: str = "", *, joint: str = ".") -> Iterator[tuple[str, Node]]:
    """Yield what is in a mapping, and in those that it holds, by path; an empty one is a leaf."""
    for key, item in node.items.items():
        if isinstance(item, Mapping) and item.items:
            yield from walk_leaves(item, f"{path}{key}{joint}", joint=joint)
        else:
            yield f"{path}{key}", item


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
            fault, hint = f"is a circle: {chain}", "take one of them out"
            raise SpecError([Problem(extends.where, "extends", fault, hint)])
        files.append(base)
        layers.append(read(base))
    result = layers.pop()
    while layers:
        result = merge(result.without("extends"), layers.pop())
    return result, files


def describe(node: Node) -> str:
    """What a node is, in words for a message."""
    if others := {"null": "nothing", "list": "a list", "map": "keys and values"}.get(node.kind):
        return others
    words = {"str": "text", "bool": "true or false"}
    return f"{words.get(node.kind, 'a number')} ({node.text!r})"


class _Composer:
    """Text to our nodes, from the events of PyYAML's parser, with what is wrong with them.

    An alias is its anchor's own node, so that aliases of aliases cost nothing; `sizes` has how many
    values are in an anchor's, once all of it is read.
    """

    def __init__(self, text: str, file: str) -> None:
        self.take: Callable[[], Any] = _Parser(text).get_event
        self.file = file
        self.problems: list[Problem] = []
        self.anchors: dict[str, Node] = {}
        self.sizes: dict[str, int] = {}
        self.count = 0  # of the values so far

    def compose_document(self) -> Node:
        """Return the root of the only document; of an empty text a null."""
        self.take()  # the stream begins
        if isinstance(self.take(), yaml.StreamEndEvent):
            return Scalar(Position(self.file, 1, 1), "", "null")
        root = self.compose(self.take(), 0)
        self.take()  # the document ends
        if not isinstance(end := self.take(), yaml.StreamEndEvent):
            raise ComposerError(None, None, "found another document", end.start_mark)
        return root

    def compose(self, event: Any, depth: int) -> Node:
        """Return the node that an event begins, `depth` levels deep, and all below it."""
        if isinstance(event, yaml.AliasEvent):
            return self.find_anchored(event)
        where = _make_position(event.start_mark, self.file)
        before, anchor = self.count, event.anchor
        self.count += 1
        if isinstance(event, yaml.ScalarEvent):
            kind = _name_kind(event.value) if event.implicit[0] else _SCALARS.get(event.tag)
            node: Node = Scalar(where, event.value, kind or "str")
        else:
            is_list = isinstance(event, yaml.SequenceStartEvent)
            node = Sequence(where, []) if is_list else Mapping(where)
            kind = node.kind if event.tag in _CONTAINERS else None
            if depth == MAX_DEPTH:
                message = f"is nested deeper than {MAX_DEPTH} levels"
                raise SpecError([Problem(where, "", message)])
        if kind is None:
            self.refuse(where, f"unknown tag {event.tag!r}", _NO_TAGS)
        if anchor in self.anchors:
            self.refuse(where, f"the anchor &{anchor} stands here for the second time")
        if anchor is not None:
            self.anchors[anchor] = node
        if not isinstance(node, Scalar):
            self.fill(node, depth + 1)
        if anchor is not None:
            self.sizes[anchor] = self.count - before
        return node

    def find_anchored(self, event: Any) -> Node:
        node = self.anchors.get(event.anchor)
        if node is None:
            raise ComposerError(None, None, "found undefined alias", event.start_mark)
        if event.anchor not in self.sizes:
            return self.refuse(node.where, "an alias that holds itself")
        self.count += self.sizes[event.anchor]
        return node

    def fill(self, node: Sequence | Mapping, depth: int) -> None:
        """Add what is in a container, but for keys that cannot be."""
        while not isinstance(event := self.take(), yaml.CollectionEndEvent):
            if isinstance(node, Sequence):
                node.items.append(self.compose(event, depth))
                continue
            where = _make_position(event.start_mark, self.file)
            key = self.read_key(event, where, depth)
            value = self.compose(self.take(), depth)
            if self.check_key(key, where, node):
                node.keys[key], node.items[key] = where, value

    def read_key(self, event: Any, where: Position, depth: int) -> str:
        """Return the text of a key; that it is something else is noted."""
        if isinstance(event, yaml.ScalarEvent) and event.anchor is None:
            return str(event.value)
        known, node = len(self.problems), self.compose(event, depth)
        if isinstance(node, Scalar):
            return node.text
        fault = ["a key must be text"]
        if isinstance(node, Mapping):
            name = ", ".join(node.items)
            fault = [f"{{{{ {name} }}}} is a template to fill in", "write the value in its place"]
        if len(self.problems) == known:
            self.refuse(where, *fault)
        return str(where)  # no two are the same

    def check_key(self, key: str, where: Position, before: Mapping) -> bool:
        """Whether a key is right, beside those before it; what is wrong is noted."""
        if "\xa0" in key:
            self.refuse(where, f"key {key!r} holds a no-break space", "write an ordinary one")
        elif not key.isprintable():  # messages cite keys as they are
            self.refuse(where, f"key {key!r} holds a control character")
        elif key == "<<":
            self.refuse(where, "merge keys ('<<') are not supported", "write the keys out")
        elif key in before.items:
            first = before.keys[key].line
            self.refuse(where, f"duplicate key {key!r}", f"line {first} already has it; merge them")
        else:
            return True
        return False

    def refuse(self, where: Position, message: str, hint: str = "") -> Scalar:
        """Note a problem; return what stands in the place of the value."""
        self.problems.append(Problem(where, "", message, hint))
        return Scalar(where, "", "null")


def _make_position(mark: Any, file: str) -> Position:
    # Not by Position's own name: that takes half of the time of reading a spec's nodes.
    return tuple.__new__(Position, (file, mark.line + 1, mark.column + 1))


def _list_syntax_problems(error: yaml.YAMLError, text: str, file: str) -> list[Problem]:
    """PyYAML's error in our form; all lines indented by tabs, where those are the reason."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is None:  # ReaderError; its position counts bytes or characters, by the parser
        match = yaml.reader.Reader.NON_PRINTABLE.search(text)
        index = match.start() if match else 0
        line = text.count("\n", 0, index) + 1
        where = Position(file, line, index - text.rfind("\n", 0, index))
        return [Problem(where, "", f"character {text[index]!r} is not allowed in YAML")]
    refuse_other_files(file, text)
    where = _make_position(mark, file)
    lines = text.splitlines()
    tabs = [
        Problem(Position(file, number, match.end()), "", "a tab", "indent with spaces")
        for number, line in enumerate(lines, 1)
        if (match := re.match(" *\t", line))
    ]
    if tabs and "\t" in "".join(lines[where.line - 1 : where.line]):
        return tabs
    from jobgen.spec.table import explain_syntax

    if slip := explain_syntax(lines, where.line):
        line, column, fault, hint = slip
        return [Problem(Position(file, line, column), "", fault, hint)]
    parts = [getattr(error, "context", None), getattr(error, "problem", None)]
    hint = "write KEY: VALUE or - ITEM, and text with special characters in quotes"
    hint = hint if len(lines) > 1 else ""  # a value alone, as of --set, has no keys
    return [Problem(where, "", ": ".join(part for part in parts if part) or "is not YAML", hint)]
