"""What a program's own parser says of the arguments that its job gives it."""

from __future__ import annotations

import argparse
import ast
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from jobgen.programs.program import ReadProgram
from jobgen.programs.reader import Fact
from jobgen.spec.spelling import find_near

_CORRECT = "correct run.args, or what stands behind --"
_CORRECT_VALUES = (
    f"{_CORRECT}; for tasks with a value each, write array: {{values: {{NAME: [...]}}}}"
)
# What decides which words an argument takes.
_DECIDING = frozenset({"action", "nargs", "const", "required", "dest"})
# What the launcher tells a process, by variables and not by options.
_OF_LAUNCHER = r"required: --(local[_-]rank|rank|world[_-]size)\b"
_TYPES = {"int": int, "float": float, "str": str}
# What may add options to a parser that are not seen here, or change what they have read.
_ADDS_OPTIONS = (
    r"\b(parse_known\w*|add_subparsers|add_(?!argument\b|argument_group\b)\w*arg\w*)\("
    r"|ArgumentParser\([^()]*(\*\*|parents=|prefix_chars=)"
)
_CHANGES = (
    r"set_defaults|setattr\((?!self\b)|\b(args?|opts?|cfg|config)\.__dict__|Namespace\("
    r"|(?ms:^ *(\w+) = vars\(.*\b\2(\.update\(|\[[^]]*\] = ))"
)
_OF_HYDRA = r"--(config-\w+|multirun|cfg|info|package|run|help|resolve|experimental-rerun)\b"

# The values of options by their names in the source (args.lr), and that some are lacking.
_Read = tuple[Mapping[str, ast.expr], "RejectedError | None"]


class RejectedError(Exception):
    """What a program's parser does not take, and what to write: two arguments."""


def read_arguments(program: ReadProgram, tasks: Sequence[Sequence[str]]) -> _Read:
    """Return what a program makes of the arguments of each task of its job, or raise RejectedError.

    It is nothing where the source does not show all options that the program has.
    """
    if program.find("hydra"):
        _check_hydra([word for task in tasks for word in task])
    elif program.find("parses"):
        return _ask_parser(program, tasks)
    return {}, None


def _check_hydra(words: Sequence[str]) -> None:
    """Refuse options that Hydra has not, which takes key=value."""
    options = [word.partition("=")[0] for word in words if re.match(r"--\w", word)]
    own = [word for word in options if not re.match(_OF_HYDRA, word)]
    if own:
        raise RejectedError(f"Hydra knows no {own[0]}", f"write args: [{own[0].strip('-')}=...]")


def _ask_parser(program: ReadProgram, tasks: Sequence[Sequence[str]]) -> _Read:
    parsed, added = program.find("parses"), program.find("option")
    if program.partial or _hides_options(program, parsed):
        return {}, None
    # One parser has all options, and reads the command line; the shell expands no word of that.
    alone = len(parsed) == 1 and not parsed[0].node.args and "$" not in str(tasks)
    sure = alone and all(call.module is parsed[0].module for call in added)
    try:
        parser = _Mirror(added, sure=sure)
    except (ValueError, TypeError, argparse.ArgumentError):
        return {}, None  # it is none that argparse takes
    given = [parser.read(task) for task in tasks]
    if not sure or re.search(_CHANGES, program.text):
        return {}, parser.lacking
    values = parser.values | {name: ast.Constant(one) for name, one in given[-1].items()}
    return _name_values(parsed[0], values), parser.lacking


def _name_values(parsed: Fact, values: Mapping[str, ast.expr]) -> dict[str, ast.expr]:
    """Return the values of options by the names that they have in the source: args.lr."""
    owners = [name for name, nodes in parsed.module.assigned.items() if nodes == [parsed.node]]
    return {f"{owner}.{name}": value for owner in owners for name, value in values.items()}


