"""The job spec: what the user wrote in job.yaml, typed, with nothing filled in.

The records below are the manual of the format; `plan` decides what a key left out means.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Literal

from jobgen.records import NamedTuple
from jobgen.spec import commands
from jobgen.spec.array import Array, Choice
from jobgen.spec.fields import Pattern, Range, ShellPath, limit_keys, mark_record
from jobgen.spec.launchers import find_launcher, name_kind
from jobgen.spec.tables import Conflict, explain, refuse
from jobgen.spec.value_types import (
    Constraint,
    Count,
    CountOrNone,
    Directive,
    Duration,
    Email,
    ExpandableWord,
    Interface,
    JobIds,
    Label,
    Memory,
    Module,
    ModuleName,
    Name,
    NoOption,
    Option,
    RoleName,
    SchedulerName,
    UrlPath,
    Variable,
    Word,
    is_taken,
)


class NodeRange(NamedTuple):
    """As many nodes as the scheduler has, within bounds; for a program that takes any number."""

    min: Annotated[Count, "The fewest nodes to start with."]
    max: Annotated[Count, "The most nodes."]

    def conflicts(self) -> Iterator[Conflict]:
        """Its ends are in order."""
        return refuse({"range_reversed": self.min > self.max}, range=self)


@limit_keys("cpus_per_gpu", "cpus_per_node", most=1)
class Resources(NamedTuple):
    """What the job asks of the cluster. `gpus_per_node` as a list gives each node its own."""

    nodes: Annotated[
        Count | NodeRange | None,
        "How many nodes; 1, or as many as the lists below say. On Slurm also a range.",
    ] = None
    gpus_per_node: Annotated[
        CountOrNone | Annotated[tuple[CountOrNone, ...], Range(1)] | None,
        "GPUs on each node, as torch counts devices; a list, such as [8, 2], for unequal nodes.",
    ] = None
    gpu_type: Annotated[Label | None, "The type of GPU, where the site has several."] = None
    cpus_per_gpu: Annotated[Count | None, "CPUs for each GPU."] = None
    cpus_per_node: Annotated[Count | None, "CPUs on each node, instead of cpus_per_gpu."] = None
    memory_per_node: Annotated[Memory | None, "Memory on each node, such as 180GB."] = None
    disk_per_node: Annotated[Memory | None, "Space on each node's own disk."] = None
    constraint: Annotated[
        Constraint | None,
        "What the nodes must have, in the site's words: Slurm's node features; for PBS what each"
        " chunk has, as NAME=VALUE, joined by a colon.",
    ] = None
    spare_nodes: Annotated[
        CountOrNone | None,
        "Nodes more than the program runs on; they wait, to take the place of one that fails.",
    ] = None
    exclusive: Annotated[bool | None, "Whether no other job may be on the nodes."] = None
    walltime: Annotated[
        Duration | None, "How long the job may run, such as 02:00:00 or 2h; then it is ended."
    ] = None

    @property
    def ends(self) -> tuple[int | None, int | None]:
        """The least of a range of nodes, None without one, and the most, None if not said."""
        return self.nodes if isinstance(self.nodes, NodeRange) else (None, self.nodes)

    @property
    def listed_gpus(self) -> tuple[int, ...]:
        """The GPUs of each node; none where all have the same number."""
        return self.gpus_per_node if isinstance(self.gpus_per_node, tuple) else ()


# One key each, alike in specs and in site profiles.
First = Annotated[
    Literal["purge", "force-purge", "reset"] | None,
    "What comes first: purge unloads all modules but sticky ones, force-purge those too, reset"
    " brings back what the system loads by itself.",
]
Use = Annotated[tuple[NoOption, ...], "Folders for `module use`; $NAME and a leading ~ expand."]
Load = Annotated[tuple[ModuleName, ...], "Modules to load, in order."]


class Modules(NamedTuple):
    """Environment modules, by Lmod or Environment Modules: what comes first, folders, names."""

    first: First = None
    use: Use = ()
    load: Load = ()


# What runs containers: edf is the Container Engine of CSCS, named for its environment files; a uenv
# (CSCS too) is an image that is mounted, and whose view is entered by --view among the options.
Runtime = Literal["apptainer", "singularity", "podman-hpc", "pyxis", "edf", "uenv"]
Bind = Annotated[
    str,
    Pattern(
        r"[^-:,\s][^:,]*(:[^:,]+){0,2}",
        "a folder or file to show inside; write SOURCE, SOURCE:TARGET or SOURCE:TARGET:ro",
        ("/data", "$SCRATCH/data:/data:ro"),
    ),
]
Binds = Annotated[
    tuple[Bind, ...],
    "What else is seen inside, as SOURCE, SOURCE:TARGET or SOURCE:TARGET:ro; $NAME and a leading ~"
    " expand. The folder you submit from, /tmp and TMPDIR always are.",
]


@mark_record(short_key="image")
class Container(NamedTuple):
    """The container that the processes of every node run in."""

    image: Annotated[
        NoOption,
        "An image file or folder, or a name such as docker://...; for edf the environment file, for"
        " uenv NAME/VERSION:TAG. $NAME and a leading ~ expand.",
    ]
    runtime: Annotated[Runtime | None, "What runs it; by default the site's."] = None
    binds: Binds = ()
    options: Annotated[
        tuple[Word, ...], "More options for the runtime; for pyxis, edf and uenv, of srun."
    ] = ()

    def conflicts(self) -> Iterator[Conflict]:
        """An environment file has its own mounts, and a uenv sees all."""
        own = self.binds and self.runtime in ("edf", "uenv")
        yield from refuse({f"binds_{self.runtime}": own})
        yield from commands.check_words("options", self.options)
        for index, bind in enumerate(self.binds):
            source, _, inside = bind.partition(":")
            target = f"{source}:{inside}" if inside in ("ro", "rw") else f"/{inside}"
            rules = {"binds_target": re.match(r"[^/~$]", inside)}
            yield from refuse(rules, index=index, bind=bind, meant=f"{source}:{target}")


# Words of the command `module`, by the rule that says what to write instead of each.
_MODULE_WORDS = {
    **dict.fromkeys(("module", "ml", "load", "&&"), "module_command"),
    **dict.fromkeys(("purge", "reset"), "module_first"),
    **dict.fromkeys(("swap", "switch", "unload", "rm"), "module_other"),
    "use": "module_use",
}


def _find_module_command(names: tuple[str, ...]) -> Iterator[Conflict]:
    rules = {word: _MODULE_WORDS[word] for word in names if word in _MODULE_WORDS}
    heads = {word for word, rule in rules.items() if rule == "module_command"}
    for word in sorted(rules, key=heads.__contains__)[:1]:
        rest = ", ".join(one for one in names if one not in {word, *heads})
        yield explain(rules[word], {"word": word, "rest": rest})


PYTHONS = ("venv", "uv", "conda", "stage")  # each sets up Python
_ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.zst", ".zip")
# The keys of a variable, which stand where its name is forgotten.
_UNNAMED = dict.fromkeys(("value", "expand"), "unnamed")


@limit_keys(*PYTHONS, most=1)
class Environment(NamedTuple):
    """What is set up on every node before the program starts, in this order."""

    modules: Annotated[
        tuple[ModuleName, ...] | Modules | None,
        "Environment modules to load, in order; or keys and values.",
    ] = None
    container: Annotated[Container | None, "A container for what follows and the program."] = None
    stage: Annotated[
        NoOption | None,
        "An archive of an environment, by conda-pack or venv-pack, to unpack on each node's own"
        " disk; $NAME and a leading ~ expand.",
    ] = None
    venv: Annotated[
        str | None, "A Python virtual environment; $NAME and a leading ~ expand in the job."
    ] = None
    uv: Annotated[
        bool | None,
        "Whether the job uses the .venv of the uv project in the folder that you submit from;"
        " `jobgen submit` first updates it to uv.lock, by `uv sync --locked`.",
    ] = None
    conda: Annotated[
        NoOption | None, "A conda environment, by name or path; $NAME and a leading ~ expand."
    ] = None
    variables: Annotated[
        dict[Variable, ExpandableWord] | None,
        "Environment variables; the values are taken as they are, and expand in the job where they"
        " are written as {value: $SCRATCH/x, expand: true}.",
    ] = None
    from_shell: Annotated[
        tuple[Variable, ...] | None,
        "Variables whose values the job takes from the shell that submits it, such as secrets.",
    ] = None
    setup: Annotated[Word | None, "Your own lines of bash, run on every node as they are."] = None

    @property
    def named_variables(self) -> dict[str, str]:
        """The variables by name; none where the spec says nothing of them."""
        return self.variables or {}

    @property
    def own_modules(self) -> Modules:
        """The modules with what comes before them."""
        named = self.modules
        return named if isinstance(named, Modules) else Modules(load=named or ())

    def conflicts(self) -> Iterator[Conflict]:
        """The variables arrive, and the environment is what it is said to be."""
        yield from _find_module_command(self.own_modules.load)
        yield from self._check_paths()
        yield from self._check_variables()
        yield from refuse({"uv_container": self.uv and self.container})

    def _check_paths(self) -> Iterator[Conflict]:
        inside = r"/bin/(?:activate|python[\d.]*)"
        activate = r"(?:source|conda|mamba|micromamba)\s+activate\s+(\S+)"
        in_venv = self.venv and re.fullmatch(rf"(?:(?:source|\.)\s+)?(.*){inside}/?", self.venv)
        in_conda = self.conda and re.fullmatch(rf"{activate}|(.+){inside}", self.conda)
        rules = {
            "venv_file": in_venv,
            "conda_file": in_conda,
            "conda_yaml": str(self.conda).endswith((".yml", ".yaml")),
            "venv_archive": str(self.venv).endswith(_ARCHIVES),
            "conda_archive": str(self.conda).endswith(_ARCHIVES),
            "venv_list": str(self.venv).endswith((".txt", ".yml", ".yaml", ".toml", ".lock")),
        }
        folder = in_conda and in_conda[in_conda.lastindex or 0]
        return refuse(rules, own=self, venv=in_venv, conda=folder)

    def _check_variables(self) -> Iterator[Conflict]:
        """Each is given once, is not taken, and means what it looks like."""
        variables, handed = self.named_variables, self.from_shell or ()
        yield from refuse({"from_shell": {"ALL", "all", "NONE"} & {*handed}})
        for index, name in enumerate(handed):
            rules = {
                "from_shell_too": name in variables,
                "from_shell_taken": is_taken(name.upper()),
            }
            yield from refuse(rules, index=index)
        for name in filter(is_taken, variables):
            rule = "taken" if name.isupper() else "taken_lower"
            yield explain(_UNNAMED.get(name, rule), {"name": name, "capitals": name.upper()})
        path = variables.get("PATH", "")
        if not isinstance(path, ShellPath):
            lone = re.fullmatch("~[^:$]*", path)
            yield from refuse({"literal_path": "$" in path, "lone_path": lone}, path=path)


@limit_keys("module", "script", "command", "body", least=1, most=1)
class Run(NamedTuple):
    """The program: exactly one of module, script, command and body, with its arguments."""

    module: Annotated[Module | None, "A Python module, as for python -m."] = None
    script: Annotated[
        str | None, "A Python file; relative to the folder you submit from. $NAME and ~ expand."
    ] = None
    command: Annotated[
        Annotated[tuple[ExpandableWord, ...], Range(1)] | None,
        "Any program, as a list of words or one line; run once for each process.",
    ] = None
    body: Annotated[
        str | None,
        "A bash script that starts its own programs, by its own srun or mpiexec lines; bash runs it"
        " once, on the first node. Relative to the folder you submit from; $NAME and ~ expand.",
    ] = None
    args: Annotated[
        tuple[ExpandableWord, ...]
        | dict[Option, bool | ExpandableWord | tuple[ExpandableWord, ...]]
        | None,
        "Arguments: a list of words, or keys and values that become --key value "
        "(true: --key alone; false: nothing; a list: --key a b). Taken as they are; "
        "{value: $SCRATCH/x, expand: true} expands in the job.",
    ] = None

    @property
    def words(self) -> tuple[str, ...]:
        """The words of its command; none where it runs something else."""
        return self.command or ()

    @property
    def keyed_args(self) -> dict[str, bool | str | tuple[str, ...]]:
        """Its arguments by key; none where they are a list."""
        return self.args if isinstance(self.args, dict) else {}

    @property
    def listed_args(self) -> tuple[str, ...]:
        """The words of its arguments; none where they have keys."""
        return self.args if isinstance(self.args, tuple) else ()

    def conflicts(self) -> Iterator[Conflict]:
        """Its arguments can be read back from its command line."""
        for key, value in self.keyed_args.items():
            option = isinstance(value, tuple) and any(word.startswith("-") for word in value)
            yield from refuse({"option_in_list": option}, key=key)
        yield from refuse({"body_python": str(self.body).endswith(".py")}, body=self.body)
        yield from commands.check_words("args", self.listed_args)
        if self.script is not None:
            yield from commands.check_script(self.script)


ONE_A_NODE = ("plain", "ray")  # the modes that start one process on each node by default


class Launch(NamedTuple):
    """How the processes start and find each other."""

    mode: Annotated[
        Literal["torchrun", "direct", "plain", "ray"] | None,
        "torchrun: one agent on each node, which starts the processes; direct: the launcher starts"
        " each process, with RANK and the like set; plain: the same for programs that need no"
        " torch, one process on each node; a process that is alone in its job gets no RANK, and a"
        " command that begins with mpirun or the like runs once, on the first node; ray: a Ray of"
        " all nodes, and the program once, on the first. By default what the site advises, or"
        " torchrun; of a role whose run is a command, plain.",
    ] = None
    launcher: Annotated[
        Literal["auto", "srun", "pbsdsh", "mpiexec", "local"] | None,
        "What starts them on the nodes; auto, the default: what the site or the scheduler has.",
    ] = None
    rendezvous: Annotated[
        Literal["c10d", "static"] | None,
        "How agents meet: static or c10d. By default static, or c10d if agents restart processes.",
    ] = None
    processes_per_node: Annotated[
        Count | Annotated[tuple[Count, ...], Range(1)] | None,
        "Processes on each node; as many as GPUs, or 1. A list gives each node its own.",
    ] = None
    max_restarts: Annotated[
        CountOrNone | None, "How often torchrun restarts failed processes; 0 by default."
    ] = None
    interface: Annotated[
        Interface | None, "The network interface whose address the nodes use, such as hsn0."
    ] = None

    def conflicts(self) -> Iterator[Conflict]:
        """What only torchrun's agents can do is not asked of the launcher."""
        other = self.mode not in (None, "torchrun")
        rules = {
            "ray_processes": self.mode == "ray" and self.processes_per_node not in (None, 1),
            "rendezvous": other and self.rendezvous is not None,
            "max_restarts": other and self.max_restarts is not None,
        }
        return refuse(rules, mode=self.mode)


