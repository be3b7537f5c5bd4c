"""This machine as a scheduler: the script runs at once, in its own process group.

It has neither a queue nor a daemon. A job's state is in its run folder and in /proc.
"""

from __future__ import annotations

from jobgen.plan.plan import Plan
from jobgen.schedulers.base import Advice, LaunchPieces, Scheduler


class Local(Scheduler):
    """This machine."""

    name = "local"
    suffix = ".sh"
    advice = Advice(
        leave_out="look at this machine",
        release="`kill -CONT PID`",
        go_on="resubmit",
        output="the script's output",
        nodes="--nodes",
    )
    submit_command = ("bash",)

    def directives(self, plan: Plan) -> list[str]:
        """Nobody reads any."""
        return []

    def launch(self, plan: Plan) -> LaunchPieces:
        """Names for the nodes; what a scheduler does elsewhere the script does here."""
        names = tuple(f"node{index}" for index in range(plan.nodes.total))
        return LaunchPieces(watched=True, node_names=names)

    def output_file(self, name: str, job_id: str) -> str:
        """In the run folder, which is there before the job."""
        return f"runs/{name}/{job_id}/job.out"


SCHEDULER = Local()
