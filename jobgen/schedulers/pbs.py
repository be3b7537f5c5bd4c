"""PBS's syntax: OpenPBS and PBS Pro (qsub(1B), pbs_resources(7B), qstat(1B))."""

from __future__ import annotations

import json
import os
import re
from typing import Any

from jobgen.plan import NodeGroup, Plan
from jobgen.schedulers.base import SHARED_FILES_LAG, State, output_paths
from jobgen.units import format_duration, format_memory

_STATES = {"R": "running", "E": "running", "B": "running", "S": "running", "U": "running"}
_QUEUED = ("Q", "H", "W", "T", "M")


class Pbs:
    """OpenPBS and PBS Pro."""

    name = "pbs"
    suffix = ".pbs"

    def directives(self, plan: Plan) -> list[str]:
        """`#PBS` lines; the resources as chunks, one a host, or, by the site, as totals."""
        lines = [f"-N {plan.name}"]
        if plan.account:
            lines.append(f"{plan.site.pbs.account_option} {plan.account}")
        if plan.queue:
            lines.append(f"-q {plan.queue}")
        if plan.site.pbs.resources == "totals":
            lines += _totals(plan)
        else:
            chunks = [_chunk(group, plan) for group in plan.components]
            lines.append("-l select=" + "+".join(chunks))
            # Without it two chunks may land on one host, and two agents would share its GPUs.
            lines.append("-l place=scatter")
        if plan.walltime is not None:
            lines.append(f"-l walltime={format_duration(plan.walltime)}")
        if plan.filesystems and plan.site.filesystems:
            listed = plan.site.filesystems
            lines.append(f"-l {listed.resource}={listed.separator.join(plan.filesystems)}")
        # One output file, written as the job runs and not copied at its end.
        lines += ["-j oe", "-k oed"]
        lines += plan.site_directives
        return [f"#PBS {line}" for line in lines] + list(plan.directives)

    def launch(self, plan: Plan) -> dict[str, Any]:
        """pbsdsh needs nothing beside the plan."""
        return {"limit": None, "lag": SHARED_FILES_LAG}

    def submit_argv(self, script: str) -> list[str]:
        """`qsub`."""
        return ["qsub", script]

    def parse_job_id(self, output: str) -> str | None:
        """`123.server`, or `123[].server` for an array."""
        match = re.fullmatch(r"\d+(\[\])?(\.\S+)?", output.strip())
        return match[0] if match else None

    def query_argv(self, job_id: str) -> list[str]:
        """-x: ended jobs too, where the server keeps a history."""
        return ["qstat", "-x", "-f", "-F", "json", job_id]

    def parse_state(self, output: str) -> State:
        """job_state, and Exit_status once it is F (256 + N: signal N; -29: walltime)."""
        try:
            (job,) = json.loads(output)["Jobs"].values()
            letter = str(job["job_state"])
        except (ValueError, KeyError, TypeError, AttributeError):
            return State("unknown")
        comment = str(job.get("comment", ""))
        if letter in _QUEUED:
            return State("queued", comment)
        if letter in _STATES:
            return State("running")
        if letter not in ("F", "X"):
            return State("unknown")
        status = job.get("Exit_status")
        if status == 0:
            return State("done")
        if status is None or status == 271:
            return State("cancelled", comment)
        return State("failed", "walltime" if status == -29 else f"Exit_status {status}")

    def cancel_argv(self, job_id: str) -> list[str]:
        """`qdel`."""
        return ["qdel", job_id]

    def output_file(self, name: str, job_id: str) -> str:
        """qsub(1B): the name, `.o` and the number, where -j oe joins both outputs."""
        return f"{name}.o{job_id.partition('.')[0]}"

    def output_folders(self, script: str) -> list[str]:
        """Folders of -o and -e; with -k oed a job whose folder is missing never runs."""
        found = []
        for path in output_paths(re.findall(r"^\s*#PBS\s+(.+)", script, re.MULTILINE)):
            path = path.split(":", 1)[-1]
            folder = path if path.endswith("/") else os.path.dirname(path)
            if folder and "^array_index^" not in folder:
                found.append(folder)
        return found


def _memory(kib: int) -> str:
    number, letter = format_memory(kib)
    return f"{number}{letter.lower()}b"


def _chunk(group: NodeGroup, plan: Plan) -> str:
    site = plan.site.pbs
    own = "".join(f":{name}={value}" for name, value in (site.chunk or {}).items())
    if site.gpus == "none":  # whole nodes: the node file has a line for each
        return f"{group.nodes}{own}"
    chunk = str(group.nodes)
    if group.cpus is not None:
        chunk += f":ncpus={group.cpus}"
    if group.gpus:
        chunk += f":ngpus={group.gpus}"
        if plan.gpu_type and site.gpu_type:
            chunk += f":{site.gpu_type}={plan.gpu_type}"
    chunk += own
    if group.memory is not None:
        chunk += f":mem={_memory(group.memory)}"
    # One line in the node file for each host; the agent starts the processes.
    return chunk + ":mpiprocs=1"


def _totals(plan: Plan) -> list[str]:
    """`-l ncpus=`, `ngpus=` and `mem=` of the whole job (plan refuses unequal nodes here)."""
    (group,) = plan.components
    lines = []
    if group.cpus is not None:
        lines.append(f"-l ncpus={group.cpus * group.nodes}")
    if group.gpus:
        lines.append(f"-l ngpus={group.gpus * group.nodes}")
    if group.memory is not None:
        lines.append(f"-l mem={_memory(group.memory * group.nodes)}")
    return lines


SCHEDULER = Pbs()