@mark_record(short_key="email")
@limit_keys("email", "on", least=1)
class Notify(NamedTuple):
    """The e-mail that the scheduler sends."""

    email: Annotated[Email | None, "The address; by default that of the user who submits."] = None
    on: Annotated[
        Annotated[tuple[Literal["begin", "end", "fail"], ...], Range(1)] | None,
        "When: begin, end (however it ends) and fail; end and fail if not said.",
    ] = None

    def conflicts(self) -> Iterator[Conflict]:
        """It says each thing once."""
        on = self.on or ()
        return refuse({"events": len({*on}) < len(on)})


@limit_keys("afterok", "afterany", "afternotok", "after", least=1)
class After(NamedTuple):
    """Jobs to wait for, by what has to become of them."""

    afterok: Annotated[JobIds | None, "Until they have ended well."] = None
    afterany: Annotated[JobIds | None, "Until they have ended, well or not."] = None
    afternotok: Annotated[JobIds | None, "Until they have failed."] = None
    after: Annotated[JobIds | None, "Until they have begun."] = None

    def conflicts(self) -> Iterator[Conflict]:
        """What it waits for can come about."""
        both = {*(self.afterok or ())} & {*(self.afternotok or ())}
        return refuse({"after_never": both}, jobs=", ".join(sorted(map(str, both))))


