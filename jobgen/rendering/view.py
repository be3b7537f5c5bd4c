"""What the templates of Part 1 may read: one record, in which everything is decided."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from itertools import groupby
from types import SimpleNamespace

from jobgen import schedulers
from jobgen.plan.launch import LAUNCHERS, RENDEZVOUS
from jobgen.plan.plan import Dependency, Plan, RolePlan, ShellPath, shorten
from jobgen.records import NamedTuple
from jobgen.rendering import header
from jobgen.schedulers.base import LaunchPieces

_WIDTH = 80  # of the words in a line


class NodeRun(NamedTuple):
    """Consecutive nodes on which as many processes start."""

    first: int
    nodes: int
    each: int

    @property
    def processes(self) -> int:
        """How many that are."""
        return self.nodes * self.each

    @property
    def last(self) -> int:
        """The number of its last node, counted from 1."""
        return self.first + self.nodes


class Mpiexec(NamedTuple):
    """How mpiexec starts a job: whose it is, if known, and the processes on each node."""

    made_by: SimpleNamespace  # whether by openmpi, hydra, pals, ibrun
    differ: bool  # whether the nodes do
    started: tuple[int, ...]  # processes on each node
    total: int
    runs: tuple[NodeRun, ...]


class ScriptView(NamedTuple):
    """Part 1 of a script: the parts of the plan, and what follows from them for the templates."""

    plan: Plan
    pieces: LaunchPieces
    launcher: SimpleNamespace  # whether it is srun, pbsdsh, ...
    rendezvous: SimpleNamespace  # whether it is static, c10d, ...
    meets: bool  # whether the processes need an address and a port
    processes: tuple[int, ...]  # of each node, where the runtime has to know
    differ: bool  # whether they do
    threads_among: int  # processes that share the CPUs which the launcher gives
    uses_gpus: bool
    records_gpus: bool
    gpu_parts: tuple[int, ...]  # GPUs of each node, if the scheduler does not tell which
    setup: str  # the user's lines
    from_shell: tuple[str, ...]  # what the script itself hands on to the nodes
    required: tuple[ShellPath, ...]
    after: tuple[Dependency, ...]  # jobs that the script itself waits for
    command: tuple[tuple[str, ...], ...]  # in lines
    steps: tuple[tuple[tuple[str, ...], ...], ...]  # srun's options for each, in lines
    role: str = ""  # if it is of one
    gpus_taken: tuple[int, ...] = ()  # of each node: from which on, and how many
    nodes_before: int = 0  # of the roles before its own, if all share this machine's GPUs
    gpus_shared: tuple[int, ...] = ()  # then, of each node of each role
    parts: tuple[ScriptView, ...] = ()  # of the roles

    @property
    def header(self) -> str:
        """The lines below the first: comments, directives, and facts for programs."""
        lines = [f"# {line}" for line in header.write_lines(self.plan)]
        lines += schedulers.SCHEDULERS[self.plan.scheduler].directives(self.plan)
        facts = header.write_json(header.describe_plan(self.plan))
        return "\n".join([*lines, f"# jobgen: {facts}"])

    @property
    def parts_with_plans(self) -> tuple[tuple[ScriptView, Plan], ...]:
        """The roles, each with its plan, which the templates know by that name."""
        return tuple((part, part.plan) for part in self.parts)

    @property
    def variable(self) -> str:
        """What the variables with a role's addresses begin with."""
        return self.role.upper()

    @property
    def local(self) -> bool:
        """Whether all nodes are this machine."""
        return not self.plan.can.batch

    @property
    def meeting(self) -> bool:
        """Whether it is looked at whether the processes of a Python program meet."""
        return self.worlds and self.plan.program.command[:2] == ("python3", "-u")

    @property
    def worlds(self) -> bool:
        """Whether several processes are to be one world, and may be wrappers of more launchers."""
        trainer = self.plan.program.command[3:4] == ("jobgen.trainer",)
        torch = self.plan.launch.mode in ("torchrun", "direct") and not self.role
        return self.plan.nodes.world_size > 1 and torch and not trainer

    @property
    def guarded(self) -> bool:
        """Whether the script ends what an agent leaves behind; Slurm does for its own steps."""
        watched = self.pieces.watched or self.plan.launch.launcher == "mpiexec"
        return watched and not self.plan.launch.body

    @property
    def together(self) -> bool:
        """Whether several tasks of an array share a node."""
        return self.plan.nodes.together > 1

    @property
    def part(self) -> str:
        """The function that the launcher calls on each node."""
        return "run_processes" if self.plan.launch.direct else "run_node"

    @property
    def ray_gpus(self) -> tuple[int, ...]:
        """What Ray has on each node; on this machine it counts what it sees."""
        if self.local:
            return ()
        return shorten(self.plan.nodes.gpus_of_each)

    @property
    def gpus_here(self) -> str:
        """The GPUs of a node that roles share, where nothing says which they are."""
        return ",".join(map(str, range(self.plan.nodes.groups[0].gpus)))

    @property
    def gpus_differ(self) -> bool:
        """Whether it has other numbers on other nodes."""
        return len(self.ray_gpus) > 1

    @property
    def mpiexec(self) -> Mpiexec:
        """How mpiexec starts the job, which only its templates ask."""
        nodes, launch = self.plan.nodes, self.plan.launch
        started = nodes.processes if launch.numbers else (1,) * nodes.total
        return Mpiexec(
            made_by=_mark(launch.flavor, ("openmpi", "hydra", "pals", "ibrun")),
            differ=len(set(started)) > 1,
            started=started,
            total=sum(started),
            runs=tuple(_list_runs(started)),
        )

    @property
    def of_amd(self) -> bool:
        """Whether AMD is known to have made the GPUs."""
        return self.plan.environment.gpu_maker == "amd"

    @property
    def keeps_time(self) -> bool:
        """Whether the script does something at the end of the walltime, or before it."""
        return self.plan.walltime.chain is not None or (
            self.local and bool(self.plan.walltime.seconds)
        )

    @property
    def counts_nodes(self) -> bool:
        """Whether the script compares the nodes that it has with those that it is for."""
        counted = self.pieces.node_file or not self.plan.launch.alone
        return counted and not self.local and not self.plan.launch.body

    @property
    def on_this_host(self) -> bool:
        """Whether nothing of the job runs on another machine."""
        return self.plan.launch.alone or self.local


