"""A whole program: its file, the modules of its project, and what of them is reached."""

from __future__ import annotations

import ast
import glob
import operator
import os
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache, cached_property
from typing import Any

from jobgen.programs.kinds import classify, list_heads
from jobgen.programs.text import (
    OBJECT,
    UNKNOWN,
    Call,
    Module,
    Scope,
    Surroundings,
    is_newer,
    read_form,
)
from jobgen.spec import tables
from jobgen.spec.launchers import read_names

MOST_TEXT = 300_000  # characters of a project, about 8,000 lines; the rest is not read
_COMPARES: dict[type, Callable[[Any, Any], Any]] = {
    **{ast.Eq: operator.eq, ast.Is: operator.eq, ast.NotEq: operator.ne, ast.IsNot: operator.ne},
    **{ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge},
}


class Source:
    """A program: the file that is started, and the modules of its project that it imports."""

    def __init__(self, path: str, *roots: str) -> None:
        """Read a program, and what it imports from `roots`: from beside it and from here; from src.

        Raises what `Module` does; a module of the project that cannot be read is left out.
        """
        self.entry = Module(path, started=True)
        self.is_script = not roots  # whether it is started by its file, and not as a module
        above = [".."] if read_form("adds-path").search(self.entry.text) else []
        self._roots = (*(roots or dict.fromkeys((os.path.dirname(path), ""))), "src", *above)
        self.missing: list[Call] = []  # imports of modules of the project that are not there
        self.broken: list[Call] = []  # of those that do not parse
        self.libraries: set[str] = set()  # the top-level names of the others
        self.partial = False  # whether some of the project is not read
        self.modules = [self.entry]
        self._has_own = cache(_has_own)  # as each import asks for it
        self._read_project()
        self.code = "\n".join(module.code for module in self.modules)  # without comments
        self.calls = [call for module in self.modules for call in module.calls]
        self._kinds: dict[str, list[Call]] = defaultdict(list)
        for call in self.calls:
            for kind in classify(call.name):
                self._kinds[kind].append(call)
        self._uses: dict[str, list[tuple[str | None, Surroundings]]] = defaultdict(list)
        self._stems: dict[str, list[Module]] = defaultdict(list)  # by what they are imported as
        # Values of attributes by their last names, whatever they are attributes of.
        self._attributes: dict[str, list[tuple[Surroundings, ast.expr]]] = defaultdict(list)
        for module in self.modules:
            self._stems[os.path.basename(re.sub(r"(/__init__)?\.py$", "", module.path))].append(
                module
            )
            for name, owner, place in module.uses:
                self._uses[name].append((owner, place))
            for name, values in module.assigned.items():
                if re.fullmatch(r"(self\.\w+|(?!self\.)\w+)\.\w+", name):  # as args.lr
                    self._attributes[name.rpartition(".")[2]] += values
        self.known: Mapping[str, object] = {}  # values of expressions, as the job decides them
        self.options: Mapping[str, object] = {}  # values of the program's options
        self._decided: dict[int, bool | None] = {}
        self._asked: list[str] = []  # the names whose values are looked for

    def _read_project(self) -> None:
        """Read what the program imports, and what that does, while there is room."""
        room, seen = MOST_TEXT, {os.path.realpath(self.entry.path)}
        for module in self.modules:  # and those that are found, which come behind
            room -= len(module.text)
            for one, path in self._find_imported(module):
                real = os.path.realpath(path)
                if real in seen:
                    continue
                if room < 0:
                    self.partial = True
                    return
                seen.add(real)
                self._read_module(one, path)

    def _read_module(self, one: Call, path: str) -> None:
        try:
            self.modules.append(Module(path))
        except SyntaxError as error:
            self.partial = True
            about = {"file": f"{path}:{error.lineno}", "fault": error.msg}
            self.broken += [] if is_newer(error) else [one._replace(about=about)]
        except (OSError, ValueError):
            self.partial = True

    def _find_imported(self, module: Module) -> Iterator[tuple[Call, str]]:
        """Yield the imports of a module that name files of the project, with each file."""
        for one in module.imports:
            base = self._find_base(one)
            if base is None:
                self.libraries.add(one.head)
                continue
            names = [base, *(f"{base}/{name.name}" for name in one.node.names)]
            ways = [f"{name}{end}" for name in names for end in (".py", "/__init__.py")]
            files = [*filter(os.path.isfile, ways)]
            yield from ((one, file) for file in files)
            there = files or os.path.isdir(base) or any(glob.iglob(f"{glob.escape(base)}.*"))
            # What is not beside the program may be installed, too, with other modules.
            own = not one.head or self._has_own(self._roots[0], one.head)
            self.missing += [one] if own and not there else []

    def _find_base(self, one: Call) -> str | None:
        """Return the path of a module of the project without its suffix; None for a library's."""
        dots = len(one.name) - len(one.name.lstrip("."))
        words = one.name.strip(".").split(".")
        if dots:
            above = os.path.join(os.path.dirname(one.module.path), *[os.pardir] * (dots - 1))
            return os.path.normpath(os.path.join(above, *words))
        for place, root in enumerate(self._roots):
            if place and self.is_script and words[0] in list_plain() | list_heads():
                continue  # Python does not look there, and has it as a library
            if self._has_own(root, words[0]):
                return os.path.normpath(os.path.join(root, *words))
        return None

    def find_elsewhere(self) -> list[Call]:
        """Return imports of what is in the current folder, where Python does not look."""
        beside = os.path.dirname(self.entry.path)
        if not beside or not self.is_script or read_form("adds-path").search(self.code):
            return []
        sure = [one for one in self.entry.imports if not (one.place.tried or one.place.scope)]
        here = [one for one in sure if one.head and one.head not in list_plain() | list_heads()]
        return [one for one in here if _has_own("", one.head) and not _has_own(beside, one.head)]

    def find(self, kinds: str) -> list[Call]:
        """Return the calls of kinds of `calls.txt` that may be reached."""
        calls = [call for kind in kinds.split() for call in self._kinds.get(kind, ())]
        return [call for call in calls if self.is_reached(call.place)]

    def has(self, kind: str) -> bool:
        """Whether it has calls of a kind, reached or not."""
        return bool(self._kinds.get(kind))

    def find_denied(self, kind: str) -> str:
        """Return the test that is known to keep it from a call of a kind; "" if none is."""
        for call in self._kinds.get(kind, ()):
            for place in (call.place, *self.list_uses(call.place.scope)):
                test = self._find_failing(place)
                if test is not None:
                    return ast.unparse(test)
        return ""

    @cached_property
    def named(self) -> set[str]:
        """The full names of what it calls, of what it imports and uses, and of bases."""
        named = {call.name for call in self.calls if self.is_reached(call.place)}
        for module in self.modules:
            used = {name for name, _, place in module.uses if self.is_reached(place)}
            named |= {full for full in module.names.values() if full.rpartition(".")[2] in used}
            named.update(module.bases)
        return named

    def is_reached(self, place: Surroundings) -> bool:
        """Whether something that the program runs comes to a place."""
        return id(place.scope) in self._entered and self._find_failing(place) is None

    def _find_failing(self, place: Surroundings) -> ast.expr | None:
        """Return a test over a place that is known to fail."""
        return next((one for one in place.tests if self.decide(one, place.module) is False), None)

    @cached_property
    def _entered(self) -> set[int]:
        """The functions and classes that something names which is reached; and none of them."""
        entered, size = {id(None)}, 0
        scopes = [scope for module in self.modules for scope in module.scopes]
        while size < len(entered):  # as each that is entered names others
            size = len(entered)
            for scope in scopes:
                around = scope.place
                if id(around.scope) in entered and self._find_failing(around) is None:
                    uses = (one for one in self.list_uses(scope) if id(one.scope) in entered)
                    if (scope.free and not scope.is_class) or any(
                        self._find_failing(one) is None for one in uses
                    ):
                        entered.add(id(scope))
        return entered

    def list_uses(self, scope: Scope | None) -> list[Surroundings]:
        """Return the places that name a function or a class, outside of it."""
        if scope is None:
            return []
        uses = self._uses.get(scope.name, [])
        named = [place for owner, place in uses if self._may_mean(scope, owner, place)]
        return [place for place in named if not _is_inside(place.scope, scope)]

    def _may_mean(self, scope: Scope, owner: str | None, place: Surroundings) -> bool:
        """Whether a name that is read, with its owner, may be that of a function or a class."""
        own = scope.place.module
        if scope.place.scope and scope.place.scope.is_class:
            return owner == OBJECT
        if owner is None:
            return place.module is own or "*" in place.module.names
        # A module hands on what it imports.
        owners = self._stems.get(owner.rpartition(".")[2], [])
        return any(one is own or {"*", scope.name} & one.names.keys() for one in owners)

    def list_ways(self, place: Surroundings, depth: int = 3) -> list[tuple[str, ...]]:
        """Return the open tests on each way to a place, through the functions around it."""
        open_ = [one for one in place.tests if not self.decide(one, place.module)]
        own = tuple(_spell_test(one, place) for one in open_)
        around = place.scope
        if around and around.free and around.place.scope:  # a method that is called for its class
            around = around.place.scope
        uses = [one for one in self.list_uses(around) if depth and self.is_reached(one)]
        ways = [own + way for one in uses for way in self.list_ways(one, depth - 1)]
        return [*dict.fromkeys(ways)] or [own]

    def tell(self, known: Mapping[str, object], options: Mapping[str, object]) -> None:
        """Take what the job decides: values of expressions, and of the program's options."""
        self.known, self.options = known, options
        self._decided.clear()
        kept = {name: one for name, one in options.items() if name not in self._attributes}
        for module in self.modules:
            module.options = kept  # but those that the program changes
            module.texts.clear()
        for name in ("_entered", "named"):
            self.__dict__.pop(name, None)

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
        value = self._find_value(test, module)
        return None if value is UNKNOWN else bool(value)

    def _find_value(self, node: ast.expr, module: Module) -> object:
        """Return the value of an expression; UNKNOWN where it is open."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.BoolOp | ast.UnaryOp):
            known = self.decide(node, module)
            return UNKNOWN if known is None else known
        if isinstance(node, ast.Name | ast.Attribute):
            return self._find_assigned(node, module)
        text = ast.unparse(node)
        if text in self.known or not isinstance(node, ast.Compare) or len(node.ops) > 1:
            return self.known.get(text, UNKNOWN)
        sides = [self._find_value(one, module) for one in (node.left, node.comparators[0])]
        with suppress(KeyError, TypeError):  # no such comparison, or one of a text with a number
            return UNKNOWN if UNKNOWN in sides else _COMPARES[type(node.ops[0])](*sides)
        return UNKNOWN

    def _find_assigned(self, node: ast.Name | ast.Attribute, module: Module) -> object:
        """Return the one value of a name, or of an option of the program."""
        text = ast.unparse(node)
        if text in self.known:
            return self.known[text]
        name = text.rpartition(".")[2]
        own = "." not in text or re.fullmatch(r"self\.\w+", text)
        placed = (module.assigned if own else self._attributes).get(text if own else name, [])
        placed = [one for one in placed if self._find_failing(one[0]) is None]
        if not placed and not own:
            return self.options.get(name, UNKNOWN)
        # One that a test decides about may leave the value that it has had.
        sure = len(placed) == 1 and all(self.decide(one, module) for one in placed[0][0].tests)
        if not sure or text in self._asked:  # as for a name that is assigned from itself
            return UNKNOWN
        self._asked.append(text)
        value = self._find_value(placed[0][1], placed[0][0].module)
        self._asked.pop()
        return value


def _spell_test(test: ast.expr, place: Surroundings) -> str:
    """Return a test as it is written; one of a name for a rank or a count says so."""
    text = ast.unparse(test)
    full = Call(place, test, "").fill(text)
    return full if re.search("(?i)rank|device_count|world_size", full) else text


def _is_inside(inner: Scope | None, scope: Scope | None) -> bool:
    """Whether a function or class is another, or stands in it."""
    while inner and inner is not scope:
        inner = inner.place.scope
    return inner is scope


@cache
def list_plain() -> frozenset[str]:
    """Return the libraries that start no processes, and those of Python."""
    return sys.stdlib_module_names.union(tables.read_lines("plain_libraries.txt", room="programs"))


def _has_own(root: str, name: str) -> bool:
    """Whether a folder has a module of this name, or a folder of modules.

    Only this name is looked up: a folder beside the program may hold a million images.
    """
    path = os.path.join(root, name)
    return os.path.isfile(f"{path}.py") or any(glob.iglob("*.py", root_dir=path))


def list_started(words: list[str]) -> list[str]:
    """Return the program of a command and its words, without what only starts it."""
    prefixes, shells = read_names("prefixes"), r"(.*/)?(python[\d.]*|(ba|z)?sh)"
    while len(words) > 1 and os.path.basename(words[0]) in prefixes:
        words = words[1:]
    if not re.fullmatch(shells, "".join(words[:1])):
        return words
    words = words[1:]
    while words and re.match("-(?!m$)", words[0]):
        words = words[1:]
    return words
