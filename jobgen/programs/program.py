"""A whole program: its file, the modules of its project, what is called there and is reached."""

from __future__ import annotations

import ast
import glob
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from typing import Any

from jobgen.programs.reader import Fact, Module, Part, Scope

MOST_TEXT = 300_000  # characters of a project: about 8,000 lines; the rest is not read
# What calls functions by names that need not stand in the program.
_OPEN = r"\binstantiate\(|import_module\(|__import__\(|globals\(\)|(?<![\w.])eval\(|fire\.Fire\("

# What a module may define without its name in the text.
_DEFINES_MORE = r"import \*|__getattr__|globals\(|exec\("


class ReadProgram:
    """A program: the file that is started first, then the project's modules that it imports."""

    def __init__(self, path: str, *roots: str) -> None:
        """Read a program and what it imports from `roots`: from beside it, and from here.

        Raises what `Module` does; a module of the project that cannot be read is left out.
        """
        self.entry = Module(path, started=True)
        self.modules = [self.entry]
        self.missing: list[Fact] = []  # modules of the project that are not there
        self._taken: list[tuple[Fact, str]] = []  # imports, each with the file that it reads
        self.libraries: set[str] = set()  # the top-level names of the others
        beside = [os.path.dirname(path), *([] if os.path.isabs(path) else [""])]
        self._roots = {root: _list_own(root) for root in roots or beside}
        self._own = next(iter(self._roots.values()))
        self.is_script = not roots  # whether it is started by its file, and not as a module
        self.partial = self._read_project()  # whether more is imported than was read
        self.text = "\n".join(module.text for module in self.modules)
        self.calls = [call for module in self.modules for call in module.calls]
        self._kinds: dict[str, list[Fact]] = defaultdict(list)
        for call in self.calls:
            for kind in classify(call.name):
                self._kinds[kind].append(call)
        self._uses = {id(scope): [*self._find_uses(scope)] for scope in self._list_scopes()}
        self._forget()

    def _list_scopes(self) -> list[Scope]:
        return [scope for module in self.modules for scope in module.scopes]

    # --- its project ---

    def _read_project(self) -> bool:
        """Read the modules that it imports, and those that they do, as far as there is room."""
        room = MOST_TEXT - len(self.entry.text)
        waiting, seen = self._follow(self.entry), {os.path.realpath(self.entry.path)}
        while waiting and room > 0:
            path = waiting.pop(0)
            real = os.path.realpath(path)
            if real in seen:
                continue
            seen.add(real)
            try:
                module = Module(path)
            except (OSError, ValueError, SyntaxError):
                continue
            self.modules.append(module)
            room -= len(module.text)
            waiting += self._follow(module)
        return bool(waiting)

    def _follow(self, module: Module) -> list[str]:
        """Return the files of the project that a module imports."""
        files: list[str] = []
        for one in module.imports:
            base = self._find_base(one)
            if base is None:
                self.libraries.add(one.head)
                continue
            names = [base, *(f"{base}/{name.name}" for name in one.node.names)]
            ways = [f"{name}{end}" for name in names for end in (".py", "/__init__.py")]
            read = list(filter(os.path.isfile, ways))
            files += read
            if read == [f"{base}.py"]:
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
        for root, own in self._roots.items():
            base = os.path.normpath(os.path.join(root, *words))
            # It is in the folder, or in a folder of folders.
            inside = words[1:] and (os.path.isfile(f"{base}.py") or os.path.isdir(base))
            if words[0] in own or inside:
                return base
        return None

    def _is_missing(self, one: Fact, base: str) -> bool:
        """Whether the project has no such module, nor a folder of modules, nor a compiled one."""
        there = os.path.isdir(base) or glob.glob(f"{glob.escape(base)}.*")
        return not there and not one.part.tried and (one.name[0] == "." or one.head in self._own)

    def list_elsewhere(self) -> set[str]:
        """Return the modules in the current folder that a script does not find from its own."""
        here, *beside = (
            self._roots.get(root, set()) for root in ("", os.path.dirname(self.entry.path))
        )
        return here.difference(*beside) if self.is_script else set()

    def list_lacking(self) -> Iterator[tuple[Fact, str, str]]:
        """Yield imports from a file of the project, with the file, and a name that it lacks."""
        texts = {os.path.realpath(module.path): module.text for module in self.modules}
        for one, file in self._taken:
            text = texts.get(os.path.realpath(file), "import *")
            if not one.part.tried and not re.search(_DEFINES_MORE, text):
                names = [name.name for name in one.node.names]
                for name in names if isinstance(one.node, ast.ImportFrom) else []:
                    if name != "*" and not re.search(rf"\b{name}\b", text):
                        yield one, file, name

    # --- what it calls ---

    def find(self, kind: str) -> list[Fact]:
        """Return the calls of a kind of `calls.txt` that may be reached."""
        if kind not in self._found:
            calls = self._kinds.get(kind, [])
            self._found[kind] = [one for one in calls if self.is_reached(one.part)]
        return self._found[kind]

    def may_call(self, kind: str) -> bool:
        """Whether it calls one of a kind, where names that are not in its text may be called."""
        if self.find(kind) or not self._kinds.get(kind) or self.list_passed(kind):
            return bool(self.find(kind))
        return self.partial or re.search(_OPEN, self.text) is not None

    def list_passed(self, kind: str) -> list[Fact]:
        """Return the calls of a kind that the job's arguments alone leave out."""
        calls = self._kinds.get(kind, [])
        return [call for call in calls if False in map(call.module.decide, call.part.tests)]

    def search(self, form: str, unless: str) -> Iterator[tuple[Fact, int, dict[str, Any]]]:
        """Yield file, line and groups of reached matches, in lines that have not `unless`."""
        for module in self.modules:
            for match in re.finditer(form, module.text):
                before, after = module.text[: match.start()], module.text[match.start() :]
                line, start = before.count("\n") + 1, before.rpartition("\n")[2]
                fits = "#" not in start and not re.search(unless, start + after.split("\n")[0])
                if fits and self.is_reached(module.find_part(line)):
                    yield module.whole, line, match.groupdict()

    @cached_property
    def used(self) -> str:
        """The text without comments, and without what is imported or asked for and never used."""
        text = re.sub(r"(?m)^\s*#.*|\s# .*", "", self.text)
        once = {word for word, count in Counter(re.findall(r"\w+", text)).items() if count == 1}
        for line in re.finditer(r"(?m)^\s*(\w+) = (int\()?os\.(environ|getenv)\b.*", text):
            text = text.replace(line[0], "") if line[1] in once else text
        imports = [one for module in self.modules for one in module.imports]
        taken = {name.name for one in imports for name in one.node.names if not name.asname}
        unused = "|".join(once & taken)
        return re.sub(rf"\b({unused})\b", "", text) if unused else text

    @cached_property
    def named(self) -> set[str]:
        """The full names of what makes a process group, if it calls or names it, and of bases."""
        named = {call.name for call in self.find("makes")}
        for module in self.modules:
            named.update(module.bases)
            named |= {
                full
                for name, full in module.names.items()
                if name in module.uses and "makes" in classify(full)
            }
        return named

    # --- what is reached ---

    def assign(self, values: Mapping[str, ast.expr]) -> None:
        """Take the values of the program's options, by the names in its source, for known."""
        self._forget()
        for module in self.modules:
            module.texts.clear()
            for name, value in values.items():
                module.assigned.setdefault(name, []).append(value)

    def _forget(self) -> None:
        """Forget what follows from the values of the program's options."""
        self._found: dict[str, list[Fact]] = {}  # calls of a kind that may be reached
        self._open: dict[int, bool] = {}  # parts, and whether their tests may hold
        self._ways: dict[tuple[int, int], list[str]] = {}
        self.__dict__.pop("_entered", None)

    def is_reached(self, part: Part) -> bool:
        """Whether something that the program runs comes to a part of it."""
        return id(part.scope) in self._entered and self._is_open(part)

    def _is_open(self, part: Part) -> bool:
        """Whether the tests that decide about a part, within its function, may hold."""
        if id(part) not in self._open:
            tests = (*part.tests, *part.past)
            self._open[id(part)] = not any(part.module.decide(one) is False for one in tests)
        return self._open[id(part)]

    @cached_property
    def _entered(self) -> set[int]:
        """The functions and classes that something comes to; what is in none of them is, too."""
        scopes, entered, size = self._list_scopes(), {id(None)}, 0
        while size < len(entered):  # as each that is entered may name others
            size = len(entered)
            for scope in scopes:
                uses = self._uses[id(scope)]
                outside = id(scope.part.scope) in entered and self._is_open(scope.part)
                if outside and (
                    scope.free
                    or any(id(use.scope) in entered and self._is_open(use) for use in uses)
                ):
                    entered.add(id(scope))
        return entered

    def list_uses(self, scope: Scope | None) -> list[Part]:
        """Return the parts that name a function or a class, but to import or to define it."""
        return self._uses[id(scope)] if scope else []

    @cached_property
    def _aliases(self) -> dict[str, list[tuple[Module, str]]]:
        """The modules that import something of the project by a name, and their name for it."""
        aliases: dict[str, list[tuple[Module, str]]] = defaultdict(list)
        for module in self.modules:
            for name, full in module.names.items():
                if "." in full and not self._is_of_library(full):
                    aliases[full.rpartition(".")[2]].append((module, name))
        return aliases

    def _find_uses(self, scope: Scope) -> Iterator[Part]:
        outer = scope.part.scope
        method = outer is not None and outer.is_class
        yield from self._find_dotted(scope.name, method=method)
        if method:
            return
        at_hand = [one for one in self.modules if one is scope.part.module or "*" in one.names]
        named = [*self._aliases.get(scope.name, ()), *((one, scope.name) for one in at_hand)]
        for module, name in named:
            yield from (part for owner, part in module.uses.get(name, ()) if owner is None)

    def _find_dotted(self, name: str, *, method: bool) -> Iterator[Part]:
        """Yield where a name stands behind a dot: of a module, or of whatever has the method."""
        for module in self.modules:
            for owner, part in module.uses.get(name, ()):
                known = owner is not None and (method or owner in module.names)
                if known and not self._is_of_library(module.names.get(owner or "", "")):
                    yield part

    def _is_of_library(self, full: str) -> bool:
        return full.partition(".")[0] in self.libraries

    def list_ways(self, part: Part, depth: int = 3) -> list[str]:
        """Return the tests that hold on each way to a part, through the functions around it."""
        if (id(part), depth) not in self._ways:
            tests = [one for one in (*part.tests, *part.past) if not part.module.decide(one)]
            own = "".join(f"; {ast.unparse(test)}" for test in tests)
            uses = [use for use in self.list_uses(part.scope) if depth and self.is_reached(use)]
            ways = [f"{own}{way}" for use in uses for way in self.list_ways(use, depth - 1)]
            self._ways[id(part), depth] = list(dict.fromkeys(ways)) or [own]
        return self._ways[id(part), depth]


