"""A job that is alive and does not get on: since when, and for which of its processes it waits."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from jobgen.diagnose import flight
from jobgen.diagnose.ending import NAMES_ERROR, OF_EXITS, normalize, select_telling
from jobgen.diagnose.evidence import STOPPED_BY_OTHERS, Evidence
from jobgen.diagnose.exceptions import find_place, find_tracebacks, read_threads, strip_rank
from jobgen.diagnose.matching import MISSED, MOST_WORDS, Explained, read_ranks
from jobgen.diagnose.reading import Line, read_lines
from jobgen.jobs import top
from jobgen.jobs.files import get_mtime
from jobgen.records import NamedTuple

# Ten minutes of silence are a hang, as they are for the bundled trainer's watchdog; where metrics
# tell that steps are long, ten times the longest between two of them so far.
_SILENT, _STEPS = 600.0, 10
# Where a walltime has ended the job, a minute is, if it was half of its time.
_SHORT = 60.0
# What a node's CPUs and GPUs do at most that only wait: CPUs, and percent of the time.
_IDLE_CPUS, _IDLE_PERCENT = 0.1, 1.0
_STEP = re.compile(r"\b(?:step|iter|iteration)\W{1,3}\d", re.IGNORECASE)
# What differs in lines of a kind: words with digits; and of these, times, which tell nothing.
_NUMBER = re.compile(r"[^\s=:,(\[]*\d[^\s,;)\]]*")
_TIMES = re.compile(r"\d+:\d\d\S*|\b[\d.]+ ?(s|ms|sec\w*|[KMG]i?B)\b|\d{4}-\d\d-\d\d\S*")
_LAST_LINES = 20  # of a log, which may say who was missed
_RAISED = re.compile(r"[\w.]*(Error|Exception)\b|.*Traceback \(most")  # which tells of no step
# How many have come, of how many.
_CAME = re.compile(
    r"(?<![\d.])(\d{1,9}) ?(?:/|(?:out )?of) ?(\d{1,9}) (?:\w+ )?"
    r"(?:client|worker|rank|member|peer|process|replica|participant|part(?:y|ies))"
)
# What torch says of each rank where it compares operations.
_OPERATION = re.compile(
    r"Rank (\d+) is running collective: CollectiveFingerPrint\((?:SequenceNumber=\d+, )?"
    r"OpType=(\w+)(?:, TensorShape=(\[[\d, ]*\]))?"
)
# Where one of Python's own threads waits for other processes.
_WAITS = re.compile(
    r"torch/distributed/|torch/autograd/graph\.py|torch/cuda/.*in (synchronize|wait)"
)


# How programs say how long something took, in seconds or thousandths; what is slow, by how many
# times, and how often where it is short.
_TOOK = re.compile(  # in bounds on a long line
    r"(?<!\d)(\d{1,9}(?:\.\d{0,9})?) ?(m?)s(ec\w*)?\b(?! (of )?CPU)"
)
_MUCH, _LEAST, _SLOWER, _OFTEN = 1.0, 0.1, 5, 3


class Suspects(NamedTuple):
    """Processes that the others wait for, and the lines that show it."""

    ranks: tuple[int, ...]
    lines: tuple[Line, ...]
    place: str = ""  # where in the program the first of them stood: file:line, in function
    title: str = ""  # what tells them from the others; empty if they are just behind


class Silence(NamedTuple):
    """For how many seconds nothing was written, of the most that are not a hang."""

    seconds: float
    most: float
    newest: float  # when that was, in seconds since 1970
    last: Line | None  # what was written last
    since_began: float  # seconds
    usual: float  # what is nothing to speak of

    @property
    def long(self) -> bool:
        """Whether it is a hang."""
        return self.seconds >= self.most

    @property
    def to_the_end(self) -> bool:
        """Whether it is a hang, where a walltime has ended the job: it may be a short one."""
        steps = self.most if self.most > _SILENT else _SHORT
        return self.long or self.seconds >= max(steps, self.since_began / 2)


def measure_silence(evidence: Evidence, *, now: float) -> Silence | None:
    """Return for how long a job has written nothing at the moment `now`; None before it has begun.

    A node's sign of life that is newer than `now` tells that this clock is behind.
    """
    if evidence.attempt is None or not evidence.nodes:
        return None
    metrics = evidence.run_dir / "metrics.jsonl"
    files = [metrics, *evidence.run_dir.glob("logs/*/rank-*.*")]
    files += evidence.run_dir.glob("checkpoints/*")
    newest = max(files, key=get_mtime)
    now = max(now, *map(get_mtime, evidence.attempt.glob("node-*.alive")), 0.0)
    lines = [line for line in read_lines(metrics) if line.text.strip()]
    times = [stamp for stamp in map(_read_time, lines) if stamp >= evidence.began]
    gaps = [later - before for before, later in pairwise(times)]
    longest = max(gaps, default=0.0)
    last = max(get_mtime(newest), evidence.began)
    if not times and newest.suffix in (".out", ".err"):
        lines = [line for line in read_lines(newest) if line.text.strip()]
    line = lines[-1] if lines else None
    return Silence(
        max(0.0, now - last),
        max(_SILENT, _STEPS * longest),
        last,
        line,
        max(0.0, now - evidence.began),
        max(_SHORT, 2 * longest),
    )


def is_idle(evidence: Evidence) -> bool:
    """Whether neither CPUs nor GPUs of any node compute; the nodes are asked."""
    nodes = top.list_nodes(evidence.job, running=True)
    return bool(nodes) and all(
        node.cpus is not None
        and node.cpus <= _IDLE_CPUS
        and all((gpu.use or 0.0) <= _IDLE_PERCENT for gpu in node.gpus)
        for node in nodes
    )


def find_slow(evidence: Evidence) -> Iterator[str]:
    """Say which rank gives five times as long as all others in a line that all of them repeat."""
    for by_rank in _collect_times(evidence).values():
        repeated = min(len(lines) for lines in by_rank.values()) >= 2
        if not repeated or len(by_rank) < max(3, len(evidence.ranks)):
            continue
        last = {rank: _choose_time(lines) for rank, lines in by_rank.items()}
        *_, (usual, _), (most, rank) = sorted((last[rank][0], rank) for rank in last)
        if most >= max(_LEAST, _SLOWER * usual):
            words = last[rank][1].text.strip()
            yield f"rank {rank} on {evidence.ranks[rank]} is slow (others: {usual:g} s): {words}"


def _collect_times(evidence: Evidence) -> dict[str, dict[int, list[tuple[float, Line]]]]:
    """By kind of line and by rank: how many seconds something took, and the line."""
    times: dict[str, dict[int, list[tuple[float, Line]]]] = {}
    for rank, node in evidence.ranks.items():
        for line in evidence.read_log(node, rank):
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


def _read_time(line: Line) -> float:
    try:
        return float(json.loads(line.text)["time"])
    except (ValueError, KeyError, TypeError):
        return 0.0


def find_suspects(evidence: Evidence, waiting: Sequence[Explained]) -> Suspects | None:
    """Who is waited for; None where no file tells.

    By flight recorders, by stacks, by the rank that those in `waiting` name, by the places at which
    they waited, by who has not said that it waited, by who has not ended, by what each has
    printed last.
    """
    suspects = (
        _suspect_by_flight(evidence)
        or _suspect_by_stacks(evidence)
        or suspect_by_name(evidence, waiting)
        or _suspect_by_place(waiting)
        or _suspect_by_silence(evidence, waiting)
        or _suspect_by_end(evidence)
        or find_odd(evidence, behind=True)
    )
    return _add_stack(suspects, evidence) if suspects else None


def _add_stack(suspects: Suspects, evidence: Evidence) -> Suspects:
    """The same with where the first of them stood, by its first thread or one this waits for."""
    for stack in reversed(_read_stacks(evidence).get(suspects.ranks[0], [])):
        place = find_place(stack)
        if place:
            lines = [line for line in stack if find_place([line]) == place]
            return suspects._replace(place=place, lines=(*lines, *suspects.lines))
    return suspects


def suspect_by_name(evidence: Evidence, waiting: Sequence[Explained]) -> Suspects | None:
    """The one rank that a process says it has missed, if that was at work to the end.

    What it said of its end counts; of one that lost another, or that its library ended, the end of
    its log.
    """
    codes = evidence.exit_codes
    heard = {one.failure.rank for one in waiting}
    for one in waiting:
        lines = one.failure.lines[-_LAST_LINES:] if one.cause.symptom else _list_last_words(one)
        missing = [at for at, line in enumerate(lines) if MISSED.search(line.text)]
        text = "\n".join(line.text for at in missing for line in lines[at : at + 2])
        ranks = read_ranks(text) & evidence.ranks.keys() - heard
        if len(ranks) == 1 and codes.get(rank := ranks.pop(), STOPPED_BY_OTHERS) < 0:
            title = "it did not take part: the others name it as the one that they waited for"
            signs = select_telling(evidence.read_log(evidence.ranks[rank], rank))[:1]
            return Suspects((rank,), (lines[missing[0]], *signs), "", title)
    return None


def _list_last_words(one: Explained) -> Sequence[Line]:
    """What a process said of its end, and all after that."""
    words = one.raised.message[0] if one.raised else one.line
    lines = one.failure.lines
    begins = (at for at, line in enumerate(lines) if words and line[:2] == words[:2])
    return lines[next(begins, len(lines)) :]


def _suspect_by_place(waiting: Sequence[Explained]) -> Suspects | None:
    """By the line of the program at which processes waited: those who waited at another."""
    places: dict[str, list[Explained]] = {}
    for one in waiting:
        if _waited(one):
            places.setdefault(one.place, []).append(one)
    by_size = sorted(places.values(), key=len)
    if len(by_size) < 2 or len(by_size[0]) == len(by_size[1]):
        return None
    few, many = by_size[0], by_size[-1]
    ranks = tuple(sorted(one.failure.rank for one in few if one.failure.rank is not None))
    others = "the other waits" if len(many) == 1 else f"{len(many)} others wait"
    who = "it waits" if len(few) == 1 else "they wait"
    title = f"{who} at {_shorten(few[0])}, and {others} at {_shorten(many[0])}"
    lines = tuple(one.line for one in (few[0], many[0]) if one.line)
    return Suspects(ranks, lines, few[0].place, title)


def _waited(one: Explained) -> bool:
    """Whether a process waited at its place: where the program raises the error itself, not."""
    by_program = one.source.startswith("raise ")
    return bool(one.place) and one.failure.rank is not None and not by_program


def _shorten(one: Explained) -> str:
    return os.path.basename(one.place.partition(", in ")[0])


def _suspect_by_silence(evidence: Evidence, waiting: Sequence[Explained]) -> Suspects | None:
    """Those that have not said that they waited or lost another, if it is one of all.

    It may be several, if those that waited say that so many have not come.
    """
    heard = {one.failure.rank for one in waiting}
    silent = tuple(rank for rank in evidence.ranks if rank not in heard)
    if not (heard and silent) or len(evidence.ranks) < evidence.world:
        return None
    if len(silent) != 1 and find_uncounted(evidence, waiting) != silent:
        return None
    left = evidence.exit_codes.get(silent[0]) == 0
    did = "had left with exit code 0" if left else "did not take part"
    who, whom = ("it", "it") if len(silent) == 1 else ("they", "them")
    title = f"{who} {did}, and the others waited for {whom}{_tell_where(waiting)}"
    lines, aside = _list_signs(evidence, silent)
    if aside:
        title += f"; a thread or task of it had ended by {aside[:MOST_WORDS]}"
    return Suspects(silent, lines, "", title)


def _tell_where(waiting: Sequence[Explained]) -> str:
    """Where the first of those that waited stood, and what it called."""
    place = next((f" at {_shorten(one)}" for one in waiting if one.place), "")
    sources = [one.source for one in waiting if one.source]
    return f"{place} ({sources[0][:MOST_WORDS]})" if sources else place


def _list_signs(evidence: Evidence, silent: tuple[int, ...]) -> tuple[tuple[Line, ...], str]:
    """What the first of them had raised or printed, best what no other had; what its thread had."""
    lines = evidence.read_log(evidence.ranks[silent[0]], silent[0])
    others = {
        normalize(strip_rank(line).text)
        for rank, node in evidence.ranks.items()
        if rank not in silent
        for line in evidence.read_log(node, rank)
    }
    telling = select_telling(lines)
    own = [line for line in telling if normalize(line.text) not in others]
    raised = find_tracebacks(lines)[-1:]
    words = [one.words for one in raised if one.aside and normalize(one.words) not in others]
    shown = [one.chain[-1].message[0] for one in raised]
    return tuple([*shown, *own, *telling][:3]), "".join(words)


def list_operations(waiting: Sequence[Explained]) -> dict[str, list[int]]:
    """Which ranks were in which collective operation, if torch has compared those of several."""
    ranks: dict[str, set[int]] = {}
    places: dict[str, str] = {}
    for one in waiting:
        for line in one.raised.message if one.raised else ():
            for rank, name, shape in _OPERATION.findall(line.text):
                call = f"{name} {shape}".strip()
                ranks.setdefault(call, set()).add(int(rank))
                if int(rank) == one.failure.rank:
                    places[call] = f" at {_shorten(one)}"
    if len(places) < 2:
        return {}
    return {f"{call}{places.get(call, '')}": sorted(some) for call, some in ranks.items()}


def list_calls(waiting: Sequence[Explained]) -> dict[str, list[int]]:
    """Which ranks waited, or lost another, in which line of the program."""
    ranks: dict[str, set[int]] = {}
    sources: dict[str, str] = {}
    for one in waiting:
        if _waited(one) and one.failure.rank is not None:
            ranks.setdefault(_shorten(one), set()).add(one.failure.rank)
            sources[_shorten(one)] = f"{one.source[:MOST_WORDS]} at "
    return {f"{sources[place]}{place}": sorted(some) for place, some in ranks.items()}


def find_uncounted(evidence: Evidence, waiting: Sequence[Explained]) -> tuple[int, ...]:
    """Those that said nothing, if those that waited name how many have not come."""
    heard = {one.failure.rank for one in waiting}
    silent = tuple(rank for rank in evidence.ranks if rank not in heard)
    for one in waiting:
        words = one.raised.words if one.raised else " ".join(line.text for line in one.tail)
        for some, of_all in _CAME.findall(words):
            counts = (int(some), int(of_all) - int(some))
            if int(of_all) == evidence.world and len(silent) in counts:
                return silent
    return ()


def _suspect_by_end(evidence: Evidence) -> Suspects | None:
    """Those that had not ended, though most had ended well."""
    codes = evidence.exit_codes
    ended = {rank for rank, code in codes.items() if code == 0}
    ended |= {rank for rank, node in evidence.ranks.items() if evidence.ended_well(node)}
    ranks = tuple(
        rank
        for rank in evidence.ranks
        if rank not in ended and codes.get(rank, STOPPED_BY_OTHERS) == STOPPED_BY_OTHERS
    )
    if not ranks or len(ranks) >= len(ended):
        return None
    lines = evidence.read_log(evidence.ranks[ranks[0]], ranks[0])
    title = f"{'it' if len(ranks) == 1 else 'they'} had not ended, and the others had"
    return Suspects(ranks, tuple(select_telling(lines)[:1]), "", title)


def _suspect_by_flight(evidence: Evidence) -> Suspects | None:
    paths = {}
    for pattern in ("errors/*-flight-*", "hangs/*-rank-*.flight.json"):
        for path in sorted(evidence.run_dir.glob(pattern)):
            number = re.search(r"-(\d+)(\.flight\.json)?$", path.name)
            if number and get_mtime(path) >= evidence.began:
                paths[int(number[1])] = path
    late = flight.find_behind(paths) if paths else None
    if late is None:
        return None
    return Suspects(late.ranks, tuple(Line(path, 1, text) for path, text in late.shown))


def _read_stacks(evidence: Evidence) -> dict[int, list[list[Line]]]:
    """The frames of each rank's threads, the first one last, as the bundled trainer leaves them."""
    stacks = {}
    for path in sorted(evidence.run_dir.glob("hangs/*-rank-*.stacks")):
        number = path.stem.rpartition("-")[2]
        if number.isdecimal() and get_mtime(path) >= evidence.began:
            threads = read_threads(list(read_lines(path)))
            stacks[int(number)] = [frames for _, *frames in threads]
    return stacks


