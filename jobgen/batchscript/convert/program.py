"""Which command of a script is the job, and how many processes of it there are."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from jobgen.batchscript.bash import Command, Word, parse
from jobgen.batchscript.expand import Field, ShellVariables, split_segments
from jobgen.batchscript.launchers import (
    OtherAgent,
    Started,
    Torchrun,
    find_agent,
    list_inner,
    read_string,
    read_torchrun,
    unwrap,
)
from jobgen.batchscript.reader import Script
from jobgen.batchscript.walk import ExecutedCommand, Walk

# What prints, looks, or waits, and leaves nothing behind.
HARMLESS = frozenset(
    [
        "echo",
        "printf",
        "date",
        "hostname",
        "pwd",
        "env",
        "printenv",
        "which",
        "nvidia-smi",
        "ibv_devinfo",
        "ibstat",
        "ibstatus",
        "lspci",
        "lsb_release",
        "ps",
        "top",
        "groups",
        "rocm-smi",
        "amd-smi",
        "xpu-smi",
        "uname",
        "whoami",
        "id",
        "ls",
        "cat",
        "tree",
        "head",
        "tail",
        "sleep",
        "wait",
        "true",
        ":",
        "set",
        "nproc",
        "type",
        "clear",
        "lscpu",
        "free",
        "df",
        "du",
        "squeue",
        "sacct",
        "sstat",
        "seff",
        "sinfo",
        "qstat",
        "jobs",
        "time",
        "uptime",
        "scontrol",
        "tput",
        "figlet",
        "nvcc",
        "gcc",
        "wc",
        "fi",
        "done",
        "}",
        "esac",
        ")",
        "case",
        "for",
        "while",
        "until",
        "then",
        "else",
        "do",
        "elif",
        "in",
        "]",
        "[[",
        "[",
        "test",
        "((",
    ]
)
# What reads text, and writes none but its output.
READING = frozenset(
    ["grep", "sed", "awk", "head", "tail", "cut", "sort", "tr", "wc", "uniq", "bc", "basename"]
)
# What may run on every node, or several times, as well as once.
_BUILTINS = frozenset(["let", "shift", "getopts", "break", "continue", "hash", "builtin"])
REPEATABLE = _BUILTINS | frozenset(
    [
        "export",
        "declare",
        "typeset",
        "readonly",
        "local",
        "source",
        ".",
        "module",
        "ml",
        "conda",
        "mamba",
        "micromamba",
        "cd",
        "pushd",
        "popd",
        "mkdir",
        "ulimit",
        "umask",
        "unset",
        "shopt",
        "alias",
        "eval",
        "touch",
        "ln",
        "chmod",
        "spack",
        "exit",
        "return",
        "deactivate",
        "stty",
        "setfacl",
        "lfs",
        "mapfile",
        "read",
        "readarray",
        "trap",
    ]
)
# What gets things ready and is never the job itself.
PREPARING = frozenset(
    [
        "pip",
        "pip3",
        "git",
        "wget",
        "curl",
        "rm",
        "cp",
        "mv",
        "tar",
        "unzip",
        "zip",
        "rsync",
        "sed",
        "awk",
        "gawk",
        "grep",
        "egrep",
        "fgrep",
        "find",
        "sort",
        "uniq",
        "tr",
        "cut",
        "xargs",
        "tee",
        "dd",
        "sbatch",
        "qsub",
        "scancel",
        "kill",
        "pkill",
        "killall",
        "make",
        "cmake",
        "bc",
        "expr",
        "basename",
        "dirname",
        "realpath",
        "readlink",
        "mktemp",
        "uv",
        "poetry",
        "virtualenv",
        "sync",
        "sbcast",
        "aws",
        "gsutil",
        "azcopy",
        "docker",
        "enroot",
        "chown",
        "diff",
        "seq",
        "nl",
        "paste",
        "comm",
        "jq",
        "yq",
        "python-config",
        "nc",
        "ss",
        "netstat",
        "lsof",
        "ip",
        "ifconfig",
        "ping",
        "getent",
        "shuf",
        "openssl",
        "mpstat",
        "dcgmi",
        "nvidia-cuda-mps-control",
        "huggingface-cli",
        "hf",
        "wandb",
        "tensorboard",
        "vmstat",
        "iostat",
        "mail",
        "mailx",
        "sendmail",
    ]
)
_RAY = re.compile(r"(^|/)ray$")
_DEEPEST = 8  # strings and files inside one another
_HOROVOD = {"horovodrun"}


class Candidate(NamedTuple):
    """A command that may be the job: what starts it, how often, and where it stands."""

    step: ExecutedCommand
    command: Command
    started: Started
    torchrun: Torchrun | None
    agent: tuple[OtherAgent, int] | None
    inner: tuple[Command, ...]  # all of the string or file that it is part of
    text: str  # of that, and the line in it
    row: int
    nodes: int | None  # that it starts on, where the launcher says so
    per_node: int | None  # processes that the launcher starts on each
    total: int | None

    @property
    def line(self) -> int:
        """The line that it begins in."""
        return self.step.source.line

    @property
    def launched(self) -> bool:
        """Whether a launcher of the scheduler or of MPI starts it."""
        return bool(self.started.launchers)

    @property
    def python(self) -> bool:
        """Whether it is Python, by its name."""
        return bool(re.fullmatch(r"python[\d.]*", self.started.name))

    @property
    def known(self) -> bool:
        """Whether it is Python, or what starts Python's processes for a training."""
        return bool(self.python or self.torchrun or self.agent)


