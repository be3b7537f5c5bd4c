"""What a program's own `argparse` says of the arguments that its job gives it."""

from __future__ import annotations

import argparse
import ast
import re
import shlex
from collections.abc import Sequence
from typing import Any, NoReturn

from jobgen.programs.reader import Fact, ReadProgram

_CORRECT = "correct run.args, or what stands behind --"
_TYPES = {"int": int, "float": float, "str": str}
# What may add options to a parser that are not seen here.
_ADDS_OPTIONS = r"parse_known\w*|add_subparsers|add_(?!argument$|argument_group$)\w*arg\w*"


class _Mirror(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def refuse_arguments(program: ReadProgram, arguments: Sequence[str]) -> tuple[str, str]:
    """Return what a program's parser says of its arguments, and what to write; empty if nothing.

    It says nothing either where the source does not show all that the parser has.
    """
    parsed = [call for call in program.calls if call.short == "parse_args"]
    added = program.find("option")
    owners = {call.name.partition(".")[0] for call in parsed}
    hidden = any(_hides_options(call, owners, program.libraries) for call in program.calls)
    if not parsed or program.partial or hidden or owners & {"", *program.libraries}:
        return "", ""
    # Whether this one parser has them all; the shell expands a variable later.
    sure = len(parsed) == 1 and not parsed[0].node.args and "$" not in str(arguments)
    sure = sure and {call.module for call in added} <= {parsed[0].module}
    parser = _Mirror(add_help=False, conflict_handler="resolve")
    parser.add_argument("-h", "--help", action="store_true")
    try:
        for call in added:
            parser.add_argument(*map(str, call.words), **_read_argument(call, sure=sure))
    except (ValueError, TypeError, argparse.ArgumentError):
        return "", ""  # it is none that argparse takes
    try:
        read, rest = parser.parse_known_args(arguments)
    except ValueError as error:
        return str(error), _CORRECT
    if read.help:
        return "--help prints its help", "remove it"
    unknown = [word.partition("=")[0] for word in rest if re.match(r"--(?!no-)\w", word)]
    if unknown:
        from jobgen.spec.spelling import find_near

        known = sorted(str(word) for call in added for word in call.words)
        near = find_near(unknown[0], known)
        write = f"write {near}" if near else f"it knows {', '.join(known)}"
        return f"it has no option {unknown[0]}", write
    beyond = [word for word in rest if word[:1] != "-"] if sure else []
    if not beyond:
        return "", ""
    name, equals, value = beyond[0].partition("=")
    of_hydra = equals and any(f"--{name}" in call.words for call in added)
    return (
        f"it has no place for {beyond[0]!r}",
        f"write {shlex.join([f'--{name}', value])}" if of_hydra else _CORRECT,
    )


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
    if sure and (kind := texts.pop("type", "str")) in _TYPES:
        given = {"type": _TYPES[kind]} if "type" in call.given else {}
        names = ("action", "nargs", "const", "required", "choices")
    else:
        names = ("action", "nargs", "const", "required", "")
    for name in set(names) & {*texts}:
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
