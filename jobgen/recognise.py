"""Which site a machine is of: by what profiles say that tells."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from jobgen import site as sites
from jobgen.errors import JobgenError, SpecError
from jobgen.process import run
from jobgen.profile import Recognise


class Recognised(NamedTuple):
    """A site, and what told it."""

    name: str
    how: str


class Answer(NamedTuple):
    """The sites that know the machine, those of the user first; profiles that cannot be read."""

    sites: tuple[Recognised, ...]
    unreadable: tuple[str, ...] = ()


def host_name(*, timeout: float) -> str:
    """This machine's name, with its domain where that is known."""
    try:
        return run(["hostname", "-f"], timeout=timeout).strip() or os.uname().nodename
    except JobgenError:
        return os.uname().nodename


def recognise(*, host: str, cluster: str | None, environment: Mapping[str, str]) -> Answer:
    """Look for a site that knows this host name, scheduler's cluster name or environment."""
    folders = sites.folders()
    found: list[tuple[int, Recognised]] = []
    unreadable = []
    for name in sites.names():
        try:
            profile = sites.find(name)
        except SpecError:
            unreadable.append(name)
            continue
        facts = profile.profile.recognise
        how = next(_told(facts, host, cluster, environment), None) if facts else None
        if how is not None:
            order = -folders.index(os.path.dirname(profile.files[0]))
            found.append((order, Recognised(name, how)))
    return Answer(tuple(site for _, site in sorted(found)), tuple(unreadable))


def _told(
    facts: Recognise, host: str, cluster: str | None, environment: Mapping[str, str]
) -> Iterator[str]:
    for name, value in (facts.variables or {}).items():
        if environment.get(name) == value:
            yield f"${name} is {value}"
    if facts.domain and f".{host}".endswith(f".{facts.domain}"):
        yield f"the host is called {host}"
    if facts.cluster and facts.cluster == cluster:
        yield f"its scheduler calls the cluster {cluster}"
