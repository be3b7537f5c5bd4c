"""From a #PBS or #SBATCH script to a spec that says all of it, or whose `run.body` is its body."""

from __future__ import annotations

import os
import re

from jobgen.batchscript import directives, readable
from jobgen.batchscript.convert import straight
from jobgen.batchscript.convert.clean import write_clean
from jobgen.batchscript.convert.straight import NotStraightError
from jobgen.batchscript.draft import Draft, Left, shorten
from jobgen.batchscript.lint import ABOUT_LAUNCH, TOLD, check
from jobgen.batchscript.purposes import FORMS, PRINTS, WHY, reads_settings
from jobgen.batchscript.reader import DirectiveOption, Script
from jobgen.errors import UsageError
from jobgen.records import NamedTuple
from jobgen.rendering import header


class Imported(NamedTuple):
    """The spec as YAML, what of the script is not in it as it was, and the body that it keeps."""

    yaml: str
    left: tuple[Left, ...]
    body: str = ""  # as os.fsdecode reads it; a clean spec has none
    body_file: str = ""  # as seen from the folder of submission


def import_script(script: Script, folder: str = "") -> Imported:
    """Return the spec of a script, which jobgen can load and render, for a file in this folder.

    Raises UsageError for a script that jobgen rendered, and SpecError where it is not a job.
    """
    own = header.read(script.text)
    if own is not None:
        raise UsageError(f"{script.path}: jobgen rendered this script; its spec is {own.spec}")
    for refusal in readable.list_refusals(script):
        raise readable.ImportRefusedError(script, *refusal)
    draft = Draft()
    directives.settle(script, draft)
    _note_submission(script, draft)
    _note_body(script, draft)
    if "site" not in draft.values:
        draft.put("scheduler", script.target)
    reads = FORMS["reads-name"].search(script.text)  # and so the ending of the file, too
    file = os.path.basename(script.path if reads else os.path.splitext(script.path)[0])
    draft.put("name", draft.values.get("name") or directives.make_name(file, "job"))
    body, comments = "", []
    try:
        draft = write_clean(script, draft)
    except NotStraightError as reason:
        body, comments = _write_body(script, draft, folder), _advise(script, draft, reason)
    if "l" in readable.find_shell_flags(script):
        draft.check(1, script.lines[0], "reads the profile, which jobgen's job does not")
    draft.left.sort(key=lambda left: left.line)
    text = draft.yaml(os.path.basename(script.path), comments=comments)
    return Imported(text, tuple(draft.left), body, draft.values.get("run.body", ""))


def _note_submission(script: Script, draft: Draft) -> None:
    """Name what no directive asks for, but the line that submits may: an array, or nodes."""
    outside = straight.list_lines_outside(script)
    for line, text in readable.list_submissions(script):
        if (line in outside or FORMS["itself"].search(text)) and FORMS["asks-more"].search(text):
            draft.lose(line, text, WHY.OF_ITSELF)
        elif line not in outside:
            draft.check(line, text, WHY.SUBMITS_MORE)
    unset = {"PBS_ARRAYID"} if script.value("-J") else {*directives.ARRAYS.values()}
    indices = "|".join(unset - script.own_names) or "-"
    index = straight.find_use(script, rf"(?:{indices})\b(?!:?[-+])")
    if index and not script.value("--array", "-t"):
        draft.lose(*index, WHY.OF_TORQUE if script.value("-J") else WHY.OF_ARRAY)
    nodes = straight.find_use(script, FORMS["of-nodes"].pattern)
    asked = map(script.resource, ("select", "nodes", "ncpus", "ngpus", "size", "procs", "mppwidth"))
    if nodes and not any((*asked, script.value("--nodes", "--ntasks"))):
        draft.check(*nodes, "no directive asks for nodes; here it is one: write resources.nodes")


def _note_body(script: Script, draft: Draft) -> None:
    """Name what the line that submits may set, and words that stay and that lint finds at fault."""
    if submitted := straight.list_submitted(script):
        names = " ".join(dict.fromkeys(f"${name}" for _, name, _ in submitted))
        draft.check(submitted[0][0], names, WHY.SUBMITTED)
    needed = [*straight.list_arguments(script)]
    for asked in [*needed, *straight.list_arguments(script, "remark")]:
        kind = "lost" if asked in needed else "check"
        draft.leave(kind, *asked, vars(WHY)[f"argument {kind}"])
    for fault in [fault for rule in TOLD for fault in rule.check(script)]:
        if fault.line >= script.body_line:
            draft.check(fault.line, script.lines[fault.line - 1], fault.message)


