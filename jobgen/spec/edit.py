"""Change one value of a spec's text; all else stays as its author wrote it, comments too."""

from __future__ import annotations

import textwrap
from collections import abc
from typing import Any

import yaml

from jobgen.errors import UsageError
from jobgen.records import NamedTuple
from jobgen.spec.yaml_nodes import PlainComposer
from jobgen.spec.yaml_text import serialize, set_style


class _Step(NamedTuple):
    """A key of the path that is there: the mapping it is in, and the nodes of key and value."""

    mapping: Any
    key: Any
    value: Any


def set_value(text: str, path: str, value: str | None) -> str:
    """Return a spec's text with `value` at `path`, such as `resources.nodes`; None removes the key.

    `value` is YAML itself, such as `[8, 2]`; `quote_text` makes it of any text. A mapping that this
    leaves empty goes too. Raises UsageError where either is not YAML, or where something on the
    path is not a mapping.
    """
    root, keys = _compose(text), path.split(".")
    steps = _walk(root, keys)
    if len(steps) < len(keys):
        return text if value is None else _add(text, root, steps, keys, value)
    if value is not None:
        return _replace_entry(text, steps[-1], keys[-1:], value)
    while len(steps) > 1 and len(steps[-1].mapping.value) == 1:
        steps.pop()
    return _remove(text, steps[-1])


def _add(text: str, root: Any, steps: list[_Step], keys: list[str], value: str) -> str:
    """Add what is missing on the way along `keys`, of which the first `steps` are there."""
    if root is None:
        return _join(text, _write_entry(keys, value, indent=0))
    mapping = steps[-1].value if steps else root
    if isinstance(mapping, yaml.ScalarNode) and mapping.value in ("", "~", "null"):
        return _replace_entry(text, steps[-1], keys[len(steps) - 1 :], value)
    if not isinstance(mapping, yaml.MappingNode):
        where = ".".join(keys[: len(steps)])
        raise UsageError(f"{where or 'the file'} holds no keys; {'.'.join(keys)} cannot be set")
    return _insert(text, mapping, keys[len(steps) :], value)


def list_values(text: str) -> dict[str, str]:
    """Return every value of a spec's text by its path: scalars as they read, the others as YAML.

    Raises UsageError where the text is not YAML.
    """
    values: dict[str, str] = {}

    def collect(node: Any, path: str) -> None:
        if isinstance(node, yaml.ScalarNode):
            values[path] = node.value
            return
        if path:
            values[path] = serialize(node).strip()
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                collect(value, f"{path}.{key.value}" if path else str(key.value))

    root = _compose(text)
    if isinstance(root, yaml.MappingNode):
        collect(root, "")
    return values


def _compose(text: str) -> Any:
    try:
        return PlainComposer(text).get_single_node()
    except yaml.YAMLError as error:
        raise UsageError(f"the text is not YAML: {error}") from None


def _walk(root: Any, keys: abc.Sequence[str]) -> list[_Step]:
    """Return the steps along `keys` as far as they are there."""
    steps: list[_Step] = []
    node = root
    for name in keys:
        if not isinstance(node, yaml.MappingNode):
            break
        pair = next((pair for pair in node.value if pair[0].value == name), None)
        if pair is None:
            break
        steps.append(_Step(node, *pair))
        node = pair[1]
    return steps


def _nest(keys: abc.Sequence[str], value: str, *, flow: bool = False) -> Any:
    node = _compose(value)
    if node is None:
        node = yaml.ScalarNode("tag:yaml.org,2002:null", "null")
    set_style(node, flow=flow)
    for key in reversed(keys):
        pair = (yaml.ScalarNode("tag:yaml.org,2002:str", key), node)
        node = yaml.MappingNode("tag:yaml.org,2002:map", [pair], flow_style=flow)
    return node


def _write_entry(keys: abc.Sequence[str], value: str, *, indent: int) -> str:
    """Write `value` below nested `keys` in block style, with a newline at its end."""
    return textwrap.indent(serialize(_nest(keys, value)), " " * indent)


def _join(text: str, block: str) -> str:
    return text + ("" if not text or text.endswith("\n") else "\n") + block


def _end_of_content(text: str, start: int, end: int) -> int:
    """Return the end of what stands between two places, without blanks and comments after it."""
    lines = text[start:end].splitlines(True)
    while lines and (not lines[-1].strip() or lines[-1].lstrip().startswith("#")):
        if len(lines) == 1 and lines[-1].strip():
            break
        lines.pop()
    return start + len("".join(lines).rstrip())


def _entry_end(text: str, step: _Step) -> int:
    """Return where an entry of a block mapping ends: the start of the line after it."""
    start: int = step.key.start_mark.index
    end: int = step.value.end_mark.index
    if not isinstance(step.value, yaml.ScalarNode) or step.value.style not in ("|", ">"):
        end = _end_of_content(text, start, end)
    elif end and text[end - 1 : end] == "\n":
        return end
    newline = text.find("\n", end)
    return len(text) if newline < 0 else newline + 1


def _insert(text: str, mapping: Any, keys: abc.Sequence[str], value: str) -> str:
    if mapping.flow_style:
        close = mapping.end_mark.index - 1
        entry = _write_flow(keys, value)
        head = text[:close].rstrip()
        separator = "" if head.endswith(("{", ",")) else ", "
        return head + separator + entry + text[close:]
    last = _Step(mapping, *mapping.value[-1])
    end = _entry_end(text, last)
    block = _write_entry(keys, value, indent=int(mapping.start_mark.column))
    return _join(text[:end], block) + text[end:]


def _write_flow(keys: abc.Sequence[str], value: str) -> str:
    return serialize(_nest(keys, value, flow=True)).strip()[1:-1]


def _replace_entry(text: str, step: _Step, keys: abc.Sequence[str], value: str) -> str:
    """Replace an entry's value; a comment that ends its line stays where the line does."""
    end = step.value.end_mark.index
    if step.mapping.flow_style:
        return text[: step.key.start_mark.index] + _write_flow(keys, value) + text[end:]
    key_start = step.key.start_mark.index
    entry = _write_entry(keys, value, indent=int(step.key.start_mark.column)).lstrip(" ")
    whole_end = _entry_end(text, step)
    tail = ""
    node = step.value
    on_a_line = (
        node.style not in ("|", ">") if isinstance(node, yaml.ScalarNode) else node.flow_style
    )
    if on_a_line:
        tail = text[end:whole_end].rstrip("\n")
    if tail.strip() and entry.count("\n") == 1:
        entry = entry.rstrip("\n") + (tail if tail[:1] == " " else f" {tail}") + "\n"
    return text[:key_start] + entry + text[whole_end:]


def _remove(text: str, step: _Step) -> str:
    start = step.key.start_mark.index
    if not step.mapping.flow_style:
        return text[:start].rstrip(" ") + text[_entry_end(text, step) :]
    end = step.value.end_mark.index
    after = text[end:].lstrip()
    if after.startswith(","):
        return text[:start] + after[1:].lstrip()
    return text[:start].rstrip().removesuffix(",") + text[end:]
