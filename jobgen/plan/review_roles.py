"""What the roles of a job say of each other that can hardly be meant: addresses, ports, waiting."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from jobgen.errors import Problem
from jobgen.plan.plan import Plan, RolePlan
from jobgen.plan.program import read_sources
from jobgen.spec.load import LoadedSpec
from jobgen.spec.model import Ready
from jobgen.spec.roles import list_names

Fault = tuple[str, str, str]  # a path in the spec, what is wrong there, and what to write


def review_roles(loaded: LoadedSpec, plan: Plan) -> Iterator[Problem]:
    """Yield what roles can hardly mean; nothing for a job without roles."""
    members = plan.roles.members if plan.roles else ()
    for rule in (_check_asked, _check_addresses, _check_known, _check_listening, _check_ready):
        for member in members:
            for fault in rule(loaded, member, members):
                yield loaded.problem(*fault)


def _read_text(member: RolePlan) -> str:
    """Return the command and the setup of a role."""
    return f"{' '.join(member.plan.program.command)} {member.plan.environment.setup or ''}"


def _asks(member: RolePlan, other: RolePlan) -> bool:
    """Return whether a role names the address or the port of another."""
    return bool(re.search(rf"\$\{{?{other.name.upper()}_(ADDR|PORT)", _read_text(member)))


def _check_asked(
    loaded: LoadedSpec, member: RolePlan, members: tuple[RolePlan, ...]
) -> Iterator[Fault]:
    """Yield the roles that one asks before they are ready, and whether others so ask it."""
    path, after = f"roles.{member.name}.run", (loaded.spec.roles or {})[member.name].after
    awaited = [one.name for one in members[: members.index(member)]] if after is None else after
    for other in members:
        asked = other is not member and _asks(member, other)
        if asked and other.test and other.name not in awaited:
            message = f"asks {other.name}, and does not wait until it is ready"
            yield path, message, f"put {other.name} before it, and leave after out"
    if not member.test and any(_asks(one, member) for one in members if one is not member):
        message = "is asked by another role, which does not wait until it listens"
        hint = f"write roles.{member.name}.ready: {{tcp: true}}, or {{http: PATH}}"
        yield path, message, hint


def _check_addresses(
    loaded: LoadedSpec, member: RolePlan, members: tuple[RolePlan, ...]
) -> Iterator[Fault]:
    """Yield addresses at which no role listens."""
    path, text = f"roles.{member.name}.run", _read_text(member)
    for name in re.findall(r"(?:localhost|127\.0\.0\.1):\$\{?(\w+)_PORT", text):
        if name != member.name.upper() and loaded.spec.resources.nodes != 1:
            message = f"asks {name.lower()} at its own node, and that role has other nodes"
            yield path, message, f"write ${name}_ADDR:${name}_PORT"
    commands = [" ".join(one.plan.program.command) for one in members]
    for name, port in re.findall(r"\$\{?(\w+)_ADDR\}?:(\d+)", text):
        if any(f"${name}_PORT" in command for command in commands):
            message = f"asks ${name}_ADDR at port {port}, and it listens at ${name}_PORT"
            yield path, message, f"write ${name}_ADDR:${name}_PORT"


def _check_known(
    loaded: LoadedSpec, member: RolePlan, members: tuple[RolePlan, ...]
) -> Iterator[Fault]:
    """Yield variables for the addresses of roles that nothing sets."""
    path, text = f"roles.{member.name}.run", _read_text(member)
    known = {*list_names(loaded.spec), *os.environ, "MASTER_ADDR", "MASTER_PORT"}
    known |= {*member.plan.environment.variables, *re.findall(r"(\w+)=", text)}
    names = sorted(one.name.upper() for one in members)
    have = ", ".join(f"${name}_ADDR, ${name}_PORT" for name in names)
    for name in re.findall(r"\$\{?([A-Z]\w*?_(?:ADDR|PORT|HOST|URL|NODE|IP)\w*)", text):
        if name not in known:
            yield path, f"nothing sets ${name}", f"the roles have {have}"


def _check_listening(
    loaded: LoadedSpec, member: RolePlan, members: tuple[RolePlan, ...]
) -> Iterator[Fault]:
    """Yield where a server listens in vain, and one whose end would be the job's."""
    path, text = f"roles.{member.name}.run", _read_text(member)
    own = f"{member.name.upper()}_PORT"
    serves = f"${own}" in text
    near = re.search(r"--(?:host|bind|address)[= ](127\.0\.0\.1|localhost)\b", text)
    if serves and near and loaded.spec.resources.nodes != 1:
        message = f"listens at {near[1]}, which the other roles' nodes cannot reach"
        yield path, message, "write 0.0.0.0"
    if serves and member is members[-1]:
        message = "serves, and its end would be the job's, as it stands last"
        yield path, message, "put the role that is to end the job last"
    if member.test[:1] not in (("http",), ("tcp",)):
        return
    if port := re.search(r"--port[= ](\d+)\b", text):
        yield path, f"listens at port {port[1]}, and ready asks at ${own}", f"write --port ${own}"
        return
    source = read_sources(member.plan)
    if source is not None and own not in source:
        message = f"takes its port from elsewhere, and ready asks at ${own}"
        yield path, message, f"let it listen at ${own}"


def _check_ready(
    loaded: LoadedSpec, member: RolePlan, members: tuple[RolePlan, ...]
) -> Iterator[Fault]:
    """Yield a wait as long as the job, and a path that the program does not answer."""
    path = f"roles.{member.name}.ready"
    ready = (loaded.spec.roles or {})[member.name].ready or Ready()
    limit = loaded.spec.resources.walltime
    if ready.within and limit and ready.within >= limit:
        message = "may take as long as the whole job to be ready, or longer"
        hint = "write a longer resources.walltime, or a shorter within"
        yield f"{path}.within", message, hint
    source, asked = read_sources(member.plan) or "", ready.http or ""
    routes = re.findall(r"""[=(,] *["'](/[\w/-]*)["']""", source)
    if routes and asked.partition("?")[0] not in source:
        message = f"asks {asked}, and its program answers {', '.join(routes[:4])} alone"
        yield f"{path}.http", message, f"write ready: {{http: {routes[0]}}}"
