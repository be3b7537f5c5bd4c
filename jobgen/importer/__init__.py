"""From a #PBS or #SBATCH script to a spec: what people have, in jobgen's words.

What a spec cannot say is kept verbatim in `directives` or `environment.setup`, or listed.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from jobgen import document, header, process
from jobgen.bind import bind
from jobgen.errors import Position, SpecError
from jobgen.importer.body import agents, settle_body
from jobgen.importer.directives import settle
from jobgen.importer.draft import Draft, Left
from jobgen.importer.own import settle_own
from jobgen.importer.tasks import settle_range
from jobgen.loaded import LoadedSpec
from jobgen.plan import resolve
from jobgen.script import Script
from jobgen.spec import JobSpec


class Imported(NamedTuple):
    """The spec as YAML, and what of the script is not in it as it was."""

    yaml: str
    left: tuple[Left, ...]


def import_script(script: Script) -> Imported:
    """The spec of a script; whatever the script, jobgen can load and render the spec."""
    script = Script(script.path, re.sub("[\ud800-\udfff]", "\ufffd", script.text))
    draft = Draft()
    own = header.read(script.text)
    if own is None or not settle_own(script, own, draft):
        draft = Draft()
        draft.put("scheduler", script.scheduler or "slurm")
        script = _numbered(script)
        settle(script, draft, nodes=script.nodes or agents(script))
        settle_body(script, draft)
        draft.values.pop("tasks", None)
    if "site" in draft.values:
        draft.values.pop("scheduler", None)
    _complete(script, draft)
    _bash_can_read(draft)
    _jobgen_can_read(script, draft)
    draft.left.sort(key=lambda left: left.line)
    return Imported(draft.yaml(os.path.basename(script.path)), tuple(draft.left))


def _numbered(script: Script) -> Script:
    """The script with jobgen's name for an array's index, where a spec can have its array."""
    if not settle_range(script.value("--array", "-J") or "", Draft()):
        return script
    text = re.sub(r"\b(SLURM_ARRAY_TASK_ID|PBS_ARRAY_INDEX)\b", "JOBGEN_TASK", script.text)
    return Script(script.path, text)


def _complete(script: Script, draft: Draft) -> None:
    """The keys that every spec has."""
    stem = os.path.splitext(os.path.basename(script.path))[0]
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", stem).lstrip("-._")[:100]
    draft.values.setdefault("name", plain or "job")
    if not any(key.startswith("run.") for key in draft.values):
        file = script.path if script.path.isprintable() and script.path else "script"
        draft.put("run.command", ["bash", re.sub("[\ud800-\udfff]", "\ufffd", file)])
        draft.leave(1, os.path.basename(file), "no program was found: each process runs it whole")


def _bash_can_read(draft: Draft) -> None:
    """Take lines out of `setup` that are no whole commands."""
    setup = draft.values.get("environment.setup")
    if setup:
        try:
            process.check_syntax(f"load_environment() {{\n{setup}\n}}\n", Position("setup"))
        except SpecError:
            del draft.values["environment.setup"]
            draft.leave(1, setup, "no setup that bash can read")


def _jobgen_can_read(script: Script, draft: Draft) -> None:
    """Take out, key by key, what jobgen refuses in a spec."""
    while True:
        try:
            node = document.parse(draft.yaml(script.path), file="job.yaml")
            spec, positions = bind(node, JobSpec)
            resolve(LoadedSpec(spec, "job.yaml", "", positions))
            return
        except SpecError as error:
            before = len(draft.values)
            for problem in error.problems:
                _take_out(problem.path, problem.message, draft)
            if len(draft.values) == before:  # no key of it: only what every spec needs stays
                for key in list(draft.values):
                    _take_out(key, "jobgen refuses the spec that it is part of", draft)
            if "site" not in draft.values:
                draft.values.setdefault("scheduler", script.scheduler or "slurm")
            _complete(script, draft)


def _take_out(path: str, why: str, draft: Draft) -> None:
    if path == "resources" and "site" in draft.values:
        path = "site"  # what the site wants of every job is not there
    for key in list(draft.values):
        inside = path == key or path.startswith((f"{key}.", f"{key}["))
        if inside or (path and key.startswith(f"{path}.")):
            draft.leave(1, f"{key}: {draft.values.pop(key)}", why)
