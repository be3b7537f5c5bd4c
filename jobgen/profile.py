"""What a site profile says: the records of `sites/NAME.yaml`, which read as its manual.

Every fact is of the site's documentation or of its users' scripts, and says which by the id of one
of the profile's `sources`. What is not known is left out.
"""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, Literal, NamedTuple

from jobgen.bind import Parsed, Pattern
from jobgen.errors import Problem
from jobgen.spec import (
    Count,
    CountOrNone,
    Duration,
    Interface,
    Label,
    Memory,
    SchedulerName,
    Variable,
    Word,
)


def _regex(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"is no regular expression: {error}") from None
    return text


Date = Annotated[
    str,
    Pattern(
        r"20[0-9]{2}(-(0[1-9]|1[0-2])(-(0[1-9]|[12][0-9]|3[01]))?)?",
        "a date; write '2026', 2026-08 or 2026-08-19",
    ),
]
Regex = Annotated[str, Parsed(_regex, (r"project_\d+",))]
Words = Annotated[
    str, Pattern(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?", "plain ASCII without blanks around it")
]
Verified = Literal["docs", "scripts"]


class Slurm(NamedTuple):
    """What differs between Slurm clusters."""

    gpus: Annotated[
        Literal["gpus-per-node", "gres"], "The option of sbatch that asks for GPUs."
    ] = "gpus-per-node"
    queue_option: Annotated[
        Literal["partition", "qos"], "The option of sbatch that a job's `queue` is the value of."
    ] = "partition"


class Pbs(NamedTuple):
    """What differs between PBS clusters."""

    resources: Annotated[
        Literal["select", "totals"], "select: chunks, one a node; totals: of the whole job."
    ] = "select"
    account_option: Annotated[Literal["-A", "-P"], "The option of qsub that names who pays."] = "-A"
    gpus: Annotated[
        Literal["ngpus", "none"], "none: nodes are given whole, a chunk says nothing of its parts."
    ] = "ngpus"
    gpu_type: Annotated[Label | None, "The chunk resource that names the type of GPU."] = None
    chunk: Annotated[dict[Label, Label] | None, "Resources of every chunk, such as system."] = None


class Node(NamedTuple):
    """A node, as a job sees it; in a queue or for a type of GPU, what differs there."""

    gpus: Annotated[Count | None, "GPUs, as torch counts devices."] = None
    gpu: Annotated[str | None, "What the GPUs are."] = None
    device: Annotated[str | None, "What a torch device is, where it is no whole GPU."] = None
    job_gpus: Annotated[Count | None, "GPUs that one job can have in all."] = None
    cpus: Annotated[Count | None, "CPUs that a job can have."] = None
    cpu_unit: Annotated[Literal["core", "thread"] | None, "What the scheduler counts as a CPU."] = (
        None
    )
    memory: Annotated[Memory | None, "Memory that a job can have."] = None
    cpus_per_gpu: Annotated[Count | None, "CPUs that go with each GPU."] = None
    cpus_rule: Annotated[
        Literal["exact", "most", "implied"] | None,
        "exact: no other number; most: no more; implied: they follow, the job must not ask.",
    ] = None
    memory_per_gpu: Annotated[Memory | None, "Memory that goes with each GPU."] = None
    memory_rule: Annotated[
        Literal["required", "most", "forbidden"] | None,
        "required: every job says it; most: no more for each GPU; forbidden: the job must not ask.",
    ] = None
    full: Annotated[
        Literal["always", "several"] | None,
        "A job has all GPUs of its nodes: always, or where it has several nodes.",
    ] = None
    source: Annotated[Label | None, "Where this is from."] = None


class Limit(NamedTuple):
    """What a queue takes, for one range of sizes; [least, most] each, or [least] alone."""

    nodes: Annotated[tuple[Count, ...] | None, "Nodes."] = None
    gpus: Annotated[tuple[CountOrNone, ...] | None, "GPUs of the whole job."] = None
    cpus: Annotated[tuple[Count, ...] | None, "CPUs of the whole job."] = None
    walltime: Annotated[
        Duration | tuple[Duration, ...] | None, "The longest walltime, or [shortest, longest]."
    ] = None
    node_minutes: Annotated[Count | None, "The most nodes times minutes of walltime."] = None

    def conflicts(self) -> Iterator[tuple[str, str, str]]:
        """Ranges have two ends, in order."""
        for key in ("nodes", "gpus", "cpus", "walltime"):
            ends = getattr(self, key)
            if isinstance(ends, tuple) and not (
                (len(ends) == 1 and key != "walltime") or (len(ends) == 2 and ends[0] <= ends[1])
            ):
                yield key, "is no range", "write [least, most]"

    @property
    def times(self) -> tuple[int, int | None]:
        """The shortest walltime and the longest, in seconds."""
        if isinstance(self.walltime, tuple):
            return self.walltime[0], self.walltime[1]
        return 0, self.walltime


class Queue(NamedTuple):
    """A queue; on Slurm a partition or a QoS. `as_of` and `verified` where not the profile's."""

    choose: Annotated[
        bool, "Whether jobgen may choose it: the first that takes the job, where none is named."
    ] = False
    routed_from: Annotated[Label | None, "The queue to name instead; it leads here."] = None
    limits: Annotated[tuple[Limit, ...], "What it takes; one that fits is enough."] = ()
    node: Annotated[Node, "What differs on its nodes."] = Node()
    directives: Annotated[tuple[Words, ...], "Options of sbatch or qsub that go with it."] = ()
    note: Annotated[str | None, "What else to know of it."] = None
    source: Annotated[Label | None, "Where this is from."] = None
    as_of: Annotated[Date | None, "When its source was read."] = None
    verified: Annotated[Verified | None, "From documentation, or from users' scripts."] = None


class Account(NamedTuple):
    """What an account looks like."""

    required: Annotated[bool, "Whether every job needs one."] = False
    pattern: Annotated[Regex | None, "What the whole of it must match."] = None
    meaning: Annotated[str | None, "The same for a person, such as: ends in _g for GPUs."] = None
    source: Annotated[Label | None, "Where this is from."] = None


class Filesystems(NamedTuple):
    """The PBS resource that lists the file systems a job uses."""

    resource: Annotated[Label, "Its name, as in -l NAME=..."]
    separator: Annotated[Literal[":", "+"], "What stands between two of them."]
    required: Annotated[bool, "Whether the job is refused without."] = False
    known: Annotated[tuple[Label, ...] | None, "Those there are, where there are no others."] = None
    paths: Annotated[
        dict[str, Label] | None,
        "Beginnings of paths, each with what to list for them: the folder that follows is added.",
    ] = None
    source: Annotated[Label | None, "Where this is from."] = None


class Variables(NamedTuple):
    """Variables of the network libraries; $NAME expands on the node. The spec's own win."""

    always: Annotated[dict[Variable, Word] | None, "Of every job."] = None
    one_node: Annotated[dict[Variable, Word] | None, "Of a job on one node."] = None
    several_nodes: Annotated[dict[Variable, Word] | None, "Of a job on more than one."] = None
    source: Annotated[Label | None, "Where this is from."] = None


class Modules(NamedTuple):
    """Environment modules and conda, for a job that names no modules, venv or conda itself."""

    use: Annotated[tuple[str, ...], "Folders for `module use`."] = ()
    load: Annotated[tuple[str, ...], "What to load, in order."] = ()
    conda: Annotated[str | None, "The conda environment to activate then."] = None
    source: Annotated[Label | None, "Where this is from."] = None


class Launch(NamedTuple):
    """How the site's own examples start a job."""

    family: Annotated[
        Literal["torchrun", "direct"], "torchrun: an agent on each node; direct: a task a GPU."
    ]
    launcher: Annotated[Literal["srun", "pbsdsh", "mpiexec"], "What starts it on the nodes."]
    address: Annotated[str | None, "How the address of the first node is formed."] = None
    note: Annotated[str | None, "What the site says about it."] = None
    source: Annotated[Label | None, "Where this is from."] = None


class Container(NamedTuple):
    """Containers."""

    runtime: Annotated[str, "What runs them."]
    note: Annotated[str | None, "How."] = None
    source: Annotated[Label | None, "Where this is from."] = None


class SiteProfile(NamedTuple):
    """One cluster. What is not known of it is left out."""

    scheduler: Annotated[SchedulerName, "slurm, pbs or local."]
    title: Annotated[str | None, "The cluster's name for people."] = None
    extends: Annotated[Label | None, "Another profile that this one changes."] = None
    as_of: Annotated[Date | None, "When the sources were read."] = None
    verified: Annotated[Verified | None, "From documentation, or from users' scripts."] = None
    sources: Annotated[
        dict[Label, str] | None, "Where the facts are from: an id and an address."
    ] = None
    cited: Annotated[
        dict[Label, Label] | None, "Keys that have no source of their own, and the id of theirs."
    ] = None
    slurm: Annotated[Slurm, "What differs between Slurm clusters."] = Slurm()
    pbs: Annotated[Pbs, "What differs between PBS clusters."] = Pbs()
    node: Annotated[Node, "A node."] = Node()
    gpu_types: Annotated[dict[Label, Node] | None, "Types of GPU, and their nodes."] = None
    gpu_type: Annotated[Label | None, "The type of a job that names none."] = None
    gpu_type_required: Annotated[bool, "Whether every GPU job names a type."] = False
    queues: Annotated[dict[Label, Queue] | None, "The queues, in the order of choice."] = None
    every_queue: Annotated[Queue, "What holds in all queues."] = Queue()
    walltime_required: Annotated[bool, "Whether every job must say its walltime."] = False
    account: Annotated[Account | None, "What an account looks like."] = None
    filesystems: Annotated[Filesystems | None, "The list of file systems, where one is asked."] = (
        None
    )
    directives: Annotated[tuple[Words, ...], "Options of sbatch or qsub for every job."] = ()
    modules: Annotated[Modules | None, "Modules."] = None
    variables: Annotated[Variables | None, "Variables of the network libraries."] = None
    interface: Annotated[Interface | None, "The network interface of the nodes to use."] = None
    launch: Annotated[Launch | None, "How the site starts a job."] = None
    container: Annotated[Container | None, "Containers."] = None
    internet: Annotated[
        Literal["none", "proxy", "yes"] | None, "Whether compute nodes reach it."
    ] = None
    charge: Annotated[str | None, "What a job costs."] = None
    notes: Annotated[tuple[str, ...], "What else to know, which jobgen does not act upon."] = ()

    def conflicts(self) -> Iterator[tuple[str, str, str]]:
        """What is cited, routed or chosen by default is there."""
        for path, record in records(self):
            source = record.source
            if source is not None and source not in (self.sources or {}):
                known = f"known are {', '.join(self.sources)}" if self.sources else ""
                yield f"{path}.source", f"no such source {source!r}", known
        for key, source in (self.cited or {}).items():
            if source not in (self.sources or {}):
                yield f"cited.{key}", f"no such source {source!r}", ""
        for name, queue in (self.queues or {}).items():
            if queue.routed_from is not None and queue.routed_from not in (self.queues or {}):
                yield f"queues.{name}.routed_from", f"no such queue {queue.routed_from!r}", ""
        if self.gpu_type is not None and self.gpu_type not in (self.gpu_types or {}):
            yield "gpu_type", f"no such type {self.gpu_type!r}", "name it in gpu_types"


Sourced = Node | Queue | Account | Filesystems | Variables | Modules | Launch | Container


def records(profile: SiteProfile) -> Iterator[tuple[str, Sourced]]:
    """The facts of a profile that have a source each, with their paths."""
    yield "node", profile.node
    for name, node in (profile.gpu_types or {}).items():
        yield f"gpu_types.{name}", node
    yield "every_queue", profile.every_queue
    for name, queue in (profile.queues or {}).items():
        yield f"queues.{name}", queue
        yield f"queues.{name}.node", queue.node
    for name in ("account", "filesystems", "variables", "modules", "launch", "container"):
        record = getattr(profile, name)
        if record is not None:
            yield name, record


class Choice(NamedTuple):
    """What a site adds to a spec, directives without their `#PBS` or `#SBATCH`.

    `problems` are the site's rules that the job breaks; those in doubt are among `notes`.
    """

    queue: str | None
    node: Node = Node()
    gpu_type: str | None = None
    filesystems: tuple[str, ...] = ()
    directives: tuple[str, ...] = ()
    modules: Modules = Modules()
    variables: Mapping[str, str] = MappingProxyType({})
    interface: str | None = None
    notes: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
