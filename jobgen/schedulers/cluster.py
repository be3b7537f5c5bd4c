"""What the schedulers' `cluster` modules share: the profile of a cluster."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from jobgen.records import NamedTuple
from jobgen.sites.profile import Node, Recognise, SiteProfile
from jobgen.spec.units import parse_clock

Records = dict[str, dict[str, Any]]
# The most that a profile can say of nodes, GPUs and CPUs: `spec.Count`.
MOST = 100_000
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@:+/-]*")  # of queues and types: `fields.Label`


class HostShape(NamedTuple):
    """One host's resources for jobs. Memory in KiB; `gpu_type` is None if unknown."""

    gpus: int
    gpu_type: str | None
    cpus: int
    memory: int
    threads: int  # CPUs for each core, as the scheduler counts them; 0 where it does not tell
    queues: frozenset[str] = frozenset()


def make_profile(
    scheduler: str, cluster: str, version: str, source: str, **facts: Any
) -> SiteProfile:
    """Return the profile of a cluster with `facts`, its title, and how it is recognised."""
    title = f"{cluster}, {version}" if cluster else version
    known = Recognise(cluster=cluster, source=source) if NAME.fullmatch(cluster) else Recognise()
    return SiteProfile(scheduler=scheduler, title=title, recognise=known, **facts)


def describe_node(hosts: list[HostShape]) -> Node:
    """Return the most that one of these hosts offers, but the smallest share of CPUs per GPU.

    If their numbers of GPUs differ, it also says how many hosts have each number.
    """
    if not hosts:
        return Node()
    with_gpus = [host for host in hosts if host.gpus]
    with_gpus.sort(key=lambda host: -host.gpus)
    counts = Counter(str(host.gpus) for host in with_gpus)
    types = {host.gpu_type for host in with_gpus}
    shares = [host.cpus // host.gpus for host in with_gpus]
    threads = max(host.threads for host in hosts)
    return Node(
        gpus=_find_most(hosts, "gpus"),
        hosts=dict(counts) if len(counts) > 1 else None,
        gpu=next(iter(types)) if len(types) == 1 else None,
        cpus=_find_most(hosts, "cpus"),
        cpu_unit={0: None, 1: "core"}.get(threads, "thread"),
        memory=_find_most(hosts, "memory"),
        cpus_per_gpu=min(shares, default=0) or None,
        source="nodes",
    )


def _find_most(hosts: list[HostShape], key: str) -> int | None:
    return max(getattr(host, key) for host in hosts) or None


def parse_number(value: object) -> int:
    """Return a whole number; 0 for anything else, such as UNLIMITED or (null)."""
    return int(str(value)) if re.fullmatch(r"[0-9]{1,15}", str(value)) else 0


def parse_seconds(value: object) -> int | None:
    """Read `[D-]HH:MM:SS`, as Slurm and PBS print it, or PBS's seconds; None means no limit."""
    return int(parse_clock(value) or 0) or parse_number(value) or None
