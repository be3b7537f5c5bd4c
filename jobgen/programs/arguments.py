"""What a program's own parser says of the arguments that its job gives it."""

from __future__ import annotations

import argparse
import ast
import os
import re
import shlex
from collections.abc import Mapping as Values
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

from jobgen.errors import JobgenError
from jobgen.programs.reader import Fact, ReadProgram
from jobgen.records import NamedTuple
from jobgen.spec.spelling import find_near
from jobgen.spec.yaml_nodes import Mapping, parse_value

_CORRECT = "correct run.args, or what stands behind --"
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
    words = dict.fromkeys(word.partition("=")[0] for task in tasks for word in task)
    given = [word for word in words if re.match(r"--\w", word)]
    if program.find("hydra"):
        own = [word for word in given if not re.match(_OF_HYDRA, word)]
        if own:
            return Answer(f"Hydra knows no {own[0]}", f"write args: [{own[0].strip('-')}=...]")
        return _ask_hydra(program, [word for task in tasks for word in task])
    # A flag's first word is its name; click has some, which begin with --.
    rows = [call.words for call in program.find("declares")] + _list_signed(program)
    declared = [
        str(word) for row in rows for word in row if word is row[0] or str(word)[:2] == "--"
    ]
    if declared and not program.partial and not program.find("parses"):
        known = {f"--{part.strip('-')}" for word in declared for part in word.split("/")}
        if program.find("signs"):
            known |= {f"--no-{name[2:]}" for name in known}
            known |= {name.replace("_", "-") for name in known}
        heads = [word.partition(".")[0] for word in given]  # of --config.lr
        return _refuse_unknown([one for one in heads if f"--{one[4:]}" not in known], known)
    return _ask_parser(program, tasks)


def _ask_hydra(program: ReadProgram, words: Sequence[str]) -> Answer:
    """Return what is wrong with values for keys that the program's configuration lacks."""
    call = program.find("hydra")[0]
    texts = {name: getattr(node, "value", None) for name, node in call.given.items()}
    folder, name = texts.get("config_path"), texts.get("config_name")
    if not isinstance(folder, str) or not isinstance(name, str) or "--config" in str(words):
        return Answer()
    file = os.path.join(
        os.path.dirname(call.module.path), folder, f"{name.removesuffix('.yaml')}.yaml"
    )
    try:
        whole = parse_value(Path(file).read_text(encoding="utf-8"), file=file)
    except (OSError, ValueError, JobgenError):
        return Answer()
    open_ended = isinstance(whole, Mapping) and "defaults" in whole.items
    for word in words:
        key, equals, _ = word.partition("=")
        node, path = whole, ""
        for part in key.split(".") if equals and re.match(r"(?!hydra\b)[A-Za-z]", key) else ():
            known = node.items if isinstance(node, Mapping) else {part: node}
            if part not in known and open_ended and not path:
                break
            path = f"{path}.{part}".strip(".")
            if part not in known:
                near = find_near(part, known) or ", ".join(known)
                return Answer(f"{file} has no {path}", f"write {near}, or +{word} for a new key")
            node = known[part]
    return Answer()


def _list_signed(program: ReadProgram) -> list[list[object]]:
    """Return the options that typer, fire or tyro make of a function's or a class's names."""
    bodies = {getattr(one, "name", ""): one for one in program.entry.tree.body}
    signs = [ast.unparse(call.node.args[0]) for call in program.find("signs") if call.node.args]
    body: Any = bodies.get(signs[0]) if len(signs) == 1 else None
    if isinstance(body, ast.FunctionDef) and not body.args.kwarg:
        return [[f"--{arg.arg}"] for arg in [*body.args.args, *body.args.kwonlyargs]]
    if not isinstance(body, ast.ClassDef) or body.bases:
        return []
    fields = [one for one in body.body if isinstance(one, ast.AnnAssign)]
    return [[f"--{ast.unparse(one.target)}"] for one in fields]


def _refuse_unknown(given: Sequence[str], known: set[str]) -> Answer:
    unknown = [word for word in given if word not in known and word != "--help"]
    if not unknown:
        return Answer()
    near = find_near(unknown[0], sorted(known))
    write = f"write {near}" if near else f"it knows {', '.join(sorted(known))}"
    return Answer(f"it has no option {unknown[0]}", write)


