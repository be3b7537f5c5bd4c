"""From the commands of a script to the program, launch and environment of a spec."""

from __future__ import annotations

import re
import shlex
from itertools import pairwise

from jobgen.batchscript.bash import Command, parse
from jobgen.batchscript.convert.checks import (
    ask_for_no_torch,
    check_folder,
    check_names,
    check_torch,
)
from jobgen.batchscript.convert.containers import settle_container, spell_container
from jobgen.batchscript.convert.draft import Draft
from jobgen.batchscript.convert.first_node import find_first_node_names
from jobgen.batchscript.convert.launch import (
    SPREADING,
    ImportedJob,
    ImportRefusedError,
    settle_launch,
)
from jobgen.batchscript.convert.options import MPI_LAUNCHERS, note_options
from jobgen.batchscript.convert.program import (
    HARMLESS,
    READING,
    Candidate,
    finds_horovod,
    finds_ray,
    list_candidates,
    name_program,
    spell,
)
from jobgen.batchscript.convert.run import (
    RANKS,
    choose_words,
    enter_project,
    name_first_node,
    settle_prefix,
    settle_run,
    write_program,
)
from jobgen.batchscript.convert.setup import Setup
from jobgen.batchscript.convert.statements import (
    Statement,
    find_consumed,
    find_strict_line,
    split_own,
    split_statements,
)
from jobgen.batchscript.expand import list_names, split_segments
from jobgen.batchscript.launchers import unwrap
from jobgen.batchscript.reader import Script


def choose_program(script: Script, draft: Draft) -> tuple[Candidate, int]:
    """The command that is the job, and how many processes its launchers start."""
    job = ImportedJob(script, draft)
    candidates = list(list_candidates(script))
    best = max(job.weigh(item) for item in candidates)
    chosen = [item for item in candidates if job.weigh(item) == best][-1]
    return chosen, job.count(chosen)


def settle_body(script: Script, draft: Draft) -> None:
    """Put what the script runs into `draft`, and note what has no place in it."""
    job = ImportedJob(script, draft)
    candidates = list(list_candidates(script))
    _refuse_others(script, candidates)
    if not candidates:
        seen = [step.source for step in script.steps if step.source.name not in HARMLESS]
        names = ", ".join(dict.fromkeys(item.name for item in seen if item.name)) or "no command"
        raise ImportRefusedError(
            script, script.body_line, f"no program was recognised among: {names[:200]}"
        )
    best = max(job.weigh(item) for item in candidates)
    chosen = [item for item in candidates if job.weigh(item) == best][-1]
    if best <= 1 and job.nodes == 1 and not chosen.torchrun and not chosen.agent:
        scripted = _settle_sequence(job, candidates, chosen)
        if scripted:
            return
    _refuse_undecided(job, candidates, chosen)
    _settle_one(job, candidates, chosen)


def _refuse_others(script: Script, candidates: list[Candidate]) -> None:
    """Ray, Horovod and other ways to start that are none of jobgen's."""
    ray, horovod = finds_ray(candidates), finds_horovod(candidates)
    if ray:
        raise ImportRefusedError(
            script, ray.line, "starts a Ray cluster", "jobgen starts PyTorch's processes by itself"
        )
    if horovod:
        message = "horovodrun starts Horovod's processes"
        raise ImportRefusedError(
            script, horovod.line, message, "jobgen starts those of torch.distributed"
        )
    submits = re.search(r"(?m)^[^#\n]*\b(sbatch|qsub)\s", script.text)
    if submits and not script.directives:
        line = script.text.count("\n", 0, submits.end()) + 1
        message = "submits jobs, and is none itself"
        raise ImportRefusedError(script, line, message, "import what it submits")
    aliases = re.findall(r"(?m)^\s*alias\s+(\w+)=", script.text)
    for item in candidates:
        if item.started.name in aliases:
            message = f"starts {item.started.name!r}, an alias"
            raise ImportRefusedError(script, item.line, message, "write what it stands for")
    for step in script.steps:
        if step.command.name == "julia":
            raise ImportRefusedError(
                script, step.source.line, "runs Julia", "jobgen is for PyTorch"
            )


