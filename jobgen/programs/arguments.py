"""What a program's own argparse says of the words that its job gives it."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from jobgen.programs.source import Source
from jobgen.programs.text import UNKNOWN, Call, read_form, spell
from jobgen.records import NamedTuple
from jobgen.spec.spelling import find_near

_CORRECT = "correct run.args, or what stands behind --"
_CORRECT_VALUES = (
    f"{_CORRECT}; for tasks with a value each, write array: {{values: {{NAME: [...]}}}}"
)
_LEAVE_OUT = "leave it out; jobgen gives each process RANK, LOCAL_RANK and WORLD_SIZE"
_TYPES = {"int": int, "float": float, **dict.fromkeys(("str", "Path", "pathlib.Path"), str)}


class Read(NamedTuple):
    """What a program makes of its words."""

    options: Mapping[str, object] = {}  # the values of its options, as far as they are seen
    faults: Mapping[str, str] = {}  # what it does not take, each with what to write
    sure: bool = False  # whether all of its options are seen, and nothing else changes them


def read_arguments(source: Source, tasks: Sequence[Sequence[str]], *, given: bool) -> Read:
    """Return what a program makes of the words of each task of its job, if these are `given`.

    It tells no faults of a parser that is not wholly in the text: of several parsers or commands,
    of a library's, of options with computed names.
    """
    seen = [one for one in source.find("option") if len(one.words) == len(one.node.args) > 0]
    if not (source.find("parses") and seen):
        return Read()
    # jobgen does not know what a variable in a word stands for.
    typed = not re.search(r"\$|<\d", str(tasks))
    parser = _Mirror(source, seen, typed=typed, whole=given and _is_whole(source, len(seen)))
    read = [parser.read(task) for task in tasks]
    if not parser.whole and parser.faults:
        return Read()
    sure = parser.whole and not parser.faults
    sure = sure and not read_form("changes-arguments").search(source.project.code)
    return Read(_share_values(read), parser.faults, sure=sure)


def _is_whole(source: Source, seen: int) -> bool:
    """Whether a program has one parser, and only the options that are seen."""
    alone = len(source.find("parsers")) == len(source.find("parses")) == 1
    if source.project.partial or not alone or seen != len(source.find("option")):
        return False
    code = source.project.code
    return all(list_ignored(code)) and not read_form("hides-options").search(code)


def list_ignored(code: str) -> list[bool]:
    """Return whether a program throws away what parse_known_args() does not know, of each."""
    return [_ignores(call, code) for call in re.finditer(r"parse_known\w*\(", code)]


def _ignores(call: re.Match[str], code: str) -> bool:
    kept = re.match(r"[ \t]*\w+, (\w+) = ", code[code.rfind("\n", 0, call.start()) + 1 :])
    behind = code[call.end() :].partition("parse_known")[0]
    unused = kept and (kept[1][0] == "_" or not re.search(rf"\b{kept[1]}\b", behind))
    return bool(re.match(r"\)\[0\]", behind) or (unused and re.match(r"\)[ \t]*$", behind, re.M)))


def _share_values(tasks: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """Return the options that have one value in all tasks."""
    first, *others = tasks
    return {
        key: one for key, one in first.items() if all(x.get(key, UNKNOWN) == one for x in others)
    }


class _Mirror(argparse.ArgumentParser):
    """A parser with the options of a program; `whole` if it has all of them."""

    def __init__(
        self, source: Source, options: Sequence[Call], *, typed: bool, whole: bool
    ) -> None:
        super().__init__(add_help=False, conflict_handler="resolve")
        self.known = {str(word) for call in options for word in call.words}
        self.whole = whole
        self.faults: dict[str, str] = {}  # what it does not take, and what to write
        self._needed: dict[str, str] = {}  # the options that must be given, by their dest
        self.add_argument("-h", "--help", action="store_true")
        self._find = source.values.find_value
        for call in options:
            sure = all(source.values.decide(test, call.module) for test in call.place.tests)
            try:
                self._mirror(call, typed=typed, sure=sure)
            except (ValueError, TypeError, argparse.ArgumentError):
                self.whole = False  # it is none that argparse itself has

    def _mirror(self, call: Call, *, typed: bool, sure: bool) -> None:
        """Take an option as it is written; ValueError if what decides about it is computed."""
        self.whole = self.whole and None not in call.given
        values, kind = self._find_values(call)
        given = _read_settings(values, kind if typed else None)
        is_option = str(call.words[0])[:1] == "-"
        if not is_option and not (sure and self.whole):
            given["nargs"] = "*"
        action = self.add_argument(*map(str, call.words), **given)
        if is_option and action.required:
            action.required = False  # so that all that is lacking is said at once
            self._needed |= {action.dest: "/".join(action.option_strings)} if sure else {}
        action.default = values.get("default", action.default)
        if isinstance(action.default, str) and kind not in _TYPES:
            action.default = UNKNOWN  # as the type makes something else of it

    def _find_values(self, call: Call) -> tuple[dict[str, Any], str]:
        """Return what an option is given by name, and the name of its type."""
        values = {name: self._find(one, call.module) for name, one in call.given.items() if name}
        if spell(call.given.get("action", UNKNOWN)).endswith("BooleanOptionalAction"):
            values["action"] = argparse.BooleanOptionalAction
        return values, spell(call.given["type"]) if "type" in values else "str"

    def error(self, message: str) -> NoReturn:
        raise ValueError(message)

    def read(self, words: Sequence[str]) -> dict[str, object]:
        """Return the values of options that are seen, and keep what is wrong with the words."""
        try:
            read, rest = self.parse_known_args(words)
        except (ValueError, argparse.ArgumentError) as error:
            lacking = str(error).partition("are required: ")[2]
            self.faults[str(error)] = f"write args: [{lacking}, ...]" if lacking else _CORRECT
            return {}
        values = vars(read)
        if self.whole:
            self._refuse(words, rest, values)
        return {name: one for name, one in values.items() if one is not UNKNOWN}

    def _refuse_lacking(self, names: Sequence[str]) -> None:
        """Keep that options are lacking, with what to write for them."""
        words = [re.sub(".*--", "", name) for name in names]
        hint = f"write {', '.join(f'{word}: VALUE' for word in words)} in run.args"
        if any(word[0] == "-" for word in words):  # as -d has no long name
            hint = f"write args: [{', '.join(names)}, ...]"
        self.faults[f"the following arguments are required: {', '.join(names)}"] = hint

    def _refuse(
        self, words: Sequence[str], rest: Sequence[str], values: Mapping[str, object]
    ) -> None:
        """Keep what is wrong: options first, else words without one; and what is lacking."""
        lacking = [name for dest, name in self._needed.items() if values[dest] is None]
        if lacking:
            self._refuse_lacking(lacking)
        options = [word.partition("=")[0] for word in rest if re.match("--?[A-Za-z]", word)]
        unknown = [word for word in options if word not in self.known and word[:5] != "--no-"]
        if unknown:
            self.faults[f"it has no option {', nor '.join(unknown)}"] = self._name_near(unknown)
        beyond = [word for word in rest if word[:1] != "-"]
        if beyond and not options:
            self._refuse_words(words, beyond)

    def _name_near(self, options: Sequence[str]) -> str:
        """Return what to write for options that the parser does not have."""
        if read_form("of-launcher").search(" ".join(options)):
            return _LEAVE_OUT
        known = sorted(word for word in self.known if word[0] == "-")
        near = [find_near(option, known) for option in options]
        return f"write {', '.join(near)}" if all(near) else f"it knows {', '.join(known) or 'none'}"

    def _refuse_words(self, words: Sequence[str], beyond: Sequence[str]) -> None:
        before = words[max(0, words.index(beyond[0]) - 1)]
        fault, hint = f"it has no argument for {', '.join(map(repr, beyond))}", _CORRECT_VALUES
        pairs = [f"--{word}".partition("=")[0] for word in beyond if "=" in word]  # as for Hydra
        unknown = sorted({*pairs} - self.known)
        if before in self.known:
            fault = f"{before} takes no value, and {beyond[0]!r} stands behind it"
            hint = f"write {before.lstrip('-')}: true in run.args to turn it on, or leave it out"
        elif unknown:
            fault, hint = f"it has no option {', nor '.join(unknown)}", self._name_near(unknown)
        elif len(pairs) == len(beyond):
            hint = "write " + re.sub(r"(?<!\S)(?=\w)([\w-]+)=", r"--\1 ", shlex.join(beyond))
        self.faults[fault] = hint


# What decides which words an option takes, and what it makes of them.
_ASKED = frozenset({"nargs", "required", "dest", "action", "const"})


def _read_settings(values: Mapping[str, object], kind: str | None) -> dict[str, Any]:
    """Return what decides about an option of a kind, if that is asked; ValueError if computed."""
    given: dict[str, Any] = {name: values[name] for name in _ASKED & values.keys()}
    if UNKNOWN in [one for name, one in given.items() if name != "const"]:
        raise ValueError
    if kind is not None and given.get("action", "store") in ("store", "append"):
        choices = values.get("choices")
        given |= {"type": _TYPES.get(kind), "choices": None if choices is UNKNOWN else choices}
    return given
