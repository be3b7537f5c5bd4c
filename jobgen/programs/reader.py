"""One Python file, read by `ast`: what it calls, imports and names, and which tests decide that."""

from __future__ import annotations

import ast
import io
import operator
import re
import sys
import tokenize
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

from jobgen.programs.kinds import classify
from jobgen.records import NamedTuple
from jobgen.spec import tables

MOST_BYTES = 1_000_000  # of one file
OBJECT = ""  # stands for whatever a method is called of


@cache
def read_form(name: str) -> re.Pattern[str]:
    """Return a regular expression of `forms.txt`, with those in it that it names."""
    return re.compile(spell_form(name))


@cache
def spell_form(name: str) -> str:
    """Return it as text, which costs less where it is a part of another."""
    lines = tables.read_lines("forms.txt", room="programs")
    form = next(line for line in lines if line.startswith(f"{name} "))
    return re.sub("<<(.+?)>>", lambda one: spell_form(one[1]), form.partition(" ")[2])


def mentions(text: str, name: str) -> bool:
    """Whether a text has one of the words that `forms.txt` has by a name."""
    return any(map(text.__contains__, spell_form(name).split("|")))


class Scope(NamedTuple):
    """A function or a class. Python calls a function such as `__init__` for its class."""

    name: str
    part: Part  # where it stands
    marked: bool  # whether a decorator may change what it does
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

    @property
    def denied(self) -> ast.expr | None:
        """A test that decides about them and is known to fail."""
        tests = (*self.tests, *self.past)
        return next((one for one in tests if self.module.decide(one) is False), None)

    @property
    def certain(self) -> bool:
        """Whether no `if` decides about them, but those that the job's arguments decide."""
        return all(map(self.module.decide, self.tests))

    def holds(self, other: Part) -> bool:
        """Whether it is done whenever another part of its function is."""
        return not self.tried and other.tests[: len(self.tests)] == self.tests

    def has_line(self, line: int) -> bool:
        """Whether one of them is in a line."""
        spans = ((one.lineno, one.end_lineno) for one in self.body if isinstance(one, ast.stmt))
        return any(first <= line <= (last or first) for first, last in spans)


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
    about: Mapping[str, str] = {}  # what else is known of an import

    @property
    def short(self) -> str:
        """The last part of its name."""
        return self.name.rpartition(".")[2]

    @property
    def head(self) -> str:
        """The first part of its name: of an import the package, of a call what it is called of."""
        return self.name.partition(".")[0]

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
            text = ast.unparse(ast.Call(ast.Name("_"), self.node.args, self.node.keywords))[1:]
            for _ in range(2):  # what a name stands for may be names, too
                text = self.fill(text)
            texts[self.node] = self.name + read_form("path").sub(r"'\g<folder>/\g<name>'", text)
        return texts[self.node]

    def fill(self, text: str) -> str:
        """Return a text with what its names stand for in this place."""
        return read_form("word").sub(self._fill, text)[:_MOST_WORDS]

    def _fill(self, word: re.Match[str]) -> str:
        """Return what a word among the arguments of a call stands for."""
        if word["form"]:
            return re.sub(r"(?<=\{)[^{}]+", lambda one: self.fill(one[0]), word[0])
        values = [] if word["text"] else self.module.list_values(word[0], self)[-3:]
        filled = " or ".join(dict.fromkeys(map(ast.unparse, values))) or word[0]
        return word[0] if "**" in filled else filled  # which is of another call than this one


_MOST_WORDS = 2000  # characters of a call


