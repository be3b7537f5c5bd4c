"""A spec in the making, and its YAML."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

# What is listed, and under which words; what is `kept` is listed only for who asks.
HEADINGS = {
    "lost": "Lost: here the job of this spec differs from the script.",
    "check": "Check: here it may differ.",
}
_PLAIN = re.compile(r"[A-Za-z_./][\w./+@-]*", re.ASCII)
_WORDS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_ORDER = (
    ["name", "site", "scheduler", "account", "queue", "resources", "environment", "run"],
    ["nodes", "gpus_per_node", "cpus_per_node", "memory_per_node", "walltime", "modules"],
)


class Left(NamedTuple):
    """Something of the script that the spec does not say as it was.

    `kind` is `lost` where the job will differ, `check` where it may, `kept` where it does not.
    """

    kind: str
    line: int
    text: str
    reason: str

    def __str__(self) -> str:
        return f"line {self.line}: {make_printable(self.text)}  ({self.reason})"


class Draft:
    """Values by their path in the spec, such as `resources.nodes`, and what found no place."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.left: list[Left] = []

    def put(self, path: str, value: Any) -> None:
        """Set a value; None sets nothing."""
        if value is not None:
            self.values[path] = value

    def lose(self, line: int, text: str, reason: str) -> None:
        """Note that the job will differ."""
        self._leave("lost", line, text, reason)

    def check(self, line: int, text: str, reason: str) -> None:
        """Note what its user should look at: the job may differ."""
        self._leave("check", line, text, reason)

    def keep(self, line: int, text: str, reason: str) -> None:
        """Note what another part of the spec, or jobgen itself, does."""
        self._leave("kept", line, text, reason)

    def _leave(self, kind: str, line: int, text: str, reason: str) -> None:
        left = Left(kind, line, text.strip(), reason)
        if left not in self.left:
            self.left.append(left)

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
        lines = [f"# imported by jobgen from {make_printable(source)}"]
        lines += _write_mapping(_sort_keys(tree, _ORDER[0]), "")
        for kind, heading in HEADINGS.items():
            entries = [left for left in self.left if left.kind == kind]
            if entries:
                lines += ["", f"# {heading}"]
                lines += [f"#   {left}" for left in entries]
        return "\n".join(lines) + "\n"


def make_printable(text: str) -> str:
    """`text` on one line of a YAML comment."""
    text = " ".join(text.split("\n"))
    return "".join(char if char.isprintable() and char < "\ufff0" else "?" for char in text)


def _sort_keys(tree: dict[str, Any], order: list[str]) -> dict[str, Any]:
    known = [key for key in order if key in tree]
    return {key: tree[key] for key in [*known, *(key for key in tree if key not in known)]}


def _write_mapping(tree: dict[str, Any], indent: str) -> Iterator[str]:
    for key, value in tree.items():
        name = f"{indent}{_write_scalar(key)}:"
        if isinstance(value, dict) and value:
            yield name
            yield from _write_mapping(_sort_keys(value, _ORDER[1]), indent + "  ")
        elif isinstance(value, list) and key == "directives":
            yield name
            yield from (f"{indent}  - {_write_scalar(item)}" for item in value)
        elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
            yield name
            yield from (f"{indent}  - {_write_flow(item)}" for item in value)
        elif isinstance(value, list):
            yield f"{name} [{', '.join(_write_scalar(item) for item in value)}]"
        elif isinstance(value, str) and _fits_block(value):
            yield f"{name} |{'' if value.endswith(chr(10)) else '-'}"
            yield from (f"{indent}  {line}".rstrip() for line in value.splitlines())
        else:
            yield f"{name} {{}}" if value == {} else f"{name} {_write_scalar(value)}"


def _write_flow(value: object) -> str:
    if isinstance(value, dict):
        pairs = (f"{_write_scalar(key)}: {_write_flow(item)}" for key, item in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(_write_scalar, value))}]"
    return _write_scalar(value)


def _fits_block(text: str) -> bool:
    """Whether a literal block of YAML says exactly this."""
    lines = text.split("\n")
    plain = all(line.isprintable() and line == line.rstrip() for line in lines)
    plain = plain and not re.search("[\ufeff\ufff0-\U0010ffff]", text)
    return "\n" in text and plain and text[:1] not in " \n" and not text.endswith("\n\n")


def _write_scalar(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        return str(value)
    if _PLAIN.fullmatch(value) and value.lower() not in _WORDS and not value.startswith("."):
        return value
    return '"' + "".join(_ESCAPES.get(char) or _escape_character(char) for char in value) + '"'


def _escape_character(char: str) -> str:
    if char.isprintable() and char != "\ufeff":
        return char
    return f"\\U{ord(char):08x}"
