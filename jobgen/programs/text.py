"""One file of a training program, read by `ast`: its calls and names, each with its place."""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
import warnings
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

from jobgen.programs.kinds import classify
from jobgen.records import NamedTuple
from jobgen.spec import tables

_MOST_BYTES = 1_000_000  # of one file
_MOST_WORDS = 2000  # characters of a call
unparse = lru_cache(5000)(ast.unparse)  # of one node for several rules
OBJECT = ""  # stands for whatever a method is called of
UNKNOWN = ast.Name("unknown", lineno=0)  # a value, or a test, that the text does not show


class Scope(NamedTuple):
    """A function or a class."""

    name: str
    place: Surroundings  # where it is defined
    free: bool  # whether others than the program's own lines may call it, or its methods
    is_class: bool


class Surroundings(NamedTuple):
    """Where something stands in a program."""

    module: Module
    scope: Scope | None = None  # the function or class around it
    tests: tuple[ast.expr, ...] = ()  # that hold here
    tried: bool = False  # whether a `try` stands around it

    def under(self, test: ast.expr) -> Surroundings:
        """The same place where a further test holds."""
        return self._replace(tests=(*self.tests, test))


class Call(NamedTuple):
    """A call, an import, or a variable of the environment that is set: os.environ.NAME.

    Its name is full, such as torch.distributed.init_process_group. That of an import is the
    module's, with dots before a relative one.
    """

    place: Surroundings
    node: Any
    name: str
    about: Mapping[str, str] = {}  # values for the words of a remark

    @property
    def module(self) -> Module:
        """The file that it stands in."""
        return self.place.module

    @property
    def line(self) -> int:
        """The line that it stands in."""
        return int(getattr(self.node, "lineno", 1))

    @property
    def short(self) -> str:
        """The last part of its name."""
        return self.name.rpartition(".")[2]

    @property
    def head(self) -> str:
        """The first part of its name: the package, or what it is called of."""
        return self.name.partition(".")[0]

    @property
    def words(self) -> list[object]:
        """The constants among its arguments without a name."""
        return [node.value for node in self.node.args if isinstance(node, ast.Constant)]

    @property
    def given(self) -> dict[str | None, ast.expr]:
        """Its arguments by their names; None stands for what `**` hands on."""
        return {keyword.arg: keyword.value for keyword in self.node.keywords}

    @property
    def text(self) -> str:
        """The call in words; names among its arguments are replaced by what they stand for."""
        texts = self.module.texts
        if self.node not in texts:
            text = ast.unparse(ast.Call(ast.Name("_"), self.node.args, self.node.keywords))[1:]
            texts[self.node] = self.name + self._spell(text)
        return texts[self.node]

    @property
    def target(self) -> str:
        """The file that it writes to, in the same words: torch takes it second, and numpy first."""
        given = self.node.args[1:] if self.head == "torch" else self.node.args
        return "".join(self._spell(unparse(one)) for one in given[:1])

    def _spell(self, text: str) -> str:
        for _ in range(3):  # as a name may stand for another, and that for a third
            text = self.fill(text)
        return read_form("path").sub(r"'\g<folder>/\g<name>'", text)

    def fill(self, text: str) -> str:
        """Return a text with what its names stand for in this place, by `or` where that is open."""
        return read_form("word").sub(self._fill, text)[:_MOST_WORDS]

    def _fill(self, word: re.Match[str]) -> str:
        if word["form"]:  # an f-string
            return re.sub(r"(?<=\{)[^{}]+", lambda one: self.fill(one[0]), word[0])
        values = [] if word["text"] else self.module.list_values(word[0], self)[-3:]
        filled = " or ".join(dict.fromkeys(map(unparse, values))) or word[0]
        return word[0] if "**" in filled else filled


_Placed = list[tuple[Surroundings, ast.expr]]  # values of a name, each where it gets it