def _describe_job(plan: Plan) -> ScriptView:
    """Put together what Part 1 says of one program."""
    pieces = schedulers.SCHEDULERS[plan.scheduler].launch(plan)
    nodes, launch = plan.nodes, plan.launch
    local, gpus = not plan.can.batch, uses_gpus(plan)
    differ = len(set(nodes.processes)) > 1
    return ScriptView(
        plan=plan,
        pieces=pieces,
        launcher=_mark(launch.launcher, LAUNCHERS),
        rendezvous=_mark(launch.rendezvous, RENDEZVOUS),
        meets=not (launch.body or plan.roles)
        and (not launch.alone or launch.rendezvous == "static"),
        processes=() if plan.roles else _list_processes(plan, local=local, differ=differ),
        differ=differ,
        threads_among=_count_sharing(plan, local=local),
        uses_gpus=gpus,
        records_gpus=nodes.usage and gpus,
        gpu_parts=() if launch.body or nodes.together > 1 else shorten(pieces.gpu_parts),
        setup=indent_setup(plan.environment.setup or ""),
        from_shell=plan.environment.from_shell if hands_on(plan) else (),
        required=tuple(_require(plan)),
        after=plan.requests.after if local else (),
        command=tuple(_wrap(_begin_command(plan.program.command))),
        steps=tuple(tuple(_wrap(step)) for step in pieces.steps),
    )


def describe_script(plan: Plan) -> ScriptView:
    """Put together what Part 1 of `plan`'s script says, with the functions of each role."""
    view = _describe_job(plan)
    if plan.roles is None:
        return view
    parts = tuple(_describe_part(plan, role, view.local) for role in plan.roles.members)
    required = dict.fromkeys(file for part in parts for file in part.required)
    return view._replace(parts=parts, required=tuple(required))


def _describe_part(plan: Plan, role: RolePlan, local: bool) -> ScriptView:
    """Return what a role has of functions."""
    place, gpus = role.plan.nodes.place, plan.nodes.gpus
    assert place
    assert plan.roles
    view = _describe_job(role.plan._replace(walltime=plan.walltime))
    among = plan.nodes.world_size if local else place.among or view.threads_among
    view = view._replace(role=role.name, processes=(), threads_among=among)
    if gpus and local:
        members = plan.roles.members
        before = sum(one.plan.nodes.total for one in members[: members.index(role)])
        shared = tuple(count for one in members for count in one.plan.nodes.gpus_of_each)
        return view._replace(nodes_before=before, gpus_shared=shared)
    taken = () if place.gpus is None or not gpus else (place.first_gpu, place.gpus)
    return view._replace(gpus_taken=taken)


def _mark(chosen: str | None, names: Iterable[str]) -> SimpleNamespace:
    """Return which of the names is chosen, as templates can ask: `launcher.srun`."""
    return SimpleNamespace(**{name: name == chosen for name in names})


def uses_gpus(plan: Plan) -> bool:
    """Whether the processes may use GPUs, by torch: those of this machine need no request."""
    if plan.launch.mode in ("plain", "body"):
        return False
    return any(plan.nodes.gpus_of_each) or not plan.can.batch


def hands_on(plan: Plan) -> bool:
    """Whether the script hands the submitting shell's variables on: its launcher does not."""
    return bool(plan.environment.from_shell) and plan.launch.launcher in ("pbsdsh", "mpiexec")


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


def _count_sharing(plan: Plan, *, local: bool) -> int:
    """Return how many processes share the CPUs that each node counts for itself."""
    if plan.launch.direct and plan.launch.launcher == "srun":
        return 1  # each has CPUs of its own
    # The nodes of one machine all count that machine's.
    return plan.nodes.world_size if local else plan.nodes.processes[0] * plan.nodes.together


def _list_processes(plan: Plan, *, local: bool, differ: bool) -> tuple[int, ...]:
    """The processes of each node, where the runtime counts them; one number where all have it."""
    if not (plan.launch.direct or local or differ):
        return ()
    processes = plan.nodes.processes
    return processes if differ or local else processes[:1]


def _require(plan: Plan) -> Iterator[ShellPath]:
    """The files without which nothing starts."""
    if plan.program.script:
        yield plan.program.script
    if plan.environment.step_options and plan.environment.image_file:
        yield plan.environment.image_file


def _begin_command(words: tuple[str, ...]) -> tuple[str, ...]:
    """The words after `exec`, which takes a first word with a dash for one of its options."""
    return ("--", *words) if words[:1] and words[0].startswith(("-", "$")) else words


def _wrap(words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The words in lines that fit on a page; an option stays with the value that follows it."""
    line: list[str] = []
    for word in words:
        if line and word.startswith("-") and sum(map(len, line)) + len(line) + len(word) > _WIDTH:
            yield tuple(line)
            line = []
        line.append(word)
    yield tuple(line)


def _list_runs(counts: tuple[int, ...]) -> Iterator[NodeRun]:
    """Runs of consecutive nodes with as many processes."""
    first = 0
    for count, members in groupby(counts):
        nodes = len(list(members))
        yield NodeRun(first, nodes, count)
        first += nodes
