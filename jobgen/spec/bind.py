"""From nodes to typed records: every fault found at once, every field's position kept.

A field's annotation says all there is to know about it, for this module and for the JSON Schema:
`Annotated[Count | None, "How many nodes."] = None` with `Count = Annotated[int, Range(1)]`. A type
is `str` (one line), `int`, `float`, `bool`, `Literal[...]`, a record, `tuple[X, ...]`,
`dict[str, X]`, or a union of those that differ in shape; an `Annotated` alias adds one rule of this
module to it. `None` in a union means that the key may be left out.

Records are NamedTuples: as immutable as frozen dataclasses, and made eight times faster at import.
The decorator `limit_keys` says which keys of a record exclude each other. A method `conflicts`, if
any, yields (key, message, hint) for whatever else is wrong with a record as a whole.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from jobgen.errors import Position, Problem, SpecError
from jobgen.spec.yaml_nodes import Mapping, Node, Scalar, Sequence, describe

T = TypeVar("T")

# C0 and C1 controls and DEL: none can be seen in a script, some end a line or a word in it.
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
CONTROL_IN_TEXT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")


class Range(NamedTuple):
    """A number's least and greatest value; of a list, how many members it has."""

    least: int
    most: int | None = None


class Pattern(NamedTuple):
    """A regular expression the whole text matches, and how to say it to a person."""

    regex: str
    meaning: str
    examples: tuple[str, ...] = ()

    def matches(self, text: str) -> bool:
        """Whether the whole of `text` has this form."""
        return re.fullmatch(self.regex, text) is not None


class Parsed(NamedTuple):
    """Text with a syntax of its own; `parse` returns the value or raises ValueError.

    `regex` is for those who cannot call it: the whole text of what `parse` takes matches it. It is
    empty where no expression can say it.
    """

    parse: Callable[[str], Any]
    examples: tuple[str, ...]
    regex: str = ""


class FreeText(NamedTuple):
    """Text taken as it was written, numbers and booleans included, over one line or more.

    Where it is `expandable`, `{value: ..., expand: true}` may stand for it.
    """

    expandable: bool = False


class ShellPath(str):
    """Text in which `$NAME`, `${NAME}` and a leading `~` expand when the job runs, and no more."""


class Expandable(NamedTuple):
    """A value in which `$NAME` and a leading `~` expand when the job runs."""

    value: Annotated[Annotated[str, FreeText()], "The text."]
    expand: Annotated[bool, "Whether $NAME, ${NAME} and a leading ~ in it expand."] = False


class KeyLimit(NamedTuple):
    """How many of some keys of a record may be given."""

    keys: tuple[str, ...]
    least: int
    most: int


def limit_keys(*keys: str, least: int = 0, most: int = 100) -> Callable[[type[T]], type[T]]:
    """Decorate a record of which so many of `keys` are given."""

    def decorate(cls: type[T]) -> type[T]:
        cls.key_limits = (KeyLimit(keys, least, most),)  # type: ignore[attr-defined]
        return cls

    return decorate


def rename_keys(**names: str) -> Callable[[type[T]], type[T]]:
    """Decorate a record with the old names of keys; who reads a document translates them."""

    def decorate(cls: type[T]) -> type[T]:
        cls.renamed = names  # type: ignore[attr-defined]
        return cls

    return decorate


def write_short(key: str) -> Callable[[type[T]], type[T]]:
    """Decorate a record that may be written as the value of `key` alone."""

    def decorate(cls: type[T]) -> type[T]:
        cls.short_key = key  # type: ignore[attr-defined]
        return cls

    return decorate


Positions = dict[str, Position]


def bind(node: Mapping, cls: type[T]) -> tuple[T, Positions]:
    """`node` as a record of type `cls`, and where each field path stands in its file.

    Paths are dotted, with list indices in brackets: `resources.gpus_per_node[1]`. Raises SpecError
    with every unknown key, missing key, wrong type and bad value found.
    """
    binder = _Binder(cls)
    value = binder.record(node, cls, "")
    if binder.problems:
        raise SpecError(binder.problems)
    return value, binder.positions


# A file with more unknown keys is something else than a spec.
_MOST_HINTS = 200
_FAILED: Any = object()


