"""The job spec: what the user wrote in job.yaml, typed, with nothing filled in.

The dataclasses below are the manual of the format; `plan` decides what a key left out means.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal, NamedTuple

from jobgen import document
from jobgen.bind import Parsed, Pattern, Positions, Range, Text, bind
from jobgen.errors import Position, Problem, SpecError, UsageError
from jobgen.units import DURATION, MEMORY, parse_duration, parse_memory

Count = Annotated[int, Range(1, 100_000)]
CountOrNone = Annotated[int, Range(0, 100_000)]
Duration = Annotated[int, Parsed(parse_duration, ("04:00:00", "4h", "90m", "1-12:00:00"), DURATION)]
Memory = Annotated[int, Parsed(parse_memory, ("180GB", "512MB"), MEMORY)]
Word = Annotated[str, Text()]
# The characters that sbatch, qsub and a file name all take as they are; qsub(1B) allows 230.
NAME = Pattern(
    r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}",
    "a job name; use up to 100 letters, digits, '.', '_' and '-', a letter or digit first",
    ("gpt-web",),
)
Name = Annotated[str, NAME]
# What accounts, queues and partitions are called; nothing that a directive would take apart.
Label = Annotated[
    str,
    Pattern(
        r"[A-Za-z0-9_][A-Za-z0-9_.@:+/-]*",
        "a name that a directive can carry; use letters, digits and any of _ . @ : + / -",
    ),
]
Variable = Annotated[str, Pattern(r"[A-Za-z_][A-Za-z0-9_]*", "the name of an environment variable")]
Option = Annotated[str, Pattern(r"[^\s=\x00-\x1f\x7f-\x9f]+", "the name of an option")]
Directive = Annotated[
    str,
    Pattern(
        r"#(PBS|SBATCH) +[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?",
        "a directive; begin it with '#PBS ' or '#SBATCH ' and use plain ASCII",
        ("#PBS -m e", "#SBATCH --constraint=a100"),
    ),
]
# What a command is given that would take a leading dash for an option.
NoOption = Annotated[str, Pattern(r"[^-].*", "a name; it begins with '-'")]
Interface = Annotated[
    str,
    Pattern(r"[A-Za-z0-9_.:@-]{1,15}", "the name of a network interface", ("hsn0", "ib0")),
]
# Letters beyond ASCII are not told from other signs; Python will. Said by what they are not, as a
# class of so many characters takes ten milliseconds to compile.
_WORD = r"[^\x00-\x40\x5b-\x5e\x60\x7b-\xa0][^\x00-\x2f\x3a-\x40\x5b-\x5e\x60\x7b-\xa0]*"
Module = Annotated[
    str,
    Pattern(
        rf"{_WORD}(\.{_WORD})*",
        "a Python module",
        ("jobgen.trainer",),
    ),
]
SchedulerName = Literal["slurm", "pbs", "local"]

# Names of variables that would not arrive: bash or torchrun gives them a value of its own. All
# names in lower case are the script's, but those of proxies.
TAKEN = (
    "(?!.*_proxy$)[a-z0-9_]+|BASH.*|JOBGEN_.*|TORCHELASTIC_.*|COMP_WORDBREAKS|DIRSTACK|EPOCH.*"
    "|E?UID|PPID|FUNCNAME|GROUPS|HISTCMD|IFS|LINENO|(OLD)?PWD|OPT(ARG|ERR|IND)|PIPESTATUS"
    "|POSIXLY_CORRECT|PS[124]|S?RANDOM|SECONDS|SHELLOPTS|SHLVL|MASTER_(ADDR|PORT)|ROLE_NAME"
    "|((LOCAL|GROUP|ROLE)_)?(RANK|WORLD_SIZE)"
)


class Resources(NamedTuple):
    """What the job asks of the cluster. `gpus_per_node` as a list gives each node its own."""

    nodes: Annotated[Count | None, "How many nodes; 1, or as many as the lists below say."] = None
    gpus_per_node: Annotated[
        CountOrNone | tuple[CountOrNone, ...] | None,
        "GPUs on each node, as torch counts devices; a list, such as [8, 2], for unequal nodes.",
    ] = None
    gpu_type: Annotated[Label | None, "The type of GPU, where the site has several."] = None
    cpus_per_gpu: Annotated[Count | None, "CPUs for each GPU."] = None
    cpus_per_node: Annotated[Count | None, "CPUs on each node, instead of cpus_per_gpu."] = None
    memory_per_node: Annotated[Memory | None, "Memory on each node, such as 180GB."] = None
    walltime: Annotated[
        Duration | None, "How long the job may run, such as 02:00:00 or 2h; then it is ended."
    ] = None

    def conflicts(self) -> Iterator[tuple[str, str, str]]:
        """CPUs are said in one way."""
        if self.cpus_per_gpu is not None and self.cpus_per_node is not None:
            yield "cpus_per_node", "stands beside cpus_per_gpu", "give one of the two"


class Environment(NamedTuple):
    """What is set up on every node before the program starts, in this order."""

    modules: Annotated[tuple[NoOption, ...] | None, "Environment modules to load, in order."] = None
    venv: Annotated[
        str | None, "A Python virtual environment; $NAME and a leading ~ expand in the job."
    ] = None
    conda: Annotated[NoOption | None, "A conda environment, by name or path."] = None
    variables: Annotated[
        dict[Variable, Word] | None, "Environment variables; the values are taken as they are."
    ] = None
    setup: Annotated[Word | None, "Lines of bash of your own, run on every node, verbatim."] = None

    def conflicts(self) -> Iterator[tuple[str, str, str]]:
        """There is one Python, and the variables arrive."""
        if self.venv is not None and self.conda is not None:
            yield "conda", "stands beside venv", "give one of the two"
        for name in self.variables or ():
            if re.fullmatch(TAKEN, name):
                message = "would not arrive: the script, bash or torchrun sets it"
                yield f"variables.{name}", message, "choose another name"


class Run(NamedTuple):
    """The program: exactly one of module, script and command, with its arguments."""

    module: Annotated[Module | None, "A Python module, as for python -m."] = None
    script: Annotated[
        str | None, "A Python file; relative to the folder you submit from. $NAME and ~ expand."
    ] = None
    command: Annotated[
        tuple[Word, ...] | None, "Any program, as a list of words; run once for each process."
    ] = None
    args: Annotated[
        tuple[Word, ...] | dict[Option, bool | Word | tuple[Word, ...]] | None,
        "Arguments: a list of words, or keys and values that become --key value "
        "(true: --key alone; false: nothing; a list: --key a b).",
    ] = None

    def conflicts(self) -> Iterator[tuple[str, str, str]]:
        """There is one program, and its arguments can be told apart."""
        given = [key for key in ("module", "script", "command") if getattr(self, key) is not None]
        if len(given) != 1:
            what = f"has {' and '.join(given)}" if given else "does not say what to run"
            yield "", what, "give exactly one of module, script and command"
        if self.command == ():
            yield "command", "is an empty list", "give the program and its words"
        for key, value in self.args.items() if isinstance(self.args, dict) else ():
            if isinstance(value, tuple) and any(word.startswith("-") for word in value):
                message = "a value in this list begins with '-' and would be read as an option"
                yield f"args.{key}", message, "write args as a list of words"


class Launch(NamedTuple):
    """How the processes start and find each other."""

    mode: Annotated[
        Literal["torchrun"] | None, "torchrun: one agent on each node, which starts the processes."
    ] = None
    rendezvous: Annotated[
        Literal["c10d", "static"] | None, "How agents meet: c10d (the default) or static."
    ] = None
    processes_per_node: Annotated[
        Count | tuple[Count, ...] | None,
        "Processes on each node; as many as GPUs, or 1. A list gives each node its own.",
    ] = None
    max_restarts: Annotated[
        CountOrNone | None, "How often torchrun restarts failed processes; 0 by default."
    ] = None
    interface: Annotated[
        Interface | None, "The network interface whose address the nodes use, such as hsn0."
    ] = None


class JobSpec(NamedTuple):
    """One job, as its user wrote it."""

    name: Annotated[Name, "The job's name; also the name of its folder under runs/."]
    resources: Annotated[Resources, "What the job asks of the cluster."]
    run: Annotated[Run, "The program."]
    site: Annotated[Label | None, "The cluster's profile, such as nci-gadi."] = None
    scheduler: Annotated[
        SchedulerName | None, "slurm, pbs or local, where no site profile says it."
    ] = None
    account: Annotated[Label | None, "The project or account that pays."] = None
    queue: Annotated[Label | None, "The queue; Slurm calls it partition."] = None
    filesystems: Annotated[
        tuple[Label, ...] | None,
        "The file systems the job uses, where the site wants them listed, such as [home, eagle].",
    ] = None
    environment: Annotated[Environment, "What is set up on every node."] = Environment()
    launch: Annotated[Launch, "How the processes start and find each other."] = Launch()
    directives: Annotated[
        tuple[Directive, ...],
        "Directives of your own, verbatim, after jobgen's; '#PBS' ones are for PBS alone, "
        "'#SBATCH' ones for Slurm.",
    ] = ()

    def conflicts(self) -> Iterator[tuple[str, str, str]]:
        """The lists that name each node's own number are as long as the job is wide."""
        nodes, said = self.resources.nodes, "resources.nodes"
        for path, value in (
            ("resources.gpus_per_node", self.resources.gpus_per_node),
            ("launch.processes_per_node", self.launch.processes_per_node),
        ):
            if isinstance(value, tuple):
                if nodes is None and value:
                    nodes, said = len(value), path
                elif len(value) != nodes:
                    message = f"lists {len(value)} nodes, {said} says {nodes or 'at least 1'}"
                    yield path, message, ""


