"""Words of bash as values of a spec: literal text, or text with $NAME that the job expands."""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Any

from jobgen.batchscript.bash import Field, Segment, Word
from jobgen.batchscript.convert.straight import NotStraightError, refuse
from jobgen.batchscript.expand import PlainVariables
from jobgen.batchscript.purposes import FORMS

_NAME = re.compile(r"\$\{?([A-Za-z_]\w*)\}?", re.ASCII)
_COMMANDS = {"$(pwd)": "$PWD", "`pwd`": "$PWD", "$(whoami)": "$USER", "`whoami`": "$USER"}


class Reader:
    """Reads words at the place of the script where its variables are `variables`."""

    def __init__(self, variables: PlainVariables, *, sourced: bool) -> None:
        self.variables = variables
        self.sourced = sourced  # whether a file of somebody's may have set any variable
        self.asked: set[str] = set()  # the variables that only the folder of submission may have
        self.taken: set[str] = set()  # those without quotes that are taken for one word
        self.named: set[str] = set()  # the script's own that a text names
        self.alone = True  # whether the word is no value of an option

    def read_word(self, word: Word, after: Word | None = None) -> Any:
        """Return what a spec says for the word `after` another."""
        self.alone = len(word.segments) == 1 and not (after and after.text.startswith("-"))
        return self.read_field(word.segments, word.line)

    def read_field(
        self, field: Field, line: int, *, assigned: bool = False, free: Container[str] | None = None
    ) -> Any:
        """Return what a spec says for one field: its text, or that and that the job expands it.

        `free` are the script's own variables that it may name: all that its setup can export,
        unless they are given.
        """
        if free is None:
            free = self.variables.assigned - self.variables.arrays
        text = literal = ""
        for index, part in enumerate(field):
            if part.live:
                text += self._read_live(part, line, free, assigned=assigned)
            elif index == 0 and not part.quoted and re.match(r"~(/|$)", part.text):
                text += "${HOME}" + part.text[1:]
            else:
                _check_plain(part, line, assigned=assigned)
                text += part.text
                literal += part.text
        expands = text != literal
        dollar = expands and re.search(r"[$`\\]", literal)
        refuse(line, {"a value holds a dollar sign beside a variable": dollar})
        several = not text.replace("\t", " ").isprintable()
        refuse(line, {"a value has several lines": several})
        if not expands:
            return text
        return {"value": re.sub(r"\$\{(\w+)\}(?!\w)", r"$\1", text), "expand": True}

    def _read_live(self, part: Segment, line: int, free: Container[str], *, assigned: bool) -> str:
        match = _NAME.fullmatch(_COMMANDS.get(part.text, part.text))
        if not match:
            raise NotStraightError(line, f"only bash knows what {part.text} comes to")
        name = match[1]
        local = any(FORMS[kind].fullmatch(name) for kind in ("of-step", "of-node"))
        refuse(line, {f"${name} is another on every node or in every task": local})
        if name not in free:
            if self._is_everywhere(name, line):
                return f"${{{name}}}"
            self.asked.add(name)
        if not (part.quoted or assigned):
            several = self.alone or name in self.variables.several
            refuse(line, {f"bash splits ${name} into words": several})
            self.taken.add(name)
        self.named.add(name)
        return f"${{{name}}}"

    def _is_everywhere(self, name: str, line: int) -> bool:
        """Whether every job has a variable; if not, it may be set where the job is submitted."""
        assigned = name in self.variables.assigned
        refuse(line, {f"only bash knows what ${name} comes to": assigned})
        of_site = FORMS["site-folder"].fullmatch(name) and not self.sourced
        if of_site or FORMS["everywhere"].fullmatch(name):
            return True
        unsaid = self.sourced or not FORMS["outside"].fullmatch(name)
        refuse(line, {f"the script does not say what ${name} is": unsaid})
        return False


def _check_plain(part: Segment, line: int, *, assigned: bool) -> None:
    """Raise NotStraightError where bash makes other words of plain characters."""
    odd = r"[:=]~" if assigned else r"[*?]|\[[^]]*\]|\{[^{}]*(,|\.\.)[^{}]*\}|^~"
    expands = not part.quoted and re.search(odd, part.text)
    refuse(line, {f"bash expands '{part.text}'": expands})


def get_text(value: Any) -> str:
    """Return the text of what a spec says for a word."""
    return str(value["value"] if isinstance(value, dict) else value)
