"""A profile of the cluster that this machine submits to: what its scheduler tells, no more."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from jobgen.errors import JobgenError, SchedulerUnavailableError
from jobgen.machine import cluster as live
from jobgen.sites import describe
from jobgen.sites.profile import Limit, Node, Recognise, SiteProfile, SiteQueue, SlurmDialect

# The most that a profile can say of nodes, GPUs and CPUs: `spec.Count`.
_MOST = 100_000
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@:+/-]*")  # of queues and types: `fields.Label`


class Captured(NamedTuple):
    """The cluster's own name, and its profile."""

    name: str
    profile: SiteProfile


class HostShape(NamedTuple):
    """What one host gives to jobs. Memory in KiB; `gpu_type` is None if unknown."""

    gpus: int
    gpu_type: str | None
    cpus: int
    memory: int
    threads: int  # CPUs for each core, as the scheduler counts them; 0 where it does not tell
    queues: frozenset[str] = frozenset()


def capture(*, today: str, timeout: float) -> Captured:
    """Ask the scheduler; `today` is the date that the facts get.

    Raises SchedulerUnavailableError if no scheduler answers, and what its commands raise.
    """
    here = live.detect_scheduler(timeout=timeout)
    if here.name is None:
        silent = "".join(f"; {words}" for words in here.silent)
        message = "neither Slurm nor PBS answers here; is this a login node of the cluster?"
        raise SchedulerUnavailableError(message + silent)
    make = {"slurm": _capture_slurm, "pbs": _capture_pbs}[here.name]
    name, profile = make(f"{here.name.upper()} {here.version}", timeout)
    return Captured(name, profile._replace(as_of=today, verified="captured"))


# --- Slurm -----------------------------------------------------------------------------


def _capture_slurm(version: str, timeout: float) -> Captured:
    try:
        config = live.ask_slurm_config(timeout=timeout)
    except JobgenError:  # some sites keep it from users
        config = {}
    partitions = live.ask_slurm("partitions", timeout=timeout)
    nodes = live.ask_slurm("nodes", timeout=timeout)
    hosts = [
        _read_slurm_host(node) for node in nodes.values() if "FUTURE" not in node.get("State", "")
    ]
    queues = {
        name: _read_partition(record, [host for host in hosts if name in host.queues])
        for name, record in partitions.items()
        if record.get("RootOnly") != "YES"
        and record.get("TotalNodes") != "0"  # no job can start there
        and _NAME.fullmatch(name)
    }
    cluster = config.get("ClusterName", "")
    old = "SelectType" in config and config["SelectType"] != "select/cons_tres"
    sources = {key: f"captured: {live.format_command(argv)}" for key, argv in live.SLURM.items()}
    if not config:
        del sources["config"]
    return Captured(
        cluster or "slurm",
        SiteProfile(
            scheduler="slurm",
            title=_make_title(cluster, version),
            sources=sources,
            cited={"slurm": "config"} if old else None,
            recognise=_recognise(cluster, "config"),
            slurm=SlurmDialect(gpus="gres")
            if old
            else SlurmDialect(),  # --gpus-per-node is cons_tres' alone
            gpu_types=dict(_list_types(hosts, "nodes")) or None,
            **_describe_queues(queues, hosts),
        ),
    )


def _read_slurm_host(node: dict[str, str]) -> HostShape:
    gpus = re.findall(r"(?:^|,)gpu(?::([^:,()]+))?:(\d+)", node.get("Gres", ""))
    types = {name or None for name, _ in gpus}
    threads = _parse_number(node.get("ThreadsPerCore")) or 1
    cpus = _parse_number(node.get("CPUTot"))
    cores = _parse_number(node.get("Sockets")) * _parse_number(node.get("CoresPerSocket"))
    return HostShape(
        gpus=sum(int(count) for _, count in gpus),
        gpu_type=next(iter(types)) if len(types) == 1 else None,
        cpus=_parse_number(node.get("CPUEfctv")) or cpus,
        memory=(_parse_number(node.get("RealMemory")) - _parse_number(node.get("MemSpecLimit")))
        * 1024,
        threads=threads if cpus > cores else 1,
        queues=frozenset(node.get("Partitions", "").split(",")),
    )