def _ask_parser(program: ReadProgram, tasks: Sequence[Sequence[str]]) -> Answer:
    parsed, added = program.find("parses"), program.find("option")
    owners = {call.name.partition(".")[0] for call in parsed}
    hidden = any(_hides_options(call, owners, program.libraries) for call in program.calls)
    if not parsed or program.partial or hidden or owners & {"", *program.libraries}:
        return Answer()
    # Whether this one parser has them all; the shell expands a variable later.
    sure = len(parsed) == 1 and not parsed[0].node.args and "$" not in str(tasks)
    sure = sure and {call.module for call in added} <= {parsed[0].module}
    parser = _Mirror(add_help=False, conflict_handler="resolve")
    parser.add_argument("-h", "--help", action="store_true")
    values: dict[str, ast.expr] = {}
    try:
        for call in added:
            action = parser.add_argument(*map(str, call.words), **_read_argument(call, sure=sure))
            values[action.dest] = call.given.get("default", ast.Constant(action.default))
    except (ValueError, TypeError, argparse.ArgumentError):
        return Answer()  # it is none that argparse takes
    known = {str(word) for call in added for word in call.words}
    for task in tasks:
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
        refused = _refuse_unknown(unknown, known)
        beyond = [word for word in rest if word[:1] != "-"] if sure else []
        if refused.fault:
            return refused
        if beyond:
            name, equals, value = beyond[0].partition("=")
            of_hydra = equals and f"--{name}" in known
            write = f"write {shlex.join([f'--{name}', value])}" if of_hydra else _CORRECT
            return Answer(f"it has no argument for {beyond[0]!r}", write)
    if not sure or re.search(_CHANGES, program.text):
        return Answer()
    given = {name: one for name, one in vars(read).items() if one is not None and one is not False}
    return _trace(program, parsed[0], values, given)


def _trace(
    program: ReadProgram, parsed: Fact, values: dict[str, ast.expr], given: dict[str, Any]
) -> Answer:
    """Return what the program reads of its options: each one's value, and one that it does not."""
    texts = values | {name: ast.Constant(one) for name, one in given.items()}
    names = [name for name, nodes in parsed.module.assigned.items() if parsed.node in nodes]
    read = {f"{owner}.{name}": text for owner in names for name, text in texts.items()}
    foreign = [call for call in program.calls if call.name.partition(".")[0] in program.libraries]
    passed = [node for call in foreign for node in [*call.node.args, *call.given.values()]]
    if {ast.unparse(node) for node in passed}.intersection(names) or not names:
        return Answer(values=read)
    forms = {name: rf"\.{name}\b|[\"']{name}[\"']" for name in given}
    unread = [name for name, form in forms.items() if not re.search(form, program.text)]
    return Answer(values=read, unread=tuple(unread))


def _hides_options(call: Fact, owners: set[str], libraries: set[str]) -> bool:
    """Whether a call may give a parser options that are not seen here."""
    if call.short == "ArgumentParser":
        return bool({None, "parents", "prefix_chars"} & {*call.given})
    if call.short == "add_argument":
        return len(call.words) < len(call.node.args)
    handed = {node.id for node in call.node.args if isinstance(node, ast.Name)}
    foreign = handed & owners and call.name.partition(".")[0] in libraries
    return bool(foreign or re.fullmatch(_ADDS_OPTIONS, call.short))


def _read_argument(call: Fact, *, sure: bool) -> dict[str, Any]:
    """Return what an argument is given; ValueError if something that decides is computed."""
    texts = {name: ast.unparse(value) for name, value in call.given.items() if name}
    given: dict[str, Any] = {}
    names = {"action", "nargs", "const", "required", "dest"}
    if sure and (kind := texts.pop("type", "str")) in _TYPES:
        given = {"type": _TYPES[kind]} if "type" in call.given else {}
        names.add("choices")
    for name in names & {*texts}:
        try:
            given[name] = ast.literal_eval(texts[name])
        except ValueError:
            if texts[name].endswith("BooleanOptionalAction"):
                given[name] = argparse.BooleanOptionalAction
            elif name in ("action", "nargs"):
                raise
    if str(call.words[:1])[2:3] == "-":
        return given if sure and call.certain else given | {"required": False}
    given.pop("required", None)
    return given if sure and call.certain else given | {"nargs": "*"}
