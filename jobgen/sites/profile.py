"""What a site profile says: the records of `sites/NAME.yaml`, which also serve as its manual.
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
Quote = Annotated[str | None, "The source's own words, quoted exactly except for whitespace."]
Digits = Annotated[str, Pattern(r"[0-9]{1,6}", "a number of GPUs", ("4",))]
Ends = Annotated[tuple[Count, ...], Range(1, 2)]
EndsOrNone = Annotated[tuple[CountOrNone, ...], Range(1, 2)]
NodeMinutes = Annotated[int, Range(1, 100_000_000)]


@mark_record(short_key="address")
class SiteSource(NamedTuple):
    """The source of facts. A limit from an undated or old source only warns."""

    address: Annotated[str, "Its address, or a description."]
    dated: Annotated[SourceDate | None, "When it was last changed, not when it was read."] = None
    grade: Annotated[
        Grade | None,
        "docs: the site's documentation; scripts: its users' scripts; captured: the scheduler"
        " itself; ran: a job that ran there.",
    ] = None
    file: Annotated[str | None, "The file with the quotes: OWNER/NAME@COMMIT:PATH."] = None

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
        "The option that requests GPUs; gpus: --gpus with the whole job's number; none: they"
        " come with the nodes, and Slurm refuses any option.",
    ] = "gpus-per-node"
    names_gpu_type: Annotated[bool, "Whether it names the type of GPU, as in a100:4."] = True
    tasks: Annotated[
        Literal["batch", "step"],
        "Which gets tasks and CPUs; batch: sbatch and srun; step: only srun, as sbatch refuses.",
    ] = "batch"
    queue_option: Annotated[Literal["partition", "qos"], "What `queue` becomes."] = "partition"


class PbsDialect(NamedTuple):
    """What differs between PBS clusters."""

    resources: Annotated[Literal["select", "totals"], "Chunks, or totals of the job."] = "select"
    account_option: Annotated[
        Literal["-A", "-P", "-W group_list="], "The qsub option for the account."
    ] = "-A"
    gpus: Annotated[Literal["ngpus", "none"], "none: jobs get whole nodes."] = "ngpus"
    gpu_type: Annotated[Label | None, "The chunk resource that names the type of GPU."] = None
    constraint: Annotated[Label | None, "The chunk resource for a job's `constraint`."] = None
    disk: Annotated[Label | None, "The resource for a node's own disk, such as jobfs."] = None
    group: Annotated[Label | None, "The resource that all nodes of a job share."] = None
    chunk: Annotated[dict[Label, Label], "Resources for every chunk, such as system."] = _NONE


class Node(NamedTuple):
    """A node, as a job sees it; for a queue or a type of GPU, only the differences."""

    gpus: Annotated[Count | None, "GPUs, as torch counts devices."] = None
    gpu: Annotated[str | None, "The type of the GPUs."] = None
    device: Annotated[str | None, "A torch device, if it is only a part of a GPU."] = None
    job_gpus: Annotated[Count | None, "The most GPUs that one job can have."] = None
    cpus: Annotated[Count | None, "CPUs that a job can have."] = None
    cpu_unit: Annotated[Literal["core", "thread"] | None, "The unit that counts as a CPU."] = None
    memory: Annotated[Memory | None, "Memory that a job can have."] = None
    cpus_per_gpu: Annotated[Count | None, "CPUs that go with each GPU."] = None
    cpus_rule: Annotated[
        Literal["exact", "most", "implied"] | None,
        "exact: no other number; most: no more; implied: fixed by the site; jobs must not ask.",
    ] = None
    memory_per_gpu: Annotated[Memory | None, "Memory that goes with each GPU."] = None
    memory_rule: Annotated[
        Literal["most", "forbidden"] | None,
        "most: no more per GPU; forbidden: the job must not ask.",
    ] = None
    full: Annotated[
        Literal["always", "several"] | None,
        "When a job must request all GPUs of its nodes: always, or if it has several nodes.",
    ] = None
    whole: Annotated[bool | None, "Whether a job has its nodes to itself and pays for them."] = None
    default_cpus: Annotated[Count | None, "CPUs of a task that requests none, if not one."] = None
    default_cpus_per_gpu: Annotated[Count | None, "CPUs per GPU, unless requested."] = None
    default_memory: Annotated[Memory | None, "Memory per node, unless requested."] = None
    default_memory_per_cpu: Annotated[Memory | None, "Memory per CPU, unless requested."] = None
    default_memory_per_gpu: Annotated[Memory | None, "Memory per GPU, unless requested."] = None
    disk: Annotated[Memory | None, "Space on the node's own disk that a job can have."] = None
    constraint: Annotated[Constraint | None, "Slurm's feature; & adds a spec's own."] = None
    account_suffix: Annotated[Words | None, "The suffix of the account, such as @h100."] = None
    hosts: Annotated[dict[Digits, Count] | None, "Nodes by their GPUs: {4: 2, 2: 1}."] = None
    source: Annotated[Label | None, "The source."] = None


class Limit(NamedTuple):
    """What a queue accepts, for one range of sizes; each is [least, most] or just [least]."""

    nodes: Annotated[Ends | None, "Nodes."] = None
    gpus: Annotated[EndsOrNone | None, "GPUs of the whole job."] = None
    cpus: Annotated[Ends | None, "CPUs of the whole job."] = None
    walltime: Annotated[
        Duration | Annotated[tuple[Duration, ...], Range(2, 2)] | None,
        "The longest walltime, or [shortest, longest].",
    ] = None
    node_minutes: Annotated[NodeMinutes | None, "The most nodes times minutes of walltime."] = None
    why: Annotated[str | None, "The reason, for a user whose job is refused."] = None
    source: Annotated[Label | None, "The source, if not the queue's."] = None
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
    """What a job costs: `rate` units per hour for each thing it holds, used or not."""

    unit: Annotated[str, "The unit of the charge, such as SU or node-hours."]
    rate: Annotated[Rate, "How many units."]
    per: Annotated[
        Literal["cpu-hour", "gpu-hour", "node-hour"],
        "Per what; GPUs are torch devices.",
    ]
    note: Annotated[str | None, "Other charges."] = None
    source: Annotated[Label | None, "The source."] = None
    quote: Quote = None


class SiteQueue(NamedTuple):
    """A queue; on Slurm a partition, a QoS or both."""

    choose: Annotated[bool, "Whether jobgen may choose it for a job that names no queue."] = False
    default: Annotated[bool, "Whether the scheduler puts jobs without a queue here."] = False
    gpu_types: Annotated[tuple[Label, ...], "Its GPUs; chosen for a job that names one."] = ()
    partition: Annotated[Label | None, "Slurm's partition, if it has another name."] = None
    qos: Annotated[Label | None, "The QoS that goes with it."] = None
    chunk: Annotated[Literal["node", "gpu"], "A PBS chunk; gpu: one GPU of one node."] = "node"
    routed_from: Annotated[Label | None, "The queue to name instead; it routes here."] = None
    limits: Annotated[tuple[Limit, ...], "What it accepts; a job must fit one of these."] = ()
    node: Annotated[Node, "How its nodes differ."] = Node()
    directives: Annotated[tuple[Words, ...], "Options of sbatch or qsub that go with it."] = ()
    default_walltime: Annotated[Duration | None, "The walltime of a job that requests none."] = None
    charge: Annotated[Charge | None, "What a job in it costs."] = None
    note: Annotated[str | None, "Other facts about it."] = None
    source: Annotated[Label | None, "The source."] = None

    @property
    def longest(self) -> int | None:
        """The longest walltime, in seconds; None if it is not known or not bounded."""
        times = [limit.times[1] for limit in self.limits]
        return None if None in times else max(filter(None, times), default=None)


class Account(NamedTuple):
    """What an account looks like."""

    required: Annotated[bool, "Whether every job needs one."] = False
    pattern: Annotated[Regex | None, "A pattern that all of it must match."] = None
    meaning: Annotated[str | None, "The same in words, such as: ends in _g for GPUs."] = None
    source: Annotated[Label | None, "The source."] = None

    def takes(self, name: str) -> bool:
        """Whether an account may be called so; no site's are longer than some words."""
        pattern = self.pattern
        return pattern is None or (len(name) <= 200 and bool(re.fullmatch(pattern, name)))


