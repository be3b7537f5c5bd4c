"""Roles: several programs of a job, each decided as that of a job on its own nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from jobgen.errors import Problem
from jobgen.plan import environment, launch, nodes, program
from jobgen.plan.decision import Context, Decision, Parts, decide_parts
from jobgen.plan.left_out import leave_out
from jobgen.plan.plan import Plan, RolePlan, RolePlans, ShellPath
from jobgen.spec.model import Ready, Role

WITHIN = 600  # seconds that a role may take until it is ready
PORTS = 4  # of each role; it uses two: its own, and the one where its processes meet
# The parts of a plan that each role has of its own.
_PARTS: Parts = {
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
    problems: list[Problem] = []
    notes: list[str] = []
    for loaded in context.loaded.programs():
        own = context._replace(loaded=leave_out(loaded, plan.left_out))
        part = decide_parts(own, plan, _PARTS)
        members.append(_describe(context, asked, loaded.role, part.value))
        problems += part.problems
        notes += part.notes
    by_mpiexec = [role for role in members if role.plan.launch.launcher == "mpiexec"]
    problems += context.refuse({"roles_mpiexec": by_mpiexec})  # which starts one program alone
    decided = RolePlans(tuple(members), tuple(_order(asked, members)))
    return Decision(decided, problems=problems, notes=notes)


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
        # The script looks for it; only the role's own processes have JOBGEN_RUN_DIR.
        own = re.sub(
            r"\$(JOBGEN_RUN_DIR\b|\{JOBGEN_RUN_DIR\})", f"$run_dir/roles/{name}", ready.file
        )
        return "file", ShellPath(own)
    return () if ready.log is None else ("log", ready.log)


def _order(asked: Mapping[str, Role], members: list[RolePlan]) -> Iterator[tuple[bool, RolePlan]]:
    """Yield what the script does: a role starts once those that it comes after are ready."""
    left = {role.name: role for role in members}
    waited: dict[str, RolePlan] = {}  # of those that are started: whose test is to be waited for
    ready: set[str] = set()
    while left or waited:
        for name, role in [*left.items()]:
            if ready.issuperset(list_needed(asked, name)):
                yield False, left.pop(name)
                ready |= set() if role.test else {name}
                waited |= {name: role} if role.test else {}
        for name in [*waited][:1]:
            ready.add(name)
            yield True, waited.pop(name)


def list_needed(asked: Mapping[str, Role], name: str) -> tuple[str, ...]:
    """Return the roles that one comes after: all above it, unless it says which."""
    names, after = (*asked,), asked[name].after
    return names[: names.index(name)] if after is None else after
