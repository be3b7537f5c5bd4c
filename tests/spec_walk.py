"""Documents for every key of a record, made from its annotations: new keys need no new tests.

Each key is given values that fit it and values that do not, in a document that is good otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple, get_args, get_origin

from jobgen.bind import Field, Kind, Parsed, Pattern, Range, Text, fields, is_record

Valid = Callable[[Any], bool]
NOTHING: list[Any] = [None, [], {}, [[None]], {"no-key-of-this": 1}]
TEXTS = ["a", "A1", "gpt-web", "m.n", "#PBS -m e", "1:2", "a b", "", "-a", "a\n", "\x1b", "é", "  "]


class Made(NamedTuple):
    """A document that has a value at a key."""

    path: str
    document: Any


def walk(cls: type, valid: Valid) -> Iterator[Made]:
    """Documents of record `cls`; `valid` says of one whether it is good, to begin with such."""
    yield from _keys(cls, "", lambda inner: inner, valid)


def _keys(cls: type, path: str, wrap: Callable[[Any], Any], valid: Valid) -> Iterator[Made]:
    keys = fields(cls)
    required = _required(keys, wrap, valid)
    for name, field in keys.items():
        inner = f"{path}.{name}" if path else name
        base = _around(keys, name, required, lambda value: valid(wrap(value)))
        for value in _values(field):
            yield Made(inner, wrap({**base, name: value}))

        def outer(value: Any, base: dict[str, Any] = base, name: str = name) -> Any:
            return wrap({**base, name: value})

        for kind in field.kinds:
            if is_record(kind.type):
                yield from _keys(kind.type, inner, outer, valid)
            for member in kind.members:
                if is_record(member.type):
                    yield from _keys(member.type, inner, _inside(kind, outer), valid)


def _inside(kind: Kind, outer: Callable[[Any], Any]) -> Callable[[Any], Any]:
    if kind.type is tuple:
        return lambda value: outer([value])
    return lambda value: outer({"a": value})


def _required(keys: dict[str, Field], wrap: Callable[[Any], Any], valid: Valid) -> dict[str, Any]:
    """The keys that must be there, with values that are good, alone or beside another key."""
    found = {key: _fitting(field) for key, field in keys.items() if field.required}
    others = [{}, *({key: _fitting(field)} for key, field in keys.items())]
    for key, field in keys.items():
        for value in _of_kind(field.kinds[0]) if field.required else ():
            for other in others:
                if valid(wrap({**other, **found, key: value})):
                    return {**found, key: value}
    return found


def _around(
    keys: dict[str, Field], name: str, required: dict[str, Any], valid: Valid
) -> dict[str, Any]:
    """Keys beside which some value of the key `name` is good."""
    others = [{}, *({key: _fitting(field)} for key, field in keys.items() if key != name)]
    for other in others:
        base = {**other, **required}
        for value in _values(keys[name]):
            if valid({**base, name: value}):
                return base
    raise AssertionError(f"no good value of {name} was found: give its pattern examples")


def _fitting(field: Field) -> Any:
    """A value that the key takes by itself."""
    return next(_of_kind(field.kinds[0]))


def _values(field: Field) -> Iterator[Any]:
    """What to try at a key: what fits, the ends of ranges, what is beyond, other shapes."""
    for kind in field.kinds:
        yield from _of_kind(kind)
    yield from NOTHING


def _of_kind(kind: Kind) -> Iterator[Any]:
    if is_record(kind.type):
        keys = fields(kind.type)
        required = {key: _fitting(field) for key, field in keys.items() if field.required}
        yield required
        yield from ({**required, key: _fitting(field)} for key, field in keys.items())
    elif kind.type in (tuple, dict):
        members = [item for member in kind.members for item in _of_kind(member)]
        if kind.type is tuple:
            yield from ([value] for value in members)
            yield from ([members[0], members[0]], [members[0], None], [[members[0]]])
        else:
            yield from ({"A": value} for value in members)
            names = filter(str.isprintable, (*TEXTS, "1", "A=b"))  # no others are YAML to jobgen
            yield from ({key: members[0]} for key in names)
    else:
        yield from _scalars(kind)


def _scalars(kind: Kind) -> Iterator[Any]:
    rule = kind.rule
    if get_origin(kind.type) is Literal:
        yield from get_args(kind.type)
        yield from ("", str(get_args(kind.type)[0]).upper() + "x", 1, True)
    elif isinstance(rule, Parsed):
        yield from (*rule.examples, "(", "", 7200, "0s", True)
    elif isinstance(rule, Text):
        yield from (*TEXTS, "a\nb", 1, -1, 1.5, True, "\u2028")
    elif isinstance(rule, Pattern):
        yield from rule.examples
        yield from sorted(TEXTS, key=lambda text: not rule.matches(text))
        yield from (1, True)
    elif kind.type is bool:
        yield from (True, False, "true", 1)
    elif kind.type in (int, float):
        least, most = (rule.least, rule.most) if isinstance(rule, Range) else (0, None)
        yield from (least, least + 1, least - 1, "1", 0.5, True)
        yield from () if most is None else (most, most + 1)
    else:
        yield from (*TEXTS, 1, True)
