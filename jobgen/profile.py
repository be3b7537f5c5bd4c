"""What a site profile says: the records of `sites/NAME.yaml`, which read as its manual.

Every fact is of the site's documentation or of its users' scripts, and says which by the id of one
of the profile's `sources`. What is not known is left out.
"""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, Literal, NamedTuple

from jobgen.bind import Parsed
from jobgen.errors import Problem
from jobgen.fields import CountOrNone, Interface, Label, SchedulerName, Variable, Word
from jobgen.queues import Charge as Charge
from jobgen.queues import Date, Verified, Words
from jobgen.queues import Limit as Limit
from jobgen.queues import Node as Node
from jobgen.queues import Pbs as Pbs
from jobgen.queues import Queue as Queue
from jobgen.queues import Slurm as Slurm
from jobgen.software import Binds, First, Load, Modules, Runtime, Use


def _regex(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"is no regular expression: {error}") from None
    return text


Regex = Annotated[str, Parsed(_regex, (r"project_\d+",))]


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


class SiteModules(NamedTuple):
    """Environment modules and conda, for a job that names no modules, venv or conda itself."""

    first: First = None
    use: Use = ()
    load: Load = ()
    conda: Annotated[str | None, "The conda environment to activate then."] = None
    source: Annotated[Label | None, "Where this is from."] = None


class Address(NamedTuple):
    """How the address of a node is formed, where the name that the scheduler gives is not it."""

    suffix: Annotated[Label | None, "What follows the node's short name, such as i."] = None
    domain: Annotated[Label | None, "The domain of that name, such as hsn.example.org."] = None
    resolve: Annotated[
        Literal["ipv4"] | None, "ipv4: the address that a node's name leads to on that node."
    ] = None
    source: Annotated[Label | None, "Where this is from."] = None

    @property
    def tail(self) -> str | None:
        """What a node's short name is followed by; None where it is resolved."""
        return f".{self.domain}" if self.domain else self.suffix

    def conflicts(self) -> Iterator[tuple[str, str, str]]:
        """There is one form."""
        given = [key for key in ("suffix", "domain", "resolve") if getattr(self, key) is not None]
        if len(given) != 1:
            what = f"has {' and '.join(given)}" if given else "names no form"
            yield "", what, "give exactly one of suffix, domain and resolve"


class Launch(NamedTuple):
    """How the site's own examples start a job."""

    family: Annotated[
        Literal["torchrun", "direct"], "torchrun: an agent on each node; direct: a task a GPU."
    ]
    launcher: Annotated[Literal["srun", "pbsdsh", "mpiexec"], "What starts it on the nodes."]
    address: Annotated[
        Address | None, "How nodes are reached, where not by the names that the scheduler gives."
    ] = None
    mpiexec: Annotated[
        Literal["pals", "hydra", "openmpi"] | None, "Whose mpiexec it is; else the job finds out."
    ] = None
    options: Annotated[
        tuple[Words, ...], "More options of the launcher, where it starts each process itself."
    ] = ()
    devices: Annotated[
        tuple[CountOrNone, ...] | None,
        "The order in which the processes of a node take all its GPUs, where they start directly.",
    ] = None
    note: Annotated[str | None, "What the site says about it."] = None
    source: Annotated[Label | None, "Where this is from."] = None


class Container(NamedTuple):
    """Containers."""

    runtime: Annotated[Runtime, "What runs them, where the spec does not say it."]
    modules: Annotated[Modules, "What to load for it."] = Modules()
    binds: Binds = ()
    note: Annotated[str | None, "How."] = None
    source: Annotated[Label | None, "Where this is from."] = None


class Recognise(NamedTuple):
    """What tells that a machine is of this cluster; one of these is enough."""

    variables: Annotated[
        dict[Variable, Word] | None, "Environment variables and their values there."
    ] = None
    domain: Annotated[Label | None, "The domain that the full names of its hosts end in."] = None
    cluster: Annotated[
        Label | None, "What its scheduler calls it: Slurm's ClusterName, or PBS's server."
    ] = None
    source: Annotated[Label | None, "Where this is from."] = None


