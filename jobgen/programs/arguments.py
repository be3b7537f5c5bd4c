"""What a program's own parser says of the arguments that its job gives it."""

from __future__ import annotations

import argparse
import ast
import itertools
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from jobgen.programs.program import ReadProgram
from jobgen.programs.reader import Fact, read_form, spell_form
from jobgen.records import NamedTuple
from jobgen.spec.spelling import find_near

_CORRECT = "correct run.args, or what stands behind --"
_CORRECT_VALUES = (
    f"{_CORRECT}; for tasks with a value each, write array: {{values: {{NAME: [...]}}}}"
)
# What decides which words an argument takes.
_DECIDING = frozenset({"action", "nargs", "const", "required", "dest"})
_TYPES = {"int": int, "float": float, "str": str}


class Read(NamedTuple):
    """What a program makes of its arguments."""

    values: Mapping[str, ast.expr] = {}  # of options by their names in the source: args.lr
    faults: Mapping[str, str] = {}  # each with what to write
    likely: Mapping[str, ast.expr] = {}  # values of options by their own names, as far as is seen


def read_arguments(program: ReadProgram, tasks: Sequence[Sequence[str]]) -> Read:
    """Return what a program makes of the arguments of each task of its job, and their faults.

    No values are sure where the source does not show all options that the program has.
    """
    if program.find("hydra"):
        return _read_by_hydra(program, tasks)
    parsed = _find_parsed(program)
    read_by = dict.fromkeys((program.entry, *(one.module for one in parsed)))
    if not parsed or any(read_form("gives-others").search(one.text) for one in read_by):
        return Read()
    # The shell expands no word of the command line, and none is to be filled in.
    parser = _mirror(program, parsed, plain=not re.search(r"\$|<\d", str(tasks)))
    given = [parser.read(task) for task in tasks]
    if read_form("changes-arguments").search(program.text):
        return Read({}, parser.faults)
    values = parser.values | dict(_share_values(given))
    if parser.hides or not parser.sure:
        return Read({}, parser.faults, values)
    named = _name_values(program, parsed[0], values)
    fields = {name.rpartition(".")[2]: value for name, value in named.items()}
    return Read(named, parser.faults, fields)


def _read_by_hydra(program: ReadProgram, tasks: Sequence[Sequence[str]]) -> Read:
    """Return an option that Hydra has not, which takes key=value, if no parser stands in for it."""
    text = "\n".join(itertools.chain(*tasks))
    option = re.search(rf"(?m)^(?!{spell_form('of-hydra')})--(\w[^=\n]*)", text)
    if program.find("parses") or not option:
        return Read()
    return Read(faults={f"Hydra knows no --{option[1]}": f"write args: [{option[1]}=...]"})


def _share_values(given: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, ast.expr]]:
    """Yield the options of all tasks; of one that they have in common, its value."""
    for name in itertools.chain(*given):
        first, *others = (task.get(name) for task in given)
        varied = others.count(first) < len(others)
        yield name, ast.Name(f"${name}") if varied else ast.Constant(first)


def _mirror(program: ReadProgram, parsed: list[Fact], *, plain: bool) -> _Mirror:
    """Return a parser with the options that are seen; words are `plain` if they stand so."""
    first, *others = parsed
    text = read_form("read-first").sub("", program.text)
    sure = plain and (_reads_all(first) or text != program.text)
    options = (one for one in program.find("option") if "--help" not in one.words)
    added = [one for one in options if not _is_foreign(program, one, parsed)]
    if program.partial or _hides_options(program, parsed, text):
        own = [one for one in added if (one.module, one.head) == (first.module, first.head)]
        return _Mirror(own, sure=sure, hides=True)
    files = {call.module.path for call in (*parsed, *added)}
    alone = len(files) == 1 and all(one.head == first.head for one in others)
    return _Mirror(added, sure=sure and alone, hides=False)


def _is_foreign(program: ReadProgram, added: Fact, parsed: list[Fact]) -> bool:
    """Whether the parser of an option reads nothing, as its own call for that is not reached."""
    module, head = added.module, added.head
    reads = [one for one in module.calls if one.name.endswith(".parse_args")]
    own = [one for one in reads if one.head == head and added.part.scope in (None, one.part.scope)]
    return bool(own) and head not in parsed[0].module.names and not any(map(parsed.count, own))