class Filesystems(NamedTuple):
    """The PBS resource that lists the file systems a job uses."""

    resource: Annotated[Label, "Its name, as in -l NAME=..."]
    separator: Annotated[Literal[":", "+"], "The separator between two file systems."]
    required: Annotated[bool, "Whether a job without it is refused."] = False
    known: Annotated[tuple[Label, ...] | None, "All file systems, if the list is complete."] = None
    paths: Annotated[dict[str, Label], "File systems by the beginning of a path."] = _NONE
    source: Annotated[Label | None, "The source."] = None


class Variables(NamedTuple):
    """Environment variables; $NAME expands on the node. The spec's own win."""

    always: Annotated[dict[Variable, Word], "For every job."] = _NONE
    one_node: Annotated[dict[Variable, Word], "For a job on one node."] = _NONE
    several_nodes: Annotated[dict[Variable, Word], "For a job on several nodes."] = _NONE
    source: Annotated[Label | None, "The source."] = None


class Network(NamedTuple):
    """What carries NCCL (or RCCL, oneCCL) between nodes, and its settings."""

    fabric: Annotated[
        Literal["slingshot", "infiniband", "efa", "omni-path", "ethernet"], "The kind of network."
    ]
    plugin: Annotated[
        Literal["aws-ofi-nccl", "aws-ofi-rccl", "oneccl"] | None,
        "The library that carries NCCL, if its own (InfiniBand, sockets) does not.",
    ] = None
    plugin_from: Annotated[
        Literal["module", "path", "container", "environment"] | None,
        "Where a job gets it: the profile's modules, the profile's variables, or from what its user"
        " has to name, a container or an environment that has it.",
    ] = None
    how: Annotated[str | None, "What users must do to get it, in one sentence."] = None
    always: Annotated[dict[Variable, Word], "Variables for every job."] = _NONE
    one_node: Annotated[dict[Variable, Word], "For a job on one node."] = _NONE
    several_nodes: Annotated[dict[Variable, Word], "For a job on several nodes."] = _NONE
    set_by: Annotated[tuple[Runtime, ...], "Container runtimes that set these themselves."] = ()
    source: Annotated[Label | None, "The source."] = None


