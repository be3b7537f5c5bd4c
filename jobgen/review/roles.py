"""What the roles of a job are to each other."""

from __future__ import annotations

import os
import re
from typing import Any

from jobgen.plan.plan import RolePlan
from jobgen.plan.program import read_sources
from jobgen.review.subject import Found, Subject
from jobgen.spec.roles import list_names
from jobgen.spec.table import read_here

# What serves until it is stopped: by its command, and in a program that is not beside it.
_SERVERS = re.compile(
    r"(^|[ /])((vllm|sglang|ollama|transformers|trl vllm|trtllm|mlflow)[ -](serve|server)"
    r"|(llama|redis|etcd)-server|text-generation-launcher|uvicorn|gunicorn|tensorboard"
    r"|jupyter[- ](lab|notebook|server)|-m \S*\b(api_server|launch_server|http\.server))"
    r"(?![^ ])[^;&|\n]*$"
)
_SERVES = re.compile(
    r"(serve_forever|uvicorn\.run|run_app|\bapp\.run|run_forever|wait_for_termination)\("
)
_BESIDE = re.compile(r"Thread\(|Process\(|Popen\(|Executor\(|create_task\(")


def describe_role(job: Subject) -> dict[str, Any]:
    """Return what a role is to the others of its job: numbers, and what is true of it."""
    role = job.role
    if role is None:
        return {}
    servers = [one.name.upper() for one in job.roles if _serves(one)]
    source, port, text = read_sources(role.plan), f"{role.name.upper()}_PORT", read_text(role)
    tested = role.test[:1] in (("http",), ("tcp",))
    others = [read_text(one) for one in job.roles if one is not role]
    # A port that its command names is for another row to say.
    named = re.search(r"--port[= ]\d+\b", text)
    return {
        "role": role.name,
        "port": port,
        "last": role is job.roles[-1],
        "tested": tested,
        "listens": tested or _stays(role, source or ""),
        "left_idle": getattr(role.plan.nodes.place, "idle", 0),
        **_compare_files(job, role),
        # It is done once its file is there, and nothing says that it may be.
        "filed": (*role.test[:1], role.alone, role is job.roles[-1]) == ("file", False, False),
        "met": tested or port in " ".join(others),
        "fixed": role.test[:1] == ("file",) and "$" not in role.test[1],
        "asked": not role.test and any(_asks(one, role) for one in job.roles),
        # The role that it asks, unless it is asked itself.
        "asks": "" if _serves(role) else "".join(servers[:1]),
        "elsewhere": source is not None and not named and port not in source,
    }


def _compare_files(job: Subject, role: RolePlan) -> dict[str, Any]:
    """Return the role above it, and its file if that, and not this role, is of a base."""
    above = job.roles[job.roles.index(role) - 1]
    file, own = (job.loaded.positions[f"roles.{one.name}.run"].file for one in (above, role))
    known = file == own or re.search(rf"(?m)(?:^ *|[{{,] *){role.name} *:", read_here(file))
    waited = above.alone or above.test or _serves(above)
    return {"above": above.name, "waited": waited, "base": "" if known else file}


def read_text(role: RolePlan) -> str:
    """Return the command and the setup of a role."""
    return f"{' '.join(role.plan.program.command)} {role.plan.environment.setup or ''}"


def _serves(role: RolePlan) -> bool:
    """Whether a role listens at a port, or starts something that may."""
    text = read_text(role)
    return bool(re.search(rf"\$\{{?{role.name.upper()}_PORT|--port\b|&\s", text))


def _stays(role: RolePlan, source: str) -> bool:
    """Whether a role is known to serve until it is stopped; a port's mention does not show it."""
    if _SERVERS.search(" ".join(role.plan.program.command)):
        return True
    return _SERVES.search(source) is not None and not _BESIDE.search(source)


def _asks(role: RolePlan, other: RolePlan) -> bool:
    """Return whether a role names the address or the port of another."""
    asked = re.search(rf"\$\{{?{other.name.upper()}_(ADDR|PORT)", read_text(role))
    return role is not other and asked is not None


def check_addresses(job: Subject) -> Found:
    """Yield variables of a role's words that look like another role's, and that none sets."""
    role = job.role
    if role is None:
        return
    for name in _list_unset(job, role):
        yield "no-variable", "ready", {"name": name}
    text = read_text(role)
    known = {*list_names(job.whole), *os.environ, "MASTER_ADDR", "MASTER_PORT"}
    known |= {*job.plan.environment.variables, *re.findall(r"(\w+)=", text)}
    names = sorted(one.name.upper() for one in job.roles)
    have = ", ".join(f"${name}_ADDR, ${name}_PORT" for name in names)
    names = re.findall(r"\$\{?([A-Z]\w*?_(?:ADDR|PORT|HOST|URL|NODE|IP)\w*)", text)
    for name in sorted({*names} - known):
        yield "no-address", "run", {"name": name, "have": have}


def _list_unset(job: Subject, role: RolePlan) -> list[str]:
    """Return the variables of its file that neither the script sets nor this shell."""
    if role.test[:1] != ("file",):
        return []
    known = {"run_dir", *os.environ, *list_names(job.whole)}
    names = re.findall(r"\$\{?(?!SLURM_|PBS_)(\w+)", role.test[1])
    return [name for name in names if name not in known]
