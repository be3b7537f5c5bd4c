"""Roles: several programs in one job, each read as the spec of a job on a part of its nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from jobgen.records import NamedTuple
from jobgen.spec.commands import Conflict, is_shell_command
from jobgen.spec.fields import ShellPath
from jobgen.spec.model import ONE_A_NODE, Environment, JobSpec, NodeRange, Role, Run
from jobgen.spec.value_types import is_taken

# What of a job's launch is for all that it starts; the rest is each role's own.
_SHARED = ("launcher", "interface")
# Each role has some ports of its own; so many roles fit into the ports of a job.
MOST = 10
# At most one of them sets up Python.
_PYTHONS = ("venv", "uv", "conda", "stage")


class Spot(NamedTuple):
    """Where a role runs: nodes in a row, and with `gpus` a part of each, from `first_gpu` on.

    Roles beside it have the rest of `among` parts of the CPUs; 0 where it has the nodes alone.
    """

    first: int
    nodes: int
    first_gpu: int = 0
    gpus: int | None = None
    among: int = 0

    def share(self, cpus: int) -> int:
        """Return how many CPUs of a node are its own; a role without GPUs has one part."""
        return max(1, cpus * (self.gpus or 1) // self.among) if self.among else cpus


def list_names(spec: JobSpec) -> tuple[str, ...]:
    """Return the variables by which the roles know each other."""
    kinds = ("ADDR", "PORT", "HOSTS")
    return tuple(f"{name.upper()}_{kind}" for name in spec.roles or () for kind in kinds)


def deal_nodes(spec: JobSpec) -> tuple[dict[str, Spot], list[Conflict]]:
    """Return where each role runs, and what does not add up."""
    roles, given = spec.roles or {}, spec.resources.gpus_per_node
    most = max(given) if isinstance(given, tuple) else given or 0
    blocks = _group_by_nodes(roles, most)
    counts = [max(role.nodes or 0 for role in block.values()) for block in blocks]
    conflicts = list(_fill_counts(counts, spec.resources.nodes))
    places: dict[str, Spot] = {}
    first = 0
    for block, count in zip(blocks, counts, strict=True):
        places |= _place(block, first, count)
        gpus = sum(role.gpus or 0 for role in block.values())
        if gpus > most:
            message = f"has {gpus} GPUs of each node, and a node has {most}"
            conflicts.append((f"roles.{[*block][-1]}.gpus", message, ""))
        first += count
    return places, conflicts


def _place(block: dict[str, Role], first: int, count: int) -> Iterator[tuple[str, Spot]]:
    """Yield where roles that share `count` nodes run: each on the first ones, on its GPUs."""
    among = sum(role.gpus or 1 for role in block.values()) if len(block) > 1 else 0
    gpu = 0
    for name, role in block.items():
        yield name, Spot(first, role.nodes or count, gpu, role.gpus, among)
        gpu += role.gpus or 0


def _fill_counts(counts: list[int], wanted: int | NodeRange | None) -> Iterator[Conflict]:
    """Give the block that says no number the nodes that are left; yield what does not add up.

    Every block has a node then.
    """
    known, free = sum(counts), counts.count(0)
    total = wanted if isinstance(wanted, int) else known + free
    if free == 1 and total > known:
        counts[counts.index(0)] = total - known
    elif free or known != total:
        kinds = f"{free} of them say no number" if free else f"have {known}"
        message = f"need {known + free}" if free == 1 else kinds
        hint = "the nodes of the roles add up to resources.nodes; one role may leave nodes out"
        yield "roles", f"{message}, and resources.nodes says {total}", hint
    counts[:] = [count or 1 for count in counts]


def _group_by_nodes(roles: dict[str, Role], most: int) -> list[dict[str, Role]]:
    """Return the roles that share nodes, until their `most` GPUs are dealt, each by its name."""
    blocks: list[dict[str, Role]] = []
    left: int | None = None
    for name, role in roles.items():
        if left is None or role.gpus is None or role.gpus > left:
            blocks.append({})
            left = most
        blocks[-1][name] = role
        left = None if role.gpus is None else left - role.gpus
    return blocks


def find_conflicts(spec: JobSpec) -> Iterator[Conflict]:
    """Yield what is wrong with the roles, and with what stands beside them."""
    if spec.roles is None:
        return
    if not spec.roles:
        yield "roles", "is empty", "name a role, or write run"
        return
    yield from _check_job(spec, spec.roles)
    earlier: list[str] = []
    for name, role in spec.roles.items():
        if role.notice and spec.on_walltime is None:
            path = f"roles.{name}.notice"
            yield path, "needs on_walltime, which the spec does not have", "add on_walltime"
        yield from _check_role(name, role, earlier)
        earlier.append(name)
        for key, message, hint in make_spec(spec, name, Spot(0, 1)).conflicts():
            yield find_path(name, key, role), message, hint
    yield from deal_nodes(spec)[1]


def _check_job(spec: JobSpec, roles: dict[str, Role]) -> Iterator[Conflict]:
    if spec.array:
        message = "varies the arguments of one program, and roles are several programs"
        yield "array", message, "write a script that submits the spec with --set for each"
    for key, value in spec.launch._asdict().items():
        if value is not None and key not in _SHARED:
            yield f"launch.{key}", "is each role's own", f"write it as roles.NAME.launch.{key}"
    if isinstance(spec.resources.nodes, NodeRange):
        message = "is a range, and the nodes of the roles add up to one number"
        yield "resources.nodes", message, "write how many"
    if isinstance(spec.resources.gpus_per_node, tuple):
        message = "is a list, and the nodes of a job with roles are alike"
        yield "resources.gpus_per_node", message, "give one number for all"
    if len(roles) > MOST:
        yield "roles", f"are {len(roles)}, and at most {MOST} have ports", ""
    modes = [make_spec(spec, name, Spot(0, 1)).launch.mode for name in roles]
    if spec.preflight and all(mode in ONE_A_NODE for mode in modes):
        message = "compares what torch sees on the nodes, and no role is started by torchrun"
        yield "preflight", message, "leave it out"


def _check_role(name: str, role: Role, earlier: list[str]) -> Iterator[Conflict]:
    """Yield what a role may not say, though a job may, and what it waits for in vain."""
    path = f"roles.{name}"
    if is_taken(f"{name.upper()}_ADDR") or name.upper() in ("SLURM", "PBS"):
        message = f"{name.upper()}_ADDR would not arrive: others set it"
        yield path, message, "choose another name for the role"
    if role.run.body is not None:
        message = "starts its own programs on all nodes of the job"
        yield f"{path}.run.body", message, "write the script as command: [bash, SCRIPT]"
    for key in _SHARED:
        if getattr(role.launch, key) is not None:
            yield f"{path}.launch.{key}", "is the job's", f"write launch.{key} beside roles"
    if role.environment.from_shell:
        message = "is the job's, for all roles alike"
        yield f"{path}.environment.from_shell", message, "write it in environment beside roles"
    for other in role.after or ():
        if other not in earlier:
            message = f"{other!r} is not a role above this one"
            yield f"{path}.after", message, f"there are {', '.join(earlier) or 'none'}"


def make_spec(spec: JobSpec, name: str, place: Spot) -> JobSpec:
    """Return what a role is as a job of its own on its nodes."""
    assert spec.roles
    role = spec.roles[name]
    launch = role.launch._replace(**{key: getattr(spec.launch, key) for key in _SHARED})
    if launch.mode is None and role.run.command is not None:
        launch = launch._replace(mode="plain")
    if launch.processes_per_node is None and place.gpus and launch.mode not in ONE_A_NODE:
        launch = launch._replace(processes_per_node=place.gpus)
    names = list_names(spec)
    environment = _add(spec.environment, role.environment)
    variables = _expand(environment.variables, names)
    return spec._replace(
        run=_expand_run(role.run, names),
        roles=None,
        launch=launch,
        preflight=None if launch.mode in ONE_A_NODE else spec.preflight,
        environment=environment._replace(variables=variables),
        resources=spec.resources._replace(nodes=place.nodes),
        after=None,
        directives=(),
    )


def _expand_run(run: Run, names: tuple[str, ...]) -> Run:
    """Return a program whose words expand, but those that a shell reads."""
    if not is_shell_command(run.words):
        run = run._replace(command=_expand(run.command, names), args=_expand(run.args, names))
    elif isinstance(run.args, dict):
        run = run._replace(args=_expand(run.args, names))
    return run


def _expand(value: Any, names: tuple[str, ...]) -> Any:
    """Return the same value, whose texts expand in the job if they hold a $NAME of `names`."""
    if isinstance(value, dict):
        return {key: _expand(inner, names) for key, inner in value.items()}
    if isinstance(value, tuple):
        return tuple(_expand(inner, names) for inner in value)
    held = re.findall(r"\$\{?(\w+)", value) if isinstance(value, str) else ()
    return ShellPath(value) if {*held} & {*names} else value


def _add(job: Environment, role: Environment) -> Environment:
    """Return a role's environment: its own values over the job's, whose variables stay."""
    own = {key: value for key, value in role._asdict().items() if value is not None}
    if own.keys() & {*_PYTHONS}:
        job = job._replace(**dict.fromkeys(_PYTHONS))
    if job.variables and role.variables:
        own["variables"] = {**job.variables, **role.variables}
    if job.setup and role.setup:
        own["setup"] = f"{job.setup.rstrip()}\n{role.setup}"
    return job._replace(**own)


def find_path(name: str, path: str, role: Role) -> str:
    """Return where the key of a role's own spec is written: with the role, or with the job."""
    head, key = re.split(r"[.\[]", f"{path}.")[:2]
    own = {
        "run": True,
        "launch": key not in _SHARED,
        "environment": getattr(role.environment, key, None) is not None,
    }
    return f"roles.{name}.{path}" if own.get(head) else path
