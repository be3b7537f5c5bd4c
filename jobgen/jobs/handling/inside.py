"""Inside of what runs: a command on a node of a job, and a job in an allocation that one holds."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from jobgen import process, schedulers
from jobgen.errors import UsageError
from jobgen.jobs.record import RUNS, JobRecord, write_run_file
from jobgen.jobs.run_folder import read_nodes
from jobgen.jobs.status import look
from jobgen.plan.plan import Plan
from jobgen.rendering.render import render
from jobgen.spec.model import JobSpec

# The job's folders are those of the node's own processes; its modules and venv are not loaded.
_ENTER = 'cd "$1" && export JOBGEN_RUN_DIR=$2 && shift 2 && exec "$@"'


def enter_job(
    job: JobRecord, *, node: str | None, words: Sequence[str], terminal: bool
) -> list[str]:
    """Return the command that runs `words`, or a shell, on a node of a job that runs.

    `node` is a name or a number in the order of the ranks; the first by default. Raises UsageError
    if the job does not run, or has no such node.
    """
    if job.tasks:
        raise UsageError(f"{job.id} is an array; name one of its tasks, such as {job.task(0).id}")
    (one,) = look([job]).jobs
    if one.state.name != "running":
        raise UsageError(f"job {job.id} is {one.state.name}: there is no node to go to")
    nodes = read_nodes(job)
    name = nodes[0] if nodes and node is None else node
    if name is not None and name.isdecimal() and int(name) < len(nodes):
        name = nodes[int(name)]
    if name not in nodes:
        raise UsageError(f"job {job.id} has no node {node!r}: it runs on {', '.join(nodes)}")
    shell = os.environ.get("SHELL") or "bash"
    inner = ["bash", "-c", _ENTER, "bash", job.folder, job.run_folder, *(words or [shell])]
    if schedulers.is_local(job.scheduler):
        return inner
    access = schedulers.get_access(job.scheduler)
    return access.shell_argv(job.id, str(name), inner, terminal=terminal)


def write_held_job(spec: JobSpec, plan: Plan) -> list[str]:
    """Write the script of a spec's plan that runs in the allocation held; return the command.

    Raises UsageError if there is none, or it has another shape.
    """
    if plan.array:
        raise UsageError("an array has no place in one allocation; give --task N")
    if plan.walltime.chain and plan.walltime.chain.goes_on:
        raise UsageError("what is run here does not go on; give --set on_walltime.then=stop")
    if spec.snapshot:
        raise UsageError("what is run here uses the code as it is; give --set snapshot=false")
    alone, path = plan.nodes.total == 1, Path(RUNS, plan.name, "submissions", "held.sh").absolute()
    argv = ["bash", str(path)]
    if not schedulers.is_local(plan.scheduler):
        access = schedulers.get_access(plan.scheduler)
        held = access.find_allocation(os.environ, process.run)
        if held is None:
            what = "salloc, qsub -I or the site's own command"
            raise UsageError(f"this shell holds no {plan.can.title} job; get one with {what}")
        fewest = plan.nodes.fewest or plan.nodes.total
        if not fewest <= held.nodes <= plan.nodes.total:
            hint = f"give --set resources.nodes={held.nodes}, or get another"
            raise UsageError(
                f"nodes of job {held.id}: {held.nodes}, of the spec: {plan.nodes.total}; {hint}"
            )
        if held.gpus is not None and held.gpus < plan.nodes.gpus:
            hint = "get another allocation, or set resources.gpus_per_node"
            raise UsageError(
                f"GPUs of job {held.id}: {held.gpus}, of the spec: {plan.nodes.gpus}; {hint}"
            )
        argv = access.start_argv(str(path), alone=alone, cpus=plan.nodes.groups[0].cpus)
    text = render(plan)
    write_run_file(path, text)
    return argv
