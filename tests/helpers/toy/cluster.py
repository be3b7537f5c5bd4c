"""The cluster as Toy describes it."""

from __future__ import annotations

from jobgen.schedulers.base import Ask, ClusterFacts
from jobgen.sites.profile import SiteProfile

PROGRAMS = ("toysub", "toyq")
PROBE = ("toyq", "--version")


def parse_version(output: str) -> str | None:
    """Read `toy 1.2`."""
    name, _, number = output.strip().partition(" ")
    return number if name == "toy" else None


def ask_name(ask: Ask) -> str | None:
    """Return the name of the cluster."""
    return ask(["toyq", "--where"]).strip()


def ask_facts(ask: Ask) -> ClusterFacts:
    """Return the lines that jobs stand in; the first is the default."""
    names = ask(["toyq", "--lines"]).split()
    return ClusterFacts(ask_name(ask), {name: name == names[0] for name in names})


def list_accounts(ask: Ask) -> list[str]:
    """Return nothing: Toy has no accounts."""
    return []


def capture(version: str, ask: Ask) -> SiteProfile:
    """Return a profile with the title alone."""
    return SiteProfile(scheduler="toy", title=version)
