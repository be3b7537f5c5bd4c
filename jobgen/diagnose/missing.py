"""Who is missing where all that failed have only lost another: a node, a rank that left.

Nothing of it is a message: it follows from what has not been written.
"""

from __future__ import annotations

import re
import socket

from jobgen.diagnose.cause import Cause
from jobgen.diagnose.ending import OF_EXITS, select_telling
from jobgen.diagnose.evidence import Evidence
from jobgen.diagnose.matching import Explained, find_cause, name_exit
from jobgen.diagnose.reading import Line, drop
from jobgen.jobs import status
from jobgen.records import NamedTuple

LEFT_EARLY = Cause(
    "left-early",
    "it left with exit code 0 while the others were still at work",
    "look for a return, sys.exit() or break that only this rank reaches, such as at the end of "
    "its data; all ranks must take the same number of steps",
)
SILENT_NODE = Cause(
    "node-lost",
    "it has gone silent: its agent did not end and said nothing, and others lost the connection "
    "to it",
    "submit again; {leave_out}, and tell your administrators",
    of_machine=True,
)
APART = Cause(
    "apart",
    f"it ended well, but {status.APART}",
    "if they are to work together, look whether the program calls init_process_group, or tells its "
    "library of RANK, WORLD_SIZE and MASTER_ADDR",
)
STOPPED = Cause(
    "",
    "something other than the job's script stopped its agent: ",
    "look for who sent it: the program itself, a preemption, an administrator",
)
STAYED = Cause(
    "left-early",
    "it was still at work when all others had left with exit code 0",
    "look for a barrier or another collective operation that only this rank enters, such as in "
    "`if rank == 0`",
)
CAUSES = (APART, LEFT_EARLY, SILENT_NODE)
_SIGNALLED = re.compile(r"SignalException: Process \d+ got signal: (\d+)$")
_PEER = re.compile(r"by peer \[(?:::ffff:)?([0-9a-fA-F.:]+)\]|\[([0-9.]+)\]:\d+: Connection reset")


class Absent(NamedTuple):
    """What is missing, and the line that shows it best."""

    cause: Cause
    node: str | None
    rank: int | None
    line: Line | None


def find_absent(evidence: Evidence, failures: list[Explained]) -> Absent | None:
    """Return who was lost by those in `failures`; None where that cannot be told."""
    lost = {one.failure.rank for one in failures if one.failure.rank is not None}
    absent = _find_signalled_agent(evidence) or _find_silent_node(evidence, lost)
    if absent:
        return absent
    left = _list_left(evidence, lost)
    if len(failures) == 1 and len(left) == evidence.world - 1 > 1:
        failed = failures[0]
        return Absent(STAYED, failed.failure.node, failed.failure.rank, failed.line)
    if len(left) > 1:
        left = _narrow(left, evidence, failures)
    return _show_left(evidence, *left.popitem()) if len(left) == 1 else None


def _narrow(left: dict[int, str], evidence: Evidence, failures: list[Explained]) -> dict[int, str]:
    """Those that have surely left: by their own exit code, or by an address that others lost."""
    codes = evidence.exit_codes
    known = {rank: node for rank, node in left.items() if rank in codes}
    if len(known) == 1:
        return known
    hosts = _find_lost_hosts(evidence, failures)
    return {rank: node for rank, node in left.items() if node in hosts}


def _list_left(evidence: Evidence, lost: set[int]) -> dict[int, str]:
    """The ranks that may have left with exit code 0, each with its node: they miss no other."""
    codes = evidence.exit_codes
    others = {rank: node for rank, node in evidence.ranks.items() if rank not in lost}
    return {
        rank: node
        for rank, node in others.items()
        if codes.get(rank, 0) == 0 and not _has_lost(evidence, rank)
    }


def _find_signalled_agent(evidence: Evidence) -> Absent | None:
    node = evidence.first_node
    last = evidence.last_words(node)[-1:] if node else ()
    signalled = _SIGNALLED.search(last[0].text) if last else None
    if not signalled:
        return None
    title = STOPPED.title + name_exit(-int(signalled[1]))
    return Absent(STOPPED._replace(id=f"exit -{signalled[1]}", title=title), node, None, last[0])


def _find_silent_node(evidence: Evidence, lost: set[int]) -> Absent | None:
    """A node none of whose processes has ended, or noticed that another is gone.

    Where the launcher has killed its agent, that or its processes noticed something before.
    """
    noticed = {*lost, *evidence.exit_codes}
    for node in evidence.unended_nodes():
        ranks = [rank for rank, place in evidence.ranks.items() if place == node]
        if not any(rank in noticed or _has_lost(evidence, rank) for rank in ranks):
            words = evidence.last_words(node)
            return Absent(SILENT_NODE, node, None, words[-1] if words else None)
    return None


def _show_left(evidence: Evidence, rank: int, node: str) -> Absent:
    """One that left early, with its last error, or else with what it said last."""
    log = evidence.logs[rank]
    errors = [line for line in drop(log, OF_EXITS.match) if line.file.suffix == ".err"]
    shows = errors[-1:] or select_telling(log)
    return Absent(LEFT_EARLY, node, rank, shows[0] if shows else None)


def _has_lost(evidence: Evidence, rank: int) -> bool:
    """Whether a process has noticed that another is gone, before its agent has ended it."""
    match = find_cause(evidence.logs[rank], "rank")
    return match is not None and match.cause.symptom


def _find_lost_hosts(evidence: Evidence, failures: list[Explained]) -> set[str]:
    """The nodes of the addresses that the failed processes lost, their own nodes left out."""
    lost: dict[str, set[str]] = {}
    for failed in failures:
        text = " ".join(line.text for line in failed.tail)
        for match in _PEER.finditer(text):
            lost.setdefault(match[1] or match[2], set()).add(failed.failure.node)
    hosts = set()
    for node in evidence.nodes if lost else ():
        try:
            addresses = {str(entry[4][0]) for entry in socket.getaddrinfo(node, None)}
        except (OSError, UnicodeError):
            continue
        hosts |= {node} if addresses & lost.keys() else set()
    return hosts
