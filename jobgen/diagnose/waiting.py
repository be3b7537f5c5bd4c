"""For which of its processes a job waits that does not get on, or that failed by waiting."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from itertools import chain

from jobgen.diagnose import hangs
from jobgen.diagnose.cause import TIMEOUT, WAITED
from jobgen.diagnose.diagnosis import MOST_LINES, Diagnosis, choose_words, list_ranks, show_lines
from jobgen.diagnose.ending import normalize, normalize_lines, select_telling
from jobgen.diagnose.evidence import STOPPED_BY_OTHERS, Evidence
from jobgen.diagnose.exceptions import find_tracebacks
from jobgen.diagnose.explaining import MISSED, Explained, collect_ranks, read_ranks
from jobgen.diagnose.odd import Suspects, find_odd
from jobgen.diagnose.reading import MOST_WORDS, Line, keep, read_words

_LAST_LINES = 20  # of a log, which may say who was missed
_MOST_CALLS = 8
_CAME = read_words("came")
_OPERATION = read_words("operation")


class Waiting:
    """Processes that waited for others, or lost them; and who it was that they missed."""

    def __init__(self, evidence: Evidence, waiting: Sequence[Explained]) -> None:
        self.evidence, self.waiting = evidence, waiting
        self.heard = collect_ranks(waiting)
        self.silent = tuple(rank for rank in evidence.ranks if rank not in self.heard)

    def blame(self, about: Diagnosis) -> Diagnosis:
        """Return it with the one that was waited for in the place of one that waited, if known."""
        if operations := self._list_operations():
            return self._compare_operations(about, operations)
        if suspects := self.find_suspects():
            return self._name_suspects(about, suspects)
        about = about._replace(node=None, rank=None)
        lost = any(one.cause.symptom for one in self.waiting)
        if not lost and 1 < len(self.heard) == self.evidence.world:
            return self._name_all(about)
        return self._name_nobody(about)

    def find_suspects(self) -> Suspects | None:
        """Who is waited for, by the first of `_SIGNS` that tells; None where no file does."""
        suspects = next(filter(None, (look(self) for look in _SIGNS)), None)
        return suspects and hangs.add_stack(self.evidence, suspects)

    def find_named(self) -> Suspects | None:
        """The one rank that a process says it has missed, if that was at work to the end.

        What it said of its end counts; of one that lost another, or that its library ended, the end
        of its log.
        """
        codes, logs = self.evidence.exit_codes, self.evidence.logs
        for one in self.waiting:
            lines = one.failure.lines[-_LAST_LINES:] if one.cause.symptom else _list_last_words(one)
            missing = [at for at, line in enumerate(lines) if MISSED.search(line.text)]
            text = "\n".join(line.text for at in missing for line in lines[at : at + 2])
            ranks = read_ranks(text) & logs.keys() - self.heard
            if len(ranks) == 1 and codes.get(rank := ranks.pop(), STOPPED_BY_OTHERS) < 0:
                title = "it did not take part: the others name it as the one that they waited for"
                signs = select_telling(logs[rank])[:1]
                return Suspects((rank,), (lines[missing[0]], *signs), title)
        return None

    def has_counted(self) -> bool:
        """Whether one says that as many have not come as have said nothing."""
        for one in self.waiting:
            words = one.raised.words or " ".join(line.text for line in one.tail)
            for came, all_of_them in _CAME.findall(words):
                counts = (int(came), int(all_of_them) - int(came))
                if int(all_of_them) == self.evidence.world and len(self.silent) in counts:
                    return bool(self.silent)
        return False

    def compare_places(self) -> Suspects | None:
        """By the line of the program at which processes waited: those who waited at another."""
        by_size = sorted(self._group_placed().values(), key=len)
        if len(by_size) < 2 or len(by_size[0]) == len(by_size[1]):
            return None
        few, many = by_size[0], by_size[-1]
        own, other = few[0], many[0]
        others = choose_words(len(many), "the other waits", f"{len(many)} others wait")
        who = choose_words(len(few), "it waits", "they wait")
        title = f"{who} at {_shorten(own)}, and {others} at {_shorten(other)}"
        lines = tuple(keep((own.line, other.line), str.strip))
        return Suspects(tuple(sorted(collect_ranks(few))), lines, title, own.place)

    def find_silent(self) -> Suspects | None:
        """Those that have not said that they waited: one, or as many as others have missed."""
        if not (self.waiting and self.silent) or len(self.evidence.ranks) < self.evidence.world:
            return None
        if len(self.silent) != 1 and not self.has_counted():
            return None
        lines, aside = self._list_signs()
        ended = f"; a thread or task of it had ended by {aside[:MOST_WORDS]}" if aside else ""
        return Suspects(self.silent, lines, f"{self._tell_absence()}{ended}")

    def find_unended(self) -> Suspects | None:
        """Those that had not ended, though most had ended well."""
        evidence, codes = self.evidence, self.evidence.exit_codes
        ended = {rank for rank, code in codes.items() if code == 0}
        ended |= {rank for rank, node in evidence.ranks.items() if evidence.ended_well(node)}
        stopped = {rank for rank, code in codes.items() if code != STOPPED_BY_OTHERS}
        ranks = tuple(rank for rank in evidence.ranks if rank not in ended | stopped)
        if not ranks or len(ranks) >= len(ended):
            return None
        title = f"{choose_words(len(ranks), 'it', 'they')} had not ended, and the others had"
        return Suspects(ranks, tuple(select_telling(evidence.logs[ranks[0]])[:1]), title)

    def _list_operations(self) -> dict[str, list[int]]:
        """Which ranks were in which collective operation, if torch has compared several."""
        ranks: dict[str, set[int]] = {}
        places: dict[str, str] = {}
        for one in self.waiting:
            for line in one.raised.message:
                for rank, name, shape in _OPERATION.findall(line.text):
                    call = f"{name} {shape}".strip()
                    ranks.setdefault(call, set()).add(int(rank))
                    if int(rank) == one.failure.rank:
                        places[call] = f" at {_shorten(one)}"
        if len(places) < 2:
            return {}
        return {f"{call}{places.get(call, '')}": sorted(some) for call, some in ranks.items()}

    def _group_placed(self) -> dict[str, list[Explained]]:
        """Those that waited, by the place: where the program raises the error, they did not."""
        places: dict[str, list[Explained]] = {}
        for one in self.waiting:
            raises = one.raised.source.startswith("raise ")
            if one.place and one.failure.rank is not None and not raises:
                places.setdefault(one.place, []).append(one)
        return places

    def _tell_absence(self) -> str:
        left = self.evidence.exit_codes.get(self.silent[0]) == 0
        did = "had left with exit code 0" if left else "did not take part"
        who = choose_words(len(self.silent), "it", "they")
        whom = choose_words(len(self.silent), "it", "them")
        # Where the first of those that waited stood, and what it called.
        place = next((f" at {_shorten(one)}" for one in self.waiting if one.place), "")
        sources = (one.raised.source[:MOST_WORDS] for one in self.waiting)
        call = next((f" ({source})" for source in sources if source), "")
        return f"{who} {did}, and the others waited for {whom}{place}{call}"

    def _list_signs(self) -> tuple[tuple[Line, ...], str]:
        """What the first silent one had raised or printed, best what no other; and its thread."""
        logs = self.evidence.logs
        lines = logs[self.silent[0]]
        spoken = chain.from_iterable(logs[rank] for rank in logs.keys() - self.silent)
        others = normalize_lines(spoken)
        telling = select_telling(lines)
        own = [line for line in telling if normalize(line.text) not in others]
        raised = find_tracebacks(lines)[-1:]
        words = [one.words for one in raised if one.aside and normalize(one.words) not in others]
        shown = [one.chain[-1].message[0] for one in raised]
        return tuple([*shown, *own, *telling][:3]), "".join(words)

    def _name_suspects(self, about: Diagnosis, suspects: Suspects) -> Diagnosis:
        behind = suspects.ranks[0]
        node, pid = self.evidence.ranks.get(behind), self.evidence.find_pid(behind)
        shown = show_lines(*suspects.lines)
        who = choose_words(len(suspects.ranks), "it", list_ranks(suspects.ranks))
        return self._name_ranks(about, suspects.ranks)._replace(
            node=node,
            rank=behind,
            title=suspects.title or f"{about.title}; the others waited for {who}",
            place=suspects.place,
            exception="",
            waited_for=suspects.ranks,
            remedy=about.remedy.replace("NODE", node or "NODE").replace("PID", pid or "PID"),
            evidence=tuple(dict.fromkeys([*shown, *about.evidence]))[:MOST_LINES],
            followed=tuple(sorted({*self.heard, *about.followed} - {*suspects.ranks})),
        )

    def _compare_operations(self, about: Diagnosis, calls: dict[str, list[int]]) -> Diagnosis:
        """The same of all ranks of which is known what they were in."""
        sentences = [f"{list_ranks(some)} in {call}" for call, some in calls.items()]
        remedy = WAITED.remedy if about.cause == TIMEOUT.id else about.remedy
        title = f"their collective operations do not match: {', '.join(sentences[:_MOST_CALLS])}"
        about = about._replace(title=title, remedy=remedy, place="", exception="", followed=())
        return self._name_ranks(about, sorted(chain.from_iterable(calls.values())))

    def _name_all(self, about: Diagnosis) -> Diagnosis:
        """The same of all ranks, none of which had lost another: at one line or more."""
        sources = {one.raised.source for one in self.waiting} - {""}
        where = f" in {sources.pop()[:MOST_WORDS]}" if len(sources) == 1 else ""
        title = f"they waited in vain for each other{where}, until their time was over"
        about = about._replace(title=title, remedy=WAITED.remedy, followed=())
        return self._name_ranks(about, sorted(self.heard))

    def _name_nobody(self, about: Diagnosis) -> Diagnosis:
        """The same, with who did not say that it waited, if few: it ended too early."""
        title = f"{about.title}, and no file shows which rank the others wait for"
        if 0 < len(self.silent) * 2 <= len(self.evidence.ranks):
            title = f"{title} ({list_ranks(self.silent)} did not say that they waited)"
        return about._replace(title=title)

    def _name_ranks(self, about: Diagnosis, ranks: Iterable[int]) -> Diagnosis:
        places = self.evidence.ranks
        nodes = dict.fromkeys(places[rank] for rank in ranks if rank in places)
        return about._replace(ranks=tuple(ranks), nodes=tuple(nodes), world=self.evidence.world)


# What shows who is waited for, the surest first.
_SIGNS: tuple[Callable[[Waiting], Suspects | None], ...] = (
    lambda who: hangs.find_behind(who.evidence),
    lambda who: hangs.find_busy(who.evidence),
    Waiting.find_named,
    Waiting.compare_places,
    Waiting.find_silent,
    Waiting.find_unended,
    lambda who: find_odd(who.evidence, behind=True),
)


def _list_last_words(one: Explained) -> Sequence[Line]:
    """What a process said of its end, and all after that."""
    words, lines = (*one.raised.message, one.line)[0], one.failure.lines
    begins = (at for at, line in enumerate(lines) if line[:2] == words[:2])
    return lines[next(begins, len(lines)) :]


def _shorten(one: Explained) -> str:
    return os.path.basename(one.place.partition(", in ")[0])
