"""Several commands of one node, one after another: they run in one shell, as they are."""

from __future__ import annotations

import re

from jobgen.batchscript.bash import list_line_starts, parse
from jobgen.batchscript.convert.checks import (
    ask_for_no_torch,
    check_folder,
    check_names,
    check_torch,
)
from jobgen.batchscript.convert.launch import ImportedJob, ImportRefusedError
from jobgen.batchscript.convert.options import MPI_LAUNCHERS, note_options
from jobgen.batchscript.convert.program import HARMLESS, READING, Candidate, name_program, spell
from jobgen.batchscript.convert.run import enter_project, take_ranks
from jobgen.batchscript.convert.setup import Setup
from jobgen.batchscript.convert.statements import (
    Statement,
    begins_with_status,
    changes_job,
    exports_all,
    find_strict_line,
    split_statements,
)
from jobgen.batchscript.expand import list_names, split_segments
from jobgen.batchscript.launchers import Launcher, unwrap
from jobgen.batchscript.reader import Script

_LAUNCHER = re.compile(r"\b(srun|mpirun|mpiexec|aprun|jsrun|ibrun|pbsdsh)\b")
# Functions that only the shell of the setup has.
_FUNCTIONS = {"module", "ml", "conda", "mamba", "micromamba"}
_HAND_ON = r"export -f $(compgen -A function | grep -E '^_*(conda|module|ml|mamba|micromamba%s)')"
_COUNTS = {"-n", "--ntasks", "-N", "--nodes", "--ntasks-per-node"}
_OWN = (
    *("--container", "--environment", "--jobid", "--multi-prog", "--pty"),
    *("--chdir", "-D", "--input", "-i"),
)
_OF_SHELL = {"source", ".", *_FUNCTIONS}


def settle_sequence(job: ImportedJob, candidates: list[Candidate], chosen: Candidate) -> bool:
    """Several programs of one process, one after another; False where there is one."""
    script = job.script
    lines = {item.line for item in candidates}
    trailing = _find_trailing(script, max(lines))
    single = len(lines) == 1 and chosen.step.certain and not chosen.step.loop
    if single and (not trailing or chosen.started.wrapper):
        return False
    statements = split_statements(script)
    last = trailing[-1] if trailing else _list_holding(statements, candidates, script, chosen)[-1]
    _settle(job, candidates, chosen, statements, statements.index(last))
    return True


def settle_whole(
    job: ImportedJob, candidates: list[Candidate], chosen: Candidate, first_line: int
) -> None:
    """All from a line on, and what is before the program there, in one shell."""
    statements = split_statements(job.script)
    last = len(statements) - 1
    _settle(job, candidates, chosen, statements, last, first_line)


def _list_holding(
    statements: list[Statement], candidates: list[Candidate], script: Script, chosen: Candidate
) -> list[Statement]:
    """The statements with the programs."""
    lines = {item.line for item in candidates}
    holding = [
        statement
        for statement in statements
        if any(statement.first <= line <= statement.last for line in lines)
        and not any(item.function for item in statement.commands)
    ]
    if not holding or any(item.step.source.function for item in candidates):
        raise ImportRefusedError(
            script, chosen.line, "the program is in a function", "write it out"
        )
    return holding


