"""How dense functions are: branches that ruff's C901 does not count are counted here, too."""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

from support import ROOT

BRANCHES = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.IfExp, ast.match_case)
MOST = 15
DENSE = 10
MOST_DENSE = 0.07  # of all functions
MEAN = 4.2


def count_branches(function: ast.AST) -> int:
    """Return one and the number of ways that leave the straight one.

    Each `and` and `or` is one, as McCabe counts conditions (1976), and so is each `for` of a
    comprehension, and each product or sum of a condition: `"text" * (count > 1)` is an `if`.
    """
    count = 1
    for node in ast.walk(function):
        if isinstance(node, ast.BoolOp):
            count += len(node.values) - 1
        elif isinstance(node, ast.BinOp):
            count += any(map(is_condition, (node.left, node.right))) or repeats_words(node)
        count += isinstance(node, (*BRANCHES, ast.comprehension))
    return count


def is_condition(node: ast.expr) -> bool:
    """Whether an operand can only be true or false."""
    match node:
        case ast.Compare() | ast.UnaryOp(op=ast.Not()) | ast.Call(func=ast.Name(id="bool")):
            return True
    return False


def repeats_words(node: ast.BinOp) -> bool:
    """Whether it is a text with letters, times what is hardly a number."""
    texts = [
        one for one in (node.left, node.right) if isinstance(one, ast.Constant | ast.JoinedStr)
    ]
    words = [one for one in texts if re.search("[A-Za-z]{2}", ast.unparse(one).lstrip("f"))]
    return isinstance(node.op, ast.Mult) and bool(words)


@cache
def list_functions() -> list[tuple[int, str]]:
    """Return the branches of each function of the package, with its place."""
    return [
        (count_branches(node), f"{path.relative_to(ROOT)}:{node.lineno} {node.name}")
        for path in sorted(Path(ROOT, "jobgen").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def test_no_function_is_too_dense_to_read() -> None:
    """A table, or a piece with a name of its own, takes what is too much."""
    assert [place for count, place in list_functions() if count > MOST] == []


def test_dense_functions_are_few() -> None:
    """Among well-kept packages 1 to 7 % of functions have more than ten branches."""
    functions = list_functions()
    dense = [place for count, place in functions if count > DENSE]
    rooms = Counter(place.split("/")[1] for place in dense)
    assert len(dense) <= MOST_DENSE * len(functions), rooms.most_common()


def test_functions_are_easy_to_read_on_the_whole() -> None:
    """Well-kept packages have means from 2.5 to 3.4, and dense ones above 5."""
    counts = [count for count, _ in list_functions()]
    assert sum(counts) / len(counts) <= MEAN
