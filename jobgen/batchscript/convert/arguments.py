"""The arguments of a script, `$1` and so on, as variables of the shell that submits."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jobgen.batchscript.bash import Command, Word, list_line_starts
from jobgen.batchscript.reader import Script

# What counts or moves the arguments, so that a name for each would not do.
_ALL = re.compile(r"\$\{?[@*]|\$\{[#!][\d@*]")
_NUMBER = re.compile(r"\$([1-9])|\$\{([1-9]\d?)(?=\D)|\$(#|\{#\})")
_MOVING = {"shift", "getopts"}


def name_arguments(script: Script) -> tuple[Script, tuple[str, ...]]:
    """The script with `$ARG1` for `$1`, and those names; as it is where it does more with them."""
    text = script.text.replace("\r\n", "\n")
    own = [item for item in script.commands if not item.function]
    if re.search(r"\bARG\d", text) or any(map(_counts_arguments, own)):
        return script, ()
    starts = list_line_starts(text)
    changes: dict[int, tuple[int, int, str]] = {}
    numbers: set[int] = set()
    for word in (word for item in own for word in _list_words(item)):
        offset = starts[word.line - 1] + word.column - 1
        for start, end, number, name in _find_numbers(word.raw):
            if not text.startswith(word.raw, offset):
                return script, ()
            if number and not re.match(r":?-", word.raw[end : end + 2]):
                numbers.add(number)
            changes[offset + start] = (offset + end, number, name)
    for start in sorted(changes, reverse=True):
        end, number, name = changes[start]
        if number in numbers:
            text = text[:start] + name + text[end:]
        elif number == 0 and numbers:
            text = text[:start] + str(max(numbers)) + text[end:]
    names = tuple(f"ARG{number}" for number in sorted(numbers))
    return (Script(script.path, text), names) if names else (script, ())


def _list_words(command: Command) -> Iterator[Word]:
    yield from command.assignments
    yield from command.words
    yield from (item.target for item in command.redirects)


def _counts_arguments(command: Command) -> bool:
    """Whether a command uses the arguments other than one by one."""
    if command.name in _MOVING or command.texts[:2] == ["set", "--"]:
        return True
    if any(_NUMBER.search(item.body) for item in command.heredocs):
        return True
    if command.name in ("for", "select") and len(command.words) == 2:
        return True
    return any(_ALL.search(word.active) for word in _list_words(command))


def _find_numbers(raw: str) -> Iterator[tuple[int, int, int, str]]:
    """Where `$1` stands in a word, and not in single quotes: start, end, number, its new text.

    The number of `$#` is 0.
    """
    index, quoted = 0, [False]  # by double quotes, in each substitution around
    while index < len(raw):
        if raw[index] == "\\":
            index += 2
        elif raw[index] == "'" and not quoted[-1]:
            end = raw.find("'", index + 1)
            index = len(raw) if end < 0 else end + 1
        elif raw[index] == '"':
            quoted[-1] = not quoted[-1]
            index += 1
        elif raw.startswith("$(", index):
            quoted.append(False)
            index += 2
        elif raw[index] == ")" and len(quoted) > 1 and not quoted[-1]:
            quoted.pop()
            index += 1
        elif match := _NUMBER.match(raw, index):
            name = f"${{ARG{match[1]}}}" if match[1] else f"${{ARG{match[2]}"
            yield index, match.end(), int(match[1] or match[2] or 0), name
            index = match.end()
        else:
            index += 1