def _read_partition(record: dict[str, str], hosts: list[HostShape]) -> SiteQueue:
    total = _parse_number(record.get("TotalNodes"))
    nodes = min(_parse_number(record.get("MaxNodes")) or total, total)
    least = max(1, _parse_number(record.get("MinNodes")))
    notes = [f"{key}={record[key]}" for key in _TELLING if record.get(key, "ALL") != "ALL"]
    if record.get("QoS", "N/A") != "N/A":
        notes.append(f"its QoS {record['QoS']} may have limits of its own")
    if record.get("State", "UP") != "UP":
        notes.append(f"its state was {record['State']}")
    if record.get("OverSubscribe") == "EXCLUSIVE":
        notes.append("jobs have their nodes alone")
    if record.get("ReqResv") == "YES":
        notes.append("for jobs of a reservation")
    limit = Limit(
        nodes=(least, nodes) if least <= nodes <= _MOST else None,
        walltime=_parse_seconds(record.get("MaxTime")),
    )
    return SiteQueue(
        choose=record.get("Default") == "YES",
        limits=(limit,) if limit != Limit() else (),
        node=_describe_node(hosts, "nodes") if hosts else Node(),
        note="; ".join(notes) or None,
        source="partitions",
    )


_TELLING = ("AllowAccounts", "AllowGroups", "AllowQos", "DenyAccounts", "DenyQos")


# --- PBS -------------------------------------------------------------------------------


def _capture_pbs(version: str, timeout: float) -> Captured:
    server = live.ask_pbs("Server", timeout=timeout)
    records = live.ask_pbs("Queue", timeout=timeout)
    hosts = list(_sum_pbs_hosts(live.ask_pbs("nodes", timeout=timeout)))
    name, attributes = next(iter(server.items()), ("", {}))
    records = {queue: record for queue, record in records.items() if _NAME.fullmatch(queue)}
    routes = {
        target.strip().partition("@")[0]: source
        for source, record in records.items()
        for target in str(record.get("route_destinations", "")).split(",")
    }
    queues = {
        queue: _read_pbs_queue(
            record,
            routed_from=routes.get(queue),
            default=queue == attributes.get("default_queue"),
        )
        for queue, record in records.items()
    }
    sources = {
        key.lower(): f"captured: {live.format_command(argv)}" for key, argv in live.PBS.items()
    }
    every = SiteQueue()
    if 0 < len(hosts) <= _MOST:
        every = SiteQueue(limits=(Limit(nodes=(1, len(hosts))),), source="nodes")
    return Captured(
        name or "pbs",
        SiteProfile(
            scheduler="pbs",
            title=_make_title(name, version),
            sources=sources,
            recognise=_recognise(name, "server"),
            node=_describe_node(hosts, "nodes") if hosts else Node(),
            queues=queues or None,
            every_queue=every,
        ),
    )


def _sum_pbs_hosts(nodes: live.Records) -> Iterator[HostShape]:
    """Hosts, each the sum of its vnodes."""
    summed: dict[str, list[int]] = {}
    for name, record in nodes.items():
        given = record.get("resources_available") or {}
        amounts = [
            _parse_number(given.get("ngpus")),
            _parse_number(given.get("ncpus")),
            _parse_memory(given.get("mem")),
        ]
        if amounts[1]:  # those that never were up say nothing
            host = summed.setdefault(str(given.get("host") or record.get("Mom") or name), [0, 0, 0])
            host[:] = map(sum, zip(host, amounts, strict=True))
    for gpus, cpus, memory in summed.values():
        yield HostShape(gpus, None, cpus, memory, 0)


def _read_pbs_queue(record: dict[str, Any], *, routed_from: str | None, default: bool) -> SiteQueue:
    most, least = (record.get(f"resources_{end}") or {} for end in ("max", "min"))
    ends: dict[str, Any] = {}
    for key, unit, smallest in (("nodes", "nodect", 1), ("gpus", "ngpus", 0), ("cpus", "ncpus", 1)):
        low, high = max(smallest, _parse_number(least.get(unit))), _parse_number(most.get(unit))
        if unit in most and low <= high <= _MOST:
            ends[key] = (low, high)
        elif unit in least and smallest < low <= _MOST:
            ends[key] = (low,)
    longest, shortest = _parse_seconds(most.get("walltime")), _parse_seconds(least.get("walltime"))
    ends["walltime"] = (shortest, longest) if shortest and longest else longest
    limit = Limit(**ends)
    covered = ("nodect", "ngpus", "ncpus", "walltime")
    notes = [f"resources_max.{key}={most[key]}" for key in most if key not in covered]
    if str(record.get("enabled", "True")) != "True":
        notes.append("it took no jobs")
    if record.get("queue_type") == "Route":
        notes.append(f"leads to {record.get('route_destinations', 'nowhere')}")
    if (
        str(record.get("acl_group_enable")) == "True"
        or str(record.get("acl_user_enable")) == "True"
    ):
        notes.append("for some groups or users")
    only = str(record.get("from_route_only")) == "True"
    return SiteQueue(
        choose=default,
        routed_from=routed_from if only else None,
        limits=(limit,) if limit != Limit() else (),
        note="; ".join(notes) or None,
        source="queue",
    )


