"""A profile of the cluster that this machine submits to: what its scheduler tells, no more."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from jobgen import describe, live
from jobgen.errors import JobgenError, SchedulerUnavailableError
from jobgen.profile import Limit, Node, Queue, Recognise, SiteProfile, Slurm

# The most that a profile can say of nodes, GPUs and CPUs: `spec.Count`.
_MOST = 100_000
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@:+/-]*")  # of queues and types: `fields.Label`


class Captured(NamedTuple):
    """The cluster's own name, and its profile."""

    name: str
    profile: SiteProfile


class Host(NamedTuple):
    """What one host gives to jobs. Memory in KiB; `gpu_type` is None where it is not told."""

    gpus: int
    gpu_type: str | None
    cpus: int
    memory: int
    threads: int  # CPUs for each core, as the scheduler counts them; 0 where it does not tell
    queues: frozenset[str] = frozenset()


def capture(*, today: str, timeout: float) -> Captured:
    """Ask the scheduler; `today` is the date that the facts get.

    Raises SchedulerUnavailableError where there is none, and what its commands raise.
    """
    found = live.scheduler(timeout=timeout)
    if found.name is None:
        said = "".join(f"; {words}" for words in found.silent)
        message = "neither Slurm nor PBS answers here; is this a login node of the cluster?"
        raise SchedulerUnavailableError(message + said)
    make = _slurm if found.name == "slurm" else _pbs
    name, profile = make(f"{found.name.upper()} {found.version}", timeout)
    return Captured(name, profile._replace(as_of=today, verified="captured"))


# --- Slurm -----------------------------------------------------------------------------


def _slurm(version: str, timeout: float) -> Captured:
    try:
        config = live.slurm_config(timeout=timeout)
    except JobgenError:  # some sites keep it from users
        config = {}
    partitions = live.slurm("partitions", timeout=timeout)
    nodes = live.slurm("nodes", timeout=timeout)
    hosts = [_slurm_host(node) for node in nodes.values() if "FUTURE" not in node.get("State", "")]
    queues = {
        name: _partition(record, [host for host in hosts if name in host.queues])
        for name, record in partitions.items()
        if record.get("RootOnly") != "YES"
        and record.get("TotalNodes") != "0"  # no job can start there
        and _NAME.fullmatch(name)
    }
    cluster = config.get("ClusterName", "")
    old = "SelectType" in config and config["SelectType"] != "select/cons_tres"
    sources = {key: f"captured: {live.command(argv)}" for key, argv in live.SLURM.items()}
    if not config:
        del sources["config"]
    return Captured(
        cluster or "slurm",
        SiteProfile(
            scheduler="slurm",
            title=_title(cluster, version),
            sources=sources,
            cited={"slurm": "config"} if old else None,
            recognise=_recognise(cluster, "config"),
            slurm=Slurm(gpus="gres") if old else Slurm(),  # --gpus-per-node is cons_tres' alone
            gpu_types=dict(_types(hosts, "nodes")) or None,
            **_queues(queues, hosts),
        ),
    )


def _slurm_host(node: dict[str, str]) -> Host:
    gpus = re.findall(r"(?:^|,)gpu(?::([^:,()]+))?:(\d+)", node.get("Gres", ""))
    types = {name or None for name, _ in gpus}
    threads = _number(node.get("ThreadsPerCore")) or 1
    cpus = _number(node.get("CPUTot"))
    cores = _number(node.get("Sockets")) * _number(node.get("CoresPerSocket"))
    return Host(
        gpus=sum(int(count) for _, count in gpus),
        gpu_type=next(iter(types)) if len(types) == 1 else None,
        cpus=_number(node.get("CPUEfctv")) or cpus,
        memory=(_number(node.get("RealMemory")) - _number(node.get("MemSpecLimit"))) * 1024,
        threads=threads if cpus > cores else 1,
        queues=frozenset(node.get("Partitions", "").split(",")),
    )


def _partition(record: dict[str, str], hosts: list[Host]) -> Queue:
    total = _number(record.get("TotalNodes"))
    nodes = min(_number(record.get("MaxNodes")) or total, total)
    least = max(1, _number(record.get("MinNodes")))
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
        walltime=_seconds(record.get("MaxTime")),
    )
    return Queue(
        choose=record.get("Default") == "YES",
        limits=(limit,) if limit != Limit() else (),
        node=_shape(hosts, "nodes") if hosts else Node(),
        note="; ".join(notes) or None,
        source="partitions",
    )


_TELLING = ("AllowAccounts", "AllowGroups", "AllowQos", "DenyAccounts", "DenyQos")


# --- PBS -------------------------------------------------------------------------------


def _pbs(version: str, timeout: float) -> Captured:
    server = live.pbs("Server", timeout=timeout)
    records = live.pbs("Queue", timeout=timeout)
    hosts = list(_pbs_hosts(live.pbs("nodes", timeout=timeout)))
    name, attributes = next(iter(server.items()), ("", {}))
    records = {queue: record for queue, record in records.items() if _NAME.fullmatch(queue)}
    routes = {
        target.strip().partition("@")[0]: source
        for source, record in records.items()
        for target in str(record.get("route_destinations", "")).split(",")
    }
    queues = {
        queue: _pbs_queue(
            record,
            routed_from=routes.get(queue),
            default=queue == attributes.get("default_queue"),
        )
        for queue, record in records.items()
    }
    sources = {key.lower(): f"captured: {live.command(argv)}" for key, argv in live.PBS.items()}
    every = Queue()
    if 0 < len(hosts) <= _MOST:
        every = Queue(limits=(Limit(nodes=(1, len(hosts))),), source="nodes")
    return Captured(
        name or "pbs",
        SiteProfile(
            scheduler="pbs",
            title=_title(name, version),
            sources=sources,
            recognise=_recognise(name, "server"),
            node=_shape(hosts, "nodes") if hosts else Node(),
            queues=queues or None,
            every_queue=every,
        ),
    )


