"""A straight script as a spec that a person would have written."""

from __future__ import annotations

import re

from jobgen.batchscript.convert.environment import Prelude, follow_statement, list_needed
from jobgen.batchscript.convert.launch import LaunchedProgram, LaunchLine, read_shape
from jobgen.batchscript.convert.straight import (
    NotStraightError,
    Statement,
    goes_back,
    list_arguments,
    read_statements,
)
from jobgen.batchscript.convert.values import Reader
from jobgen.batchscript.directives import ARRAYS, render_directives
from jobgen.batchscript.draft import Draft
from jobgen.batchscript.expand import PlainVariables
from jobgen.batchscript.launchers import unwrap
from jobgen.batchscript.lint.rule import TRAINS
from jobgen.batchscript.purposes import list_pure
from jobgen.batchscript.readable import find_shell_flags
from jobgen.batchscript.reader import Request, Script
from jobgen.errors import SpecError

# Set up an environment, whose python3 is its python.
_ENVIRONMENT = ("module", "ml", "source", ".", "conda", "mamba", "micromamba", "eval")
_LONGEST = 45  # lines of a spec
_FROM_OUTSIDE = "is set where it is submitted, or by its modules; the job ends where it is not"
# The script acts on them; a signal without B: goes to what srun has started.
_ACTED_ON = re.compile(r"--signal B|-d |--export (?!ALL$)")
_ONE_WORD = "stands without quotes, and is taken for one word"
# Kinds of statements that do nothing for anybody after the program has ended.
_IDLE = (
    "prints",
    "ends",
    "fails",
    "sets",
    "assigns",
    "export",
    "folder",
    "module",
    "venv",
    "conda",
)


def write_clean(script: Script, draft: Draft, *, once: bool) -> None:
    """Put the body of a script into `draft`; raise NotStraightError where only bash can run it.

    `once` says that the script's own launcher is to start its program.
    """
    _check_directives(script, draft, once=once)
    nodes = 1 if once else draft.values.get("resources.nodes", 1)
    before, launch, after = _split(script, read_statements(script), nodes)
    _check_after(after)
    shape = read_shape(script, draft)
    reader = _make_reader(script)
    for statement in before:
        follow_statement(statement, reader)
    at_home = _begins_at_home(script, before)
    names = {command.name for item in before for command in item.commands}
    bare = names.isdisjoint(_ENVIRONMENT)
    moved = at_home or any(map(_leaves, before))
    read = LaunchLine(script, launch, reader, shape, moved=moved, bare=bare).read(once=once)
    prelude = _read_prelude(script, before, read, shape, draft, at_home=at_home)
    for path, value in read.values.items():
        draft.put(path, value)
    if _starts_all_tasks(script, read, shape):
        draft.values.pop("resources.cpus_per_node", None)  # one for each task, as Slurm has it
    _note_losses(script, draft, launch, read)
    _note_variables(draft, launch, outside=reader.asked | prelude.reader.asked, taken=reader.taken)
    prelude.careful = prelude.careful or "e" in find_shell_flags(script)
    prelude.write(launch.line, reader.variables.loose)
    for statement in after:
        draft.keep(statement.line, statement.text, "the job ends as its program does")
    _check_length(draft, launch.line)


def _check_length(draft: Draft, line: int) -> None:
    lines = draft.yaml("").replace("\\n", "\n").splitlines()  # also those within one string
    if len([text for text in lines if text[:1] != "#"]) > _LONGEST:
        raise NotStraightError(line, "a spec of it would be longer than the script")


def _leaves(statement: Statement) -> bool:
    leaves = any(command.name in ("cd", "pushd") for command in statement.commands)
    return leaves and not goes_back(statement)


def _starts_all_tasks(script: Script, read: LaunchedProgram, shape: Request) -> bool:
    """Whether jobgen starts the tasks of a script of Slurm that says nothing about CPUs."""
    if script.can.chunks or script.value("--cpus-per-task", "--cpus-per-gpu"):
        return False
    own = shape.gpus if read.mode == "direct" else 1
    return bool(read.values.get("launch.processes_per_node", own or 1) == script.request.tasks)


def _note_losses(script: Script, draft: Draft, launch: Statement, read: LaunchedProgram) -> None:
    """Name what of the launch line and the arguments of the script has no place in the spec."""
    if read.logged:
        draft.check(launch.line, launch.text, "its output goes to jobgen's logs instead")
    if read.dropped:
        draft.keep(launch.line, " ".join(read.dropped), "jobgen's own launch does without")
    for line, text in list_arguments(script):
        draft.lose(line, text, "of the script's arguments; write what they are")


def _note_variables(draft: Draft, launch: Statement, *, outside: set[str], taken: set[str]) -> None:
    """Name the variables that the spec holds for what they may not be."""
    for name in sorted(outside | taken):
        reasons = [_FROM_OUTSIDE] if name in outside else []
        reasons += [_ONE_WORD] if name in taken else []
        draft.check(launch.line, f"${name}", "; ".join(reasons))


