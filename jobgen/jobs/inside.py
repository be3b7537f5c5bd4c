"""Run a command on a node of a job, or a job in an allocation that the user holds."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from operator import lt
from pathlib import Path
from typing import Any

from jobgen import process
from jobgen.errors import UsageError
from jobgen.jobs.by_hand import adopt_jobs
from jobgen.jobs.files import RUNS, read_if_left, write_run_file
from jobgen.jobs.record import JobRecord
from jobgen.jobs.run_folder import name_node, read_nodes, read_port, read_traces
from jobgen.jobs.status import look
from jobgen.plan.plan import NodeGroup, Plan
from jobgen.rendering.render import render
from jobgen.schedulers import SCHEDULERS
from jobgen.schedulers.base import Allocation, HeldNode
from jobgen.spec.model import JobSpec
from jobgen.spec.units import format_memory

# The job's folders are those of the node's own processes; its modules and venv are not loaded.
_ENTER = 'cd "$1" && export JOBGEN_RUN_DIR=$2 && shift 2 && exec "$@"'
# What an allocation has of, how a directive asks for it, and where both are kept.
_AMOUNTS: tuple[tuple[str, str, str, Callable[[int], str]], ...] = (
    ("GPUs", r"gpus?(-per-node)?[=:]", "gpus", str),
    ("CPUs", r"cpus(-per-\w+)?=", "cpus", str),
    ("memory", r"\bmem(-per-\w+)?=", "memory", format_memory),
)


def enter_job(
    job: JobRecord,
    *,
    node: str | None,
    words: Sequence[str],
    terminal: bool,
    role: str | None = None,
) -> list[str]:
    """Return the command that runs `words`, or a shell, on a node of a job that runs.

    `node` is a name or a number in the order of the ranks, of the job or of a `role` of it; the
    first by default. Raises UsageError if the job does not run, or has no such node or role.
    """
    name, job = find_node(job, node, role), _find_role(job, role)
    shell = os.environ.get("SHELL") or "bash"
    inner = ["bash", "-c", _ENTER, "bash", job.folder, job.run_folder, *(words or [shell])]
    if job.local:
        return inner
    access = SCHEDULERS[job.scheduler].access
    return access.shell_argv(job.shares or job.id, name, inner, process.run, terminal=terminal)


def refuse_array(job: JobRecord) -> None:
    """Raise UsageError if the job is an array, for commands that look at a single task."""
    if job.tasks:
        raise UsageError(f"{job.id} is an array; name one of its tasks, such as {job.task(0).id}")


def find_node(job: JobRecord, node: str | None, role: str | None = None) -> str:
    """Return the name of a node of a running job or of its role: by name or number, or the first.

    Raises UsageError if the job is an array, is not running, or has no such node or role.
    """
    refuse_array(job)
    (one,) = look([job]).jobs
    if one.state.name != "running":
        raise UsageError(f"job {job.id} is {one.state.name}, so it has no node to enter")
    nodes = read_nodes(_find_role(job, role))
    if not nodes:
        raise UsageError(f"job {job.id} is running, but no node of it has started yet; try again")
    name = name_node(nodes, node or "0")
    if name not in nodes:
        known = f"{', '.join(nodes)} (counted from 0)"
        raise UsageError(f"job {job.id} has no node {node!r}: it runs on {known}")
    return name


def find_port(job: JobRecord, role: str | None) -> int:
    """Return the port of a role; UsageError where its script has noted none."""
    port = read_port(read_traces(_find_role(job, role)).last, role or "")
    if port is None:
        raise UsageError(f"job {job.id} has noted no port of {role}; give PORT")
    return port


def _find_role(job: JobRecord, role: str | None) -> JobRecord:
    """Return the role's job, or the job itself without one; UsageError if it has not started."""
    roles: dict[Any, JobRecord] = {None: job, **job.roles}
    if role not in roles:
        known = ", ".join(job.roles) or "none"
        raise UsageError(f"job {job.id} has not started a role {role!r}; there are: {known}")
    return roles[role]


def write_held_job(spec: JobSpec, plan: Plan) -> list[str]:
    """Write the script that runs a spec's plan in the held allocation; return the command.

    Raises UsageError if there is none, or it has another shape.
    """
    if plan.array.tasks:
        raise UsageError("an array cannot run in one allocation; choose a task with --task N")
    if plan.walltime.chain.goes_on:
        raise UsageError("`jobgen run` makes one start; give --set on_walltime.then=stop")
    if spec.snapshot:
        raise UsageError("`jobgen run` uses the code in this folder; give --set snapshot=false")
    alone, path = plan.nodes.total == 1, Path(RUNS, plan.name, "submissions", "held.sh").absolute()
    argv = ["bash", str(path)]
    if plan.can.batch:
        access = SCHEDULERS[plan.scheduler].access
        held = access.find_allocation(os.environ, process.run)
        if held is None:
            what = "salloc, qsub -I or the site's own command"
            message = f"this shell holds no {plan.can.title} job; get one with {what}"
            raise UsageError(f"{message}; `jobgen submit` queues the job")
        if differences := list(_compare(plan, held)):
            raise UsageError(
                f"job {held.id} does not match the spec: {'; '.join(differences)}\n"
                f"get an allocation that matches, or change `resources` with --set or in the spec"
            )
        argv = access.start_argv(str(path), alone=alone, cpus=plan.nodes.groups[0].cpus)
        _let_start_again(path, held)
    text = render(plan)
    write_run_file(path, text)
    return argv


def _let_start_again(script: Path, held: Allocation) -> None:
    """Withdraw the claim of an earlier run in this allocation on the run folder.

    A script starts in no folder that another script, or one that has ended, has begun. The run
    is recorded first, as its record is made of what is withdrawn.
    """
    claim = script.parents[1] / held.id.partition(".")[0] / "attempts" / "0" / "script"
    if claim.exists() and read_if_left(claim) == read_if_left(script):
        adopt_jobs()
        claim.unlink()


def _compare(plan: Plan, held: Allocation) -> Iterator[str]:
    """Say what the allocation lacks, or that it has more nodes: srun would refuse it."""
    fewest, most = plan.nodes.fewest or plan.nodes.total, plan.nodes.total
    if not fewest <= len(held.nodes) <= most:
        yield f"nodes: {len(held.nodes)}, but the spec asks for {most}"
    # What the scheduler is not asked for, such as the GPUs of whole nodes, it does not tell of.
    asked = "\n".join(SCHEDULERS[plan.scheduler].directives(plan))
    wanted = [group for group in plan.nodes.groups for _ in range(group.nodes)]
    for what, pattern, key, write in _AMOUNTS:
        have, need = _list_amounts(held.nodes, key), _list_amounts(wanted, key)
        if re.search(pattern, asked) and any(map(lt, have, need)):
            given, amount = (", ".join(dict.fromkeys(map(write, each))) for each in (have, need))
            yield f"{what} of its nodes: {given}, but the spec asks for {amount}"


def _list_amounts(nodes: Sequence[HeldNode | NodeGroup], key: str) -> list[int]:
    """How much each node has, the most first; nothing if it is not known for all."""
    amounts = [getattr(node, key) for node in nodes]
    return [] if None in amounts else sorted(amounts, reverse=True)
