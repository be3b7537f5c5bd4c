"""Roles: several programs in one job, each read as the spec of a job on a part of its nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from jobgen.records import NamedTuple
from jobgen.spec.commands import is_shell_command
from jobgen.spec.fields import ShellPath
from jobgen.spec.model import ONE_A_NODE, PYTHONS, Environment, JobSpec, NodeRange, Role
from jobgen.spec.tables import Conflict, refuse
from jobgen.spec.value_types import is_taken

# What of a job's launch is for all that it starts; the rest is each role's own.
_SHARED = ("launcher", "interface")
# Each role has some ports of its own; so many roles fit into the ports of a job.
MOST = 10


class Spot(NamedTuple):
    """Where a role runs: nodes in a row, and with `gpus` a part of each, from `first_gpu` on.

    Roles beside it have the rest of `among` parts of the CPUs; 0 where it has the nodes alone.
    `idle` is how many GPUs of each node none of them has, if it is the last of them.
    """

    first: int
    nodes: int
    first_gpu: int = 0
    gpus: int | None = None
    among: int = 0
    idle: int = 0

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
    most = given if isinstance(given, int) else max(spec.resources.listed_gpus, default=0)
    blocks = _group_by_nodes(roles, most)
    counts = [max(role.nodes or 0 for role in block.values()) for block in blocks]
    gpus = sum(role.gpus or 0 for role in roles.values() if not role.nodes)
    conflicts = list(_fill_counts(counts, spec.resources.nodes, gpus=gpus, most=most))
    places: dict[str, Spot] = {}
    first = 0
    for block, count in zip(blocks, counts, strict=True):
        places |= _place(block, first, count)
        gpus = sum(role.gpus or 0 for role in block.values())
        last = [*block][-1]
        if block[last].gpus is not None:
            places[last] = places[last]._replace(idle=max(0, most - gpus))
        conflicts += refuse({"role_gpus": gpus > most}, name=last, gpus=gpus, most=most)
        first += count
    return places, conflicts


def _place(block: dict[str, Role], first: int, count: int) -> Iterator[tuple[str, Spot]]:
    """Yield where roles that share `count` nodes run: each on the first ones, on its GPUs."""
    among = sum(role.gpus or 1 for role in block.values()) if len(block) > 1 else 0
    gpu = 0
    for name, role in block.items():
        yield name, Spot(first, role.nodes or count, gpu, role.gpus, among)
        gpu += role.gpus or 0


def _fill_counts(
    counts: list[int], wanted: int | NodeRange | None, *, gpus: int, most: int
) -> Iterator[Conflict]:
    """Give the block that says no number the nodes that are left; yield what does not add up.

    Every block has a node then. `gpus` are those that roles want which say no nodes.
    """
    known, free = sum(counts), counts.count(0)
    total = wanted if isinstance(wanted, int) else known + free
    if free == 1 and total > known:
        counts[counts.index(0)] = total - known
    else:
        sums = {
            "roles_need": free == 1,
            "roles_crowd" if gpus > most else "roles_unsaid": free > 1,
            "roles_have": not free and known != total,
        }
        facts = {"gpus": gpus, "most": most, "known": known, "needed": known + free}
        yield from refuse(sums, free=free, total=total, **facts)
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
    if not spec.roles:
        yield from refuse({"no_roles": spec.roles is not None})
        return
    yield from _check_job(spec, spec.roles)
    for index, (name, role) in enumerate(spec.roles.items()):
        rules = {
            "role_notice": role.notice and spec.on_walltime is None,
            "role_file": bool(spec.snapshot) and _find_file(role)[:1] not in "/$~",
        }
        yield from refuse(rules, name=name, file=_find_file(role))
        yield from _check_role(name, role, [*spec.roles], index)
        for key, message, hint in make_spec(spec, name, Spot(0, 1)).conflicts():
            yield find_path(name, key, role), message, hint
    yield from deal_nodes(spec)[1]


def _find_file(role: Role) -> str:
    """Return the file that shows that a role is ready; empty if something else does."""
    return (role.ready and role.ready.file) or ""


def _check_job(spec: JobSpec, roles: dict[str, Role]) -> Iterator[Conflict]:
    for key in spec.launch._fields:
        own = key not in _SHARED and getattr(spec.launch, key) is not None
        yield from refuse({"role_launch": own}, key=key)
    modes = {make_spec(spec, name, Spot(0, 1)).launch.mode for name in roles}
    taken = spec.environment.named_variables.keys() & list_names(spec)
    rules = {
        "role_variable": bool(taken),
        "roles_array": spec.array,
        "roles_range": isinstance(spec.resources.nodes, NodeRange),
        "roles_list": spec.resources.listed_gpus,
        "many_roles": len(roles) > MOST,
        "roles_preflight": spec.preflight and modes <= {*ONE_A_NODE},
    }
    yield from refuse(rules, number=len(roles), most=MOST, name=min(taken, default=""))


def _check_role(name: str, role: Role, roles: list[str], index: int) -> Iterator[Conflict]:
    """Yield what a role may not say, though a job may, and what it waits for in vain."""
    rules = {
        "role_name": is_taken(f"{name.upper()}_ADDR") or name.upper() in ("SLURM", "PBS"),
        "role_ends": role.ends == "alone" and name == roles[-1],
        "role_body": role.run.body is not None,
        "role_launcher": role.launch.launcher is not None,
        "role_interface": role.launch.interface is not None,
        "role_from_shell": role.environment.from_shell,
    }
    yield from refuse(rules, name=name, variable=f"{name.upper()}_ADDR")
    for other in role.after or ():
        later = other in roles[index + 1 :]
        rules = {"role_later": later, "role_after": not later and other not in roles[:index]}
        known = ", ".join(roles[:index]) or "none"
        yield from refuse(rules, name=name, other=other, known=known)


def make_spec(spec: JobSpec, name: str, place: Spot) -> JobSpec:
    """Return what a role is as a job of its own on its nodes."""
    assert spec.roles
    role = spec.roles[name]
    launch = role.launch._replace(**{key: getattr(spec.launch, key) for key in _SHARED})
    if launch.mode is None and role.run.command is not None:
        launch = launch._replace(mode="plain")
    if launch.processes_per_node is None and place.gpus and launch.mode not in ONE_A_NODE:
        launch = launch._replace(processes_per_node=place.gpus)
    resources, names = spec.resources._replace(nodes=place.nodes), list_names(spec)
    if most := max(resources.listed_gpus, default=0):  # the list is refused once, of the job
        resources = resources._replace(gpus_per_node=most)
    environment = _add(spec.environment, role.environment)
    variables = _expand(environment.variables, names)
    run = role.run
    if not is_shell_command(run.words):  # a shell expands its words itself
        run = run._replace(command=_expand(run.command, names), args=_expand(run.args, names))
    elif run.keyed_args:
        run = run._replace(args=_expand(run.args, names))
    return spec._replace(
        run=run,
        roles=None,
        launch=launch,
        preflight=None if launch.mode in ONE_A_NODE else spec.preflight,
        environment=environment._replace(variables=variables),
        resources=resources,
        after=None,
        directives=(),
    )


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
    if own.keys() & {*PYTHONS}:
        job = job._replace(**dict.fromkeys(PYTHONS))
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
        "ready": True,
        "launch": key not in _SHARED,
        "environment": getattr(role.environment, key, None) is not None,
    }
    return f"roles.{name}.{path}" if own.get(head) else path
