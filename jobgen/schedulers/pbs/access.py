"""PBS's way to a node of a running job, and into an allocation that one holds."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from jobgen.schedulers.base import Allocation, Ask


class PbsAccess:
    """ssh, which sites open to the owner of a job: pbsdsh works within the job alone."""

    def shell_argv(
        self, job_id: str, node: str, words: Sequence[str], *, terminal: bool
    ) -> list[str]:
        """Return the command that runs another on a node of the job."""
        environment = ["env", f"PBS_JOBID={job_id}"]
        return ["ssh", *(["-t"] if terminal else []), node, shlex.join([*environment, *words])]

    def find_allocation(self, environment: Mapping[str, str], ask: Ask) -> Allocation | None:
        """Return the allocation that a shell is in; of its GPUs nothing is known."""
        job_id, file = environment.get("PBS_JOBID"), environment.get("PBS_NODEFILE")
        if not job_id or not file:
            return None
        return Allocation(job_id, len(set(Path(file).read_text().split())), None)

    def start_argv(self, script: str, *, alone: bool, cpus: int | None) -> list[str]:
        """Return the command that starts a job script in the allocation, in this folder."""
        return ["env", f"PBS_O_WORKDIR={Path.cwd()}", "bash", script]


ACCESS = PbsAccess()
