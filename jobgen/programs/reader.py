"""A Python program and the modules of its own project, read by `ast`: what it calls and imports."""

from __future__ import annotations

import ast
import gc
import glob
import os
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from typing import Any

from jobgen.records import NamedTuple

MOST_BYTES = 1_000_000  # of one file
MOST_TEXT = 300_000  # characters of a project: about 8,000 lines; the rest is not read


class Scope(NamedTuple):
    """A function or a class. Python calls a function such as `__init__` for its class."""

    name: str
    part: Part  # where it stands
    free: bool  # whether others than the program's own lines may call it
    framed: bool  # whether it is a class whose methods a library may call
    is_class: bool


class Part(NamedTuple):
    """Statements for which the same holds."""

    module: Module
    body: Sequence[ast.AST]
    tests: tuple[ast.expr, ...] = ()  # of each `if` that decides about them, but that for __main__
    past: tuple[ast.expr, ...] = ()  # of those whose other way has left before
    tried: bool = False  # whether a `try` stands around them
    scope: Scope | None = None  # the function or class around them


class Fact(NamedTuple):
    """What a program does in one place: a call, or an import.

    A call has its full name, such as `torch.distributed.init_process_group`. What sets a variable
    of the environment is a call too: of `os.environ.NAME`, with the value. An import has the name
    of the module, with dots before a relative one.
    """

    module: Module
    line: int
    name: str
    node: Any
    part: Part

    @property
    def certain(self) -> bool:
        """Whether no `if` decides about it, but those that the job's arguments decide."""
        return all(map(self.module.decide, self.part.tests))

    @property
    def short(self) -> str:
        """The last part of its name."""
        return self.name.rpartition(".")[2]

    @property
    def given(self) -> dict[str | None, ast.expr]:
        """The arguments of a call by their names; None stands for what `**` hands on."""
        return {keyword.arg: keyword.value for keyword in self.node.keywords}

    @property
    def words(self) -> list[object]:
        """The arguments of a call without a name, of those that are constants."""
        return [node.value for node in self.node.args if isinstance(node, ast.Constant)]

    @property
    def text(self) -> str:
        """A call in words; what a name among its arguments stands for is in the name's place."""
        texts = self.module.texts
        if self.node not in texts:
            texts[self.node] = f"{self.name}({_spell(self.node, self.module.assigned)})"
        return texts[self.node]


# A name that stands for something else.
_NAMED = r"(?<![\w.'])[A-Za-z_][\w.]*(?![\w=.(\[])"
_MOST_WORDS = 2000  # characters of a call
# Paths that are put together of constants: a word that each has, its form, what stands for it.
_PATHS = (
    (" if True ", r"([^\s(=,]+) if True else [^\s),]+", r"\1"),
    (" if ", r"[^\s(=,]+ if (?:False|None) else ([^\s),]+)", r"\1"),
    ("{'", r"\{'([^'{}]*)'\}", r"\1"),
    ("f'", r"\bf('[^'{}]*')", r"\1"),
    ("path.join('", r"os\.path\.join\('([^']*)', '([^']*)'", r"os.path.join('\1/\2'"),
    ("path.join('", r"os\.path\.join\(('[^']*')\)", r"\1"),
    ("Path('", r"(?:pathlib\.)?Path\(('[^']*')\)", r"\1"),
    ("' / '", r"'([^']*)' / '([^']*)'", r"'\1/\2'"),
)


def _spell(call: ast.Call, assigned: Mapping[str, list[ast.expr]]) -> str:
    """Return the arguments of a call with values for names, and paths of constants as one."""
    text = ", ".join(map(ast.unparse, [*call.args, *call.keywords]))
    for _ in range(2):  # what a name stands for may be names, too
        for name in dict.fromkeys(re.findall(_NAMED, text)):
            if name in assigned:
                values = " or ".join(dict.fromkeys(map(ast.unparse, assigned[name][-3:])))
                form = rf"(?<![\w.]){re.escape(name)}(?![\w=.(\[])"
                text = values.join(re.split(form, text))[:_MOST_WORDS]
    for word, form, path in _PATHS * 2:
        if word in text:
            text = re.sub(form, path, text)
    return text


