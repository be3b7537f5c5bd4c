"""What the templates of Part 1 may read: one record, in which everything is decided."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import NamedTuple

from jobgen import schedulers
from jobgen.plan.launch import LAUNCHERS
from jobgen.plan.plan import ArrayTask, ContainerCommand, Heartbeat, Plan, ShellPath
from jobgen.rendering import header

_WIDTH = 80  # of the words in a line


class Wait(NamedTuple):
    """A job to wait for, and for what."""

    kind: str
    job: str


class NodeRun(NamedTuple):
    """Consecutive nodes on which as many processes start."""

    first: int
    nodes: int
    each: int

    @property
    def processes(self) -> int:
        """How many that are."""
        return self.nodes * self.each


class ScriptView(NamedTuple):
    """Part 1 of a script, piece by piece; what is empty is not printed."""

    header: tuple[str, ...]
    directives: tuple[str, ...]
    name: str
    # Which of the variants there are.
    launcher: Mapping[str, bool]
    direct: bool
    alone: bool  # one node, on which the script itself starts the agent
    local: bool
    node_file: bool  # the nodes are named in a file
    meets: bool  # the processes of several nodes, or without torchrun, need an address and a port
    static: bool
    # Values.
    nodes: int
    fewest_nodes: int | None
    processes: tuple[int, ...]  # of each node, where the runtime has to know
    processes_differ: bool
    sharing: int  # processes of a node
    threads_among: int  # processes that share the CPUs which the launcher gives
    world_size: int
    max_restarts: int
    walltime: int | None
    notice: int | None
    last_call: int | None
    at_most: int | None
    beat: int | None
    silent: int
    missing: int
    # The environment.
    module_lines: bool
    module_reset: bool
    module_purge: tuple[str, ...]
    module_folders: tuple[str, ...]
    modules: tuple[str, ...]
    stage: ShellPath | None
    venv: ShellPath | None
    conda: ShellPath | None
    threads: int | None
    variables: Mapping[str, str]
    setup: tuple[str, ...]
    from_shell: tuple[str, ...]  # what the script itself hands on to the nodes
    container: ContainerCommand | None
    image_file: ShellPath | None
    devices: tuple[int, ...]
    numa_binding: str | None
    gpu_part: int | None  # how many of a node's GPUs the job has, where nobody tells it which
    gpu_parts: tuple[int, ...]  # of each node, where they differ
    # The nodes, and how they meet.
    required: tuple[ShellPath, ...]
    after: tuple[Wait, ...]
    node_names: tuple[str, ...]
    node_lists: tuple[ShellPath, ...]
    on_this_host: bool
    name_tail: str | None
    resolves: bool
    own_address: bool  # nodes are known by another address than their name
    interface: str | None
    bracketed: bool  # the address may be one of IPv6
    preflight: bool
    preflight_all: int | None
    preflight_each: tuple[int, ...]
    # The program, its tasks, and what starts it.
    command: tuple[tuple[str, ...], ...]  # in lines
    tasks: tuple[ArrayTask, ...]
    last_task: int
    task_count: int
    task_variables: tuple[str, ...]
    one_task: str | None
    at_once: int
    part: str
    steps: tuple[tuple[tuple[str, ...], ...], ...]  # srun's options for each, in lines
    share_cpus: bool
    flavor: str | None
    mpiexec: Mapping[str, bool]
    ibrun: bool
    bindings: Mapping[str, tuple[str, ...]]
    started: tuple[int, ...]
    started_sum: int
    runs: tuple[NodeRun, ...]
    in_slurm: bool
    runtime: str = ""


def describe_script(plan: Plan) -> ScriptView:
    """Put together what Part 1 of `plan`'s script says."""
    scheduler = schedulers.get_scheduler(plan.scheduler)
    pieces = scheduler.launch(plan)
    nodes, launch, environment = plan.nodes, plan.launch, plan.environment
    array, chain, watch = plan.array, plan.walltime.chain, launch.watch
    processes = nodes.processes
    differ = len(set(processes)) > 1
    started = processes if launch.numbers else (1,) * nodes.total  # by the launcher, on each node
    local = schedulers.is_local(plan.scheduler)
    modules = environment.modules
    preflight = nodes.preflight
    usual = Heartbeat()
    rhythm = (watch.beat, watch.silent, watch.missing)
    alone = starts_alone(plan)
    return ScriptView(
        header=tuple(header.write_lines(plan)),
        directives=tuple(scheduler.directives(plan)),
        name=plan.name,
        launcher={name: launch.launcher == name for name in LAUNCHERS},
        direct=launch.direct,
        alone=alone,
        local=local,
        node_file=pieces.node_file,
        meets=not alone or launch.rendezvous == "static" or preflight is not None,
        static=launch.rendezvous == "static",
        nodes=nodes.total,
        fewest_nodes=nodes.fewest,
        processes=_list_processes(plan, local=local, differ=differ),
        processes_differ=differ,
        sharing=processes[0],
        threads_among=_count_sharing(plan, local=local),
        world_size=nodes.world_size,
        max_restarts=launch.max_restarts,
        walltime=plan.walltime.seconds if local or chain else None,
        notice=chain.notice if chain else None,
        last_call=chain.last_call if chain else None,
        at_most=chain.at_most if chain and chain.goes_on else None,
        beat=watch.beat if rhythm != (usual.beat, usual.silent, usual.missing) else None,
        silent=watch.silent,
        missing=watch.missing,
        module_lines=modules is not None,
        module_reset=environment.reset,
        module_purge=environment.purge,
        module_folders=tuple(map(ShellPath, modules.use)) if modules else (),
        modules=tuple(modules.load) if modules else (),
        stage=environment.stage,
        venv=environment.venv,
        conda=environment.conda,
        threads=nodes.threads,
        variables=environment.variables,
        setup=indent_setup(environment.setup or ""),
        from_shell=environment.from_shell if hands_on(plan) else (),
        container=environment.container,
        image_file=environment.image_file if environment.container else None,
        devices=launch.devices or (),
        numa_binding=launch.numa_binding,
        gpu_part=_same(pieces.gpu_parts),
        gpu_parts=pieces.gpu_parts if _same(pieces.gpu_parts) is None else (),
        required=tuple(_require(plan)),
        after=tuple(
            Wait(dependency.kind, job)
            for dependency in plan.requests.after
            for job in dependency.jobs
        )
        if local
        else (),
        node_names=pieces.node_names,
        node_lists=pieces.node_lists,
        on_this_host=alone or local,
        name_tail=launch.address.tail if launch.address else None,
        resolves=bool(launch.address and launch.address.tail is None),
        own_address=local or bool(launch.interface or launch.address),
        interface=launch.interface,
        bracketed=bool(launch.interface or (launch.address and not launch.address.tail)),
        preflight=preflight is not None,
        preflight_all=preflight.everywhere if preflight else None,
        preflight_each=preflight.gpus if preflight and not preflight.alike else (),
        command=tuple(_wrap(_begin_command(plan.program.command))),
        tasks=array.tasks if array else (),
        last_task=array.last if array else 0,
        task_count=len(array.tasks) if array else 0,
        task_variables=array.variables if array else (),
        one_task=plan.program.task,
        at_once=(array.at_once if array else None) or 1,
        part="run_process" if launch.numbers else "run_node",
        steps=tuple(tuple(_wrap(step)) for step in pieces.steps),
        share_cpus=pieces.share_cpus,
        flavor=launch.flavor,
        mpiexec={kind: launch.flavor in (None, kind) for kind in launch.bindings},
        ibrun=launch.flavor == "ibrun",
        bindings=launch.bindings,
        started=started if len(set(started)) > 1 else started[:1],
        started_sum=sum(started),
        runs=tuple(_list_runs(started)),
        in_slurm=bool(pieces.node_lists),
    )