class SiteModules(NamedTuple):
    """Environment modules and conda, for a job that names no modules, venv or conda itself."""

    first: First = None
    use: Use = ()
    load: Load = ()
    conda: Annotated[str | None, "The conda environment to activate after the modules."] = None
    source: Annotated[Label | None, "The source."] = None


@limit_keys("suffix", "domain", "resolve", least=1, most=1)
class Address(NamedTuple):
    """How the address of a node is formed, where the name that the scheduler gives is not it."""

    suffix: Annotated[Label | None, "The suffix of the node's short name, such as i."] = None
    domain: Annotated[Label | None, "The domain of that name, such as hsn.example.org."] = None
    resolve: Annotated[Literal["ipv4"] | None, "ipv4: what a name resolves to on its node."] = None
    source: Annotated[Label | None, "The source."] = None

    @property
    def tail(self) -> str | None:
        """What a node's short name is followed by; None where it is resolved."""
        return f".{self.domain}" if self.domain else self.suffix


class SiteLaunch(NamedTuple):
    """How the site's own examples start a job."""

    family: Annotated[Literal["torchrun", "direct"], "One agent per node, or one task per GPU."]
    launcher: Annotated[Literal["srun", "pbsdsh", "mpiexec"], "What starts the job on the nodes."]
    address: Annotated[Address | None, "How to reach nodes, if not by their names."] = None
    mpiexec: Annotated[
        Literal["pals", "hydra", "openmpi", "ibrun"] | None,
        "The implementation of mpiexec, or TACC's ibrun instead; otherwise the job finds out.",
    ] = None
    options: Annotated[tuple[Words, ...], "More launcher options, if it starts each process."] = ()
    numa_binding: Annotated[
        Literal["node", "socket", "exclusive", "core-complex"] | None,
        "torchrun's --numa-binding, if torch has it: which CPUs each process uses.",
    ] = None
    devices: Annotated[tuple[CountOrNone, ...] | None, "A node's GPUs, by local rank."] = None
    name_devices: Annotated[bool, "Whether CUDA_VISIBLE_DEVICES names the job's GPUs."] = False
    note: Annotated[str | None, "What the site says about it."] = None
    source: Annotated[Label | None, "The source."] = None


