"""What a job asks of its scheduler beside nodes and time: QoS, reservation, features, e-mail."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from jobgen.errors import Problem
from jobgen.loaded import LoadedSpec
from jobgen.profile import SiteProfile

_EVENTS = ("begin", "end", "fail")


class Notify(NamedTuple):
    """E-mail, at some of _EVENTS, in their order; to the user who submits where nobody is named."""

    email: str | None
    on: tuple[str, ...]


class Request(NamedTuple):
    """What this scheduler can be asked for, of what the spec says."""

    qos: str | None = None
    reservation: str | None = None
    constraint: str | None = None
    exclusive: bool = False
    notify: Notify | None = None


def request_of(loaded: LoadedSpec, site: SiteProfile) -> Request:
    """The request of a job on `site`, as far as the scheduler there knows it."""
    spec = loaded.spec
    if site.scheduler == "local":
        return Request()
    left_out = set(unknown(loaded, site))
    notify = None
    if spec.notify is not None:
        on = spec.notify.on or ("end", "fail")
        notify = Notify(spec.notify.email, tuple(event for event in _EVENTS if event in on))
    return Request(
        qos=None if "qos" in left_out else spec.qos,
        reservation=spec.reservation,
        constraint=None if "resources.constraint" in left_out else spec.resources.constraint,
        exclusive=bool(spec.resources.exclusive) and "resources.exclusive" not in left_out,
        notify=notify,
    )


def unknown(loaded: LoadedSpec, site: SiteProfile) -> Iterator[str]:
    """The keys of the spec that `site` has no use for."""
    spec, pbs = loaded.spec, site.scheduler == "pbs"
    local = site.scheduler == "local"
    if spec.qos is not None and (pbs or local):
        yield "qos"
    if spec.reservation is not None and local:
        yield "reservation"
    if spec.queue is not None and spec.reservation is not None and pbs:
        yield "queue"
    if spec.resources.constraint is not None and (local or (pbs and site.pbs.constraint is None)):
        yield "resources.constraint"
    if spec.resources.exclusive and (local or (pbs and site.pbs.resources == "totals")):
        yield "resources.exclusive"
    if spec.notify is not None and local:
        yield "notify"


def conflicts(loaded: LoadedSpec, site: SiteProfile) -> Iterator[Problem]:
    """What of the request the site cannot do."""
    spec = loaded.spec
    if spec.qos is not None and site.scheduler == "slurm" and site.slurm.queue_option == "qos":
        hint = "write queue, and leave qos out"
        yield loaded.problem("qos", "what is called queue here is this site's QoS", hint)
    constraint = spec.resources.constraint
    mapped = site.scheduler == "pbs" and site.pbs.constraint is not None
    if mapped and constraint and not re.fullmatch(r"[A-Za-z0-9_.-]+", constraint):
        message = f"{constraint!r} is more than a name, and PBS takes one value for a chunk"
        yield loaded.problem("resources.constraint", message)


def notes(request: Request, site: SiteProfile) -> Iterator[str]:
    """What the user should hear about the request."""
    if site.scheduler == "pbs" and request.notify and request.notify.on == ("fail",):
        yield (
            "note: notify.on: of a program that fails PBS says so only in its mail at the end; "
            "with fail alone it writes only when it ends the job itself"
        )
