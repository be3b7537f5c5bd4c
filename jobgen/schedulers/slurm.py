"""Slurm's syntax: sbatch, srun, squeue, scancel (man pages of Slurm 22.05 to 25.05)."""

from __future__ import annotations

import os
import re
from typing import Any

from jobgen.plan import NodeGroup, Plan, ShellPath
from jobgen.schedulers.base import SHARED_FILES_LAG, State, output_paths
from jobgen.units import format_duration, format_memory

_STATES = {
    "PENDING": "queued",
    "CONFIGURING": "queued",
    "REQUEUED": "queued",
    "REQUEUE_HOLD": "queued",
    "SPECIAL_EXIT": "queued",
    "RESV_DEL_HOLD": "queued",
    "RUNNING": "running",
    "COMPLETING": "running",
    "SUSPENDED": "running",
    "STOPPED": "running",
    "SIGNALING": "running",
    "STAGE_OUT": "running",
    "RESIZING": "running",
    "COMPLETED": "done",
    "CANCELLED": "cancelled",
    "REVOKED": "cancelled",
}


class Slurm:
    """Slurm."""

    name = "slurm"
    suffix = ".sbatch"

    def directives(self, plan: Plan) -> list[str]:
        """`#SBATCH` lines; unequal nodes make a heterogeneous job, one component a shape."""
        lines = [f"--job-name={plan.name}"]
        if plan.account:
            lines.append(f"--account={plan.account}")
        for index, group in enumerate(plan.components):
            if index:
                lines.append("hetjob")
            if plan.queue:
                lines.append(f"--{plan.site.slurm.queue_option}={plan.queue}")
            lines += _resources(group, plan)
            lines += plan.site_directives
            if plan.walltime is not None:
                lines.append(f"--time={format_duration(plan.walltime)}")
            if not index:
                # In the folder of submission, which exists: sbatch makes none, and a job whose
                # output has no folder fails without a word. A requeue appends.
                lines += ["--output=%x-%j.out", "--open-mode=append"]
        return [f"#SBATCH {line}" for line in lines] + list(plan.directives)

    def launch(self, plan: Plan) -> dict[str, Any]:
        """srun's options for each component, and the variables that hold their node lists."""
        components = plan.components
        steps: list[list[str]] = []
        for index, group in enumerate(components):
            options = [f"--het-group={index}"] if len(components) > 1 else []
            options += [f"--nodes={group.nodes}", f"--ntasks={group.nodes}", "--ntasks-per-node=1"]
            # srun gives a task one CPU unless told, and from 22.05 on not by sbatch's option.
            cpus = "$SLURM_CPUS_ON_NODE" if group.cpus is None else group.cpus
            options.append(ShellPath(f"--cpus-per-task={cpus}"))
            if group.gpus:
                options.append(_gpus(group, plan))
            steps.append(options)
        lists = [ShellPath("$SLURM_JOB_NODELIST")]
        if len(components) > 1:
            lists = [
                ShellPath(f"$SLURM_JOB_NODELIST_HET_GROUP_{index}")
                for index in range(len(components))
            ]
        return {"steps": steps, "node_lists": lists, "limit": None, "lag": SHARED_FILES_LAG}

    def submit_argv(self, script: str) -> list[str]:
        """`sbatch --parsable`."""
        return ["sbatch", "--parsable", script]

    def parse_job_id(self, output: str) -> str | None:
        """`123` or `123;cluster`."""
        match = re.fullmatch(r"(\d+)(;\S+)?", output.strip())
        return match[1] if match else None

    def query_argv(self, job_id: str) -> list[str]:
        """scontrol knows a job for some minutes after its end; squeue does not."""
        return ["scontrol", "--oneliner", "show", "job", job_id]

    def parse_state(self, output: str) -> State:
        """The first record's JobState; of a heterogeneous job that is its first component's."""
        match = re.search(r"\bJobState=(\w+) Reason=(\S+)", output)
        if not match:
            return State("unknown")
        reason = "" if match[2] == "None" else match[2]
        name = _STATES.get(match[1], "failed")
        if name == "failed":
            reason = f"{match[1]} {reason}".strip()
        return State(name, reason)  # type: ignore[arg-type]

    def cancel_argv(self, job_id: str) -> list[str]:
        """`scancel`."""
        return ["scancel", job_id]

    def output_file(self, name: str, job_id: str) -> str:
        """As `directives` says it."""
        return f"{name}-{job_id}.out"

    def output_folders(self, script: str) -> list[str]:
        """Folders of --output and --error; one with a %-pattern in it is only known to Slurm."""
        found = []
        for path in output_paths(re.findall(r"^#SBATCH\s+(.+)", script, re.MULTILINE)):
            folder = os.path.dirname(path)
            if folder and "%" not in folder:
                found.append(folder)
        return found


def _gpus(group: NodeGroup, plan: Plan) -> str:
    """The GPUs of each node, in the site's words."""
    number = f"{plan.gpu_type}:{group.gpus}" if plan.gpu_type else str(group.gpus)
    return f"--gres=gpu:{number}" if plan.site.slurm.gpus == "gres" else f"--gpus-per-node={number}"


def _resources(group: NodeGroup, plan: Plan) -> list[str]:
    lines = [f"--nodes={group.nodes}", "--ntasks-per-node=1"]
    if group.cpus is not None and plan.cpus_asked:
        lines.append(f"--cpus-per-task={group.cpus}")
    if group.gpus:
        lines.append(_gpus(group, plan))
    if group.memory is not None:
        lines.append("--mem={}{}".format(*format_memory(group.memory)))
    return lines


SCHEDULER = Slurm()
