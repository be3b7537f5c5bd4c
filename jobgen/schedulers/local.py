"""This machine as a scheduler: the script runs at once, as a process group of its own.

There is no queue and no daemon. What is known of a job stands in its run folder and in /proc.
"""

from __future__ import annotations

from typing import Any

from jobgen.plan import Plan


class Local:
    """This machine."""

    name = "local"
    suffix = ".sh"

    def directives(self, plan: Plan) -> list[str]:
        """Nobody reads any."""
        return []

    def launch(self, plan: Plan) -> dict[str, Any]:
        """Names for the nodes, and the walltime, which nobody else watches over."""
        names = [f"node{index}" for index in range(plan.nodes)]
        here: dict[str, Any] = {"limit": plan.walltime, "lag": 5, "gentle": False}
        here["node_names"] = names
        if plan.array:  # unless told otherwise one at a time: all tasks share this machine
            here |= {"count": len(plan.array.tasks), "at_once": plan.array.at_once or 1}
        return here

    def submit_argv(self, script: str) -> list[str]:
        """It just runs."""
        return ["bash", script]

    def output_file(self, name: str, job_id: str) -> str:
        """In the run folder, which is there before the job."""
        return f"runs/{name}/{job_id}/job.out"

    def output_folders(self, script: str) -> list[str]:
        """There are no directives."""
        return []


SCHEDULER = Local()