class Kind(NamedTuple):
    """One shape that a value may have: its type, the rule on it, and what its members may be.

    `key` is the pattern of a dict's keys.
    """

    type: Any
    rule: Any = None
    members: tuple[Kind, ...] = ()
    key: Pattern | None = None

    def fits(self, node: Node) -> bool:
        """Whether `node` has this shape, and as a scalar this kind; its value may still be bad."""
        if isinstance(node, Mapping):
            return self.type is dict or is_record(self.type) or self.expandable
        if isinstance(node, Sequence):
            return self.type is tuple
        if self.type is tuple:
            return self.takes_text and any(kind.fits(node) for kind in self.members)
        if self.type is dict or is_record(self.type):
            return hasattr(self.type, "short_key") and node.kind == "str"
        if isinstance(self.rule, Parsed | FreeText) or get_origin(self.type) is Literal:
            return True
        return node.kind == {int: "int", bool: "bool", str: "str"}.get(self.type) or (
            self.type is float and node.kind in ("int", "float")
        )

    @property
    def expandable(self) -> bool:
        """Whether it is text that may say that it expands."""
        return isinstance(self.rule, FreeText) and self.rule.expandable

    @property
    def takes_text(self) -> bool:
        """Whether a list may be written as one value, or as several in one text."""
        return self.type is tuple and self.text_member is not None

    @property
    def text_member(self) -> Kind | None:
        """Of a list's members the kind that text is read as; None where they may be lists."""
        if any(kind.type in (tuple, dict) or is_record(kind.type) for kind in self.members):
            return None
        return next(reversed(self.members), None)

    def __str__(self) -> str:
        if isinstance(self.rule, Parsed):
            return f"e.g. {self.rule.examples[0]}"
        if get_origin(self.type) is Literal:
            return " or ".join(get_args(self.type))
        if is_record(self.type) or self.type is dict:
            return "keys and values"
        words = {int: "a whole number", float: "a number", bool: "true or false"}
        return words.get(self.type) or {str: "text", tuple: "a list"}[self.type]


class Field(NamedTuple):
    """One key of a record: its name, whether it must be there, what it may be, and its manual."""

    name: str
    required: bool
    kinds: tuple[Kind, ...]
    description: str


@cache
def read_fields(cls: type) -> dict[str, Field]:
    """The keys of record `cls` by name, in order."""
    annotations = get_type_hints(cls, include_extras=True)
    known = {}
    for name, annotation in annotations.items():
        description = ""
        if get_origin(annotation) is Annotated:
            annotation, *rules, description = get_args(annotation)
            if rules:  # Python merges Annotated[Annotated[X, rule], "description"] into one
                annotation = Annotated[annotation, rules[0]]
        required = name not in cls._field_defaults  # type: ignore[attr-defined]
        known[name] = Field(name, required, _read_kinds(annotation), description)
    return known


def is_record(of_type: Any) -> bool:
    """Whether a type is a record, and no `str`, `int`, `dict`, ..."""
    return hasattr(of_type, "_field_defaults")


def _read_kinds(annotation: Any) -> tuple[Kind, ...]:
    members = (annotation,)
    if get_origin(annotation) in (Union, types.UnionType):
        members = get_args(annotation)
    return tuple(_read_kind(member) for member in members if member is not types.NoneType)


def _read_kind(annotation: Any) -> Kind:
    rule = None
    if get_origin(annotation) is Annotated:
        annotation, rule = get_args(annotation)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is dict:
        key = _read_kind(arguments[0]).rule
        return Kind(dict, rule, _read_kinds(arguments[1]), key)
    if origin is tuple:
        return Kind(tuple, rule, _read_kinds(arguments[0]))
    return Kind(annotation, rule)


