"""What a program's own parser says of the arguments that its job gives it."""

from __future__ import annotations

import argparse
import ast
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from collections.abc import Mapping as Values
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

from jobgen.errors import JobgenError
from jobgen.programs.program import ReadProgram
from jobgen.programs.reader import Fact
from jobgen.records import NamedTuple
from jobgen.spec.spelling import find_near
from jobgen.spec.yaml_nodes import Mapping, Node, parse_value

_CORRECT = "correct run.args, or what stands behind --"
# What decides which words an argument takes.
_DECIDING = ("action", "nargs", "const", "required", "dest")
# What the launcher tells a process, by variables and not by options.
_OF_LAUNCHER = r"required: --(local[_-]rank|rank|world[_-]size)\b"
_TYPES = {"int": int, "float": float, "str": str}
# What may add options to a parser that are not seen here, or change what they have read.
_ADDS_OPTIONS = r"parse_known\w*|add_subparsers|add_(?!argument$|argument_group$)\w*arg\w*"
_CHANGES = r"set_defaults|__dict__|setattr\(|vars\(|Namespace\(|\*\*"
_OF_HYDRA = r"--(config-\w+|multirun|cfg|info|package|run|help|resolve|experimental-rerun)\b"


class Answer(NamedTuple):
    """What is wrong with the arguments, what to write, and what the program reads."""

    fault: str = ""
    write: str = ""
    # Of each option, by the names in the source: args.lr.
    values: Values[str, ast.expr] = MappingProxyType({})
    unread: tuple[str, ...] = ()  # options that are given and that nothing reads


