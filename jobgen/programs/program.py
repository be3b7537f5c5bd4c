"""A whole program: its file, the modules of its project, what is called there and is reached."""

from __future__ import annotations

import ast
import glob
import itertools
import os
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache, cached_property

from jobgen.programs.kinds import classify, list_heads
from jobgen.programs.reader import (
    OBJECT,
    Fact,
    Module,
    Part,
    Scope,
    is_newer,
    mentions,
    read_form,
    spell_name,
)
from jobgen.spec import tables
from jobgen.spec.launchers import read_names

_NEAR = ("", "../", "*/", "*/*/")  # the folders that a program may have Python look in
MOST_TEXT = 300_000  # characters of a project: about 8,000 lines; the rest is not read


class ReadProgram:
    """A program: the file that is started first, then the project's modules that it imports."""

    def __init__(self, path: str, *roots: str) -> None:
        """Read a program and what it imports from `roots`: from beside it, and from here; and src.

        Raises what `Module` does; a module of the project that cannot be read is left out.
        """
        self.entry = Module(path, started=True)
        self._files = {os.path.realpath(path): self.entry}
        self._load = cache(Module)  # as a file beside the program is asked for twice
        self.is_script = not roots  # whether it is started by its file, and not as a module
        self.missing: list[Fact] = []  # modules of the project that are not there
        self.broken: list[Fact] = []  # of those that do not parse
        self.loaded = {id(self.entry)}  # the modules that are read whatever is not known yet
        self._taken: list[tuple[Fact, str]] = []  # those of names from one file
        self.libraries: set[str] = set()  # the top-level names of the others
        beside = [os.path.dirname(path)] if os.path.isabs(path) else [os.path.dirname(path), ""]
        tells = ("../setup.py", "../pyproject.toml", "__init__.py")  # it is installed, or a package
        above = [".."] if any(map(os.path.isfile, tells)) else []
        self._roots = (*(roots or dict.fromkeys(beside)), "src", *above, *self._list_added())
        self.partial = False  # whether some of it is not read
        self._read_project()
        self.modules = [*self._files.values()]
        self.text = "\n".join(module.text for module in self.modules)
        self.calls = [*itertools.chain(*(module.calls for module in self.modules))]
        self._kinds: dict[str, list[Fact]] = defaultdict(list)
        for call in self.calls:
            for kind in classify(call.name):
                self._kinds[kind].append(call)
        self._stems: dict[str, list[Module]] = defaultdict(list)  # by what they are imported as
        for module in self.modules:
            stem = module.path.removesuffix("/__init__.py").removesuffix(".py")
            self._stems[os.path.basename(stem)].append(module)
        self._kinds.update(self._sort_imports())
        self.scopes = [*itertools.chain(*(module.scopes for module in self.modules))]
        self._uses = {id(scope): [*self._find_uses(scope)] for scope in self.scopes}
        self._forget()

    def _list_added(self) -> Iterator[str]:
        """Yield folders near the program that it, or a file beside it, adds to Python's path."""
        folder = os.path.dirname(self.entry.path) or "."
        yield from _list_near(folder, self.entry.text)
        for one in self.entry.imports:
            with suppress(OSError, SyntaxError, ValueError):
                beside = self._load(os.path.normpath(f"{folder}/{one.name}.py"))
                yield from _list_near(folder, beside.text)

    def _read_project(self) -> None:
        """Read what it imports, and what that does, while there is room."""
        room, waiting = MOST_TEXT - len(self.entry.text), self._follow(self.entry)
        while waiting and room > 0:
            waiting.sort(key=lambda way: not self._is_sure(way[0]))
            one, path = waiting.pop(0)
            real = os.path.realpath(path)
            if real in self._files:
                continue
            try:
                self._files[real] = module = self._load(path)
            except SyntaxError as error:
                self.partial = True
                about = {"path": path, "file": f"{path}:{error.lineno}", "fault": error.msg}
                self.broken += [] if is_newer(error) else [one._replace(about=about)]
            except (OSError, ValueError):
                pass
            else:
                room -= len(module.text)
                self.loaded.update([id(module)] if self._is_sure(one) else [])
                waiting += self._follow(module)
        unread = {os.path.realpath(path) for _, path in waiting} - self._files.keys()
        self.partial = self.partial or bool(unread)

    def _follow(self, module: Module) -> list[tuple[Fact, str]]:
        """Return the imports of a module that name files of the project, with each file."""
        files: list[tuple[Fact, str]] = []
        for one in (one for one in module.imports if not one.part.denied):
            base = self._find_base(one)
            if base is None:
                self.libraries.add(one.head)
                continue
            names = [base, *(f"{base}/{name.name}" for name in one.node.names)]
            ways = [f"{name}{end}" for name in names for end in (".py", "/__init__.py")]
            read = list(filter(os.path.isfile, ways))
            files += [(one, path) for path in read]
            if read == [f"{base}.py"] and isinstance(one.node, ast.ImportFrom):
                self._taken.append((one, read[0]))
            if not read and self._is_missing(one, base):
                self.missing.append(one)
        return files

    def _find_base(self, one: Fact) -> str | None:
        """Return the path of a module of the project without its suffix; None for a library's."""
        dots = len(one.name) - len(one.name.lstrip("."))
        words = one.name.strip(".").split(".")
        if dots:
            root = os.path.join(os.path.dirname(one.module.path), *[os.pardir] * (dots - 1))
            return os.path.normpath(os.path.join(root, *words))
        for place, root in enumerate(self._roots):
            base = os.path.normpath(os.path.join(root, *words))
            if place and self.is_script and words[0] in list_plain():
                continue  # Python does not look there, and has it as a library
            # It is in the folder, or in a folder of folders.
            inside = words[1:] and (os.path.isfile(f"{base}.py") or os.path.isdir(base))
            if _has_own(root, words[0]) or inside:
                return base
        return None

    def _is_missing(self, one: Fact, base: str) -> bool:
        """Whether the project has no such module, nor a folder of modules, nor a compiled one."""
        own = not one.head or _has_own(self._roots[0], one.head)  # where Python looks first
        there = os.path.isdir(base) or any(glob.iglob(f"{glob.escape(base)}.*"))
        if any(mentions(file.text, "adds-path") for file in (self.entry, one.module)):
            path = one.name.strip(".").replace(".", "/")
            own, near = True, (f"{root}{path}{end}" for root in _NEAR for end in ("", ".*"))
            there = there or any(map(glob.glob, near))
        return own and not (there or self._is_lazy(one))

    def _is_lazy(self, one: Fact) -> bool:
        """Whether an import may fail, or waits for a call of a function of its module."""
        return one.part.tried or bool(one.part.scope and one.module is not self.entry)

    def _is_sure(self, one: Fact) -> bool:
        """Whether an import is done in any case, at once or by a function of the first file."""
        return id(one.module) in self.loaded and one.part.certain and not self._is_lazy(one)

    @cached_property
    def handed(self) -> set[str]:
        """The names of what libraries are given by their calls."""
        foreign = [call.node.args for call in self.calls if call.head in self.libraries]
        return set(map(spell_name, itertools.chain(*foreign)))

    def _sort_imports(self) -> Iterator[tuple[str, list[Fact]]]:
        """Yield imports by what is wrong with them, as `calls.txt` has kinds of calls."""
        taken = [one for one in self.entry.imports if not (one.part.tried or one.part.scope)]
        yield "broken", self.broken
        yield "lacking", [*self._list_lacking()]
        yield "missing", self.missing
        yield "relative", [one for one in taken if one.name[0] == "."][:1]
        first = itertools.chain([self.entry], *(self._stems.get(one.name, ()) for one in taken))
        kept = not any(mentions(module.text, "adds-path") for module in first)
        yield "elsewhere", [one for one in taken if self._is_elsewhere(one.head) and kept]

    def _is_elsewhere(self, name: str) -> bool:
        """Whether a module is in the current folder, where Python does not look for it."""
        if "" not in self._roots or name in list_plain() | list_heads():
            return False  # as a folder of data may have the name of a library
        beside = os.path.dirname(self.entry.path)
        return _has_own("", name) and not (beside in self._roots and _has_own(beside, name))

    def _list_lacking(self) -> Iterator[Fact]:
        """Yield imports from a file of the project that lacks one of the names."""
        for one, file in self._taken:
            taken = sorted({name.name for name in one.node.names} - {"*"})
            if names := [name for name in taken if self._is_lacking(file, name)]:
                yield one._replace(about={"file": file, "name": ", ".join(names)})

    def _is_lacking(self, file: str, name: str) -> bool:
        """Whether a file of the project has a name nowhere but in comments."""
        module = self._files.get(os.path.realpath(file))
        if not module or mentions(module.text, "defines-more"):
            return False
        return not re.search(rf"(?m)^[^#\n]*\b{name}\b", module.text)

    def find(self, kinds: str) -> list[Fact]:
        """Return the calls of kinds of `calls.txt` that may be reached."""
        calls = itertools.chain(*(self._kinds.get(kind, ()) for kind in kinds.split()))
        return [one for one in calls if self.is_reached(one.part)]

    def find_denied(self, kind: str) -> tuple[str, str]:
        """Return the test that keeps it from a call of a kind, and what in it fails, or ""."""
        own = [call.part for call in self._kinds.get(kind, [])]
        for part in (*own, *(use for one in own for use in self.list_uses(one.scope))):
            if (test := part.denied) and "__name__" not in ast.unparse(test):
                whole = part.module.resolve(test)
                test = test if isinstance(whole, ast.Constant) else whole
                return ast.unparse(test), ast.unparse(part.module.narrow(test))
        return "", ""

    def suppose(self, values: Mapping[str, ast.expr]) -> None:
        """Take fields with these last names to have these values, and no others any more."""
        for module in self.modules:
            module.supposed = values
        self._forget()

    def may_call(self, kind: str) -> bool:
        """Whether it calls one of a kind, where names that are not in its text may be called."""
        calls = self._kinds.get(kind, [])
        parts = [part for one in calls for part in (one.part, *self.list_uses(one.part.scope))]
        if self.find(kind) or not calls or not all(map(self._is_open, parts)):
            return bool(self.find(kind))
        names = [getattr(one.part.scope, "name", "") for one in calls]
        named = all(map(read_form("of-group").search, names))  # so the text has them, where called
        return self.partial or (not named and bool(read_form("calls-by-name").search(self.text)))

    def search(self, form: str, unless: str) -> Iterator[Fact]:
        """Yield the reached matches with their groups, in lines that have not `unless`."""
        for module in self.modules:
            for match in re.finditer(form, module.text):
                line = module.text.count("\n", 0, match.start()) + 1
                first = module.text.rfind("\n", 0, match.start()) + 1
                whole = module.text[first:].partition("\n")[0]
                if "#" in whole[: match.start() - first] or re.search(unless, whole):
                    continue
                part = module.find_part(line)
                if self.is_reached(part):
                    yield module.whole._replace(line=line, part=part, about=match.groupdict())

    @cached_property
    def used(self) -> str:
        """The text without comments."""
        text = re.sub(r"\n[ \t]*#.*", "\n", f"\n{self.text}")
        return re.sub(" # .*", "", text)

    @cached_property
    def named(self) -> set[str]:
        """The full names of what it calls, of what it imports and names, and of bases."""
        named = {call.name for call in self.calls if self.is_reached(call.part)}
        for module in self.modules:
            for full in {*module.names.values()}:
                owner, _, name = full.rpartition(".")
                parts = [part for one, part in module.uses.get(name, ()) if (one or "") == owner]
                if any(map(self.is_reached, parts)):
                    named.add(full)
            named.update(module.bases)
        return named

    def assign(self, values: Mapping[str, ast.expr]) -> None:
        """Take the values of the program's options, by the names in its source, for known."""
        self._forget()
        for name, value in values.items():
            # What one module assigns to an option, it has in the others, too.
            given = [*itertools.chain(*(one.assigned.get(name, ()) for one in self.modules)), value]
            for module in self.modules:
                module.texts.clear()
                module.assigned[name] = given

    def _forget(self) -> None:
        """Forget what follows from the values of the program's options."""
        self._open: dict[int, bool] = {}  # parts, and whether their tests may hold
        self._ways: dict[tuple[int, int], list[str]] = {}
        for name in ("_entered", "named"):
            self.__dict__.pop(name, None)

    def is_reached(self, part: Part) -> bool:
        """Whether something that the program runs comes to a part of it."""
        return id(part.scope) in self._entered and self._is_open(part)

    def _is_open(self, part: Part) -> bool:
        """Whether the tests that decide about a part, within its function, may hold."""
        if id(part) not in self._open:
            self._open[id(part)] = part.denied is None
        return self._open[id(part)]

    @cached_property
    def _entered(self) -> set[int]:
        """The functions and classes that something comes to; what is in none of them is, too."""
        entered, size = {id(None)}, 0
        while size < len(entered):  # as each that is entered may name others
            size = len(entered)
            for scope in self.scopes:
                uses = [scope.part, *self._uses[id(scope)]]
                held, *open_ = [id(one.scope) in entered and self._is_open(one) for one in uses]
                if held and (scope.free or any(open_)):
                    entered.add(id(scope))
        return entered

    def list_uses(self, scope: Scope | None) -> list[Part]:
        """Return the parts that name a function or a class, but to import or to define it."""
        return self._uses[id(scope)] if scope else []

    def _find_uses(self, scope: Scope) -> Iterator[Part]:
        """Yield the parts outside of it that name a function or a class."""
        method = scope.part.scope is not None and scope.part.scope.is_class
        for module in self.modules:
            at_hand = module is scope.part.module or "*" in module.names
            owners = {None: at_hand and not method, OBJECT: method}
            for owner, part in module.uses.get(scope.name, ()):
                if part.scope is not scope and owners.get(owner, self._may_have(str(owner), scope)):
                    yield part

    def _may_have(self, owner: str, scope: Scope) -> bool:
        """Whether what a name is taken from may have a function or class, or hand it on."""
        if owner.partition(".")[0] in self.libraries:
            return False
        own = scope.part.module
        owners = self._stems.get(owner.rpartition(".")[2], [own])
        return any(one is own or {"*", scope.name} & one.names.keys() for one in owners)

    def list_tests(self, part: Part) -> list[str]:
        """Return the tests that decide about a part within its function, where that is open."""
        return [ast.unparse(one) for one in part.tests if not part.module.decide(one)]

    def list_ways(self, part: Part, depth: int = 3) -> list[str]:
        """Return the tests that hold on each way to a part, through the functions around it."""
        if (id(part), depth) not in self._ways:
            tests = self.list_tests(part._replace(tests=(*part.tests, *part.past)))
            own = "".join(f"; {test}" for test in tests)
            uses = [use for use in self.list_uses(part.scope) if depth and self.is_reached(use)]
            ways = [f"{own}{way}" for use in uses for way in self.list_ways(use, depth - 1)]
            self._ways[id(part), depth] = list(dict.fromkeys(ways)) or [own]
        return self._ways[id(part), depth]