def _spell_name(node: ast.expr) -> str:
    """Return a dotted name as it is written."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_spell_name(node.value)}.{node.attr}"
    return ast.unparse(node)


_LEAVES = (ast.Return, ast.Continue, ast.Raise)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
# What holds no call: most nodes.
_PASSED = frozenset(
    {ast.Name, ast.Constant, ast.Load, ast.Store, ast.arg, ast.Pass, str, int, bool, type(None)}
)
# Decorators, and bases of a class, that call nothing of what they are given but its hooks.
_PLAIN = (
    r"(torch|functools|contextlib|typing|abc|dataclasses|enum|property|staticmethod|classmethod"
    r"|hydra\.main|click|object|Exception|ValueError|RuntimeError|cache|\w+\.setter)\b"
)


class Module:
    """One file of the program, by its path as the user would write it."""

    def __init__(self, path: str, *, started: bool = False) -> None:
        """Read the file, which is started or imported. Raises what `ReadProgram` does."""
        self.path, self._started = path, started
        with open(path, encoding="utf-8-sig", newline="") as file:
            self.text = file.read(MOST_BYTES)
        collects = gc.isenabled()
        gc.disable()  # as it looks through all nodes again and again, and finds nothing to free
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of escapes in the user's strings
                self.tree = ast.parse(self.text, path)
        finally:
            if collects:
                gc.enable()
        self.whole = Fact(self, 1, "", self.tree, Part(self, ()))
        self.calls: list[Fact] = []
        self.imports: list[Fact] = []
        self.bases: list[str] = []  # of classes
        self.assigned: dict[str, list[ast.expr]] = {}
        self.texts: dict[ast.Call, str] = {}  # of calls, as far as they were asked for
        self.names: dict[str, str] = {}  # the full names of short ones: dist, torch.distributed
        self.parts: list[Part] = []  # each behind the one that it stands in
        self.silent: set[int] = set()  # lines of imports, and of what only documents
        for node in self.tree.body:  # what stands below a `try` is read later than the calls
            for inner in getattr(node, "body", ()) if isinstance(node, ast.Try | ast.If) else ():
                if isinstance(inner, ast.Import | ast.ImportFrom):
                    self._name_imports(inner)
        waiting = [Part(self, self.tree.body)]
        for part in waiting:  # and those that are found in it
            waiting += self._read(part)
        self.calls.sort(key=lambda call: call.line)

    def _read(self, part: Part) -> Iterator[Part]:
        """Keep what is looked for in a part, and yield the parts in it."""
        self.parts.append(part)
        nodes: list[Any] = [*part.body]
        for at, node in enumerate(part.body, 1):
            if type(node) is ast.If and isinstance(node.body[-1], _LEAVES) and not node.orelse:
                past = (*part.past, ast.UnaryOp(ast.Not(), node.test))
                yield part._replace(body=part.body[at:], past=past)
                nodes = [*part.body[:at]]
                break
        for node in nodes:  # and for what is found in them, which comes behind
            kind = type(node)
            if kind in _PASSED:
                continue
            fields = node._fields
            if kind in _KEPT:
                self._keep(node, part)
            elif kind is ast.Expr and isinstance(node.value, ast.Constant):
                self.silent.update(range(node.lineno, node.end_lineno + 1))
            elif kind in _BLOCKS:
                yield from self._open(node, part)
                fields = _BLOCKS[kind]
            for name in fields:
                value: Any = getattr(node, name, None)
                while type(value) is ast.Attribute:
                    value = value.value
                if type(value) is list:
                    nodes += value
                elif type(value) not in _PASSED:
                    nodes.append(value)

    def _open(self, node: Any, part: Part) -> Iterator[Part]:
        """Yield the parts of a block, but for what only a module that is started does."""
        if isinstance(node, ast.If | ast.IfExp):
            main, otherwise = main_test(node), ast.UnaryOp(ast.Not(), node.test)
            ways: list[Any] = [node.body, node.orelse]
            body, orelse = (way if isinstance(way, list) else [way] for way in ways)
            if main == "__main__" and not self._started:
                self.silent.update(range(node.lineno, body[-1].end_lineno + 1))
            else:
                tests = part.tests if main else (*part.tests, node.test)
                yield part._replace(body=body, tests=tests)
            yield part._replace(body=orelse, tests=(*part.tests, otherwise))
        elif isinstance(node, ast.Try):
            handled = [one for handler in node.handlers for one in handler.body]
            body = [*node.body, *handled, *node.orelse, *node.finalbody]
            yield part._replace(body=body, tried=True)
        elif isinstance(node, _SCOPES):
            yield part._replace(body=node.body, scope=self._make_scope(node, part))
        else:
            yield part._replace(body=node.body)

    def _make_scope(self, node: Any, part: Part) -> Scope:
        outer, bases = part.scope, [self._name(base) for base in getattr(node, "bases", ())]
        self.bases += bases
        if outer and outer.is_class and re.match("__|forward$", node.name):
            return outer
        marks = [getattr(one, "func", one) for one in node.decorator_list]
        free = not all(re.match(_PLAIN, self._name(mark)) for mark in marks)
        framed = not all(re.match(_PLAIN, base) for base in bases)
        free = free or (outer is not None and outer.framed)
        return Scope(node.name, part, free, framed, isinstance(node, ast.ClassDef))

    def _keep(self, node: Any, part: Part) -> None:
        if isinstance(node, ast.Call):
            self._keep_call(self._name(node.func), node, part)
        elif isinstance(node, ast.Assign):
            self._keep_assigned(node, part)
        else:
            self.silent.update(range(node.lineno, node.end_lineno + 1))
            self._name_imports(node)
            whole = isinstance(node, ast.ImportFrom)
            names = ["." * node.level + (node.module or "")] if whole else []
            for name in names or [one.name for one in node.names]:
                self.imports.append(Fact(self, node.lineno, name, node, part))

    def _keep_call(self, name: str, node: ast.Call, part: Part) -> None:
        self.calls.append(Fact(self, node.lineno, name, node, part))
        for one in node.keywords if name == "os.environ.update" else ():
            self._keep_setting(str(one.arg), one.value, part)

    def _keep_setting(self, name: str, value: ast.expr, part: Part) -> None:
        call = ast.Call(ast.Name("os.environ"), [value], [], lineno=value.lineno)
        self._keep_call(f"os.environ.{name}", call, part)

    def _keep_assigned(self, node: ast.Assign, part: Part) -> None:
        pairs = [(target, node.value) for target in node.targets]
        for target, value in pairs:
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                pairs += zip(target.elts, value.elts, strict=False)
            elif isinstance(target, ast.Name | ast.Attribute):
                self.assigned.setdefault(_spell_name(target), []).append(value)
            elif isinstance(target, ast.Subscript) and self._name(target.value) == "os.environ":
                self._keep_setting(str(getattr(target.slice, "value", "")), value, part)

    def _name_imports(self, node: ast.Import | ast.ImportFrom) -> None:
        for one in node.names:
            head = one.name.partition(".")[0]
            if isinstance(node, ast.ImportFrom):
                self.names[one.asname or one.name] = f"{node.module or ''}.{one.name}"
            else:
                self.names[one.asname or head] = one.name if one.asname else head

    def _name(self, node: ast.expr) -> str:
        """Return the full dotted name of an expression; it begins with a dot if it is computed."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        parts.append(self.names.get(node.id, node.id) if isinstance(node, ast.Name) else "")
        return ".".join(reversed(parts))

    @cached_property
    def _lines(self) -> list[tuple[int, int, Part]]:
        """The first and last line of each part that is lines, the innermost first."""
        spans = []
        for part in reversed(self.parts):
            if part.body and isinstance(part.body[0], ast.stmt):
                end = getattr(part.body[-1], "end_lineno", 0)
                spans.append((part.body[0].lineno, end, part))
        return spans

    def find_part(self, line: int) -> Part:
        """Return the innermost statements around a line."""
        return next((part for one, end, part in self._lines if one <= line <= end), self.whole.part)

    def decide(self, node: ast.expr) -> object:
        """Return what a test comes to where constants decide it, and None where that is open."""
        node = self.resolve(node)
        if isinstance(node, ast.Constant):
            return bool(node.value)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            inner = self.decide(node.operand)
            return None if inner is None else not inner
        if isinstance(node, ast.BoolOp):
            parts, sought = [self.decide(one) for one in node.values], isinstance(node.op, ast.Or)
            return sought if sought in parts else None if None in parts else not sought
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            sides = [self.resolve(one) for one in (node.left, node.comparators[0])]
            if all(isinstance(one, ast.Constant) for one in sides):
                left, right = (getattr(one, "value", None) for one in sides)
                same = left is right if left is None or right is None else left == right
                if isinstance(node.ops[0], ast.Eq | ast.Is):
                    return same
                if isinstance(node.ops[0], ast.NotEq | ast.IsNot):
                    return not same
        return None

    def resolve(self, node: ast.expr) -> ast.expr:
        """Return the value of an option of the program, or of a constant; else the node itself."""
        name = _spell_name(node) if isinstance(node, ast.Name | ast.Attribute) else ""
        values = self.assigned.get(name, []) if "." in name or name.isupper() else []
        return values[0] if len(values) == 1 else node