class SiteContainer(NamedTuple):
    """Containers."""

    runtime: Annotated[Runtime, "The runtime, if the spec does not set it."]
    modules: Annotated[Modules, "Modules that it needs."] = Modules()
    binds: Binds = ()
    note: Annotated[str | None, "How."] = None
    source: Annotated[Label | None, "The source."] = None


class Recognise(NamedTuple):
    """How to recognise a machine of this cluster; one match is enough."""

    variables: Annotated[dict[Variable, Word], "Environment variables and their values."] = _NONE
    domain: Annotated[Label | None, "The domain at the end of its hosts' full names."] = None
    hosts: Annotated[tuple[Regex, ...], "The whole name of a host, such as dt-login.*"] = ()
    cluster: Annotated[Label | None, "Slurm's ClusterName, or PBS's server."] = None
    source: Annotated[Label | None, "The source."] = None


class SiteProfile(NamedTuple):
    """One cluster. A profile leaves out unknown facts."""

    scheduler: Annotated[SchedulerName, "slurm, pbs or local."]
    title: Annotated[str | None, "The cluster's name for people."] = None
    extends: Annotated[Label | None, "Another profile that this one changes."] = None
    as_of: Annotated[Date | None, "The date of sources without their own."] = None
    verified: Annotated[Grade | None, "The grade of sources without their own."] = None
    sources: Annotated[dict[Label, SiteSource], "Where facts are from, by id."] = _NONE
    cited: Annotated[dict[Label, Label], "The source of keys without their own."] = _NONE
    recognise: Annotated[Recognise, "How to recognise a machine of this cluster."] = Recognise()
    slurm: Annotated[SlurmDialect, "What differs between Slurm clusters."] = SlurmDialect()
    pbs: Annotated[PbsDialect, "What differs between PBS clusters."] = PbsDialect()
    node: Annotated[Node, "A node."] = Node()
    gpu_types: Annotated[dict[Label, Node], "Types of GPU, with their nodes."] = _NONE
    gpu_type: Annotated[Label | None, "The type of GPU for a job that names none."] = None
    gpu_type_required: Annotated[bool, "Whether every GPU job must name a type."] = False
    queues: Annotated[dict[Label, SiteQueue], "The queues, in order of preference."] = _NONE
    every_queue: Annotated[SiteQueue, "Facts about all queues."] = SiteQueue()
    walltime_required: Annotated[bool, "Whether every job must set a walltime."] = False
    account: Annotated[Account, "What an account looks like."] = Account()
    filesystems: Annotated[Filesystems | None, "The file systems that jobs must list."] = None
    directives: Annotated[tuple[Words, ...], "Options of sbatch or qsub for every job."] = ()
    modules: Annotated[SiteModules, "Modules."] = SiteModules()
    variables: Annotated[Variables, "Variables other than the network's."] = Variables()
    network: Annotated[Network | None, "What carries NCCL between nodes, if known."] = None
    interface: Annotated[Interface | None, "The network interface of the nodes to use."] = None
    launch: Annotated[SiteLaunch | None, "How the site starts a job."] = None
    container: Annotated[SiteContainer | None, "Containers."] = None
    internet: Annotated[Literal["none", "proxy", "yes"] | None, "Whether nodes reach it."] = None
    mail: Annotated[Literal["none"] | None, "none: its scheduler sends no e-mail."] = None
    charge: Annotated[Charge | None, "What a job costs, if its queue does not say."] = None
    notes: Annotated[tuple[str, ...], "Other facts, which jobgen does not act on."] = ()

    @property
    def can(self) -> Capabilities:
        """What its scheduler can do."""
        return get_capabilities(self.scheduler)

    @property
    def option_keys(self) -> dict[str, str]:
        """The keys that options of directives say; for the account of PBS it is one of several."""
        account = self.pbs.account_option.rstrip("=")
        return {**self.can.options, "-A": "", account: "account"}

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
