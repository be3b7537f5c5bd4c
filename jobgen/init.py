"""A first job.yaml for this machine: what can be found is filled in, and says how it was found."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from jobgen import choose, document, live
from jobgen import site as sites
from jobgen.bind import bind
from jobgen.errors import JobgenError
from jobgen.loaded import LoadedSpec
from jobgen.plan import Plan, resolve
from jobgen.profile import Node, SiteProfile
from jobgen.recognise import host_name, recognise
from jobgen.spec import JobSpec
from jobgen.units import format_memory

SECONDS = 4.0
_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./+@-]*|[0-9]+([hms]|[KMGT]B)")
_WORDS = {"true", "false", "null"}
_COLUMN = 30  # of comments, as in the README


class Machine(NamedTuple):
    """What was found: the scheduler, the site and how it is known, the user's accounts, Python."""

    scheduler: str | None = None
    site: str | None = None
    how: str = ""
    accounts: tuple[str, ...] = ()
    venv: str | None = None
    conda: str | None = None


class Wishes(NamedTuple):
    """What the user has said; None where nothing."""

    site: str | None = None
    scheduler: str | None = None
    account: str | None = None
    queue: str | None = None
    nodes: int | None = None
    gpus_per_node: int | None = None
    walltime: str | None = None
    script: str | None = None
    module: str | None = None


class Line(NamedTuple):
    """One key of the spec, at the top or in a part of it; a value of None leaves it to the user."""

    part: str
    key: str
    value: Any
    comment: str = ""


class Written(NamedTuple):
    """The text of a job.yaml, and the plan that it makes."""

    text: str
    plan: Plan


def look() -> Machine:
    """Ask scheduler and environment, for a few seconds at most."""
    clock = live.Clock.of(SECONDS)
    here = live.scheduler(timeout=clock.left)
    cluster, accounts = None, []
    with suppress(JobgenError):  # without a name it may still be known by the host's
        if here.name == "slurm":
            cluster = live.slurm_config(timeout=clock.left).get("ClusterName")
        elif here.name == "pbs":
            cluster = next(iter(live.pbs("Server", timeout=clock.left)), None)
    with suppress(JobgenError):  # some Slurms keep no accounts
        if here.name == "slurm":
            accounts = live.own_accounts(timeout=clock.left)
    host = host_name(timeout=clock.left)
    known = recognise(host=host, cluster=cluster, environment=os.environ).sites
    venv = os.environ.get("VIRTUAL_ENV")
    if venv is None:
        venv = next(
            (name for name in (".venv", "venv") if os.path.isfile(f"{name}/bin/activate")), None
        )
    conda = os.environ.get("CONDA_DEFAULT_ENV") if venv is None else None
    return Machine(
        scheduler=here.name,
        site=known[0].name if known else None,
        how=known[0].how if known else "",
        accounts=tuple(accounts),
        venv=venv,
        conda=None if conda == "base" else conda,
    )


def questions(machine: Machine, wishes: Wishes) -> Iterator[tuple[str, str, Any]]:
    """What to ask where somebody answers: a field of Wishes, the words, and the default."""
    name, profile = _target(machine, wishes)
    shape = _shape(profile, wishes.queue or _queue(profile))
    if profile.scheduler != "local":
        account = _account(machine, name, profile)
        if wishes.account is None and profile.account and profile.account.required:
            yield "account", "Account that pays", account or ""
    if wishes.nodes is None:
        yield "nodes", "Nodes", 1
    if wishes.gpus_per_node is None:
        yield "gpus_per_node", "GPUs on each node", shape.gpus or 0
    if wishes.walltime is None:
        yield "walltime", "Walltime", "1h"
    if wishes.script is None and wishes.module is None:
        yield "script", "Python script to run", "train.py"


def write(machine: Machine, wishes: Wishes, *, file: str) -> Written:
    """The spec, for `file`; raises SpecError where what was wished for cannot be."""
    name, profile = _target(machine, wishes)
    text = _text(_lines(machine, wishes, name, profile), profile.title or name)
    spec, positions = bind(document.parse(text, file=file), JobSpec)
    return Written(text, resolve(LoadedSpec(spec, file, "", positions)))