# What is kept; and the blocks, with the fields that are read beside their bodies.
_KEPT = frozenset({ast.Call, ast.Assign, ast.Import, ast.ImportFrom})
_BLOCKS: dict[type, tuple[str, ...]] = {
    ast.If: ("test",),
    ast.IfExp: ("test",),
    ast.Try: (),
    ast.With: ("items",),
    ast.For: ("iter", "orelse"),
    ast.While: ("test", "orelse"),
    ast.FunctionDef: ("decorator_list", "args"),
    ast.AsyncFunctionDef: ("decorator_list", "args"),
    ast.ClassDef: ("decorator_list", "bases"),
}


class ReadProgram:
    """A program: the file that is started first, then the project's modules that it imports."""

    def __init__(self, path: str, *roots: str) -> None:
        """Read a program and what it imports from `roots`: from beside it, and from here.

        Raises OSError or UnicodeDecodeError if the file cannot be read, and SyntaxError if it does
        not parse; a module of the project that cannot be read is left out.
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
        beside_it, here = self._roots.get(os.path.dirname(path), set()), self._roots.get("", set())
        self.elsewhere = here - beside_it if self.is_script else set()  # modules it does not find
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
        self.text = "\n".join(module.text for module in self.modules)
        self.calls = [call for module in self.modules for call in module.calls]
        self._kinds: dict[str, list[Fact]] = {}
        for call in self.calls:
            for kind in classify(call.name):
                self._kinds.setdefault(kind, []).append(call)
        self._forget()

    def _forget(self) -> None:
        """Forget what follows from the values of the program's options."""
        self._found: dict[str, list[Fact]] = {}  # those of a kind that may be reached
        self._ways: dict[tuple[int, int], list[str]] = {}
        self._entered: dict[int, bool] = {}  # scopes, and whether something comes to them
        self._uses: dict[int, list[Part]] = {}

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

    def search(self, form: str, unless: str) -> Iterator[tuple[Fact, int, dict[str, Any]]]:
        """Yield file, line and groups of reached matches, in lines that have not `unless`."""
        for module in self.modules:
            for match in re.finditer(form, module.text):
                before, after = module.text[: match.start()], module.text[match.start() :]
                line, start = before.count("\n") + 1, before.rpartition("\n")[2]
                fits = "#" not in start and not re.search(unless, start + after.split("\n")[0])
                if fits and self.is_reached(module.find_part(line)):
                    yield module.whole, line, match.groupdict()

    def list_passed(self, kind: str) -> list[Fact]:
        """Return the calls of a kind that the job's arguments alone leave out."""
        calls = self._kinds.get(kind, [])
        return [call for call in calls if False in map(call.module.decide, call.part.tests)]

    def assign(self, values: Mapping[str, ast.expr]) -> None:
        """Take the values of the program's options, by the names in its source, for known."""
        self._forget()
        for module in self.modules:
            module.texts.clear()
            for name, value in values.items():
                module.assigned.setdefault(name, []).append(value)

    # --- what is reached ---

    def is_reached(self, part: Part) -> bool:
        """Whether something that the program runs comes to a part of it."""
        seen: dict[int, bool] = {}
        reached = self._is_reached(part, seen)
        self._entered |= {scope: way for scope, way in seen.items() if way or not reached}
        return reached

    def _is_reached(self, part: Part, seen: dict[int, bool]) -> bool:
        if any(part.module.decide(test) is False for test in (*part.tests, *part.past)):
            return False
        scope = part.scope
        if scope is None or id(scope) in self._entered or id(scope) in seen:
            return scope is None or self._entered.get(id(scope), seen.get(id(scope), False))
        seen[id(scope)] = False  # while it is asked for: what only calls itself is not reached
        seen[id(scope)] = self._is_reached(scope.part, seen) and (
            scope.free or any(self._is_reached(use, seen) for use in self.list_uses(scope))
        )
        return seen[id(scope)]

    def list_uses(self, scope: Scope | None) -> list[Part]:
        """Return the parts that name a function or a class, but to import or to define it."""
        if scope is None:
            return []
        if id(scope) not in self._uses:
            self._uses[id(scope)] = [*self._find_uses(scope)]
        return self._uses[id(scope)]

    def _find_uses(self, scope: Scope) -> Iterator[Part]:
        method = scope.part.scope is not None and scope.part.scope.is_class
        for module in self.modules:
            given = [name for name, full in module.names.items() if self._is_own(full, scope.name)]
            at_hand = module is scope.part.module or "*" in module.names
            for name in dict.fromkeys((*given, scope.name)):
                bare = not method and (name in given or at_hand)
                for line, owner in _find_word(module.text, name):
                    head = module.names.get(owner.partition(".")[0], "")
                    dotted = (method or head) and self._is_own(head, "")
                    if (dotted if owner else bare) and line not in module.silent:
                        yield module.find_part(line)

    def _is_own(self, full: str, name: str) -> bool:
        """Whether a full name ends so, and is not a library's."""
        library = full.partition(".")[0] in self.libraries
        return not library and full.endswith(f".{name}" if name else "")

    def list_ways(self, part: Part, depth: int = 3) -> list[str]:
        """Return the tests that hold on each way to a part, through the functions around it."""
        if (id(part), depth) not in self._ways:
            tests = [one for one in (*part.tests, *part.past) if not part.module.decide(one)]
            own = "".join(f"; {ast.unparse(test)}" for test in tests)
            uses = [use for use in self.list_uses(part.scope) if depth and self.is_reached(use)]
            ways = [f"{own}{way}" for use in uses for way in self.list_ways(use, depth - 1)]
            self._ways[id(part), depth] = list(dict.fromkeys(ways)) or [own]
        return self._ways[id(part), depth]

    # --- its project ---

    def _follow(self, module: Module) -> list[str]:
        """Return the files of the project that a module imports: from beside it, or from here."""
        files: list[str] = []
        for one in module.imports:
            dots = len(one.name) - len(one.name.lstrip("."))
            first, *rest = one.name.strip(".").split(".")
            roots = [root for root, names in self._roots.items() if _has(root, names, first, rest)]
            if dots:
                roots = [os.path.join(os.path.dirname(module.path), *[os.pardir] * (dots - 1))]
            if not roots:
                self.libraries.add(first)
                continue
            base = os.path.normpath(os.path.join(roots[0], first, *rest))
            names = [base] + [f"{base}/{name.name}" for name in one.node.names]
            ways = [f"{name}{end}" for name in names for end in (".py", "/__init__.py")]
            read = list(filter(os.path.isfile, ways))
            files += read
            if len(read) == 1 and read[0].startswith(f"{base}."):
                self._taken.append((one, read[0]))
            # A folder of modules, or a compiled module, is there and no file to read.
            there = read or os.path.isdir(base) or glob.glob(f"{glob.escape(base)}.*")
            if not there and not one.part.tried and (dots or first in self._own):
                self.missing.append(one)
        return files

    def list_lacking(self) -> Iterator[tuple[Fact, str, str]]:
        """Yield imports from a file of the project, with the file, and a name that it lacks."""
        texts = {os.path.realpath(module.path): module.text for module in self.modules}
        for one, file in self._taken:
            text = texts.get(os.path.realpath(file), "import *")
            if one.part.tried or re.search(r"import \*|__getattr__|globals\(|exec\(", text):
                continue
            names = [name.name for name in one.node.names]
            if isinstance(one.node, ast.Import) and one.module is not self.entry:
                continue
            if isinstance(one.node, ast.Import):  # unless the name stands for something else, too
                used = re.search(rf"(?<!import )\b{one.name}\b(?!\.)", one.module.text)
                calls = [] if used else [call.name.split(".") for call in one.module.calls]
                names = [call[1] for call in calls if call[0] == one.name and call[1:]]
            for name in names:
                if name != "*" and not re.search(rf"\b{name}\b", text):
                    yield one, file, name

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
    def uses(self) -> set[str]:
        """The full names of what makes a process group, if it calls or names it, and of bases."""
        taken = {call.name for call in self.find("makes")}
        for module in self.modules:
            taken.update(module.bases)
            for name, full in module.names.items():
                if "makes" in classify(full) and [*_find_word(module.text, name)][1:]:
                    taken.add(full)
        return taken