class OnWalltime(NamedTuple):
    """What happens before the walltime ends."""

    notice: Annotated[
        Duration | None, "How long before the end the program is asked to stop; 5m by default."
    ] = None
    then: Annotated[
        Literal["requeue", "resubmit", "stop"] | None,
        "requeue: the same job starts again, on Slurm; resubmit: another job goes on; until the "
        "run is done, at_most is reached, or a start has saved nothing. stop (the default).",
    ] = None
    at_most: Annotated[Count | None, "How many starts there are in all; 10 by default."] = None

    def conflicts(self) -> Iterator[Conflict]:
        """There is a further start for `at_most` to count."""
        return refuse({"starts": self.at_most is not None and self.then in (None, "stop")})


@mark_record(short_key="then")
class OnFailure(NamedTuple):
    """What happens when the program or a node has failed."""

    then: Annotated[
        Literal["restart", "stop"] | None,
        "restart: the program starts again where a node or the network is at fault, without the"
        " nodes that are, and once where the fault is unclear; not where the program is. stop (the"
        " default).",
    ] = None
    at_most: Annotated[Count | None, "How many restarts there are in all; 3 by default."] = None

    def conflicts(self) -> Iterator[Conflict]:
        """There is a restart for `at_most` to count."""
        return refuse({"restarts": self.at_most is not None and self.then != "restart"})