def _reads_all(parsed: Fact) -> bool:
    """Whether a call reads the command line, and not other words; a parameter stands for that."""
    module, given = parsed.module, [*parsed.node.args, *parsed.given.values()]
    others = {*map(ast.unparse, given)} - {"None", "sys.argv[1:]"}
    return others.isdisjoint(module.assigned) and all(module.bound[one] == 1 for one in others)


def _find_parsed(program: ReadProgram) -> list[Fact]:
    """Return the calls that read the command line, without those of functions of that name."""
    calls = [one for one in program.find("parses") if isinstance(one.node.func, ast.Attribute)]
    parsed = [one for one in calls if one.short == "parse_args"] or calls
    return [one for one in parsed if one.part.scope and one.part.scope.name == one.short] or parsed


def _name_values(
    program: ReadProgram, parsed: Fact, values: Mapping[str, ast.expr]
) -> dict[str, ast.expr]:
    """Return the values of options by the names that they have in the source: args.lr."""
    owners, full = _find_owners(program, parsed), set[str]()
    full.update(*(module.assigned for module in program.modules))
    others = [name.split(".") for name in full if "." in name]
    # Of something that may be the same under another name.
    changed = {name for owner, name, *_ in others if owner not in owners | {"self"}}
    known = values.keys() - changed
    return {f"{owner}.{name}": values[name] for owner in owners for name in known}


def _find_owners(program: ReadProgram, parsed: Fact) -> set[str]:
    """Return the names of what a call has read, also by a function that is named for that."""
    maker = parsed.part.scope.name if parsed.part.scope else ""
    named = program.calls if read_form("of-arguments").search(maker) else []
    read = {parsed.node, *(call.node for call in named if call.short == maker)}
    return set[str]().union(*(one.list_names(read.__contains__) for one in program.modules))


def _hides_options(program: ReadProgram, parsed: list[Fact], text: str) -> bool:
    """Whether a parser may have options that are not seen in the text of a program."""
    seen = [len(call.words) == len(call.node.args) for call in program.find("option")]
    return (
        not (seen and all(seen))
        or bool(read_form("adds-options").search(text))
        or _is_shared(program, parsed)
    )


def _is_shared(program: ReadProgram, parsed: list[Fact]) -> bool:
    """Whether a library makes a parser, or is handed one."""
    owners = {call.head for call in parsed} - {""}
    named = rf"\b(?:{'|'.join(['parser', *owners])}) = ([\w.]+)\("
    made = rf"{named}|([\w.]+)\([^()\n]*\)\.parse_\w+\("
    called = set(itertools.chain(*re.findall(made, program.text)))
    called.difference_update(scope.name for scope in program.scopes if not scope.framed)
    makers = re.sub(r"\S*(Parser|parse_\w*args)(?!\S)", "", " ".join(called)).split()
    return bool(makers or owners & (program.handed | program.libraries))