# What calls functions by names that need not stand in the program.
_OPEN = r"\binstantiate\(|import_module\(|__import__\(|globals\(\)|(?<![\w.])eval\(|fire\.Fire\("


def _find_word(text: str, word: str) -> Iterator[tuple[int, str]]:
    """Yield the lines in whose code a name stands, and what stands before its dot."""
    at = text.find(word)
    while at >= 0:
        start = text.rfind("\n", 0, at) + 1
        before, after = text[start:at], text[at + len(word) : at + len(word) + 2]
        alone = not re.match(r"\w", after) and not re.search(r"[\w\"']$", before)
        set_here = re.match(r" ?=[^=]", after) or re.search(r"\b(def|class)\s+$", before)
        if alone and not set_here and "#" not in before:
            owner = re.search(r"([\w.]*)[^\w\s]*\.$", before)
            yield text.count("\n", 0, at) + 1, (owner[1] or ".") if owner else ""
        at = text.find(word, at + 1)


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


def _has(root: str, own: set[str], first: str, rest: list[str]) -> bool:
    """Whether a module is in a folder, of which these are the own; or in a folder of folders."""
    base = os.path.join(root, first, *rest)
    return first in own or (bool(rest) and (os.path.isfile(f"{base}.py") or os.path.isdir(base)))


def main_test(node: ast.AST) -> object:
    """Return what an `if` compares with `__name__`; None if it does not."""
    test = node.test if isinstance(node, ast.If) else None
    if not isinstance(test, ast.Compare) or not isinstance(test.left, ast.Name):
        return None
    right = test.comparators[0]
    return right.value if test.left.id == "__name__" and isinstance(right, ast.Constant) else None
