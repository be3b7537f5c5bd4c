"""YAML that jobgen writes is what it reads back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobgen.spec.yaml_nodes import Mapping, Node, Scalar, Sequence, parse, parse_value
from jobgen.spec.yaml_text import quote_text, write_data, write_value


def read_back(node: Node) -> object:
    """Return a node as plain data."""
    if isinstance(node, Mapping):
        return {key: read_back(item) for key, item in node.items.items()}
    if isinstance(node, Sequence):
        return [read_back(item) for item in node.items]
    assert isinstance(node, Scalar)
    if node.kind == "str":
        return node.text
    return {"int": int, "float": float, "bool": lambda text: text == "true"}.get(
        node.kind, lambda text: None
    )(node.text)


TEXT = st.text(st.characters(exclude_categories=("C",)), max_size=12)
KEYS = TEXT.filter(lambda text: text.isprintable() and text != "<<")
SCALARS = (
    TEXT
    | st.booleans()
    | st.integers()
    | st.none()
    | st.sampled_from(
        ["no", "1e3", "0x1f", "a: b", "- x", "#", "two\nlines", " lead", "end\n", "~", "2:00:00"]
    )
)
DATA = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3)
)


@given(DATA)
def test_a_value_on_one_line_is_read_back(value):
    text = write_value(value)
    assert "\n" not in text
    assert read_back(parse_value(text, file="")) == value


@given(st.dictionaries(KEYS, DATA, min_size=1, max_size=4))
def test_a_document_is_read_back(data):
    assert read_back(parse(write_data(data, block=[*data][:1]), file="")) == data


@given(TEXT)
def test_quoted_text_is_read_back_as_text(text):
    assert read_back(parse_value(quote_text(text), file="")) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("02:00:00", "02:00:00"),
        ("no", "no"),
        ("010", "'010'"),
        (True, "true"),
        ([1, "a"], "[1, a]"),
    ],
)
def test_quotes_stand_only_where_yaml_would_read_something_other(value, text):
    assert write_value(value) == text


def test_a_document_has_blocks_for_scripts_and_lines_for_lists_that_ask_for_them():
    data = {"run": {"args": {"lr": 0.1}}, "directives": ["#SBATCH --nice"], "after": [12, 13]}
    data["environment"] = {"setup": "ulimit -c 0\ncd x\n"}
    assert write_data(data, block=("directives",)) == (
        "run:\n  args:\n    lr: 0.1\ndirectives:\n- '#SBATCH --nice'\nafter: [12, 13]\n"
        "environment:\n  setup: |\n    ulimit -c 0\n    cd x\n"
    )
