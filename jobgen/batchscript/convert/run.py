"""From the words of a program to the run of a spec."""

from __future__ import annotations

import re
import shlex

from jobgen.batchscript.bash import Word
from jobgen.batchscript.convert.launch import ImportedJob, ImportRefusedError, rewrite_agent
from jobgen.batchscript.convert.program import (
    HARMLESS,
    REPEATABLE,
    Candidate,
)
from jobgen.batchscript.convert.setup import GIVEN, Setup
from jobgen.batchscript.convert.statements import find_first_node_names
from jobgen.batchscript.expand import ShellVariables, list_names, split_segments, write_field
from jobgen.batchscript.launchers import unwrap
from jobgen.batchscript.reader import Script

_PYTHON = re.compile(r"(.*/)?python[\d.]*")


# What torch.distributed.launch adds to the program's words; it was --local_rank before torch 2.
_RANK_OPTION = '"--local${JOBGEN_SIGN}rank=$LOCAL_RANK"'
_SIGN = (
    "JOBGEN_SIGN=$(python3 -c 'from importlib.metadata import version;"
    ' print("_-"[int(version("torch").split(".")[0]) > 1])\')'
)
_PATH = re.compile(r"(?:[^$`\"'\\*?\[{\s]|\$\w+|\$\{\w+\})+")


# What torchrun and jobgen's direct mode set, and a program that starts by itself must not see.
RANKS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def settle_prefix(job: ImportedJob, chosen: Candidate, setup: Setup) -> None:
    """`NAME=value` before the program, and after env."""
    prefix = [*chosen.step.source.assignments, *chosen.command.assignments]
    for word in dict.fromkeys([*prefix, *chosen.started.assignments]):
        name = word.raw.partition("=")[0]
        if not GIVEN.fullmatch(name) and name.isidentifier():
            value = job.script.variables.tell(word.raw.partition("=")[2])
            setup.defined.add(name)
            if (
                value is not None
                and value.isprintable()
                and "environment.setup" not in job.draft.values
            ):
                job.draft.values.setdefault("environment.variables", {})[name] = value
            else:
                job.draft.setup([f"export {word.raw}"])
    aliases = find_first_node_names(job.script)
    for launcher in chosen.started.launchers:
        for name, text in launcher.passed:
            if text is None or GIVEN.fullmatch(name):
                continue
            quoted = '"' + re.sub(r'(["`\\])', r"\\\1", text) + '"'
            value = job.script.variables.tell(quoted)
            own = list_names(quoted) == {name} and name in setup.defined
            if value is not None or not own:
                shown = (
                    shlex.quote(value) if value is not None else name_first_node(quoted, aliases)
                )
                job.draft.setup([f"export {name}={shown}"])
            setup.defined.add(name)
    for name in chosen.started.wrappers:
        if name == "timeout":
            job.draft.lose(chosen.line, name, "the program has until the walltime")
        elif name in ("numactl", "taskset"):
            job.draft.check(chosen.line, name, "jobgen binds by itself")


def enter_project(job: ImportedJob, chosen: Candidate) -> None:
    """The environment that `uv run` and its like would run the program in, first on PATH."""
    if chosen.started.wrapper:
        message = f"{chosen.started.runner[0].text} run, and a container around it"
        raise ImportRefusedError(job.script, chosen.line, message, "write what it runs")
    runner = " ".join(word.raw for word in chosen.started.runner)
    prefix = f"$({runner} python -c 'import sys; print(sys.prefix)')"
    job.draft.setup([f'export PATH="{prefix}/bin:$PATH"'])


