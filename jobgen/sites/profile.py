"""What a site profile says: the records of `sites/NAME.yaml`, which read as its manual.

Every fact is of the site's documentation or of its users' scripts, and says which by the id of one
of the profile's `sources`. What is not known is left out.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from jobgen.capabilities import Capabilities, get_capabilities
from jobgen.records import NamedTuple
from jobgen.spec.fields import Parsed, Pattern, Range, limit_keys, mark_record
from jobgen.spec.model import Binds, First, Load, Modules, Runtime, Use
from jobgen.spec.value_types import (
    Constraint,
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


def _compile_regex(text: str) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # of what a later Python may read in another way
            re.compile(text)
    except (re.error, OverflowError, RecursionError, FutureWarning) as error:
        raise ValueError(f"is not a regular expression: {error}") from None
    bare = re.sub(r"\\.|\[\^?\]?[^]]*\]", "x", text)  # without escapes and classes
    if len(text) > 200 or re.search(r"\)[*+{]", bare) or len(re.findall(r"[*+{]", bare)) > 2:
        # Such expressions may take a time that doubles with each letter.
        raise ValueError("repeats a group, or more than two things; write a simpler expression")
    return text


_NONE: dict[Any, Any] = {}  # of the keys that are left out
Regex = Annotated[str, Parsed(_compile_regex, (r"project_\d+",))]


_DATE = r"20[0-9]{2}(-(0[1-9]|1[0-2])(-(0[1-9]|[12][0-9]|3[01]))?)?"
_DATES = "a date; write '2026', 2026-08 or 2026-08-19"
Date = Annotated[str, Pattern(_DATE, _DATES, ("2026-08-19", "2026"))]
SourceDate = Annotated[
    str, Pattern(rf"undated|{_DATE}", f"{_DATES}, or undated", ("2026-08-19", "undated"))
]
Rate = Annotated[float, Range(0)]
Words = Annotated[
    str, Pattern(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?", "plain ASCII without blanks around it")
]
Grade = Literal["docs", "scripts", "captured", "ran"]
Quote = Annotated[
    str | None, "The words of the source that say so, as they stand there but for blanks."
]


@mark_record(short_key="address")
class SiteSource(NamedTuple):
    """Where facts are from. A limit from an undated source, or from an old one, only warns."""

    address: Annotated[str, "Its address, or what it is."]
    dated: Annotated[SourceDate | None, "When it was last changed, not when it was read."] = None
    grade: Annotated[
        Grade | None,
        "docs: the site's documentation; scripts: its users' scripts; captured: the scheduler"
        " itself; ran: a job that ran there.",
    ] = None
    file: Annotated[str | None, "What quotes are compared with: OWNER/NAME@COMMIT:PATH."] = None

    def __str__(self) -> str:
        """Return it as the end of a message: ` (ADDRESS, as of 2026-08)`."""
        dated = self.dated if self.dated in (None, "undated") else f"as of {self.dated}"
        parts = [part for part in (self.address, dated) if part]
        return f" ({', '.join(parts)})" if parts else ""

    def doubt(self, today: str) -> str:
        """Why a limit from this source only warns; empty if the source is good enough.

        `today` is YYYY-MM-DD; a year or month alone counts from its first day.
        """
        if self.grade == "scripts":
            return "this is from users' scripts, so it may be wrong"
        if self.dated == "undated":
            return "this source has no date, so it may have changed"
        if is_old(self.dated, today):
            return "this is more than 12 months old, so it may have changed"
        return ""


class SlurmDialect(NamedTuple):
    """What differs between Slurm clusters."""

    gpus: Annotated[
        Literal["gpus-per-node", "gres", "gpus", "none"],
        "The option that asks for GPUs; gpus: --gpus with the number of the whole job; none: they"
        " come with the nodes, and any option is refused.",
    ] = "gpus-per-node"
    names_gpu_type: Annotated[bool, "Whether it names the type of GPU, as in a100:4."] = True
    tasks: Annotated[
        Literal["batch", "step"],
        "What gets tasks and CPUs: batch: sbatch and srun; step: only srun, as sbatch refuses it.",
    ] = "batch"
    queue_option: Annotated[Literal["partition", "qos"], "What `queue` is here."] = "partition"


class PbsDialect(NamedTuple):
    """What differs between PBS clusters."""

    resources: Annotated[Literal["select", "totals"], "Chunks, or totals of the job."] = "select"
    account_option: Annotated[
        Literal["-A", "-P", "-W group_list="], "The option of qsub that names who pays."
    ] = "-A"
    gpus: Annotated[Literal["ngpus", "none"], "none: nodes are given whole."] = "ngpus"
    gpu_type: Annotated[Label | None, "The chunk resource that names the type of GPU."] = None
    constraint: Annotated[Label | None, "The chunk resource for a job's `constraint`."] = None
    disk: Annotated[Label | None, "The resource for a node's own disk, such as jobfs."] = None
    group: Annotated[Label | None, "The resource that all nodes of a job share."] = None
    chunk: Annotated[dict[Label, Label], "Resources of every chunk, such as system."] = _NONE


Digits = Annotated[str, Pattern(r"[0-9]{1,6}", "a number of GPUs", ("4",))]


class Node(NamedTuple):
    """A node, as a job sees it; in a queue or for a type of GPU, what differs there."""

    gpus: Annotated[Count | None, "GPUs, as torch counts devices."] = None
    gpu: Annotated[str | None, "What the GPUs are."] = None
    device: Annotated[str | None, "What a torch device is, where it is a part of a GPU."] = None
    job_gpus: Annotated[Count | None, "GPUs that one job can have in all."] = None
    cpus: Annotated[Count | None, "CPUs that a job can have."] = None
    cpu_unit: Annotated[Literal["core", "thread"] | None, "What counts as a CPU."] = None
    memory: Annotated[Memory | None, "Memory that a job can have."] = None
    cpus_per_gpu: Annotated[Count | None, "CPUs that go with each GPU."] = None
    cpus_rule: Annotated[
        Literal["exact", "most", "implied"] | None,
        "exact: no other number; most: no more; implied: they follow, the job must not ask.",
    ] = None
    memory_per_gpu: Annotated[Memory | None, "Memory that goes with each GPU."] = None
    memory_rule: Annotated[
        Literal["most", "forbidden"] | None,
        "most: no more for each GPU; forbidden: the job must not ask.",
    ] = None
    full: Annotated[
        Literal["always", "several"] | None,
        "A job must ask for all GPUs of its nodes: always, or if it has several nodes.",
    ] = None
    whole: Annotated[bool | None, "Whether a job has its nodes to itself and pays for them."] = None
    default_cpus: Annotated[Count | None, "CPUs of a task that asks for none, if not one."] = None
    default_cpus_per_gpu: Annotated[Count | None, "With each GPU, if a job asks for none."] = None
    default_memory: Annotated[Memory | None, "Memory on each node, if a job asks for none."] = None
    default_memory_per_cpu: Annotated[Memory | None, "With a CPU, if a job asks for none."] = None
    default_memory_per_gpu: Annotated[Memory | None, "With a GPU, if a job asks for none."] = None
    disk: Annotated[Memory | None, "Space on the node's own disk that a job can have."] = None
    constraint: Annotated[Constraint | None, "Slurm's feature; a spec's own is added by &."] = None
    account_suffix: Annotated[Words | None, "What follows the account, such as @h100."] = None
    hosts: Annotated[dict[Digits, Count] | None, "Nodes with so many GPUs: {4: 2, 2: 1}."] = None
    source: Annotated[Label | None, "Where this is from."] = None


Ends = Annotated[tuple[Count, ...], Range(1, 2)]
EndsOrNone = Annotated[tuple[CountOrNone, ...], Range(1, 2)]
NodeMinutes = Annotated[int, Range(1, 100_000_000)]


class Limit(NamedTuple):
    """What a queue takes, for one range of sizes; [least, most] each, or [least] alone."""

    nodes: Annotated[Ends | None, "Nodes."] = None
    gpus: Annotated[EndsOrNone | None, "GPUs of the whole job."] = None
    cpus: Annotated[Ends | None, "CPUs of the whole job."] = None
    walltime: Annotated[
        Duration | Annotated[tuple[Duration, ...], Range(2, 2)] | None,
        "The longest walltime, or [shortest, longest].",
    ] = None
    node_minutes: Annotated[NodeMinutes | None, "The most nodes times minutes of walltime."] = None
    why: Annotated[str | None, "Why it is so, for whoever is refused."] = None
    source: Annotated[Label | None, "Where this is from, if not from the queue's source."] = None
    quote: Quote = None

    def conflicts(self) -> Iterator[tuple[str, str, str]]:
        """The ends of a range are in order."""
        for key in ("nodes", "gpus", "cpus", "walltime"):
            ends = getattr(self, key)
            if isinstance(ends, tuple) and ends[0] > ends[-1]:
                yield key, "is not a range", "write [least, most]"

    @property
    def times(self) -> tuple[int, int | None]:
        """The shortest walltime and the longest, in seconds."""
        if isinstance(self.walltime, tuple):
            return self.walltime[0], self.walltime[1]
        return 0, self.walltime


class Charge(NamedTuple):
    """What a job costs: `rate` units for each hour and thing it holds, used or not."""

    unit: Annotated[str, "What is counted, such as SU or node-hours."]
    rate: Annotated[Rate, "How many of them."]
    per: Annotated[Literal["cpu-hour", "gpu-hour", "node-hour"], "Of what; GPUs as torch does."]
    note: Annotated[str | None, "What else is charged."] = None
    source: Annotated[Label | None, "Where this is from."] = None
    quote: Quote = None


class SiteQueue(NamedTuple):
    """A queue; on Slurm a partition, a QoS or both."""

    choose: Annotated[bool, "Whether it may be chosen for a job that names no queue."] = False
    default: Annotated[bool, "Whether a job that names no queue gets here."] = False
    gpu_types: Annotated[tuple[Label, ...], "Its GPUs; chosen for a job that names one."] = ()
    partition: Annotated[Label | None, "Slurm's partition, if it has another name."] = None
    qos: Annotated[Label | None, "The QoS that goes with it."] = None
    chunk: Annotated[Literal["node", "gpu"], "What a chunk of PBS is; gpu: of one node."] = "node"
    routed_from: Annotated[Label | None, "The queue to name instead; it leads here."] = None
    limits: Annotated[tuple[Limit, ...], "What it takes; one that fits is enough."] = ()
    node: Annotated[Node, "What differs on its nodes."] = Node()
    directives: Annotated[tuple[Words, ...], "Options of sbatch or qsub that go with it."] = ()
    default_walltime: Annotated[Duration | None, "The walltime of a job that asks for none."] = None
    charge: Annotated[Charge | None, "What a job costs in it."] = None
    note: Annotated[str | None, "What else to know of it."] = None
    source: Annotated[Label | None, "Where this is from."] = None

    @property
    def longest(self) -> int | None:
        """The longest walltime, in seconds; None if it is not known or not bounded."""
        times = [limit.times[1] for limit in self.limits]
        return None if None in times else max(filter(None, times), default=None)


class Account(NamedTuple):
    """What an account looks like."""

    required: Annotated[bool, "Whether every job needs one."] = False
    pattern: Annotated[Regex | None, "What the whole of it must match."] = None
    meaning: Annotated[str | None, "The same for a person, such as: ends in _g for GPUs."] = None
    source: Annotated[Label | None, "Where this is from."] = None

    def takes(self, name: str) -> bool:
        """Whether an account may be called so; no site's are longer than some words."""
        pattern = self.pattern
        return pattern is None or (len(name) <= 200 and bool(re.fullmatch(pattern, name)))


