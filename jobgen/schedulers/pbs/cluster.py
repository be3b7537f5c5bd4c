"""The cluster as PBS describes it: as JSON, or as text if its JSON cannot be read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Literal

from jobgen.errors import RefusedError
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
from jobgen.sites.profile import Limit, Node, SiteProfile, SiteQueue, SiteSource
from jobgen.spec.units import parse_bytes

PROGRAMS = ("qsub", "qstat")
PROBE = ("qstat", "--version")
_QUERIES = {
    "Server": ("qstat", "-B", "-f"),
    "Queue": ("qstat", "-Q", "-f"),
    "nodes": ("pbsnodes", "-a"),
}
_AS_JSON = ("-F", "json")


def parse_version(output: str) -> str | None:
    """Return the number in `pbs_version = 23.06.06`."""
    version = re.search(r"pbs_version = (\S+)", output)
    return version[1] if version else None


def ask_name(ask: Ask) -> str | None:
    """Return the name of the server."""
    return next(iter(_ask_records("Server", ask)), None)


def ask_facts(ask: Ask) -> ClusterFacts:
    """Return the queues, and whether PBS keeps a history of jobs."""
    name, facts = next(iter(_ask_records("Server", ask).items()), (None, {}))
    default = facts.get("default_queue")
    records = _ask_records("Queue", ask)
    queues = {queue: queue == default for queue in records}
    history = "PBS keeps ended jobs"
    if str(facts.get("job_history_enable")) != "True":
        forgets = "PBS forgets a job at its end (job_history_enable is unset)"
        history = f"{forgets}; its run folder says how it ended"
    closed = {queue: why for queue, record in records.items() if (why := _find_why_closed(record))}
    return ClusterFacts(name, queues, notes=(("job history", history),), closed=closed)


def list_accounts(ask: Ask) -> list[str]:
    """Return nothing: PBS does not say (`lists_accounts`)."""
    return []


def capture(version: str, ask: Ask) -> SiteProfile:
    server = _ask_records("Server", ask)
    records = _ask_records("Queue", ask)
    hosts = list(_sum_hosts(_ask_records("nodes", ask)))
    name, attributes = next(iter(server.items()), ("", {}))
    records = {queue: record for queue, record in records.items() if NAME.fullmatch(queue)}
    routes = {
        target.strip().partition("@")[0]: source
        for source, record in records.items()
        for target in str(record.get("route_destinations", "")).split(",")
    }
    queues = {
        queue: _read_queue(
            record, routed_from=routes.get(queue), default=queue == attributes.get("default_queue")
        )
        for queue, record in records.items()
    }
    sources = {
        key.lower(): SiteSource(f"captured: {' '.join((*argv, *_AS_JSON))}")
        for key, argv in _QUERIES.items()
    }
    every = SiteQueue()
    if 0 < len(hosts) <= MOST:
        every = SiteQueue(limits=(Limit(nodes=(1, len(hosts))),), source="nodes")
    return make_profile(
        "pbs",
        name,
        version,
        "server",
        sources=sources,
        node=_add_defaults(describe_node(hosts), attributes),
        queues=queues,
        every_queue=every,
    )


def _ask_records(what: Literal["Server", "Queue", "nodes"], ask: Ask) -> Records:
    """The server, queues or nodes by name, each with PBS's attributes."""
    try:
        document = json.loads(ask((*_QUERIES[what], *_AS_JSON)), strict=False)
        records = document.get(what, {})
        return {name: dict(attributes) for name, attributes in records.items()}
    except (RefusedError, ValueError, AttributeError, TypeError):
        return _parse_blocks(ask(_QUERIES[what]))


