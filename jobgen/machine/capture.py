"""Capture a profile of this machine's cluster: only what its scheduler reports."""

from __future__ import annotations

from functools import partial

from jobgen.errors import SchedulerUnavailableError
from jobgen.machine.cluster import detect_scheduler
from jobgen.process import run
from jobgen.schedulers import SCHEDULERS
from jobgen.sites import describe
from jobgen.sites.profile import SiteProfile


def capture(*, today: str, timeout: float) -> SiteProfile:
    """Ask the scheduler; `today` becomes the date of the facts.

    Raises SchedulerUnavailableError if no scheduler answers, and what its commands raise.
    """
    here = detect_scheduler(timeout=timeout)
    if here.name is None:
        silent = "".join(f"; {words}" for words in here.silent)
        message = "neither Slurm nor PBS answers here; is this a login node of the cluster?"
        raise SchedulerUnavailableError(message + silent)
    scheduler = SCHEDULERS[here.name]
    version = f"{scheduler.can.title} {here.version}"
    profile = scheduler.cluster.capture(version, partial(run, timeout=timeout))
    return profile._replace(as_of=today, verified="captured")


def write_profile(captured: SiteProfile) -> str:
    """Return the profile as a file, with an explanation."""
    return f"""\
# {captured.title}: what the scheduler reports about its queues, their limits and nodes. The file
# lacks anything else, such as the site's own rules, modules and networks: add these, with
# their sources.
# cpus_per_gpu is a GPU's share of its node. `jobgen sites test` checks this file.
{describe.write_yaml(captured)}"""