def spell_name(node: ast.expr) -> str:
    """Return a dotted name as it is written."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{spell_name(node.value)}.{node.attr}"
    return ast.unparse(node)


class Module:
    """One file of the program, by its path as the user would write it."""

    def __init__(self, path: str, *, started: bool = False) -> None:
        """Read the file, which is started or imported.

        Raises OSError or ValueError if it cannot be read, SyntaxError if Python does not take it.
        """
        self.path = path
        with open(path, "rb") as file:
            data = file.read(MOST_BYTES)
        self.text = data.decode(tokenize.detect_encoding(io.BytesIO(data).readline)[0])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes in the user's strings
            self.tree = ast.parse(self.text, path)
        self.whole = Fact(self, 1, "", self.tree, Part(self, ()))
        self.calls: list[Fact] = []
        self.imports: list[Fact] = []
        self.scopes: list[Scope] = []
        self.bases: list[str] = []  # of classes
        self.assigned: dict[str, list[ast.expr]] = {}
        self.bound: Counter[str] = Counter()  # how often a name without a dot gets a value
        name: list[ast.expr] = [ast.Constant("__main__" if started else path)]
        self._known = {} if started else {"__name__": name}
        self._resolving: list[str] = []  # names whose values are looked for
        self._decided: dict[ast.expr, bool | None] = {}  # tests of one question
        self.supposed: Mapping[str, ast.expr] = {}  # values of fields by their last names
        self.texts: dict[ast.Call, str] = {}  # of calls, as far as they were asked for
        self.names: dict[str, str] = {}  # the full names of short ones: dist, torch.distributed
        # Where each name stands: after its package, or after the dot of an OBJECT, or alone.
        self.uses: dict[str, list[tuple[str | None, Part]]] = defaultdict(list)
        self._places: dict[ast.expr, Part] = {}  # where a name is assigned a value
        for node in self.tree.body:  # what stands in a block is read later than the calls
            for inner in getattr(node, "body", ()):
                if isinstance(inner, ast.Import | ast.ImportFrom):
                    self._name_imports(inner)
        self.parts = [Part(self, self.tree.body)]  # each behind the one that it stands in
        for part in self.parts:  # and those that are found in it
            self._read(part)
        if mentions(self.text, "rebinds"):
            self.bound.update(self.assigned.keys())
        self.assigned["__name__"] = name
        self._known = self.assigned  # and not before, as any may be assigned again
        self.calls.sort(key=lambda call: call.line)

    def _read(self, part: Part) -> None:
        """Keep what is looked for in a part, and put the parts in it behind all others."""
        nodes: list[Any] = self._split(part)
        for node in nodes:  # and for what is found in them, which comes behind
            keep, names = _READS.get(type(node), _UNREAD)
            if keep:
                keep(self, node, part)
            for name in names:
                value = getattr(node, name)
                if type(value) is list:
                    nodes += value
                elif value is not None:
                    nodes.append(value)

    def _split(self, part: Part) -> list[Any]:
        """Return the statements of a part up to an `if` that leaves; what is behind is a part."""
        for at, node in enumerate(part.body, 1):
            if _leaves(node):
                return [*part.body[:at]]
            if type(node) is ast.If and not node.orelse and _leaves(node.body[-1]):
                past = (*part.past, _negate(node.test))
                self.parts.append(part._replace(body=part.body[at:], past=past))
                return [*part.body[:at]]
        return [*part.body]

    def _keep_name(self, node: ast.Name, part: Part) -> None:
        if type(node.ctx) is not ast.Load:
            self.bound[node.id] += 1
        elif node.id in self.names:
            package, _, name = self.names[node.id].rpartition(".")
            self.uses[name].append((package, part))
        else:
            self.uses[node.id].append((None, part))

    def _keep_parameter(self, node: ast.arg, _part: Part) -> None:
        self.bound[node.arg] += 1

    def _keep_attribute(self, node: ast.Attribute, part: Part) -> None:
        if type(node.ctx) is ast.Load:
            owner = node.value
            while type(owner) is ast.Attribute:
                owner = owner.value
            full = self.names.get(getattr(owner, "id", ""), OBJECT)
            self.uses[node.attr].append((full, part))

    def _keep_if(self, node: ast.If | ast.IfExp, part: Part) -> None:
        for way, test in ((node.body, node.test), (node.orelse, _negate(node.test))):
            body = way if isinstance(way, list) else [way]
            self.parts.append(part._replace(body=body, tests=(*part.tests, test)))

    def _keep_block(self, node: Any, part: Part) -> None:
        part = part._replace(tried=part.tried or isinstance(node, ast.Try | ast.ExceptHandler))
        bodies = filter(None, (getattr(node, name, None) for name in _BODIES))
        self.parts += [Part(self, body, *part[2:]) for body in bodies]

    def _keep_handler(self, node: ast.ExceptHandler, part: Part) -> None:
        self._keep_block(node, part._replace(tests=(*part.tests, ast.Name("error"))))

    def _keep_scope(self, node: Any, part: Part) -> None:
        scope = self._make_scope(node, part)
        given = [one for mark in node.decorator_list for one in getattr(mark, "args", ())]
        if scope.marked and ast.Name in map(type, given):  # it may call that in place of this one
            part = part._replace(tests=(*part.tests, ast.Name("replaced")))
        self._keep_block(node, part._replace(scope=scope))

    def _make_scope(self, node: Any, part: Part) -> Scope:
        bases = [self._name(base) for base in getattr(node, "bases", ())]
        self.bases += bases
        if part.scope and part.scope.is_class and re.match("__|forward$", node.name):
            return part.scope
        marks = [self._name(getattr(one, "func", one)) for one in node.decorator_list]
        marked, framed = (
            any("plain" not in classify(one) for one in many) for many in (marks, bases)
        )
        free = marked or getattr(part.scope, "framed", False)
        scope = Scope(node.name, part, marked, free, framed, isinstance(node, ast.ClassDef))
        self.scopes.append(scope)
        return scope

    def _keep_import(self, node: ast.Import | ast.ImportFrom, part: Part) -> None:
        self._name_imports(node)
        names = [one.name for one in node.names]
        if isinstance(node, ast.ImportFrom):
            names = ["." * node.level + (node.module or "")]
        self.imports += [Fact(self, node.lineno, name, node, part) for name in names]
        for one in node.names if part.scope else ():  # as one name may stand for several
            self.uses[one.name].append((names[0].strip("."), part))

    def _name_imports(self, node: ast.Import | ast.ImportFrom) -> None:
        for one in node.names:
            if isinstance(node, ast.ImportFrom):
                self.names[one.asname or one.name] = f"{node.module or '__package__'}.{one.name}"
            else:
                full = one.name if one.asname else one.name.partition(".")[0]
                self.names[one.asname or full] = full

    def _keep_call(self, node: ast.Call, part: Part) -> None:
        self.calls.append(Fact(self, node.lineno, self._name(node.func), node, part, {}))

    def _keep_setting(self, name: str, value: ast.expr, part: Part) -> None:
        call = ast.Call(ast.Name("os.environ"), [value], [], lineno=value.lineno)
        self.calls.append(Fact(self, value.lineno, f"os.environ.{name}", call, part))

    def _keep_assigned(self, node: ast.Assign, part: Part) -> None:
        if self._known and part.denied:
            return  # as an imported file does it where it is started
        pairs = [(target, node.value) for target in node.targets]
        for target, value in pairs:
            if isinstance(target, ast.Tuple):
                foreign = getattr(getattr(value, "func", None), "id", "") in self.names
                each = [value] * len(target.elts) if foreign else getattr(value, "elts", ())
                pairs += zip(target.elts, each, strict=False)
            elif isinstance(target, _NAMED):
                self.assigned.setdefault(spell_name(target), []).append(value)
                self._places[value] = part
            elif isinstance(target, ast.Subscript) and self._name(target.value) == "os.environ":
                self._keep_setting(str(getattr(target.slice, "value", "")), value, part)

    def _name(self, node: ast.expr) -> str:
        """Return the full dotted name of an expression; it begins with a dot if it is computed.

        Of what getattr() takes, it has as much as is written: init_ of getattr(m, f"init_{x}").
        """
        parts: list[str] = []
        if isinstance(node, ast.Call) and spell_name(node.func) == "getattr":
            parts, node = re.findall(r"(?<=')\w+", ast.unparse(node.args[1]))[:1], node.args[0]
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        parts.append(self.names.get(node.id, node.id) if isinstance(node, ast.Name) else "")
        return ".".join(reversed(parts))

    def list_values(self, name: str, at: Fact) -> list[ast.expr]:
        """Return what a name may stand for in a place.

        What surely comes before it, in its function, takes the place of all values before.
        """
        own = [] if "." in name else self.list_own(name, at)
        before = [one for one in own if one.lineno < at.line]
        sure = [one for one in before if self._places[one].holds(at.part)]
        if not sure:
            return self.assigned.get(name, [])
        last = max(sure, key=lambda one: one.lineno)
        reaching = before if self._places[last] is at.part else own  # each time, or by a loop
        return [one for one in reaching if one.lineno >= last.lineno]

    def list_names(self, fits: Callable[[ast.expr], object]) -> set[str]:
        """Return the names that are assigned nothing but values that fit."""
        return {name for name, nodes in self.assigned.items() if nodes and all(map(fits, nodes))}

    def list_own(self, name: str, at: Fact) -> list[ast.expr]:
        """Return what a name is assigned in the function around a place."""
        placed = [(one, self._places.get(one)) for one in self.assigned.get(name, [])]
        return [one for one, part in placed if part and part.scope is at.part.scope]

    def find_part(self, line: int) -> Part:
        """Return the innermost statements around a line."""
        over = (part for part in reversed(self.parts) if part.has_line(line))
        return next(over, self.whole.part)

    def silences(self, line: int, rule: str) -> bool:
        """Whether a comment in a line silences a rule."""
        text = "".join(self.text.splitlines()[line - 1 : line])
        return rule in re.split("[, ]+", ",".join(read_form("ignore").findall(text)))

    def is_sure(self, at: Fact) -> bool:
        """Whether no `if` decides about a place, whatever is supposed."""
        supposed, self.supposed = self.supposed, {}
        sure, self.supposed = at.part.certain, supposed
        return sure

    def decide(self, node: ast.expr) -> bool | None:
        """Return what a test comes to where constants decide it, and None where that is open."""
        test, first = self.resolve(node), not self._decided
        if test not in self._decided:
            self._decided[test] = None  # for a test on a name that is assigned from itself
            self._decided[test] = self._decide(test)
        known = self._decided[test]
        if first:
            self._decided.clear()  # as more may be assigned until the next question
        return known

    def narrow(self, test: ast.expr) -> ast.expr:
        """Return the one part of a test by which it fails; the test where several do, or all."""
        turned, inner = isinstance(test, ast.UnaryOp), getattr(test, "operand", test)
        if not isinstance(inner, ast.BoolOp) or isinstance(inner.op, ast.Or) is not turned:
            return test
        failing = [one for one in inner.values if self.decide(one) is turned]
        return self.narrow(failing[0]) if len(failing) == 1 else test

    def _decide(self, test: ast.expr) -> bool | None:
        match test:
            case ast.Constant(value=value):
                return bool(value)
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                known = self.decide(inner)
                return None if known is None else not known
            case ast.BoolOp(op=op, values=values):
                enough = isinstance(op, ast.Or)
                parts = {*map(self.decide, values)}
                return enough if enough in parts else None if None in parts else not enough
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return self._compare(self.resolve(left), op, self.resolve(right))
        return None

    def _compare(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> bool | None:
        with suppress(KeyError, TypeError, ValueError):  # one may be no constant
            return bool(_COMPARES[type(op)](ast.literal_eval(left), ast.literal_eval(right)))
        return None

    def resolve(self, node: ast.expr) -> ast.expr:
        """Return the value of an option of the program, or of a constant; else the node itself."""
        name = spell_name(node) if _may_be_known(node) else ""
        whole = name.removeprefix("self.") if name.count(".") > 1 else name  # self.args.lr
        known = self._known.get(name) or self._known.get(whole, [])
        if not (known or self.supposed) or self.bound[name] > 1 or name in self._resolving:
            return node
        self._resolving.append(name)  # as a test may decide about the name in it
        value = self._find_value(name, known)
        whole_value = self.resolve(value) if value else node
        self._resolving.pop()
        return whole_value

    def _find_value(self, name: str, known: Sequence[ast.expr]) -> ast.expr | None:
        """Return the one value that a name has, of those that are assigned or supposed."""
        places = self._places
        values = [one for one in known if one not in places or not places[one].denied]
        # What others have made has an attribute before a test decides to set it.
        kept = "." in name and not all(places[one].certain for one in values if one in places)
        values = values or self._suppose(name)
        return values[0] if len(values) == 1 and not kept else None

    def _suppose(self, name: str) -> list[ast.expr]:
        """Return the value that a field is supposed to have: a.b, a['b'], or a.get('b')."""
        field = re.fullmatch(r".*?(?:\.get\('(\w+)'[^()]*\)|\['(\w+)'\]|\.(\w+))", name)
        known = field and self.supposed.get(field[field.lastindex or 0])
        return [known] if known else []


def is_newer(error: SyntaxError) -> bool:
    """Whether Python 3.12 may read what this one does not: an f-string, or names of types."""
    typed = re.match(r"\s*(async )?(def|class|type) \w+ *\[", error.text or "")
    return sys.version_info < (3, 12) and (error.msg.startswith("f-string") or bool(typed))


def _negate(test: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), test)


def _may_be_known(node: ast.expr) -> bool:
    """Whether an expression may have a value by its words, as 'RANK' in os.environ has."""
    asks = isinstance(node, ast.Compare) and isinstance(node.left, ast.Constant)
    return asks or isinstance(node, (*_NAMED, ast.Subscript, ast.Call))


_NAMED = (ast.Name, ast.Attribute)
_LEAVES = (ast.Return, ast.Continue, ast.Raise)
_ENDS = frozenset({"quit", "exit", "sys.exit", "os._exit"})  # calls that end the program
_COMPARES: dict[type, Callable[[Any, Any], Any]] = {
    **{ast.Eq: operator.eq, ast.Is: operator.eq, ast.NotEq: operator.ne, ast.IsNot: operator.ne},
    **{ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge},
}


def _leaves(node: ast.AST) -> bool:
    """Whether nothing behind a statement is reached."""
    call = node.value if type(node) is ast.Expr else None
    ends = type(call) is ast.Call and spell_name(call.func) in _ENDS
    return ends or type(node) in _LEAVES


# The fields of blocks whose bodies are parts of their own.
_BODIES = ("decorator_list", "bases", "body", "handlers", "orelse", "finalbody")
_BLOCKS = (ast.Try, ast.ExceptHandler, ast.With, ast.For, ast.While)
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
# What is kept of a kind of node.
_KEEPS: dict[type, Callable[[Module, Any, Part], None]] = {
    ast.Name: Module._keep_name,
    ast.arg: Module._keep_parameter,
    ast.Attribute: Module._keep_attribute,
    ast.Call: Module._keep_call,
    ast.Assign: Module._keep_assigned,
    **dict.fromkeys((ast.Import, ast.ImportFrom), Module._keep_import),
    **dict.fromkeys((ast.If, ast.IfExp), Module._keep_if),
    **dict.fromkeys(_BLOCKS, Module._keep_block),
    ast.ExceptHandler: Module._keep_handler,
    **dict.fromkeys(SCOPES, Module._keep_scope),
}
# Fields that hold no nodes, or none that are looked for; and those that are parts of their own.
_WORDS = {"id", "ctx", "attr", "op", "ops", "arg", "name", "module", "names", "level", "kind"}
_WORDS |= {"conversion", "simple", "is_async", "type_comment"}
_APART = {*_WORDS, *_BODIES, "returns", "annotation"}
_PARTED = {ast.arg, ast.If, ast.IfExp, *_BLOCKS, *SCOPES}


def _list_read(kind: type[ast.AST]) -> list[str]:
    """Return the fields of a kind of node that are read on."""
    left = _APART if kind in _PARTED else _WORDS
    return [name for name in kind._fields if name not in left]


# What keeps each kind of node, and these fields; a constant, and what is no node, has none.
_UNREAD: tuple[Callable[[Module, Any, Part], None] | None, list[str]] = (None, [])
_READS = {
    kind: (_KEEPS.get(kind), _list_read(kind))
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST) and kind is not ast.Constant
}
