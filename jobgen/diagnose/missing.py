"""Who is missing where all that failed have only lost another: a node, a rank that left.

Nothing of it is a message: it follows from what has not been written.
"""

from __future__ import annotations

import re

from jobgen.diagnose.cause import LEFT_EARLY, SILENT_NODE, STAYED, STOPPED, Cause
from jobgen.diagnose.ending import OF_EXITS, select_telling
from jobgen.diagnose.evidence import Evidence
from jobgen.diagnose.explaining import Explained, collect_ranks, name_exit
from jobgen.diagnose.matching import find_cause
from jobgen.diagnose.reading import NO_LINE, Line, drop
from jobgen.records import NamedTuple

_SIGNALLED = re.compile(r"SignalException: Process \d+ got signal: (\d{1,9})$")


class Absent(NamedTuple):
    """What is missing, and the line that shows it best."""

    cause: Cause
    node: str | None
    rank: int | None
    line: Line


def find_absent(evidence: Evidence, failures: list[Explained]) -> Absent | None:
    """Return who was lost by those in `failures`; None where that cannot be told."""
    lost = collect_ranks(failures)
    absent = _find_signalled_agent(evidence) or _find_silent_node(evidence, lost)
    if absent:
        return absent
    left = _list_left(evidence, lost)
    if len(failures) == 1 and len(left) == evidence.world - 1 > 1:
        failed = failures[0]
        return Absent(STAYED, failed.failure.node, failed.failure.rank, failed.line)
    return _show_left(evidence, left[0]) if len(left) == 1 else None


def _list_left(evidence: Evidence, lost: set[int]) -> list[int]:
    """The ranks that may have left with exit code 0: they miss no other."""
    others = [rank for rank in evidence.ranks if rank not in lost]
    ended_well = [rank for rank in others if evidence.exit_codes.get(rank, 0) == 0]
    return [rank for rank in ended_well if not _has_lost(evidence, rank)]


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
            return Absent(SILENT_NODE, node, None, [NO_LINE, *words][-1])
    return None


def _show_left(evidence: Evidence, rank: int) -> Absent:
    """One that left early, with its last error, or else with what it said last."""
    log = evidence.logs[rank]
    errors = [line for line in drop(log, OF_EXITS.match) if line.file.suffix == ".err"]
    shows = [*errors[-1:], *select_telling(log), NO_LINE]
    return Absent(LEFT_EARLY, evidence.ranks[rank], rank, shows[0])


def _has_lost(evidence: Evidence, rank: int) -> bool:
    """Whether a process has noticed that another is gone, before its agent has ended it."""
    match = find_cause(evidence.logs[rank], "rank")
    return match is not None and match.cause.symptom
