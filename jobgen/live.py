"""The scheduler of this machine, asked: which it is, and what it tells of its cluster.

Slurm is asked for text, one record a line, which all its versions print alike; its JSON has other
keys in each. PBS is asked for JSON, and for text where there is none, or none that can be read.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from jobgen.errors import JobgenError, RefusedError
from jobgen.process import run

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


class Scheduler(NamedTuple):
    """Which one is here, if any, and what those said that are installed and did not answer."""

    name: Literal["slurm", "pbs"] | None
    version: str = ""
    silent: tuple[str, ...] = ()


class Clock:
    """What is left of the time."""

    def __init__(self, end: float) -> None:
        self.end = end

    @classmethod
    def of(cls, seconds: float) -> Clock:
        """A clock that has so many seconds from now."""
        return cls(time.monotonic() + seconds)

    @property
    def left(self) -> float:
        """Seconds for the next command; a moment at least."""
        return max(0.1, self.end - time.monotonic())


def scheduler(*, timeout: float) -> Scheduler:
    """The scheduler of this machine.

    A `qsub` alone tells nothing: Slurm has one too, and it may be left over. What answers counts.
    """
    silent: list[str] = []
    for name, (commands, argv, pattern) in _VERSIONS.items():
        if all(map(shutil.which, commands)):
            try:
                said = run(argv, timeout=timeout)
            except JobgenError as error:
                silent.append(" ".join(str(error).splitlines()[-1:]))
                continue
            if version := re.search(pattern, said):
                return Scheduler(name, version[1], tuple(silent))  # type: ignore[arg-type]
            silent.append(f"{' '.join(argv)} does not say its version")
    return Scheduler(None, "", tuple(silent))


def command(argv: Sequence[str]) -> str:
    """A command as it is named as a source."""
    return " ".join((*argv, *_AS_JSON) if argv in PBS.values() else argv)


def slurm_config(*, timeout: float) -> dict[str, str]:
    """Slurm's configuration, such as ClusterName, and as `asked at` when the controller sent it.

    Raises what `process.run` raises.
    """
    text = run(SLURM["config"], timeout=timeout)
    found = dict(re.findall(r"(?m)^(\S+) *= (.*?) *$", text))
    if when := re.match(r"Configuration data as of ([0-9T:-]{19})\n", text):
        found["asked at"] = when[1]
    return found


def slurm(what: Literal["partitions", "nodes"], *, timeout: float) -> Records:
    """Partitions or nodes by name, each with the words of `scontrol show`."""
    found: Records = {}
    for line in run(SLURM[what], timeout=timeout).splitlines():
        record: dict[str, Any] = {}
        for word in line.split():
            key, equals, value = word.partition("=")
            if equals:  # the first counts: what people write, such as a reason, comes last
                record.setdefault(key, value)
        name = record.get("PartitionName" if what == "partitions" else "NodeName")
        if name:
            found[name] = record
    return found


def own_accounts(*, timeout: float) -> list[str]:
    """The accounts that Slurm lets this user charge, the default first.

    Raises SchedulerUnavailableError or RefusedError where it does not tell.
    """
    user = run(["id", "-un"], timeout=timeout).strip()
    argv = ["sacctmgr", "-nP", "show", "user", user, "withassoc", "format=defaultaccount,account"]
    pairs = [line.split("|") for line in run(argv, timeout=timeout).splitlines()]
    found = [word for pair in pairs for word in pair[:1]] + [
        word for pair in pairs for word in pair[1:2]
    ]
    return list(dict.fromkeys(word for word in found if word))


def pbs(what: Literal["Server", "Queue", "nodes"], *, timeout: float) -> Records:
    """The server, queues or nodes by name, each with PBS's attributes."""
    try:
        document = json.loads(run((*PBS[what], *_AS_JSON), timeout=timeout), strict=False)
        found = document.get(what, {})
        return {name: dict(attributes) for name, attributes in found.items()}
    except (RefusedError, ValueError, AttributeError, TypeError):
        return _blocks(run(PBS[what], timeout=timeout))


def _blocks(text: str) -> Records:
    """The form of qstat -f and pbsnodes: a name, then indented `key = value`, wrapped by tabs."""
    found: Records = {}
    record: dict[str, Any] = {}
    for line in text.replace("\n\t", "").splitlines():
        key, equals, value = line.strip().partition(" = ")
        if line[:1].strip():
            record = found.setdefault(re.sub("^(Queue|Server): ", "", line.strip()), {})
        elif equals:
            outer, dot, inner = key.partition(".")
            if dot:
                record.setdefault(outer, {})[inner] = value
            else:
                record[key] = value
    return found