class Filesystems(NamedTuple):
    """The PBS resource that lists the file systems a job uses."""

    resource: Annotated[Label, "Its name, as in -l NAME=..."]
    separator: Annotated[Literal[":", "+"], "What stands between two of them."]
    required: Annotated[bool, "Whether the job is refused without."] = False
    known: Annotated[tuple[Label, ...] | None, "All there are, if the list is complete."] = None
    paths: Annotated[dict[str, Label], "What to list for paths that begin so."] = _NONE
    source: Annotated[Label | None, "Where this is from."] = None


class Variables(NamedTuple):
    """Environment variables; $NAME expands on the node. The spec's own win."""

    always: Annotated[dict[Variable, Word], "Of every job."] = _NONE
    one_node: Annotated[dict[Variable, Word], "Of a job on one node."] = _NONE
    several_nodes: Annotated[dict[Variable, Word], "Of a job on more than one."] = _NONE
    source: Annotated[Label | None, "Where this is from."] = None


class Network(NamedTuple):
    """What carries NCCL (or RCCL, oneCCL) between nodes, and what it needs to be told."""

    fabric: Annotated[
        Literal["slingshot", "infiniband", "efa", "omni-path", "ethernet"], "The network itself."
    ]
    plugin: Annotated[
        Literal["aws-ofi-nccl", "aws-ofi-rccl", "oneccl"] | None,
        "The library that carries it, if NCCL's own (InfiniBand, sockets) does not.",
    ] = None
    plugin_from: Annotated[
        Literal["module", "path", "container", "environment"] | None,
        "Where a job gets it: the profile's modules, the profile's variables, or from what its user"
        " has to name, a container or an environment that has it.",
    ] = None
    how: Annotated[str | None, "What its user has to do to have it, in one sentence."] = None
    always: Annotated[dict[Variable, Word], "Variables of every job."] = _NONE
    one_node: Annotated[dict[Variable, Word], "Of a job on one node."] = _NONE
    several_nodes: Annotated[dict[Variable, Word], "Of a job on more than one."] = _NONE
    set_by: Annotated[tuple[Runtime, ...], "Container runtimes that set these themselves."] = ()
    source: Annotated[Label | None, "Where this is from."] = None