def _settle(
    job: ImportedJob,
    candidates: list[Candidate],
    chosen: Candidate,
    statements: list[Statement],
    last: int,
    first_line: int = 1_000_000,
) -> None:
    script, draft = job.script, job.draft
    sourced = any(step.command.name in ("source", ".") for step in script.steps)
    files = (item.started.program[0].text for item in candidates)
    if sourced and not any(re.search(r"[./]|^python|torchrun|accelerate", text) for text in files):
        message = f"{name_program(chosen.started.program)!r} may be a function of another file"
        raise ImportRefusedError(script, chosen.line, message, "write what it runs")
    for item in candidates:
        if MPI_LAUNCHERS & {launcher.name for launcher in item.started.launchers}:
            message = "several programs, one after another, some of them by MPI"
            raise ImportRefusedError(script, item.line, message, "write a spec for each")
    for item in candidates:
        note_options(draft, item)
        nodes = item.torchrun.options.get("--nnodes") if item.torchrun else None
        if nodes and script.variables.tell(nodes.raw) != "1":
            message = f"how many nodes train is known to the job alone: {nodes.text}"
            raise ImportRefusedError(script, item.line, message, "write the number out")
    holding = _list_holding(statements, candidates, script, chosen)
    first = statements.index(holding[0])
    early = (i for i, item in enumerate(statements) if item.last >= first_line)
    first = min(first, next(early, first))
    last = _find_end(statements, first, last)
    first = _find_start(statements, first, last)
    own = statements[first : last + 1]
    body = "\n".join(_write_statement(job, statement) for statement in own)
    for name, value in script.given.items():  # of a job with other tasks than jobgen's
        body = re.sub(rf"\$\{{{name}\}}|\${name}\b", value, body)
    body = _define_functions(script, statements[:first], body)
    inside = {name for statement in own for name in statement.names}
    setup = Setup(script, draft, times=1, inside=False)
    setup.settle(statements[:first], list_names(body))
    used = list_names("\n".join([*setup.late, body])) - inside
    ranks, missing = take_ranks(job, used, own[0].first)
    if place := re.search(r"\$\{?0\b|BASH_SOURCE", body):
        shown = place[0].replace("{", "")
        draft.lose(own[0].first, shown, "jobgen's script lies in another folder")
    if any(map(_LAUNCHER.search, setup.late)):
        message = "several programs, one after another, of what the script alone can ask"
        raise ImportRefusedError(script, chosen.line, message, "write a spec for each")
    runs = next((item for item in reversed(candidates) if item.started.runner), None)
    if runs:
        enter_project(job, runs)
    strict = ["set -e"] if find_strict_line(script) == 0 else []
    strict += [
        spell(item)
        for statement in statements[:first]
        for item in statement.commands
        if item.name in ("set", "shopt") and exports_all(item) is None and not item.function
    ]
    body = "\n".join([*setup.late, *strict, body])
    note_after(job, statements[last + 1 :])
    between = {item.name for statement in own for item in statement.commands}
    known = [item for item in candidates if item.known]
    others = {item.started.name for item in candidates if item not in known}
    others = {name for name in others if re.fullmatch(r"[\w-]+", name)}
    if between & (_FUNCTIONS | {"source", "."}) or others:
        draft.setup([_HAND_ON % "".join(f"|{name}$" for name in sorted(others))])
    agents = [item for item in candidates if item.torchrun or item.agent]
    if job.gpus > 1 or agents:
        draft.put("launch.mode", "direct")
        draft.put("launch.processes_per_node", 1)
        body = "\n".join([f"unset {' '.join(missing)}", *ranks, body])
    draft.put("run.command", ["bash", "-c", body])
    shown = script.lines[own[0].first - 1]
    draft.check(own[0].first, shown, "it and what follows run in one shell, as they are")
    check_names(job, setup, body, inside)
    check_torch(job, known[-1] if known else chosen)
    if between & _OF_SHELL or any(item.started.wrapper for item in candidates):
        ask_for_no_torch(job)  # it is loaded after where jobgen would look for it
    for command in (item for statement in own for item in statement.commands):
        signals = {word.text.removeprefix("SIG") for word in command.words[2:]}
        if command.name == "trap" and signals - {"EXIT", "0", "ERR", "DEBUG", "RETURN"}:
            message = "jobgen's own handling of signals is in its place"
            draft.lose(command.line, script.lines[command.line - 1], message)
    check_folder(job, chosen)


def _write_statement(job: ImportedJob, statement: Statement) -> str:
    """A statement without the launchers in it, each of which starts one process."""
    script = job.script
    text = "\n".join(script.lines[statement.first - 1 : statement.last])
    starts = list_line_starts(text)
    cuts = []
    message = "several programs, one after another, by launchers with words of their own"
    refusal = ImportRefusedError(script, statement.first, message, "write a spec for each")
    for item in statement.commands:
        one = unwrap(item.words)
        parts = [part.text for word in item.words for part in split_segments(word.raw) if part.live]
        if any(map(_LAUNCHER.search, parts)):
            raise refusal
        if not one.launchers:
            continue
        words = [*one.wrapper, *one.runner, *one.program]
        plain = set(one.wrappers) <= {"time", "exec", "nohup"} and not one.assignments
        if not words or not plain or any(_has_own(job, launcher) for launcher in one.launchers):
            raise refusal
        ends = []
        for word in (one.launchers[0].word, min(words, key=lambda word: (word.line, word.column))):
            ends.append(starts[word.line - statement.first] + word.column - 1)
            if not text.startswith(word.raw, ends[-1]):
                raise refusal
        cuts.append((ends[0], ends[1]))
    for step in script.steps:
        if statement.first <= step.source.line <= statement.last:
            known = unwrap(step.source.words).launchers
            if unwrap(step.command.words).launchers and not known:
                raise refusal  # its name is in a variable
    for start, end in sorted(cuts, reverse=True):
        text = text[:start] + text[end:]
    return text