def _pbs_hosts(nodes: live.Records) -> Iterator[Host]:
    """Hosts, each the sum of its vnodes."""
    summed: dict[str, list[int]] = {}
    for name, record in nodes.items():
        given = record.get("resources_available") or {}
        amounts = [
            _number(given.get("ngpus")),
            _number(given.get("ncpus")),
            _memory(given.get("mem")),
        ]
        if amounts[1]:  # those that never were up say nothing
            host = summed.setdefault(str(given.get("host") or record.get("Mom") or name), [0, 0, 0])
            host[:] = map(sum, zip(host, amounts, strict=True))
    for gpus, cpus, memory in summed.values():
        yield Host(gpus, None, cpus, memory, 0)


def _pbs_queue(record: dict[str, Any], *, routed_from: str | None, default: bool) -> Queue:
    most, least = (record.get(f"resources_{end}") or {} for end in ("max", "min"))
    ends: dict[str, Any] = {}
    for key, unit, smallest in (("nodes", "nodect", 1), ("gpus", "ngpus", 0), ("cpus", "ncpus", 1)):
        low, high = max(smallest, _number(least.get(unit))), _number(most.get(unit))
        if unit in most and low <= high <= _MOST:
            ends[key] = (low, high)
        elif unit in least and smallest < low <= _MOST:
            ends[key] = (low,)
    longest, shortest = _seconds(most.get("walltime")), _seconds(least.get("walltime"))
    ends["walltime"] = (shortest, longest) if shortest and longest else longest
    limit = Limit(**ends)
    told = ("nodect", "ngpus", "ncpus", "walltime")
    notes = [f"resources_max.{key}={most[key]}" for key in most if key not in told]
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
    return Queue(
        choose=default,
        routed_from=routed_from if only else None,
        limits=(limit,) if limit != Limit() else (),
        note="; ".join(notes) or None,
        source="queue",
    )


# --- both ------------------------------------------------------------------------------


def text(captured: Captured) -> str:
    """The profile as a file, with what to know of it."""
    return f"""\
# What the scheduler of {captured.name} told of it: queues, their limits, nodes. What it does not
# tell is missing, such as rules of the site's own, modules and networks: add it, with its source.
# cpus_per_gpu is a GPU's share of its node. `jobgen sites test` checks this file.
{describe.yaml(captured.profile)}"""


def _title(cluster: str, version: str) -> str:
    kind, _, number = version.partition(" ")
    name = "Slurm" if kind == "SLURM" else "PBS"
    return f"{cluster}, {name} {number}" if cluster else f"{name} {number}"


def _recognise(cluster: str, source: str) -> Recognise | None:
    return Recognise(cluster=cluster, source=source) if _NAME.fullmatch(cluster) else None


def _queues(queues: dict[str, Queue], hosts: list[Host]) -> dict[str, Any]:
    """The shape of nodes once, where it is the same in all queues."""
    shapes = {queue.node for queue in queues.values()}
    if len(shapes) == 1 and hosts:
        (shape,) = shapes
        queues = {name: queue._replace(node=Node()) for name, queue in queues.items()}
        return {"node": shape, "queues": queues}
    return {"queues": queues or None}


def _types(hosts: Iterable[Host], source: str) -> Iterator[tuple[str, Node]]:
    """The types of GPU that the scheduler knows."""
    hosts = list(hosts)
    for name in sorted({host.gpu_type for host in hosts if host.gpu_type}):
        if _NAME.fullmatch(name):
            yield name, _shape([host for host in hosts if host.gpu_type == name], source)


def _shape(hosts: list[Host], source: str) -> Node:
    """The most that one of these hosts gives; CPUs of a GPU, the least of their shares."""
    types = {host.gpu_type for host in hosts if host.gpus}
    shares = [host.cpus // host.gpus for host in hosts if host.gpus]
    threads = {host.threads for host in hosts}
    return Node(
        gpus=max(host.gpus for host in hosts) or None,
        gpu=next(iter(types)) if len(types) == 1 else None,
        cpus=max(host.cpus for host in hosts) or None,
        cpu_unit=None if threads == {0} else "thread" if max(threads) > 1 else "core",
        memory=max(host.memory for host in hosts) or None,
        cpus_per_gpu=min(shares, default=0) or None,
        source=source,
    )


def _number(value: object) -> int:
    """A whole number; 0 for what is none, such as UNLIMITED or (null)."""
    return int(str(value)) if re.fullmatch(r"[0-9]{1,15}", str(value)) else 0


def _memory(value: object) -> int:
    """PBS's amount of memory, such as 128gb, or bytes, in KiB."""
    match = re.fullmatch(r"([0-9]{1,18})([kmgtp]?)b?", str(value).lower())
    if not match:
        return 0
    power = "kmgtp".find(match[2]) if match[2] else -1
    return int(int(match[1]) * 1024**power)


def _seconds(value: object) -> int | None:
    """`[D-]HH:MM:SS`, as Slurm and PBS print it, or PBS's seconds; None where there is no limit."""
    match = re.fullmatch(r"(?:(\d{1,6})-)?(\d{1,6}):(\d\d):(\d\d)", str(value))
    if match:
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
        return days * 86400 + hours * 3600 + minutes * 60 + seconds or None
    return _number(value) or None