class Module:
    """One file of a program."""

    def __init__(self, path: str, *, started: bool = False) -> None:
        """Read a file, which is started or imported, by its path as the user would write it.

        Raises OSError or ValueError if it cannot be read, SyntaxError if Python does not take it.
        """
        self.path = path
        with open(path, "rb") as file:
            data = file.read(_MOST_BYTES)
        self.text = data.decode(tokenize.detect_encoding(io.BytesIO(data).readline)[0])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes in the user's strings
            self.tree = ast.parse(self.text, path)
        self.names: dict[str, str] = {}  # full names by short ones: dist, torch.distributed
        self.imports: list[Call] = []
        self.bases: list[str] = []  # of its classes
        self.scopes: list[Scope] = []
        # The names that are read, each with its package, OBJECT for one behind a dot, or alone.
        self.uses: list[tuple[str, str | None, Surroundings]] = []
        self.assigned: dict[str, _Placed] = defaultdict(list)
        self.code = re.sub(r"(?m)^[ \t]*#(?!!).*$| # .*$", "", self.text)  # without comments
        self.texts: dict[ast.Call, str] = {}  # of calls, as far as they were asked for
        self.options: Mapping[str, Any] = {}  # of the program, where their values are sure
        self._waiting: list[tuple[Surroundings, Any, str]] = []
        top = Surroundings(self)
        self.whole = Call(top, self.tree, "")
        self._started = started
        self._read(self.tree.body, top)
        # Only now, as a function may use what is imported below it.
        self.calls = [
            Call(place, node, name or self.name(node.func)) for place, node, name in self._waiting
        ]
        self.calls.sort(key=lambda call: call.line)

    def _read(self, body: Sequence[ast.stmt], place: Surroundings) -> None:
        """Read statements until one that leaves."""
        rest: Surroundings | None = place
        for node in body:
            rest = rest and _READS.get(type(node), Module._read_line)(self, node, rest)

    def _read_line(self, node: ast.stmt, place: Surroundings) -> Surroundings | None:
        self._walk([node], place)
        return None if _leaves(node) else place

    def _read_if(self, node: ast.If, place: Surroundings) -> Surroundings:
        """Read both ways of an `if`; what stands behind one that leaves is under the other."""
        if spell(getattr(node.test, "left", node.test)) == "__name__":
            denied = isinstance(getattr(node.test, "ops", [None])[0], ast.NotEq | ast.NotIn)
            self._read(node.body if self._started != denied else node.orelse, place)
            return place
        other = ast.UnaryOp(ast.Not(), node.test)
        self._walk([node.test], place)
        self._read(node.body, place.under(node.test))
        self._read(node.orelse, place.under(other))
        return place.under(other) if not node.orelse and _leaves(node.body[-1]) else place

    def _read_try(self, node: ast.Try, place: Surroundings) -> Surroundings:
        self._read([*node.body, *node.orelse], place._replace(tried=True))
        for handler in node.handlers:
            self._read(handler.body, place.under(UNKNOWN))
        self._read(node.finalbody, place)
        return place

    def _read_block(self, node: Any, place: Surroundings) -> Surroundings:
        self._walk([getattr(node, name, None) for name in _HEADS], place)
        self._read(node.body, place)
        self._read(getattr(node, "orelse", ()), place)
        return place

    def _read_assign(self, node: ast.Assign, place: Surroundings) -> Surroundings:
        self._walk([node.value], place)
        for target in node.targets:
            self._assign(target, node.value, place)
        return place

    def _read_function(self, node: Any, place: Surroundings) -> Surroundings:
        around = place.scope
        # Python calls such methods for their class, and a library those of a class of its own.
        special = re.match("__|forward$", node.name) is not None
        called = around is not None and around.is_class and (around.free or special)
        scope = Scope(node.name, place, called or self._may_call(node.decorator_list), False)
        parameters = [one for one in ast.walk(node.args) if isinstance(one, ast.arg)]
        for one in parameters:
            self.assigned[one.arg].append((place._replace(scope=scope), UNKNOWN))
        self._walk([*node.decorator_list, *node.args.defaults, *node.args.kw_defaults], place)
        return self._read_scope(scope, node.body)

    def _read_class(self, node: ast.ClassDef, place: Surroundings) -> Surroundings:
        self.bases += map(self.name, node.bases)
        self._walk([*node.decorator_list, *node.bases], place)
        free = self._may_call([*node.decorator_list, *node.bases])
        return self._read_scope(Scope(node.name, place, free, True), node.body)

    def _read_scope(self, scope: Scope, body: Sequence[ast.stmt]) -> Surroundings:
        self.scopes.append(scope)
        self._read(body, scope.place._replace(scope=scope))
        return scope.place

    def _may_call(self, marks: Sequence[ast.expr]) -> bool:
        """Whether decorators, or bases of a class, may call what stands below them."""
        names = [self.name(getattr(one, "func", one)) for one in marks]
        return any("plain" not in classify(one) for one in names)

    def _read_import(self, node: ast.Import | ast.ImportFrom, place: Surroundings) -> Surroundings:
        modules = [one.name for one in node.names]
        for one in node.names:
            if isinstance(node, ast.ImportFrom):
                modules = ["." * node.level + (node.module or "")]
                self.names[one.asname or one.name] = f"{node.module or '__package__'}.{one.name}"
            else:
                full = one.name if one.asname else one.name.partition(".")[0]
                self.names[one.asname or full] = full
        self.imports += [Call(place, node, name) for name in modules]
        return place

    def _assign(self, target: ast.expr, value: ast.expr, place: Surroundings) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            values = getattr(value, "elts", [UNKNOWN] * len(target.elts))
            for each, one in zip(target.elts, values, strict=False):
                self._assign(each, one, place)
        elif isinstance(target, ast.Name | ast.Attribute):
            self.assigned[spell(target)].append((place, value))
        elif isinstance(target, ast.Subscript) and self.name(target.value) == "os.environ":
            setting = ast.Call(ast.Name("_"), [value], [], lineno=target.lineno)
            self._waiting.append(
                (place, setting, f"os.environ.{getattr(target.slice, 'value', '')}")
            )
        else:
            self._walk([target], place)

    def _walk(self, nodes: Sequence[Any], place: Surroundings) -> None:
        """Keep the calls, the names that are read, and those that get a value, of expressions."""
        waiting = [*nodes]
        for node in waiting:  # and what is found in it, which comes behind
            kind = type(node)
            if kind is list:
                waiting += node
            elif kind is ast.IfExp:
                self._walk([node.test], place)
                self._walk([node.body], place.under(node.test))
                self._walk([node.orelse], place.under(ast.UnaryOp(ast.Not(), node.test)))
            elif kind in _FIELDS:
                waiting += [getattr(node, name) for name in _FIELDS[kind]]
                if kind is ast.Call:
                    self._waiting.append((place, node, ""))
                elif kind is ast.Subscript and getattr(node.value, "attr", "") == "environ":
                    read = ast.Call(ast.Name("_"), [node.slice], [], lineno=node.lineno)
                    self._waiting.append((place, read, "os.environ.read"))
                elif kind is ast.Name or kind is ast.Attribute:
                    self._keep_name(node, place)

    def _keep_name(self, node: ast.Name | ast.Attribute, place: Surroundings) -> None:
        if type(node.ctx) is not ast.Load:
            self.assigned[spell(node)].append((place, UNKNOWN))
        elif isinstance(node, ast.Attribute):
            owner = self.names.get(spell(node).partition(".")[0], OBJECT)
            self.uses.append((node.attr, owner, place))
        else:
            owner, _, name = self.names.get(node.id, node.id).rpartition(".")
            self.uses.append((name, owner or None, place))

    def name(self, node: ast.expr) -> str:
        """Return the full dotted name of an expression; it begins with a dot if it is computed."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        parts.append(self.names.get(node.id, node.id) if isinstance(node, ast.Name) else "")
        return ".".join(reversed(parts))

    def list_values(self, name: str, at: Call) -> list[ast.expr]:
        """Return what a name may stand for in a place; none if the text does not show it.

        What surely comes before it, in its function, takes the place of all values before.
        """
        placed = self.assigned.get(name, [])
        if not (placed or name.isidentifier()) and (known := self._list_told(name)):
            return known[:1]
        values = [value for _, value in _list_in_force(placed, at)]
        return [] if UNKNOWN in values else values

    def _list_told(self, name: str) -> list[ast.expr]:
        """Return what the job says of an option, or of what is asked for by a key."""
        keys = read_form("asked").sub(r".\1", name), name.rpartition(".")[2]
        return [ast.Constant(self.options[key]) for key in keys if key in self.options]

    def silences(self, line: int, rule: str) -> bool:
        """Whether a comment in a line silences a rule."""
        if "jobgen" not in self.text:
            return False
        text = "".join(self.text.splitlines()[line - 1 : line])
        return rule in re.split("[, ]+", ",".join(read_form("ignore").findall(text)))


def _list_in_force(placed: _Placed, at: Call) -> _Placed:
    """Return the values that a name may have in a place: of its function, the last sure one."""
    own = [one for one in placed if one[0].scope is at.place.scope] or placed
    before = [one for one in own if one[1].lineno < at.line]
    sure = before and at.place.tests[: len(before[-1][0].tests)] == before[-1][0].tests
    return before[-1:] if sure else own if before else placed


@cache
def read_form(name: str) -> re.Pattern[str]:
    """Return a regular expression of `forms.txt`."""
    return re.compile(spell_form(name))


@cache
def spell_form(name: str) -> str:
    """Return it as text, with those in it that it names."""
    lines = tables.read_lines("forms.txt", room="programs")
    form = next(line for line in lines if line.startswith(f"{name} "))
    return re.sub("<<(.+?)>>", lambda one: spell_form(one[1]), form.partition(" ")[2])


def spell(node: ast.expr) -> str:
    """Return a dotted name as it is written."""
    if isinstance(node, ast.Name):
        return node.id
    return f"{spell(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) else ""


def is_newer(error: SyntaxError) -> bool:
    """Whether Python 3.12 may read what this one does not: an f-string, or names of types."""
    typed = re.match(r"\s*(async )?(def|class|type) \w+ *\[", error.text or "")
    return sys.version_info < (3, 12) and (error.msg.startswith("f-string") or bool(typed))


def _leaves(node: ast.AST) -> bool:
    """Whether nothing behind a statement is reached."""
    call = node.value if isinstance(node, ast.Expr) else None
    ends = isinstance(call, ast.Call) and spell(call.func) in _ENDS
    return ends or isinstance(node, ast.Return | ast.Continue | ast.Raise)


_ENDS = frozenset({"quit", "exit", "sys.exit", "os._exit", "parser.error"})
_BLOCKS = (ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith)
# What reads a kind of statement, and returns the place of what stands behind it.
_READS: dict[type, Callable[[Module, Any, Surroundings], Surroundings | None]] = {
    ast.If: Module._read_if,
    ast.Try: Module._read_try,
    ast.Assign: Module._read_assign,
    ast.ClassDef: Module._read_class,
    **dict.fromkeys((ast.Import, ast.ImportFrom), Module._read_import),
    **dict.fromkeys((ast.FunctionDef, ast.AsyncFunctionDef), Module._read_function),
    **dict.fromkeys(_BLOCKS, Module._read_block),
}
_HEADS = ("target", "iter", "test", "items")
# What is read on of each kind of node: no words, such as `id`, and no constants.
_WORDS = {"id", "ctx", "attr", "op", "ops", "arg", "names", "kind", "annotation", "conversion"}
_FIELDS = {
    kind: [name for name in kind._fields if name not in _WORDS]
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST) and kind is not ast.Constant
}