def choose_words(job: ImportedJob, chosen: Candidate) -> tuple[tuple[Word, ...], str | None]:
    """The words of the program; or the text of a shell that runs it with what is around it."""
    if chosen.torchrun:
        agent = chosen.torchrun
        words = agent.program
        if agent.passes_rank and words:
            job.late.append(_SIGN)
            rank = Word(_RANK_OPTION, words[0].line, words[0].column)
            words = (words[0], rank, *words[1:])
        if agent.module:
            words = (Word("python3", 1, 1), Word("-m", 1, 1), *words)
        elif not agent.plain:
            words = (Word("python3", 1, 1), *words)
        program = chosen.started.program[0].text
        folder = program.rpartition("/")[0]
        if folder and "$(" not in folder:
            job.path = folder
        return words, None
    if chosen.agent:
        return rewrite_agent(job, chosen), None
    others = [
        item
        for item in chosen.inner
        if item is not chosen.command
        and item.words
        and item.name not in HARMLESS | REPEATABLE | {"exec"}
    ]
    entered = {word.raw for item in chosen.inner for word in unwrap(item.words).wrapper}
    names = list_names(" ".join(entered)) & {
        name for item in chosen.inner for name, _, _ in item.variables()
    }
    if others or names:
        return (), chosen.text
    return chosen.started.program, None


def write_program(
    job: ImportedJob, chosen: Candidate, words: tuple[Word, ...], verbatim: str | None
) -> str:
    """The program as text of bash, for the variables in it."""
    if verbatim is not None:
        return verbatim
    return " ".join(word.raw for word in (*chosen.started.wrapper, *words))


def settle_run(
    job: ImportedJob,
    chosen: Candidate,
    setup: Setup,
    words: tuple[Word, ...],
    verbatim: str | None,
) -> None:
    script, draft = job.script, job.draft
    aliases = find_first_node_names(script)
    alone = (
        draft.values.get("launch.mode") == "direct"
        and draft.values.get("launch.processes_per_node") == 1
        and job.nodes == 1
    )
    unset: list[str] = []
    if alone:
        ranks, unset = take_ranks(job, setup.defined, chosen.line)
        job.late += ranks
    else:
        _take_world(job)
    if verbatim is not None:
        lines = name_first_node(verbatim.strip(), aliases)
        draft.put("run.command", ["bash", "-c", "\n".join([*job.late, lines])])
        return
    words = _take_interpreter(job, words)
    if chosen.started.name.endswith(".sh") or chosen.started.name in ("bash", "sh"):
        name = next((w.text for w in words if w.text.endswith(".sh")), words[0].text)
        draft.check(chosen.line, name, "what it starts is not read; it runs as it is")
    raw = " ".join(word.raw for word in words)
    raw = _name_own_node(job, chosen, name_first_node(raw, aliases))
    texts = _find_words(words, ShellVariables())
    live = any(text is None for text in texts) or bool(job.late)
    if live and not job.late:
        file = _find_script(texts, words, script)
        if file is not None and not setup.moved and all(t is not None for t in texts[file + 1 :]):
            path = script.variables.join(words[file].raw)
            text = "".join(item.text for item in path)
            if _PATH.fullmatch(text) and list_names(text) <= {"HOME", "SCRATCH", "WORK", "USER"}:
                texts[file], live = text, False
    if live:
        prefix = "env " + " ".join(f"-u {name}" for name in unset) + " " if unset else ""
        line = "\n".join([*job.late, f"exec {prefix}{raw}"])
        draft.put("run.command", ["bash", "-c", line])
        return
    plain = [text for text in texts if text is not None]
    if alone:
        without = [word for name in unset for word in ("-u", name)]
        draft.put("run.command", ["env", *without, *plain] if without else plain)
        return
    rest = list(plain)
    if _PYTHON.fullmatch(rest[0]):
        rest.pop(0)
        while rest and rest[0] == "-u":
            rest.pop(0)
        if len(rest) > 1 and rest[0] == "-m" and re.fullmatch(r"[A-Za-z_][\w.]*", rest[1]):
            draft.put("run.module", rest[1])
            draft.put("run.args", rest[2:] or None)
            return
        if rest and not rest[0].startswith("-") and not setup.moved and _PATH.fullmatch(rest[0]):
            draft.put("run.script", rest[0])
            draft.put("run.args", rest[1:] or None)
            return
    draft.put("run.command", plain)