class LoadedSpec(NamedTuple):
    """A spec and where it came from: its file, the overrides applied, where each field stands.

    `digest` is of what was written, comments and layout aside: 16 hex digits of its SHA-256.
    """

    spec: JobSpec
    file: str
    digest: str
    positions: Positions
    overrides: tuple[str, ...] = ()

    def where(self, path: str) -> Position:
        """The place of the field at `path`, or of the nearest one around it that is there."""
        while path:
            if path in self.positions:
                return self.positions[path]
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return Position(self.file, 1, 1)

    def problem(self, path: str, message: str, hint: str = "") -> Problem:
        """A problem with the value at `path`."""
        return Problem(self.where(path), path, message, hint)


def load(path: str, overrides: Iterable[str] = ()) -> LoadedSpec:
    """Read the spec in the file at `path`, with `overrides` (`resources.nodes=4`) on top.

    A position's file is `path` as given. Raises SpecError with every problem found, and UsageError
    for an override that is no PATH=VALUE.
    """
    overrides = tuple(overrides)
    if not os.path.basename(path).isprintable():
        raise SpecError([Problem(Position(repr(path)), "", "a script cannot cite such a name")])
    root = document.read(path)
    for override in overrides:
        _override(root, override)
    spec, positions = bind(root, JobSpec)
    return LoadedSpec(spec, path, _digest(root), positions, overrides)


