"""A Python program and the modules of its own project, read by `ast`: calls, settings, imports."""

from __future__ import annotations

import ast
import glob
import os
import re
import warnings
from collections.abc import Iterator
from functools import cache

from jobgen.records import NamedTuple

MOST_BYTES = 1_000_000  # of one file
MOST_TEXT = 150_000  # characters of a project: about 4,000 lines; the rest is not read


class Call(NamedTuple):
    """A call by its full name, such as `torch.distributed.init_process_group`."""

    name: str
    node: ast.Call
    tests: tuple[ast.expr, ...]  # of each `if` that decides about it, but the one for `__main__`

    @property
    def conditional(self) -> bool:
        """Whether an `if` decides about it."""
        return bool(self.tests)

    @property
    def line(self) -> int:
        """The line it begins on, from 1."""
        return self.node.lineno


class Setting(NamedTuple):
    """A value that the program gives to a variable of its environment."""

    name: str
    value: ast.expr
    line: int
    conditional: bool
    default: bool  # by `setdefault`, which respects what the launcher has set

    @property
    def literal(self) -> str | None:
        """The text that the source has for it; None if it is computed."""
        value = self.value
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.args:
            value = value.args[0]  # str(29500)
        if isinstance(value, ast.Constant) and isinstance(value.value, str | int):
            return str(value.value)
        return None


class Import(NamedTuple):
    """A module that a file imports, by its full name; relative ones begin with dots."""

    module: str
    names: tuple[str, ...]  # what it takes from there
    line: int
    optional: bool  # whether a `try` stands around it


class Module(NamedTuple):
    """One file of the program, by its path as the user would write it."""

    path: str
    text: str
    tree: ast.Module
    calls: tuple[Call, ...]
    settings: tuple[Setting, ...]
    variables: frozenset[str]  # of the environment, whose names it has
    imports: tuple[Import, ...]


class ReadProgram(NamedTuple):
    """A program: the file that is started first, then the project's modules that it imports."""

    modules: tuple[Module, ...]
    missing: tuple[tuple[str, Import], ...]  # modules of the project that are not there, and where
    partial: bool = False  # whether more is imported than was read

    @property
    def entry(self) -> Module:
        """The file that is started."""
        return self.modules[0]

    @property
    def calls(self) -> Iterator[tuple[Module, Call]]:
        """All calls, with the modules they stand in."""
        return ((module, call) for module in self.modules for call in module.calls)

    @property
    def libraries(self) -> set[str]:
        """The top-level names that are imported, the project's own apart."""
        return {one.module.partition(".")[0] for module in self.modules for one in module.imports}


