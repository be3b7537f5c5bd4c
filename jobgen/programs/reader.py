"""A Python program and the modules of its own project, read by `ast`: what it calls and imports."""

from __future__ import annotations

import ast
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
MOST_TEXT = 150_000  # characters of a project: about 4,000 lines; the rest is not read


class Part(NamedTuple):
    """Statements for which the same holds."""

    body: Sequence[ast.AST]
    tests: tuple[ast.expr, ...] = ()  # of each `if` that decides about them, but that for __main__
    past: tuple[ast.expr, ...] = ()  # of those whose other way has left before
    tried: bool = False  # whether a `try` stands around them
    inside: str = ""  # the function around them, or the class if Python calls the function


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
        return all(self.module.decide(test) for test in self.part.tests)

    @property
    def reached(self) -> bool:
        """Whether no test around it is false by the job's arguments."""
        tests = (*self.part.tests, *self.part.past)
        return not any(self.module.decide(test) is False for test in tests)

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


# What holds no call and no import: most nodes.
_PASSED = frozenset(
    {ast.Name, ast.Constant, ast.Load, ast.Store, ast.arg, ast.alias, ast.arguments}
    | {str, int, float, bool, type(None)}
)

_KEPT = frozenset({ast.Call, ast.Assign, ast.Import, ast.ImportFrom})
_LOOPS = (ast.For, ast.While, ast.With)
_BLOCKS = frozenset({ast.If, ast.IfExp, ast.Try, ast.FunctionDef, ast.ClassDef, *_LOOPS})
_LEAVES = (ast.Return, ast.Continue, ast.Raise)


