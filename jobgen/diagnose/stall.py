"""For which of its processes a job waits that does not get on, or that failed by waiting."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from jobgen.diagnose import flight
from jobgen.diagnose.diagnosis import choose_words
from jobgen.diagnose.ending import NAMES_ERROR, OF_EXITS, normalize, normalize_lines, select_telling
from jobgen.diagnose.evidence import STOPPED_BY_OTHERS, Evidence
from jobgen.diagnose.exceptions import find_place, find_tracebacks, read_threads, strip_rank
from jobgen.diagnose.matching import MISSED, MOST_WORDS, Explained, read_ranks
from jobgen.diagnose.reading import Line, drop, keep, read_lines, read_words
from jobgen.jobs.files import get_mtime
from jobgen.records import NamedTuple

_STEP = re.compile(r"\b(?:step|iter|iteration)\W{1,3}\d", re.IGNORECASE)
# What differs in lines of a kind: words with digits; and of these, times, which tell nothing.
_NUMBER = re.compile(r"[^\s=:,(\[]*\d[^\s,;)\]]*")
_TIMES = re.compile(r"\d+:\d\d\S*|\b[\d.]+ ?(s|ms|sec\w*|[KMG]i?B)\b|\d{4}-\d\d-\d\d\S*")
_LAST_LINES = 20  # of a log, which may say who was missed
_RAISED = re.compile(r"[\w.]*(Error|Exception)\b|.*Traceback \(most")  # which tells of no step
_CAME = read_words("came")
_OPERATION = read_words("operation")
_WAITS = read_words("waits")


class Suspects(NamedTuple):
    """Processes that the others wait for, and the lines that show it."""

    ranks: tuple[int, ...]
    lines: tuple[Line, ...]
    place: str = ""  # where in the program the first of them stood: file:line, in function
    title: str = ""  # what tells them from the others; empty if they are just behind


class Waiting:
    """Processes that waited for others, or lost them; and who it was that they missed."""

    def __init__(self, evidence: Evidence, waiting: Sequence[Explained]) -> None:
        self.evidence, self.waiting = evidence, waiting
        self.heard = {one.failure.rank for one in waiting}
        self.silent = tuple(rank for rank in evidence.ranks if rank not in self.heard)

    def find_suspects(self) -> Suspects | None:
        """Who is waited for, by what tells most surely first; None where no file tells."""
        ways = (self._look_at_flights, self._look_at_stacks, self.find_named, self._compare_places)
        for look in (*ways, self._look_at_silent, self._look_at_unended, self._look_at_lines):
            if suspects := look():
                return self._add_stack(suspects)
        return None

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
                return Suspects((rank,), (lines[missing[0]], *signs), "", title)
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

    def list_operations(self) -> dict[str, list[int]]:
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

    def list_calls(self) -> dict[str, list[int]]:
        """Which ranks waited, or lost another, in which line of the program."""
        ranks: dict[str, set[int]] = {}
        sources: dict[str, str] = {}
        for rank, one in self._list_placed():
            ranks.setdefault(_shorten(one), set()).add(rank)
            sources[_shorten(one)] = f"{one.raised.source[:MOST_WORDS]} at "
        return {f"{sources[place]}{place}": sorted(some) for place, some in ranks.items()}

    def _list_placed(self) -> list[tuple[int, Explained]]:
        """Those that waited at a place: where the program raises the error itself, they did not."""
        placed = []
        for one in self.waiting:
            rank = one.failure.rank
            if one.place and rank is not None and not one.raised.source.startswith("raise "):
                placed.append((rank, one))
        return placed

    def _compare_places(self) -> Suspects | None:
        """By the line of the program at which processes waited: those who waited at another."""
        places: dict[str, list[tuple[int, Explained]]] = {}
        for rank, one in self._list_placed():
            places.setdefault(one.place, []).append((rank, one))
        by_size = sorted(places.values(), key=len)
        if len(by_size) < 2 or len(by_size[0]) == len(by_size[1]):
            return None
        few, many = by_size[0], by_size[-1]
        (_, own), (_, other) = few[0], many[0]
        others = choose_words(len(many), "the other waits", f"{len(many)} others wait")
        who = choose_words(len(few), "it waits", "they wait")
        title = f"{who} at {_shorten(own)}, and {others} at {_shorten(other)}"
        lines = tuple(keep((own.line, other.line), str.strip))
        return Suspects(tuple(sorted(rank for rank, _ in few)), lines, own.place, title)

    def _look_at_silent(self) -> Suspects | None:
        """Those that have not said that they waited: one, or as many as others have missed."""
        evidence, silent = self.evidence, self.silent
        if not (self.heard and silent) or len(evidence.ranks) < evidence.world:
            return None
        if len(silent) != 1 and not self.has_counted():
            return None
        title = self._tell_absence()
        lines, aside = self._list_signs()
        if aside:
            title += f"; a thread or task of it had ended by {aside[:MOST_WORDS]}"
        return Suspects(silent, lines, "", title)

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

    def _look_at_unended(self) -> Suspects | None:
        """Those that had not ended, though most had ended well."""
        evidence, codes = self.evidence, self.evidence.exit_codes
        ended = {rank for rank, code in codes.items() if code == 0}
        ended |= {rank for rank, node in evidence.ranks.items() if evidence.ended_well(node)}
        stopped = {rank for rank, code in codes.items() if code != STOPPED_BY_OTHERS}
        ranks = tuple(rank for rank in evidence.ranks if rank not in ended | stopped)
        if not ranks or len(ranks) >= len(ended):
            return None
        title = f"{choose_words(len(ranks), 'it', 'they')} had not ended, and the others had"
        return Suspects(ranks, tuple(select_telling(evidence.logs[ranks[0]])[:1]), "", title)

    def _look_at_lines(self) -> Suspects | None:
        return find_odd(self.evidence, behind=True)

    def _look_at_flights(self) -> Suspects | None:
        paths = self._list_files("errors/*-flight-*", "hangs/*-rank-*.flight.json")
        late = flight.find_behind(paths)
        return Suspects(*late) if late else None

    def _list_files(self, *patterns: str) -> dict[int, Path]:
        """Those of this attempt in its folder, by the rank that is last in their names."""
        paths = {}
        for pattern in patterns:
            for path in sorted(self.evidence.run_dir.glob(pattern)):
                name = path.name.removesuffix(".flight.json").removesuffix(".stacks")
                rank = name.rpartition("-")[2]
                if rank.isdecimal() and get_mtime(path) >= self.evidence.began:
                    paths[int(rank)] = path
        return paths

    def _read_stacks(self) -> dict[int, list[list[Line]]]:
        """The frames of each rank's threads, the first last, as the bundled trainer left them."""
        paths = self._list_files("hangs/*-rank-*.stacks")
        return {
            rank: [frames for _, *frames in read_threads(list(read_lines(path)))]
            for rank, path in paths.items()
        }

    def _look_at_stacks(self) -> Suspects | None:
        """Those that could not leave a stack; or whose main thread does not wait for others."""
        stacks = {rank: threads[-1] for rank, threads in self._read_stacks().items() if threads}
        silent = tuple(rank for rank in self.evidence.ranks if rank not in stacks)
        if stacks and 0 < len(silent) < len(self.evidence.ranks):
            return Suspects(silent, tuple(next(iter(stacks.values()))[-1:]))
        busy = {rank: frames for rank, frames in stacks.items() if not _is_waiting(frames)}
        if not 0 < len(busy) < len(stacks):
            return None
        lines = tuple(line for frames in busy.values() for line in frames[:-3:-1])
        return Suspects(tuple(busy), lines)

    def _add_stack(self, suspects: Suspects) -> Suspects:
        """The same with where the first of them stood, by its first thread or one it waits for."""
        for stack in reversed(self._read_stacks().get(suspects.ranks[0], [])):
            if place := find_place(stack):
                lines = [line for line in stack if find_place([line]) == place]
                return suspects._replace(place=place, lines=(*lines, *suspects.lines))
        return suspects


