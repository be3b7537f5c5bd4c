"""Which ranks differ from all others by what they printed: a number, an error, a time."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jobgen.diagnose.ending import NAMES_ERROR, OF_EXITS, normalize, select_telling
from jobgen.diagnose.evidence import Evidence
from jobgen.diagnose.exceptions import strip_rank
from jobgen.diagnose.reading import SLOW_RANK, Line, drop, read_words
from jobgen.records import NamedTuple

_STEP = re.compile(r"\b(?:step|iter|iteration)\W{1,3}\d", re.IGNORECASE)
# What differs in lines of a kind: words with digits; and of these, times, which tell nothing.
_NUMBER = re.compile(r"[^\s=:,(\[]*\d[^\s,;)\]]*")
_TIMES = re.compile(r"\d+:\d\d\S*|\b[\d.]+ ?(s|ms|sec\w*|[KMG]i?B)\b|\d{4}-\d\d-\d\d\S*")
_RAISED = re.compile(r"[\w.]*(Error|Exception)\b|.*Traceback \(most")  # which tells of no step
_TOOK = read_words("took")
# What is slow: longer than these seconds, by how many times, and how often where it is short.
_MUCH, _LEAST, _SLOWER, _OFTEN = 1.0, 0.1, 5, 3
_MOST_SLOW = 3


class Suspects(NamedTuple):
    """Processes that the others wait for, and the lines that show it."""

    ranks: tuple[int, ...]
    lines: tuple[Line, ...]
    title: str = ""  # what tells them from the others; empty if they are just behind
    place: str = ""  # where in the program the first of them stood: file:line, in function


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
    return Suspects(tuple(ranks), (own, usual), "" if is_step else title)


def _name_missing(evidence: Evidence, rank: int, usual: Line) -> Suspects:
    title = f'it had not yet printed "{usual.text.strip()}", as all others had'
    last = drop(evidence.logs[rank], OF_EXITS.match)[-1:]
    return Suspects((rank,), (*last, usual), title)


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
    return Suspects((rank,), (line,), f'it alone had printed "{line.text.strip()}"')


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
        *few, many = sorted(by_number.values(), key=len)
        alike = len({tuple(numbers[rank]) for rank in many}) == 1
        if len(few) == 1 and len(few[0]) < len(many) and (is_step or alike):
            return few[0], many
    return None


def find_slow(evidence: Evidence) -> Iterator[str]:
    """Say which rank is slow: by the trainer, or by a line where it takes five times more."""
    yield from _list_named(evidence)
    for by_rank in _collect_times(evidence).values():
        repeated = min(len(lines) for lines in by_rank.values()) >= 2
        if repeated and len(by_rank) >= max(3, len(evidence.ranks)):
            usual, most, rank, line = _compare(by_rank)
            if most >= max(_LEAST, _SLOWER * usual):
                who = f"rank {rank} on {evidence.ranks[rank]}"
                yield f"{who} is slow (others: {usual:g} s): {line.text.strip()}"


def _compare(by_rank: dict[int, list[tuple[float, Line]]]) -> tuple[float, float, int, Line]:
    """How long all but the slowest rank take at most, and how long this; it, and its line."""
    last = {rank: _choose_time(lines) for rank, lines in by_rank.items()}
    *_, (usual, _), (most, rank) = sorted((last[rank][0], rank) for rank in last)
    return usual, most, rank, last[rank][1]


def _collect_times(evidence: Evidence) -> dict[str, dict[int, list[tuple[float, Line]]]]:
    """By kind of line and by rank: how many seconds something took, and the line."""
    times: dict[str, dict[int, list[tuple[float, Line]]]] = {}
    for rank, log in evidence.logs.items():
        for line in log:
            took = _TOOK.search(line.text)
            if took:
                by_rank = times.setdefault(normalize(line.text), {})
                seconds = float(took[1]) / (1000 if took[2] else 1)
                by_rank.setdefault(rank, []).append((seconds, line))
    return times


def _choose_time(lines: list[tuple[float, Line]]) -> tuple[float, Line]:
    """The last; where that is short, the least of several, with the last line."""
    seconds, line = lines[-1]
    return (seconds, line) if seconds >= _MUCH else (min(lines[-_OFTEN:])[0], line)


def _list_named(evidence: Evidence) -> list[str]:
    """What the bundled trainer has last said of each rank that is slower than the others."""
    matches = filter(None, [SLOW_RANK.match(line.text) for line in evidence.logs.get(0, ())])
    slow = {match.group(1, 2): match[0] for match in matches}
    return [*slow.values()][:_MOST_SLOW]
