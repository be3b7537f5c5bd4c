"""What a cluster has to give, as its profile says it: how it is asked, nodes, queues, the price."""

from collections.abc import Iterator
from typing import Annotated, Literal, NamedTuple

from jobgen.bind import Pattern, Range
from jobgen.fields import Count, CountOrNone, Duration, Label, Memory

Date = Annotated[
    str,
    Pattern(
        r"20[0-9]{2}(-(0[1-9]|1[0-2])(-(0[1-9]|[12][0-9]|3[01]))?)?",
        "a date; write '2026', 2026-08 or 2026-08-19",
        ("2026-08-19", "2026"),
    ),
]
Rate = Annotated[float, Range(0)]
Words = Annotated[
    str, Pattern(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?", "plain ASCII without blanks around it")
]
Verified = Literal["docs", "scripts", "captured"]


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
    constraint: Annotated[
        Label | None, "The chunk resource that a job's `constraint` is the value of."
    ] = None
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


class Charge(NamedTuple):
    """What a job costs: `rate` units for each hour and thing it holds, used or not."""

    unit: Annotated[str, "What is counted, such as SU or node-hours."]
    rate: Annotated[Rate, "How many of them."]
    per: Annotated[
        Literal["cpu-hour", "gpu-hour", "node-hour"],
        "For each of what, and hour of walltime; GPUs as torch counts devices.",
    ]
    note: Annotated[str | None, "What else is charged."] = None
    source: Annotated[Label | None, "Where this is from."] = None


class Queue(NamedTuple):
    """A queue; on Slurm a partition or a QoS. `as_of` and `verified` where not the profile's."""

    choose: Annotated[
        bool, "Whether jobgen may choose it: the first that takes the job, where none is named."
    ] = False
    routed_from: Annotated[Label | None, "The queue to name instead; it leads here."] = None
    limits: Annotated[tuple[Limit, ...], "What it takes; one that fits is enough."] = ()
    node: Annotated[Node, "What differs on its nodes."] = Node()
    directives: Annotated[tuple[Words, ...], "Options of sbatch or qsub that go with it."] = ()
    charge: Annotated[Charge | None, "What a job costs in it."] = None
    note: Annotated[str | None, "What else to know of it."] = None
    source: Annotated[Label | None, "Where this is from."] = None
    as_of: Annotated[Date | None, "When its source was read."] = None
    verified: Annotated[
        Verified | None, "From documentation, users' scripts, or the cluster itself."
    ] = None
