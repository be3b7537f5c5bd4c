"""A Python program and the modules of its own project, read by `ast`: calls, settings, imports."""

from __future__ import annotations

import ast
import glob
import os
import re
import warnings
from collections.abc import Iterator
from functools import cache, cached_property
from typing import Any

from jobgen.records import NamedTuple

MOST_BYTES = 1_000_000  # of one file
MOST_TEXT = 150_000  # characters of a project: about 4,000 lines; the rest is not read


class Call(NamedTuple):
    """A call by its full name, such as `torch.distributed.init_process_group`."""

    module: Module
    line: int
    name: str
    node: ast.Call
    tests: tuple[ast.expr, ...]  # of each `if` that decides about it, but the one for `__main__`
    short: str  # the last part of its name
    kinds: frozenset[str]  # what it does with processes and GPUs, by `calls.txt`

    @property
    def certain(self) -> bool:
        """Whether no `if` decides about it."""
        return not self.tests

    @property
    def given(self) -> dict[str | None, ast.expr]:
        """Its arguments by their names; None stands for what `**` hands on."""
        return {keyword.arg: keyword.value for keyword in self.node.keywords}

    @property
    def words(self) -> list[object]:
        """Its arguments without a name, of those that are constants."""
        return [node.value for node in self.node.args if isinstance(node, ast.Constant)]


class Setting(NamedTuple):
    """A value that the program gives to a variable of its environment."""

    module: Module
    line: int
    name: str
    literal: str | None  # the text that the source has for the value; None if it is computed
    certain: bool  # whether it stands in no `if`


class Import(NamedTuple):
    """A module that a file imports, by its full name; relative ones begin with dots."""

    module: Module
    line: int
    name: str
    taken: tuple[str, ...]  # the names that it takes from there
    optional: bool  # whether a `try` stands around it
    certain: bool = True

    @property
    def kinds(self) -> frozenset[str]:
        """What the names that it takes do, by `calls.txt`."""
        return frozenset[str]().union(*(classify(f"{self.name}.{name}") for name in self.taken))


# What is looked for, and what holds none of it: most nodes.
_KEPT = frozenset({ast.Call, ast.Import, ast.ImportFrom, ast.Assign})
_PASSED = frozenset(
    {ast.Name, ast.Constant, ast.Load, ast.Store, ast.arg, ast.alias, ast.arguments}
    | {str, int, float, bool, type(None)}
)


