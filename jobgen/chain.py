"""Before the walltime ends: when the program is told, and how the run goes on afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from jobgen.errors import Problem
from jobgen.loaded import LoadedSpec
from jobgen.units import format_duration

NOTICE = 300
AT_MOST = 10
# sbatch(1), --signal: the most seconds it takes.
_SLURM_NOTICE = 65_535


class Chain(NamedTuple):
    """What happens before the walltime ends, and after. Times in seconds before its end."""

    notice: int  # the program is told to stop
    last_call: int  # what still runs is told by SIGTERM
    then: str  # stop; requeue: the same job again; resubmit: another job, which this one submits;
    # held: jobs that were submitted with the first and wait for it
    at_most: int = 1  # starts
    timer: bool = True  # the script keeps the time itself, and is told nothing by the scheduler

    @property
    def goes_on(self) -> bool:
        """Whether there may be a further start."""
        return self.then != "stop"

    @property
    def of_jobs(self) -> bool:
        """Whether that is a job of its own, with another id."""
        return self.then in ("resubmit", "held")

    @property
    def requeues(self) -> bool:
        """Whether the script puts its own job back into the queue."""
        return self.then == "requeue"

    @property
    def resubmits(self) -> bool:
        """Whether the script submits the next job."""
        return self.then == "resubmit"

    @property
    def held(self) -> bool:
        """Whether all jobs are submitted at once, each to wait for the one before."""
        return self.then == "held"

    @property
    def in_words(self) -> tuple[str, str]:
        """What happens, and why so."""
        told = f"{format_duration(self.notice)} before the end the program is told to stop"
        starts = f"{self.at_most} starts in all"
        return {
            "stop": (told, "so that it can save what it has"),
            "requeue": (f"{told}; then the job is requeued, {starts}", "it goes on with its id"),
            "resubmit": (f"{told}; another job goes on, {starts}", "the script submits it"),
            "held": (
                f"{told}; another job goes on, {starts}",
                "jobgen submit queues them all: inside a job PBS refuses qsub",
            ),
        }[self.then]

    @property
    def patience(self) -> int:
        """Seconds from the notice to the last call."""
        return self.notice - self.last_call


def chain_of(loaded: LoadedSpec, scheduler: str) -> Chain | None:
    """What the spec's `walltime` comes to on a scheduler; None where it says nothing."""
    asked = loaded.spec.walltime
    if asked is None:
        return None
    notice = asked.notice or NOTICE
    then: str = asked.then or "stop"
    if scheduler == "local":  # it has no queue to go back to
        then = "stop"
    elif scheduler == "pbs" and then == "resubmit":  # where qsub inside a job is refused
        then = "held"
    return Chain(
        notice=notice,
        last_call=min(60, notice // 2),
        then=then,
        at_most=1 if then == "stop" else asked.at_most or AT_MOST,
        timer=scheduler != "slurm",
    )


def conflicts(loaded: LoadedSpec, scheduler: str) -> Iterator[Problem]:
    """What cannot be done with a spec's `walltime`."""
    asked, walltime = loaded.spec.walltime, loaded.spec.resources.walltime
    if asked is None:
        return
    notice = asked.notice or NOTICE
    said = format_duration(notice)
    if walltime is None:
        hint = "add resources.walltime, such as 2h"
        yield loaded.problem("walltime", "what happens before the end of which walltime?", hint)
    elif notice >= walltime:
        by_default = "" if asked.notice else ", as nothing else is said"
        message = f"the notice is {said} before the end{by_default}, and the walltime no longer"
        yield loaded.problem("walltime.notice", message, "write e.g. notice: 1m")
    if scheduler == "slurm" and notice > _SLURM_NOTICE:
        message = f"{said} is more than Slurm takes, {format_duration(_SLURM_NOTICE)}"
        yield loaded.problem("walltime.notice", message)
    if scheduler == "pbs" and asked.then == "requeue":
        message = "PBS lets nobody but operators put a job back into the queue"
        yield loaded.problem("walltime.then", message, "write resubmit")