def starts_alone(plan: Plan) -> bool:
    """Whether the script itself starts the one agent of the job, on its one node."""
    return plan.nodes.total == 1 and plan.launch.launcher == "local" and not plan.launch.direct


def uses_gpus(plan: Plan) -> bool:
    """Whether the processes may use GPUs, by torch: those of this machine nobody has to ask for."""
    return not plan.launch.plain and (plan.nodes.gpus > 0 or schedulers.is_local(plan.scheduler))


def ends_leftovers(plan: Plan) -> bool:
    """Whether the script itself ends what an agent leaves behind; Slurm does for its own steps."""
    pieces = schedulers.get_scheduler(plan.scheduler).launch(plan)
    return pieces.watched or plan.launch.launcher == "mpiexec"


def hands_on(plan: Plan) -> bool:
    """Whether the script hands the submitting shell's variables on: its launcher does not."""
    return bool(plan.environment.from_shell) and plan.launch.launcher in ("pbsdsh", "mpiexec")


def indent_setup(text: str) -> tuple[str, ...]:
    """Indent the user's own lines, unless that would change what they mean.

    Lines are left as they are where one goes on in the next: in quotes, in a here-document, or
    after a backslash.
    """
    lines = text.rstrip("\n").splitlines() if text.strip() else []
    try:
        for line in lines:
            if re.search(r"[\\\"']", line):
                shlex.split(line, comments=True)
    except ValueError:
        return tuple(lines)
    if "<<" in text:
        return tuple(lines)
    return tuple(f"    {line}" if line.strip() else line for line in lines)


def _count_sharing(plan: Plan, *, local: bool) -> int:
    """Return how many processes share the CPUs that each node counts for itself."""
    if plan.launch.direct and plan.launch.launcher == "srun":
        return 1  # each has CPUs of its own
    # The nodes of one machine all count that machine's.
    return plan.nodes.world_size if local else plan.nodes.processes[0]


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


def _list_waits(plan: Plan) -> Iterator[Wait]:
    for dependency in plan.requests.after:
        yield from (Wait(dependency.kind, job) for job in dependency.jobs)


def _begin_command(words: tuple[str, ...]) -> tuple[str, ...]:
    """The words after `exec`, which takes a first word with a dash for an option of its own."""
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


def _same(counts: tuple[int, ...]) -> int | None:
    """What all of them are; None where they differ, or there are none."""
    return counts[0] if len(set(counts)) == 1 else None
