"""What `jobgen diagnose` advises in a scheduler's own words."""

from __future__ import annotations

from typing import NamedTuple


class Advice(NamedTuple):
    """Words that stand in braces in the remedies of causes."""

    leave_out: str  # a node of which one has doubts
    release: str  # a job that is held
    go_on: str  # what `then` can be here, for a job that is to go on by itself
    output: str  # the option that says where output goes
    nodes: str  # the options that ask for nodes


ADVICE = {
    "slurm": Advice(
        leave_out='leave the node out (directives: ["#SBATCH --exclude=NODE"])',
        release="`scontrol release ID`",
        go_on="requeue",
        output="--output",
        nodes="-N or --nodes",
    ),
    "pbs": Advice(
        leave_out="ask for other nodes (PBS cannot leave one out)",
        release="`qrls ID`",
        go_on="resubmit",
        output="-o and -e",
        nodes="-l select",
    ),
    "local": Advice(
        leave_out="look at this machine",
        release="`kill -CONT PID`",
        go_on="stop",
        output="the script's output",
        nodes="--nodes",
    ),
}
