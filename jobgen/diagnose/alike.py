"""All that failed as the first one did, who of them is the odd one, and who failed otherwise."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jobgen.diagnose.diagnosis import MOST_NAMES, Diagnosis, choose_words, list_ranks
from jobgen.diagnose.evidence import STOPPED_BY_OTHERS, Evidence, Failure
from jobgen.diagnose.explaining import Explained
from jobgen.diagnose.odd import find_accused, find_odd
from jobgen.diagnose.processes import Processes
from jobgen.diagnose.reading import MOST_WORDS, keep, read_words
from jobgen.output import format_names

# How timers end a process, which each of them has: the command `timeout`, SIGALRM.
_OF_TIMERS = (124, -14)
_COMPARES = read_words("compares", re.IGNORECASE)


def name_alike(about: Diagnosis, alike: list[Explained], processes: Processes) -> Diagnosis:
    """Return `about` with all that failed `alike`, and those that failed of another cause."""
    evidence, first = processes.evidence, alike[0].failure
    if len(alike) > 1:
        about = _name_odd(about, alike, evidence=evidence)
    ended = _list_ended(alike, evidence)
    ranks = {one.rank for one in ended if one.rank is not None}
    nodes = {one.node for one in ended}
    began = bool(evidence.ranks)
    title = about.title
    if len(nodes) > 1 and not began:
        title = re.sub(rf" on {re.escape(first.node)}\b", "", title)
    unheard = _tell_ranks(evidence, ranks) if ranks else _tell_nodes(evidence, nodes)
    return about._replace(
        title=f"{title}{unheard}",
        nodes=tuple(node for node in evidence.nodes if node in nodes),
        ranks=tuple(sorted(ranks)),
        world=evidence.world,
        all_nodes=not began and nodes == {*evidence.nodes},
        besides=tuple(_list_besides(processes.own, alike[0].key, ranks=ranks)),
    )


def _list_ended(alike: list[Explained], evidence: Evidence) -> list[Failure]:
    ended = [one.failure for one in alike]
    if len(alike) > 1 and ended[0].exit_code in _OF_TIMERS:  # those of others were about to
        ended += evidence.stopped
    return ended


def _list_besides(own: list[Explained], key: str, *, ranks: set[int]) -> Iterator[str]:
    """Who failed of another cause; a node that was stopped as another failed has not failed."""
    for one in own:
        stopped = one.failure.exit_code == STOPPED_BY_OTHERS
        if one.key != key and not stopped and one.failure.rank not in ranks:
            who = "" if one.failure.rank is None else f"rank {one.failure.rank} on "
            yield f"{who}{one.failure.node}: {one.title}"


def _tell_ranks(evidence: Evidence, ranks: set[int]) -> str:
    """Say who was ended before a word of it, where all others have failed alike."""
    silent = [rank for rank, log in evidence.logs.items() if not log and rank not in ranks]
    if len(silent) >= len(ranks) or len(silent) + len(ranks) < evidence.world:
        return ""
    return _tell_unheard(list_ranks(silent), len(silent))


def _tell_nodes(evidence: Evidence, nodes: set[str]) -> str:
    heard = {*nodes, *evidence.ranks.values()}
    others = [node for node in evidence.nodes if node not in heard]
    return _tell_unheard(format_names(others, most=MOST_NAMES), len(others))


def _tell_unheard(unheard: str, count: int) -> str:
    were = choose_words(count, "was", "were")
    return f"; {unheard} {were} ended too early to tell" if count else ""


def _name_odd(about: Diagnosis, alike: list[Explained], *, evidence: Evidence) -> Diagnosis:
    """The same, with the one that all name, or that has printed what no other has.

    It is the one where they say that they have compared, or speak of another.
    """
    named = {one.failure.rank: one.named & evidence.ranks.keys() for one in alike}
    compared = any(keep(one.tail, _COMPARES.search) for one in alike)
    if not compared and not any(ranks - {rank} for rank, ranks in named.items()):
        return about
    rank, words = _find_odd(evidence, [*named.values()])
    if words and rank in named:
        about = about._replace(node=evidence.ranks[rank], rank=rank)
    return about._replace(title=f"{about.title}; rank {rank}: {words}") if words else about


def _find_odd(evidence: Evidence, named: list[set[int]]) -> tuple[int, str]:
    if len(named) > 1 and len(named[0]) == 1 and all(ranks == named[0] for ranks in named):
        return min(named[0]), "they name it"
    odd = find_accused(evidence) or find_odd(evidence, behind=False)
    return (odd.ranks[0], odd.title[:MOST_WORDS]) if odd else (-1, "")
