"""Changing one value of a spec's text: that value changes, and nothing else does."""

import copy
import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from jobgen.errors import UsageError
from jobgen.spec.edit import list_values, set_value
from jobgen.spec.yaml_text import quote_text

TEXT = """\
# a comment
name: gpt   # the name
resources:
  nodes: 2       # two
  # before the GPUs
  gpus_per_node: [8,
     2]
  walltime: 02:00:00

environment: {modules: [a, b], venv: /x}
run:
  module: m
  args:
    lr: 3e-4
    note: |
      a
      b

    z: "x"
directives:
- "#PBS -l x"
- b
# end
"""
PATHS = (
    *("name", "queue", "run.args", "run.args.lr", "run.args.note", "run.args.new", "run.args.z"),
    *("resources.nodes", "resources.gpus_per_node", "resources.walltime", "resources.a.b"),
    *("environment", "environment.venv", "environment.modules", "environment.variables.A"),
    *("directives", "launch.mode"),
)
WORDS = (
    "a",
    "4",
    "02:00:00",
    "a: b",
    "# x",
    "two\nlines",
    "two\nlines\n",
    ": ",
    "{x}",
    "it's",
    "é",
)
VALUES = st.one_of(
    st.none(),
    st.sampled_from(WORDS),
    st.lists(st.sampled_from(("a", "b c", "1", ", ", "x]")), max_size=3),
    st.dictionaries(
        st.sampled_from(("k", "l")), st.sampled_from(("v", "w\nz")), min_size=1, max_size=2
    ),
)


def change(tree: dict[str, Any], keys: list[str], value: Any) -> dict[str, Any]:
    """Do to data what `set_value` does to text."""
    tree = copy.deepcopy(tree)
    around, node = [], tree
    for key in keys[:-1]:
        if value is None and key not in node:
            return tree
        around.append((node, key))
        node = node.setdefault(key, {})
    if value is not None:
        node[keys[-1]] = value
        return tree
    node.pop(keys[-1], None)
    while around and not node:
        node, key = around.pop()
        del node[key]
    return tree


def holds_keys(tree: Any, keys: list[str]) -> bool:
    """Whether every key on the way is a mapping's, or is missing."""
    for key in keys:
        if not isinstance(tree, dict):
            return False
        if key not in tree:
            return True
        tree = tree[key]
    return isinstance(tree, dict)


@given(st.lists(st.tuples(st.sampled_from(PATHS), VALUES), min_size=1, max_size=4))
def test_one_value_changes_and_nothing_else(edits: list[tuple[str, Any]]) -> None:
    text = TEXT
    for path, value in edits:
        keys = path.split(".")
        before = yaml.load(text, yaml.BaseLoader)
        if not holds_keys(before, keys[:-1]):
            with pytest.raises(UsageError, match="holds no keys"):
                set_value(text, path, "x")
            continue
        written = quote_text(value) if isinstance(value, str) else json.dumps(value)
        text = set_value(text, path, None if value is None else written)
        assert yaml.load(text, yaml.BaseLoader) == change(before, keys, value)


def test_comments_and_layout_stay() -> None:
    text = set_value(TEXT, "resources.nodes", "4")
    assert text == TEXT.replace("nodes: 2 ", "nodes: 4 ")
    text = set_value(TEXT, "launch.mode", "direct")
    assert text == TEXT.replace("- b\n", "- b\nlaunch:\n  mode: direct\n")
    assert set_value(TEXT, "resources.gpus_per_node", None) == TEXT.replace(
        "  gpus_per_node: [8,\n     2]\n", ""
    )


@pytest.mark.parametrize("first", ["\ufeff", "a: 1\u2028", "# \x85\n"])
def test_signs_that_yaml_counts_as_none_or_as_ends_of_lines_move_nothing(first: str) -> None:
    edited = set_value(f"{first}\nb: 2  # two\nc: 3\n", "b", "4")
    assert edited == f"{first}\nb: 4  # two\nc: 3\n"


def test_values_are_listed_by_path() -> None:
    values = list_values(TEXT)
    assert values["resources.walltime"] == "02:00:00"
    assert values["run.args.note"] == "a\nb\n"
    assert yaml.safe_load(values["environment.modules"]) == ["a", "b"]


def test_what_is_not_yaml_is_refused() -> None:
    with pytest.raises(UsageError, match="not YAML"):
        set_value("a: [", "b", "1")
    assert set_value("", "resources.nodes", "2") == "resources:\n  nodes: 2\n"