def read_module(path: str, text: str) -> Module:
    """Read one file. Raises SyntaxError if Python would not start it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of escapes in the user's strings
        tree = ast.parse(text, path)
    places = list(_walk(tree))
    imports = list(_list_imports(places))
    names = _name_imports(places)
    calls = [
        Call(_find_name(place.node.func, names), place.node, place.tests)
        for place in places
        if isinstance(place.node, ast.Call)
    ]
    settings = [*_list_assigned(places, names), *_list_set(calls)]
    variables = frozenset(re.findall(r"""["']([A-Z][A-Z_]+)["']""", text))
    return Module(path, text, tree, tuple(calls), tuple(settings), variables, tuple(imports))


def read_program(path: str) -> ReadProgram:
    """Read a program and what it imports from beside it.

    Raises OSError or UnicodeDecodeError if the file cannot be read, and SyntaxError if it does not
    parse; a module of the project that cannot be read is left out.
    """
    with open(path, encoding="utf-8-sig") as file:
        entry = read_module(path, file.read(MOST_BYTES))
    root = os.path.dirname(path)
    modules: list[Module] = []
    missing: list[tuple[str, Import]] = []
    waiting, seen, room = [path], {os.path.realpath(path)}, MOST_TEXT
    while waiting and room > 0:
        module = entry if not modules else _read_quietly(waiting[0])
        del waiting[0]
        if module is None:
            continue
        room -= len(module.text)
        own = [one for one in module.imports if _is_own(one.module, root)]
        modules.append(module._replace(imports=tuple(set(module.imports) - set(own))))
        for one in own:
            files = list(_find_files(one, root, os.path.dirname(module.path)))
            if not files and not one.optional:
                missing.append((module.path, one))
            for near in files:
                if (real := os.path.realpath(near)) not in seen:
                    seen.add(real)
                    waiting.append(near)
    return ReadProgram(tuple(modules), tuple(missing), bool(waiting))


def _read_quietly(path: str) -> Module | None:
    try:
        with open(path, encoding="utf-8-sig") as file:
            return read_module(path, file.read(MOST_BYTES))
    except (OSError, ValueError, SyntaxError):
        return None


def _find_files(one: Import, root: str, folder: str) -> Iterator[str]:
    """Yield what an import finds in the project: files, or a folder that is a package as it is."""
    name = one.module
    if name.startswith("."):
        levels = len(name) - len(name.lstrip("."))
        root = os.path.join(folder, *[os.pardir] * (levels - 1))
    base = os.path.normpath(os.path.join(root, *name.strip(".").split(".")))
    if os.path.isfile(f"{base}.py"):
        yield f"{base}.py"
    elif os.path.isdir(base):
        yield base
        for inside in ("__init__", *one.names):
            if os.path.isfile(path := os.path.join(base, f"{inside}.py")):
                yield path
    else:
        yield from glob.glob(f"{glob.escape(base)}.*")  # a compiled module


@cache
def _is_own(name: str, root: str) -> bool:
    """Whether a module is the project's: beside the program, as a file or a package."""
    if "." in name:
        return _is_own(name.partition(".")[0], root)
    base = os.path.join(root, name)
    return not name or os.path.isfile(f"{base}.py") or bool(glob.glob(f"{glob.escape(base)}/*.py"))


class _Place(NamedTuple):
    """A statement or expression, and what stands around it."""

    node: ast.AST
    tests: tuple[ast.expr, ...]
    tried: bool


# Most nodes are one of these, and none of them holds what is looked for.
_LEAVES = frozenset(
    {ast.Name, ast.Constant, ast.Load, ast.Store, ast.arg, ast.alias, ast.arguments}
)
_KINDS = frozenset({ast.Call, ast.Import, ast.ImportFrom, ast.Assign})


def _walk(tree: ast.Module) -> Iterator[_Place]:
    """Yield calls, imports and assignments, in the order of the text."""
    stack: list[tuple[ast.AST, tuple[ast.expr, ...], bool]] = [(tree, (), False)]
    while stack:
        node, tests, tried = stack.pop()
        kind = type(node)
        if kind in _KINDS:
            yield _Place(node, tests, tried)
        elif isinstance(node, ast.If) and not _is_main_test(node.test):
            tests = (*tests, node.test)
        tried = tried or kind is ast.Try
        children: list[tuple[ast.AST, tuple[ast.expr, ...], bool]] = []
        for field in node._fields:
            value = getattr(node, field, None)
            for child in value if isinstance(value, list) else (value,):
                if isinstance(child, ast.AST) and type(child) not in _LEAVES:
                    children.append((child, tests, tried))
        stack += reversed(children)


def _list_imports(places: list[_Place]) -> Iterator[Import]:
    for node, _, tried in places:
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, (), node.lineno, tried) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names = tuple(alias.name for alias in node.names)
            yield Import("." * node.level + (node.module or ""), names, node.lineno, tried)


def _name_imports(places: list[_Place]) -> dict[str, str]:
    """Return the full names behind a module's short ones: `dist` is `torch.distributed`."""
    full: dict[str, str] = {}
    for node, _, _ in places:
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.partition(".")[0]
                full[alias.asname or first] = alias.name if alias.asname else first
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                full[alias.asname or alias.name] = f"{node.module or ''}.{alias.name}"
    return full


def _find_name(node: ast.expr, names: dict[str, str]) -> str:
    """Return the full dotted name of an expression; it begins with a dot if it is computed."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    parts.append(names.get(node.id, node.id) if isinstance(node, ast.Name) else "")
    return ".".join(reversed(parts))


def _list_assigned(places: list[_Place], names: dict[str, str]) -> Iterator[Setting]:
    """Yield `os.environ["NAME"] = value`."""
    for node, tests, _ in places:
        for target in node.targets if isinstance(node, ast.Assign) else ():
            if not isinstance(target, ast.Subscript) or not isinstance(node, ast.Assign):
                continue
            if _find_name(target.value, names) == "os.environ":
                yield from _make_setting(target.slice, node.value, bool(tests))


def _list_set(calls: list[Call]) -> Iterator[Setting]:
    """Yield what `os.environ.setdefault` and `update` set."""
    for call in calls:
        name, node, conditional = call.name, call.node, call.conditional
        if name == "os.environ.setdefault" and len(node.args) == 2:
            key, value = node.args
            yield from (
                one._replace(default=True) for one in _make_setting(key, value, conditional)
            )
        elif name == "os.environ.update":
            for keyword in node.keywords:
                yield from _make_setting(ast.Constant(keyword.arg), keyword.value, conditional)
            for argument in node.args:
                if isinstance(argument, ast.Dict):
                    for one, value in zip(argument.keys, argument.values, strict=True):
                        yield from _make_setting(one, value, conditional)


def _make_setting(key: ast.expr | None, value: ast.expr, conditional: bool) -> Iterator[Setting]:
    if isinstance(key, ast.Constant) and isinstance(key.value, str):
        yield Setting(key.value, value, value.lineno, conditional, default=False)


def _is_main_test(test: ast.expr) -> bool:
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.left, ast.Name)
        and test.left.id == "__name__"
    )