def _target(machine: Machine, wishes: Wishes) -> tuple[str, SiteProfile]:
    """The site to write for, and its profile."""
    scheduler = wishes.scheduler or machine.scheduler or "local"
    name = wishes.site or (None if wishes.scheduler else machine.site)
    if name is None:
        name = "local" if scheduler == "local" else f"{scheduler}-generic"
    return name, sites.load(name)


def _lines(machine: Machine, wishes: Wishes, site: str, profile: SiteProfile) -> Iterator[Line]:
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", os.path.basename(os.getcwd())).lstrip("._-")[:100]
    yield Line("", "name", name or "job", "what the queue, and the folder below runs/, call it")
    if site in ("local", "slurm-generic", "pbs-generic"):
        why = "this machine alone" if site == "local" else ""
        yield Line("", "scheduler", profile.scheduler, why)
    else:
        yield Line("", "site", site, f"as {machine.how}" if site == machine.site else "")
    local = profile.scheduler == "local"
    queue = wishes.queue or _queue(profile)
    if not local:
        yield _account_line(machine, wishes, site, profile)
        yield from _queue_line(queue, wishes, profile)
    if profile.filesystems is not None and profile.filesystems.required:
        known = list(profile.filesystems.known or ("NAME",))
        yield Line("", "filesystems", known, "those that the job uses")
    yield from _resources(wishes, profile, queue, local=local)
    yield from _environment(machine, profile)
    yield from _run(wishes)


def _account_line(machine: Machine, wishes: Wishes, site: str, profile: SiteProfile) -> Line:
    account = wishes.account or _account(machine, site, profile)
    about = profile.account
    if account is not None:
        others = [name for name in machine.accounts if name != account]
        return Line("", "account", account, f"or {', '.join(others[:4])}" if others else "")
    needed = (
        "every job here needs one" if about and about.required else "who pays, if you are asked"
    )
    meaning = f": {about.meaning}" if about and about.meaning else ""
    return Line("", "account", None, needed + meaning)


def _account(machine: Machine, site: str, profile: SiteProfile) -> str | None:
    """The user's first account that the site takes."""
    if machine.site not in (None, site):
        return None
    pattern = profile.account.pattern if profile.account else None
    fit = (name for name in machine.accounts if re.fullmatch(pattern or ".*", name))
    return next(fit, None)


def _queue(profile: SiteProfile) -> str | None:
    """A queue where jobgen chooses none: the first."""
    queues = profile.queues or {}
    if any(queue.choose for queue in queues.values()):
        return None
    return next((name for name, queue in queues.items() if not queue.routed_from), None)


def _queue_line(queue: str | None, wishes: Wishes, profile: SiteProfile) -> Iterator[Line]:
    names = [name for name, found in (profile.queues or {}).items() if not found.routed_from]
    rest = [name for name in names if name != queue]
    others = ", ".join(rest[:4]) + (", ..." if rest[4:] else "")
    if queue is not None:
        yield Line("", "queue", queue, f"or {others}" if others and not wishes.queue else "")
    elif names:
        yield Line("", "queue", None, f"jobgen chooses by size and walltime: {others}")
    else:
        yield Line("", "queue", None, "Slurm's partition" if profile.scheduler == "slurm" else "")


def _shape(profile: SiteProfile, queue: str | None) -> Node:
    """A node of the queue, or of the first that jobgen may choose."""
    if queue is None:
        queue = next((name for name, found in (profile.queues or {}).items() if found.choose), None)
    return choose.node_in(profile, queue, _gpu_type(profile) or profile.gpu_type)[0]


def _gpu_type(profile: SiteProfile) -> str | None:
    """The type that the spec has to name."""
    if profile.gpu_type_required and profile.gpu_type is None:
        return next(iter(profile.gpu_types or {}), None)
    return None


