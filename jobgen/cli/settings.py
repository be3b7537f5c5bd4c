"""The settings in an answer at the prompt: what an option sets in a spec, and whether that fits."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import pairwise

from jobgen.batchscript.directives import settle
from jobgen.batchscript.draft import Draft
from jobgen.batchscript.reader import Script
from jobgen.cli.options import SPEC_ENDS
from jobgen.cli.target import SHORTCUTS
from jobgen.cli.typed import end_line, find_typed, name_line, part_options, pick, retype
from jobgen.errors import JobgenError, Position, Problem, UsageError
from jobgen.plan.resolve import resolve
from jobgen.spec.arguments import write_words
from jobgen.spec.bind import find_faults
from jobgen.spec.edit import list_values
from jobgen.spec.fields import join_path, read_fields
from jobgen.spec.load import load
from jobgen.spec.model import JobSpec
from jobgen.spec.table import find_rule
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
    return shlex.join(words).replace("...", "VALUE")


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
    """Return the options of a line, each with its value, which may have blanks and quotes."""
    words = line.split()
    with suppress(ValueError):
        words = shlex.split(line)
    starts = [at for at, word in enumerate(words) if word.startswith("-")]
    ends = [*starts[1:], len(words)]
    parts = [words[start:end] for start, end in zip(starts, ends, strict=True)]
    return [[option, " ".join(value)] if value else [option] for option, *value in parts]


def name_setting(words: Sequence[str]) -> str:
    """Return the path that an option with its value sets; of another, the whole of it."""
    if words[0] == "--set":
        return words[1].partition("=")[0]
    return next((path for path, row in SHORTCUTS.items() if words[0] in row[0]), shlex.join(words))


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


def explain_error(error: JobgenError, argv: Sequence[str]) -> str:
    """Return what an error says, and the whole line to type where it tells what was meant.

    A setting that is wrong is named by the option among the words that gave it.
    """
    words = now = part_options(argv)
    lines = list[str]()
    for problem in error.problems:
        text, now = _explain_setting(problem, now)
        lines.append(text)
    text = re.sub("(?:, or)?[,; ]*\n", "\n", "\n".join(lines) or str(error))
    if now != words:
        return name_line(text, words, now)
    facts = {"message": text, "plain": " ".join(words), "at": words[0]}
    say = find_rule("usage", facts).get("say", "")
    return f"{text}; {say}".rstrip() if say else end_line(text, words)


def _explain_setting(problem: Problem, words: list[str]) -> tuple[str, list[str]]:
    """Return what is wrong with a setting, and the words with what is meant in its place.

    What is wrong in a file is returned as it is.
    """
    path = problem.where.file.removeprefix("--set ")
    if path == problem.where.file:
        return str(problem), words
    start, given = "", ""
    option, value = find_typed(words, SHORTCUTS.get(path, [()])[0])
    where = Position(option)
    if not option:
        option, value = find_typed(words, ("--set",), f"{path}=")
        where, start, given = problem.where, f"{path}=", value.partition("=")[2]
    hint, meant, behind = _read_hint(problem, path, given)
    if behind and find_refusal(_find_spec(words), behind[1:]):
        hint, behind = problem.hint, []
    text = str(problem._replace(where=where, hint=hint))
    if not (meant or behind):
        row = find_rule("retyped", {"message": text})
        if not row:
            return text, words
        text += f"; {row.get('say', '')}"
        meant = [option, start + row.get("meant", value)]
    if ", or write" in problem.hint:  # beside the setting, and not in its place
        meant = [option, value, *meant]
    return text, [*_replace(words, option, value, meant), *behind] if option else words


def _replace(words: list[str], option: str, value: str, meant: Sequence[str]) -> list[str]:
    """Return words with others in the place of a setting, and of what else sets the same."""
    now = retype(words, option, value, meant)
    paths = {*map(name_setting, pairwise(meant))}
    for other in pairwise(words):
        if other != (option, value) and name_setting(other) in paths:
            now = retype(now, *other, [])
    return now


def _list_meant(problem: Problem, path: str, given: str) -> dict[str, str]:
    """Return the setting with the key, or the value, that is spelt nearly so; none without one."""
    near = re.match(r"(?:did you mean '|write (?=\w+\.))([\w.]+)(?:'| for )", problem.hint)
    if not (near and given):
        return {}
    if f"'{given}'" in problem.message:
        return {problem.path: near[1]}
    return {near[1] + path.removeprefix(problem.path): given}


def _read_hint(problem: Problem, path: str, given: str) -> tuple[str, list[str], list[str]]:
    """Return the hint of a problem, the words to type in place of the setting, and at the end.

    A record shows keys without its path. One of several that was typed whole is left.
    """
    if problem.path.startswith((f"{path}.", f"{path}[")) and "," in given:
        return problem.hint, [], []
    outer, hint = problem.path.rpartition(".")[0], problem.hint
    settings = _list_meant(problem, path, given) or _list_settings(Hint(hint))
    whole = read_fields(JobSpec).keys()
    words = list[str]()
    for one, value in settings.items():
        full = one if one.partition(".")[0] in whole else join_path(outer, one)
        words += ["--set", f"{full}={value}"]
    if words:
        return re.sub(r"(, as in|write) [\w.]+: .*", "", hint).strip(), words, []
    if "run.args" in hint and given:
        return "it is for the program", [], ["--", f"--{path.removeprefix('args.')}", given]
    return hint, [], []


def _find_spec(words: Sequence[str]) -> str:
    """Return the spec that is here and named by one of some words, or else the usual one."""
    return next(filter(os.path.isfile, pick(words, SPEC_ENDS)), "job.yaml")
