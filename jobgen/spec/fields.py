"""What the records of a spec are made of: the rules on a field, and how its annotation says them.

A field's annotation says all there is to know about it, for binding and for the JSON Schema:
`Annotated[Count | None, "How many nodes."] = None` with `Count = Annotated[int, Range(1)]`. A type
is `str` (one line), `int`, `float`, `bool`, `Literal[...]`, a record, `tuple[X, ...]`,
`dict[str, X]`, or a union of those that differ in shape; an `Annotated` alias adds one rule of this
module to it. `None` in a union means that the key may be left out.

Records are NamedTuples: as immutable as frozen dataclasses, and made much faster at import.
The decorator `limit_keys` says which keys of a record exclude each other. A method `conflicts`, if
any, yields (key, message, hint) for whatever else is wrong with a record as a whole.
"""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Callable
from functools import cache, cached_property
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from jobgen.records import NamedTuple

T = TypeVar("T")

# C0 and C1 controls and DEL cannot be seen in a script, and some end a line or a word in it; those
# of bidirectional text let a reader see another script than bash runs.
_UNSEEN = r"\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069"
CONTROL = rf"[\x00-\x1f{_UNSEEN}]"
CONTROL_IN_TEXT = rf"[\x00-\x08\x0b-\x1f{_UNSEEN}]"


_compile = cache(re.compile)


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
        return _compile(self.regex).fullmatch(text) is not None