def _list_last_words(one: Explained) -> Sequence[Line]:
    """What a process said of its end, and all after that."""
    words, lines = (*one.raised.message, one.line)[0], one.failure.lines
    begins = (at for at, line in enumerate(lines) if line[:2] == words[:2])
    return lines[next(begins, len(lines)) :]


def _shorten(one: Explained) -> str:
    return os.path.basename(one.place.partition(", in ")[0])


def _is_waiting(frames: Sequence[Line]) -> bool:
    """Whether a thread waits for other processes, or has not told where it is."""
    return not frames or any(_WAITS.search(frame.text) for frame in frames)


def find_odd(evidence: Evidence, *, behind: bool) -> Suspects | None:
    """The fewest ranks whose last line of a kind has another number than that of the others.

    Of the kinds that all print, the newest counts. Who is `behind` has not printed a newer one that
    all others have.
    """
    for kind, lines in reversed(_collect_kinds(evidence).items()):
        if not kind or OF_EXITS.match(kind) or _RAISED.match(kind):
            continue
        missing = [rank for rank in evidence.ranks if rank not in lines]
        if missing:
            if behind and len(missing) == 1 < len(lines):
                return _name_missing(evidence, missing[0], next(iter(lines.values())))
            continue
        if odd := _compare_numbers(lines):
            return _name_odd(lines, *odd)
        behind = False
    return None


