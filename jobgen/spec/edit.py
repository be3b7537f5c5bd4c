"""Change one value of a spec's text; all else stays as its author wrote it, comments too."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

import yaml

from jobgen.errors import UsageError
from jobgen.spec.fields import join_path
from jobgen.spec.yaml_nodes import PlainComposer
from jobgen.spec.yaml_text import serialize, set_style

_Pair = tuple[Any, Any]  # the nodes of a key and of its value
_Step = tuple[Any, _Pair]  # the mapping that a pair is in, and the pair


def set_value(text: str, path: str, value: str | None) -> str:
    """Return a spec's text with `value` at `path`, such as `resources.nodes`; None removes the key.

    `value` is YAML itself, such as `[8, 2]`; `quote_text` makes it of any text. A mapping that this
    leaves empty goes too. Raises UsageError where either is not YAML, or where something on the
    path is not a mapping.
    """
    root, keys = _compose(text), path.split(".")
    steps = _walk(root, keys)
    if value is None:
        while len(steps) > 1 and len(steps[-1][0].value) == 1:
            steps.pop()
            keys.pop()
        return _replace(text, steps, None) if len(steps) == len(keys) else text
    if len(steps) < len(keys):
        last = steps[-1][1][1] if steps else root
        if isinstance(last, yaml.MappingNode):
            return _replace(text, [*steps, (last, None)], _nest(keys[len(steps) :], value))
        if last is None:
            return _join(text, _write(_nest(keys, value)))
        if not isinstance(last, yaml.ScalarNode) or last.value not in ("", "~", "null"):
            where = ".".join(keys[: len(steps)])
            raise UsageError(f"{where or 'the file'} holds no keys; {path} cannot be set")
    return _replace(text, steps, _nest(keys[len(steps) - 1 :], value))


def list_values(text: str) -> dict[str, str]:
    """Return every value of a spec's text by its path: scalars as they read, the others as YAML.

    Raises UsageError where the text is not YAML.
    """
    return dict(_list_below(_compose(text), ""))


def _list_below(node: Any, path: str) -> Iterator[tuple[str, str]]:
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        inner = join_path(path, key.value)
        is_text = isinstance(value, yaml.ScalarNode)
        yield inner, value.value if is_text else serialize(value).strip()
        yield from _list_below(value, inner)


def _compose(text: str) -> Any:
    try:
        return PlainComposer(text).get_single_node()
    except yaml.YAMLError as error:
        raise UsageError(f"the text is not YAML: {error}") from None


def _walk(node: Any, keys: Sequence[str]) -> list[Any]:
    """Return the steps along `keys` as far as they are there."""
    steps: list[_Step] = []
    for name in keys:
        pairs = node.value if isinstance(node, yaml.MappingNode) else ()
        pair = next((pair for pair in pairs if pair[0].value == name), None)
        if pair is None:
            break
        steps.append((node, pair))
        node = pair[1]
    return steps


def _nest(keys: Sequence[str], value: str) -> _Pair:
    """Return the first of some keys, below which the others are, and a value below the last."""
    node = _compose(value) or yaml.ScalarNode("tag:yaml.org,2002:null", "null")
    *outer, last = (yaml.ScalarNode("tag:yaml.org,2002:str", key) for key in reversed(keys))
    for key in outer:
        node = _make_mapping((key, node))
    return last, node


def _make_mapping(pair: _Pair) -> Any:
    return yaml.MappingNode("tag:yaml.org,2002:map", [pair], flow_style=False)


def _write(pair: _Pair, indent: int = 0) -> str:
    """Return an entry of a block mapping, with a newline at its end."""
    entry = _make_mapping(pair)
    set_style(entry, flow=False)
    return textwrap.indent(serialize(entry), " " * indent)


def _join(text: str, block: str) -> str:
    return re.sub(r"(?<=[^\n])\Z", "\n", text) + block


def _replace(text: str, steps: list[Any], new: _Pair | None) -> str:
    """Put a pair in the place of the last step's, or behind all others where that has none.

    None removes it. What stands in braces is written again, from the first brace to the last.
    """
    *outer, (mapping, old) = steps
    if mapping.flow_style:
        at = mapping.value.index(old) if old else len(mapping.value)
        mapping.value[at : at + 1] = [new] if new else []
        set_style(mapping, flow=True)
        if outer:
            return _replace(text, outer, (outer[-1][1][0], mapping))
        start, end = mapping.start_mark.index, mapping.end_mark.index
        return text[:start] + serialize(mapping).rstrip("\n") + text[end:]
    entry = _write(new, mapping.start_mark.column) if new else ""
    if old is None:
        end = _find_end(text, mapping.value[-1])
        return _join(text[:end], entry) + text[end:]
    end, before = _find_end(text, old), text[: old[0].start_mark.index]
    if new:
        return before + _keep_comment(entry.lstrip(" "), text[:end], old[1]) + text[end:]
    return before.rstrip(" ") + text[end:]


def _keep_comment(entry: str, text: str, old: Any) -> str:
    """Return an entry with the comment that ends the text, on the line of its old value."""
    is_block = old.style in ("|", ">") if isinstance(old, yaml.ScalarNode) else not old.flow_style
    tail = "" if is_block else text[old.end_mark.index :].rstrip("\n")
    if not tail.strip() or entry.count("\n") > 1:
        return entry
    blank = "" if tail.startswith(" ") else " "
    return f"{entry.rstrip()}{blank}{tail}\n"


def _find_end(text: str, pair: _Pair) -> int:
    """Return where an entry of a block mapping ends: the start of the line after it."""
    key, value = pair
    end: int = value.end_mark.index
    if not isinstance(value, yaml.ScalarNode) or value.style not in ("|", ">"):
        lines = text[key.start_mark.index : end].splitlines(True)
        # Blank lines and comments after it are what follows.
        while len(lines) > 1 and lines[-1].strip()[:1] in ("", "#"):
            lines.pop()
        end = key.start_mark.index + len("".join(lines).rstrip())
    elif text[end - 1 : end] == "\n":
        return end
    newline = text.find("\n", end)
    return len(text) if newline < 0 else newline + 1