def _suspect_by_stacks(evidence: Evidence) -> Suspects | None:
    """By the stacks that the bundled trainer's processes leave, of those that can."""
    stacks = {rank: threads[-1] for rank, threads in _read_stacks(evidence).items() if threads}
    if not stacks:
        return None
    silent = tuple(rank for rank in evidence.ranks if rank not in stacks)
    if 0 < len(silent) < len(evidence.ranks):
        return Suspects(silent, tuple(next(iter(stacks.values()))[-1:]))
    busy = {rank: frames for rank, frames in stacks.items() if not _is_waiting(frames)}
    if not busy or len(busy) == len(stacks):
        return None
    return Suspects(tuple(busy), tuple(line for frames in busy.values() for line in frames[:-3:-1]))


def _is_waiting(frames: Sequence[Line]) -> bool:
    """Whether a thread waits for other processes, or has not told where it is."""
    return not frames or any(_WAITS.search(frame.text) for frame in frames)


def find_odd(evidence: Evidence, *, behind: bool) -> Suspects | None:
    """The fewest ranks whose last line of a kind has another number than that of the others.

    Of the kinds that all print, the newest counts. Who is `behind` has not printed a newer one that
    all others have; or a lower step, where as many ranks differ as do not.
    """
    for kind, lines in reversed(_collect_kinds(evidence).items()):
        if not kind or OF_EXITS.match(kind) or _RAISED.match(kind):
            continue
        missing = [rank for rank in evidence.ranks if rank not in lines]
        odd = None if missing else _compare_numbers(lines, behind=behind)
        if odd:
            own, usual = lines[odd[0][0]], lines[odd[1][0]]
            title = f'it had printed "{own.text.strip()}", and the others "{usual.text.strip()}"'
            is_step = _STEP.search(own.text)
            return Suspects(tuple(odd[0]), (own, usual), "", "" if is_step else title)
        if behind and len(missing) == 1 < len(lines):
            return _name_missing(evidence, missing[0], next(iter(lines.values())))
        behind = behind and bool(missing)
    return None


