"""What the templates of Part 1 may read: the plan, and a view of it in which all is decided."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from itertools import groupby
from types import SimpleNamespace

from jobgen import schedulers
from jobgen.plan.launch import LAUNCHERS, RENDEZVOUS
from jobgen.plan.plan import NeededPath, Plan, RolePlan, ShellPath, shorten
from jobgen.records import NamedTuple
from jobgen.rendering import header

_WIDTH = 80  # of the words in a line
_FLAVORS = ("openmpi", "hydra", "pals", "ibrun")


class NodeRun(NamedTuple):
    """Consecutive nodes on which as many processes start; `last` counts from 1."""

    first: int
    last: int
    nodes: int
    each: int
    processes: int


class Mpiexec:
    """How mpiexec starts a job: whose it is, if known, and the processes on each node."""

    def __init__(self, plan: Plan) -> None:
        self.made_by = _mark(plan.launch.flavor, _FLAVORS)
        self.started = plan.nodes.processes if plan.launch.numbers else (1,) * plan.nodes.total
        self.differ = len(set(self.started)) > 1
        self.total = sum(self.started)
        self.runs = list(_list_runs(self.started))
        # The CPU options of each: the site's, or those that leave CPUs to the node.
        self.bindings = SimpleNamespace(
            pals=("--cpu-bind", "none"), hydra=("-bind-to", "none"), openmpi=("--bind-to", "none")
        )
        if plan.launch.flavor and plan.launch.options:
            setattr(self.bindings, plan.launch.flavor, plan.launch.words)


class ScriptView:
    """What follows from a plan for the templates of Part 1."""

    def __init__(self, plan: Plan, role: str = "") -> None:
        launch, environment = plan.launch, plan.environment
        self.plan = plan
        self.role = role  # if it is of one
        self.asked = False  # whether it is ready once it answers at its port
        self.variable = role.upper()  # what the variables with its addresses begin with
        self.parts: list[tuple[ScriptView, Plan]] = []  # of each role
        self.pieces = schedulers.SCHEDULERS[plan.scheduler].launch(plan)
        self.local = not plan.can.batch  # all nodes are this machine
        self.on_this_host = self.local or launch.alone  # nothing runs on another machine
        self.launcher = _mark(launch.launcher, LAUNCHERS)
        self.rendezvous = _mark(launch.rendezvous, RENDEZVOUS)
        # What the launcher calls on each node.
        self.part = "run_processes" if launch.direct else "run_node"
        self.required = list(_require(plan))
        self.setup = indent_setup(environment.setup or "")  # the user's lines
        self.activate = NeededPath(f"{environment.venv}/bin/activate")  # where there is a venv
        first = environment.modules and environment.modules.first
        self.reset = first == "reset"  # the modules that the system loads come back
        # Some versions call it a failure that sticky modules stay.
        self.purge = {"purge": ["purge"], "force-purge": ["--force", "purge"]}.get(first or "", [])
        pairs = (environment.caches[:2], environment.caches[2:])
        self.cache_pairs = [pair for pair in pairs if pair]
        by_hand = launch.launcher in ("pbsdsh", "mpiexec")  # they do not hand variables on
        self.from_shell = environment.from_shell if by_hand else ()
        # Jobs that the script itself waits for.
        self.after = plan.requests.after if self.local else ()
        self.command = list(_wrap(_begin_command(plan.program.command)))
        self.steps = [list(_wrap(step)) for step in self.pieces.steps]  # srun's options for each
        self._describe_time()
        self._describe_processes()
        self._describe_gpus()

    @property
    def header(self) -> str:
        """The lines below the first: comments, directives, and facts for programs."""
        lines = [f"# {line}" for line in header.write_lines(self.plan)]
        lines += schedulers.SCHEDULERS[self.plan.scheduler].directives(self.plan)
        facts = header.write_json(header.describe_plan(self.plan))
        return "\n".join([*lines, f"# jobgen: {facts}"])

    @property
    def mpiexec(self) -> Mpiexec:
        """How mpiexec starts the job, which only its templates ask."""
        return Mpiexec(self.plan)

    def _describe_time(self) -> None:
        walltime, array = self.plan.walltime, self.plan.array
        # The script does something at the end of the walltime, or before it.
        times_itself = self.local and walltime.seconds is not None
        self.keeps_time = times_itself or bool(walltime.chain.then)
        # Jobs that are submitted with the first wait for it.
        self.held = walltime.chain.then == "held"
        if array.tasks:
            self.last_task = array.size - 1
            self.at_a_time = array.at_once or 1  # on this machine

    def _describe_processes(self) -> None:
        nodes, launch = self.plan.nodes, self.plan.launch
        self.together = nodes.together > 1  # several tasks of an array share a node
        self.several_nodes = nodes.allocated > 1
        self.differ = len(set(nodes.processes)) > 1
        self.counts = shorten(nodes.processes)
        # Of each node, where the runtime counts them; one number where all have it.
        self.processes: tuple[int, ...] = ()
        if self.differ or self.local:
            self.processes = nodes.processes
        elif launch.direct:
            self.processes = nodes.processes[:1]
        # Those that share the CPUs which a node counts for itself.
        self.threads_among = nodes.processes[0] * nodes.together
        if launch.deals_evenly:
            self.threads_among = 1  # each has CPUs of its own
        elif self.local:
            self.threads_among = nodes.world_size  # the nodes all count those of one machine

    @property
    def worlds(self) -> bool:
        """Whether several processes are to be one world, and may be wrappers of more launchers."""
        if self.role or self.plan.launch.mode not in ("torchrun", "direct"):
            return False
        trainer = self.plan.program.command[3:4] == ("jobgen.trainer",)
        return self.plan.nodes.world_size > 1 and not trainer

    @property
    def meeting(self) -> bool:
        """Whether the runtime looks for where the processes of a Python program meet."""
        return self.worlds and self.plan.program.command[:2] == ("python3", "-u")

    @property
    def meets(self) -> bool:
        """Whether the processes need an address and a port."""
        launch = self.plan.launch
        if launch.body or self.plan.roles.members:
            return False
        return launch.rendezvous == "static" or not launch.alone

    @property
    def own_address(self) -> object:
        """What the nodes' addresses are found by, if not by their names."""
        return self.plan.launch.interface or self.plan.launch.address

    @property
    def counts_nodes(self) -> bool:
        """Whether the script compares the nodes that it has with those that it is for."""
        if self.local or self.plan.launch.body:
            return False
        return bool(self.pieces.node_file) or not self.plan.launch.alone

    @property
    def guarded(self) -> bool:
        """Whether it ends what an agent leaves behind; Slurm does for its own steps."""
        if self.plan.launch.body:
            return False
        return self.pieces.watched or self.plan.launch.launcher == "mpiexec"

    def _describe_gpus(self) -> None:
        plan, nodes = self.plan, self.plan.nodes
        self.starts_more = plan.starts_more
        self.lists_hosts = plan.lists_hosts
        self.uses_gpus = plan.uses_gpus
        self.records_gpus = nodes.usage and self.uses_gpus
        self.of_amd = plan.environment.gpu_maker == "amd"
        self.gpus_wanted = shorten(nodes.preflight or ())
        # Of each node, where that is not one for each process.
        gpus = nodes.gpus_of_each
        self.shares = gpus if nodes.gpus and gpus != nodes.processes else ()
        # Of each node, if the scheduler does not tell which.
        self.gpu_parts: tuple[int, ...] = ()
        if not (plan.launch.body or self.together):
            self.gpu_parts = shorten(self.pieces.gpu_parts)
        # Ray's, of each node; on this machine it counts what it sees.
        self.ray_gpus = () if self.local else shorten(gpus)
        self.gpus_differ = len(self.ray_gpus) > 1
        # Of a node that roles share, where nothing says which they are.
        self.gpus_here = ",".join(map(str, range(nodes.groups[0].gpus)))
        self.gpus_taken: tuple[int, ...] = ()  # of each node: from which on, and how many
        # If all roles share this machine's: those of each node of each, and the nodes before it.
        self.gpus_shared: tuple[int, ...] = ()
        self.nodes_before = 0