class _Binder:
    """One walk over one document."""

    def __init__(self, root: type) -> None:
        self.root = root
        self.problems: list[Problem] = []
        self.positions: Positions = {}
        self.listed: set[type] = set()  # records whose keys were told
        self.hints = 0  # how many unknown keys were looked up among those of other tools

    def problem(self, where: Position, path: str, message: str, hint: str = "") -> Any:
        self.problems.append(Problem(where, path, message, hint))
        return _FAILED

    def record(self, node: Mapping, cls: type, path: str) -> Any:
        """`node` as a record of type `cls`, or _FAILED once the reasons are noted."""
        known = read_fields(cls)
        meant = set()
        for key, item in node.items.items():
            if key not in known:
                from jobgen.spec import hints  # only an error needs it

                hint, target = "", ""
                if isinstance(item, Scalar) and not item.text and _shares_line(node, key):
                    hint = hints.suggest_separation(key, known)
                if not hint and self.hints < _MOST_HINTS:
                    self.hints += 1
                    hint, target = hints.suggest_key(key, item, path=path, cls=cls, root=self.root)
                if not hint and cls not in self.listed:
                    self.listed.add(cls)
                    hint = f"known are {', '.join(known)}"
                self.problem(node.keys[key], _join(path, key), "unknown key", hint)
                if not path or target.startswith(f"{path}."):
                    meant.add(target.removeprefix(f"{path}.").partition(".")[0])
        values = {}
        for name, field in known.items():
            inner = _join(path, name)
            if name in node.items:
                values[name] = self.value(node.items[name], field.kinds, inner)
            elif field.required:
                if name not in meant:
                    self.problem(node.where, inner, "is missing", "it is required")
                values[name] = _FAILED
        if _FAILED in values.values():
            return _FAILED
        record = cls(**values)
        strangers = node.items.keys() - known.keys()  # one of them may be what is missing
        conflicts = [] if strangers else list(_check_keys(record))
        conflicts += getattr(record, "conflicts", tuple)()
        for key, message, hint in conflicts:
            inner = _join(path, key) if key else path
            self.problem(self.positions.get(inner, node.where), inner, message, hint)
        return record

    def value(self, node: Node, kinds: tuple[Kind, ...], path: str) -> Any:
        """`node` as the first of `kinds` that fits it, or _FAILED once the reason is noted."""
        self.positions[path] = node.where
        if isinstance(node, Scalar) and node.kind == "null":
            return self.problem(node.where, path, "is empty", "give it a value or remove the key")
        for kind in kinds:
            if kind.fits(node):
                if isinstance(node, Scalar):
                    return self.scalar(node, kind, path)
                return self.container(node, kind, path)
        from jobgen.spec.hints import suggest_shape

        message = f"expected {' or '.join(map(str, kinds))}, got {describe(node)}"
        hint = suggest_shape(node, kinds, path)
        if hint:
            pass
        elif isinstance(node, Scalar) and any(kind.type is str for kind in kinds):
            hint = "put it in quotes"
        elif isinstance(node, Scalar) and node.text.isdecimal():
            hint = "write it without quotes"
        return self.problem(node.where, path, message, hint)

    def container(self, node: Mapping | Sequence, kind: Kind, path: str) -> Any:
        if isinstance(node, Sequence):
            members = [
                self.value(item, kind.members, f"{path}[{index}]")
                for index, item in enumerate(node.items)
            ]
            rule = kind.rule
            if isinstance(rule, Range) and not rule.least <= len(members) <= (rule.most or 1 << 30):
                if not members:
                    hint = "give it a member, or remove the key"
                    return self.problem(node.where, path, "is an empty list", hint)
                wanted = f"expected {rule.least} to {rule.most}"
                return self.problem(node.where, path, f"has {len(members)} members, {wanted}")
            return _FAILED if _FAILED in members else tuple(members)
        if kind.expandable:
            text = self.record(node, Expandable, path)
            if text is _FAILED:
                return _FAILED
            return ShellPath(text.value) if text.expand else text.value
        if kind.type is not dict:
            return self.record(node, kind.type, path)
        entries = {}
        for key, item in node.items.items():
            if kind.key and not kind.key.matches(key):
                self.problem(node.keys[key], path, f"{key!r} is not {kind.key.meaning}")
            entries[key] = self.value(item, kind.members, _join(path, key))
        return _FAILED if _FAILED in entries.values() else entries

    def scalar(self, node: Scalar, kind: Kind, path: str) -> Any:
        text, rule = node.text, kind.rule
        if kind.type is tuple:
            return self.text_as_list(node, kind, path)
        if is_record(kind.type):
            short = Mapping(node.where)
            short.items[kind.type.short_key] = node
            return self.record(short, kind.type, path)
        if isinstance(rule, Parsed):
            try:
                return rule.parse(text)
            except ValueError as error:
                return self.problem(node.where, path, f"{text!r} {error}")
        if get_origin(kind.type) is Literal:
            known = get_args(kind.type)
            if text in known:
                return text
            if text.lower() in known and has_any_case(known):
                return text.lower()
            from jobgen.spec.hints import suggest_value

            hint = suggest_value(text, known, path)
            return self.problem(node.where, path, f"unknown value {text!r}", hint)
        if kind.type is bool:
            return text.lower() == "true"
        if kind.type in (int, float):
            return self.number(node, kind, path)
        control = CONTROL_IN_TEXT if isinstance(rule, FreeText) else CONTROL
        if match := control.search(text):
            return self.problem(node.where, path, f"holds the control character {match[0]!r}")
        if isinstance(rule, Pattern) and not rule.matches(text):
            from jobgen.spec.hints import suggest_form

            hint = suggest_form(text, path)
            return self.problem(node.where, path, f"{text!r} is not {rule.meaning}", hint)
        return text

    def text_as_list(self, node: Scalar, kind: Kind, path: str) -> Any:
        """`node`, where a list may stand, as one member, or as several that it holds."""
        member, text = kind.text_member, node.text
        assert member is not None
        if isinstance(member.rule, FreeText):
            try:
                words = split_words(text)
            except ValueError as error:
                return self.problem(node.where, path, f"{text!r} {error}")
        elif isinstance(member.rule, Pattern) and member.rule.matches(text):
            words = [text]
        else:
            words = [word for word in re.split("[, ]+", text) if word]
        kind_of_each = node.kind if words == [text] else "str"
        items: list[Node] = [Scalar(node.where, word, kind_of_each) for word in words]
        return self.container(Sequence(node.where, items), kind, path)

    def number(self, node: Scalar, kind: Kind, path: str) -> Any:
        text, rule = node.text, kind.rule
        if kind.type is float:
            if not re.fullmatch(r"[-+]?[0-9]{1,15}(\.[0-9]{1,15})?", text):
                hint = "write it in decimal, such as 0.25"
                return self.problem(node.where, path, f"{text!r} is not a plain number", hint)
        elif not re.fullmatch(r"[-+]?(0|[1-9][0-9]{0,17})", text):
            hint = "write it in decimal, without leading zeros"
            return self.problem(node.where, path, f"{text!r} is not a plain whole number", hint)
        number = kind.type(text)
        if isinstance(rule, Range):
            if number < rule.least:
                return self.problem(node.where, path, f"{number} is less than {rule.least}")
            if rule.most is not None and number > rule.most:
                return self.problem(node.where, path, f"{number} is more than {rule.most}")
        return number


