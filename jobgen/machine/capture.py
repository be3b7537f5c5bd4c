"""A profile of the cluster that this machine submits to: what its scheduler tells, no more."""

from __future__ import annotations

from functools import partial

from jobgen.errors import SchedulerUnavailableError
from jobgen.machine.cluster import detect_scheduler
from jobgen.process import run
from jobgen.schedulers import SCHEDULERS
from jobgen.schedulers.base import Captured
from jobgen.sites import describe


def capture(*, today: str, timeout: float) -> Captured:
    """Ask the scheduler; `today` is the date that the facts get.

    Raises SchedulerUnavailableError if no scheduler answers, and what its commands raise.
    """
    here = detect_scheduler(timeout=timeout)
    if here.name is None:
        silent = "".join(f"; {words}" for words in here.silent)
        message = "neither Slurm nor PBS answers here; is this a login node of the cluster?"
        raise SchedulerUnavailableError(message + silent)
    scheduler = SCHEDULERS[here.name]
    version = f"{scheduler.can.title} {here.version}"
    name, profile = scheduler.cluster.capture(version, partial(run, timeout=timeout))
    return Captured(name or here.name, profile._replace(as_of=today, verified="captured"))


def write_profile(captured: Captured) -> str:
    """The profile as a file, with what to know of it."""
    return f"""\
# What the scheduler of {captured.name} says of its queues, their limits and nodes. What it does
# not say is missing, such as rules of the site's own, modules and networks: add it, with
# its source.
# cpus_per_gpu is a GPU's share of its node. `jobgen sites test` checks this file.
{describe.write_yaml(captured.profile)}"""
