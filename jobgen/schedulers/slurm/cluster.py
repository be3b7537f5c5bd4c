"""The cluster as Slurm describes it, one record a line, which all its versions print alike.

Its JSON has other keys in each version.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from jobgen.errors import JobgenError, RefusedError
from jobgen.schedulers.base import Ask, ClusterFacts
from jobgen.schedulers.cluster import (
    MOST,
    NAME,
    HostShape,
    Records,
    describe_node,
    make_profile,
    parse_number,
    parse_seconds,
)
from jobgen.sites.profile import Limit, Node, SiteProfile, SiteQueue, SiteSource, SlurmDialect

PROGRAMS = ("sbatch", "scontrol")
PROBE = ("scontrol", "--version")
_QUERIES = {
    "config": ("scontrol", "show", "config"),
    "partitions": ("scontrol", "--oneliner", "show", "partition"),
    "nodes": ("scontrol", "--oneliner", "show", "node"),
}
_TELLING = ("AllowAccounts", "AllowGroups", "AllowQos", "DenyAccounts", "DenyQos")


def parse_version(output: str) -> str | None:
    """Return the number in `slurm 24.11.5`, also of a site's build, such as `slurm-wlm 22.05.8`."""
    version = re.search(r"slurm\S*\s+(\S+)", output)
    return version[1] if version else None


def ask_name(ask: Ask) -> str | None:
    return _ask_config(ask).get("ClusterName")


def ask_facts(ask: Ask) -> ClusterFacts:
    """Return the partitions; some sites hide the rest from users."""
    partitions = _ask_records("partitions", ask)
    queues = {queue: facts.get("Default") == "YES" for queue, facts in partitions.items()}
    config = _ask_config(ask)
    return ClusterFacts(
        config.get("ClusterName"),
        queues,
        clock=config.get("asked at"),
        enforces_accounts="associations" in config.get("AccountingStorageEnforce", ""),
    )


def list_accounts(ask: Ask) -> list[str]:
    """The accounts that Slurm lets this user charge, the default first.

    Raises SchedulerUnavailableError or RefusedError where it does not tell.
    """
    user = ask(["id", "-un"]).strip()
    argv = ["sacctmgr", "-nP", "show", "user", user, "withassoc", "format=defaultaccount,account"]
    try:
        pairs = [line.split("|") for line in ask(argv).splitlines()]
    except RefusedError as error:
        known = "accounting_storage plugin" in str(error)
        raise RefusedError("this cluster has no accounting" if known else str(error)) from None
    columns = ([pair[at] for pair in pairs if pair[at:]] for at in (0, 1))
    return list(dict.fromkeys(word for column in columns for word in column if word))


def _takes_jobs(name: str, partition: Mapping[str, str]) -> bool:
    """Whether users can start jobs in a partition, of a name that a spec can have."""
    reserved = partition.get("RootOnly") == "YES" or partition.get("TotalNodes") == "0"
    return not reserved and NAME.fullmatch(name) is not None


def capture(version: str, ask: Ask) -> SiteProfile:
    config = _ask_config(ask)
    partitions = _ask_records("partitions", ask)
    nodes = _ask_records("nodes", ask)
    hosts = [_read_host(node) for node in nodes.values() if "FUTURE" not in node.get("State", "")]
    queues = {
        name: _read_partition(record, [host for host in hosts if name in host.queues])
        for name, record in partitions.items()
        if _takes_jobs(name, record)
    }
    cluster = config.get("ClusterName", "")
    old = "SelectType" in config and config["SelectType"] != "select/cons_tres"
    sources = {key: SiteSource(f"captured: {' '.join(argv)}") for key, argv in _QUERIES.items()}
    if not config:
        del sources["config"]
    facts = _describe_queues(queues, hosts)
    if old:  # --gpus-per-node is cons_tres' alone
        facts |= {"slurm": SlurmDialect(gpus="gres"), "cited": {"slurm": "config"}}
    facts |= {"gpu_types": dict(_list_types(hosts)), "sources": sources}
    return make_profile("slurm", cluster, version, "config", **facts)


def _ask_config(ask: Ask) -> dict[str, str]:
    """Slurm's configuration, such as ClusterName, and as `asked at` when the controller sent it."""
    try:
        text = ask(_QUERIES["config"])
    except JobgenError:  # some sites keep it from users
        return {}
    config = dict(re.findall(r"(?m)^(\S+) *= (.*?) *$", text))
    if when := re.match(r"Configuration data as of ([0-9T:-]{19})\n", text):
        config["asked at"] = when[1]
    return config


