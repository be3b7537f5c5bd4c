"""Slurm's way to a node of a running job, and into an allocation that one holds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from jobgen.schedulers.base import Allocation, Ask


class SlurmAccess:
    """Steps that share what the job has."""

    def shell_argv(
        self, job_id: str, node: str, words: Sequence[str], *, terminal: bool
    ) -> list[str]:
        """Return the command that runs another on a node of the job."""
        step = ["srun", f"--jobid={job_id}", "--overlap", "--nodes=1", "--ntasks=1"]
        return [*step, f"--nodelist={node}", *(["--pty"] if terminal else []), *words]

    def find_allocation(self, environment: Mapping[str, str], ask: Ask) -> Allocation | None:
        """Return the allocation that a shell is in."""
        job_id = environment.get("SLURM_JOB_ID")
        if not job_id:
            return None
        shown = ask(["scontrol", "--oneliner", "show", "job", job_id])
        nodes = re.search(r"\bNumNodes=(\d+)", shown)
        resources = re.search(r"\b(?:Alloc)?TRES=(\S+)", shown)
        gpus = re.search(r"gres/gpu=(\d+)", resources[1]) if resources else None
        return Allocation(job_id, int(nodes[1]) if nodes else 0, int(gpus[1]) if gpus else 0)

    def start_argv(self, script: str, *, alone: bool, cpus: int | None) -> list[str]:
        """Return the command that starts a job script in the allocation.

        The shell of an allocation may be on the login node, where a script for one node must not
        run its processes.
        """
        if not alone:
            return ["bash", script]
        step = ["srun", "--overlap", "--nodes=1", "--ntasks=1", "--cpu-bind=none"]
        return [*step, *([] if cpus is None else [f"--cpus-per-task={cpus}"]), "bash", script]


ACCESS = SlurmAccess()
