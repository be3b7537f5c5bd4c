"""This machine as a scheduler: the script runs at once, as a process group of its own.

There is no queue and no daemon. What is known of a job stands in its run folder and in /proc.
"""

from __future__ import annotations

from jobgen.plan.plan import Plan
from jobgen.schedulers.base import LaunchPieces


class Local:
    """This machine."""

    name = "local"
    suffix = ".sh"

    def directives(self, plan: Plan) -> list[str]:
        """Nobody reads any."""
        return []

    def launch(self, plan: Plan) -> LaunchPieces:
        """Names for the nodes; what a scheduler does elsewhere the script does here."""
        names = tuple(f"node{index}" for index in range(plan.nodes.total))
        return LaunchPieces(watched=True, node_names=names, ends_itself=True, waits_itself=True)

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
