"""Plain English: turns that read like a translation stay out of all that users see.

Messages, help, docstrings, docs and templates are read; comments and tests are not.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import ROOT

#: Turns of phrase, and what to write instead.
BANNED = {
    r"(?<!here )\b(?:is|are|was|were) no (?!longer\b|more\b|one\b)[a-z]+": "is not a ...",
    r"\bnobody\b": "no one, or say who",
    r"\bof (?:its|their|one's|your|his|her) own\b(?! (?!in|here|and|or)[a-z])": "its own",
    r"\b(?:is|are) told\b": "gets, is reported",
    r"\btells? of\b": "reports, describes",
    r"\banew\b": "again",
    r"\bmends?\b|\bmended\b|\bmending\b": "fix",
    r"\bwhom\b": "who",
    r"\bfor ever\b": "forever, without end",
    r"\bwhere there (?:is|are)\b": "if there is",
    r"\ball that (?:is|are|was|has|have)\b": "everything that",
    r"\bso many of\b|\bof so many\b": "this many",
    r"\bcan hardly be\b|\bis hardly time\b": "is too ..., is hardly what you mean",
    r"\bfor want of\b": "which ran out of",
    r"\btells \w+ \w+ of \S+ \w+ by\b": "... tells it that it has",
    r"\bwhere the rank is 0 alone\b": "on rank 0 only",
}
PATTERN = re.compile("|".join(f"(?:{turn})" for turn in BANNED))
TEXTS = [
    *ROOT.glob("*.md"),
    *(ROOT / "docs").rglob("*.md"),
    *(path for path in (ROOT / "templates").rglob("*") if path.is_file()),
    *(ROOT / "jobgen" / "spec" / "data").glob("*.yaml"),
    *(ROOT / "jobgen" / "rendering").glob("*.txt"),
    *(ROOT / "jobgen").glob("*/rules.txt"),
    ROOT / "jobgen" / "programs" / "remarks.txt",
    ROOT / "jobgen" / "review" / "review.txt",
    ROOT / "jobgen" / "jobs" / "states.txt",
    ROOT / "jobgen" / "diagnose" / "data" / "causes.yaml",
]


def list_strings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the strings of a module that have a blank in them, each with its line."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, " ".join(node.value.split())


def find_turns(path: Path) -> Iterator[str]:
    """Yield each banned turn in a file that users see, with its place."""
    if path.suffix == ".py":
        lines = list(list_strings(path))
    else:
        lines = list(enumerate(path.read_text().splitlines(), 1))
    if path.name == "review.txt":  # of a row, what it says and what to write
        lines = [(at, " | ".join(line.split(" | ")[3:])) for at, line in lines if line[:1] != "#"]
    for number, text in lines:
        for match in PATTERN.finditer(text):
            yield f"{path.relative_to(ROOT)}:{number}: {match[0]!r} in {text[:100]!r}"


def list_files() -> list[Path]:
    """Return the files that users see."""
    return [*sorted((ROOT / "jobgen").rglob("*.py")), *sorted(TEXTS)]


def test_text_for_users_is_plain_english() -> None:
    turns = [turn for path in list_files() for turn in find_turns(path)]
    assert not turns, "\n".join(turns)


@pytest.mark.parametrize(
    "text", ["X is no duration", "a folder of its own", "where there are none"]
)
def test_banned_turns_are_found(text: str) -> None:
    assert PATTERN.search(text)
