"""The settings in an answer at the prompt: what an option of others sets in a spec."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress

from jobgen.batchscript.directives import settle
from jobgen.batchscript.draft import Draft
from jobgen.batchscript.reader import Script
from jobgen.cli.target import SHORTCUTS
from jobgen.errors import JobgenError, Position, UsageError
from jobgen.output import offer_line
from jobgen.plan.resolve import resolve
from jobgen.spec.arguments import write_words
from jobgen.spec.bind import find_faults
from jobgen.spec.edit import list_values
from jobgen.spec.load import load
from jobgen.spec.model import JobSpec
from jobgen.spec.words import Hint, Stranger, suggest_key
from jobgen.spec.yaml_nodes import Scalar

# What is said of a directive, and of what it is for.
_DIRECTIVE = re.compile(
    r"(?P<lead>(?!leave).*?)(?:on \w+, |for a start time, )?"
    r"write directives: \['(?P<line>#\w+ .*?)'\](?: in the spec)?(?:; )?(?P<end>.*)"
)


def look_up(word: str, value: str, short: Mapping[str, str], *, whole: bool) -> dict[str, str]:
    """Return what to type for an option of others that sets something of a spec, or what to know.

    `short` has the options for some keys; `whole`: the command takes any setting.
    """
    hint, chunks = _find_hint(word, value), _read_chunks(value)
    if "run.args" in hint.text and not chunks:  # an argument of the program
        return {}
    if line := _write_line(chunks or _list_settings(hint, value), value, short):
        own = whole or "--set" not in line
        return {"type": line} if own else {"say": f"leave it out, and give {line} when you submit"}
    place = " in the spec" if "write " in hint.text else ""
    return {"say": hint.text.replace("this key", "the option") + place if whole else ""}


def _find_hint(word: str, value: str) -> Hint:
    """Return what to write for an option as if it were a key of a spec, with its value."""
    form = "int" if value.isdecimal() else "str"
    node = Scalar(Position(""), value, form) if value else Scalar(Position(""), "true", "bool")
    return suggest_key(Stranger(word.rpartition(".")[2], node, "", JobSpec, JobSpec, find_faults))


def _write_line(settings: Mapping[str, str], value: str, short: Mapping[str, str]) -> str:
    """Return the options for settings; a number that was not typed is an example of one."""
    typed = re.search(r"\d", value)
    words = list[str]()
    for path, shown in settings.items():
        text = shown if typed else re.sub(r"^\d.*", "VALUE", shown)
        name = short.get(path.rpartition(".")[2])
        words += [name, text] if name else ["--set", f"{path}={text}"]
    return offer_line(*words).replace("...", "VALUE")


def _read_chunks(value: str) -> dict[str, str]:
    """Return what a request of PBS sets in a spec, as import reads it; of what no spec says, {}."""
    if not re.match("(select|nodes|walltime)=", value):
        return {}
    draft = Draft()
    settle(Script("job.pbs", f"#!/bin/bash\n#PBS -l {value}\n"), draft)
    if "directives" in draft.values:  # which are refused, as keys decide the same
        return {}
    return {path: str(text) for path, text in draft.values.items()}


def _list_settings(hint: Hint, value: str = "") -> dict[str, str]:
    """Return the paths and values that a hint says to write."""
    if "write directives" in hint.text:  # the spec may have others
        return {}
    form = r"(?:as in|write) ([\w.]+: .+?)(?:(?:;|,? or|, (?:at the|for)) .*)?$"
    if shown := re.search(form, hint.text):
        values = dict[str, str]()
        with suppress(UsageError):  # several values, of which one is to be chosen
            values = list_values(f"{{{shown[1]}}}")
        inner = {path.rpartition(".")[0] for path in values}
        inner |= {path for path in values if path.startswith("run.args.")}  # a list has none
        return {path: text for path, text in values.items() if path not in inner}
    return {hint.meant: value or "VALUE"} if hint.meant else {}


def read_own(path: str) -> JobSpec | None:
    """Return a spec; None if it cannot be read."""
    with suppress(JobgenError):  # told of when the command runs
        return load(path).spec
    return None


def part_line(line: str) -> list[list[str]]:
    """Return the options of a line, each with its value."""
    words = shlex.split(line)
    starts = [at for at, word in enumerate(words) if word.startswith("-")]
    ends = [*starts[1:], len(words)]
    return [words[start:end] for start, end in zip(starts, ends, strict=True)]


def name_setting(words: Sequence[str]) -> str:
    """Return the path that an option with its value sets; of another, the whole of it."""
    if words[0] == "--set":
        return words[1].partition("=")[0]
    return next((path for path, row in SHORTCUTS.items() if words[0] in row[0]), offer_line(*words))


def take_directive(spec: str, say: str) -> tuple[str, str]:
    """Return a directive that is to be written, if the spec takes it, and what else is said."""
    shown = _DIRECTIVE.fullmatch(say)
    if not shown:
        return "", say
    sign = shown["line"].partition(" ")[0]
    with suppress(JobgenError):  # a spec that cannot be read takes any
        if resolve(load(spec)).can.sign != sign:
            named = say.startswith("on ")
            return "", say if named else f"where the scheduler reads {sign}, {say}"
    return shown["line"], f"{shown['lead']}{shown['end']}".rstrip("; ")


def add_directives(spec: str, directives: Sequence[str]) -> list[list[str]]:
    """Return the setting of directives beside those that a spec has; none without any to add."""
    known = getattr(read_own(spec), "directives", ())
    return [["--set", f"directives={json.dumps([*known, *directives])}"]] if directives else []


def find_refusal(spec: str, words: Sequence[str]) -> str:
    """Return what to write where the program of a spec surely takes no such words; else nothing."""
    from jobgen.programs import look_at

    with suppress(JobgenError):  # told of when the command runs
        remarks = look_at(resolve(load(spec, [write_words(words)]))) if spec else []
        return next((one.hint for one in remarks if one.rule == "unknown-argument"), "")
    return ""
