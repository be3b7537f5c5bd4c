"""The plan: everything that a script says, decided, in the parts that `resolve` puts together.

Only records stand here. Each part is decided in the module of its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from jobgen.capabilities import Capabilities
from jobgen.records import NamedTuple
from jobgen.sites.profile import Address, Node, SiteProfile
from jobgen.spec.fields import ShellPath as ShellPath
from jobgen.spec.launchers import find_launcher, name_kind, read_names
from jobgen.spec.model import Modules
from jobgen.spec.roles import Spot


class SiteDefaults(NamedTuple):
    """What a site adds to a spec; directives lack their `#PBS` or `#SBATCH`."""

    queue: str | None = None
    why_queue: str = ""  # where jobgen has chosen it
    partition: str = ""  # what Slurm calls the queue, if the profile has another name
    qos: str | None = None  # that goes with the queue
    node: Node = Node()
    gpu_type: str | None = None
    filesystems: tuple[str, ...] = ()
    directives: tuple[str, ...] = ()
    variables: Mapping[str, str] = MappingProxyType({})
    network: str = ""  # what the user has to know of it, if it is not all set up
    fabric: str | None = None  # what NCCL is to use between nodes, if that is not TCP
    address: Address | None = None


class Provenance(NamedTuple):
    """What a plan was made from, so that the same can be rendered again."""

    source: str  # the spec's file name, without its folder
    digest: str
    site_given: str | None = None  # the site given in the place of the spec's own
    overrides: tuple[str, ...] = ()  # PATH=VALUE given on top of the spec
    limits: bool = True  # whether the site's limits were checked
    states_scheduler: bool = False  # whether the spec, or that site, does
    defaults: tuple[str, ...] = ()  # files that were read though nobody has named them


class NodeGroup(NamedTuple):
    """Consecutive nodes that are alike. Memory in KiB; None leaves it to the site."""

    nodes: int
    processes: int
    gpus: int = 0
    cpus: int | None = None
    memory: int | None = None

    @property
    def shape(self) -> tuple[int, int | None, int | None]:
        """What the scheduler is asked for on each node."""
        return (self.gpus, self.cpus, self.memory)

    def times(self, number: int) -> NodeGroup:
        """Return the same nodes with so many times the GPUs, CPUs and memory."""
        cpus, memory = self.cpus and self.cpus * number, self.memory and self.memory * number
        return self._replace(gpus=self.gpus * number, cpus=cpus, memory=memory)


def shorten(counts: tuple[int, ...]) -> tuple[int, ...]:
    """Return what each node has, in one number if all of them have the same."""
    return counts[:1] if len(set(counts)) == 1 else counts


class Nodes(NamedTuple):
    """The nodes of the job, and how many processes each runs."""

    groups: tuple[NodeGroup, ...] = ()
    fewest: int | None = None  # set where the scheduler may give fewer nodes than `groups` has
    cpus_asked: bool = True  # False where the CPUs follow from the nodes or GPUs
    tasks_asked: bool = False  # whether the spec says how many processes each node has
    device: str | None = None  # what the site says one torch device is, if not a whole GPU
    disk: int | None = None  # KiB of each node's own
    # GPUs that each node must see before the program starts, 0 for any; None: nothing is compared.
    preflight: tuple[int, ...] | None = None
    together: int = 1  # tasks of the array that share a node; `groups` is what one has
    usage: bool = True  # whether each node notes what the job uses
    spare: int = 0  # nodes beside those of `groups`, in the place of which they can run
    place: Spot | None = None  # of a role: where its nodes are among the job's

    @property
    def total(self) -> int:
        """How many nodes the job has."""
        return sum(group.nodes for group in self.groups)

    @property
    def allocated(self) -> int:
        """How many nodes the scheduler gives, with those that wait."""
        return self.total + self.spare

    @property
    def asked(self) -> tuple[NodeGroup, ...]:
        """What the scheduler is asked for: the groups, for all tasks that share a node."""
        if self.together == 1 and not self.spare:
            return self.groups
        *groups, last = (group.times(self.together) for group in self.groups)
        return (*groups, last._replace(nodes=last.nodes + self.spare))

    @property
    def gpus(self) -> int:
        """GPUs of the whole job."""
        return sum(group.nodes * group.gpus for group in self.groups)

    @property
    def processes(self) -> tuple[int, ...]:
        """Processes of each node, in order."""
        return tuple(group.processes for group in self.groups for _ in range(group.nodes))

    @property
    def own(self) -> tuple[NodeGroup, ...]:
        """The groups, with what is a role's own of the nodes that it shares."""
        if self.place is None:
            return self.groups
        gpus, share = self.place.gpus, self.place.share
        groups = (group._replace(cpus=group.cpus and share(group.cpus)) for group in self.groups)
        return tuple(group if gpus is None else group._replace(gpus=gpus) for group in groups)

    @property
    def gpus_of_each(self) -> tuple[int, ...]:
        """GPUs of each node, in order."""
        return tuple(group.gpus for group in self.own for _ in range(group.nodes))

    @property
    def gpus_for_one(self) -> int:
        """The most GPUs that one process has, where it has a whole node; else 0."""
        alone = self.place is None and (self.together, *set(self.processes)) == (1, 1)
        return max(self.gpus_of_each) if alone else 0

    @property
    def world_size(self) -> int:
        """Processes of the job."""
        return sum(group.nodes * group.processes for group in self.groups)

    @property
    def topology(self) -> str:
        """Nodes and processes in words, such as `2 nodes x 4 processes`."""
        parts = []
        for group in self.groups:
            nodes = "1 node" if group.nodes == 1 else f"{group.nodes} nodes"
            if self.fewest is not None:
                nodes = f"{self.fewest} to {nodes}"
            processes = "1 process" if group.processes == 1 else f"{group.processes} processes"
            parts.append(f"{nodes} x {processes}")
        return " + ".join(parts)

    @property
    def unequal(self) -> bool:
        """Whether the scheduler is asked for nodes of several shapes."""
        return len({group.shape for group in self.groups}) > 1

    @property
    def threads(self) -> int | None:
        """OMP_NUM_THREADS that suits every node; None where only the node knows its CPUs."""
        each = [(group.cpus, group.processes) for group in self.own]
        if any(cpus is None for cpus, _ in each):
            return None
        return max(1, min((cpus or 1) // processes for cpus, processes in each))


class Program(NamedTuple):
    """What each process runs.

    `task` is the index of an array's task that is a separate job, `number` its JOBGEN_TASK.
    """

    name: str = ""
    command: tuple[str, ...] = ()  # a ShellPath among the words expands
    script: ShellPath | None = None  # the program's file, if there is one to look for
    variables: Mapping[str, str] = MappingProxyType({})  # of that task
    task: str | None = None
    number: str | None = None
    task_given: bool = False  # by the command line, and not because the array has one task


class Start(NamedTuple):
    """What starts the processes, and how they find one another.

    `mode` is torchrun, with an agent on each node; direct; plain, which asks for no torch; ray,
    whose program runs once, on the first node; body, a script that does too, and starts its own
    programs; or roles, each of which has a mode too.
    `options` are the site's, for the launcher in direct mode; `devices` the order in which the
    processes of a node take its GPUs.
    `numa_binding` is torchrun's, for torch that has it.
    """

    mode: str = "torchrun"
    launcher: str = "srun"
    flavor: str | None = None  # of mpiexec: pals, hydra, openmpi, ibrun; None: the job finds out
    options: tuple[str, ...] = ()
    devices: tuple[int, ...] | None = None
    numa_binding: str | None = None
    decided_by: tuple[str, ...] = ()  # the keys that decided the mode
    rendezvous: str = "static"  # or c10d; file on one node; env in direct mode
    alone: bool = False  # the script itself starts the one agent, on its one node
    max_restarts: int = 0
    interface: str | None = None
    address: Address | None = None  # how the nodes' addresses follow from their names

    @property
    def direct(self) -> bool:
        """Whether processes start one by one."""
        return self.mode in ("direct", "plain", "ray")

    @property
    def plain(self) -> bool:
        """Whether the program may be any, without Python or torch."""
        return self.mode in ("plain", "ray")

    @property
    def ray(self) -> bool:
        """Whether the program runs once, on a Ray of all nodes."""
        return self.mode == "ray"

    @property
    def body(self) -> bool:
        """Whether a script of the user's starts the programs."""
        return self.mode == "body"

    @property
    def numbers(self) -> bool:
        """Whether the launcher starts, and numbers, each process itself."""
        return self.direct and self.launcher in ("srun", "mpiexec")

    @property
    def deals_evenly(self) -> bool:
        """Whether each node of a component gets the same number of processes, as srun deals."""
        return self.direct and self.launcher == "srun"

    @property
    def words(self) -> tuple[str, ...]:
        """The site's options, word by word."""
        return tuple(word for text in self.options for word in text.split())


class ContainerCommand(NamedTuple):
    """A container that a command enters: `words`, a `bind` for each path, then `more`."""

    runtime: str
    words: tuple[str, ...]
    bind: str  # the option
    more: tuple[str, ...]  # the image last
    # Those that show the GPUs of each maker, where only the node knows who made them.
    nvidia: tuple[str, ...] = ()
    amd: tuple[str, ...] = ()


class NeededPath(ShellPath):
    """One whose variables must be set on the node, but for the one that the value `adds_to`."""

    adds_to = ""


class NodeEnvironment(NamedTuple):
    """What a node's part of the script sets up, in a shell that takes unset variables as empty."""

    modules: Modules | None = None
    container: ContainerCommand | None = None
    step_options: tuple[str, ...] = ()  # by which srun enters a container
    image_file: ShellPath | None = None
    stage: ShellPath | None = None
    venv: ShellPath | None = None
    conda: ShellPath | None = None
    variables: Mapping[str, str] = MappingProxyType({})
    setup: str | None = None
    from_shell: tuple[str, ...] = ()  # variables of the shell that submits
    caches: tuple[str, ...] = ()  # variables that name a folder of the node's own
    gpu_maker: str | None = None  # nvidia, amd or intel, if the site's profile tells

    @property
    def conda_folder(self) -> ShellPath | None:
        """The folder of the conda environment; None if it is known by a name."""
        return self.conda if self.conda and "/" in self.conda else None


class Mail(NamedTuple):
    """E-mail to `email`, else to the user who submits, at some of begin, end and fail."""

    email: str | None
    on: tuple[str, ...]


class Dependency(NamedTuple):
    """Jobs, as this scheduler writes their ids, and what has to become of them."""

    kind: str
    jobs: tuple[str, ...]

    def __str__(self) -> str:
        return ":".join([self.kind, *self.jobs])


class Requests(NamedTuple):
    """What the scheduler is asked for beside nodes and time, as far as it knows it."""

    account: str | None = None
    queue: str | None = None
    gpu_type: str | None = None
    filesystems: tuple[str, ...] = ()
    qos: str | None = None
    reservation: str | None = None
    constraint: str | None = None
    exclusive: bool = False
    mail: Mail | None = None
    after: tuple[Dependency, ...] = ()  # what the job waits for
    directives: tuple[str, ...] = ()  # the user's own, for this scheduler


class Chain(NamedTuple):
    """What happens before the walltime ends, and after. Times in seconds before its end.

    `then` is stop; requeue: the same job again; resubmit: another job, which this one submits;
    held: jobs that were submitted with the first and wait for it; empty: nothing happens.
    """

    then: str = ""
    notice: int = 0  # the program is asked to stop
    last_call: int = 0  # what still runs is told by SIGTERM
    at_most: int = 1  # starts
    timer: bool = True  # the script keeps the time itself, and is told nothing by the scheduler

    @property
    def goes_on(self) -> bool:
        """Whether there may be a further start."""
        return self.then not in ("", "stop")


class TimeLimit(NamedTuple):
    """How long the job may run, and what happens before that time ends."""

    seconds: int | None = None
    chain: Chain = Chain()
    restarts: int = 0  # that a verdict on a failure may lead to


class ArrayTask(NamedTuple):
    """What one task has for itself: words at the end of its program's, and variables."""

    arguments: tuple[str, ...]
    variables: Mapping[str, str]


class TaskArray(NamedTuple):
    """Two tasks or more, and how many run at a time; None sets no bound. Empty: no array.

    `numbers` has the JOBGEN_TASK of each.
    """

    tasks: tuple[ArrayTask, ...] = ()
    numbers: tuple[int, ...] = ()
    at_once: int | None = None
    together: int = 1  # in one job of the scheduler's

    @property
    def size(self) -> int:
        """How many tasks there are."""
        return len(self.tasks)

    @property
    def numbered(self) -> bool:
        """Whether their numbers are not their indices."""
        return self.numbers != tuple(range(self.size))

    @property
    def jobs(self) -> int:
        """How many jobs they are to the scheduler."""
        return -(-self.size // self.together)

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the variables that some task has."""
        return tuple(dict.fromkeys(name for task in self.tasks for name in task.variables))

    @property
    def range(self) -> str:
        """As sbatch and qsub -J write it, such as `0-5%2`."""
        at_once = self.at_once and max(1, self.at_once // self.together)
        return f"0-{self.jobs - 1}" + (f"%{at_once}" if at_once else "")


class RolePlan(NamedTuple):
    """One of several programs of a job: `plan` is that of a job on its nodes alone."""

    name: str
    plan: Plan
    test: tuple[str, ...]  # what says that it is ready, in words of the script, if anything
    within: int  # seconds that it may take until then
    alone: bool  # it may end well before the job does
    notice: bool  # it is told before the walltime ends


class RolePlans(NamedTuple):
    """Several programs of a job, in the order of their nodes; the last one's end is the job's.

    `steps` are what the script does, in order: it starts a role, or waits until one is ready. Both
    are empty where the job has one program.
    """

    members: tuple[RolePlan, ...] = ()
    steps: tuple[tuple[bool, RolePlan], ...] = ()  # whether it waits

    @property
    def main(self) -> RolePlan:
        """The one whose end is the job's."""
        return self.members[-1]


class Plan(NamedTuple):
    """Everything that a script says, decided."""

    site: SiteProfile
    provenance: Provenance
    defaults: SiteDefaults = SiteDefaults()
    nodes: Nodes = Nodes()
    array: TaskArray = TaskArray()
    roles: RolePlans = RolePlans()
    program: Program = Program()
    launch: Start = Start()
    environment: NodeEnvironment = NodeEnvironment()
    requests: Requests = Requests()
    walltime: TimeLimit = TimeLimit()
    left_out: tuple[str, ...] = ()  # keys of the spec that this scheduler has no use for
    notes: tuple[str, ...] = ()  # what the user should hear; not part of the script

    @property
    def name(self) -> str:
        """The job's name."""
        return self.program.name

    def list_elsewhere(self, part: Plan) -> list[str]:
        """Return the roles that are on other nodes than a part, as in the names of variables."""
        apart = sum(len(one.nodes.processes) for one in self.parts) == len(self.nodes.processes)
        others = [one for one in self.roles.members if apart and one.plan is not part]
        return [one.name.upper() for one in others]

    @property
    def parts(self) -> tuple[Plan, ...]:
        """The plans of its roles, or itself where it has one program."""
        return tuple(role.plan for role in self.roles.members) or (self,)

    @property
    def scheduler(self) -> str:
        """The name of the scheduler."""
        return self.site.scheduler

    @property
    def can(self) -> Capabilities:
        """What the scheduler can do."""
        return self.site.can

    @property
    def task_index(self) -> str:
        """The scheduler's variable with the index of a task, if the script gives it the number.

        That of a job which several tasks share is left as it is.
        """
        array, can = self.array, self.can
        of_array = array.tasks and (array.numbered or can.index_of_script) and array.together == 1
        return can.task_index if of_array or self.program.number else ""

    @property
    def lone(self) -> bool:
        """Whether one process of any program is all of the job, and gets no rank variables.

        By LOCAL_RANK or Slurm's number of tasks, Lightning and Transformers take the processes of
        its other GPUs for started.
        """
        of_role = self.nodes.place is not None
        return self.launch.mode == "plain" and self.nodes.world_size == 1 and not of_role

    @property
    def starts_more(self) -> bool:
        """Whether the program may start further processes, and choose their OMP_NUM_THREADS.

        It is an agent, or has several GPUs of a node for one process. PBS sets the variable for all
        programs of a job (qsub(1B), ompthreads), so there they share what it says.
        """
        if self.launch.mode != "plain":
            return False
        launcher = find_launcher(self.program.command)
        if launcher and name_kind(launcher) == "agent":
            return True
        return self.can.batch and not self.can.chunks and self.nodes.gpus_for_one > 1

    @property
    def lists_hosts(self) -> bool:
        """Whether an MPI of the job's own needs the names of the nodes, which it may not find."""
        own = self.launch.body and find_launcher(self.program.command) in read_names("mpi")
        return bool(own) and self.can.chunks and self.nodes.total > 1

    @property
    def uses_gpus(self) -> bool:
        """Whether the processes may use GPUs, by torch: those of this machine need no request."""
        if self.launch.mode in ("plain", "body"):
            return False
        return any(self.nodes.gpus_of_each) or not self.can.batch

    @property
    def components(self) -> tuple[NodeGroup, ...]:
        """The groups, with those merged that ask the scheduler for the same.

        In direct mode srun starts the same number of tasks on every node of a component.
        """
        merged: list[NodeGroup] = []
        for group in self.nodes.asked:
            if merged and merged[-1].shape == group.shape and not self.launch.deals_evenly:
                nodes, most = merged[-1].nodes + group.nodes, merged[-1].processes
                most = max(most, group.processes)
                merged[-1] = merged[-1]._replace(nodes=nodes, processes=most)
            else:
                merged.append(group)
        return tuple(merged)
