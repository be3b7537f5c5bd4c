"""The settings in an answer at the prompt: what an option sets in a spec, and whether that fits."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress

from jobgen.batchscript.directives import settle
from jobgen.batchscript.draft import Draft
from jobgen.batchscript.reader import Script
from jobgen.cli.options import SPEC_ENDS
from jobgen.cli.target import SHORTCUTS
from jobgen.errors import JobgenError, Position, Problem
from jobgen.plan.resolve import resolve
from jobgen.spec.arguments import write_words
from jobgen.spec.bind import find_faults
from jobgen.spec.edit import list_values
from jobgen.spec.fields import join_path, read_fields
from jobgen.spec.load import load
from jobgen.spec.model import JobSpec
from jobgen.spec.words import Hint, suggest_key
from jobgen.spec.yaml_nodes import Scalar

# A setting in a message, whose value is not the user's to choose.
_SET = re.compile(r"--set ('[^'=]*=(?!VALUE)[^']+'|[^\s;,'=]+=(?!VALUE)[^\s;,']+)")


def look_up(word: str, value: str, short: Mapping[str, str], *, whole: bool) -> dict[str, str]:
    """Return what to type for an option of others that sets something of a spec, or what to know.

    `short` has the options for some keys; `whole`: the command takes any setting.
    """
    form = "int" if value.isdecimal() else "str" if value else "bool"
    node, key = Scalar(Position(""), value or "true", form), word.rpartition(".")[2]
    hint = suggest_key(key, node, path="", check=find_faults, root=JobSpec, cls=JobSpec)
    chunks = _read_chunks(value)
    if "run.args" in hint.text and not chunks:  # an argument of the program
        return {}
    words = list[str]()
    for path, text in (chunks or _list_settings(hint, value)).items():
        name = short.get(path.rpartition(".")[2])
        words += [name, text] if name else ["--set", f"{path}={text}"]
    line = shlex.join(words).replace("...", "VALUE")
    if line and (whole or "--set" not in words):
        return {"type": line}
    if line:
        return {"say": f"give {line} when you submit"}
    return {"say": _name_place(hint.text) if whole else ""}


def _name_place(text: str) -> str:
    """Return the text of a hint for an option."""
    text = text.replace("this key", "the option")
    return f"{text} in the spec" if "write " in text else text


def _read_chunks(value: str) -> dict[str, str]:
    """Return what a request of PBS sets in a spec, as import reads it."""
    if not re.match("(select|nodes|walltime)=", value):
        return {}
    draft = Draft()
    settle(Script("job.pbs", f"#!/bin/bash\n#PBS -l {value}\n"), draft)
    return {path: str(text) for path, text in draft.values.items()}


def _list_settings(hint: Hint, value: str = "") -> dict[str, str]:
    """Return the paths and values that a hint says to write; `make_room` judges these."""
    if "write directives" in hint.text:  # the spec may have others
        return {}
    if shown := re.search(
        r"(?:as in|write) ([\w.]+: .+?)(?:(?:;|, (?:at the|for|or)) .*)?$", hint.text
    ):
        values = list_values(f"{{{shown[1]}}}")
        inner = {path.rpartition(".")[0] for path in values}
        inner |= {path for path in values if path.startswith("run.args.")}  # a list has none
        return {path: text for path, text in values.items() if path not in inner}
    return {hint.meant: value or "VALUE"} if hint.meant else {}


def find_refusal(spec: str, words: Sequence[str]) -> str:
    """Return what to write where the program of a spec surely takes no such words; else nothing."""
    from jobgen.programs import look_at

    with suppress(JobgenError):  # told of when the command runs
        remarks = look_at(resolve(load(spec, [write_words(words)]))) if spec else []
        return next((one.hint for one in remarks if one.rule == "unknown-argument"), "")
    return ""


def explain_setting(problem: Problem, words: Sequence[str]) -> str:
    """Return what is wrong with a setting, named by the option among the words, and what to type.

    What is wrong in a file is returned as it is.
    """
    path = problem.where.file.removeprefix("--set ")
    if path == problem.where.file:
        return str(problem)
    given = [word.partition(f"{path}=")[2] for word in words if f"{path}=" in word]
    names = () if given else SHORTCUTS.get(path, [()])[0]
    typed = next((name for name in names for word in words if word.startswith(name)), "")
    where = Position(typed) if typed else problem.where
    hint = _type_hint(problem, path, "".join(given[:1]))
    return make_room(str(problem._replace(where=where, hint=hint)), words)


def _type_hint(problem: Problem, path: str, given: str) -> str:
    """Return what a problem says to write as what to type; a record shows keys without its path."""
    outer, hint = problem.path.rpartition(".")[0], problem.hint
    near = re.match(r"did you mean '(\w+)'", hint)
    inner = path.removeprefix(problem.path)
    settings = {near[1] + inner: given} if near and given else _list_settings(Hint(hint))
    whole = read_fields(JobSpec).keys()
    paths = {
        one: one if one.partition(".")[0] in whole else join_path(outer, one) for one in settings
    }
    if line := " ".join(shlex.join(["--set", f"{paths[one]}={settings[one]}"]) for one in settings):
        lead = re.sub(r"(, as in|write) [\w.]+: .*", "", hint).strip()
        return f"{lead}; type: {line}".removeprefix("; ")
    if "run.args" in hint and given:
        name = path.removeprefix("args.")
        return f"for the program, end the line with: -- {shlex.join([f'--{name}', given])}"
    return hint


def make_room(message: str, words: Sequence[str] = ()) -> str:
    """Return a message whose settings the spec takes: with what they need, and exclude.

    Of a value that is refused, it says why. What was typed so, the command judges when it runs.
    """
    spec = next((word for word in words if word.endswith(SPEC_ENDS)), "job.yaml")
    shown = {typed[0]: typed[1].strip("'") for typed in _SET.finditer(message)}
    given = {text.partition("=")[0]: typed for typed, text in shown.items() if text not in words}
    if not given:
        return message
    own = {problem.path for problem in _list_problems(spec, [])}
    for problem in _list_problems(spec, [shown[typed] for typed in given.values()]):
        if problem.path not in own:
            message = _solve(message, problem, given)
    return message


def _solve(message: str, problem: Problem, given: Mapping[str, str]) -> str:
    """Return a message with what solves a problem of the settings in it, or with the problem."""
    key, missing = problem.setting.partition("=")[0], re.match(r"add (\w+): (\w+)", problem.hint)
    typed = given.get(problem.path, [*given.values()][-1])
    setting = f"{problem.path}.{missing[1]}={missing[2]}" if missing else problem.setting
    if key in given and problem.path not in given:  # of two that exclude each other
        typed, setting = given[key], f"{problem.path}=null"
    if setting:
        return message.replace(typed, f"--set {setting} {typed}")
    if problem.path not in given:
        return message
    refused = re.sub("=.*", "=VALUE", typed).replace("'", "")
    return f"{message.replace(typed, refused)}; {problem.message}; {problem.hint}"


def _list_problems(spec: str, settings: Sequence[str]) -> Sequence[Problem]:
    """Return what is wrong with a spec with settings; nothing of one that cannot be read."""
    try:
        resolve(load(spec, settings))
    except JobgenError as error:
        return getattr(error, "problems", ())
    return ()