def _parse_blocks(text: str) -> Records:
    """The form of qstat -f and pbsnodes: a name, then indented `key = value`, wrapped by tabs."""
    records: Records = {}
    record: dict[str, Any] = {}
    for line in text.replace("\n\t", "").splitlines():
        key, equals, value = line.strip().partition(" = ")
        if line[:1].strip():
            record = records.setdefault(re.sub("^(Queue|Server): ", "", line.strip()), {})
        elif equals:
            outer, dot, inner = key.partition(".")
            if dot:
                record.setdefault(outer, {})[inner] = value
            else:
                record[key] = value
    return records


def _sum_hosts(nodes: Records) -> Iterator[HostShape]:
    summed: dict[str, list[int]] = {}
    for name, record in nodes.items():
        given = record.get("resources_available", {})
        amounts = [
            parse_number(given.get("ngpus")),
            parse_number(given.get("ncpus")),
            _parse_memory(given.get("mem")),
        ]
        if amounts[1]:  # those that never were up say nothing
            host = summed.setdefault(str(given.get("host") or record.get("Mom") or name), [0, 0, 0])
            host[:] = map(sum, zip(host, amounts, strict=True))
    for gpus, cpus, memory in summed.values():
        yield HostShape(gpus, None, cpus, memory, 0)


def _read_queue(record: dict[str, Any], *, routed_from: str | None, default: bool) -> SiteQueue:
    limit = _read_limit(record)
    only = str(record.get("from_route_only")) == "True"
    return SiteQueue(
        choose=default,
        routed_from=routed_from if only else None,
        limits=(limit,) if limit != Limit() else (),
        node=_add_defaults(Node(), record),
        default_walltime=parse_seconds(record.get("resources_default", {}).get("walltime")),
        note="; ".join(_list_notes(record)) or None,
        source="queue",
    )


def _read_limit(record: dict[str, Any]) -> Limit:
    most, least = (record.get(f"resources_{end}", {}) for end in ("max", "min"))
    ends: dict[str, Any] = {}
    for key, unit, smallest in (("nodes", "nodect", 1), ("gpus", "ngpus", 0), ("cpus", "ncpus", 1)):
        low, high = max(smallest, parse_number(least.get(unit))), parse_number(most.get(unit))
        if unit in most and low <= high <= MOST:
            ends[key] = (low, high)
        elif unit in least and smallest < low <= MOST:
            ends[key] = (low,)
    longest, shortest = parse_seconds(most.get("walltime")), parse_seconds(least.get("walltime"))
    ends["walltime"] = (shortest, longest) if shortest and longest else longest
    return Limit(**ends)


def _find_why_closed(record: dict[str, Any]) -> str:
    """Say why a queue takes or starts no jobs now; nothing of one that does."""
    keys = {"enabled": "takes no jobs", "started": "starts no jobs"}
    off = [key for key in keys if str(record.get(key, "True")) != "True"]
    return ", ".join(f"{keys[key]} ({key} = False)" for key in off)


def _list_notes(record: dict[str, Any]) -> Iterator[str]:
    for key, value in record.get("resources_max", {}).items():
        if key not in ("nodect", "ngpus", "ncpus", "walltime"):
            yield f"resources_max.{key}={value}"
    if str(record.get("enabled", "True")) != "True":
        yield "it took no jobs"
    if record.get("queue_type") == "Route":
        yield f"leads to {record.get('route_destinations', 'nowhere')}"
    if "True" in (str(record.get("acl_group_enable")), str(record.get("acl_user_enable"))):
        yield "for some groups or users"


def _add_defaults(node: Node, record: dict[str, Any]) -> Node:
    """Add the CPUs and memory of a chunk that does not ask for them, by a queue or the server."""
    given = {**record.get("resources_default", {}), **record.get("default_chunk", {})}
    return node._replace(
        default_cpus=parse_number(given.get("ncpus")) or None,
        default_memory=_parse_memory(given.get("mem")) or None,
    )


def _parse_memory(value: object) -> int:
    """Read PBS's amount of memory, such as 128gb, or bytes, in KiB."""
    return int(parse_bytes(value) or 0) // 1024