def _resources(
    wishes: Wishes, profile: SiteProfile, queue: str | None, *, local: bool
) -> Iterator[Line]:
    node, part = _shape(profile, queue), "resources"
    yield Line(part, "nodes", wishes.nodes or 1)
    gpus = node.gpus if wishes.gpus_per_node is None else wishes.gpus_per_node
    if gpus is not None:
        what = node.device or node.gpu
        all_of_it = f"all of a node{f'; one is {what}' if what else ''}"
        yield Line(part, "gpus_per_node", gpus, all_of_it if gpus == node.gpus else "")
    elif not local:
        yield Line(part, "gpus_per_node", None, "such as 4")
    if name := _gpu_type(profile):
        others = [other for other in profile.gpu_types or {} if other != name]
        yield Line(part, "gpu_type", name, f"or {', '.join(others)}" if others else "")
    if not local and node.cpus_per_gpu is None:
        yield Line(part, "cpus_per_gpu", None, "such as 8: with nothing said, it may be one CPU")
    if node.memory_rule == "required":
        memory = node.memory or 16 * 1024**2
        yield Line(part, "memory_per_node", "{}{}B".format(*format_memory(memory)), "all of a node")
    longest = _longest(profile, queue)
    walltime = wishes.walltime or ("1h" if longest is None or longest >= 3600 else f"{longest}s")
    yield Line(part, "walltime", walltime, "then the job is ended")


def _longest(profile: SiteProfile, queue: str | None) -> int | None:
    """The longest walltime of a queue, in seconds."""
    limits = profile.queues[queue].limits if profile.queues and queue in profile.queues else ()
    times = [limit.times[1] for limit in limits]
    return None if None in times else max((time for time in times if time), default=None)


def _environment(machine: Machine, profile: SiteProfile) -> Iterator[Line]:
    part, modules = "environment", ", ".join(profile.modules.load if profile.modules else ())
    if machine.venv is not None:
        loaded = f"after the site's modules {modules}" if modules else "on every node"
        yield Line(part, "venv", machine.venv, loaded)
    elif machine.conda is not None:
        yield Line(part, "conda", machine.conda, "the one that is active here")
    else:
        loaded = f"unless you name some, the site's: {modules}" if modules else ""
        yield Line(part, "modules", None, loaded or "such as [python, cuda]")
        yield Line(part, "venv", None, "the folder of a virtual environment with torch in it")


def _run(wishes: Wishes) -> Iterator[Line]:
    if wishes.module is not None:
        yield Line("run", "module", wishes.module, "as by python -m, once for each GPU")
    elif wishes.script is not None or os.path.isfile("train.py"):
        yield Line("run", "script", wishes.script or "train.py", "once for each GPU")
    else:
        yield Line("run", "module", "jobgen.trainer", "jobgen's own; or script: train.py")
    yield Line("run", "args", None, "such as {lr: 3e-4, epochs: 10}, for --lr 3e-4 --epochs 10")


def _text(lines: Iterator[Line], title: str) -> str:
    rows = [
        "# yaml-language-server: $schema=job.schema.json",
        f"# A job for {title}, begun by `jobgen init`.",
        "# `jobgen explain` says what follows from it; `jobgen schema job > job.schema.json` lets",
        "# editors complete and check it.",
    ]
    part = ""
    found = list(lines)
    for index, line in enumerate(found):
        if line.part != part:
            part = line.part
            rest = [other for other in found[index:] if other.part == part]
            said = any(other.value is not None for other in rest)
            rows.append(f"{part}:" if said else f"# {part}:")
        indent = "  " if part else ""
        if line.value is None:
            row = f"# {indent}{line.key}:"
        else:
            row = f"{indent}{line.key}: {_value(line.value)}"
        rows.append(f"{row:{_COLUMN}} # {line.comment}" if line.comment else row)
    return "\n".join(rows) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, int) or (_PLAIN.fullmatch(value) and value.lower() not in _WORDS):
        return str(value)
    return json.dumps(value, ensure_ascii=False)