def read_number(text: str | None, variables: ShellVariables) -> int | None:
    """A whole number that an option says, with variables put in."""
    value = variables.tell(text) if text else None
    if value is not None and re.fullmatch(r"\d{1,6}", value, re.ASCII):
        return int(value)
    return None


def list_candidates(script: Script) -> Iterator[Candidate]:
    """Every command that may be the job, in order; those in here-documents are none."""
    for step in script.steps:
        blocks = step.source.blocks
        pattern = step.source.end == ")" and blocks and blocks[-1].opener == "case"
        if step.command.words and not pattern:
            yield from _list_of(step, step.command, None, (), script, ("", 1))


def _list_of(
    step: ExecutedCommand,
    command: Command,
    outer: Started | None,
    around: tuple[Command, ...],
    script: Script,
    source: tuple[str, int],
    depth: int = 0,
) -> Iterator[Candidate]:
    if depth > _DEEPEST:
        return
    started = unwrap(command.words)
    if outer:
        started = started._replace(
            launchers=outer.launchers + started.launchers,
            wrapper=outer.wrapper or started.wrapper,
            wrappers=outer.wrappers + started.wrappers,
            assignments=outer.assignments + started.assignments,
            runner=outer.runner or started.runner,
        )
    reads = started.name in ("bash", "sh")
    inner = [item for item in list_inner(started, command) if reads or "heredoc" not in item.inside]
    text, first = "", 1
    positional: tuple[Field, ...] | None = None
    if inner and not around:
        docs = command.heredocs
        text = docs[0].body if docs else find_string(started)
        first = docs[0].line if docs else find_string_line(started)
    elif not inner and (file := find_file(script, started)):
        text, positional = file
        inner = parse(text)
    if inner:
        variables = ShellVariables(script.given)
        variables.positional = positional
        variables.values |= {
            name: value for name, value in script.variables.values.items() if value.exported
        }
        inner = [item.command for item in Walk(inner, variables).steps]
        for child in inner:
            if child.words:
                row = child.line - first + 1 if not around else source[1]
                place = source[0] or text, row
                yield from _list_of(
                    step, child, started, around or tuple(inner), script, place, depth + 1
                )
        return
    name = started.name
    if not started.program or name in HARMLESS | REPEATABLE | PREPARING:
        return
    texts = [word.text for word in started.program]
    if name.startswith("python") and not is_training(texts):
        return
    if name in ("bash", "sh") and len(texts) == 1:
        return
    if re.match(r"\$\(|`", texts[0]) and not re.match(r"(\$\([^()]*\)|`[^`]*`)/", texts[0]):
        return  # what a command prints, such as `eval "$(conda shell.bash hook)"`
    nodes, per_node, total = _count(started, script)
    yield Candidate(
        step,
        command,
        started,
        read_torchrun(started.program),
        find_agent(started.program),
        around,
        *source,
        nodes,
        per_node,
        total,
    )


def _find_string_word(started: Started) -> Word | None:
    program = started.program
    for index, word in enumerate(program[:-1]):
        if re.fullmatch(r"-[a-z]*c", word.text):
            return program[index + 1]
    return program[0] if len(program) == 1 else None


def find_string(started: Started) -> str:
    """The text that `bash -c`, or ssh, is given."""
    word = _find_string_word(started)
    return read_string(word) if word else ""