@limit_keys("http", "tcp", "file", "log", least=1, most=1)
class Ready(NamedTuple):
    """How one knows that a role is ready for those that need it: exactly one way."""

    http: Annotated[
        UrlPath | None, "A path that its first node answers at its port with a code of 200 to 299."
    ] = None
    tcp: Annotated[bool | None, "Something listens at its port, on its first node."] = None
    file: Annotated[
        str | None,
        "A file that it writes when ready, seen from every node; from where you submit. $NAME and ~"
        " expand, and $JOBGEN_RUN_DIR is the role's run folder.",
    ] = None
    log: Annotated[Word | None, "An extended regular expression for a line it prints."] = None
    within: Annotated[Duration | None, "How long that may take; 10m by default."] = None

    def conflicts(self) -> Iterator[Conflict]:
        """There is something to wait for, in words that grep takes."""
        return refuse({"no_tcp": self.tcp is False})


class Role(NamedTuple):
    """One of several programs in a job: it has some of the nodes, or a part of each."""

    run: Annotated[Run, "The program."]
    nodes: Annotated[
        Count | None, "How many of the job's nodes; one role may leave it out, and takes the rest."
    ] = None
    gpus: Annotated[
        CountOrNone | None,
        "GPUs of each node, 0 for none; roles in a row that say gpus share nodes, until all GPUs of"
        " these are dealt.",
    ] = None
    launch: Annotated[Launch, "How its processes start and find each other."] = Launch()
    environment: Annotated[
        Environment, "What is set up on its nodes, added to the job's; its own values win."
    ] = Environment()
    ready: Annotated[
        Ready | None, "How one knows that it is ready; without it, it is once it is started."
    ] = None
    after: Annotated[
        tuple[RoleName, ...] | None,
        "Roles that stand before it and have to be ready first; by default all of them.",
    ] = None
    ends: Annotated[
        Literal["job", "alone"] | None,
        "job, the default: that it ends before the last role is a failure of the job; alone: it may"
        " end well before.",
    ] = None
    notice: Annotated[
        bool | None,
        "Whether it is asked to stop before the walltime ends; by default only the last role is.",
    ] = None


