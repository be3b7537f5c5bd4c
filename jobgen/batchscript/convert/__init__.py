"""From a #PBS or #SBATCH script that somebody wrote to a spec.

What a spec cannot say is kept verbatim in `directives` or `environment.setup`, or listed.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from jobgen import process
from jobgen.batchscript.convert.arguments import name_arguments
from jobgen.batchscript.convert.body import settle_body
from jobgen.batchscript.convert.directives import ARRAYS, settle, settle_range
from jobgen.batchscript.convert.draft import Draft, Left
from jobgen.batchscript.convert.launch import ImportRefusedError
from jobgen.batchscript.convert.program import count_agents
from jobgen.batchscript.convert.readable import refuse_unreadable
from jobgen.batchscript.reader import Script
from jobgen.errors import Position, Problem, SpecError, UsageError
from jobgen.plan.resolve import resolve
from jobgen.rendering import header
from jobgen.spec import yaml_nodes
from jobgen.spec.bind import bind
from jobgen.spec.load import LoadedSpec
from jobgen.spec.model import JobSpec


class Imported(NamedTuple):
    """The spec as YAML, and what of the script is not in it as it was."""

    yaml: str
    left: tuple[Left, ...]


def import_script(script: Script) -> Imported:
    """The spec of a script, which jobgen can load and render.

    Raises UsageError for a script that jobgen rendered, whose spec exists, and SpecError where the
    script cannot become a spec.
    """
    own = header.read(script.text)
    if own is not None:
        raise UsageError(f"{script.path}: jobgen rendered this script; its spec is {own.spec}")
    script = Script(script.path, re.sub("[\ud800-\udfff]", "\ufffd", script.text))
    refuse_unreadable(script)
    script, arguments = name_arguments(_rename_index(script))
    draft = Draft()
    draft.put("environment.from_shell", list(arguments) or None)
    draft.put("scheduler", script.scheduler or "slurm")
    settle(script, draft, nodes=script.nodes or count_agents(script))
    settle_body(script, draft)
    draft.values.pop("tasks", None)
    _keep_used(draft)
    if "site" in draft.values:
        draft.values.pop("scheduler", None)
    _name(script, draft)
    _drop_unreadable_setup(script, draft)
    _drop_refused(script, draft)
    draft.left.sort(key=lambda left: left.line)
    return Imported(draft.yaml(os.path.basename(script.path)), tuple(draft.left))


def _rename_index(script: Script) -> Script:
    """The script with jobgen's name for an array's index, where a spec can have its array."""
    if not settle_range(script.value(*ARRAYS) or "", Draft()):
        return script
    text = re.sub(rf"\b({'|'.join(ARRAYS.values())})\b", "JOBGEN_TASK", script.text)
    return Script(script.path, text)


def _keep_used(draft: Draft) -> None:
    """Of the script's arguments, those that the spec uses."""
    names = draft.values.pop("environment.from_shell", [])
    text = str(draft.values)
    used = [name for name in names if re.search(rf"\b{name}\b", text)]
    if used:
        draft.put("environment.from_shell", used)
        message = "arguments of the script: export them where you submit"
        draft.check(1, ", ".join(used), message)


def _name(script: Script, draft: Draft) -> None:
    """A name, which every spec has: that of the file where the script does not say it."""
    stem = os.path.splitext(os.path.basename(script.path))[0]
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", stem).lstrip("-._")[:100]
    draft.values.setdefault("name", plain or "job")


def _drop_unreadable_setup(script: Script, draft: Draft) -> None:
    """Refuse lines of `setup` that are not whole commands."""
    setup = draft.values.get("environment.setup")
    if setup:
        try:
            process.check_syntax(f"load_environment() {{\n{setup}\n}}\n", Position("setup"))
        except SpecError:
            message = "the lines before the program cannot be taken apart"
            raise ImportRefusedError(script, script.body_line, message) from None


def _drop_refused(script: Script, draft: Draft) -> None:
    """Take out, key by key, what jobgen refuses in a spec."""
    while True:
        try:
            node = yaml_nodes.parse(draft.yaml(script.path), file="job.yaml")
            spec, positions = bind(node, JobSpec)
            resolve(LoadedSpec(spec, "job.yaml", "", positions))
            return
        except SpecError as error:
            before = draft.yaml(script.path)
            for problem in sorted(error.problems, key=_count_index, reverse=True):
                _take_out(problem.path, problem.message, draft)
            if draft.yaml(script.path) == before or not any(
                key.startswith("run.") for key in draft.values
            ):
                first = error.problems[0]
                message = f"jobgen refuses the spec: {first.path} {first.message}"
                raise ImportRefusedError(script, script.body_line, message) from None
            if "site" not in draft.values:
                draft.values.setdefault("scheduler", script.scheduler or "slurm")
            _name(script, draft)


def _count_index(problem: Problem) -> int:
    """The index in a problem's path: the last of a list is taken out first."""
    match = re.search(r"\[(\d+)\]", problem.path)
    return int(match[1]) if match else 0


def _take_out(path: str, why: str, draft: Draft) -> None:
    own = re.fullmatch(r"directives\[(\d+)\]", path)
    if own and "directives" in draft.values:
        draft.lose(1, draft.values["directives"].pop(int(own[1])), why)
        if not draft.values["directives"]:
            del draft.values["directives"]
        return
    if path == "resources" and "site" in draft.values:
        path = "site"  # what the site wants of every job is not there
    for key in list(draft.values):
        inside = path == key or path.startswith((f"{key}.", f"{key}["))
        if inside or (path and key.startswith(f"{path}.")):
            draft.lose(1, f"{key}: {draft.values.pop(key)}", why)