def find_string_line(started: Started) -> int:
    """The line that this text begins in."""
    word = _find_string_word(started)
    return word.line if word else 1


def find_file(script: Script, started: Started) -> tuple[str, tuple[Field, ...]] | None:
    """The text of a shell script that is started, and its arguments.

    It is one that the script itself writes, or one that lies beside it.
    """
    words = list(started.program)
    while words and words[0].text.rpartition("/")[2] in ("bash", "sh"):
        words.pop(0)
        while words and words[0].text in ("-l", "-e", "-x", "-u", "-ex", "-i", "--login"):
            words.pop(0)
    if not words or words[0].text[:1] == "-":
        return None
    name = words[0].text
    if not re.search(r"\.\w+$", name) or name.endswith(".py"):
        return None
    arguments = tuple(split_segments(word.raw) for word in words[1:])
    for step in script.steps:
        for item in step.source.redirects:
            written = item.target.text.rpartition("/")[2]
            if step.source.heredocs and written == name.rpartition("/")[2]:
                return step.source.heredocs[0].body, arguments
    if "$" in name:
        return None
    path = os.path.join(os.path.dirname(script.path), name)
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read(100_000)
    except (OSError, ValueError):
        return None
    return (text, arguments) if not text.startswith("#!") or "sh" in text.split("\n")[0] else None


def is_training(texts: list[str]) -> bool:
    """Whether a Python command line may be the job: not `-c`, `--version`, or `-m pip`."""
    rest = [text for text in texts[1:] if text not in ("-u", "-O", "-B")]
    if not rest or rest[0] in ("-c", "-V", "--version", "-"):
        return False
    return rest[:2] not in (["-m", "pip"], ["-m", "venv"], ["-m", "ensurepip"], ["-m", "uv"])


def _count(started: Started, script: Script) -> tuple[int | None, int | None, int | None]:
    """Nodes, processes on each, and processes in all, by what the launchers are told."""
    nodes = per_node = total = None
    for launcher in started.launchers:

        def number(
            *names: str, options: tuple[tuple[str, str], ...] = launcher.options
        ) -> int | None:
            for option, value in options:
                if option in names:
                    return read_number(value, script.variables)
            return None

        if launcher.name in ("srun", "aprun", "ibrun"):
            nodes = number("-N", "--nodes") if launcher.name == "srun" else None
            per_node = number("--ntasks-per-node") if launcher.name == "srun" else number("-N")
            total = number("-n", "--ntasks")
        elif launcher.name in ("ssh", "pbs_tmrsh", "pdsh", "clush", "pbsdsh"):
            per_node = 1
        else:
            total = number("-n", "-np", "--np", "-c", "--ntasks")
            per_node = number("-ppn", "--ppn", "-perhost", "-npernode", "--npernode", "-N")
    return nodes, per_node, total


def finds_ray(candidates: list[Candidate]) -> Candidate | None:
    """A command that starts Ray."""
    for item in candidates:
        texts = [word.text for word in item.started.program]
        if _RAY.search(texts[0]) and texts[1:2] != ["job"]:
            return item
        if "ray" in texts[1:2] and item.python:
            return item
    return None


def finds_horovod(candidates: list[Candidate]) -> Candidate | None:
    """A command that starts Horovod by its own launcher."""
    return next((item for item in candidates if item.started.name in _HOROVOD), None)


def spell(command: Command) -> str:
    """A simple command as a line of bash."""
    words = [word.raw for word in (*command.assignments, *command.words)]
    for item in command.redirects:
        gap = " " if item.target.raw[:2] in ("<(", ">(") else ""
        words.append(f"{item.operator}{gap}{item.target.raw}")
    return " ".join(words)


def name_program(words: tuple[Word, ...]) -> str:
    """The first words of a program, for messages."""
    text = " ".join(word.text for word in words[:4])
    return text if len(text) <= 60 else text[:57] + "..."


def count_agents(script: Script) -> int | None:
    """How many torchrun agents the job waits for; None where it is not asked plainly."""
    for item in list_candidates(script):
        if item.torchrun:
            word = item.torchrun.options.get("--nnodes")
            count = read_number(word.raw, script.variables) if word else None
            if count is None:
                # In a job that asks for totals, those of the GPUs tell.
                total = read_number(script.resource("ngpus"), script.variables)
                each = item.torchrun.options.get("--nproc-per-node")
                number = read_number(each.raw, script.variables) if each else None
                return total // number if total and number else None
            return count
    return None
