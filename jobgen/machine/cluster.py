"""Find this machine's scheduler and site; capture a profile of what the scheduler reports."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from functools import partial

from jobgen.errors import JobgenError, SchedulerUnavailableError
from jobgen.process import run
from jobgen.records import NamedTuple
from jobgen.schedulers import SCHEDULERS
from jobgen.schedulers.base import Ask
from jobgen.sites import describe
from jobgen.sites import search as sites
from jobgen.sites.profile import Recognise, SiteProfile


class DetectedScheduler(NamedTuple):
    """The scheduler that answers, if any, and the output of installed ones that did not."""

    name: str | None
    version: str = ""
    silent: tuple[str, ...] = ()


class Deadline:
    """The deadline for all commands together."""

    def __init__(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Return the seconds for the next command; at least a moment."""
        return max(0.1, self.end - time.monotonic())

    @property
    def ask(self) -> Ask:
        """Run a command that must answer before the deadline; return its output."""
        return lambda argv: run(argv, timeout=self.left)


def detect_scheduler(*, timeout: float, wanted: str | None = None) -> DetectedScheduler:
    """Return the scheduler of this machine; the one that is wanted is asked first.

    A `qsub` alone proves nothing: Slurm has one too, and it may be left over. What answers counts.
    """
    silent: list[str] = []
    for name, scheduler in sorted(SCHEDULERS.items(), key=lambda item: item[0] != wanted):
        if not scheduler.can.batch or not all(map(shutil.which, scheduler.cluster.PROGRAMS)):
            continue
        argv = scheduler.cluster.PROBE
        try:
            answer = run(argv, timeout=timeout)
        except JobgenError as error:
            silent.append(" ".join(str(error).splitlines()[-1:]))
            continue
        if version := scheduler.cluster.parse_version(answer):
            return DetectedScheduler(name, version, tuple(silent))
        silent.append(f"{' '.join(argv)} does not say its version")
    return DetectedScheduler(None, "", tuple(silent))


class Recognised(NamedTuple):
    """A site, and how it was recognised."""

    name: str
    how: str


class Recognition(NamedTuple):
    """The sites that recognise the machine, the user's first, and profiles that cannot be read."""

    sites: tuple[Recognised, ...]
    unreadable: tuple[str, ...] = ()


def get_host_name(*, timeout: float) -> str:
    """Return this machine's name, with its domain if known."""
    try:
        return run(["hostname", "-f"], timeout=timeout).strip() or os.uname().nodename
    except JobgenError:
        return os.uname().nodename


def recognise(*, host: str, cluster: str | None, environment: Mapping[str, str]) -> Recognition:
    """Look for a site that knows this host name, scheduler's cluster name or environment."""
    folders = sites.list_folders()
    known: list[tuple[int, Recognised]] = []
    unreadable = []
    for name, loaded in sites.list_profiles():
        if loaded is None:
            unreadable.append(name)
            continue
        facts = loaded.profile.recognise
        how = next(_match_facts(facts, host, cluster, environment), None)
        if how is not None:
            order = -folders.index(os.path.dirname(loaded.files[0]))
            known.append((order, Recognised(name, how)))
    return Recognition(tuple(site for _, site in sorted(known)), tuple(unreadable))


def _match_facts(
    facts: Recognise, host: str, cluster: str | None, environment: Mapping[str, str]
) -> Iterator[str]:
    for name, value in sorted(facts.variables.items() & environment.items()):
        yield f"${name} is {value}"
    domain = facts.domain and f".{host}".endswith(f".{facts.domain}")
    if domain or any(re.fullmatch(pattern, host) for pattern in facts.hosts):
        yield f"the host is called {host}"
    if facts.cluster and facts.cluster == cluster:
        yield f"its scheduler calls the cluster {cluster}"


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
