"""The reader of bash finds the commands that another parser of bash finds: tree-sitter's."""

from collections.abc import Iterator
from typing import Any

import pytest
from ordinary_bash import LAUNCHES, PIECES, build
from support import ROOT

from jobgen.batchscript.bash import parse

SCRIPTS = ROOT / "tests" / "batchscript"
# What the two see in another way by design: words of the shell, and where text is arithmetic.
_SHELL = {"for", "case", "select", "done", "fi", "esac", "}", "[[", "(("}
_DECLARES = {"export", "declare", "readonly", "local", "typeset", "unset"}

tree_sitter = pytest.importorskip("tree_sitter")
tree_sitter_bash = pytest.importorskip("tree_sitter_bash")


def list_theirs(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield line and words of each simple command, but those inside words and documents."""
    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))
    open_ = [parser.parse(text.encode()).root_node]
    while open_:
        node = open_.pop()
        assert node.type != "ERROR", f"line {node.start_point[0] + 1}"
        if node.type == "command":
            words: list[Any] = [child for child in node.children if child.is_named]
            words = [word for word in words if word.type not in _AROUND]
            texts = [word.text.decode() for word in words]
            count = texts[:1] == ["time"]
            if words:
                yield words[count].start_point[0] + 1, texts[count:]
        elif node.type not in _OTHERS:
            open_ += node.children


_OTHERS = {"declaration_command", "test_command", "variable_assignment", "heredoc_redirect"}
_OTHERS |= {"command_substitution", "process_substitution"}
_AROUND = {"variable_assignment", "file_redirect", "herestring_redirect", "heredoc_redirect"}


def list_ours(text: str) -> Iterator[tuple[int, list[str]]]:
    for command in parse(text):
        if command.words and command.words[0].raw not in _SHELL | _DECLARES | {"["}:
            yield command.words[0].line, [word.raw for word in command.words]


TEXTS = {
    **{f"{piece}, {launch}": build(piece, launch) for piece in PIECES for launch in LAUNCHES},
    **{path.name: path.read_text() for path in sorted((SCRIPTS / "of_others").iterdir())},
    **{path.name: path.read_text() for path in sorted((SCRIPTS / "faulty").glob("*n*.[sp]b*"))},
}


@pytest.mark.parametrize("kind", ["built", "written"])
def test_both_find_the_same_commands(kind: str, subtests: pytest.Subtests) -> None:
    built = {name for name in TEXTS if ", " in name}
    for name, text in TEXTS.items():
        if (name in built) == (kind == "built") and name != "bash-syntax.sbatch":
            with subtests.test(name):
                assert sorted(list_ours(text)) == sorted(list_theirs(text))


def test_a_pattern_of_case_may_have_a_backslash() -> None:
    commands = parse("case $1 in\n\\?) one;;\n\\*|a) two;;\nesac\n")
    assert [command.name for command in commands] == ["case", "one", "two", "esac"]
