"""Words of bash as values of a spec: literal text, or text with $NAME that the job expands."""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Any

from jobgen.batchscript.bash import Field, Segment, Word
from jobgen.batchscript.convert.straight import NotStraightError, refuse
from jobgen.batchscript.expand import PlainVariables
from jobgen.batchscript.purposes import FORMS, WHY

_NAME = re.compile(r"\$\{?([A-Za-z_]\w*)\}?", re.ASCII)
_COMMANDS = {"$(pwd)": "$PWD", "`pwd`": "$PWD", "$(whoami)": "$USER", "`whoami`": "$USER"}
_UNKNOWN = "only bash knows what {} comes to"


class Reader:
    """Reads words at the place of the script where its variables are `variables`."""

    def __init__(self, variables: PlainVariables, *, sourced: bool) -> None:
        self.variables = variables
        self.sourced = sourced  # whether a file of somebody's may have set any variable
        self.asked, self.named = set[str](), set[str]()  # those of the submission, and all
        self.alone = True  # whether the word is no value of an option

    def read_word(self, word: Word, after: Word | None = None) -> Any:
        """Return what a spec says for the word `after` another."""
        self.alone = len(word.segments) == 1 and not (after and after.text.startswith("-"))
        # What only a condition or a builtin sets is for bash to know.
        free = self.variables.assigned - self.variables.arrays.keys() - self.variables.loose
        return self.read_field(word.segments, word.line, free=free)

    def read_field(
        self, field: Field, line: int, *, free: Container[str], assigned: bool = False
    ) -> Any:
        """Return what a spec says for one field, which may name the script's variables `free`."""
        text = literal = ""
        for index, part in enumerate(field):
            if part.live:
                text += self._read_live(part, line, free, assigned=assigned)
            elif index == 0 and not part.quoted and re.match(r"~(/|$)", part.text):
                text += "${HOME}" + part.text[1:]
            else:
                odd = r"[:=]~" if assigned else r"[*?]|\[[^]]*\]|\{[^{}]*(,|\.\.)[^{}]*\}|^~"
                split = not part.quoted and re.search(odd, part.text)  # other words of bash
                refuse(line, _UNKNOWN.format(part.text), split)
                text += part.text
                literal += part.text
        expands = text != literal
        kept = expands and re.search(r"[$`\\]", literal)
        refuse(line, "bash expands a part of a word that keeps a $, ` or \\", kept)
        refuse(line, WHY.KEY, not text.replace("\t", " ").isprintable())
        if not expands:
            return text
        return {"value": re.sub(r"\$\{(\w+)\}(?!\w)", r"$\1", text), "expand": True}

    def _read_live(self, part: Segment, line: int, free: Container[str], *, assigned: bool) -> str:
        match = _NAME.fullmatch(_COMMANDS.get(part.text, part.text))
        if not match:
            raise NotStraightError(line, _UNKNOWN.format(part.text))
        name = match[1]
        local = [FORMS[kind].fullmatch(name) for kind in ("of-step", "of-node")]
        refuse(line, f"${name} is that of the first node and task", *local)
        if name not in free:
            if self.is_everywhere(name, line):
                return f"${{{name}}}"
            self.asked.add(name)
        if not (part.quoted or assigned):
            several = self.alone or name in self.variables.several
            splits = several and not self.variables.is_one_word(name)
            refuse(line, f"bash may split ${name} into several words", splits)
        self.named.add(name)
        return f"${{{name}}}"

    def is_everywhere(self, name: str, line: int) -> bool:
        """Whether every job has a variable; if not, it may be set where the job is submitted."""
        reason = _UNKNOWN.format(f"${name}")
        refuse(line, reason, name in self.variables.assigned)
        of_site = FORMS["site-folder"].fullmatch(name) and not self.sourced
        if of_site or FORMS["everywhere"].fullmatch(name):
            return True
        refuse(line, reason, self.sourced, not FORMS["outside"].fullmatch(name))
        return False


def get_text(value: Any) -> str:
    """Return the text of what a spec says for a word."""
    return str(value["value"] if isinstance(value, dict) else value)
