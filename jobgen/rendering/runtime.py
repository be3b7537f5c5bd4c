"""Part 2 of a script: plain bash from `templates/runtime/`, the same for all jobs of a kind.

Which files a job needs follows from its scheduler, its launcher, its mode and its features alone;
no value of a spec is in them.
"""

from __future__ import annotations

import hashlib
import os
import re
import textwrap
from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

from jobgen import schedulers
from jobgen.plan.plan import Plan
from jobgen.rendering.view import ends_leftovers, hands_on, starts_alone, uses_gpus

# Raised by whoever changes a file of the runtime.
NUMBER = 1
_TITLE_LINE = "# ---- Part 2: the jobgen runtime {}, digest {} "
_TITLE = re.compile(r"^# ---- Part 2: the jobgen runtime (\d+), digest ([0-9a-f]{12}) -*\n", re.M)
_ABOUT = "The same in every script of its kind; docs/concepts/the-script.md explains it."
_LAST = 'main "$@"\n'
# In the files of the runtime: a call of a function that only some scripts have.
_OPTIONAL = re.compile(r"^( *)optional (\w+)(.*\n)", re.M)
_FUNCTION = re.compile(r"^(\w+)\(\) \{", re.M)


class Runtime(NamedTuple):
    """Part 2 as a script has it."""

    number: int
    digest: str  # as its first line says
    text: str  # below that line

    def as_text(self) -> str:
        """Part 2 with its first line."""
        return f"{_TITLE_LINE.format(self.number, self.digest):-<99}\n{self.text}"

    @property
    def edited(self) -> bool:
        """Whether somebody has changed it since it was rendered."""
        return digest_text(self.text) != self.digest


def digest_text(text: str) -> str:
    """The digest of Part 2 below its first line."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def assemble(plan: Plan, folder: str) -> str:
    """Part 2 of `plan`'s script, from the files in `folder`."""
    features = list(list_features(plan))
    return _join_parts(folder, describe_kind(plan, features), tuple(list_parts(plan, features)))


@cache
def _join_parts(folder: str, kind: str, parts: tuple[str, ...]) -> str:
    kind = textwrap.fill(f"Its kind: {kind}.", 98)
    about = f"# {_ABOUT}\n{textwrap.indent(kind, '# ')}\n"
    text = "\n".join([about, *(_read(os.path.join(folder, f"{part}.sh")) for part in parts), _LAST])
    # What Part 1 has for a part, such as the preflight, is named like the part.
    functions = {*_FUNCTION.findall(text), *map(os.path.basename, parts)}
    text = _OPTIONAL.sub(lambda call: call.expand(r"\1\2\3") if call[2] in functions else "", text)
    return Runtime(NUMBER, digest_text(text), text).as_text()


def split_script(script: str) -> tuple[str, Runtime | None]:
    """Part 1 of a script, and Part 2; None where it has none."""
    match = _TITLE.search(script)
    if match is None:
        return script, None
    runtime = Runtime(int(match[1]), match[2], script[match.end() :])
    return script[: match.start()], runtime


def describe_kind(plan: Plan, features: Iterable[str]) -> str:
    """The scheduler, launcher and mode of a job, and its features."""
    nodes = "one node" if plan.nodes.total == 1 else "several nodes"
    launch = plan.launch
    words = [plan.scheduler, launch.launcher, launch.mode, nodes]
    return ", ".join(words + [name.replace("_", " ") for name in features])


def list_features(plan: Plan) -> Iterator[str]:
    """What a job has that others of its scheduler, launcher and mode lack, a file each."""
    environment, chain = plan.environment, plan.walltime.chain
    for name in ("modules", "stage", "venv", "conda"):
        if getattr(environment, name):
            yield name
    if hands_on(plan):
        yield "from_shell"
    if environment.container:
        yield "container"
        if environment.container.any_gpu:
            yield "container_gpus"
    if plan.nodes.threads is None:
        yield "threads"
    pieces = schedulers.get_scheduler(plan.scheduler).launch(plan)
    if pieces.gpu_parts:
        yield "gpu_part"
    if plan.launch.devices:
        yield "gpu_order"
    if uses_gpus(plan):
        yield "gpus"
    if plan.launch.numa_binding:
        yield "numa_binding"
    yield from _list_addresses(plan)
    if plan.nodes.preflight:
        yield "preflight"
        if plan.launch.direct:
            yield "preflight_turns"
    if plan.array:
        yield f"array_{plan.scheduler}"
    if chain:
        yield from ("notice", "remind")
        if chain.timer:
            yield "notice_timer"
        if chain.goes_on:
            yield "chain"
            yield f"chain_{chain.then}"
        if chain.of_jobs:
            yield "chain_run"
    elif pieces.ends_itself and plan.walltime.seconds:
        yield from ("walltime_local", "remind")
    if pieces.waits_itself and plan.requests.after:
        yield "after"
    if plan.nodes.usage:
        yield "usage"


def _list_addresses(plan: Plan) -> Iterator[str]:
    """How nodes find the way to each other."""
    address, local = plan.launch.address, schedulers.is_local(plan.scheduler)
    if starts_alone(plan) or local:
        return
    if address:
        yield "address_by_name" if address.tail else "address_resolved"
    elif plan.launch.interface:
        yield "address_of"
    if not plan.launch.interface and plan.nodes.total > 1:
        yield "loopback_names"
    if plan.launch.interface or (address and not address.tail):
        yield "bracket"


def list_parts(plan: Plan, features: Iterable[str]) -> Iterator[str]:
    """The files of a job's runtime, in the order of a reader."""
    launch, alone = plan.launch, starts_alone(plan)
    pieces = schedulers.get_scheduler(plan.scheduler).launch(plan)
    by_mpi, stepped = launch.launcher == "mpiexec", launch.launcher == "srun"
    swept = ends_leftovers(plan)
    watched = swept and plan.nodes.total > 1
    yield "core"
    if swept or plan.nodes.usage or plan.walltime.chain:
        yield "beside"
    yield f"scheduler/{plan.scheduler}"
    yield "first_node/run_folder"
    yield from (f"features/{name}" for name in features)
    if not alone:
        launchers = {"srun": "srun", "mpiexec": "mpiexec"}
        yield f"launcher/{launchers.get(launch.launcher, 'each')}"
        if launch.launcher == "pbsdsh":
            yield "launcher/pbsdsh"
        if pieces.node_lists:
            yield "launcher/slurm_variables"
        yield "first_node/tell_nodes"
        yield "each_node/find_node"
        yield "each_node/direct" if launch.direct else "each_node/torchrun"
        if launch.direct and not launch.numbers:
            yield "each_node/direct_node"
    yield "each_node/prepare"
    if swept:
        yield "each_node/kill_marked"
        yield "supervision/heartbeat" if watched else "each_node/clean_up"
    yield "each_node/environment"
    if not launch.plain:
        yield "each_node/find_torch"
    if not launch.direct:
        yield "each_node/torchrun_rank"
    yield "each_node/attend"
    if watched:
        yield "launcher/one" if by_mpi else "launcher/for_each"
        yield "supervision/records"
    else:
        yield "first_node/end_step" if stepped else "first_node/end_child"
    yield "first_node/cause_alone" if alone else "first_node/cause"
    yield "first_node/conclude"
    if not watched:
        runner = "run_alone" if alone else "run_step" if stepped else "run_child"
        if not alone:
            yield "launcher/log_launch"
        yield f"first_node/{runner}"
    yield "first_node/main"


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if "@preflight@" in text:
        text = text.replace(
            "@preflight@\n", _read(os.path.join(os.path.dirname(path), "preflight.py"))
        )
    return text
