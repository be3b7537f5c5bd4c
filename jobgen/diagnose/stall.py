"""A job that is alive and does not get on: since when, and for which of its processes it waits."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import NamedTuple

from jobgen.diagnose import flight
from jobgen.diagnose.evidence import Evidence
from jobgen.diagnose.reading import Line, get_mtime, read_lines

# Ten minutes of silence are a hang, as they are for the bundled trainer's watchdog; where metrics
# tell that steps are long, ten times the longest between two of them so far.
_SILENT, _STEPS = 600.0, 10
# Where a walltime has ended the job, a minute is, if it was half of its time.
_SHORT = 60.0
_STEP = re.compile(r"\b(?:step|iter|iteration)\W{1,3}(\d+)", re.IGNORECASE)
_FRAME = re.compile(r'  File "(.+)", line (\d+) in (.+)')
# Frames that are not the program's own: of packages, of Python, of the trainer and its watchdog.
_FOREIGN = re.compile(r"/(site|dist)-packages/|/lib/python3|<frozen|/jobgen/trainer/")
# Where one of Python's own threads waits for other processes.
_WAITS = re.compile(
    r"torch/distributed/|torch/autograd/graph\.py|torch/cuda/.*in (synchronize|wait)"
)


class Suspects(NamedTuple):
    """Processes that the others wait for, and the lines that show it."""

    ranks: tuple[int, ...]
    lines: tuple[Line, ...]
    place: str = ""  # where in the program the first of them stood: file:line, in function


class Silence(NamedTuple):
    """For how many seconds nothing was written, of the most that are no hang."""

    seconds: float
    most: float
    newest: float  # when that was, in seconds since 1970
    last: Line | None  # what was written last
    since_began: float  # seconds

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
    times = [stamp for line in lines if (stamp := _read_time(line.text)) >= evidence.began]
    gaps = [later - before for before, later in pairwise(times)]
    most = max(_SILENT, _STEPS * max(gaps, default=0.0))
    last = max(get_mtime(newest), evidence.began)
    if not times and newest.suffix in (".out", ".err"):
        lines = [line for line in read_lines(newest) if line.text.strip()]
    line = lines[-1] if lines else None
    return Silence(max(0.0, now - last), most, last, line, max(0.0, now - evidence.began))


def _read_time(text: str) -> float:
    try:
        return float(json.loads(text)["time"])
    except (ValueError, KeyError, TypeError):
        return 0.0


def find_suspects(evidence: Evidence) -> Suspects | None:
    """Who is waited for: by flight recorders, by stacks, by who has said least; else None."""
    suspects = (
        _suspect_by_flight(evidence) or _suspect_by_stacks(evidence) or _suspect_by_logs(evidence)
    )
    if suspects is None:
        return None
    for line in _read_stacks(evidence).get(suspects.ranks[0], []):
        frame = _FRAME.match(line.text)
        if frame and not _FOREIGN.search(frame[1]):
            place = f"{frame[1]}:{frame[2]}, in {frame[3]}"
            return suspects._replace(place=place, lines=(line, *suspects.lines))
    return suspects


def find_unheard(evidence: Evidence, heard: set[int]) -> tuple[int, ...]:
    """Of processes that wait for each other in vain, a few who did not say so."""
    silent = tuple(rank for rank in evidence.ranks if rank not in heard)
    return silent if len(silent) * 2 < len(evidence.ranks) else ()


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


def _read_stacks(evidence: Evidence) -> dict[int, list[Line]]:
    """The stacks that processes have left, by rank."""
    stacks = {}
    for path in sorted(evidence.run_dir.glob("hangs/*-rank-*.stacks")):
        number = path.stem.rpartition("-")[2]
        if number.isdecimal() and get_mtime(path) >= evidence.began:
            stacks[int(number)] = list(read_lines(path))
    return stacks


def _suspect_by_stacks(evidence: Evidence) -> Suspects | None:
    """By the stacks that the bundled trainer's processes leave, of those that can."""
    stacks = _read_stacks(evidence)
    if not stacks:
        return None
    silent = tuple(rank for rank in evidence.ranks if rank not in stacks)
    if silent and len(silent) < len(evidence.ranks):
        others = next(iter(stacks.values()))
        return Suspects(silent, tuple(others[:1]))
    own = {rank: frames for rank, lines in stacks.items() if (frames := _find_main_thread(lines))}
    busy = {
        rank: frames
        for rank, frames in own.items()
        if not any(_WAITS.search(frame.text) for frame in frames)
    }
    if not busy or len(busy) == len(own):
        return None
    return Suspects(tuple(busy), tuple(line for frames in busy.values() for line in frames[:2]))


def _find_main_thread(lines: list[Line]) -> list[Line]:
    """The frames of the thread that runs the program, the innermost first."""
    threads: list[list[Line]] = []
    for line in lines:
        if re.match(r"(Current thread|Thread) 0x", line.text):
            threads.append([])
        elif threads and line.text.startswith("  File "):
            threads[-1].append(line)
    outermost = re.compile(r" in (<module>|_run_module_as_main)$")
    return next((thread for thread in threads if thread and outermost.search(thread[-1].text)), [])


def _suspect_by_logs(evidence: Evidence) -> Suspects | None:
    """By the step that each process has printed last."""
    steps: dict[int, tuple[int, Line]] = {}
    for rank, node in evidence.ranks.items():
        for line in reversed(evidence.read_log(node, rank)):
            if step := _STEP.search(line.text):
                steps[rank] = (int(step[1]), line)
                break
    numbers = {number for number, _ in steps.values()}
    if len(numbers) < 2:
        return None
    late = {rank: line for rank, (number, line) in steps.items() if number == min(numbers)}
    return Suspects(tuple(late), tuple(late.values()))