def refuse_loss(script: Script, draft: Draft) -> None:
    """Raise NotStraightError where jobgen refuses a spec, or its job asks for another share."""
    try:
        written = render_directives(draft)
    except SpecError as error:
        problem = error.problems[0]
        refused = f"jobgen refuses the spec: {problem.path} {problem.message}"
        raise NotStraightError(script.body_line, refused) from None
    asked, gets = script.request, written.request
    for name, wanted, given in (
        ("nodes", asked.nodes, gets.nodes),
        ("GPUs of a node", asked.gpus, gets.gpus),
        ("CPUs of a node", asked.cpus, gets.cpus),
        ("tasks of a node", asked.tasks if draft.load().spec.launches_itself else 0, gets.tasks),
    ):
        if wanted and wanted != given:
            reason = f"a spec of it asks for {given or 'other'} {name}, not {wanted}"
            raise NotStraightError(1, reason)


def _check_directives(script: Script, draft: Draft, *, once: bool) -> None:
    """Raise NotStraightError where the script is to act on its directives."""
    for item in script.directives:
        asked = f"{item.option} {item.value}"
        unsaid = item.option in ARRAYS and "array.tasks" not in draft.values
        unsaid = unsaid or (item.option == "--signal" and not once)
        if item.read and (unsaid or _ACTED_ON.match(asked)):
            raise NotStraightError(item.line, f"'{asked}' is for the script or its programs")


def _split(
    script: Script, statements: list[Statement], nodes: int
) -> tuple[list[Statement], Statement, list[Statement]]:
    kinds = [statement.kind for statement in statements]
    launches = [index for index, kind in enumerate(kinds) if kind == "launch"]
    if not launches:
        last = statements[-1].line if statements else script.body_line
        raise NotStraightError(last, "no line starts a program that jobgen knows")
    at = launches[-1]
    before = list(statements[:at])
    for index, statement in enumerate(before):
        if statement.kind == "launch":
            if nodes > 1 or not _prepares(statement, statements[at]):
                line = statements[kinds.index("launch", index + 1)].line
                how = "side by side" if statement.first.end == "&" else "one after the other"
                raise NotStraightError(line, f"several programs run {how}")
            before[index] = statement._replace(kind="once")
    return before, statements[at], statements[at + 1 :]


def _prepares(early: Statement, main: Statement) -> bool:
    """Whether a program only gets things ready for another, which a launcher starts."""
    starts = (unwrap(early.first.words), unwrap(main.first.words))
    launched = [bool(started.launchers) or started.is_agent for started in starts]
    asks = early.first.name.startswith("python") and early.first.texts[1] in ("-", "-c")
    asks = asks or not (TRAINS.fullmatch(early.first.name) or "/" in early.first.texts[0])
    alone = len(early.commands) == 1 and early.first.end != "&"
    return alone and not launched[0] and (launched[1] or asks)


def _check_after(after: list[Statement]) -> None:
    for statement in after:
        pure = all(map(list_pure, statement.commands)) and not statement.first.redirects
        if "deactivate" in statement.first.texts[:2]:
            continue
        if statement.kind not in _IDLE or (statement.kind not in ("prints", "ends") and not pure):
            raise NotStraightError(statement.line, "commands follow the program")


def _make_reader(script: Script) -> Reader:
    reader = Reader(script.make_variables(), sourced=False)
    places = PlainVariables({str(number): f"<{number}>" for number in range(1, 100)})
    reader.variables.values |= places.values | {"@": ((),), "*": ((),)}
    return reader


def _read_prelude(
    script: Script,
    before: list[Statement],
    launch: LaunchedProgram,
    shape: Request,
    draft: Draft,
    *,
    at_home: bool,
) -> Prelude:
    """Return what stands before the launch, with the plain variables that its lines need."""
    needed: set[str] = set()
    texts = [f"${{{name}}}" for name in launch.names]
    while True:
        needed |= list_needed(texts, before)
        prelude = Prelude(draft, launch=launch, shape=shape, needed=needed, at_home=at_home)
        reader = _make_reader(script)
        for statement in before:
            prelude.take(statement, reader)
            follow_statement(statement, reader)
        texts = prelude.setup
        if list_needed(texts, before) <= needed:
            return prelude


def _begins_at_home(script: Script, before: list[Statement]) -> bool:
    """Whether anything runs in the home folder, where PBS starts a script."""
    anywhere = ("prints", "assigns", "export", "module", "sets")
    first = next((item for item in before if item.kind not in anywhere), None)
    leaves = first and first.kind == "folder" and first.first.texts[-1][:1] in "/~$"
    return script.starts_at_home and not leaves
