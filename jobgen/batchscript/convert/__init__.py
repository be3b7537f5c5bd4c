"""From a #PBS or #SBATCH script that somebody wrote to a spec.

Two things can come of it: a spec that a person would have written, if every statement of the script
is understood; or a spec whose `run.body` is the script's own body, unchanged, which bash runs.
"""

from __future__ import annotations

import os
import re

from jobgen.batchscript.convert.body import advise, name_body, write_body
from jobgen.batchscript.convert.clean import write_clean
from jobgen.batchscript.convert.straight import NotStraightError
from jobgen.batchscript.directives import ARRAYS, settle
from jobgen.batchscript.draft import Draft, Left
from jobgen.batchscript.readable import ImportRefusedError, refuse_unreadable
from jobgen.batchscript.reader import Script
from jobgen.errors import Problem, SpecError, UsageError
from jobgen.plan.resolve import resolve
from jobgen.records import NamedTuple
from jobgen.rendering import header
from jobgen.spec import yaml_nodes
from jobgen.spec.bind import bind
from jobgen.spec.load import LoadedSpec
from jobgen.spec.model import JobSpec


class Imported(NamedTuple):
    """The spec as YAML, what of the script is not in it as it was, and the body that it keeps.

    `body` is the text of the file `body_file`; both are empty where the spec says everything.
    """

    yaml: str
    left: tuple[Left, ...]
    body: str = ""
    body_file: str = ""


def import_script(script: Script) -> Imported:
    """Return the spec of a script, which jobgen can load and render.

    Raises UsageError for a script that jobgen rendered, whose spec exists, and SpecError where the
    text is not a job.
    """
    own = header.read(script.text)
    if own is not None:
        raise UsageError(f"{script.path}: jobgen rendered this script; its spec is {own.spec}")
    script = Script(script.path, re.sub("[\ud800-\udfff]", "\ufffd", script.text))
    refuse_unreadable(script)
    draft = Draft()
    draft.put("scheduler", script.target)
    settle(script, draft)
    _note_index(script, draft)
    if "site" in draft.values:
        draft.values.pop("scheduler", None)
    _put_name(script, draft)
    source = os.path.basename(script.path)
    clean = draft.copy()
    try:
        write_clean(script, clean)
        _check(clean, script, drop=False)
        body, comments, draft = "", [], clean
    except NotStraightError as error:
        body = write_body(script, draft)
        comments = advise(script, error)
        _check(draft, script, drop=True)
    draft.left.sort(key=lambda left: left.line)
    text = draft.yaml(source, comments=comments)
    return Imported(text, tuple(draft.left), body, name_body(script.path) if body else "")


def _note_index(script: Script, draft: Draft) -> None:
    """Name the index of an array that no directive asks for, but the command line may."""
    name = ARRAYS["-J" if script.can.chunks else "--array"]
    asks = any(script.value(option) for option in ARRAYS)
    for line, text in enumerate(script.lines, 1):
        if not asks and re.search(rf"^[^#]*\$\{{?{name}\b(?!:?[-+])", text):
            reason = (
                "is the index of an array, which no directive asks for; write array: {tasks: N}"
            )
            draft.lose(line, f"${name}", reason)
            return


def _put_name(script: Script, draft: Draft) -> None:
    """Give the spec a name: that of the file where the script does not say one."""
    stem = os.path.splitext(os.path.basename(script.path))[0]
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", stem).lstrip("-._")[:100]
    if not draft.values.get("name"):
        draft.put("name", plain or "job")


def _check(draft: Draft, script: Script, *, drop: bool) -> None:
    """Hold a spec to what jobgen takes; with `drop`, take out what it refuses, key by key.

    Raises NotStraightError without `drop`, and ImportRefusedError where nothing helps.
    """
    while True:
        try:
            node = yaml_nodes.parse(draft.yaml(script.path), file="job.yaml")
            spec, positions = bind(node, JobSpec)
            resolve(LoadedSpec(spec, "job.yaml", "", positions))
            return
        except SpecError as error:
            first = error.problems[0]
            message = f"jobgen refuses the spec: {first.path} {first.message}"
            if not drop and not first.path.startswith("directives"):
                raise NotStraightError(script.body_line, message) from None
            before = dict(draft.values), list(draft.values.get("directives", []))
            for problem in sorted(error.problems, key=_count_index, reverse=True):
                _take_out(problem.path, problem.message, draft)
            if (draft.values, draft.values.get("directives", [])) == before:
                raise ImportRefusedError(script, script.body_line, message) from None
            if "site" not in draft.values:
                draft.values.setdefault("scheduler", script.target)
            _put_name(script, draft)


def _count_index(problem: Problem) -> int:
    """Return the index in a problem's path: the last of a list is taken out first."""
    match = re.search(r"\[(\d+)\]", problem.path)
    return int(match[1]) if match else 0


def _take_out(path: str, why: str, draft: Draft) -> None:
    own = re.fullmatch(r"directives\[(\d+)\]", path)
    if own and "directives" in draft.values:
        directives = draft.values["directives"]
        draft.lose(1, directives[int(own[1])], why)
        draft.values["directives"] = [
            text for index, text in enumerate(directives) if index != int(own[1])
        ]
        if not draft.values["directives"]:
            del draft.values["directives"]
        return
    if path == "resources" and "site" in draft.values:
        path = "site"  # what the site wants of every job is not there
    for key in list(draft.values):
        inside = path == key or path.startswith((f"{key}.", f"{key}["))
        if not key.startswith("run.") and (inside or (path and key.startswith(f"{path}."))):
            draft.lose(1, f"{key}: {draft.values.pop(key)}", why)