class Module:
    """One file of the program, by its path as the user would write it."""

    def __init__(self, path: str, *, started: bool = False) -> None:
        """Read the file, which is started or imported. Raises what `ReadProgram` does."""
        self.path, self._started = path, started
        with open(path, encoding="utf-8-sig", newline="") as file:
            self.text = file.read(MOST_BYTES)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes in the user's strings
            self.tree = ast.parse(self.text, path)
        self.whole = Fact(self, 1, "", self.tree, Part(()))
        self.calls: list[Fact] = []
        self.imports: list[Fact] = []
        self.assigned: dict[str, list[ast.expr]] = {}
        self.texts: dict[ast.Call, str] = {}  # of calls, as far as they were asked for
        self._names: dict[str, str] = {}  # the full names of short ones: dist, torch.distributed
        for node in self.tree.body:  # what stands below a `try` is read later than the calls
            for inner in getattr(node, "body", ()) if type(node) in (ast.Try, ast.If) else ():
                if isinstance(inner, ast.Import | ast.ImportFrom):
                    self._name_imports(inner)
        parts = [Part(self.tree.body)]
        for part in parts:  # and those that are found in it
            parts += self._read(part)
        self.calls.sort(key=lambda call: call.line)

    def _read(self, part: Part) -> Iterator[Part]:
        """Keep what is looked for in a part, and yield the parts in it."""
        nodes = [*part.body]
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
            if kind in _BLOCKS:
                yield from self._open(node, part)
                continue
            if kind in _KEPT:
                self._keep(node, part)
            for name in node._fields:
                value: Any = getattr(node, name, None)
                while type(value) is ast.Attribute:
                    value = value.value
                if type(value) is list:
                    nodes += value
                elif type(value) not in _PASSED:
                    nodes.append(value)

    def _open(self, node: Any, part: Part) -> Iterator[Part]:
        """Yield the parts of a block, but for what only a module that is started does."""
        if isinstance(node, ast.If):
            main, otherwise = main_test(node), ast.UnaryOp(ast.Not(), node.test)
            if main != "__main__" or self._started:
                tests = part.tests if main else (*part.tests, node.test)
                yield part._replace(body=node.body, tests=tests)
            yield part._replace(body=node.orelse, tests=(*part.tests, otherwise))
            yield part._replace(body=[node.test])
        elif isinstance(node, ast.IfExp):
            otherwise = ast.UnaryOp(ast.Not(), node.test)
            yield part._replace(body=[node.body], tests=(*part.tests, node.test))
            yield part._replace(body=[node.orelse], tests=(*part.tests, otherwise))
            yield part._replace(body=[node.test])
        elif isinstance(node, _LOOPS):
            heads = [getattr(node, name, None) for name in ("target", "iter", "test")]
            heads += getattr(node, "items", [])
            yield part._replace(body=[*filter(None, heads), *getattr(node, "orelse", [])])
            yield part._replace(body=node.body)
        elif isinstance(node, ast.Try):
            handled = [one for handler in node.handlers for one in handler.body]
            body = [*node.body, *handled, *node.orelse, *node.finalbody]
            yield part._replace(body=body, tried=True)
        else:
            hook = part.inside and re.match("__|forward$", node.name)
            inside = part.inside if hook else node.name
            yield part._replace(body=[*node.decorator_list, *node.body], inside=inside)

    def _keep(self, node: Any, part: Part) -> None:
        if isinstance(node, ast.Call):
            self._keep_call(self._name(node.func), node, part)
        elif isinstance(node, ast.Assign):
            self._keep_assigned(node, part)
        else:
            self._keep_import(node, part)

    def _keep_call(self, name: str, node: ast.Call, part: Part) -> None:
        self.calls.append(Fact(self, node.lineno, name, node, part))
        for one in node.keywords if name == "os.environ.update" else ():
            self._keep_setting(str(one.arg), one.value, part)

    def _keep_setting(self, name: str, value: ast.expr, part: Part) -> None:
        call = ast.Call(ast.Name("os.environ"), [value], [], lineno=value.lineno)
        self._keep_call(f"os.environ.{name}", call, part)

    def _keep_import(self, node: ast.Import | ast.ImportFrom, part: Part) -> None:
        self._name_imports(node)
        if isinstance(node, ast.ImportFrom):
            name = "." * node.level + (node.module or "")
            self.imports.append(Fact(self, node.lineno, name, node, part))
            return
        for one in node.names:
            self.imports.append(Fact(self, node.lineno, one.name, node, part))

    def _name_imports(self, node: ast.Import | ast.ImportFrom) -> None:
        for one in node.names:
            head = one.name.partition(".")[0]
            if isinstance(node, ast.ImportFrom):
                self._names[one.asname or one.name] = f"{node.module or ''}.{one.name}"
            else:
                self._names[one.asname or head] = one.name if one.asname else head

    def search(self, form: str, unless: str) -> tuple[int, dict[str, Any]] | None:
        """Return line and groups of the first match in code, in a line that has not `unless`."""
        for match in re.finditer(form, self.text):
            start = self.text.rfind("\n", 0, match.start()) + 1
            if "#" not in self.text[start : match.start()]:
                end = self.text.find("\n", match.start())
                if not re.search(unless, self.text[start : end if end > 0 else None]):
                    return self.text.count("\n", 0, start) + 1, match.groupdict()
        return None

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
        name = ast.unparse(node) if isinstance(node, ast.Name | ast.Attribute) else ""
        values = self.assigned.get(name, []) if "." in name or name.isupper() else []
        return values[0] if len(values) == 1 else node

    def _keep_assigned(self, node: ast.Assign, part: Part) -> None:
        pairs = [(target, node.value) for target in node.targets]
        for target, value in pairs:
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                pairs += zip(target.elts, value.elts, strict=False)
            elif isinstance(target, ast.Name | ast.Attribute):
                self.assigned.setdefault(ast.unparse(target), []).append(value)
            elif isinstance(target, ast.Subscript) and self._name(target.value) == "os.environ":
                self._keep_setting(str(getattr(target.slice, "value", "")), value, part)

    def _name(self, node: ast.expr) -> str:
        """Return the full dotted name of an expression; it begins with a dot if it is computed."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        parts.append(self._names.get(node.id, node.id) if isinstance(node, ast.Name) else "")
        return ".".join(reversed(parts))


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
        self.calls = [call for module in self.modules for call in module.calls]
        self._kinds: dict[str, list[Fact]] = {}
        self._found: dict[str, list[Fact]] = {}  # those of a kind that may be reached
        self._ways: dict[tuple[ast.Call, int], list[str]] = {}
        for call in self.calls:
            for kind in classify(call.name):
                self._kinds.setdefault(kind, []).append(call)

    def find(self, kind: str) -> list[Fact]:
        """Return the calls of a kind of `calls.txt` that may be reached."""
        if kind not in self._found:
            calls = self._kinds.get(kind, [])
            self._found[kind] = [call for call in calls if call.reached]
        return self._found[kind]

    def list_passed(self, kind: str) -> list[Fact]:
        """Return the calls of a kind that the job's arguments alone leave out."""
        calls = self._kinds.get(kind, [])
        return [call for call in calls if False in map(call.module.decide, call.part.tests)]

    def assign(self, values: Mapping[str, ast.expr]) -> None:
        """Take the values of the program's options, by the names in its source, for known."""
        self._found.clear()
        for module in self.modules:
            module.texts.clear()
            for name, value in values.items():
                module.assigned.setdefault(name, []).append(value)

    def find_callers(self, call: Fact) -> list[Fact]:
        """Return the program's own calls of the function around a call."""
        return self._callers.get(call.part.inside, []) if call.part.inside else []

    @cached_property
    def _callers(self) -> dict[str, list[Fact]]:
        """The calls of what no library has, by the last part of their names."""
        callers: dict[str, list[Fact]] = {}
        for one in self.calls:
            if one.name.partition(".")[0] not in self.libraries:
                callers.setdefault(one.short, []).append(one)
        return callers

    def list_ways(self, call: Fact, depth: int = 3) -> list[str]:
        """Return the tests that hold on each way to a call, through the functions around it."""
        if (call.node, depth) in self._ways:
            return self._ways[call.node, depth]
        part = call.part
        open_tests = [test for test in (*part.tests, *part.past) if not call.module.decide(test)]
        tests = "".join(f"; {ast.unparse(test)}" for test in open_tests)
        callers = self.find_callers(call) if depth else []
        ways = [way for one in callers for way in self.list_ways(one, depth - 1)]
        ways = list(dict.fromkeys(f"{tests}{way}" for way in ways)) or [tests]
        self._ways[call.node, depth] = ways
        return ways

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
    def text(self) -> str:
        """The text of all modules."""
        return "\n".join(module.text for module in self.modules)

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
        """The full names of what it calls, and of what it takes from modules."""
        imports = (one for module in self.modules for one in module.imports)
        taken = {f"{one.name}.{name.name}" for one in imports for name in one.node.names}
        return taken.union(call.name for call in self.calls)


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
