"""A spec in the making, and its YAML."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

_PLAIN = re.compile(r"[A-Za-z_./][\w./+@-]*", re.ASCII)
_WORDS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_ORDER = (
    ["name", "site", "scheduler", "account", "queue", "resources", "environment", "run"],
    ["nodes", "gpus_per_node", "cpus_per_node", "memory_per_node", "walltime", "modules"],
)


class Left(NamedTuple):
    """Something of the script that the spec does not say."""

    line: int
    text: str
    reason: str

    def __str__(self) -> str:
        return f"line {self.line}: {printable(self.text)}  ({self.reason})"


class Draft:
    """Values by their path in the spec, such as `resources.nodes`, and what found no place."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.left: list[Left] = []

    def put(self, path: str, value: Any) -> None:
        """Set a value; None sets nothing."""
        if value is not None:
            self.values[path] = value

    def leave(self, line: int, text: str, reason: str) -> None:
        """Note what was not mapped."""
        self.left.append(Left(line, text.strip(), reason))

    def directive(self, text: str) -> None:
        """Keep a directive as it is."""
        self.values.setdefault("directives", []).append(text)

    def setup(self, lines: Iterable[str]) -> None:
        """Keep lines of bash as they are."""
        old = self.values.get("environment.setup", "")
        self.values["environment.setup"] = old + "".join(f"{line}\n" for line in lines)

    def yaml(self, source: str) -> str:
        """The spec as YAML, with what was left out as comments at its end."""
        tree: dict[str, Any] = {}
        for path, value in self.values.items():
            outer, _, inner = path.partition(".")
            if inner:
                tree.setdefault(outer, {})[inner] = value
            else:
                tree[outer] = value
        tree.setdefault("resources", {})
        lines = [f"# imported by jobgen from {printable(source)}"]
        lines += _mapping(_sorted(tree, _ORDER[0]), "")
        if self.left:
            lines += ["", "# What of the script this spec does not say:"]
            lines += [f"#   {left}" for left in self.left]
        return "\n".join(lines) + "\n"


def printable(text: str) -> str:
    """`text` on one line of a YAML comment."""
    text = " ".join(text.split("\n"))
    return "".join(char if char.isprintable() and char < "\ufff0" else "?" for char in text)


def _sorted(tree: dict[str, Any], order: list[str]) -> dict[str, Any]:
    known = [key for key in order if key in tree]
    return {key: tree[key] for key in [*known, *(key for key in tree if key not in known)]}


def _mapping(tree: dict[str, Any], indent: str) -> Iterator[str]:
    for key, value in tree.items():
        name = f"{indent}{_scalar(key)}:"
        if isinstance(value, dict) and value:
            yield name
            yield from _mapping(_sorted(value, _ORDER[1]), indent + "  ")
        elif isinstance(value, list) and key == "directives":
            yield name
            yield from (f"{indent}  - {_scalar(item)}" for item in value)
        elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
            yield name
            yield from (f"{indent}  - {_flow(item)}" for item in value)
        elif isinstance(value, list):
            yield f"{name} [{', '.join(_scalar(item) for item in value)}]"
        elif isinstance(value, str) and _block(value):
            yield f"{name} |{'' if value.endswith(chr(10)) else '-'}"
            yield from (f"{indent}  {line}".rstrip() for line in value.splitlines())
        else:
            yield f"{name} {{}}" if value == {} else f"{name} {_scalar(value)}"


def _flow(value: object) -> str:
    if isinstance(value, dict):
        pairs = (f"{_scalar(key)}: {_flow(item)}" for key, item in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(_scalar, value))}]"
    return _scalar(value)


def _block(text: str) -> bool:
    """Whether a literal block of YAML says exactly this."""
    lines = text.split("\n")
    plain = all(line.isprintable() and line == line.rstrip() for line in lines)
    plain = plain and not re.search("[\ufeff\ufff0-\U0010ffff]", text)
    return "\n" in text and plain and text[:1] not in " \n" and not text.endswith("\n\n")


def _scalar(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        return str(value)
    if _PLAIN.fullmatch(value) and value.lower() not in _WORDS and not value.startswith("."):
        return value
    return '"' + "".join(_ESCAPES.get(char) or _character(char) for char in value) + '"'


def _character(char: str) -> str:
    if char.isprintable() and char != "\ufeff":
        return char
    return f"\\U{ord(char):08x}"
