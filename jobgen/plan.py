"""The plan: every number of a job settled, before any scheduler's or shell's syntax.

`resolve` is the one place where a decision is made; what follows only prints it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from jobgen import site as sites
from jobgen import start as starts
from jobgen.environment import NodeEnvironment, conflicts, settle
from jobgen.errors import Problem, SpecError, UsageError
from jobgen.loaded import LoadedSpec
from jobgen.nodes import NodeGroup, groups_of
from jobgen.profile import Address, Choice, SiteProfile
from jobgen.program import ShellPath, command_of, script_of
from jobgen.spec import NodeRange
from jobgen.start import Start, Watch

if TYPE_CHECKING:
    from jobgen.array import Array
    from jobgen.chain import Chain
    from jobgen.dependencies import Dependency
    from jobgen.preflight import Preflight
    from jobgen.request import Request


class Plan(NamedTuple):
    """Everything that a script says, decided."""

    name: str
    scheduler: str
    site: SiteProfile
    source: str  # the spec's file name, without its folder
    digest: str
    groups: tuple[NodeGroup, ...]
    command: tuple[str, ...]  # a ShellPath among them expands
    rendezvous: str
    max_restarts: int
    fewest_nodes: int | None = None  # where the scheduler may give less than all of `groups`
    account: str | None = None
    queue: str | None = None
    walltime: int | None = None  # seconds
    chain: Chain | None = None  # what happens before the walltime ends
    preflight: Preflight | None = None  # what the nodes compare before the program starts
    interface: str | None = None
    address: Address | None = None  # how the nodes' addresses follow from their names
    script: ShellPath | None = None  # the program's file, where there is one to look for
    environment: NodeEnvironment = NodeEnvironment()
    directives: tuple[str, ...] = ()  # the user's own, for this scheduler
    site_given: str | None = None  # a site that was given in the place of the spec's own
    overrides: tuple[str, ...] = ()  # PATH=VALUE that were given on top of the spec
    left_out: tuple[str, ...] = ()  # keys of the spec that this scheduler has no use for
    cpus_asked: bool = True  # False where they follow from the nodes or GPUs
    gpu_type: str | None = None
    filesystems: tuple[str, ...] = ()
    site_directives: tuple[str, ...] = ()  # the site's own, without '#PBS' or '#SBATCH'
    request: Request | None = None  # what else the scheduler is asked for
    after: tuple[Dependency, ...] = ()  # what the job waits for
    array: Array | None = None  # two tasks or more
    task: str | None = None  # the index of its task, where it is one of the spec's array alone
    task_given: bool = False  # by the command line, and not as the array has one task
    limits: bool = True  # whether the site's limits were checked
    notes: tuple[str, ...] = ()  # what the user should hear; no part of the script
    start: Start = Start()
    watch: Watch = Watch()

    @property
    def nodes(self) -> int:
        """How many nodes the job has."""
        return sum(group.nodes for group in self.groups)

    @property
    def processes(self) -> tuple[int, ...]:
        """Processes of each node, in order."""
        return tuple(group.processes for group in self.groups for _ in range(group.nodes))

    @property
    def components(self) -> tuple[NodeGroup, ...]:
        """The groups with those put together that ask the scheduler for the same.

        Where it starts each process itself, srun deals as many to each node of one.
        """
        merged: list[NodeGroup] = []
        for group in self.groups:
            if merged and merged[-1].shape == group.shape and not self.start.deals_evenly:
                nodes, most = merged[-1].nodes + group.nodes, merged[-1].processes
                most = max(most, group.processes)
                merged[-1] = merged[-1]._replace(nodes=nodes, processes=most)
            else:
                merged.append(group)
        return tuple(merged)

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
            if self.fewest_nodes is not None:
                nodes = f"{self.fewest_nodes} to {nodes}"
            processes = "1 process" if group.processes == 1 else f"{group.processes} processes"
            parts.append(f"{nodes} x {processes}")
        return " + ".join(parts)

    @property
    def threads(self) -> int | None:
        """OMP_NUM_THREADS that suits every node; None where the CPUs are known on the node only."""
        if any(group.cpus is None for group in self.groups):
            return None
        return max(1, min((group.cpus or 1) // group.processes for group in self.groups))


def resolve(
    loaded: LoadedSpec,
    *,
    scheduler: str | None = None,
    site: str | None = None,
    limits: bool = True,
    today: str | None = None,
    task: int | None = None,
) -> Plan:
    """Settle `loaded` for a scheduler and site; those given here win over the spec's.

    With `task`, only that task of the spec's array, as a job of its own; UsageError without one.
    `today` (YYYY-MM-DD) is the day by which a site's limits are old; without `limits` they are not
    looked at. Raises SpecError with every conflict found.
    """
    spec = loaded.spec
    site_name = site or spec.site
    scheduler = scheduler or (None if site else spec.scheduler)
    if site_name is None and scheduler is None:
        hint = "write site: NAME or scheduler: slurm, pbs or local; or give --scheduler"
        raise SpecError([loaded.problem("", "says neither site nor scheduler", hint)])
    if site_name is None:
        site_name = "local" if scheduler == "local" else f"{scheduler}-generic"
    elif spec.site is not None and site is None:
        _require_site(loaded, site_name)
    profile = sites.load(site_name)
    if scheduler not in (None, profile.scheduler):
        message = f"{site_name} runs {profile.scheduler}, not {scheduler}"
        raise SpecError([loaded.problem("site", message, f"try --site {scheduler}-generic")])

    local = profile.scheduler == "local"
    chosen = Choice(spec.queue, gpu_type=spec.resources.gpu_type)
    if profile != SiteProfile(profile.scheduler):  # else nothing is known of the site
        from jobgen import choose

        chosen = choose.choose(
            loaded,
            profile,
            lambda node: groups_of(loaded, profile, node),
            limits=limits,
            today=today,
        )
    groups = tuple(groups_of(loaded, profile, chosen.node))
    start = starts.start_of(loaded, profile, groups)
    problems = [*_conflicts(loaded, profile, groups, start), *chosen.problems]
    problems += [*conflicts(loaded, profile), *starts.conflicts(loaded, profile, groups)]
    notes = [*chosen.notes, *starts.notes(profile, start)]
    left_out, request = list[str](), None
    after: tuple[Dependency, ...] = ()
    if spec.requests:
        from jobgen import request as requests

        request = requests.request_of(loaded, profile)
        problems += requests.conflicts(loaded, profile)
        left_out += requests.unknown(loaded, profile)
        notes += requests.notes(request, profile)
    if spec.after is not None:
        from jobgen import dependencies

        after = dependencies.dependencies_of(loaded, profile.scheduler)
        problems += dependencies.conflicts(loaded, profile.scheduler)
    chain = None
    if spec.walltime is not None:
        from jobgen import chain as chains

        chain = chains.chain_of(loaded, profile.scheduler)
        problems += chains.conflicts(loaded, profile.scheduler)
    preflight = None
    if spec.preflight:
        from jobgen.preflight import preflight_of

        preflight = preflight_of(groups, profile.scheduler)
    sweep = None
    if spec.array is not None:
        from jobgen import array as arrays

        sweep = arrays.settle(loaded, task)
        problems += arrays.conflicts(loaded, profile.scheduler, groups, sweep)
    elif task is not None:
        raise UsageError(f"--task {task}: {loaded.file} has no array")
    if problems:
        raise SpecError(problems)
    launch, ranged = spec.launch, spec.resources.nodes
    cpus_given = bool(spec.resources.cpus_per_gpu or spec.resources.cpus_per_node)
    prefix = {"slurm": "#SBATCH", "pbs": "#PBS"}.get(profile.scheduler, "#-")
    plan = Plan(
        name=spec.name,
        scheduler=profile.scheduler,
        site=profile,
        source=os.path.basename(loaded.file),
        digest=loaded.digest,
        groups=groups,
        command=tuple(command_of(loaded)),
        rendezvous="env" if start.direct else launch.rendezvous or "c10d",
        max_restarts=launch.max_restarts or 0,
        fewest_nodes=ranged.min if isinstance(ranged, NodeRange) else None,
        account=None if local else spec.account,
        queue=None if local else chosen.queue,
        walltime=spec.resources.walltime,
        chain=chain,
        preflight=preflight,
        interface=None if local else launch.interface or chosen.interface,
        address=chosen.address,
        script=script_of(loaded),
        environment=settle(loaded, profile, chosen, gpus=any(group.gpus for group in groups)),
        directives=tuple(line for line in spec.directives if line.startswith(prefix + " ")),
        site_given=None if site == spec.site else site,
        overrides=loaded.overrides,
        left_out=(*_left_out(loaded, profile, prefix), *left_out),
        cpus_asked=chosen.node.cpus_rule != "implied" or cpus_given,
        gpu_type=None if local else chosen.gpu_type,
        filesystems=chosen.filesystems,
        site_directives=chosen.directives,
        request=request,
        after=after,
        limits=limits,
        start=start,
        watch=Watch(reaches=not local and sum(group.nodes for group in groups) > 1),
        notes=tuple(notes),
    )
    if sweep is None:
        return plan
    return plan._replace(
        name=sweep.name,
        command=sweep.command,
        environment=plan.environment._replace(
            variables={**plan.environment.variables, **sweep.variables}
        ),
        array=sweep.array,
        task=sweep.task,
        task_given=task is not None,
        left_out=(*plan.left_out, *sweep.left_out),
    )


def _require_site(loaded: LoadedSpec, name: str) -> None:
    if not sites.exists(name):
        raise SpecError([loaded.problem("site", f"no such site {name!r}", sites.unknown())])


def _conflicts(
    loaded: LoadedSpec, site: SiteProfile, groups: tuple[NodeGroup, ...], start: Start
) -> Iterable[Problem]:
    """What this scheduler or site cannot do."""
    resources = loaded.spec.resources
    if resources.cpus_per_gpu is not None and not any(group.gpus for group in groups):
        hint = "write cpus_per_node"
        yield loaded.problem("resources.cpus_per_gpu", "there are no GPUs", hint)
    if isinstance(resources.nodes, NodeRange) and site.scheduler != "slurm":
        who = "PBS gives" if site.scheduler == "pbs" else "this machine has"
        message = f"{who} as many nodes as are asked for, and no range"
        yield loaded.problem("resources.nodes", message, f"write nodes: {resources.nodes.max}")
    if isinstance(resources.nodes, NodeRange) and resources.nodes.min > resources.nodes.max:
        yield loaded.problem("resources.nodes.max", f"is less than min, {resources.nodes.min}")
    unequal = len({group.shape for group in groups}) > 1
    split = unequal or (start.deals_evenly and len(groups) > 1)
    if unequal and site.scheduler == "pbs" and site.pbs.resources == "totals":
        message = "this site takes totals of the whole job, so all nodes must be alike"
        yield loaded.problem("resources.gpus_per_node", message)
    if split and site.scheduler == "slurm" and any(group.cpus is None for group in groups):
        given = resources.cpus_per_gpu is not None  # and a node without GPUs gets none by it
        hint = "add cpus_per_node" if given else "add cpus_per_gpu or cpus_per_node"
        message = "unequal nodes on Slurm are parts of a job, each with its own CPUs"
        path = "resources.gpus_per_node" if unequal else "launch.processes_per_node"
        yield loaded.problem(path, message, hint)


def _left_out(loaded: LoadedSpec, site: SiteProfile, prefix: str) -> Iterator[str]:
    spec, local = loaded.spec, site.scheduler == "local"
    if spec.resources.gpu_type is not None and (
        local or (site.scheduler == "pbs" and site.pbs.gpu_type is None)
    ):
        yield "resources.gpu_type"
    if spec.filesystems is not None and site.filesystems is None:
        yield "filesystems"
    if local:
        yield from (key for key in ("account", "queue") if getattr(spec, key) is not None)
        for key in ("cpus_per_gpu", "cpus_per_node", "memory_per_node"):
            if getattr(spec.resources, key) is not None:
                yield f"resources.{key}"
        if spec.environment.modules:
            yield "environment.modules"
        if spec.launch.interface:
            yield "launch.interface"
        if spec.walltime is not None and spec.walltime.then not in (None, "stop"):
            yield "walltime.then"
        if spec.launch.launcher not in (None, "auto", "local"):
            yield "launch.launcher"
    if any(not line.startswith(prefix + " ") for line in spec.directives):
        yield "directives of another scheduler"