def _name_odd(lines: dict[int, Line], ranks: list[int], others: list[int]) -> Suspects:
    own, usual = lines[ranks[0]], lines[others[0]]
    title = f'it had printed "{own.text.strip()}", and the others "{usual.text.strip()}"'
    is_step = _STEP.search(own.text)
    return Suspects(tuple(ranks), (own, usual), "", "" if is_step else title)


def _name_missing(evidence: Evidence, rank: int, usual: Line) -> Suspects:
    title = f'it had not yet printed "{usual.text.strip()}", as all others had'
    last = drop(evidence.logs[rank], OF_EXITS.match)[-1:]
    return Suspects((rank,), (*last, usual), "", title)


def _collect_kinds(evidence: Evidence) -> dict[str, dict[int, Line]]:
    """The last line of each rank of each kind, the newest kind last."""
    kinds: dict[str, dict[int, Line]] = {}
    for rank, log in evidence.logs.items():
        for line in log:
            kind = _NUMBER.sub("#", _drop_own(line, rank))
            kinds[kind] = {**kinds.pop(kind, {}), rank: line}
    return kinds


def find_accused(evidence: Evidence) -> Suspects | None:
    """Return the only rank that has printed an error that no other has."""
    accused = {
        rank: line
        for kind, lines in _collect_kinds(evidence).items()
        for rank, line in lines.items()
        if len(lines) == 1 and NAMES_ERROR.search(kind) and select_telling([line])
    }
    if len(accused) != 1 or len(evidence.ranks) == 1:
        return None
    ((rank, line),) = accused.items()
    return Suspects((rank,), (line,), "", f'it alone had printed "{line.text.strip()}"')


def _drop_own(line: Line, rank: int) -> str:
    """The words of a line without times, and its rank at the beginning; none of a stack's."""
    text = strip_rank(line).text
    if text[:1].isspace():
        return ""
    own = rf"(?i)^\W*(?:\[?(?:rank|task|worker|process)\W{{0,3}})?{rank}\b(?!\.)"
    return " ".join(re.sub(own, "", _TIMES.sub("", text)).split())


def _compare_numbers(lines: dict[int, Line]) -> tuple[list[int], list[int]] | None:
    """Who has another number than most in one of the places of a line, and who has theirs."""
    numbers = {rank: _NUMBER.findall(_drop_own(line, rank)) for rank, line in lines.items()}
    is_step = _STEP.search(next(iter(lines.values())).text)
    for column in zip(*numbers.values(), strict=True):
        by_number: dict[str, list[int]] = {}
        for rank, number in zip(lines, column, strict=True):
            by_number.setdefault(number, []).append(rank)
        if odd := _part(by_number, numbers, is_step=is_step is not None):
            return odd
    return None


def _part(
    by_number: dict[str, list[int]], numbers: dict[int, list[str]], *, is_step: bool
) -> tuple[list[int], list[int]] | None:
    if len(by_number) != 2:
        return None
    few, many = sorted(by_number.values(), key=len)
    alike = {tuple(numbers[rank]) for rank in many}
    if len(few) < len(many) and (is_step or len(alike) == 1):
        return few, many
    return None