class ReportInput(NamedTuple):
    """What `jobgen report` has to go by."""

    metrics: Annotated[
        str | None,
        "Where the program writes metrics: a file or a folder, from where you submit; without it "
        "they are looked for in the run folder.",
    ] = None
    usage: Annotated[bool, "Whether each node records the use of its GPUs, every 30 s."] = True


@limit_keys("run", "roles", most=1)
@mark_record(alternatives={"run": "roles"})
class JobSpec(NamedTuple):
    """One job, as its user wrote it."""

    name: Annotated[Name, "The job's name; also the name of its folder under runs/."]
    resources: Annotated[Resources, "What the job asks of the cluster."]
    run: Annotated[Run, "The program. Required, or roles in its place."] = Run()
    roles: Annotated[
        dict[RoleName, Role] | None,
        "Several programs in one job, by name, each on some of the nodes, in this order; when the"
        " last one ends, the job ends. They know each other by $NAME_ADDR, $NAME_PORT and"
        " $NAME_HOSTS.",
    ] = None
    extends: Annotated[
        str | None, "Another spec that this one changes, from this file's folder; null takes out."
    ] = None
    site: Annotated[Label | None, "The cluster's profile, such as nci-gadi."] = None
    scheduler: Annotated[SchedulerName | None, "slurm, pbs or local, where no site says it."] = None
    account: Annotated[Label | None, "The project or account that pays."] = None
    queue: Annotated[
        tuple[Label, ...],
        "The queue; Slurm calls it partition, and takes several: the first that is free starts it.",
    ] = ()
    qos: Annotated[Label | None, "The quality of service, on Slurm."] = None
    reservation: Annotated[
        Label | None, "The reservation to run in; on PBS it takes the place of the queue."
    ] = None
    filesystems: Annotated[
        tuple[Label, ...] | None,
        "The file systems the job uses, where the site wants them listed, such as [home, eagle].",
    ] = None
    environment: Annotated[Environment, "What is set up on every node."] = Environment()
    launch: Annotated[Launch, "How the processes start and find each other."] = Launch()
    array: Annotated[Array | None, "Tasks that differ by values only, as one array."] = None
    after: Annotated[
        JobIds | After | None,
        "Jobs to wait for: a list of ids, of jobs that have to end well, or kinds with ids.",
    ] = None
    notify: Annotated[Notify | None, "The e-mail that the scheduler sends."] = None
    preflight: Annotated[
        bool | None,
        "Whether nodes are compared and tried before the program starts: versions, GPUs, network.",
    ] = None
    on_walltime: Annotated[OnWalltime | None, "What happens before the walltime ends."] = None
    on_failure: Annotated[OnFailure | None, "What happens when the job has failed."] = None
    report: Annotated[ReportInput, "What `jobgen report` goes by."] = ReportInput()
    snapshot: Annotated[
        bool | tuple[Word, ...] | None,
        "Whether the job runs from a copy of the files that git tracks here, made at submission; "
        "files and folders in a list are copied too.",
    ] = None
    send: Annotated[
        tuple[Word, ...],
        "Files and folders beside run.script that `jobgen submit --host` sends, in place of all "
        "that git does not ignore here.",
    ] = ()
    directives: Annotated[
        tuple[Directive, ...],
        "Your own directives, written after jobgen's as they are; '#PBS' ones are only for PBS, "
        "'#SBATCH' ones only for Slurm.",
    ] = ()

    def conflicts(self) -> Iterator[Conflict]:
        """Lists for each node are as long as the job is wide; no launcher starts a launcher."""
        yield from self._check_program()
        if self.launches_itself:
            yield from self._find_conflicts_of_launches()
        yield from self._check_lists()

    def _check_program(self) -> Iterator[Conflict]:
        each = self.launch.processes_per_node or (1 if self.launch.mode in ONE_A_NODE else None)
        own_launch = self.launch.mode in ("direct", "plain") and each == 1
        how = {
            "own_launch": own_launch or self.launches_itself,
            "one_node": self.resources.nodes in (None, 1),
        }
        for start, words in {"command": self.run.words, "module": (self.run.module or "",)}.items():
            checks = commands.check_start(start, words, **how) if any(words) else ()
            yield from ((f"run.{key}", message, hint) for key, message, hint in checks)

    def _check_lists(self) -> Iterator[Conflict]:
        nodes, source = self.resources.nodes, "resources.nodes"
        lists = {
            "resources.gpus_per_node": self.resources.gpus_per_node,
            "launch.processes_per_node": self.launch.processes_per_node,
        }
        for path, value in lists.items():
            if not isinstance(value, tuple):
                continue
            if nodes is None:
                nodes, source = len(value), path
            kind = "list_of_devices" if value == (*range(len(value)),) else "list_length"
            rules = {
                "list_of_range": isinstance(nodes, NodeRange),
                kind: isinstance(nodes, int) and len(value) != nodes,
            }
            facts = {"path": path, "number": len(value), "source": source, "nodes": nodes}
            yield from refuse(rules, **facts)

    def choices(self) -> Iterator[Choice]:
        """What each task of its array is given; nothing where it has none."""
        return self.array.choices() if self.array else iter(())

    @property
    def launches_itself(self) -> bool:
        """Whether the program runs once and starts others itself: a body, or plainly mpirun."""
        plain = self.launch.mode == "plain" and self.run.command is not None
        step = plain and name_kind(find_launcher(self.run.words)) == "step"
        return self.run.body is not None or step

    def _find_conflicts_of_launches(self) -> Iterator[Conflict]:
        own = "run.command" if self.run.body is None else "run.body"
        allowed = () if self.run.body else ("mode", "processes_per_node")
        for key, value in self.launch._asdict().items():
            unused = value is not None and key not in allowed
            yield from refuse({"no_effect": unused}, key=f"launch.{key}", own=own)
        rules = {"no_effect": self.preflight, "own_container": self.environment.container}
        yield from refuse(rules, key="preflight", own=own)