def _digest(root: document.Mapping) -> str:
    def plain(node: document.Node) -> Any:
        if isinstance(node, document.Mapping):
            return {key: plain(item) for key, item in node.items.items()}
        if isinstance(node, document.Sequence):
            return [plain(item) for item in node.items]
        return [node.kind, node.text]

    return hashlib.sha256(json.dumps(plain(root)).encode()).hexdigest()[:16]


def _override(root: document.Mapping, override: str) -> None:
    """Set one value of the tree; `null` takes the key out."""
    path, equals, text = override.partition("=")
    keys = path.split(".")
    if not equals or not all(keys) or not override.isprintable():
        raise UsageError(f"--set {override!r}: write it as resources.nodes=4, on one line")
    where = Position(f"--set {path}")
    value = document.parse_value(text, file=where.file)
    value.where = where
    gone = isinstance(value, document.Scalar) and value.kind == "null"
    node = root
    for key in keys[:-1]:
        outer, node = node, document.Mapping(where)
        inner = outer.items.get(key)
        if isinstance(inner, document.Mapping):  # a copy: an alias may share it with another key
            node.where = inner.where
            node.items.update(inner.items)
            node.keys.update(inner.keys)
        elif gone:
            return
        else:
            outer.keys[key] = where
        outer.items[key] = node
    if gone:
        node.items.pop(keys[-1], None)
    else:
        node.items[keys[-1]] = value
        node.keys[keys[-1]] = where
