"""What the commands of job scripts are for: to print, to prepare, or to be the job."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import SimpleNamespace

from jobgen.batchscript.bash import Command, Redirect, parse, split_segments
from jobgen.batchscript.launchers import Started, unwrap
from jobgen.spec.tables import read_rows

_KINDS = {kind: {*words.split()} for kind, words in read_rows("commands.txt", room="batchscript")}
PRINTS, FILTERS, HEADS = (_KINDS[kind] for kind in ("prints", "filters", "heads"))
REPEATABLE, ENVIRONMENTS = _KINDS["repeatable"], _KINDS["environments"]
HARMLESS = PRINTS | HEADS | {"wait", "set"}
PREPARING = FILTERS | _KINDS["preparing"]
HELPING = PREPARING | HARMLESS  # look at the node that they run on, or get its files ready
_FORMS = read_rows("forms.txt", room="batchscript")
# Whole commands and variables, by what they are.
FORMS = {
    kind: re.compile("|".join(form for own, form in _FORMS if own == kind), re.DOTALL)
    for kind in dict.fromkeys(kind for kind, _ in _FORMS)
}
# Why something is kept, lost, or to be looked at, by names; those of a kind are that kind's.
WHY = SimpleNamespace(**dict(read_rows("reasons.txt", room="batchscript")))
# What only readies things for a program; Python is given lines of its own to look at some.
_OF_PYTHON = rf"\S*python\S* ({FORMS['makes'].pattern}|(-c|-V|--version)\b|-( |$))"
READIES = re.compile(f"{_OF_PYTHON}|{FORMS['readies'].pattern}")


def trains(started: Started) -> bool:
    """Whether it is of the kind that trains, and gets nothing ready."""
    text = " ".join(started.texts)
    readies = READIES.match(text) or FORMS["stages"].match(text)
    return FORMS["trains"].fullmatch(started.name) is not None and not readies


def works(started: Started) -> bool:
    """Whether it does more than to help others."""
    return started.name not in HELPING


def is_quiet(redirect: Redirect) -> bool:
    """Whether output goes nowhere, or only from one stream to the other."""
    quiet = redirect.target.text in ("/dev/null", "&1", "&2", "1", "2")
    return quiet or redirect.operator.startswith("<<")


def list_pure(command: Command) -> bool:
    """Whether what a command substitutes leaves nothing behind."""
    return all(is_pure(word.raw) for word in command.all_words)


def is_pure(raw: str) -> bool:
    """Whether the commands that a word runs leave nothing behind."""
    return all(map(leaves_nothing, read_substituted(raw)))


def leaves_nothing(command: Command) -> bool:
    """Whether a command only reads, and writes to its output."""
    started = unwrap(command.words)
    known = started.name in PRINTS | FILTERS or FORMS["of-line"].match(" ".join(started.texts))
    if command.words and not known:
        return False
    writes = [item for item in command.redirects if not item.operator.startswith("<")]
    return all(map(is_quiet, writes)) and all(is_pure(word.raw) for word in command.words)


def only_looks(command: Command) -> bool:
    """Whether a command leaves nothing behind, as do words of the shell, waits and exits."""
    of_shell = command.name in HEADS | {"exit", "wait", "set"} and not command.redirects
    return (of_shell and list_pure(command)) or leaves_nothing(command)


def reads_settings(command: Command) -> bool:
    """Whether a command reads a file that may set the script's variables or folder."""
    reads = FORMS["settings"].match(" ".join(command.texts))
    return bool(reads) and not FORMS["familiar"].search(" ".join(command.texts[1:2]))


def read_substituted(raw: str) -> list[Command]:
    """Return the commands that a word runs."""
    return [command for inner in list_substituted(raw) for command in parse(inner)]


def list_substituted(raw: str) -> Iterator[str]:
    """The texts of the commands that a word runs."""
    text = raw.partition("=(")[2].removesuffix(")") if re.match(r"\w+\+?=\(", raw) else raw
    for segment in split_segments(text):
        # Of a default that runs something, the whole: no command is called that.
        if inner := FORMS["substituted"].fullmatch(segment.text if segment.live else ""):
            yield inner[inner.lastindex or 0]
