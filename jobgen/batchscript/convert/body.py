"""From the commands of a script to the program, launch and environment of a spec."""

from __future__ import annotations

import copy
import re
import shlex
from itertools import pairwise

from jobgen.batchscript.bash import Command
from jobgen.batchscript.convert.checks import (
    ask_for_no_torch,
    check_folder,
    check_mpi,
    check_names,
    check_torch,
)
from jobgen.batchscript.convert.containers import settle_container, spell_container
from jobgen.batchscript.convert.draft import Draft
from jobgen.batchscript.convert.launch import (
    SPREADING,
    ImportedJob,
    ImportRefusedError,
    InseparableError,
    settle_launch,
)
from jobgen.batchscript.convert.program import (
    HARMLESS,
    Candidate,
    finds_horovod,
    finds_ray,
    list_candidates,
    name_program,
    spell,
)
from jobgen.batchscript.convert.run import (
    choose_words,
    enter_project,
    name_first_node,
    settle_prefix,
    settle_run,
    write_program,
)
from jobgen.batchscript.convert.sequence import note_after, settle_sequence, settle_whole
from jobgen.batchscript.convert.setup import Setup
from jobgen.batchscript.convert.statements import (
    Statement,
    find_consumed,
    find_first_node_names,
    split_own,
    split_statements,
)
from jobgen.batchscript.expand import list_names
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
    refused: ImportRefusedError | None = None
    before = copy.deepcopy((draft.values, draft.left))
    losses = _count_losses(draft)
    try:
        split = best <= 1 and job.nodes == 1 and not chosen.torchrun and not chosen.agent
        if not split or not settle_sequence(job, candidates, chosen):
            _refuse_undecided(job, candidates, chosen)
            _settle_one(job, candidates, chosen)
    except ImportRefusedError as error:
        refused = error
    alone = job.nodes == 1 and all(job.count(item) <= 1 for item in candidates)
    alone = alone and any(item.known for item in candidates)
    apart = refused is None or isinstance(refused, InseparableError)
    if alone and apart and (refused or _count_losses(draft) > losses):
        lost = [left.line for left in draft.left if left.kind == "lost" and left not in before[1]]
        whole = Draft()
        whole.values, whole.left = before
        try:
            first = min([line for line in lost if line > 1], default=1_000_000)
            settle_whole(ImportedJob(script, whole), candidates, chosen, first)
        except ImportRefusedError:
            pass
        else:
            if refused or _count_losses(whole) < _count_losses(draft):
                draft.values, draft.left, refused = whole.values, whole.left, None
    if refused:
        raise refused


def _count_losses(draft: Draft) -> int:
    return sum(item.kind == "lost" for item in draft.left)


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
        raise InseparableError(
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
            and [word.text for word in item.started.program]
            != [word.text for word in chosen.started.program]
        ]
        if others:
            raise InseparableError(
                job.script,
                chosen.line,
                f"only the job decides between this program and that of line {others[0].line}",
                "keep one of them",
            )
        job.draft.check(
            chosen.line, spell(chosen.step.source), "it runs always, not only under its condition"
        )


def _settle_one(job: ImportedJob, candidates: list[Candidate], chosen: Candidate) -> None:
    script, draft = job.script, job.draft
    statements = split_statements(script)
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
    words, verbatim = choose_words(job, chosen)
    entered = unwrap(chosen.step.command.words).wrapper
    started = chosen.started
    enters = verbatim is not None and bool(started.wrapper) and not entered
    if enters:
        started = started._replace(wrapper=())  # the text enters its container by itself
    folder = settle_container(script, started, draft, chosen.line)
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
    functions = {item.function for item in script.commands if item.function}
    if handed := functions & {word.text for word in words}:
        message = f"hands the function {min(handed)!r} to another program"
        raise InseparableError(script, chosen.line, message, "write it to a file")
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
    note_after(job, after)
    for other in candidates:
        listed = any(left.kind == "lost" and left.line == other.line for left in draft.left)
        if other is not chosen and any(k.first <= other.line <= k.last for k in setup.kept):
            draft.check(other.line, spell(other.step.source), "runs before the program, as setup")
            listed = True
        if other.line not in chosen_lines and other.line < own.first and not listed:
            draft.lose(other.line, spell(other.step.source), "another program, which is not run")
    inside = {name for item in inner for name, _, _ in item.variables()}
    whole = text + " " + image
    check_names(job, setup, whole, inside)
    check_torch(job, chosen)
    if enters and draft.values.get("launch.mode") == "direct":
        ask_for_no_torch(job)  # where jobgen looks for it: outside
    check_mpi(job, chosen)
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
        raise InseparableError(job.script, chosen.line, message)
    return before, after


def _settle_inner(job: ImportedJob, chosen: Candidate, setup: Setup, needed: set[str]) -> None:
    """What stands around the program in the string or file that each node runs."""
    script = Script(job.script.path, chosen.text)
    statements = split_statements(script)
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
                raise InseparableError(job.script, chosen.line, message)
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