def _refuse_undecided(job: ImportedJob, candidates: list[Candidate], chosen: Candidate) -> None:
    """A program of a loop, or one of several between which only the job decides."""
    names = {launcher.name for launcher in chosen.started.launchers}
    spread = names & SPREADING or any(
        launcher.value("-w", "--nodelist") for launcher in chosen.started.launchers
    )
    steps = [step for step in job.script.steps if step.command.words]
    at = next((i for i, step in enumerate(steps) if step is chosen.step), 0)
    if (
        chosen.step.loop
        and chosen.step.source.end == "&&"
        and steps[at + 1].command.name == "break"
    ):
        program = name_program(chosen.started.program)
        job.draft.lose(chosen.line, program, "tried once: launch.max_restarts starts it again")
    elif chosen.step.loop and not spread:
        program = name_program(chosen.started.program)
        raise ImportRefusedError(
            job.script,
            chosen.line,
            f"a loop starts '{program}' more than once",
            "write an array, or a spec for each",
        )
    elif not chosen.step.certain and not spread:
        others = [
            item
            for item in candidates
            if item.line != chosen.line
            and not item.step.certain
            and name_program(item.started.program) != name_program(chosen.started.program)
        ]
        if others:
            raise ImportRefusedError(
                job.script,
                chosen.line,
                f"only the job decides between this program and that of line {others[0].line}",
                "keep one of them",
            )
        job.draft.check(
            chosen.line, spell(chosen.step.source), "it runs always, not only under its condition"
        )


def _settle_sequence(job: ImportedJob, candidates: list[Candidate], chosen: Candidate) -> bool:
    """Several programs of one process, one after another; False where there is one."""
    script, draft = job.script, job.draft
    lines = {item.line for item in candidates}
    trailing = _find_trailing(script, max(lines))
    single = len(lines) == 1 and chosen.step.certain and not chosen.step.loop
    if single and (not trailing or chosen.started.wrapper):
        return False
    for item in candidates:
        if MPI_LAUNCHERS & {launcher.name for launcher in item.started.launchers}:
            message = "several programs, one after another, some of them by MPI"
            raise ImportRefusedError(script, item.line, message, "write a spec for each")
    for item in candidates:
        note_options(draft, item)
    statements = split_statements(script.commands)
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
    first = statements.index(holding[0])
    last = statements.index(trailing[-1] if trailing else holding[-1])
    texts = []
    for statement in statements[first : last + 1]:
        text = "\n".join(script.lines[statement.first - 1 : statement.last])
        started = [unwrap(item.words) for item in statement.commands]
        if any(item.launchers or item.wrapper for item in started):
            if len(statement.commands) > 1 or started[0].wrapper:
                message = "several programs, one after another, by launchers or in containers"
                raise ImportRefusedError(script, statement.first, message, "write a spec for each")
            command, one = statement.commands[0], started[0]
            handed = any(list(launcher.passed) for launcher in one.launchers)
            if one.assignments or handed or set(one.wrappers) - {"time", "exec", "nohup"}:
                message = "several programs, one after another, with variables of their own"
                raise ImportRefusedError(script, statement.first, message, "write a spec for each")
            text = spell(command._replace(words=(*one.runner, *one.program)))
            text += " &" if command.end == "&" else ""
        texts.append(text)
    if any(item.step.source.end == "&" for item in candidates):
        texts.append("wait")
    body = "\n".join(texts)
    needed = list_names(body)
    setup = Setup(script, draft, times=1, inside=False)
    setup.settle(statements[:first], needed)
    runs = next((item for item in reversed(candidates) if item.started.runner), None)
    if runs:
        enter_project(job, runs)
    strict = ["set -e"] if find_strict_line(script) < holding[0].first else []
    body = "\n".join([*setup.late, *strict, body])
    _note_after(job, statements[last + 1 :])
    inside = {name for statement in statements[first : last + 1] for name in statement.names}
    if job.gpus > 1:
        draft.put("launch.mode", "direct")
        draft.put("launch.processes_per_node", 1)
        body = f"unset {' '.join(RANKS)}\n{body}"
    draft.put("run.command", ["bash", "-c", body])
    draft.check(holding[0].first, texts[0], "it and what follows run in one shell, as they are")
    check_names(job, setup, body, inside)
    python = [item for item in candidates if item.python or item.torchrun or item.agent]
    check_torch(job, python[-1] if python else chosen)
    between = [
        item.name for statement in statements[first : last + 1] for item in statement.commands
    ]
    if {"module", "ml", "conda", "source", "."} & set(between):
        ask_for_no_torch(job)  # it is loaded after where jobgen would look for it
    check_folder(job, chosen)
    return True


