"""From a #PBS or #SBATCH script that somebody wrote to a spec.

Two things can come of it: a spec that a person would have written, if every statement of the script
is understood; or a spec whose `run.body` is the script's own body, unchanged, which bash runs.
"""

from __future__ import annotations

import os
import re

from jobgen.batchscript.convert.body import advise, make_name, name_body, write_body
from jobgen.batchscript.convert.clean import write_clean
from jobgen.batchscript.convert.straight import NotStraightError, find_use, list_own_submissions
from jobgen.batchscript.directives import ARRAYS, render_directives, settle
from jobgen.batchscript.draft import Draft, Left
from jobgen.batchscript.readable import ImportRefusedError, find_shell_flags, refuse_unreadable
from jobgen.batchscript.reader import Script
from jobgen.errors import SpecError, UsageError
from jobgen.records import NamedTuple
from jobgen.rendering import header

_OF_ARRAY = "is an array's index, which no directive asks for; array: {tasks: N} begins at 0"
# What PBS and Torque take nodes or processors from.
_ASKED = ("select", "nodes", "ncpus", "ngpus", "size", "procs", "mppwidth")
_OF_ITSELF = "the script submits itself so; write in the spec what only this line asks for"


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
    if (text := re.sub("[\ud800-\udfff]", "\ufffd", script.text)) != script.text:
        script = Script(script.path, text)
    refuse_unreadable(script)
    draft = Draft()
    draft.put("scheduler", script.target)
    settle(script, draft)
    _note_submission(script, draft)
    if "site" in draft.values:
        draft.values.pop("scheduler", None)
    if not draft.values.get("name"):
        _put_file_name(script, draft)
    if "l" in find_shell_flags(script):
        reason = "reads the profile, which jobgen's job does not; environment.setup can source it"
        draft.check(1, script.lines[0], reason)
    body, comments = "", []
    try:
        draft = write_clean(script, draft)
    except NotStraightError as reason:
        try:
            body, comments = write_body(script, draft), advise(script, draft, reason)
            render_directives(draft)
        except SpecError as refused:
            message = f"jobgen refuses the spec: {refused.problems[0].message}"
            raise ImportRefusedError(script, script.body_line, message) from None
    draft.left.sort(key=lambda left: left.line)
    text = draft.yaml(os.path.basename(script.path), comments=comments)
    return Imported(text, tuple(draft.left), body, name_body(script.path) if body else "")


def _put_file_name(script: Script, draft: Draft) -> None:
    """Name a job as the schedulers do: by its file, whose ending matters where that is read."""
    reads = re.search(r"SLURM_JOB_NAME|PBS_JOBNAME|%x", script.text)
    file = os.path.basename(script.path)
    draft.put("name", make_name(file if reads else os.path.splitext(file)[0]))


def _note_submission(script: Script, draft: Draft) -> None:
    """Name what no directive asks for, but the line that submits may: an array, or nodes."""
    for line, text in list_own_submissions(script):
        draft.lose(line, text, _OF_ITSELF)
    own = {name for name, _, _ in script.variables()}
    indices = "|".join(set(ARRAYS.values()) - own) or "-"
    index = find_use(script, rf"(?:{indices})\b(?!:?[-+])")
    if index and not script.value(*ARRAYS):
        draft.lose(*index, _OF_ARRAY)
    nodes = find_use(script, "PBS_NODEFILE|PBS_NUM_NODES|SLURM_(JOB_NUM_NODES|NNODES)")
    if nodes and not _asks_for_nodes(script):
        draft.check(*nodes, "no directive asks for nodes; here it is one: write resources.nodes")


def _asks_for_nodes(script: Script) -> bool:
    """Whether a directive says what the scheduler takes the number of nodes from."""
    resources = any(map(script.resource, _ASKED))
    return resources or script.value("--nodes", "--ntasks") is not None
