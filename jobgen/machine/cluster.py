"""The scheduler of this machine, asked: which it is, and what it tells of its cluster.

Slurm is asked for text, one record a line, which all its versions print alike; its JSON has other
keys in each. PBS is asked for JSON, and for text if it prints none that can be read.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from jobgen.errors import JobgenError, RefusedError, SpecError
from jobgen.process import run
from jobgen.sites import search as sites
from jobgen.sites.profile import Recognise

SLURM = {
    "config": ("scontrol", "show", "config"),
    "partitions": ("scontrol", "--oneliner", "show", "partition"),
    "nodes": ("scontrol", "--oneliner", "show", "node"),
}
PBS = {
    "Server": ("qstat", "-B", "-f"),
    "Queue": ("qstat", "-Q", "-f"),
    "nodes": ("pbsnodes", "-a"),
}
_AS_JSON = ("-F", "json")
_VERSIONS = {
    "slurm": (("sbatch", "scontrol"), ("scontrol", "--version"), r"slurm\S*\s+(\S+)"),
    "pbs": (("qsub", "qstat"), ("qstat", "--version"), r"pbs_version = (\S+)"),
}

Records = dict[str, dict[str, Any]]


class DetectedScheduler(NamedTuple):
    """Which one is here, if any, and what the installed ones that did not answer printed."""

    name: Literal["slurm", "pbs"] | None
    version: str = ""
    silent: tuple[str, ...] = ()


class Deadline:
    """What is left of the time."""

    def __init__(self, end: float) -> None:
        self.end = end

    @classmethod
    def of(cls, seconds: float) -> Deadline:
        """A clock that has so many seconds from now."""
        return cls(time.monotonic() + seconds)

    @property
    def left(self) -> float:
        """Seconds for the next command; a moment at least."""
        return max(0.1, self.end - time.monotonic())


def detect_scheduler(*, timeout: float) -> DetectedScheduler:
    """The scheduler of this machine.

    A `qsub` alone tells nothing: Slurm has one too, and it may be left over. What answers counts.
    """
    silent: list[str] = []
    for name, (commands, argv, pattern) in _VERSIONS.items():
        if all(map(shutil.which, commands)):
            try:
                answer = run(argv, timeout=timeout)
            except JobgenError as error:
                silent.append(" ".join(str(error).splitlines()[-1:]))
                continue
            if version := re.search(pattern, answer):
                return DetectedScheduler(name, version[1], tuple(silent))  # type: ignore[arg-type]
            silent.append(f"{' '.join(argv)} does not say its version")
    return DetectedScheduler(None, "", tuple(silent))


def format_command(argv: Sequence[str]) -> str:
    """A command as it is named as a source."""
    return " ".join((*argv, *_AS_JSON) if argv in PBS.values() else argv)


def ask_cluster_name(scheduler: str, *, timeout: float) -> str | None:
    """What the scheduler that is here calls the cluster."""
    name: Callable[[], str | None] = {
        "slurm": lambda: ask_slurm_config(timeout=timeout).get("ClusterName"),
        "pbs": lambda: next(iter(ask_pbs("Server", timeout=timeout)), None),
    }[scheduler]
    return name()


def ask_slurm_config(*, timeout: float) -> dict[str, str]:
    """Slurm's configuration, such as ClusterName, and as `asked at` when the controller sent it.

    Raises what `process.run` raises.
    """
    text = run(SLURM["config"], timeout=timeout)
    config = dict(re.findall(r"(?m)^(\S+) *= (.*?) *$", text))
    if when := re.match(r"Configuration data as of ([0-9T:-]{19})\n", text):
        config["asked at"] = when[1]
    return config


def ask_slurm(what: Literal["partitions", "nodes"], *, timeout: float) -> Records:
    """Partitions or nodes by name, each with the words of `scontrol show`."""
    records: Records = {}
    for line in run(SLURM[what], timeout=timeout).splitlines():
        record: dict[str, Any] = {}
        for word in line.split():
            key, equals, value = word.partition("=")
            if equals:  # the first counts: what people write, such as a reason, comes last
                record.setdefault(key, value)
        name = record.get("PartitionName" if what == "partitions" else "NodeName")
        if name:
            records[name] = record
    return records


def list_own_accounts(*, timeout: float) -> list[str]:
    """The accounts that Slurm lets this user charge, the default first.

    Raises SchedulerUnavailableError or RefusedError where it does not tell.
    """
    user = run(["id", "-un"], timeout=timeout).strip()
    argv = ["sacctmgr", "-nP", "show", "user", user, "withassoc", "format=defaultaccount,account"]
    pairs = [line.split("|") for line in run(argv, timeout=timeout).splitlines()]
    accounts = [word for pair in pairs for word in pair[:1]] + [
        word for pair in pairs for word in pair[1:2]
    ]
    return list(dict.fromkeys(word for word in accounts if word))


def ask_pbs(what: Literal["Server", "Queue", "nodes"], *, timeout: float) -> Records:
    """The server, queues or nodes by name, each with PBS's attributes."""
    try:
        document = json.loads(run((*PBS[what], *_AS_JSON), timeout=timeout), strict=False)
        records = document.get(what, {})
        return {name: dict(attributes) for name, attributes in records.items()}
    except (RefusedError, ValueError, AttributeError, TypeError):
        return _parse_blocks(run(PBS[what], timeout=timeout))


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


# --- which site it is -------------------------------------------------------------------


class Recognised(NamedTuple):
    """A site, and what it was recognised by."""

    name: str
    how: str


class Recognition(NamedTuple):
    """The sites that know the machine, those of the user first; profiles that cannot be read."""

    sites: tuple[Recognised, ...]
    unreadable: tuple[str, ...] = ()


def get_host_name(*, timeout: float) -> str:
    """This machine's name, with its domain where that is known."""
    try:
        return run(["hostname", "-f"], timeout=timeout).strip() or os.uname().nodename
    except JobgenError:
        return os.uname().nodename


def recognise(*, host: str, cluster: str | None, environment: Mapping[str, str]) -> Recognition:
    """Look for a site that knows this host name, scheduler's cluster name or environment."""
    folders = sites.list_folders()
    known: list[tuple[int, Recognised]] = []
    unreadable = []
    for name in sites.list_names():
        try:
            profile = sites.find(name)
        except SpecError:
            unreadable.append(name)
            continue
        facts = profile.profile.recognise
        how = next(_match_facts(facts, host, cluster, environment), None) if facts else None
        if how is not None:
            order = -folders.index(os.path.dirname(profile.files[0]))
            known.append((order, Recognised(name, how)))
    return Recognition(tuple(site for _, site in sorted(known)), tuple(unreadable))


def _match_facts(
    facts: Recognise, host: str, cluster: str | None, environment: Mapping[str, str]
) -> Iterator[str]:
    for name, value in (facts.variables or {}).items():
        if environment.get(name) == value:
            yield f"${name} is {value}"
    if facts.domain and f".{host}".endswith(f".{facts.domain}"):
        yield f"the host is called {host}"
    if facts.cluster and facts.cluster == cluster:
        yield f"its scheduler calls the cluster {cluster}"
