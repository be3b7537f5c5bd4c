"""Roles: several programs of a job, each decided as that of a job on its own nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jobgen.plan import environment, launch, nodes, program
from jobgen.plan.decision import Context, Decision
from jobgen.plan.plan import Plan, RolePlan, RolePlans, ShellPath
from jobgen.spec.model import Ready, Role

WITHIN = 600  # seconds that a role may take until it is ready
PORTS = 4  # of each role; it uses two: its own, and the one where its processes meet
# The parts of a plan that each role has of its own.
_PARTS = {
    "nodes": nodes.decide,
    "program": program.decide,
    "launch": launch.decide,
    "environment": environment.decide,
}


def decide(context: Context, plan: Plan) -> Decision[RolePlans]:
    """Decide each role by itself, and the order in which they start."""
    asked = context.spec.roles
    if not asked:
        return Decision(RolePlans())
    members: list[RolePlan] = []
    decisions: list[Decision[Any]] = []
    for loaded in context.loaded.programs():
        part, own = plan, context._replace(loaded=loaded)
        for key, decide_part in _PARTS.items():
            decisions.append(decide_part(own, part))
            part = part._replace(**{key: decisions[-1].value})
        members.append(_describe(context, asked, loaded.role, part))
    by_mpiexec = [role for role in members if role.plan.launch.launcher == "mpiexec"]
    refused = context.refuse({"roles_mpiexec": by_mpiexec})  # which starts one program alone
    decisions.append(Decision(None, problems=refused))
    return Decision(
        RolePlans(tuple(members), tuple(_order(asked, members))),
        problems=[problem for one in decisions for problem in one.problems],
        notes=[note for one in decisions for note in one.notes],
    )


def _describe(context: Context, asked: Mapping[str, Role], name: str, plan: Plan) -> RolePlan:
    role, ready = asked[name], asked[name].ready or Ready()
    notice = name == [*asked][-1] if role.notice is None else role.notice
    return RolePlan(
        name=name,
        plan=plan,
        test=_name_test(name, ready),
        within=ready.within or WITHIN,
        alone=role.ends == "alone",
        notice=notice and context.spec.on_walltime is not None,
    )


def _name_test(name: str, ready: Ready) -> tuple[str, ...]:
    address = ShellPath(f"${name.upper()}_ADDR:${name.upper()}_PORT")
    if ready.http is not None:
        return "http", address, ready.http
    if ready.tcp:
        return "tcp", address
    if ready.file is not None:
        return "file", ShellPath(ready.file)
    return () if ready.log is None else ("log", ready.log)


def _order(asked: Mapping[str, Role], members: list[RolePlan]) -> Iterator[tuple[bool, RolePlan]]:
    """Yield what the script does: a role starts once those that it comes after are ready."""
    started, ready = list[RolePlan](), list[str]()
    while len(started) < len(members):
        for index, role in enumerate(members):
            after = asked[role.name].after
            needed = [one.name for one in members[:index]] if after is None else after
            if role not in started and {*needed} <= {*ready}:
                started.append(role)
                yield False, role
                ready += [] if role.test else [role.name]
        for role in [one for one in started if one.name not in ready][:1]:
            ready.append(role.name)
            yield True, role
    yield from ((True, role) for role in started if role.name not in ready)