def _find_trailing(script: Script, line: int) -> list[Statement]:
    """The statements after a line, if one of them is more than a look at the result."""
    after = [item for item in split_statements(script.commands) if item.first > line]
    after = [item for item in after if not any(command.function for command in item.commands)]
    if any(command.end == "&" for item in after for command in item.commands):
        return []
    needed = [item for item in after if not _is_quiet(item)]
    return after[: after.index(needed[-1]) + 1] if needed else []


def _settle_one(job: ImportedJob, candidates: list[Candidate], chosen: Candidate) -> None:
    script, draft = job.script, job.draft
    statements = split_statements(script.commands)
    index = next(
        (i for i, item in enumerate(statements) if item.first <= chosen.line <= item.last), None
    )
    if chosen.step.source.function:
        called = (
            i
            for i, item in enumerate(statements)
            if any(command.name == chosen.step.source.function for command in item.commands)
        )
        index = next(called, index)  # a damaged script may call it by a way that is not followed
    index = len(statements) - 1 if index is None else index
    settle_launch(job, chosen)
    folder = settle_container(script, chosen.started, draft, chosen.line)
    times = job.nodes
    if draft.values.get("launch.mode") == "direct":
        times *= draft.values.get("launch.processes_per_node") or max(1, job.gpus)
    own = statements[index]
    if blank := _BLANK.search(" ".join(script.lines[own.first - 1 : own.last])):
        message = f"a place to fill in: {blank[0]!r}"
        raise ImportRefusedError(script, own.first, message, "write its value")
    launch = "\n".join(script.lines[own.first - 1 : own.last])
    setup = Setup(
        script,
        draft,
        times=times,
        inside="environment.container" in draft.values,
        processes=job.nodes * (draft.values.get("launch.processes_per_node") or max(1, job.gpus)),
        consumed=find_consumed(script, launch),
    )
    words, verbatim = choose_words(job, chosen)
    text = write_program(job, chosen, words, verbatim)
    text = name_first_node(text, find_first_node_names(script))
    needed = list_names(text)
    for launcher in chosen.started.launchers:
        for name, value in launcher.passed:
            needed |= {name} if value is None else list_names(value)
    image = spell_container(draft)
    before, after = [*statements[:index]], statements[index + 1 :]
    if not chosen.step.loop:
        first, rest = _split_own(job, own, chosen)
        before, after = [*before, *first], [*rest, *after]
    inner = list(chosen.inner)
    setup.settle(before, needed | list_names(image))
    job.late[:0] = setup.late
    settle_prefix(job, chosen, setup)
    if folder:
        draft.setup([f"cd {folder}"])
        setup.moved = True
    if inner and not verbatim:
        _settle_inner(job, chosen, setup, needed)
    if chosen.started.runner:
        enter_project(job, chosen)
    if job.path:
        draft.setup([f"export PATH={job.path}:$PATH"])
    settle_run(job, chosen, setup, words, verbatim)
    _note_own(job, own, chosen)
    chosen_lines = {item.line for item in candidates if item.line == chosen.line}
    _note_after(job, after)
    for other in candidates:
        listed = any(left.kind == "lost" and left.line == other.line for left in draft.left)
        if any(item.first <= other.line <= item.last for item in setup.kept):
            draft.check(other.line, spell(other.step.source), "runs before the program, as setup")
            listed = True
        if other.line not in chosen_lines and other.line < own.first and not listed:
            draft.lose(other.line, spell(other.step.source), "another program, which is not run")
    inside = {name for item in inner for name, _, _ in item.variables()}
    whole = text + " " + image
    check_names(job, setup, whole, inside)
    check_torch(job, chosen)
    check_folder(job, chosen)


_BLANK = re.compile(r"(?<![<\w'\"])<[A-Za-z]\w*(_\w+)+>")