class Module:
    """One file of the program, by its path as the user would write it."""

    line, certain = 1, True  # where a remark on all of it stands, and that no `if` decides

    def __init__(self, path: str, *, started: bool = False) -> None:
        """Read the file, which is started or imported. Raises what `ReadProgram` does."""
        self.path, self.module, self._started = path, self, started
        with open(path, encoding="utf-8-sig", newline="") as file:
            self.text = file.read(MOST_BYTES)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes in the user's strings
            self.tree = ast.parse(self.text, path)
        self.calls: list[Call] = []
        self.settings: list[Setting] = []
        self.imports: list[Import] = []
        self.assigned: dict[str, list[ast.expr]] = {}
        self._names: dict[str, str] = {}  # the full names of short ones: dist, torch.distributed
        self._visit()

    def _visit(self) -> None:
        waiting: list[tuple[list[Any], tuple[ast.expr, ...], bool]] = [(self.tree.body, (), False)]
        while waiting:
            nodes, tests, tried = waiting.pop()
            nodes = [*nodes]
            for node in nodes:  # and for what is found in them, which comes behind
                kind = type(node)
                if kind in _PASSED or (kind is ast.If and self._is_for_another(node)):
                    continue
                if kind in _KEPT:
                    self._keep(node, tests, tried)
                inner: list[Any] = [] if kind in (ast.If, ast.Try) else nodes
                for name in node._fields:
                    value = getattr(node, name, None)
                    while type(value) is ast.Attribute:
                        value = value.value
                    if type(value) is list:
                        inner += value
                    elif type(value) not in _PASSED:
                        inner.append(value)
                if inner is not nodes:
                    decides = kind is ast.If and main_test(node) is None
                    waiting.append(
                        (inner, (*tests, node.test) if decides else tests, tried or kind is ast.Try)
                    )
        self.calls.sort(key=lambda call: call.line)

    def _is_for_another(self, node: ast.If) -> bool:
        """Whether an `if` is only for a module that is started, and this one is not."""
        return not self._started and main_test(node) == "__main__"

    def _keep(self, node: ast.AST, tests: tuple[ast.expr, ...], tried: bool) -> None:
        if isinstance(node, ast.Call):
            self._keep_call(node, tests)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            self._keep_import(node, tried)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                self._keep_assigned(target, node.value, tests)

    def _keep_call(self, node: ast.Call, tests: tuple[ast.expr, ...]) -> None:
        name = self._name(node.func)
        short, kinds = name.rpartition(".")[2], classify(name)
        call = Call(self, node.lineno, name, node, tests, short, kinds)
        self.calls.append(call)
        if name == "os.environ.update":
            for variable, value in call.given.items():
                self._set(variable, value, tests)

    def _keep_import(self, node: ast.Import | ast.ImportFrom, tried: bool) -> None:
        taken = tuple(one.name for one in node.names)
        if isinstance(node, ast.ImportFrom):
            name = "." * node.level + (node.module or "")
            self.imports.append(Import(self, node.lineno, name, taken, tried))
            full = {one.asname or one.name: f"{node.module or ''}.{one.name}" for one in node.names}
        else:
            self.imports += [Import(self, node.lineno, name, (), tried) for name in taken]
            heads = [one.name.partition(".")[0] for one in node.names if not one.asname]
            full = dict(zip(heads, heads, strict=True))
            full |= {one.asname: one.name for one in node.names if one.asname}
        self._names |= full

    def _keep_assigned(
        self, target: ast.expr, value: ast.expr, tests: tuple[ast.expr, ...]
    ) -> None:
        if isinstance(target, ast.Name):
            self.assigned.setdefault(target.id, []).append(value)
        elif isinstance(target, ast.Subscript) and self._name(target.value) == "os.environ":
            self._set(getattr(target.slice, "value", ""), value, tests)

    def _set(self, name: object, value: ast.expr, tests: tuple[ast.expr, ...]) -> None:
        inner = value.args[0] if isinstance(value, ast.Call) and value.args else value  # str(29500)
        known = isinstance(inner, ast.Constant) and isinstance(inner.value, str | int)
        literal = str(inner.value) if isinstance(inner, ast.Constant) and known else None
        self.settings.append(Setting(self, value.lineno, str(name), literal, not tests))

    def _name(self, node: ast.expr) -> str:
        """Return the full dotted name of an expression; it begins with a dot if it is computed."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        parts.append(self._names.get(node.id, node.id) if isinstance(node, ast.Name) else "")
        return ".".join(reversed(parts))


Place = Call | Setting | Import | Module


class ReadProgram:
    """A program: the file that is started first, then the project's modules that it imports."""

    def __init__(self, path: str, *roots: str) -> None:
        """Read a program and what it imports from `roots`: from beside it, and from here.

        Raises OSError or UnicodeDecodeError if the file cannot be read, and SyntaxError if it does
        not parse; a module of the project that cannot be read is left out.
        """
        self.entry = Module(path, started=True)
        self.modules = [self.entry]
        self.missing: list[Import] = []  # modules of the project that are not there
        self.libraries: set[str] = set()  # the top-level names of the others
        beside = [os.path.dirname(path), *([] if os.path.isabs(path) else [""])]
        self._roots = roots or beside
        waiting, seen = self._follow(self.entry), {os.path.realpath(path)}
        room = MOST_TEXT - len(self.entry.text)
        while waiting and room > 0:
            if (real := os.path.realpath(near := waiting.pop(0))) in seen:
                continue
            seen.add(real)
            try:
                module = Module(near)
            except (OSError, ValueError, SyntaxError):
                continue
            self.modules.append(module)
            room -= len(module.text)
            waiting += self._follow(module)
        self.partial = bool(waiting)  # whether more is imported than was read
        self.calls = [call for module in self.modules for call in module.calls]
        self.settings = [one for module in self.modules for one in module.settings]
        self.imports = [one for module in self.modules for one in module.imports]

    def _follow(self, module: Module) -> list[str]:
        """Return the files of the project that a module imports: from beside it, or from here."""
        files: list[str] = []
        for one in module.imports:
            root = next(
                (root for root in self._roots if _is_own(one.name, os.path.abspath(root))), None
            )
            if root is None:
                self.libraries.add(one.name.partition(".")[0])
                continue
            near = list(_find_files(one, root, os.path.dirname(module.path)))
            if not near and not one.optional and root == self._roots[0]:
                self.missing.append(one)
            files += near
        return files

    @cached_property
    def text(self) -> str:
        """The text of all modules."""
        return "\n".join(module.text for module in self.modules)

    @cached_property
    def variables(self) -> set[str]:
        """The names of variables of the environment in its texts, but those that it sets."""
        settings = {one.name for one in self.settings if one.certain}
        return {*re.findall(r"""["']([A-Z][A-Z_]+)["']""", self.text)} - settings