_OWN_NODE = re.compile(
    r"\$HOSTNAME\b|\$\{HOSTNAME\}|\$\(hostname( -[sf]|--fqdn)?\)|`hostname( -[sf])?`"
    r"|\$SLURMD_NODENAME\b|\$\{SLURMD_NODENAME\}"
)
_OWN_NUMBER = re.compile(r"\$\{?SLURM_(PROCID|NODEID|LOCALID)\b")


def _name_own_node(job: ImportedJob, chosen: Candidate, text: str) -> str:
    """The first node for its own name, which the script's shell has put in for all nodes."""
    if job.nodes == 1 or not chosen.launched:
        return text
    if chosen.inner:
        if match := _OWN_NODE.search(text):
            job.draft.check(chosen.line, match[0], "that of each node")
        return text
    if match := _OWN_NUMBER.search(text):
        job.draft.check(chosen.line, match[0], "that of each process; in the script, of the first")
    return _OWN_NODE.sub("$MASTER_ADDR", text)


def _find_script(texts: list[str | None], words: tuple[Word, ...], script: Script) -> int | None:
    """Where a Python file stands whose path has variables."""
    if not texts[0] or not _PYTHON.fullmatch(texts[0]):
        return None
    index = next((i for i, text in enumerate(texts) if i and text != "-u"), None)
    if index is None or texts[index] is not None or not words[index].text.endswith(".py"):
        return None
    del script
    return index


def take_ranks(job: ImportedJob, used: set[str], line: int) -> tuple[list[str], list[str]]:
    """RANK and its like as the script sets them for one process, and those that it does not set.

    jobgen's own address and port stay, and its numbers where only the job knows the script's.
    """
    script, lines = job.script, dict[str, str]()
    missing = list(RANKS)
    for step in script.steps:
        for name, _, _ in step.source.variables():
            variable = script.variables.get(name)
            own = GIVEN.fullmatch(name) and not re.match(r"SRUN|SLURM|TORCHELASTIC", name)
            if not own or not variable or step.source.line >= line:
                continue
            if not variable.exported and name not in used:
                continue
            missing = [other for other in missing if other != name]
            if name.startswith("MASTER_"):
                continue
            if variable.fields and not any(part.live for part in variable.fields[0]):
                lines[name] = f"export {name}={write_field(variable.fields[0])}"
            elif name.endswith("SIZE"):
                shown = f"${name}"
                job.draft.lose(step.source.line, shown, "one process's is 1; the job knows another")
    return list(lines.values()), missing


def _take_world(job: ImportedJob) -> None:
    """A WORLD_SIZE of the script's own, where it is not the number of processes."""
    values = job.draft.values
    variable = job.script.variables.get("WORLD_SIZE")
    if values.get("launch.mode") != "direct" or not variable or not variable.exported:
        return
    each = values.get("launch.processes_per_node") or max(1, job.gpus)
    text = None
    if variable.fields:
        field = variable.fields[0]
        if not any(item.live for item in field):
            text = "".join(item.text for item in field)
    if (
        text is not None
        and text.isdigit()
        and isinstance(each, int)
        and int(text) != each * job.nodes
    ):
        job.late.append(f"export WORLD_SIZE={text}")


def name_first_node(text: str, aliases: set[str]) -> str:
    for name in sorted(aliases, key=len, reverse=True):
        text = re.sub(rf"\$\{{{name}\}}|\${name}\b", "$MASTER_ADDR", text)
    return text


def _take_interpreter(job: ImportedJob, words: tuple[Word, ...]) -> tuple[Word, ...]:
    """`python3` in place of one with a folder, which PATH then leads to."""
    text = words[0].text
    folder, _, name = text.rpartition("/")
    if re.fullmatch(r"python[\d.]*", name) and folder and not folder.startswith("$("):
        job.draft.setup([f"export PATH={folder}:$PATH"])
        return (Word("python3", words[0].line, words[0].column), *words[1:])
    return words


def _find_words(words: tuple[Word, ...], variables: ShellVariables) -> list[str | None]:
    """The texts of words; None for those that only the job can tell."""
    return [variables.tell(word.raw) if not _globs(word) else None for word in words]


def _globs(word: Word) -> bool:
    return not word.literal and not any(item.live for item in split_segments(word.raw))