class SiteProfile(NamedTuple):
    """One cluster. What is not known of it is left out."""

    scheduler: Annotated[SchedulerName, "slurm, pbs or local."]
    title: Annotated[str | None, "The cluster's name for people."] = None
    extends: Annotated[Label | None, "Another profile that this one changes."] = None
    as_of: Annotated[Date | None, "When the sources were read."] = None
    verified: Annotated[
        Verified | None, "From documentation, users' scripts, or the cluster itself."
    ] = None
    sources: Annotated[
        dict[Label, str] | None, "Where the facts are from: an id and an address."
    ] = None
    cited: Annotated[
        dict[Label, Label] | None, "Keys that have no source of their own, and the id of theirs."
    ] = None
    recognise: Annotated[Recognise | None, "What tells that a machine is of it."] = None
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
    modules: Annotated[SiteModules | None, "Modules."] = None
    variables: Annotated[Variables | None, "Variables of the network libraries."] = None
    interface: Annotated[Interface | None, "The network interface of the nodes to use."] = None
    launch: Annotated[Launch | None, "How the site starts a job."] = None
    container: Annotated[Container | None, "Containers."] = None
    internet: Annotated[
        Literal["none", "proxy", "yes"] | None, "Whether compute nodes reach it."
    ] = None
    charge: Annotated[Charge | None, "What a job costs, where its queue does not say it."] = None
    notes: Annotated[tuple[str, ...], "What else to know, which jobgen does not act upon."] = ()

    def charge_in(self, queue: str | None) -> Charge | None:
        """What a job in `queue` costs; None where it is not known."""
        found = (self.queues or {}).get(queue or "")
        return (found.charge if found else None) or self.charge

    def conflicts(self) -> Iterator[tuple[str, str, str]]:
        """What is cited, routed or chosen by default is there; the launcher is the scheduler's."""
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
        other = {"slurm": "pbsdsh", "pbs": "srun"}.get(self.scheduler)
        if self.launch is not None and self.launch.launcher == other:
            yield "launch.launcher", f"{other} is no launcher of {self.scheduler}", ""
        if self.gpu_type is not None and self.gpu_type not in (self.gpu_types or {}):
            yield "gpu_type", f"no such type {self.gpu_type!r}", "name it in gpu_types"


Sourced = (
    Recognise
    | Node
    | Queue
    | Account
    | Filesystems
    | Variables
    | SiteModules
    | Launch
    | Address
    | Container
    | Charge
)


def records(profile: SiteProfile) -> Iterator[tuple[str, Sourced]]:
    """The facts of a profile that have a source each, with their paths."""
    yield "node", profile.node
    for name, node in (profile.gpu_types or {}).items():
        yield f"gpu_types.{name}", node
    yield "every_queue", profile.every_queue
    for name, queue in (profile.queues or {}).items():
        yield f"queues.{name}", queue
        yield f"queues.{name}.node", queue.node
        if queue.charge is not None:
            yield f"queues.{name}.charge", queue.charge
    for name in (
        *("recognise", "account", "filesystems", "variables", "modules", "launch", "container"),
        "charge",
    ):
        record = getattr(profile, name)
        if record is not None:
            yield name, record
    if profile.launch is not None and profile.launch.address is not None:
        yield "launch.address", profile.launch.address


class Choice(NamedTuple):
    """What a site adds to a spec, directives without their `#PBS` or `#SBATCH`.

    `problems` are the site's rules that the job breaks; those in doubt are among `notes`.
    """

    queue: str | None
    node: Node = Node()
    gpu_type: str | None = None
    filesystems: tuple[str, ...] = ()
    directives: tuple[str, ...] = ()
    variables: Mapping[str, str] = MappingProxyType({})
    interface: str | None = None
    address: Address | None = None
    notes: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