def read_table(name: str) -> list[str]:
    """Return the lines of a table beside this module."""
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as lines:
        return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


@cache
def _read_kinds() -> dict[str, dict[str, str]]:
    """Return the forms of each kind by the library's name that they begin with, empty for any."""
    heads: dict[str, dict[str, str]] = {}
    for line in read_table("calls.txt"):
        kind, _, form = line.partition(" ")
        forms = heads.setdefault(re.split(r"\W", form)[0], {})
        forms[kind] = f"{forms[kind]}|{form}" if kind in forms else form
    return heads


@cache
def classify(name: str) -> frozenset[str]:
    """Return the kinds of a call, by its full name."""
    heads = _read_kinds()
    rows = [*heads[""].items(), *heads.get(name.partition(".")[0], {}).items()]
    return frozenset(kind for kind, form in rows if re.fullmatch(form, name))


def _find_files(one: Import, root: str, folder: str) -> Iterator[str]:
    """Yield what an import finds in the project: files, or a folder that is a package as it is."""
    if one.name.startswith("."):
        levels = len(one.name) - len(one.name.lstrip("."))
        root = os.path.join(folder, *[os.pardir] * (levels - 1))
    base = os.path.normpath(os.path.join(root, *one.name.strip(".").split(".")))
    if os.path.isfile(f"{base}.py"):
        yield f"{base}.py"
    elif os.path.isdir(base):
        yield base  # which is there, and no file to read
        inside = (os.path.join(base, f"{name}.py") for name in ("__init__", *one.taken))
        yield from filter(os.path.isfile, inside)
    else:
        yield from glob.glob(f"{glob.escape(base)}.*")  # a compiled module


@cache
def _is_own(name: str, root: str) -> bool:
    """Whether a module is the project's: beside the program, as a file or a package."""
    base = os.path.join(root, first := name.partition(".")[0])
    whole = os.path.join(root, *name.split("."))  # in a folder of folders
    if not first or os.path.isfile(f"{base}.py") or glob.glob(f"{glob.escape(base)}/*.py"):
        return True
    return whole != base and (os.path.isfile(f"{whole}.py") or os.path.isdir(whole))


def main_test(node: ast.AST) -> object:
    """Return what an `if` compares with `__name__`; None if it does not."""
    test = node.test if isinstance(node, ast.If) else None
    if not isinstance(test, ast.Compare) or not isinstance(test.left, ast.Name):
        return None
    right = test.comparators[0]
    return right.value if test.left.id == "__name__" and isinstance(right, ast.Constant) else None
