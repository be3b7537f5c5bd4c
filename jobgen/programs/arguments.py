"""What a program's own parser says of the arguments that its job gives it."""

from __future__ import annotations

import argparse
import ast
import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from jobgen.errors import JobgenError
from jobgen.programs.program import ReadProgram
from jobgen.programs.reader import Fact
from jobgen.spec import yaml_nodes
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
_ADDS_OPTIONS = r"parse_known\w*|add_subparsers|add_(?!argument$|argument_group$)\w*arg\w*"
_CHANGES = r"set_defaults|__dict__|setattr\(|vars\(|Namespace\(|\*\*"
_OF_HYDRA = r"--(config-\w+|multirun|cfg|info|package|run|help|resolve|experimental-rerun)\b"

# The values of options by their names in the source (args.lr), and the given ones that nothing
# reads.
_Read = tuple[Mapping[str, ast.expr], Iterable[str]]


class RejectedError(Exception):
    """What a program's parser does not take, and what to write: two arguments."""


def read_arguments(program: ReadProgram, tasks: Sequence[Sequence[str]]) -> _Read:
    """Return what a program makes of the arguments of each task of its job, or raise RejectedError.

    It is nothing where the source does not show all options that the program has.
    """
    if hydra := program.find("hydra"):
        _check_hydra(hydra[0], [word for task in tasks for word in task])
    elif program.find("parses"):
        return _ask_parser(program, tasks)
    return {}, ()


def _check_hydra(call: Fact, words: Sequence[str]) -> None:
    """Refuse options, and values for keys that the program's configuration lacks."""
    options = [word.partition("=")[0] for word in words if re.match(r"--\w", word)]
    own = [word for word in options if not re.match(_OF_HYDRA, word)]
    if own:
        raise RejectedError(f"Hydra knows no {own[0]}", f"write args: [{own[0].strip('-')}=...]")
    # Without a folder Hydra reads no file.
    texts = {name: str(getattr(node, "value", "")) for name, node in call.given.items()}
    folder = os.path.join(os.path.dirname(call.module.path), texts.get("config_path", "None"))
    file = os.path.join(folder, f"{texts.get('config_name', '').removesuffix('.yaml')}.yaml")
    if "--config" in str(options):  # another may be named
        return
    try:
        whole = yaml_nodes.parse_value(Path(file).read_text(encoding="utf-8"), file=file)
    except (OSError, ValueError, JobgenError):
        return
    for word in words:
        if re.match(r"(?!hydra\b)[A-Za-z][^=]*=", word):
            _check_key(whole, word, file)


def _check_key(whole: yaml_nodes.Node, word: str, file: str) -> None:
    node, path = whole, ""
    for part in word.partition("=")[0].split("."):
        if not isinstance(node, yaml_nodes.Mapping):
            return
        if node is whole and part not in node.items and "defaults" in node.items:
            return  # files that are not read may have it
        path = f"{path}.{part}".strip(".")
        if part not in node.items:
            near = find_near(part, [*node.items]) or ", ".join(node.items)
            raise RejectedError(f"{file} has no {path}", f"write {near}, or +{word} for a new key")
        node = node.items[part]


def _ask_parser(program: ReadProgram, tasks: Sequence[Sequence[str]]) -> _Read:
    parsed, added = program.find("parses"), program.find("option")
    if program.partial or _hides_parser(program, parsed):
        return {}, ()
    sure = _is_whole(parsed, added) and "$" not in str(tasks)  # which the shell expands
    try:
        parser = _Mirror(added, sure=sure)
    except (ValueError, TypeError, argparse.ArgumentError):
        return {}, ()  # it is none that argparse takes
    given = [parser.read(task) for task in tasks]
    if not sure or re.search(_CHANGES, program.text):
        return {}, ()
    return _trace(program, parsed[0], parser.values, given[-1])


def _is_whole(parsed: list[Fact], added: list[Fact]) -> bool:
    """Whether one parser has all options that are added, and reads the command line."""
    alone = len(parsed) == 1 and not parsed[0].node.args
    return alone and all(call.module is parsed[0].module for call in added)


def _hides_parser(program: ReadProgram, parsed: list[Fact]) -> bool:
    """Whether a parser may have options that are not seen here."""
    owners = {call.head for call in parsed}
    if owners & {"", *program.libraries}:
        return True
    return any(_hides_options(call, owners, program.libraries) for call in program.calls)


def _hides_options(call: Fact, owners: set[str], libraries: set[str]) -> bool:
    if call.short == "ArgumentParser":
        return not {None, "parents", "prefix_chars"}.isdisjoint(call.given)
    if call.short == "add_argument":
        return len(call.words) < len(call.node.args)
    if re.fullmatch(_ADDS_OPTIONS, call.short):
        return True
    return call.head in libraries and _holds(call.node.args, owners)


def _holds(nodes: Iterable[ast.expr], names: Iterable[str]) -> bool:
    return not {getattr(node, "id", "") for node in nodes}.isdisjoint(names)


class _Mirror(argparse.ArgumentParser):
    """A parser with the options of the program's own; `sure` if that are all, with their types."""

    def __init__(self, added: Sequence[Fact], *, sure: bool) -> None:
        super().__init__(add_help=False, conflict_handler="resolve")
        self.sure, self.known = sure, {str(word) for call in added for word in call.words}
        self.values: dict[str, ast.expr] = {}  # the default of each
        self.add_argument("-h", "--help", action="store_true")
        for call in added:
            action = self.add_argument(*map(str, call.words), **self._read_settings(call))
            self.values[action.dest] = call.given.get("default", ast.Constant(action.default))

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
        own = re.search(_OF_LAUNCHER, message)
        if own:
            name = own[1].upper().replace("-", "_")
            raise RejectedError(message, f'take its default from int(os.environ["{name}"])')
        lacking = re.findall(r"--([\w-]+)", message.partition("required: ")[2])
        hint = f"write {', '.join(f'{one}: VALUE' for one in lacking)} in run.args"
        raise RejectedError(message, hint if lacking else _CORRECT)

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
        return {name: one for name, one in vars(read).items() if one not in (None, False)}

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


def _trace(
    program: ReadProgram, parsed: Fact, values: dict[str, ast.expr], given: dict[str, Any]
) -> _Read:
    texts = values | {name: ast.Constant(one) for name, one in given.items()}
    owners = [name for name, nodes in parsed.module.assigned.items() if parsed.node in nodes]
    read = {f"{owner}.{name}": text for owner in owners for name, text in texts.items()}
    if not owners or _shares_options(program, owners):
        return read, ()
    text = program.text
    return read, [one for one in given if not re.search(rf"\.{one}\b|[\"']{one}[\"']", text)]


def _shares_options(program: ReadProgram, owners: Sequence[str]) -> bool:
    """Whether a library may be given all options at once."""
    foreign = [call for call in program.calls if call.head in program.libraries]
    return any(_holds([*call.node.args, *call.given.values()], owners) for call in foreign)