class _Mirror(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def read_arguments(program: ReadProgram, tasks: Sequence[Sequence[str]]) -> Answer:
    """Return what a program makes of the arguments of each task of its job.

    It is nothing where the source does not show all options that the program has.
    """
    words = [word for task in tasks for word in task]
    given = [word.partition("=")[0] for word in words if re.match(r"--\w", word)]
    if program.find("hydra"):
        own = [word for word in given if not re.match(_OF_HYDRA, word)]
        if own:
            return Answer(f"Hydra knows no {own[0]}", f"write args: [{own[0].strip('-')}=...]")
        return _ask_hydra(program.find("hydra")[0], words)
    if program.find("parses"):
        return _ask_parser(program, tasks)
    known = set() if program.partial else {*_list_declared(program)}
    return _refuse_unknown(_list_unknown(given, known), known) if known else Answer()


def _list_declared(program: ReadProgram) -> Iterator[str]:
    """Yield the options that click and absl declare, and those that typer, fire or tyro make."""
    signed = bool(program.find("signs"))
    for row in [call.words for call in program.find("declares")] + _list_signed(program):
        # A flag's first word is its name; click has some, which begin with --.
        words = [str(word) for word in row if word is row[0] or str(word)[:2] == "--"]
        for name in (part.strip("-") for word in words for part in word.split("/")):
            yield f"--{name}"
            if signed:
                dashed = name.replace("_", "-")
                yield from (f"--no-{name}", f"--{dashed}", f"--no-{dashed}")


def _list_unknown(given: Sequence[str], known: set[str]) -> list[str]:
    heads = [word.partition(".")[0] for word in given]  # of --config.lr
    return [one for one in heads if f"--{one[4:]}" not in known]


def _list_signed(program: ReadProgram) -> list[list[object]]:
    """Return the options that typer, fire or tyro make of a function's or a class's names."""
    bodies = {getattr(one, "name", ""): one for one in program.entry.tree.body}
    signs = [
        *map(ast.unparse, (one for call in program.find("signs") for one in call.node.args[:1]))
    ]
    body: Any = bodies.get(signs[0]) if len(signs) == 1 else None
    if isinstance(body, ast.FunctionDef) and not body.args.kwarg:
        return [[f"--{arg.arg}"] for arg in [*body.args.args, *body.args.kwonlyargs]]
    return _list_fields(body) if isinstance(body, ast.ClassDef) and not body.bases else []


def _list_fields(body: ast.ClassDef) -> list[list[object]]:
    fields = [one for one in body.body if isinstance(one, ast.AnnAssign)]
    return [[f"--{ast.unparse(one.target)}"] for one in fields]


def _refuse_unknown(given: Sequence[str], known: set[str]) -> Answer:
    unknown = [word for word in given if word not in known and word != "--help"]
    if not unknown:
        return Answer()
    near = find_near(unknown[0], sorted(known))
    write = f"write {near}" if near else f"it knows {', '.join(sorted(known))}"
    return Answer(f"it has no option {unknown[0]}", write)


# --- Hydra ---


def _ask_hydra(call: Fact, words: Sequence[str]) -> Answer:
    """Return what is wrong with values for keys that the program's configuration lacks."""
    file = _find_config(call)
    if not file or "--config" in str(words):  # another may be named
        return Answer()
    try:
        whole = parse_value(Path(file).read_text(encoding="utf-8"), file=file)
    except (OSError, ValueError, JobgenError):
        return Answer()
    for word in words:
        key, equals, _ = word.partition("=")
        if equals and re.match(r"(?!hydra\b)[A-Za-z]", key):
            path, known = _find_lacking(whole, key)
            if path:
                near = find_near(path.rpartition(".")[2], known) or ", ".join(known)
                return Answer(f"{file} has no {path}", f"write {near}, or +{word} for a new key")
    return Answer()


def _find_config(call: Fact) -> str:
    """Return the file that a program of Hydra reads; empty where its name is computed."""
    texts = {name: getattr(node, "value", None) for name, node in call.given.items()}
    folder, name = texts.get("config_path"), texts.get("config_name")
    if not isinstance(folder, str) or not isinstance(name, str):
        return ""
    file = f"{name.removesuffix('.yaml')}.yaml"
    return os.path.join(os.path.dirname(call.module.path), folder, file)


def _find_lacking(whole: Node, key: str) -> tuple[str, list[str]]:
    """Return how far a configuration has a dotted key, with the part that it lacks, and others."""
    node, path = whole, ""
    for part in key.split("."):
        if not isinstance(node, Mapping):
            break
        others = "defaults" in node.items and node is whole  # files that are not read
        path = f"{path}.{part}".strip(".")
        if part not in node.items:
            return ("" if others else path), [*node.items]
        node = node.items[part]
    return "", []


# --- argparse ---


def _ask_parser(program: ReadProgram, tasks: Sequence[Sequence[str]]) -> Answer:
    parsed, added = program.find("parses"), program.find("option")
    if program.partial or _hides_parser(program, parsed):
        return Answer()
    sure = _has_all(parsed, added) and "$" not in str(tasks)  # which the shell expands later
    try:
        parser, values = _mirror(added, sure=sure)
    except (ValueError, TypeError, argparse.ArgumentError):
        return Answer()  # it is none that argparse takes
    known = {str(word) for call in added for word in call.words}
    answers = [_parse(parser, task, known, sure=sure) for task in tasks]
    faulty = next((answer for answer in answers if answer.fault), None)
    if faulty or not sure or re.search(_CHANGES, program.text):
        return faulty or Answer()
    read = vars(parser.parse_known_args(tasks[-1])[0])
    given = {name: one for name, one in read.items() if one not in (None, False)}
    return _trace(program, parsed[0], values, given)


def _has_all(parsed: Sequence[Fact], added: Sequence[Fact]) -> bool:
    """Whether one parser has all options that are added."""
    alone = len(parsed) == 1 and not parsed[0].node.args
    return alone and all(call.module is parsed[0].module for call in added)


def _mirror(added: Sequence[Fact], *, sure: bool) -> tuple[_Mirror, dict[str, ast.expr]]:
    """Return a parser with the same options, and the default of each."""
    parser = _Mirror(add_help=False, conflict_handler="resolve")
    parser.add_argument("-h", "--help", action="store_true")
    values: dict[str, ast.expr] = {}
    for call in added:
        action = parser.add_argument(*map(str, call.words), **_read_argument(call, sure=sure))
        values[action.dest] = call.given.get("default", ast.Constant(action.default))
    return parser, values


def _parse(parser: _Mirror, task: Sequence[str], known: set[str], *, sure: bool) -> Answer:
    """Return what the parser says of one task's words."""
    try:
        read, rest = parser.parse_known_args(task)
    except ValueError as error:
        own = re.search(_OF_LAUNCHER, str(error))
        name = own[1].upper().replace("-", "_") if own else ""
        write = f'take its default from int(os.environ["{name}"])' if own else _CORRECT
        return Answer(str(error), write)
    if read.help:
        return Answer("--help prints its help", "remove it")
    unknown = [word.partition("=")[0] for word in rest if re.match(r"--?(?!no-)[A-Za-z]", word)]
    beyond = [word for word in rest if word[:1] != "-"] if sure else []
    if unknown or not beyond:
        return _refuse_unknown(unknown, known)
    name, equals, value = beyond[0].partition("=")  # as Hydra has them
    write = f"write {shlex.join([f'--{name}', value])}" if f"--{name}" in known and equals else ""
    return Answer(f"it has no argument for {beyond[0]!r}", write or _CORRECT)


def _trace(
    program: ReadProgram, parsed: Fact, values: dict[str, ast.expr], given: dict[str, Any]
) -> Answer:
    """Return what the program reads of its options: each one's value, and one that it does not."""
    texts = values | {name: ast.Constant(one) for name, one in given.items()}
    names = [name for name, nodes in parsed.module.assigned.items() if parsed.node in nodes]
    read = {f"{owner}.{name}": text for owner in names for name, text in texts.items()}
    if not names or _hands_on(program, names):
        return Answer(values=read)
    forms = {name: rf"\.{name}\b|[\"']{name}[\"']" for name in given}
    unread = [name for name, form in forms.items() if not re.search(form, program.text)]
    return Answer(values=read, unread=tuple(unread))


def _hands_on(program: ReadProgram, names: Sequence[str]) -> bool:
    """Whether a library is given all options at once, by one of these names."""
    foreign = [call for call in program.calls if call.head in program.libraries]
    passed = [node for call in foreign for node in [*call.node.args, *call.given.values()]]
    return not {ast.unparse(node) for node in passed}.isdisjoint(names)


def _hides_parser(program: ReadProgram, parsed: list[Fact]) -> bool:
    """Whether a parser may have options that are not seen here."""
    owners = {call.head for call in parsed}
    if owners & {"", *program.libraries}:
        return True
    return any(_hides_options(call, owners, program.libraries) for call in program.calls)


def _hides_options(call: Fact, owners: set[str], libraries: set[str]) -> bool:
    """Whether a call may give a parser options that are not seen here."""
    if call.short == "ArgumentParser":
        return bool({None, "parents", "prefix_chars"} & {*call.given})
    if call.short == "add_argument":
        return len(call.words) < len(call.node.args)
    handed = {node.id for node in call.node.args if isinstance(node, ast.Name)}
    foreign = handed & owners and call.head in libraries
    return bool(foreign or re.fullmatch(_ADDS_OPTIONS, call.short))


def _read_argument(call: Fact, *, sure: bool) -> dict[str, Any]:
    """Return what an argument is given; ValueError if something that decides is computed."""
    texts = {name: ast.unparse(value) for name, value in call.given.items() if name}
    kind, given = texts.get("type", "str"), dict[str, Any]()
    typed = sure and kind in _TYPES
    if typed and "type" in texts:
        given["type"] = _TYPES[kind]
    for name in (*_DECIDING, "choices") if typed else _DECIDING:
        if name in texts:
            given |= _read_setting(name, texts[name])
    # One behind an `if` may not be there, and cannot be required.
    there = sure and call.certain
    if str(call.words[:1])[2:3] == "-":
        return given if there else given | {"required": False}
    given.pop("required", None)
    return given if there else given | {"nargs": "*"}


def _read_setting(name: str, text: str) -> dict[str, Any]:
    """Return a setting of an argument with its value; nothing if that is computed."""
    if text.endswith("BooleanOptionalAction"):
        return {name: argparse.BooleanOptionalAction}
    try:
        return {name: ast.literal_eval(text)}
    except ValueError:
        if name in ("action", "nargs"):
            raise
        return {}