def read_table(name: str) -> list[str]:
    """Return the lines of a table beside this module."""
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as lines:
        return [line.rstrip() for line in lines if line.strip() and not line.startswith("#")]


@cache
def _read_kinds() -> dict[str, dict[str, str]]:
    """Return the forms of each kind by what a name begins with, or by its last part."""
    heads: dict[str, dict[str, str]] = {}
    for line in read_table("calls.txt"):
        kind, *forms = line.split()
        for form in forms:
            last = re.fullmatch(r"\.\w+", form)
            known = heads.setdefault(form if last else re.split(r"\W", form)[0], {})
            form = ".*" if last else form
            known[kind] = f"{known[kind]}|{form}" if kind in known else form
    return heads


@cache
def classify(name: str) -> frozenset[str]:
    """Return what a call does with processes and GPUs, by its full name and `calls.txt`."""
    heads = ("", name.partition(".")[0], f".{name.rpartition('.')[2]}")
    rows = [row for head in heads for row in _read_kinds().get(head, {}).items()]
    return frozenset(kind for kind, form in rows if re.fullmatch(form, name))


def _list_own(root: str) -> set[str]:
    """Return the names of the modules in a folder, and of the folders that have some."""
    files = [*glob.glob("*.py", root_dir=root or "."), *glob.glob("*/*.py", root_dir=root or ".")]
    return {file.partition("/")[0].removesuffix(".py") for file in files}
