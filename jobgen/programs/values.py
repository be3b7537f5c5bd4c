"""What a program's tests come to, where constants, the job and its options decide them."""

from __future__ import annotations

import ast
import itertools
import operator
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from jobgen.programs.text import UNKNOWN, Module, Surroundings, read_form, unparse

_OPERATORS: dict[type, Callable[..., Any]] = {
    **{ast.Eq: operator.eq, ast.Is: operator.eq, ast.NotEq: operator.ne, ast.IsNot: operator.ne},
    **{ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge},
    **{ast.In: lambda one, many: one in many, ast.NotIn: lambda one, many: one not in many},
    **{ast.Not: operator.not_, ast.USub: operator.neg},
    **{ast.Add: operator.add, ast.Sub: operator.sub, ast.Mod: operator.mod},
    # Of numbers alone, as a text may become a long one.
    **{ast.Mult: lambda one, other: (one + 0) * (other + 0)},
    **{ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv},
}
# The parts of an expression, and what makes its value of theirs.
_PARTS: dict[type, Callable[[Any], tuple[list[ast.expr], Callable[..., object]]]] = {
    ast.UnaryOp: lambda node: ([node.operand], _OPERATORS[type(node.op)]),
    ast.BinOp: lambda node: ([node.left, node.right], _OPERATORS[type(node.op)]),
    ast.Compare: lambda node: (
        [node.left, *node.comparators],
        lambda *sides: all(
            _OPERATORS[type(by)](*two) for by, *two in zip(node.ops, sides, sides[1:], strict=False)
        ),
    ),
    ast.Call: lambda node: (node.args if unparse(node.func) == "int" else [UNKNOWN], int),
    **dict.fromkeys((ast.Tuple, ast.List), lambda node: (node.elts, lambda *values: values)),
}


class Values:
    """The values that names, options and tests have in a program."""

    def __init__(self, modules: Sequence[Module]) -> None:
        self._modules = modules
        self._known: Mapping[str, object] = {}  # values of expressions, as the job decides them
        self._options: Mapping[str, object] = {}  # values of the program's options
        self._decided: dict[int, bool | None] = {}
        self._asked: list[str] = []  # the names whose values are looked for
        # Of attributes by their last names, whatever they are attributes of.
        self._attributes: dict[str, list[tuple[Surroundings, ast.expr]]] = defaultdict(list)
        assigned = itertools.chain(*(module.assigned.items() for module in modules))
        for name, values in assigned:
            if re.fullmatch(r"(self\.\w+|(?!self\.)\w+)\.\w+", name):  # as args.lr
                self._attributes[name.rpartition(".")[2]] += values

    def tell(self, known: Mapping[str, object], options: Mapping[str, object]) -> None:
        """Take what the job decides: values of expressions, and of the program's options."""
        self._known, self._options = known, options
        self._decided.clear()
        kept = {name: one for name, one in options.items() if name not in self._attributes}
        for module in self._modules:
            module.options = kept  # but those that the program changes
            module.texts.clear()

    def find_failing(self, place: Surroundings) -> ast.expr | None:
        """Return a test over a place that is known to fail."""
        return next((one for one in place.tests if self.decide(one, place.module) is False), None)

    def decide(self, test: ast.expr, module: Module) -> bool | None:
        """Return what a test comes to where constants and the job decide it, and None where not."""
        if id(test) not in self._decided:
            self._decided[id(test)] = None  # for a test of a name that is assigned from itself
            self._decided[id(test)] = self._decide(test, module)
        return self._decided[id(test)]

    def _decide(self, test: ast.expr, module: Module) -> bool | None:
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            known = self.decide(test.operand, module)
            return None if known is None else not known
        if isinstance(test, ast.BoolOp):
            enough = isinstance(test.op, ast.Or)
            parts = {self.decide(one, module) for one in test.values}
            return enough if enough in parts else None if None in parts else not enough
        value = self.find_value(test, module)
        return None if value is UNKNOWN else bool(value)

    def find_value(self, node: ast.expr, module: Module) -> object:
        """Return the value of an expression; UNKNOWN where it is open."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.BoolOp):
            decided = self.decide(node, module)
            return UNKNOWN if decided is None else decided
        if isinstance(node, ast.Name | ast.Attribute):
            return self._find_assigned(node, module)
        text = read_form("asked").sub(r".\1", unparse(node))
        known = self._known.get(text, UNKNOWN)
        return self._combine(node, module) if known is UNKNOWN else known

    def _combine(self, node: ast.expr, module: Module) -> object:
        """Return what an expression makes of the values of its parts."""
        with suppress(KeyError, TypeError, ValueError, ArithmeticError):  # as of text and number
            parts, make = _PARTS[type(node)](node)
            values = [self.find_value(one, module) for one in parts]
            return UNKNOWN if UNKNOWN in values else make(*values)
        return UNKNOWN

    def _find_assigned(self, node: ast.Name | ast.Attribute, module: Module) -> object:
        """Return the one value of a name, or of an option of the program."""
        text = unparse(node)
        if text in self._known:
            return self._known[text]
        name = text.rpartition(".")[2]
        own = "." not in text or re.fullmatch(r"self\.\w+", text)
        placed = (module.assigned if own else self._attributes).get(text if own else name, [])
        placed = [one for one in placed if self.find_failing(one[0]) is None]
        if not placed and not own:
            return self._options.get(name, UNKNOWN)
        # One that a test decides about may leave the value that it has had.
        sure = len(placed) == 1 and all(self.decide(one, module) for one in placed[0][0].tests)
        if not sure or text in self._asked:  # as for a name that is assigned from itself
            return UNKNOWN
        self._asked.append(text)
        value = self.find_value(placed[0][1], placed[0][0].module)
        self._asked.pop()
        return value