def _check_keys(record: Any) -> Iterator[tuple[str, str, str]]:
    """Yield what is wrong with the keys that `limit_keys` bounds."""
    for keys, least, most in getattr(record, "key_limits", ()):
        given = [key for key in keys if getattr(record, key) is not None]
        number = "exactly one" if least == most else "at least one" if least else "at most one"
        if len(given) < least:
            yield "", f"has none of {_join_words(keys)}", f"give {number} of them"
        elif len(given) > most:
            beside = f"stands beside {_join_words(given[:-1])}"
            yield given[-1], beside, f"give {number} of {_join_words(keys)}"


def _join_words(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def has_any_case(words: Iterable[str]) -> bool:
    """Whether fixed words may be written in any case; not options, such as -a and -A."""
    return all(word == word.lower() for word in words)


def split_words(text: str) -> list[str]:
    """Return the words of a command line; raises ValueError for one that needs a shell."""
    import shlex

    if "\n" in text.strip():
        raise ValueError("has several lines; name one program, lines of bash go to setup")
    bare = re.sub(r"""'[^']*'|"(?:\\.|[^"\\])*"|\\.""", "", text)
    if re.search(r"[();<>|&`]", bare):
        raise ValueError(f"needs a shell; write [bash, -c, {text!r}]")
    try:
        return shlex.split(text)
    except ValueError:
        raise ValueError("has a quote that does not end") from None


def _shares_line(node: Mapping, key: str) -> bool:
    """Whether another key stands on a key's line, as in {...}."""
    line = node.keys[key].line
    return any(where.line == line for name, where in node.keys.items() if name != key)
