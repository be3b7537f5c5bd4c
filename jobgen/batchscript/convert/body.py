"""A script whose body stays as it is: bash runs it, and jobgen does everything around it."""

from __future__ import annotations

import os
import re
import textwrap

from jobgen.batchscript.convert.environment import AT_HOME
from jobgen.batchscript.convert.straight import (
    ITSELF,
    NotStraightError,
    list_arguments,
    list_own_submissions,
)
from jobgen.batchscript.directives import keep_verbatim, render_directives, split_resources
from jobgen.batchscript.draft import Draft
from jobgen.batchscript.launchers import unwrap
from jobgen.batchscript.lint import ABOUT_LAUNCH, check
from jobgen.batchscript.purposes import PRINTS
from jobgen.batchscript.readable import find_place, find_shell_flags
from jobgen.batchscript.reader import DirectiveOption, Script

# Options that shape what the script's own launchers see; where jobgen writes them in other words,
# the script's words count.
_SHAPES = re.compile(
    r"(--(ntasks\S*|nodes|cpus-per-\S+|gpus\S*|gres|mem\S*|exclusive|distribution"
    r"|threads-per-core|hint|tasks-per-node)|-l(?! walltime=)) .*"
)


def make_name(path: str) -> str:
    """Return a name for the job of a script that does not say one: that of its file."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", os.path.basename(path)).lstrip("-._")[:100] or "job"


def name_body(path: str) -> str:
    """Return the name of the file that a script's body goes to."""
    return f"{make_name(os.path.splitext(path)[0])}.body.sh"


def write_body(script: Script, draft: Draft) -> str:
    """Put what runs a script's body into `draft`, and return the body."""
    draft.put("run.body", name_body(script.path))
    if script.starts_at_home:
        draft.setup([AT_HOME])
    # What a spec cannot ask of each node, the directive itself asks.
    keeps = re.compile("of each node|becomes a select=")
    draft.left = [left for left in draft.left if not keeps.search(left.reason)]
    _note_losses(script, draft)
    for _ in range(2):  # what is said again may take the place of another line
        for item in _list_other_words(script, draft):
            keep_verbatim(script, item, draft)
    return "\n".join(_list_body(script))


def _list_body(script: Script) -> list[str]:
    dropped = {item.line for item in script.read_directives}
    lines = [line for number, line in enumerate(script.lines, 1) if number not in dropped]
    if flags := find_shell_flags(script).replace("l", ""):
        lines.insert(1, f"set -{flags}    # as line 1 says to the scheduler")
    return lines


def _note_losses(script: Script, draft: Draft) -> None:
    # What stands above the line that submits the script itself is not of the job.
    submission = max((line for line, _ in list_own_submissions(script)), default=0)
    arguments = sorted(list_arguments(script), key=lambda item: item[0] <= submission)
    for line, text in arguments[:1]:
        draft.lose(line, text, "an argument of the script; write those that it gets in run.args")
    for command in script.commands:
        if command.name not in PRINTS and (match := ITSELF.search(command.active)):
            reason = "is the file of the body, beside the spec and without directives"
            draft.check(command.line, match[0], reason)


def _list_other_words(script: Script, draft: Draft) -> list[DirectiveOption]:
    """Return the directives that shape the job and that jobgen would write in other words."""
    written = render_directives(draft).directives
    same = {(item.option, item.value) for item in written}
    lost = {left.text for left in draft.left if left.kind == "lost"}
    asked = [item for item in script.read_directives if not find_place(item)]
    parts = [one for item in asked for one in split_resources(item) if one.text not in lost]
    others = (item for item in parts if (item.option, item.value) not in same)
    return [item for item in others if _SHAPES.fullmatch(f"{item.option} {item.value}")]


def advise(script: Script, draft: Draft, reason: NotStraightError) -> list[str]:
    """Return why a body is kept, lint's findings in its launch, and how jobgen may launch it."""
    rest = "\n".join(script.lines[reason.line - 1 :]).replace("\\\n", " ")
    text = textwrap.shorten(rest.partition("\n")[0], 100, placeholder=" ...")
    lines = ["", f"The body is kept as it is, for line {reason.line}: {text}  ({reason.reason})"]
    if "directives" in draft.values:
        lines.append("Where a directive and a key ask for the same, the directive counts.")
    findings = [item for item in check(script) if item.rule.id in ABOUT_LAUNCH]
    lines += [f"  lint, line {item.line}: {item.message}; {item.fix}" for item in findings[:5]]
    beside = [item for item in script.commands if item.end == "&"]
    if len([item for item in beside if unwrap(item.words).launchers]) > 1:
        lines += [
            "Programs that start side by side may be roles, each with its own nodes.",
        ]
    elif any(launch.started.agent for launch in script.launches):
        lines.append("For jobgen to launch it, write run.script or run.module, not run.body.")
    return lines
