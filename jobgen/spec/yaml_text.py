"""Write YAML that jobgen reads back: the one place that does, by PyYAML and YAML 1.2's rules."""

from __future__ import annotations

import io
import json
from collections.abc import Collection
from collections.abc import Mapping as AnyMapping
from typing import Any

import yaml
from yaml.emitter import Emitter
from yaml.serializer import Serializer

from jobgen.spec.yaml_nodes import Mapping, Resolver, Scalar, Sequence


def quote_text(text: str) -> str:
    """Return `text` as YAML that means exactly this text, without quotes where it can."""
    written = serialize(_make_scalar(text, "str"))
    return written.removesuffix("...\n").rstrip("\n") if "\n" not in text else written


def write_value(value: Any) -> str:
    """Return plain data, or a node of a tree, as YAML on one line, such as `[a, {b: 1}]`."""
    node = _build(value)
    set_style(node, flow=True)
    return serialize(node).removesuffix("...\n").rstrip("\n")


def write_data(data: AnyMapping[str, Any] | Mapping, *, block: Collection[str] = ()) -> str:
    """Return plain data, or a tree, as a document: a key a line, text of several as a block.

    Lists are written on one line, but those of the keys in `block` have one line for each item.
    """
    node = _build(data, block=block)
    set_style(node, flow=False)
    return serialize(node)


def serialize(node: Any) -> str:
    """Return the text of a PyYAML node."""
    stream = io.StringIO()
    writer = _NodeWriter(stream)
    writer.open()
    writer.serialize(node)
    writer.close()
    return stream.getvalue()


def set_style(node: Any, *, flow: bool) -> None:
    """Have text of several lines written as a literal block, and everything inline within braces.

    `node` is a PyYAML node; what is already marked as inline stays inline.
    """
    if isinstance(node, yaml.ScalarNode):
        if "\n" in node.value:
            node.style = '"' if flow else "|"
        return
    node.flow_style = flow or node.flow_style
    for child in node.value:
        for part in child if isinstance(child, tuple) else (child,):
            set_style(part, flow=node.flow_style)


class _NodeWriter(Emitter, Serializer, Resolver):
    """Write nodes by the rules of YAML that jobgen reads with."""

    def __init__(self, stream: Any) -> None:
        Emitter.__init__(self, stream, width=4096, allow_unicode=True)
        Serializer.__init__(self)
        Resolver.__init__(self)

    def analyze_scalar(self, scalar: str) -> Any:
        """Let a block have tabs, and blanks at the end of a line, which YAML allows there."""
        analysis = super().analyze_scalar(scalar)
        plain = scalar.replace("\t", " ").replace("\n", " ").isprintable()
        analysis.allow_block |= all((plain, scalar.lstrip()[:1] == scalar[:1]))
        return analysis


def _make_scalar(text: str, kind: str) -> Any:
    return yaml.ScalarNode(f"tag:yaml.org,2002:{kind}", text)


def _build(value: Any, *, block: Collection[str] = (), key: str = "") -> Any:
    """Return the node of plain data, or of a tree's node, that stands at `key`."""
    if isinstance(value, Sequence | Mapping):
        value = value.items
    if isinstance(value, AnyMapping):
        pairs = [
            (_make_scalar(str(name), "str"), _build(item, block=block, key=str(name)))
            for name, item in value.items()
        ]
        return yaml.MappingNode("tag:yaml.org,2002:map", pairs, flow_style=not pairs)
    if isinstance(value, list | tuple):
        items = [_build(item) for item in value]
        for item in items if key in block else ():
            set_style(item, flow=True)
        return yaml.SequenceNode("tag:yaml.org,2002:seq", items, flow_style=key not in block)
    if isinstance(value, Scalar):
        return _make_scalar(value.text, value.kind)
    if isinstance(value, bool | None):
        return _make_scalar(json.dumps(value), "null" if value is None else "bool")
    return _make_scalar(str(value), {int: "int", float: "float"}.get(type(value), "str"))
