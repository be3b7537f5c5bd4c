"""A job that is alive and does not get on: since when, and for which of its processes it waits."""

from __future__ import annotations

import json
import re
import time
from itertools import pairwise
from typing import NamedTuple

from jobgen.diagnose import flight
from jobgen.diagnose.evidence import Evidence
from jobgen.diagnose.reading import Line, read, written

# Ten minutes of silence are a hang, as they are for the bundled trainer's watchdog; where metrics
# tell that steps are long, ten times the longest between two of them so far.
_SILENT, _STEPS = 600.0, 10
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

    @property
    def long(self) -> bool:
        """Whether it is a hang."""
        return self.seconds >= self.most


def silence(evidence: Evidence) -> Silence | None:
    """For how long a running job has written nothing; None before it has begun.

    By the clock of the shared file system: a node's sign of life tells what time it is there.
    """
    if evidence.attempt is None or not evidence.nodes:
        return None
    metrics = evidence.run_dir / "metrics.jsonl"
    files = [metrics, *evidence.run_dir.glob("logs/*/rank-*.*")]
    files += evidence.run_dir.glob("checkpoints/*")
    newest = max(files, key=written)
    now = max(map(written, evidence.attempt.glob("node-*.alive")), default=0.0) or time.time()
    lines = [line for line in read(metrics) if line.text.strip()]
    times = [stamp for line in lines if (stamp := _time(line.text)) >= evidence.began]
    gaps = [later - before for before, later in pairwise(times)]
    most = max(_SILENT, _STEPS * max(gaps, default=0.0))
    last = max(written(newest), evidence.began)
    if not times and newest.suffix in (".out", ".err"):
        lines = [line for line in read(newest) if line.text.strip()]
    return Silence(max(0.0, now - last), most, last, lines[-1] if lines else None)


def _time(text: str) -> float:
    try:
        return float(json.loads(text)["time"])
    except (ValueError, KeyError, TypeError):
        return 0.0


def suspects(evidence: Evidence) -> Suspects | None:
    """Who is waited for: by flight recorders, by stacks, by who has said least; else None."""
    found = _by_flight(evidence) or _by_stacks(evidence) or _by_logs(evidence)
    if found is None:
        return None
    for line in _stacks(evidence).get(found.ranks[0], []):
        frame = _FRAME.match(line.text)
        if frame and not _FOREIGN.search(frame[1]):
            place = f"{frame[1]}:{frame[2]}, in {frame[3]}"
            return found._replace(place=place, lines=(line, *found.lines))
    return found


def unheard(evidence: Evidence, heard: set[int]) -> Suspects | None:
    """Of processes that wait for each other in vain, a few who did not say so."""
    silent = tuple(rank for rank in evidence.ranks if rank not in heard)
    if not silent or len(silent) * 2 >= len(evidence.ranks):
        return None
    return Suspects(silent, ())


def _by_flight(evidence: Evidence) -> Suspects | None:
    paths = {}
    for pattern in ("errors/*-flight-*", "hangs/*-rank-*.flight.json"):
        for path in sorted(evidence.run_dir.glob(pattern)):
            number = re.search(r"-(\d+)(\.flight\.json)?$", path.name)
            if number and written(path) >= evidence.began:
                paths[int(number[1])] = path
    found = flight.behind(paths) if paths else None
    if found is None:
        return None
    return Suspects(found.ranks, tuple(Line(path, 1, text) for path, text in found.told))


def _stacks(evidence: Evidence) -> dict[int, list[Line]]:
    """The stacks that processes have left, by rank."""
    found = {}
    for path in sorted(evidence.run_dir.glob("hangs/*-rank-*.stacks")):
        number = path.stem.rpartition("-")[2]
        if number.isdecimal() and written(path) >= evidence.began:
            found[int(number)] = list(read(path))
    return found


def _by_stacks(evidence: Evidence) -> Suspects | None:
    """By the stacks that the bundled trainer's processes leave, of those that can."""
    stacks = _stacks(evidence)
    if not stacks:
        return None
    silent = tuple(rank for rank in evidence.ranks if rank not in stacks)
    if silent and len(silent) < len(evidence.ranks):
        others = next(iter(stacks.values()))
        return Suspects(silent, tuple(others[:1]))
    own = {rank: frames for rank, lines in stacks.items() if (frames := _main(lines))}
    busy = {
        rank: frames
        for rank, frames in own.items()
        if not any(_WAITS.search(frame.text) for frame in frames)
    }
    if not busy or len(busy) == len(own):
        return None
    return Suspects(tuple(busy), tuple(line for frames in busy.values() for line in frames[:2]))


def _main(lines: list[Line]) -> list[Line]:
    """The frames of the thread that runs the program, the innermost first."""
    threads: list[list[Line]] = []
    for line in lines:
        if re.match(r"(Current thread|Thread) 0x", line.text):
            threads.append([])
        elif threads and line.text.startswith("  File "):
            threads[-1].append(line)
    outermost = re.compile(r" in (<module>|_run_module_as_main)$")
    return next((thread for thread in threads if thread and outermost.search(thread[-1].text)), [])


def _by_logs(evidence: Evidence) -> Suspects | None:
    """By the step that each process has printed last."""
    steps: dict[int, tuple[int, Line]] = {}
    for rank, node in evidence.ranks.items():
        for line in reversed(evidence.said(node, rank)):
            if step := _STEP.search(line.text):
                steps[rank] = (int(step[1]), line)
                break
    numbers = {number for number, _ in steps.values()}
    if len(numbers) < 2:
        return None
    late = {rank: line for rank, (number, line) in steps.items() if number == min(numbers)}
    return Suspects(tuple(late), tuple(late.values()))
