"""Toy: what is written for it, and its commands."""

from __future__ import annotations

from collections.abc import Sequence

from jobgen.plan.plan import Plan
from jobgen.schedulers.base import (
    Advice,
    Directive,
    LaunchPieces,
    Scheduler,
    merge_directives,
)


class Toy(Scheduler):
    """Jobs are called, and stand in a line."""

    name = "toy"
    suffix = ".toy"
    advice = Advice(
        leave_out="leave the node out (`toysub --without NODE`)",
        release="`toyq --go ID`",
        go_on="stop",
        output="--into",
        nodes="--rooms",
    )
    submit_command = ("toysub",)
    cancel_command = "toykill"

    def directives(self, plan: Plan) -> Sequence[str]:
        """Return its name, nodes and time."""
        lines = [Directive(f"#TOY --called {plan.name}", "what toyq calls the job", "name")]
        lines.append(Directive(f"#TOY --rooms {plan.nodes.total}", "nodes", "resources.nodes"))
        if plan.walltime.seconds is not None:
            minutes = plan.walltime.seconds // 60
            lines.append(Directive(f"#TOY --minutes {minutes}", "its time", "resources.walltime"))
        return merge_directives(lines, plan.requests.directives, plan.can.options)

    def launch(self, plan: Plan) -> LaunchPieces:
        """Return nothing: one node needs no launcher."""
        return LaunchPieces(watched=False)

    def parse_job_id(self, output: str) -> str | None:
        """Read `12`."""
        return output.strip() if output.strip().isdecimal() else None

    def output_file(self, name: str, job_id: str) -> str:
        """Return where the output goes."""
        return f"{name}.{job_id}.toy"


SCHEDULER = Toy()