def _write_body(script: Script, draft: Draft, folder: str) -> str:
    """Put what runs a script's body into `draft`, and return the body."""
    name = directives.make_name(os.path.splitext(os.path.basename(script.path))[0], "job")
    draft.put("run.body", os.path.join(folder, f"{name}.body.sh"))
    if start := straight.find_start(script):
        draft.setup(start)
    # What a spec cannot ask of each node, the directive itself asks, and so for no number of nodes.
    asked = "of each node|becomes a select=|unless place"
    asked += "" if "resources.nodes" in draft.values else "|without --nodes"
    draft.left = [left for left in draft.left if not re.search(asked, left.reason)]
    _note_losses(script, draft)
    for _ in range(2):  # what is said again may take the place of another line
        for item in _list_other_words(script, draft):
            directives.keep_verbatim(script, item, draft)
            if re.match("-l mem", f"{item.option} {item.value}"):  # a site may have a limit
                draft.values.pop("resources.memory_per_node", None)
    dropped = {item.line for item in script.read_directives}
    lines = [line for number, line in enumerate(script.lines, 1) if number not in dropped]
    if flags := readable.find_shell_flags(script).replace("l", ""):
        lines.insert(1, f"set -{flags}    # as line 1 says to the scheduler")
    return "\n".join(lines)


def _note_losses(script: Script, draft: Draft) -> None:
    for name in sorted(_list_outside(script)):
        if use := straight.find_use(script, name):
            draft.check(*use, WHY.FROM_OUTSIDE)
    outside = straight.list_lines_outside(script)
    for command in script.commands:
        match = FORMS["itself"].search(FORMS["unread"].sub("", command.active))
        if match and command.name not in PRINTS and command.line not in outside:
            draft.check(command.line, match[0], vars(WHY).get(match[0][:8], WHY.OF_BODY))


def _list_outside(script: Script) -> set[str]:
    """Return the variables that commands are given and that only the submission can set."""
    commands = [launch.command for launch in script.launches]
    files = [x for x in commands if not FORMS["evaluates"].match(" ".join(x.texts))]
    text = " ".join(FORMS["unread"].sub("", x.active) for x in commands if x.name not in PRINTS)
    asked = FORMS["without-default"].findall(text) + FORMS["compared"].findall(script.text)
    read = {x for x in asked if not straight.is_common(x)}
    known = straight.list_set(script).union(x for _, x, _ in straight.list_submitted(script))
    return set() if any(map(reads_settings, files)) else read - known


def _list_other_words(script: Script, draft: Draft) -> list[DirectiveOption]:
    """Return the directives that shape the job and that jobgen would write in other words."""
    same = {(item.option, item.value) for item in directives.render_directives(draft).directives}
    lost = {left.text for left in draft.left if left.kind == "lost"}
    asked = [x for x in directives.list_counting(script) if not readable.find_place(script, x)]
    shapes = [item for item in asked if FORMS["shapes"].fullmatch(f"{item.option} {item.value}")]
    return [x for x in shapes if x.text not in lost and (x.option, x.value) not in same]


def _advise(script: Script, draft: Draft, reason: NotStraightError) -> list[str]:
    """Return why a body is kept, and where its launch misses nodes or starts separate worlds."""
    rest = "\n".join(script.lines[reason.line - 1 :]).replace("\\\n", " ").partition("\n")[0]
    why = f"for line {reason.line}: {shorten(rest)}  ({reason.reason})"
    lines = ["", f"The body is kept as it is, {why}"]
    lines += [WHY.TWICE] * ("directives" in draft.values)
    lines += [vars(WHY)[x] for x in ("BY_RAY", "BY_ROLES") if FORMS[x].search(script.text)][:1]
    faults = [x for x in reversed(check(script)) if x.rule.id in ABOUT_LAUNCH]
    first = {x.rule: f"  lint, line {x.line}: {x.message}; {x.fix}" for x in faults}
    return [*lines, *reversed(first.values())]
