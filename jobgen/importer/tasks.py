"""From the table of tasks of a rendered array back to the spec's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from jobgen.importer.draft import Draft
from jobgen.script import Script
from jobgen.shell import Word, parse


def settle_tasks(script: Script, draft: Draft) -> None:
    """Put the array of one of jobgen's own scripts into `draft`, where it has one."""
    tasks: list[dict[str, Any]] = []
    for command in script.commands:
        found = {name: (word, raw) for name, word, raw in command.variables()}
        if "block" in command.inside and "arguments" in found:
            _, raw = found.pop("arguments")
            chosen = dict(_options([word.text for word in parse(f"x {raw[1:-1]}")[0].words[1:]]))
            for name, (word, raw) in found.items():
                value = Word(raw, word.line, word.column).text
                chosen[f"environment.variables.{name}"] = value
            tasks.append(chosen)
    alone = re.search(r"^    export JOBGEN_TASK=(\d+)$", script.text, re.MULTILINE)
    if alone and alone[1] == "0":
        draft.put("array.tasks", 1)
    elif alone:
        line = script.text.count("\n", 0, alone.start()) + 1
        draft.leave(line, alone[0], "only a task of an array has it")
    elif any(tasks):
        draft.values.pop("array.tasks", None)  # which the directive has said
        draft.put("array.list", tasks)
    else:
        draft.put("array.tasks", len(tasks) or None)
    if match := re.search(r"\$\{#running\[@\]\} < (\d+)\)\)", script.text):  # on this machine
        draft.put("array.at_once", int(match[1]))


def settle_range(text: str, draft: Draft) -> bool:
    """Put `0-9%2` into `draft`; False where it is no such range."""
    match = re.fullmatch(r"0-(\d{1,4})(?:%(\d{1,5}))?", text, re.ASCII)
    if not match or int(match[1]) == 0 or match[2] == "0":
        return False
    draft.put("array.tasks", int(match[1]) + 1)
    draft.put("array.at_once", int(match[2]) if match[2] else None)
    return True


def _options(words: list[str]) -> Iterator[tuple[str, Any]]:
    """The options in the words that a task adds, with their values: true, a text, or a list."""
    index = 0
    while index < len(words):
        option, equals, value = words[index].partition("=")
        index += 1
        key = option[2:] if re.fullmatch(r"--[a-z][a-z_-]+", option) else option
        if equals:
            yield key, value
            continue
        first = index
        while index < len(words) and not words[index].startswith("-"):
            index += 1
        values = words[first:index]
        yield key, True if not values else values[0] if len(values) == 1 else values