def _split_own(
    job: ImportedJob, own: Statement, chosen: Candidate
) -> tuple[list[Statement], list[Statement]]:
    """What stands before and after the program in its own statement, or in its function."""
    source = chosen.step.source
    before, after, whole = split_own(own, source)
    if source.function:
        body = [item for item in job.script.commands if item.function == source.function]
        function = Statement(body[0].line, body[-1].last_line, tuple(body))
        before, after, whole = split_own(function, source)
    if not whole:
        message = "the lines around the program cannot be taken apart"
        raise ImportRefusedError(job.script, chosen.line, message)
    return before, after


def _settle_inner(job: ImportedJob, chosen: Candidate, setup: Setup, needed: set[str]) -> None:
    """What stands around the program in the string or file that each node runs."""
    script = Script(job.script.path, chosen.text)
    statements = split_statements(script.commands)
    index = next(
        (i for i, item in enumerate(statements) if item.first <= chosen.row <= item.last),
        len(statements),
    )
    before, after = statements[:index], statements[index + 1 :]
    if index < len(statements):
        names = {chosen.started.name, chosen.command.name}
        program = next((c for c in statements[index].commands if _runs(c, names)), None)
        if program:
            first, rest, whole = split_own(statements[index], program)
            if not whole:
                message = "the lines around the program cannot be taken apart"
                raise ImportRefusedError(job.script, chosen.line, message)
            before, after = [*before, *first], [*rest, *after]
    inside = Setup(
        script, Draft(), times=setup.times, inside=setup.inside, processes=setup.processes
    )
    inside.settle(before, needed)
    for left in inside.draft.left:
        if left.kind != "kept":
            job.draft.left.append(left._replace(line=chosen.line))
    for key, value in inside.draft.values.items():
        if key == "environment.setup":
            job.draft.setup(value.splitlines())
        elif key == "environment.variables":
            for name, text in value.items():
                job.draft.setup([f"export {name}={shlex.quote(text)}"])
        elif key == "environment.modules":
            modules = value if isinstance(value, dict) else {"load": value}
            job.draft.setup(
                [
                    *(f"module {verb}" for verb in [modules.get("first")] if verb),
                    *(f"module use {name}" for name in modules.get("use", ())),
                    *(f"module load {name}" for name in modules.get("load", ())),
                ]
            )
        elif key == "environment.venv":
            job.draft.setup([f"source {value}/bin/activate"])
        elif key == "environment.conda":
            job.draft.setup([f"conda activate {value}"])
    job.late += inside.late
    setup.moved = setup.moved or inside.moved
    setup.defined |= inside.defined | {
        name for item in chosen.inner for name, _, _ in item.variables()
    }
    for statement in after:
        names = {item.name for item in statement.commands if item.words}
        if names - HARMLESS - {"deactivate", "exit", "conda", "wait"}:
            text = statement.part or "\n".join(script.lines[statement.first - 1 : statement.last])
            job.draft.lose(chosen.line, text, "comes after the program")


def _runs(command: Command, names: set[str]) -> bool:
    """Whether a command of a string or file is the program, before its words are expanded."""
    return bool({unwrap(command.words).name, command.name} & names) and bool(command.words)


def _note_own(job: ImportedJob, own: Statement, chosen: Candidate) -> None:
    """What stands beside the program in its own statement: output, pipes, other commands."""
    text = "\n".join(job.script.lines[own.first - 1 : own.last])
    job.draft.keep(own.first, text, "the program")
    place = chosen.step.source.place
    at = next((i for i, item in enumerate(own.commands) if item.place is place), 0)
    piped = [item for item in own.commands[at:] if item.line >= place.line]
    for command in piped:
        for item in command.redirects:
            plain = item.operator.lstrip("0123456789&")
            if plain in (">", ">>", ">|") and item.target.text not in ("&1", "1", "2", "/dev/null"):
                text = f"{item.operator} {item.target.raw}"
                job.draft.check(command.line, text, "its output is in the logs of the run folder")
            elif plain == "<" and item.target.text != "/dev/null":
                job.draft.lose(command.line, f"< {item.target.raw}", "the program has no input")
    for command, following in pairwise(own.commands):
        if command.end in ("|", "|&") and following.name not in HARMLESS - {"cat", "tail", "head"}:
            message = "its output is in the logs of the run folder, and is not handed on"
            job.draft.check(following.line, spell(following), message)


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
    return quiet and not writes


def _note_after(job: ImportedJob, statements: list[Statement]) -> None:
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