@cache
def list_plain() -> frozenset[str]:
    """Return the libraries that start no processes, and those of Python."""
    return sys.stdlib_module_names.union(tables.read_lines("plain_libraries.txt", room="programs"))


def _list_near(folder: str, text: str) -> Iterator[str]:
    """Yield the folders, in one or beside it, that lines of a text name if it adds to the path."""
    lines = "".join(re.findall(r".*path.*", text)) if mentions(text, "adds-path") else ""
    names = re.findall(r"['\"]([\w./-]+)['\"]", lines)
    for place in itertools.product((folder, f"{folder}/.."), names):
        yield from filter(os.path.isdir, [os.path.normpath("/".join(place))])


def _has_own(root: str, name: str) -> bool:
    """Whether a folder has a module of this name, or a folder of modules.

    Only this name is looked up: a folder beside the program may hold a million images.
    """
    path = os.path.join(root, name)
    return os.path.isfile(f"{path}.py") or any(glob.iglob("*.py", root_dir=path))


def list_started(words: list[str]) -> list[str]:
    """Return the program of a command and its words, without what only starts it."""
    prefixes, shells = read_names("prefixes"), r"(.*/)?(python[\d.]*|(ba|z)?sh)"
    before = itertools.dropwhile(lambda one: os.path.basename(one) in prefixes, words[:-1])
    started = [*before, *words[-1:]]
    if not re.fullmatch(shells, "".join(started[:1])):
        return started
    return [*itertools.dropwhile(lambda one: re.match("-(?!m$)", one), started[1:])]