def describe_script(plan: Plan) -> ScriptView:
    """Put together what Part 1 of `plan`'s script says, with the functions of each role."""
    view = ScriptView(plan)
    if plan.roles.members:
        view.processes = ()
        for role in plan.roles.members:
            part = _describe_role(plan, role)
            view.parts.append((part, part.plan))
        files = [file for part, _ in view.parts for file in part.required]
        view.required = list(dict.fromkeys(files))
    return view


def _describe_role(plan: Plan, role: RolePlan) -> ScriptView:
    place = role.plan.nodes.place
    assert place
    view = ScriptView(role.plan._replace(walltime=plan.walltime), role.name)
    view.processes, view.asked = (), role.test[:1] in (("http",), ("tcp",))
    if view.local:
        view.threads_among = plan.nodes.world_size
    elif place.among:
        view.threads_among = place.among
    if plan.nodes.gpus and view.local:
        for one in plan.roles.members:
            if one.name == role.name:
                view.nodes_before = len(view.gpus_shared)
            view.gpus_shared += one.plan.nodes.gpus_of_each
    elif plan.nodes.gpus and place.gpus is not None:
        view.gpus_taken = (place.first_gpu, place.gpus)
    return view


def _mark(chosen: str | None, names: Iterable[str]) -> SimpleNamespace:
    """Return which of the names is chosen, as templates can ask: `launcher.srun`."""
    return SimpleNamespace(**{name: name == chosen for name in names})


def indent_setup(text: str) -> str:
    """Indent the user's own lines, unless that would change what they mean.

    Lines are left as they are where one goes on in the next: in quotes, in a here-document, or
    after a backslash.
    """
    text = text.rstrip("\n") if text.strip() else ""
    try:
        for line in text.splitlines():
            if re.search(r"[\\\"']", line):
                shlex.split(line, comments=True)
    except ValueError:
        return text
    if "<<" in text:
        return text
    return "\n".join(f"    {line}" if line.strip() else line for line in text.splitlines())


def _require(plan: Plan) -> Iterator[ShellPath]:
    if plan.program.script:
        yield plan.program.script
    if plan.environment.step_options and plan.environment.image_file:
        yield plan.environment.image_file


def _begin_command(words: tuple[str, ...]) -> tuple[str, ...]:
    """The words after `exec`, which takes a first word with a dash for one of its options."""
    return ("--", *words) if words[:1] and words[0].startswith(("-", "$")) else words


def _wrap(words: tuple[str, ...]) -> Iterator[list[str]]:
    """The words in lines that fit on a page; an option stays with the value that follows it."""
    line: list[str] = []
    for word in words:
        if line and word.startswith("-") and sum(map(len, line)) + len(line) + len(word) > _WIDTH:
            yield line
            line = []
        line.append(word)
    yield line


def _list_runs(counts: tuple[int, ...]) -> Iterator[NodeRun]:
    first = 0
    for each, members in groupby(counts):
        nodes = len(list(members))
        yield NodeRun(first, first + nodes, nodes, each, nodes * each)
        first += nodes
