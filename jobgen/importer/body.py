"""From the commands of a script to the environment, program and launch of a spec."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from jobgen.importer.draft import Draft
from jobgen.script import Launch, Script
from jobgen.shell import Command, Word

_SETUP = {"ulimit", "umask", "unset", "shopt", "source", ".", "alias", "mkdir"}
_RENDEZVOUS = re.compile(
    r"MASTER_\w+|WORLD_SIZE|(LOCAL_|NODE_)?RANK|N?NODES|NNODES|NPROC\w*|GPUS_PER_NODE|RDZV_\w+"
    r"|HEAD_NODE\w*|head_node\w*|nodes\w*|SRUN_CPUS_PER_TASK|SLURM_\w+|PBS_\w+"
)
_BATCH_ONLY = re.compile(
    r"\bscontrol\b|\bsrun\b|PBS_NODEFILE|\bhostname\b|SLURM_PROCID|SLURM_NODEID"
)
_HELPERS = {"", "hostname", "echo", "nvidia-smi", "rocm-smi", "true", "date", "bash", "sh"}
_PATH = re.compile(r"(?:[^$`\"'\\*?\[{\s]|\$\w+|\$\{\w+\})+")


class Statement(NamedTuple):
    """Whole lines of a script that belong together, and the commands in them."""

    first: int
    last: int
    commands: tuple[Command, ...]


def statements(script: Script) -> Iterator[Statement]:
    """The body in statements: a loop, a function or a continued line is one."""
    group: list[Command] = []
    last = 0
    for index, command in enumerate(script.commands):
        group.append(command)
        last = max(last, command.last_line)
        following = script.commands[index + 1 : index + 2]
        closed = not command.inside and command.end not in ("|", "|&", "&&", "||", "(")
        if following and closed and following[0].line > last:
            yield Statement(group[0].line, last, tuple(group))
            group = []
    if group:
        yield Statement(group[0].line, max(last, group[-1].last_line), tuple(group))


def settle_body(script: Script, draft: Draft) -> None:
    """Put what the script runs into `draft`, and note what has no place in it."""
    chosen = _choose(script)
    at = chosen.command.line if chosen else 0
    everything = list(statements(script))
    ordered = any(_keeps_order(command) for command in script.commands)
    moved = False
    for statement in everything:
        lines = script.lines[statement.first - 1 : statement.last]
        text = "\n".join(lines)
        if chosen and statement.first <= at <= statement.last:
            alone = len(statement.commands) == 1 and len(lines) == 1
            if not alone or chosen.started.launchers or chosen.torchrun:
                draft.leave(statement.first, text, "jobgen starts it by torchrun, on every node")
        elif chosen and statement.first > at:
            draft.leave(statement.first, text, "comes after the program")
        elif len(statement.commands) == 1 and not statement.commands[0].inside:
            command = statement.commands[0]
            if command.name == "cd" and not re.search("PBS_O_WORKDIR|SLURM_SUBMIT_DIR", text):
                draft.setup(lines)
                moved = True
            elif not _simple(script, command, draft, ordered=ordered):
                _other(command, lines, draft, ordered=ordered)
        else:
            draft.leave(statement.first, text, "left out: jobgen does not read what it does")
    if chosen:
        _program(script, chosen, draft, moved=moved)


def _keeps_order(command: Command) -> bool:
    """Whether the order matters in which modules and environments are loaded."""
    if command.name in ("module", "ml"):
        return len(command.words) < 2 or (
            command.texts[1] not in ("load", "add") if command.name == "module" else False
        )
    return command.name in ("source", ".") and not re.search(
        r"(^|bin/)activate$", (*command.texts, "")[1]
    )


def _simple(script: Script, command: Command, draft: Draft, *, ordered: bool) -> bool:
    """Map one command of the environment; False where it is none that a spec can say."""
    texts = [script.expand(text) for text in command.texts]
    if command.end not in ("\n", ";") or command.keywords or not texts:
        return False
    values = draft.values
    if texts[0] in ("module", "ml") and not ordered:
        names = texts[1:] if texts[0] == "ml" else texts[2:]
        if not names or not all(re.fullmatch(r"[\w./+:@=-]+", name) for name in names):
            return False
        if any(name.startswith("-") for name in names):
            return False
        values["environment.modules"] = values.get("environment.modules", []) + names
        return True
    if texts[0] in ("source", ".") and len(texts) == 2 and not ordered:
        folder = texts[1].removesuffix("/bin/activate")
        taken = {"environment.venv", "environment.conda"} & values.keys()
        if folder != texts[1] and _PATH.fullmatch(folder) and not taken:
            draft.put("environment.venv", folder)
            return True
    if texts[0] in ("conda", "source") and texts[1:2] == ["activate"] and len(texts) == 3:
        taken = {"environment.venv", "environment.conda"} & values.keys()
        if _PATH.fullmatch(texts[2]) and not taken and not ordered:
            draft.put("environment.conda", texts[2])
            return True
    if texts[0] == "export" and all("=" in word.raw for word in command.words[1:]):
        pairs = {n: settled(script, Word(raw, 1, 1)) for n, _, raw in command.variables()}
        if not pairs or any(v is None or _RENDEZVOUS.fullmatch(n) for n, v in pairs.items()):
            return False
        values.setdefault("environment.variables", {}).update(pairs)
        return True
    return False


def _other(command: Command, lines: list[str], draft: Draft, *, ordered: bool) -> None:
    """A command that no key of a spec says: verbatim on every node, or left out."""
    text = "\n".join(lines)
    names = [name for name, _, _ in command.variables()]
    names += command.texts[1:] if command.name == "export" else []
    if _BATCH_ONLY.search(text) or any(_RENDEZVOUS.fullmatch(name) for name in names):
        draft.leave(command.line, text, "jobgen finds nodes, ranks and ports on its own")
    elif command.name in _SETUP | {"conda", "module", "ml", "export"} or (
        command.name == "eval" and "conda" in text
    ):
        draft.setup(lines)
        draft.leave(command.line, text, "kept as it is in environment.setup")
    elif command.name == "cd" or command.name == "set":
        draft.leave(command.line, text, "jobgen's script does this on its own")
    elif not command.words:
        draft.leave(command.line, text, "a variable of the script; its value is put in where used")
    else:
        draft.leave(command.line, text, "left out: it would run on every node")


def settled(script: Script, word: Word) -> str | None:
    """The text that a word stands for; None where only the job knows."""
    if not word.literal and "'" not in word.raw:
        word = Word(script.expand(word.raw), word.line, word.column)
    return word.text if word.literal and not word.raw.startswith("(") else None


def _choose(script: Script) -> Launch | None:
    """The command that is the job: torchrun before a launched Python before any Python."""
    plain = [launch for launch in script.launches if "heredoc" not in launch.command.inside]
    python = [launch for launch in plain if launch.started.name.startswith("python")]
    real = [launch for launch in plain if launch.started.name not in _HELPERS]
    for wanted in (
        [launch for launch in plain if launch.torchrun and launch.torchrun.program],
        [launch for launch in python if launch.started.launchers],
        python,
        [launch for launch in real if launch.started.launchers],
        [launch for launch in script.launches if launch.torchrun and launch.torchrun.program],
    ):
        if wanted:
            return wanted[0]
    return None


def agents(script: Script) -> int | None:
    """How many torchrun agents the job waits for; None where it is not said plainly."""
    chosen = _choose(script)
    agent = chosen.torchrun if chosen else None
    count = script.expand(agent.value("--nnodes") or "") if agent else ""
    if agent and not re.fullmatch(r"[1-9]\d{0,3}", count, re.ASCII):
        # In a job that asks for totals, those of the GPUs tell.
        total, each = script.resource("ngpus") or "", agent.value("--nproc-per-node") or ""
        if re.fullmatch(r"\d{1,6}", total, re.ASCII) and re.fullmatch(r"[1-9]\d?", each, re.ASCII):
            count = str(int(total) // int(each))
    return int(count) if re.fullmatch(r"[1-9]\d{0,3}", count, re.ASCII) else None


def _program(script: Script, chosen: Launch, draft: Draft, *, moved: bool) -> None:
    agent = chosen.torchrun
    words = chosen.started.program
    gpus = draft.values.get("resources.gpus_per_node") or 0
    if agent:
        words = agent.program
        if agent.module:
            words = (Word("python3", 1, 1), Word("-m", 1, 1), *words)
        elif not agent.plain:
            words = (Word("python3", 1, 1), *words)
        nodes = agents(script)
        if "resources.nodes" not in draft.values and isinstance(gpus, int) and nodes != 1:
            draft.put("resources.nodes", nodes)
        count = script.expand(agent.value("--nproc-per-node") or "1")
        known = re.fullmatch(r"[1-9]\d{0,3}", count, re.ASCII)
        if known and isinstance(gpus, int) and int(count) != max(1, gpus):
            draft.put("launch.processes_per_node", int(count))
        restarts = script.expand(agent.value("--max-restarts") or "")
        if re.fullmatch(r"[1-9]\d{0,3}", restarts):
            draft.put("launch.max_restarts", int(restarts))
        if (agent.value("--rdzv-backend") or "") == "static":
            draft.put("launch.rendezvous", "static")
        draft.values.pop("tasks", None)
    if chosen.started.launchers and not agent:
        _tasks(script, chosen, draft)
    _run(script, chosen.started.wrapper, words, draft, moved=moved)


def _tasks(script: Script, chosen: Launch, draft: Draft) -> None:
    """One process for each task: what the launcher is told of them, where directives say less."""
    launcher, values = chosen.started.launchers[0], draft.values

    def number(*names: str) -> int:
        text = script.expand(launcher.value(*names) or "")
        return int(text) if re.fullmatch(r"\d{1,5}", text, re.ASCII) else 0

    nodes = values.get("resources.nodes", 1)
    nodes = nodes["min"] if isinstance(nodes, dict) else nodes
    tasks = number("--ntasks-per-node", "--ppn", "-ppn", "-perhost")
    tasks = tasks or number("-n", "--ntasks", "-np") // nodes or values.get("tasks") or 1
    for key, names in (
        ("resources.gpus_per_node", ("--gpus-per-task",)),
        ("resources.cpus_per_node", ("-c", "--cpus-per-task")),
    ):
        if key not in values:
            draft.put(key, number(*names) * tasks or None)
    gpus = values.get("resources.gpus_per_node") or 0
    if isinstance(gpus, int) and tasks != max(1, gpus):
        draft.put("launch.processes_per_node", tasks)


def _is_python(text: str | None) -> bool:
    return text is not None and re.fullmatch(r"(.*/)?python[\d.]*", text) is not None


def _run(
    script: Script,
    wrapper: tuple[Word, ...],
    words: tuple[Word, ...],
    draft: Draft,
    *,
    moved: bool,
) -> None:
    texts = [settled(script, word) for word in (*wrapper, *words)]
    file = next((i for i, text in enumerate(texts) if i and text != "-u"), 0)
    if file and texts[file] is None and not wrapper and not moved and _is_python(texts[0]):
        path = script.expand(words[file].text)
        if "'" not in words[file].raw and "$" in path and _PATH.fullmatch(path):
            texts[file] = path  # a spec's own path may have variables
    if any(text is None for text in texts):
        line = "exec " + " ".join(script.expand(word.raw) for word in (*wrapper, *words))
        draft.put("run.command", ["bash", "-c", line])
        note = "some words expand in the job, so a shell of its own runs it"
        draft.leave((*wrapper, *words)[0].line, line, note)
        return
    plain = [text for text in texts if text is not None]
    rest = list(plain)
    if not wrapper and _is_python(rest[0]):
        rest.pop(0)
        while rest and rest[0] == "-u":
            rest.pop(0)
        if len(rest) > 1 and rest[0] == "-m":
            draft.put("run.module", rest[1])
            draft.put("run.args", rest[2:] or None)
            return
        if rest and not rest[0].startswith("-") and not moved and _PATH.fullmatch(rest[0]):
            draft.put("run.script", rest[0])
            draft.put("run.args", rest[1:] or None)
            return
    draft.put("run.command", plain)