def _has_own(job: ImportedJob, launcher: Launcher) -> bool:
    """Whether a launcher does more than to start one process with all that the job has."""
    options = dict(launcher.options)
    counts = [value for name, value in options.items() if name in _COUNTS]
    several = job.tasks > 1 and not {"-n", "--ntasks"} & options.keys()
    parts = job.gpus > 1 and any(name.startswith(("--g", "--exa", "--exc")) for name in options)
    return (
        bool(list(launcher.passed))
        or several
        or parts
        or any(value != "1" for value in counts)
        or any("$" in name or name.startswith(_OWN) for name in options)
    )


def _find_start(statements: list[Statement], first: int, last: int) -> int:
    """The statement from which on one shell runs all that another would not know of."""
    while True:
        own = statements[first : last + 1]
        names = {item.name for statement in own for item in statement.commands}
        needed = {"popd": ("pushd",), "dirs": ("pushd",), "deactivate": ("source", ".")}
        begins = {name for key in names & needed.keys() for name in needed[key]}
        used = list_names(" ".join(spell(item) for each in own for item in each.commands))
        early = [
            index
            for index, statement in enumerate(statements[:first])
            if any(item.name in begins for item in statement.commands)
            or (statement.names & used and any("$!" in spell(x) for x in statement.commands))
        ]
        if early:
            first = early[0]
        elif first and begins_with_status(statements[first]):
            first -= 1
        else:
            return first


def _find_end(statements: list[Statement], first: int, last: int) -> int:
    """The last statement that is of use: one that waits, ends what runs, or says how it ended."""
    beside = any(item.end == "&" for each in statements[first:] for item in each.commands)
    for index in range(len(statements) - 1, last, -1):
        for item in statements[index].commands:
            if item.name in ("wait", "kill") and beside:
                return index
            if item.name == "exit" and any("$" in text for text in item.texts[1:]):
                return index
    return last


def _define_functions(script: Script, before: list[Statement], body: str) -> str:
    """The body, after the functions that it calls, which the setup's shell alone would know."""
    texts: list[str] = []
    for statement in reversed(before):
        names = {item.function for item in statement.commands if item.function}
        calls = "\n".join([*texts, body])
        if any(re.search(rf"(?<![\w$.-]){re.escape(name)}(?![\w-])", calls) for name in names):
            texts.insert(0, "\n".join(script.lines[statement.first - 1 : statement.last]))
    calls = "\n".join([*texts, body])
    handed = [
        spell(item)
        for statement in before
        for item in statement.commands
        if item.texts[:2] in (["export", "-f"], ["declare", "-fx"])
        and any(re.search(rf"\b{re.escape(name)}\b", calls) for name in item.texts[2:])
    ]
    return "\n".join([*texts, *handed, body])


def _find_trailing(script: Script, line: int) -> list[Statement]:
    """The statements after a line, if one of them is more than a look at the result."""
    after = [item for item in split_statements(script) if item.first > line]
    after = [item for item in after if not any(command.function for command in item.commands)]
    if any(command.end == "&" for item in after for command in item.commands):
        return []
    needed = [item for item in after if not _is_quiet(item)]
    return after[: after.index(needed[-1]) + 1] if needed else []


def _is_quiet(statement: Statement) -> bool:
    """Whether it only shows something, or ends what the script itself has begun."""
    names = {item.name for item in statement.commands if item.words}
    ending = {"exit", "deactivate", "conda", "module", "export", "popd", "cd"}
    quiet = names <= HARMLESS | ending or names <= HARMLESS | {"kill", "jobs"}
    quiet = quiet and all(
        item.name in HARMLESS | READING
        for command in statement.commands
        for word in (*command.assignments, *command.words)
        for part in split_segments(word.raw)
        if part.live and part.text[:2] in ("$(",) and part.text[:3] != "$(("
        for item in parse(part.text[2:-1])
    )
    quiet = quiet and not any(
        item.name == "conda" and not {"activate", "deactivate"} & set(item.texts)
        for item in statement.commands
    )
    writes = any(
        item.operator.lstrip("0123456789") in (">", ">>")
        for command in statement.commands
        for item in command.redirects
        if item.target.text not in ("/dev/null", "&1", "&2", "1", "2")
    )
    return quiet and not writes and not any(map(changes_job, statement.commands))


def note_after(job: ImportedJob, statements: list[Statement]) -> None:
    """What comes after the program."""
    for statement in statements:
        lines = job.script.lines[statement.first - 1 : statement.last]
        text = statement.part or "\n".join(lines)
        if any(item.function for item in statement.commands) and not statement.part:
            continue
        if _is_quiet(statement):
            job.draft.keep(statement.first, text, "of no use after the program")
        else:
            job.draft.lose(statement.first, text, "comes after the program")