class SiteModules(NamedTuple):
    """Environment modules and conda, for a job that names no modules, venv or conda itself."""

    first: First = None
    use: Use = ()
    load: Load = ()
    conda: Annotated[str | None, "The conda environment to activate then."] = None
    source: Annotated[Label | None, "Where this is from."] = None


@limit_keys("suffix", "domain", "resolve", least=1, most=1)
class Address(NamedTuple):
    """How the address of a node is formed, where the name that the scheduler gives is not it."""

    suffix: Annotated[Label | None, "What follows the node's short name, such as i."] = None
    domain: Annotated[Label | None, "The domain of that name, such as hsn.example.org."] = None
    resolve: Annotated[Literal["ipv4"] | None, "ipv4: what a name leads to on its node."] = None
    source: Annotated[Label | None, "Where this is from."] = None

    @property
    def tail(self) -> str | None:
        """What a node's short name is followed by; None where it is resolved."""
        return f".{self.domain}" if self.domain else self.suffix


class SiteLaunch(NamedTuple):
    """How the site's own examples start a job."""

    family: Annotated[Literal["torchrun", "direct"], "An agent a node, or a task a GPU."]
    launcher: Annotated[Literal["srun", "pbsdsh", "mpiexec"], "What starts it on the nodes."]
    address: Annotated[Address | None, "How nodes are reached, if not by their names."] = None
    mpiexec: Annotated[
        Literal["pals", "hydra", "openmpi", "ibrun"] | None,
        "Whose mpiexec it is, or TACC's ibrun in its place; else the job finds out.",
    ] = None
    options: Annotated[tuple[Words, ...], "More of the launcher, if it starts each process."] = ()
    numa_binding: Annotated[
        Literal["node", "socket", "exclusive", "core-complex"] | None,
        "torchrun's --numa-binding, on torch that has it: which CPUs each process keeps to.",
    ] = None
    devices: Annotated[tuple[CountOrNone, ...] | None, "A node's GPUs, by local rank."] = None
    name_devices: Annotated[bool, "Whether CUDA_VISIBLE_DEVICES names the job's GPUs."] = False
    note: Annotated[str | None, "What the site says about it."] = None
    source: Annotated[Label | None, "Where this is from."] = None


