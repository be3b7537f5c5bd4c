"""Roles: several programs of a job, each decided as that of a job on its own nodes."""

from __future__ import annotations

from collections.abc import Iterator

from jobgen.errors import Problem
from jobgen.plan import environment, launch, nodes, program
from jobgen.plan.decision import Context, Decision
from jobgen.plan.plan import Plan, Preflight, RolePlan, RolePlans, ShellPath
from jobgen.spec import roles
from jobgen.spec.model import Ready

WITHIN = 600  # seconds that a role may take until it is ready
PORTS = 4  # of each role: its own, that of torchrun's rendezvous, and two of Ray's


def decide(context: Context, plan: Plan) -> Decision[RolePlans | None]:
    """Decide each role by itself, and the order in which they start."""
    spec = context.spec
    if not spec.roles:
        return Decision(None)
    members: list[RolePlan] = []
    problems: list[Problem] = []
    notes: list[str] = []
    left_out: list[str] = []
    places, _ = roles.deal_nodes(spec)
    for loaded in context.loaded.programs():
        place, own = places[loaded.role], context._replace(loaded=loaded)
        around = nodes.decide(own, plan)
        checked = around.value.preflight
        if checked and place.gpus is not None and context.site.can.batch:
            checked = Preflight((place.gpus,))
        own_nodes = around.value._replace(place=place, preflight=checked)
        part = plan._replace(nodes=own_nodes, roles=None)
        runs = program.decide(own, part)
        part = part._replace(program=runs.value)
        start = launch.decide(own, part)
        part = part._replace(launch=start.value)
        setup = environment.decide(own, part)
        part = part._replace(environment=setup.value)
        decisions: tuple[Decision[object], ...] = (around, runs, start, setup)
        problems += [problem for one in decisions for problem in one.problems]
        notes += [note for one in decisions for note in one.notes]
        left_out += [key for one in decisions for key in one.left_out]
        asked = spec.roles[loaded.role]
        test = tuple(_name_test(asked.ready)) if asked.ready else ()
        within = (asked.ready.within if asked.ready else None) or WITHIN
        hears = asked.notice if asked.notice is not None else loaded.role == [*places][-1]
        notice = hears and spec.on_walltime is not None
        alone = asked.ends == "alone"
        members.append(RolePlan(loaded.role, part, place, test, within, alone, notice))
    problems += _find_conflicts(context, members)
    decided = RolePlans(tuple(members), tuple(_order(context, members)))
    return Decision(decided, problems=problems, notes=notes, left_out=left_out)


def _name_test(ready: Ready) -> Iterator[str]:
    """Yield what is asked: the kind of a test, and what it looks for."""
    for kind, what in ready._replace(within=None)._asdict().items():
        if what is not None:
            yield kind
            if what is not True:
                yield ShellPath(what) if kind == "file" else what


def _order(context: Context, members: list[RolePlan]) -> Iterator[tuple[bool, RolePlan]]:
    """Yield what the script does: a role starts once those that it comes after are ready."""
    asked = context.spec.roles or {}
    waiting, ready = list(members), set[str]()
    while waiting:
        for role in list(waiting):
            names = [member.name for member in members]
            after = asked[role.name].after
            needed = set(names[: names.index(role.name)] if after is None else after)
            if needed <= ready:
                waiting.remove(role)
                yield False, role
                if not role.test:
                    ready.add(role.name)
        started = [role for role in members if role not in waiting and role.name not in ready]
        if started:
            ready.add(started[0].name)
            yield True, started[0]
    for role in members:
        if role.name not in ready:
            yield True, role


def _find_conflicts(context: Context, members: list[RolePlan]) -> Iterator[Problem]:
    """Yield what the site cannot do for several programs in one job."""
    launchers = {role.plan.launch.launcher for role in members}
    if "mpiexec" in launchers:
        own = context.site.can.launcher
        message = f"this site starts programs by mpiexec, and roles start by {own}"
        hint = f"write launch: {{launcher: {own}}} if the site has it"
        yield context.loaded.problem("roles", message, hint)
