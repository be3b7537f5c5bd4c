"""A straight script as a spec that a person would have written."""

from __future__ import annotations

import copy

from jobgen.batchscript.convert.environment import Prelude, follow, list_needed
from jobgen.batchscript.convert.launch import JobShape, LaunchedProgram, read_launch, read_shape
from jobgen.batchscript.convert.straight import NotStraightError, Statement, read_statements
from jobgen.batchscript.convert.values import Reader
from jobgen.batchscript.draft import Draft
from jobgen.batchscript.expand import ShellVariables
from jobgen.batchscript.launchers import find_agent, read_torchrun, unwrap
from jobgen.batchscript.readable import find_shell
from jobgen.batchscript.reader import Script

_LONGEST = 40  # lines of a spec
_MOST_PROGRAMS = 2  # of which the last is the one that the spec runs


def write_clean(script: Script, draft: Draft) -> None:
    """Put the body of a script into `draft`; raise NotStraightError where only bash can run it."""
    if find_shell(script) not in ("bash", "sh", "env"):
        raise NotStraightError(1, f"it is a script for {find_shell(script)}")
    for item in script.directives:
        if item.read and item.option in ("--signal", "hetjob"):
            raise NotStraightError(item.line, f"{item.text} is for the script itself")
    statements = read_statements(script)
    before, launch, after = _split(script, statements)
    earlier = next((item for item in before if item.kind == "launch"), None)
    _check_after(after)
    shape = read_shape(script, draft)
    variables, states, sourced = _follow_all(script, before)
    free = {
        name
        for name, value in variables.values.items()
        if name in variables.assigned and value.fields is not None and not value.array
    }
    reader = Reader(variables, free=free, sourced=sourced)
    moved = any(item.kind == "folder" and not _goes_home(item) for item in before)
    bare = not any(s.kind in ("module", "venv", "conda", "source", "hook") for s in before)
    if earlier and (shape.nodes > 1 or any(_is_launched(item) for item in (*before, launch))):
        raise NotStraightError(launch.line, "several programs run one after the other")
    read = read_launch(script, launch, reader=reader, shape=shape, moved=moved, bare=bare)
    prelude = _read_prelude(before, states, read, shape, draft, sourced=sourced)
    _start_at_home(script, before, prelude)
    for path, value in read.values.items():
        draft.put(path, value)
    prelude.careful = prelude.careful or " -e" in script.lines[0]
    prelude.write()
    for statement in after:
        draft.keep(statement.line, statement.text, "the job ends as its program does")
    if len(draft.yaml("").splitlines()) > _LONGEST:
        raise NotStraightError(launch.line, "a spec of it would be longer than the script")


def _split(
    script: Script, statements: list[Statement]
) -> tuple[list[Statement], Statement, list[Statement]]:
    launches = [index for index, item in enumerate(statements) if item.kind == "launch"]
    if not launches:
        last = statements[-1].line if statements else script.body_line
        raise NotStraightError(last, "no program was found")
    if len(launches) > _MOST_PROGRAMS:
        line = statements[launches[1]].line
        raise NotStraightError(line, "several programs run one after the other")
    at = launches[-1]
    return statements[:at], statements[at], statements[at + 1 :]


def _is_launched(statement: Statement) -> bool:
    """Whether a statement starts a launcher or agent, in which several processes run."""
    started = unwrap(statement.first.words)
    agent = read_torchrun(started.program) or find_agent(started.program)
    return statement.kind == "launch" and bool(started.launchers or agent)


def _check_after(after: list[Statement]) -> None:
    for statement in after:
        module = statement.kind == "module" and statement.first.texts[1:2] in (
            ["unload"],
            ["purge"],
        )
        if statement.kind not in ("prints", "ends", "leaves", "sets") and not module:
            raise NotStraightError(statement.line, "commands follow the program")


def _follow_all(
    script: Script, before: list[Statement]
) -> tuple[ShellVariables, list[ShellVariables], bool]:
    """Return the variables at the launch and before each statement, and whether files set some."""
    variables, sourced, states = ShellVariables(script.given, script.answers), False, []
    for statement in before:
        states.append(copy.copy(variables))
        states[-1].values = dict(variables.values)
        states[-1].assigned = set(variables.assigned)
        sourced = follow(statement, variables, sourced=sourced)
    return variables, states, sourced


def _read_prelude(
    before: list[Statement],
    states: list[ShellVariables],
    launch: LaunchedProgram,
    shape: JobShape,
    draft: Draft,
    *,
    sourced: bool,
) -> Prelude:
    """Return what stands before the launch, with the plain variables that its lines need."""
    needed = list_needed([f"${{{name}}}" for name in launch.names], before)
    while True:
        reader = Reader(ShellVariables(), free=set(), sourced=sourced)
        prelude = Prelude(draft, launch=launch, shape=shape, reader=reader)
        prelude.needed = needed
        for statement, variables in zip(before, states, strict=True):
            prelude.take(statement, variables)
        texts = [text for kind, text in prelude.setup]
        texts += [f"${{{name}}}" for name in launch.names]
        again = list_needed(texts, before)
        if again <= needed:
            return prelude
        needed |= again


def _goes_home(statement: Statement) -> bool:
    last = statement.first.texts[-1]
    return "SUBMIT_DIR" in last or "PBS_O_WORKDIR" in last


def _start_at_home(script: Script, before: list[Statement], prelude: Prelude) -> None:
    """Refuse what runs in the home folder, where PBS starts a script that does not leave it."""
    if not starts_at_home(script):
        return
    folders = [statement for statement in before if statement.kind == "folder"]
    if not folders or not (_goes_home(folders[0]) or folders[0].first.texts[-1][:1] in "/~$"):
        raise NotStraightError(1, "PBS starts it in the home folder")
    early = before[: before.index(folders[0])]
    if any(item.kind not in ("prints", "assigns", "export", "module", "sets") for item in early):
        raise NotStraightError(1, "PBS starts it in the home folder")


def starts_at_home(script: Script) -> bool:
    """Whether the scheduler starts the script in the home folder."""
    if not script.can.starts_at_home:
        return False
    options = [item for item in script.directives if item.read]
    return not any(
        item.option == "-d" or (item.option == "-l" and item.value == "wd") for item in options
    )