def _collect_kinds(evidence: Evidence) -> dict[str, dict[int, Line]]:
    """The last line of each rank of each kind, the newest kind last."""
    kinds: dict[str, dict[int, Line]] = {}
    for rank, node in evidence.ranks.items():
        for line in evidence.read_log(node, rank):
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


def _name_missing(evidence: Evidence, rank: int, usual: Line) -> Suspects:
    title = f'it had not yet printed "{usual.text.strip()}", as all others had'
    log = evidence.read_log(evidence.ranks[rank], rank)
    last = [line for line in log if not OF_EXITS.match(line.text)][-1:]
    return Suspects((rank,), (*last, usual), "", title)


def _drop_own(line: Line, rank: int) -> str:
    """The words of a line without times, and its rank at the beginning; none of a stack's."""
    text = strip_rank(line).text
    if text[:1].isspace():
        return ""
    own = rf"(?i)^\W*(?:\[?(?:rank|task|worker|process)\W{{0,3}})?{rank}\b(?!\.)"
    return " ".join(re.sub(own, "", _TIMES.sub("", text)).split())


def _compare_numbers(lines: dict[int, Line], *, behind: bool) -> tuple[list[int], list[int]] | None:
    """Who has another number than most in one of the places of a line, and who has theirs."""
    numbers = {rank: _NUMBER.findall(_drop_own(line, rank)) for rank, line in lines.items()}
    is_step = _STEP.search(next(iter(lines.values())).text)
    for column in zip(*numbers.values(), strict=True):
        by_number: dict[str, list[int]] = {}
        for rank, number in zip(lines, column, strict=True):
            by_number.setdefault(number, []).append(rank)
        if len(by_number) != 2:
            continue
        few, many = sorted(by_number.values(), key=len)
        alike = {tuple(numbers[rank]) for rank in many}
        if len(few) < len(many) and (is_step or len(alike) == 1):
            return few, many
        if behind and is_step and all(map(str.isdecimal, by_number)):
            return by_number[min(by_number, key=int)], by_number[max(by_number, key=int)]
    return None