def _hides_options(program: ReadProgram, parsed: list[Fact]) -> bool:
    """Whether a parser may have options that are not seen here."""
    owners, libraries = {call.head for call in parsed} - {""}, program.libraries
    made = [getattr(call.node.func.value, "func", None) for call in parsed if not call.head]
    makers = {getattr(one, "id", "") for one in made} - {scope.name for scope in program.scopes}
    computed = any(len(call.words) < len(call.node.args) for call in program.find("option"))
    strange = bool(makers or owners & (program.handed | libraries))
    return strange or computed or re.search(_ADDS_OPTIONS, program.text) is not None


class _Mirror(argparse.ArgumentParser):
    """A parser with the options of the program's own; `sure` if that are all, with their types."""

    def __init__(self, added: Sequence[Fact], *, sure: bool) -> None:
        super().__init__(add_help=False, conflict_handler="resolve")
        self.sure, self.known = sure, {str(word) for call in added for word in call.words}
        self.values: dict[str, ast.expr] = {}  # the default of each
        self.needed: dict[str, str] = {}  # those that must be given, by their names in the source
        self.lacking: RejectedError | None = None  # that some of them are not
        self.add_argument("-h", "--help", action="store_true")
        for call in added:
            action = self.add_argument(*map(str, call.words), **self._read_settings(call))
            if action.required:  # which is asked for when all words are read
                self.needed[action.dest] = "/".join(action.option_strings) or action.dest
                action.required, action.default = False, argparse.SUPPRESS
                continue
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
        if not self.sure or not call.certain:  # it may not be there
            given |= {"required": False} if option else {"nargs": "*"}
        return given

    def error(self, message: str) -> NoReturn:
        raise RejectedError(message, _CORRECT)

    def read(self, words: Sequence[str]) -> dict[str, Any]:
        """Return the options that words give, or raise RejectedError."""
        read, rest = self.parse_known_args(words)
        if read.help:
            raise RejectedError("--help prints its help", "remove it")
        left = [word for word in rest if re.match(r"--?(?!no-)[A-Za-z]", word)]
        given, known = [word.partition("=")[0] for word in left], sorted(self.known)
        if unknown := [option for option in given if option not in self.known]:
            near = [find_near(option, known) for option in unknown]
            hint = f"write {', '.join(near)}" if all(near) else f"it knows {', '.join(known)}"
            raise RejectedError(f"it has no option {', nor '.join(unknown)}", hint)
        if self.sure and not left:
            self._refuse_words(words, [word for word in rest if word[:1] != "-"])
        self._ask_for([name for dest, name in self.needed.items() if not hasattr(read, dest)])
        return {name: one for name, one in vars(read).items() if one not in (None, False)}

    def _ask_for(self, lacking: Sequence[str]) -> None:
        named = re.findall(r"--([\w-]+)", " ".join(lacking))
        fault = f"the following arguments are required: {', '.join(lacking)}"
        hint = f"write {', '.join(f'{one}: VALUE' for one in named)} in run.args"
        if own := re.search(_OF_LAUNCHER, fault):
            name = own[1].upper().replace("-", "_")
            hint = f'take its default from int(os.environ["{name}"])'
        if lacking:
            self.lacking = RejectedError(fault, hint if named else _CORRECT)

    def _refuse_words(self, words: Sequence[str], beyond: Sequence[str]) -> None:
        if beyond:
            before = words[max(0, words.index(beyond[0]) - 1)]
            if before in self.known:
                fault = f"{before} takes no value, and {beyond[0]!r} stands behind it"
                raise RejectedError(fault, f"write {before.lstrip('-')}: true in run.args")
            pairs = [f"--{word}".partition("=") for word in beyond]  # as Hydra has them
            hydra = all(equals and name in self.known for name, equals, _ in pairs)
            options = shlex.join(part for name, _, value in pairs for part in (name, value))
            fault = f"it has no argument for {', '.join(map(repr, beyond))}"
            raise RejectedError(fault, f"write {options}" if hydra else _CORRECT_VALUES)


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