def _ask_records(what: Literal["partitions", "nodes"], ask: Ask) -> Records:
    """Partitions or nodes by name, each with the words of `scontrol show`."""
    records: Records = {}
    for line in ask(_QUERIES[what]).splitlines():
        record: dict[str, Any] = {}
        for word in line.split():
            key, equals, value = word.partition("=")
            if equals:  # the first counts: what people write, such as a reason, comes last
                record.setdefault(key, value)
        name = record.get("PartitionName" if what == "partitions" else "NodeName")
        if name:
            records[name] = record
    return records


def _read_host(node: dict[str, str]) -> HostShape:
    gpus = re.findall(r"(?:^|,)gpu(?::([^:,()]+))?:(\d+)", node.get("Gres", ""))
    types = {name or None for name, _ in gpus}
    threads = parse_number(node.get("ThreadsPerCore")) or 1
    cpus = parse_number(node.get("CPUTot"))
    cores = parse_number(node.get("Sockets")) * parse_number(node.get("CoresPerSocket"))
    memory = parse_number(node.get("RealMemory")) - parse_number(node.get("MemSpecLimit"))
    return HostShape(
        gpus=sum(int(count) for _, count in gpus),
        gpu_type=next(iter(types)) if len(types) == 1 else None,
        cpus=parse_number(node.get("CPUEfctv")) or cpus,
        memory=memory * 1024,
        threads=threads if cpus > cores else 1,
        queues=frozenset(node.get("Partitions", "").split(",")),
    )


def _read_partition(record: dict[str, str], hosts: list[HostShape]) -> SiteQueue:
    total = parse_number(record.get("TotalNodes"))
    nodes = min(parse_number(record.get("MaxNodes")) or total, total)
    least = max(1, parse_number(record.get("MinNodes")))
    notes = [f"{key}={record[key]}" for key in _TELLING if record.get(key, "ALL") != "ALL"]
    if record.get("QoS", "N/A") != "N/A":
        notes.append(f"its QoS {record['QoS']} may have its own limits")
    if record.get("State", "UP") != "UP":
        notes.append(f"its state was {record['State']}")
    if record.get("ReqResv") == "YES":
        notes.append("for jobs of a reservation")
    limit = Limit(
        nodes=(least, nodes) if least <= nodes <= MOST else None,
        walltime=parse_seconds(record.get("MaxTime")),
    )
    return SiteQueue(
        choose=record.get("Default") == "YES",
        limits=(limit,) if limit != Limit() else (),
        node=_add_defaults(describe_node(hosts), record),
        default_walltime=parse_seconds(record.get("DefaultTime")),
        note="; ".join(notes) or None,
        source="partitions",
    )


def _add_defaults(node: Node, record: dict[str, str]) -> Node:
    """Add what a job of a partition gets if it does not ask for it; memory is in MB."""
    given = dict(part.partition("=")[::2] for part in record.get("JobDefaults", "").split(","))
    node = node._replace(
        whole=True if record.get("OverSubscribe") == "EXCLUSIVE" else None,
        default_cpus_per_gpu=parse_number(given.get("DefCpuPerGPU")) or None,
        default_memory=parse_number(record.get("DefMemPerNode")) * 1024 or None,
        default_memory_per_cpu=parse_number(record.get("DefMemPerCPU")) * 1024 or None,
        default_memory_per_gpu=parse_number(given.get("DefMemPerGPU")) * 1024 or None,
    )
    return node._replace(source="partitions") if node.source is None and node != Node() else node


def _describe_queues(queues: dict[str, SiteQueue], hosts: list[HostShape]) -> dict[str, Any]:
    """The shape of nodes once, where it is the same in all queues but for their numbers."""
    shapes = [queue.node._replace(hosts=None) for queue in queues.values()]
    if hosts and shapes and all(shape == shapes[0] for shape in shapes):
        source = shapes[0].source
        for name, queue in queues.items():
            own = Node(hosts=queue.node.hosts, source=source) if queue.node.hosts else Node()
            queues[name] = queue._replace(node=own)
        return {"node": shapes[0], "queues": queues}
    return {"queues": queues}


def _list_types(hosts: list[HostShape]) -> Iterator[tuple[str, Node]]:
    for name in sorted({host.gpu_type for host in hosts if host.gpu_type}):
        if NAME.fullmatch(name):
            yield name, describe_node([host for host in hosts if host.gpu_type == name])