class Parsed(NamedTuple):
    """Text with its own syntax; `parse` returns the value or raises ValueError.

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


def limit_keys(*keys: str, least: int = 0, most: int = 100) -> Callable[[type[T]], type[T]]:
    """Require between `least` and `most` of `keys` in the record that is decorated."""
    return mark_record(key_limits=((keys, least, most),))


def mark_record(**marks: Any) -> Callable[[type[T]], type[T]]:
    """Give the record that is decorated what its annotations do not say.

    `alternatives` has the key that may stand in the place of a required one; `short_key` is the key
    whose value alone may stand for the record.
    """

    def decorate(cls: type[T]) -> type[T]:
        for name, value in marks.items():
            setattr(cls, name, value)
        return cls

    return decorate


_ANY_SCALAR = frozenset({"str", "int", "float", "bool", "null"})
# How the binder reads a type that has no rule, and the kinds of nodes that are one.
_FORMS: dict[Any, tuple[str, ...]] = {
    dict: ("", "map"),
    int: ("number", "int"),
    float: ("number", "int", "float"),
    bool: ("switch", "bool"),
    str: ("words", "str"),
}


class Kind:
    """One shape that a value may have: its type, the rule on it, and what its members may be.

    `key` is the pattern of a dict's keys. A list beside a switch is `explicit`: text is neither.
    """

    def __init__(
        self,
        of_type: Any,
        rule: Any = None,
        members: tuple[Kind, ...] = (),
        *,
        key: Pattern | None = None,
        explicit: bool = False,
    ) -> None:
        self.type, self.rule, self.members, self.key = of_type, rule, members, key
        # Whether it is text that may say that it expands.
        self.expandable = isinstance(rule, FreeText) and rule.expandable
        # Of a list's members the kind that text is read as; None where they may be lists.
        nested = any(kind.type in (tuple, dict) or is_record(kind.type) for kind in members)
        self.text_member = members[-1] if members and not nested else None
        # Whether a list may be written as one value, or as several in one text.
        self.takes_text = of_type is tuple and self.text_member is not None and not explicit
        self.form, self.takes = self._choose_form()

    def _choose_form(self) -> tuple[str, frozenset[str]]:
        """Return how the binder reads its scalars, and the kinds of nodes that have this shape."""
        if self.type is tuple:
            members = self.members if self.takes_text else ()
            texts = frozenset[str]().union(*(member.takes for member in members))
            # A switch is a word of a command, and of no other text.
            of_words = FreeText() in (member.rule for member in members)
            others = {"map", "bool"} if of_words else {"map"}
            return "text_as_list", texts - others | {"list"}
        if isinstance(self.rule, Parsed):
            return "parsed", _ANY_SCALAR
        if is_literal(self.type):
            return "fixed_word", _ANY_SCALAR
        if isinstance(self.rule, FreeText):
            return "words", _ANY_SCALAR | ({"map"} if self.expandable else set())
        if is_record(self.type):
            short = {"str"} if hasattr(self.type, "short_key") else set()
            return "short_record", frozenset({"map", *short})
        form, *kinds = _FORMS[self.type]
        return form, frozenset(kinds)

    def __str__(self) -> str:
        if isinstance(self.rule, Parsed):
            return f"e.g. {self.rule.examples[0]}"
        if is_literal(self.type):
            return " or ".join(get_args(self.type))
        words = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
        return "a list" if self.type is tuple else words.get(self.type, "keys and values")


class Field:
    """One key of a record: its name, whether it must be there, what it may be, and its manual.

    A document has few of all keys; the annotation of one that it has not is never read.
    """

    def __init__(self, name: str, record: type) -> None:
        self.name = name
        self.required = name not in record._field_defaults  # type: ignore[attr-defined]
        self._record = record

    @cached_property
    def kinds(self) -> tuple[Kind, ...]:
        """What its value may be."""
        return _read_kinds(self._annotation[0])

    @property
    def description(self) -> str:
        """What it is for."""
        return self._annotation[1]

    @property
    def _annotation(self) -> tuple[Any, str]:
        """Its type, with a rule where it has one, and its description."""
        text = self._record.__annotations__[self.name]
        annotation, description = eval(text, vars(sys.modules[self._record.__module__])), ""
        if get_origin(annotation) is Annotated:
            annotation, *rules, description = get_args(annotation)
            if rules:  # Python merges Annotated[Annotated[X, rule], "description"] into one
                annotation = Annotated[annotation, rules[0]]
        return annotation, description


@cache
def read_fields(cls: type) -> dict[str, Field]:
    """The keys of record `cls` by name, in order."""
    return {name: Field(name, cls) for name in cls.__annotations__}


@cache
def read_required(cls: type) -> tuple[str, ...]:
    """The keys that a record `cls` must have."""
    return tuple(name for name, field in read_fields(cls).items() if field.required)


def join_path(path: str, key: str) -> str:
    """Return the path of a key in the record at `path`."""
    return f"{path}.{key}" if path else key


@cache
def list_paths(cls: type, path: str = "") -> dict[str, Field]:
    """Return every key of a record, and of the records in it, by its path."""
    paths: dict[str, Field] = {}
    for name, field in read_fields(cls).items():
        inner = join_path(path, name)
        paths[inner] = field
        for kind in field.kinds:
            if is_record(kind.type):
                paths |= list_paths(kind.type, inner)
    return paths


@cache
def is_record(of_type: Any) -> bool:
    """Whether a type is a record, and no `str`, `int`, `dict`, ..."""
    return hasattr(of_type, "_field_defaults")


@cache
def is_literal(of_type: Any) -> bool:
    """Whether a type is one of fixed words."""
    return get_origin(of_type) is Literal


def _read_kinds(annotation: Any) -> tuple[Kind, ...]:
    members = (annotation,)
    if get_origin(annotation) in (Union, types.UnionType):
        members = get_args(annotation)
    switch = bool in members
    return tuple(_read_kind(member, switch) for member in members if member is not types.NoneType)


def _read_kind(annotation: Any, explicit: bool = False) -> Kind:
    rule = None
    if get_origin(annotation) is Annotated:
        annotation, rule = get_args(annotation)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is dict:
        key = _read_kind(arguments[0]).rule
        return Kind(dict, rule, _read_kinds(arguments[1]), key=key)
    if origin is tuple:
        return Kind(tuple, rule, _read_kinds(arguments[0]), explicit=explicit)
    return Kind(annotation, rule)


@cache
def list_spellings(of_type: Any) -> dict[str, str]:
    """Return fixed words by how each may be written: also in capitals, or beginning with one.

    Where some have capitals themselves, as the options -a and -A, there is one way alone.
    """
    words = get_args(of_type)
    ways = (str, str.upper, str.title) if all(map(str.islower, words)) else (str,)
    return {way(word): word for way in ways for word in words}
