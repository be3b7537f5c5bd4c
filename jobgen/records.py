"""`NamedTuple`, as that of typing, made at import in a tenth of the time.

A cold `jobgen render` makes eighty of them. For each, typing's runs a program and checks every
annotation; this one does neither, and modules of records keep their annotations as text.
"""

from __future__ import annotations

from collections import namedtuple
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:
    # What reads the items of a tuple, in C: that of one namedtuple serves every record.
    _Row = namedtuple("_Row", [f"item_{index}" for index in range(64)])
    _READERS = [getattr(_Row, name) for name in _Row._fields]
    _REQUIRED = object()  # in the place of a default

    class _RecordType(type):
        def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> type:
            if fields := tuple(namespace.get("__annotations__", ())):
                starts = [namespace.pop(field, _REQUIRED) for field in fields]
                pairs = zip(fields, starts, strict=True)
                namespace["_field_defaults"] = {
                    field: start for field, start in pairs if start is not _REQUIRED
                }
                namespace["_fields"] = namespace["__match_args__"] = fields
                namespace["_starts"] = starts
                namespace |= zip(fields, _READERS[: len(fields)], strict=True)
            return super().__new__(mcs, name, bases, {"__slots__": ()} | namespace)

    class NamedTuple(tuple, metaclass=_RecordType):
        """A tuple whose items have names, and some of them a default."""

        def __new__(cls, *values: Any, **named: Any) -> NamedTuple:
            if named or len(values) != len(cls._fields):
                values = cls._complete(values, named)
            return tuple.__new__(cls, values)

        @classmethod
        def _complete(cls, values: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
            given, fields = len(values), cls._fields
            values += tuple(map(named.pop, fields[given:], cls._starts[given:]))
            if named or given > len(fields):
                raise TypeError(f"{cls.__name__}() takes {', '.join(fields)}, each once")
            if _REQUIRED in values[given : len(fields) - len(cls._field_defaults)]:
                raise TypeError(f"{cls.__name__}() lacks {fields[values.index(_REQUIRED)]}")
            return values

        @classmethod
        def _make(cls, values: Any) -> NamedTuple:
            return cls(*values)

        def _replace(self, **named: Any) -> NamedTuple:
            values = tuple(map(named.pop, self._fields, self))
            return type(self)(*values, **named) if named else tuple.__new__(type(self), values)

        def _asdict(self) -> dict[str, Any]:
            return dict(zip(self._fields, self, strict=True))

        def __getnewargs__(self) -> tuple[Any, ...]:
            return tuple(self)

        def __repr__(self) -> str:
            inside = ", ".join(f"{name}={value!r}" for name, value in self._asdict().items())
            return f"{type(self).__name__}({inside})"