class _Mirror(argparse.ArgumentParser):
    """A parser with the options of the program's own; `sure` if these are read, with their types.

    It may hide others, which it then is not asked for.
    """

    def __init__(self, added: Sequence[Fact], *, sure: bool, hides: bool) -> None:
        super().__init__(add_help=False, conflict_handler="resolve")
        self.hides, self.sure = hides, sure
        self.known = {str(word) for call in added for word in call.words}
        self.values: dict[str, ast.expr] = {}  # the default of each
        self.needed: dict[str, str] = {}  # those that must be given, by their names in the source
        self.faults: dict[str, str] = {}  # what it does not take, and what to write
        self.add_argument("-h", "--help", action="store_true")
        for call in added:
            try:
                self._mirror(call)
            except (ValueError, TypeError, argparse.ArgumentError):  # it is none that argparse has
                self.hides = True

    def _mirror(self, call: Fact) -> None:
        """Take an option, and keep its default, or that it must be given."""
        action = self.add_argument(*map(str, call.words), **self._read_settings(call))
        if action.required and not read_form("may-be-empty").search(ast.unparse(call.node)):
            self.needed[action.dest] = "/".join(action.option_strings) or action.dest
            action.required, action.default = False, argparse.SUPPRESS
            return
        default = call.given.get("default", ast.Constant(action.default))
        folded = _read_setting("default", ast.unparse(default))
        self.values[action.dest] = ast.Constant(*folded.values()) if folded else default

    def _read_settings(self, call: Fact) -> dict[str, Any]:
        """Return what an argument is given; ValueError if something that decides is computed."""
        texts = {name: ast.unparse(value) for name, value in call.given.items() if name}
        typed = self.sure and texts.get("type", "str") in _TYPES
        names = _DECIDING | {"type", "choices"} if typed else _DECIDING
        given: dict[str, Any] = {}
        for name in names & texts.keys():
            given |= _read_setting(name, texts[name])
        option = str(call.words[:1])[2:3] == "-"
        if not option:
            given.pop("required", None)
        if not self.sure or not call.part.certain:  # it may not be there
            given |= {"required": False} if option else {"nargs": "*"}
        return given

    def error(self, message: str) -> NoReturn:
        raise ValueError(message)

    def read(self, words: Sequence[str]) -> dict[str, Any]:
        """Return the options that words give, and keep what is wrong with these."""
        try:
            read, rest = self.parse_known_args(words)
        except ValueError as error:
            self.faults |= {} if self.hides else {str(error): _CORRECT}
            return {}
        if not self.hides:
            self._refuse(words, rest)
        self._ask_for(read)
        return {name: one for name, one in vars(read).items() if one not in (None, False)}

    def _ask_for(self, read: argparse.Namespace) -> None:
        """Keep what must be given and is not; a list may have the words of several arguments."""
        spread = self.hides or any(isinstance(one, list) for one in vars(read).values())
        lacking = [name for dest, name in self.needed.items() if not hasattr(read, dest)]
        lacking = [name for name in lacking if name[0] == "-" or not spread]
        of_launcher = [*filter(read_form("of-launcher").search, lacking)]
        of_job = [name for name in lacking if name not in of_launcher]
        self._keep_lacking(of_job, "{0}: VALUE", "write {} in run.args")
        default = 'default=int(os.environ["{1}"])'
        self._keep_lacking(of_launcher, default, "leave required out, and write {}")

    def _keep_lacking(self, names: Sequence[str], form: str, hint: str) -> None:
        """Keep that arguments are lacking; what to write has a `form` for each option."""
        words = re.findall(r"--([\w-]+)", ", ".join(names))
        forms = [form.format(word, word.upper().replace("-", "_")) for word in words]
        if names:
            listed = ", ".join(names)
            write = hint.format(", ".join(forms)) if words else f"write args: [{listed}, ...]"
            self.faults[f"the following arguments are required: {listed}"] = write

    def _refuse(self, words: Sequence[str], rest: Sequence[str]) -> None:
        """Keep what the words that are left over say: options first, else words without one."""
        left = [word for word in rest if re.match(r"--?(?!no-)[A-Za-z]", word)]
        options = [word.partition("=")[0] for word in left]
        if unknown := [option for option in options if option not in self.known]:
            self.faults[f"it has no option {', nor '.join(unknown)}"] = self._name_near(unknown)
        beyond = [word for word in rest if word[:1] != "-"]
        if beyond and self.sure and not left:
            self._refuse_words(words, beyond)

    def _name_near(self, options: Sequence[str]) -> str:
        """Return what to write for options that the parser does not have."""
        if read_form("of-launcher").search(f"required: {' '.join(options)}"):
            return "leave it out; jobgen gives each process RANK, LOCAL_RANK and WORLD_SIZE"
        known = sorted(word for word in self.known if word[0] == "-")
        near = [find_near(option, known) for option in options]
        others = f"it knows {', '.join(known) or 'none'}"
        return f"write {', '.join(near)}" if all(near) else others

    def _refuse_words(self, words: Sequence[str], beyond: Sequence[str]) -> None:
        before = words[max(0, words.index(beyond[0]) - 1)]
        pairs = [f"--{word}".split("=", 1) for word in beyond]  # as Hydra has options
        fault, hint = f"it has no argument for {', '.join(map(repr, beyond))}", _CORRECT_VALUES
        if before in self.known:
            fault = f"{before} takes no value, and {beyond[0]!r} stands behind it"
            hint = f"write {before.lstrip('-')}: true in run.args to turn it on, or leave it out"
        elif all(len(pair) > 1 and pair[0] in self.known for pair in pairs):
            hint = f"write {shlex.join(itertools.chain(*pairs))}"
        self.faults[fault] = hint


def _read_setting(name: str, text: str) -> dict[str, Any]:
    """Return a setting of an argument with its value; nothing if that is computed."""
    if name == "type":
        return {name: _TYPES[text]}
    if text.endswith("BooleanOptionalAction"):
        return {name: argparse.BooleanOptionalAction}
    try:
        return {name: ast.literal_eval(text)}
    except ValueError:
        if name in ("action", "nargs"):
            raise
        return {}
