"""What a program's own `argparse` says of the arguments that its job gives it."""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from jobgen.programs.reader import Call, ReadProgram

_TYPES = {"int": int, "float": float, "str": str}
# What may add options to a parser that are not seen here.
_ADDS_OPTIONS = re.compile(
    r"parse_known\w*|add_subparsers|add_(?!argument$|argument_group$)\w*arg\w*"
)


class _Mirror(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def refuse_arguments(program: ReadProgram, arguments: Sequence[str]) -> tuple[str, str]:
    """Return what a program's parser says of its arguments, and what to write; empty if nothing.

    It says nothing either where the source does not show all that the parser has.
    """
    calls, libraries = program.calls, program.libraries
    parsed = [call for call in calls if call.short == "parse_args"]
    added = [call for call in calls if call.short == "add_argument"]
    owners = {call.name.partition(".")[0] for call in parsed}
    if not parsed or program.partial or owners & {"", *libraries}:
        return "", ""
    for call in calls:
        handed = {node.id for node in call.node.args if isinstance(node, ast.Name)}
        strange = handed & owners and call.name.partition(".")[0] in libraries
        computed = call in added and len(call.words) < len(call.node.args)
        made = call.short == "ArgumentParser" and {None, "parents", "prefix_chars"} & {*call.given}
        if strange or computed or made or _ADDS_OPTIONS.fullmatch(call.short):
            return "", ""
    one = len(parsed) == 1 and not parsed[0].node.args
    sure = one and {call.module for call in added} <= {parsed[0].module}
    expanded = any("$" in word for word in arguments)
    parser = _Mirror(add_help=False, conflict_handler="resolve")
    parser.add_argument("-h", "--help", action="store_true")
    try:
        for call in added:
            given = _read_argument(call, sure=sure and call.certain, typed=sure and not expanded)
            parser.add_argument(*map(str, call.words), **given)
    except (ValueError, TypeError, argparse.ArgumentError):
        return "", ""  # it is none that argparse takes
    try:
        read, rest = parser.parse_known_args(arguments)
    except ValueError as error:
        return str(error), "correct run.args"
    if read.help:
        return "--help prints its help", "remove it"
    unknown = [word.partition("=")[0] for word in rest if re.match(r"--(?!no-)\w", word)]
    if not unknown:
        beyond = [word for word in rest if word[:1] != "-"] if sure else []
        return (f"it has no place for {beyond[0]!r}", "correct run.args") if beyond else ("", "")
    from jobgen.spec.spelling import find_near

    known = sorted(str(word) for call in added for word in call.words)
    near = find_near(unknown[0], known)
    write = f"write {near}" if near else f"it knows {', '.join(known)}"
    return f"it has no option {unknown[0]}", write


def _read_argument(call: Call, *, sure: bool, typed: bool) -> dict[str, Any]:
    """Return what an argument is given; ValueError if something that decides is computed."""
    given: dict[str, Any] = {}
    kind = ast.unparse(call.given["type"]) if "type" in call.given else ""
    if typed and kind in _TYPES:
        given["type"] = _TYPES[kind]
    for name in ("action", "nargs", "choices", "required", "const"):
        if name in call.given and ((typed and kind in ("", *_TYPES)) or name != "choices"):
            text = ast.unparse(call.given[name])
            try:
                given[name] = ast.literal_eval(text)
            except ValueError:
                if text.endswith("BooleanOptionalAction"):
                    given[name] = argparse.BooleanOptionalAction
                elif name in ("action", "nargs"):
                    raise
    if str(call.words[:1])[2:3] != "-":
        given.pop("required", None)
        return given if sure else given | {"nargs": "*"}
    return given if sure else given | {"required": False}