# --- both ------------------------------------------------------------------------------


def write_profile(captured: Captured) -> str:
    """The profile as a file, with what to know of it."""
    return f"""\
# What the scheduler of {captured.name} says of its queues, their limits and nodes. What it does
# not say is missing, such as rules of the site's own, modules and networks: add it, with
# its source.
# cpus_per_gpu is a GPU's share of its node. `jobgen sites test` checks this file.
{describe.write_yaml(captured.profile)}"""


def _make_title(cluster: str, version: str) -> str:
    kind, _, number = version.partition(" ")
    name = "Slurm" if kind == "SLURM" else "PBS"
    return f"{cluster}, {name} {number}" if cluster else f"{name} {number}"


def _recognise(cluster: str, source: str) -> Recognise | None:
    return Recognise(cluster=cluster, source=source) if _NAME.fullmatch(cluster) else None


def _describe_queues(queues: dict[str, SiteQueue], hosts: list[HostShape]) -> dict[str, Any]:
    """The shape of nodes once, where it is the same in all queues but for their numbers."""
    shapes = [queue.node._replace(hosts=None) for queue in queues.values()]
    if hosts and shapes and all(shape == shapes[0] for shape in shapes):
        source = shapes[0].source
        queues = {
            name: queue._replace(
                node=Node(hosts=queue.node.hosts, source=source) if queue.node.hosts else Node()
            )
            for name, queue in queues.items()
        }
        return {"node": shapes[0], "queues": queues}
    return {"queues": queues or None}


def _list_types(hosts: Iterable[HostShape], source: str) -> Iterator[tuple[str, Node]]:
    """The types of GPU that the scheduler knows."""
    hosts = list(hosts)
    for name in sorted({host.gpu_type for host in hosts if host.gpu_type}):
        if _NAME.fullmatch(name):
            yield name, _describe_node([host for host in hosts if host.gpu_type == name], source)


def _count_gpus(host: HostShape) -> int:
    return -host.gpus


def _describe_node(hosts: list[HostShape], source: str) -> Node:
    """The most that one of these hosts gives; CPUs of a GPU, the least of their shares.

    Where they differ in GPUs it also says how many have how many.
    """
    counts = Counter(str(host.gpus) for host in sorted(hosts, key=_count_gpus) if host.gpus)
    types = {host.gpu_type for host in hosts if host.gpus}
    shares = [host.cpus // host.gpus for host in hosts if host.gpus]
    threads = {host.threads for host in hosts}
    return Node(
        gpus=max(host.gpus for host in hosts) or None,
        hosts=dict(counts) if len(counts) > 1 else None,
        gpu=next(iter(types)) if len(types) == 1 else None,
        cpus=max(host.cpus for host in hosts) or None,
        cpu_unit=None if threads == {0} else "thread" if max(threads) > 1 else "core",
        memory=max(host.memory for host in hosts) or None,
        cpus_per_gpu=min(shares, default=0) or None,
        source=source,
    )


def _parse_number(value: object) -> int:
    """A whole number; 0 for what is none, such as UNLIMITED or (null)."""
    return int(str(value)) if re.fullmatch(r"[0-9]{1,15}", str(value)) else 0


def _parse_memory(value: object) -> int:
    """PBS's amount of memory, such as 128gb, or bytes, in KiB."""
    match = re.fullmatch(r"([0-9]{1,18})([kmgtp]?)b?", str(value).lower())
    if not match:
        return 0
    power = "kmgtp".find(match[2]) if match[2] else -1
    return int(int(match[1]) * 1024**power)


def _parse_seconds(value: object) -> int | None:
    """`[D-]HH:MM:SS`, as Slurm and PBS print it, or PBS's seconds; None means no limit."""
    match = re.fullmatch(r"(?:(\d{1,6})-)?(\d{1,6}):(\d\d):(\d\d)", str(value))
    if match:
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
        return days * 86400 + hours * 3600 + minutes * 60 + seconds or None
    return _parse_number(value) or None