class SiteContainer(NamedTuple):
    """Containers."""

    runtime: Annotated[Runtime, "What runs them, where the spec does not say it."]
    modules: Annotated[Modules, "What to load for it."] = Modules()
    binds: Binds = ()
    note: Annotated[str | None, "How."] = None
    source: Annotated[Label | None, "Where this is from."] = None


class Recognise(NamedTuple):
    """What tells that a machine is of this cluster; one of these is enough."""

    variables: Annotated[dict[Variable, Word], "Variables and their values there."] = _NONE
    domain: Annotated[Label | None, "The domain that the full names of its hosts end in."] = None
    hosts: Annotated[tuple[Regex, ...], "The whole name of a host, such as dt-login.*"] = ()
    cluster: Annotated[Label | None, "Slurm's ClusterName, or PBS's server."] = None
    source: Annotated[Label | None, "Where this is from."] = None


class SiteProfile(NamedTuple):
    """One cluster. What is not known of it is left out."""

    scheduler: Annotated[SchedulerName, "slurm, pbs or local."]
    title: Annotated[str | None, "The cluster's name for people."] = None
    extends: Annotated[Label | None, "Another profile that this one changes."] = None
    as_of: Annotated[Date | None, "The date of the sources that have no date here."] = None
    verified: Annotated[Grade | None, "The grade of the sources that have no grade."] = None
    sources: Annotated[dict[Label, SiteSource], "Where facts are from, by id."] = _NONE
    cited: Annotated[dict[Label, Label], "The source of keys without their own."] = _NONE
    recognise: Annotated[Recognise, "What tells that a machine is of it."] = Recognise()
    slurm: Annotated[SlurmDialect, "What differs between Slurm clusters."] = SlurmDialect()
    pbs: Annotated[PbsDialect, "What differs between PBS clusters."] = PbsDialect()
    node: Annotated[Node, "A node."] = Node()
    gpu_types: Annotated[dict[Label, Node], "Types of GPU, and their nodes."] = _NONE
    gpu_type: Annotated[Label | None, "The type of a job that names none."] = None
    gpu_type_required: Annotated[bool, "Whether every GPU job names a type."] = False
    queues: Annotated[dict[Label, SiteQueue], "The queues, in the order of choice."] = _NONE
    every_queue: Annotated[SiteQueue, "What holds in all queues."] = SiteQueue()
    walltime_required: Annotated[bool, "Whether every job must say its walltime."] = False
    account: Annotated[Account, "What an account looks like."] = Account()
    filesystems: Annotated[Filesystems | None, "The list of file systems, if asked."] = None
    directives: Annotated[tuple[Words, ...], "Options of sbatch or qsub for every job."] = ()
    modules: Annotated[SiteModules, "Modules."] = SiteModules()
    variables: Annotated[Variables, "Variables, beside the network's."] = Variables()
    network: Annotated[Network | None, "What carries NCCL between nodes, if that is known."] = None
    interface: Annotated[Interface | None, "The network interface of the nodes to use."] = None
    launch: Annotated[SiteLaunch | None, "How the site starts a job."] = None
    container: Annotated[SiteContainer | None, "Containers."] = None
    internet: Annotated[Literal["none", "proxy", "yes"] | None, "If nodes reach it."] = None
    mail: Annotated[Literal["none"] | None, "none: its scheduler sends no e-mail."] = None
    charge: Annotated[Charge | None, "What a job costs, where its queue does not say it."] = None
    notes: Annotated[tuple[str, ...], "What else to know, which jobgen does not act upon."] = ()

    @property
    def can(self) -> Capabilities:
        """What its scheduler can do."""
        return get_capabilities(self.scheduler)

    def find_queue(self, name: str | None) -> SiteQueue | None:
        """The queue of this name, also as QUEUE@SERVER; of several, joined by commas, the first."""
        name = (name or "").partition(",")[0]
        return self.queues.get(name) or self.queues.get(name.partition("@")[0])

    def find_source(self, name: str | None) -> SiteSource:
        """The source of this id; the profile's date and grade stand for those that it lacks.

        Without such a source the address is empty.
        """
        source = self.sources.get(name or "", SiteSource(""))
        return source._replace(
            dated=source.dated or self.as_of, grade=source.grade or self.verified
        )

    def cite(self, *records: object) -> SiteSource:
        """Return what a fact is from: the source of the first of these records that names one."""
        names = (getattr(record, "source", None) for record in records)
        return self.find_source(next(filter(None, names), None))

    def charge_in(self, queue: str | None) -> Charge | None:
        """What a job in `queue` costs; None if it is not known."""
        record = self.find_queue(queue)
        return (record.charge if record else None) or self.charge

    def conflicts(self) -> Iterator[tuple[str, str, str]]:
        """What is cited, routed or chosen by default is there; the launcher is the scheduler's."""
        for path, what, name, known, hint in self._list_references():
            if name is not None and name not in known:
                yield path, f"unknown {what} {name!r}", hint
        launcher = self.launch.launcher if self.launch else "mpiexec"
        if self.can.batch and launcher not in ("mpiexec", self.can.launcher):
            yield "launch.launcher", f"{launcher} does not start jobs of {self.scheduler}", ""

    def _list_references(self) -> Iterator[tuple[str, str, str | None, Any, str]]:
        """Yield what names another part of the profile: path, kind, name, those there are, hint."""
        sources, types, queues = self.sources, self.gpu_types, self.queues
        choices = f"the choices are {', '.join(sources)}" if sources else ""
        for path, record in walk_records(self):
            yield f"{path}.source", "source", record.source, sources, choices
        for key, source in self.cited.items():
            yield f"cited.{key}", "source", source, sources, ""
        for name, queue in queues.items():
            yield f"queues.{name}.routed_from", "queue", queue.routed_from, queues, ""
            for kind in queue.gpu_types:
                yield f"queues.{name}.gpu_types", "type", kind, types, "see gpu_types"
        yield "gpu_type", "type", self.gpu_type, types, "name it in gpu_types"


def is_old(dated: str | None, today: str) -> bool:
    """Whether a date is more than a year before `today` (YYYY-MM-DD); no date is not."""
    if not dated or dated == "undated":
        return False
    return f"{int(dated[:4]) + 1}{(dated + '-01-01')[4:10]}" < today


def walk_records(record: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the records of a profile that name a source for what they say, with their paths."""
    if "source" in record._fields:
        yield path.removeprefix("."), record
    for key, value in record._asdict().items():
        inside = f"{path}.{key}"
        members = {inside: value}
        if isinstance(value, dict):
            members = {f"{inside}.{name}": member for name, member in value.items()}
        elif isinstance(value, tuple) and not hasattr(value, "_fields"):
            members = {f"{inside}[{index}]": member for index, member in enumerate(value)}
        for where, member in members.items():
            if hasattr(member, "_fields"):
                yield from walk_records(member, where)
