"""The commands of a script in the order in which bash runs them, with their variables put in."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator
from typing import NamedTuple

from jobgen.batchscript.bash import Command, Word, parse
from jobgen.batchscript.expand import (
    NAME,
    Field,
    ShellVariables,
    Variable,
    list_names,
    split_segments,
    write_field,
)


class ExecutedCommand(NamedTuple):
    """A simple command as it runs: expanded, and whether it surely does, once."""

    command: Command
    source: Command
    certain: bool
    loop: bool
    subshell: bool
    export: bool  # whether it exports what it assigns


class Walk:
    """One pass over a script, in the order in which bash runs it."""

    def __init__(self, commands: list[Command], variables: ShellVariables) -> None:
        self.variables = variables
        self.functions: dict[str, list[Command]] = {}
        self.steps: list[ExecutedCommand] = []
        for command in commands:
            if command.function:
                self.functions.setdefault(command.function, []).append(command)
        self._depth = 0
        self._splits_at = ""  # by IFS, blanks aside: what holds it is known to bash alone
        plain = [command for command in commands if "function" not in command.inside]
        self._run(plain, 0, certain=True, loop=False, subshell=False)

    def _run(
        self, commands: list[Command], depth: int, *, certain: bool, loop: bool, subshell: bool
    ) -> None:
        index = 0
        skip: bool | None = False  # whether the next command of a list with && and || is left out
        while index < len(commands):
            command = commands[index]
            last = index + 1
            if len(command.blocks) > depth:
                block = command.blocks[depth]
                while last < len(commands) and block in commands[last].blocks[depth : depth + 1]:
                    last += 1
                group = commands[index:last]
                sure = certain and skip is False
                if skip is not True:
                    self._run_block(
                        block.opener, group, depth, certain=sure, loop=loop, subshell=subshell
                    )
                skip = False
            else:
                outcome: bool | None = None
                if skip is not True:
                    sure = certain and skip is False
                    outcome = self._run_command(command, certain=sure, loop=loop, subshell=subshell)
                else:
                    outcome = command.end == "||" and None
                if command.end == "&&":
                    skip = skip if skip is True else None if outcome is None else not outcome
                elif command.end == "||":
                    skip = None if outcome is None else outcome
                else:
                    skip = False
            index = last

    def _run_block(
        self,
        opener: str,
        group: list[Command],
        depth: int,
        *,
        certain: bool,
        loop: bool,
        subshell: bool,
    ) -> None:
        if opener in ("{", "("):
            self._run(
                group,
                depth + 1,
                certain=certain,
                loop=loop,
                subshell=subshell or opener == "(",
            )
            return
        if opener == "if":
            undecided = False
            for condition, body in _split_clauses(group, depth + 1):
                answer = True if condition is None else self._decide(condition)
                if condition is not None and answer is None:
                    self._run(condition, depth + 1, certain=False, loop=loop, subshell=subshell)
                if answer is False:
                    continue
                sure = certain and answer is True and not undecided
                if not sure:
                    self.variables.forget(_list_assigned(body))
                self._run(body, depth + 1, certain=sure, loop=loop, subshell=subshell)
                if not sure:
                    self.variables.forget(_list_assigned(body))
                undecided = undecided or answer is None
                if answer is True:
                    break
            return
        repeated = opener in ("for", "while", "until")
        names = _list_assigned(group)
        if opener == "for" and group and len(group[0].words) > 1:
            names.add(group[0].words[1].text)
        self.variables.forget(names)
        body = group[1:] if opener == "for" and not group[0].keywords else group
        self._run(body, depth + 1, certain=False, loop=loop or repeated, subshell=subshell)
        self.variables.forget(names)

    def _decide(self, condition: list[Command]) -> bool | None:
        """What a condition of one test comes to; None where only the job knows."""
        if len(condition) != 1 or "!" in condition[0].keywords:
            return None
        return self._test(condition[0])

    def _test(self, command: Command) -> bool | None:
        if command.name not in ("[", "[[", "test"):
            return None
        words = list(command.words[1:])
        if words and words[-1].raw in ("]", "]]"):
            words.pop()
        texts = []
        for word in words:
            text = self.variables.tell(word.raw)
            if text is None:
                return None
            texts.append(text)
        if len(texts) == 2 and texts[0] in ("-z", "-n"):
            return (texts[1] == "") == (texts[0] == "-z")
        if len(texts) == 3 and texts[1] in ("=", "==", "!=") and not re.search(r"[*?\[]", texts[2]):
            return (texts[0] == texts[2]) == (texts[1] != "!=")
        compare = {"-eq": operator.eq, "-ne": operator.ne, "-gt": operator.gt}
        compare |= {"-lt": operator.lt, "-ge": operator.ge, "-le": operator.le}
        if len(texts) == 3 and texts[1] in compare and texts[0].isdigit() and texts[2].isdigit():
            return bool(compare[texts[1]](int(texts[0]), int(texts[2])))
        return None

    def _place_arguments(self, command: Command, *, certain: bool) -> None:
        """Take over what `set` and `shift` make of `$1` and those after it."""
        variables, words = self.variables, list(command.words[1:])
        given: tuple[Field, ...] | None = None
        if command.name == "shift":
            count = words[0].text if words else "1"
            if variables.positional is not None and re.fullmatch(r"\d{1,3}", count, re.ASCII):
                given = variables.positional[int(count) :]
        else:
            while words and re.match(r"[-+][^-]", words[0].text):
                if words.pop(0).text.endswith("o"):  # -o pipefail, -euo pipefail
                    words = words[1:]
            if not words:
                return
            if words[0].text in ("-", "--"):
                words.pop(0)
            given = tuple(split_segments(word.raw) for word in words)
            if any(part.live for field in given for part in field):
                given = None  # how many they are, the job alone knows
        variables.positional = given if certain else None
        if variables.positional is None:
            variables.assigned.add("@")

    def _run_command(
        self, command: Command, *, certain: bool, loop: bool, subshell: bool
    ) -> bool | None:
        variables = self.variables
        expanded = expand_command(command, variables)
        name = expanded.name
        exports = False
        if not command.words:
            exports = variables.export_all
            for word in command.assignments:
                self._assign(word, export=False, certain=certain)
        elif name in ("export", "declare", "readonly", "local", "typeset"):
            flags = [word.text for word in command.words[1:] if word.text.startswith("-")]
            exports = name == "export" or any("x" in flag for flag in flags)
            integer = any("i" in flag for flag in flags)
            for word in command.words[1:]:
                if "=" in word.raw:
                    whole = not integer or re.search(r"=\d+$", word.raw)
                    self._assign(word, export=exports, certain=certain and bool(whole))
                elif exports and NAME.fullmatch(word.raw):
                    old = variables.values.get(word.raw)
                    fields = old.fields if old else None
                    if old:
                        variables.values[word.raw] = Variable(fields, old.array, True)
        elif name == "unset":
            for word in command.words[1:]:
                variables.values.pop(word.text, None)
        elif changed := command.list_changed():
            variables.forget(changed)
        elif name in ("set", "shift"):
            if any(text in ("-a", "-o") for text in expanded.texts):
                variables.export_all = "-a" in expanded.texts or "allexport" in expanded.texts
            self._place_arguments(expanded, certain=certain and not subshell)
        elif name == "eval":
            text = " ".join(word.text for word in expanded.words[1:])
            inner = parse(text, line=command.line, inside=command.inside)
            self._run(inner, 0, certain=certain, loop=loop, subshell=subshell)
            return None
        elif name in self.functions and self._depth < 5:
            self._depth += 1
            before, variables.positional = (
                variables.positional,
                tuple(split_segments(word.raw) for word in expanded.words[1:]),
            )
            body = self.functions[name]
            depth = len(body[0].blocks) if body else 0
            shallow = min((len(item.blocks) for item in body), default=depth)
            self._run(body, shallow, certain=certain, loop=loop, subshell=subshell)
            variables.positional = before
            self._depth -= 1
            return None
        self.steps.append(ExecutedCommand(expanded, command, certain, loop, subshell, exports))
        return self._test(command)

    def _assign(self, word: Word, *, export: bool, certain: bool) -> None:
        name = self.variables.assign(word, export=export)
        if name and not certain:
            self.variables.forget([name])
        if name == "IFS":
            value = word.raw.partition("=")[2]
            self._splits_at = "" if list_names(value) else re.sub(r"\\[nt]|[\s$'\"]", "", value)
            self.variables.forget(list(filter(self._is_split, self.variables.values)))
        elif name and self._is_split(name):
            self.variables.forget([name])

    def _is_split(self, name: str) -> bool:
        """Whether IFS divides a value, or what of it only the job knows."""
        fields = self.variables.values[name].fields or ()
        parts = [part for field in fields for part in field]
        return bool(self._splits_at) and any(
            part.live or set(part.text) & set(self._splits_at) for part in parts
        )


def _list_assigned(commands: list[Command]) -> set[str]:
    names = {name for command in commands for name, _, _ in command.variables()}
    for command in commands:
        names |= command.list_changed()
    return names


def _split_clauses(
    group: list[Command], depth: int
) -> Iterator[tuple[list[Command] | None, list[Command]]]:
    """The conditions and bodies of an `if`; that of `else` is None."""
    condition: list[Command] | None = []
    body: list[Command] = []
    inside = False
    previous: Command | None = None
    for command in group:
        keywords = list(command.keywords)
        if len(command.blocks) > depth:
            first = previous is None or previous.blocks[depth : depth + 1] != (
                command.blocks[depth],
            )
            deeper = {"if", "while", "until", "{"}
            own = next(
                (i for i, word in enumerate(keywords) if i and word in deeper), len(keywords)
            )
            keywords = keywords[:own] if first else []
        if "elif" in keywords or "else" in keywords:
            yield condition, body
            condition, body = (None if "else" in keywords else []), []
            inside = "else" in keywords
        elif "then" in keywords:
            inside = True
        if inside or condition is None:
            body.append(command)
        else:
            condition.append(command)
        previous = command
    yield condition, body


def expand_command(command: Command, variables: ShellVariables) -> Command:
    """A command with the words that bash makes of its words; each stands where its source does."""
    words: list[Word] = []
    for word in command.words:
        segments = split_segments(word.raw)
        if not any(segment.live for segment in segments):
            words.append(word)
            continue
        words += [
            Word(write_field(field), word.line, word.column) for field in variables.expand(word)
        ]
    return command._replace(words=tuple(words))
