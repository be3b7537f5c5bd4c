"""What the script of a job with `on_failure` has judged of its failures, and the nodes to blame."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from jobgen.jobs.files import get_mtime, read_if_left
from jobgen.jobs.record import JobRecord
from jobgen.jobs.run_folder import read_loss, read_traces
from jobgen.output import format_table, make_printable
from jobgen.records import NamedTuple

_KINDS = ("stop", "restart", "unknown")


class Verdict(NamedTuple):
    """Why a start has failed, by its script: whether the program begins again, and the evidence."""

    start: int  # from 0, as its folder below attempts/
    verdict: str  # stop, restart or unknown
    cause: str
    rank: int | None
    nodes: tuple[str, ...]  # at fault, or suspected
    evidence: str

    def __str__(self) -> str:
        nodes = f" on {', '.join(self.nodes)}" if self.nodes else ""
        evidence = f": {self.evidence}" if self.evidence else ""
        what = f"verdict: {self.verdict} ({self.cause}){nodes}{evidence}"
        return f"start {self.start + 1} failed; {what}"


class BadNode(NamedTuple):
    """A node that a verdict has blamed."""

    node: str
    cause: str
    time: str  # of UTC, as 2026-03-01T12:00:00Z
    evidence: str

    def __str__(self) -> str:
        return f"bad node {self.node}: {self.cause}, {self.time}: {self.evidence}"


def read_verdicts(attempts: Iterable[str | Path]) -> Iterator[Verdict]:
    """Yield the verdicts of these starts; what is damaged is left out."""
    for attempt in attempts:
        text = make_printable(read_if_left(os.path.join(attempt, "verdict")))
        first, _, evidence = text.partition("\n")
        words = first.split()
        if len(words) > 2 and words[0] in _KINDS:
            verdict, cause, rank, *nodes = words
            number = int(rank) if rank.isdecimal() else None
            end = evidence.strip()[:300]
            yield Verdict(int(os.path.basename(attempt)), verdict, cause, number, tuple(nodes), end)


def read_bad_nodes(run_folder: str) -> Iterator[BadNode]:
    """Yield what the file `bad-nodes` of a run folder says; what is damaged is left out."""
    for line in make_printable(read_if_left(f"{run_folder}/bad-nodes")).splitlines():
        parts = line.split("\t", 3)
        if len(parts) == 4:
            yield BadNode(*parts)


def _read_losses(job: JobRecord) -> Iterator[BadNode]:
    """Yield the nodes that starts without a verdict have lost, by their scripts."""
    for attempt in chain.from_iterable(read_traces(part).attempts for part in job.parts):
        if os.path.exists(f"{attempt}/verdict"):
            continue
        nodes, words = read_loss(attempt)
        when = time.gmtime(get_mtime(f"{attempt}/failed"))
        moment, evidence = time.strftime("%Y-%m-%dT%H:%M:%SZ", when), make_printable(words)
        for node in nodes:
            yield BadNode(make_printable(node), "node-lost", moment, evidence)


class NodeBlame(NamedTuple):
    """What all jobs of a project say about one node."""

    node: str
    times: int
    causes: tuple[str, ...]
    last: str
    evidence: str  # of the last time
    jobs: tuple[str, ...]


def sum_bad_nodes(jobs: Iterable[JobRecord]) -> list[NodeBlame]:
    """Return the nodes that verdicts have blamed, and those that were lost; the worst first."""
    by_node: dict[str, list[tuple[BadNode, str]]] = {}
    for job in jobs:
        for bad in (*read_bad_nodes(job.run_folder), *_read_losses(job)):
            by_node.setdefault(bad.node, []).append((bad, job.id))
    records = []
    for node, entries in by_node.items():
        last = max((bad for bad, _ in entries), key=lambda bad: bad.time)
        causes = tuple(dict.fromkeys(bad.cause for bad, _ in entries))
        of_jobs = tuple(dict.fromkeys(id for _, id in entries))
        records.append(NodeBlame(node, len(entries), causes, last.time, last.evidence, of_jobs))
    return sorted(records, key=lambda one: (-one.times, one.node))


def format_bad_nodes(records: Iterable[NodeBlame]) -> str:
    """Return a line for each node, under the names of the columns."""
    lines: list[tuple[str, ...]] = [("NODE", "TIMES", "CAUSES", "LAST", "JOBS", "")]
    for one in records:
        words = (", ".join(one.causes), one.last, " ".join(one.jobs), one.evidence)
        lines.append((one.node, str(one.times), *words))
    return "".join(f"{line}\n" for line in format_table(lines))
