"""What the job's nodes noted of their GPUs in `usage/<node>.csv`, in total and over time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from jobgen.jobs.record import open_left
from jobgen.jobs.usage import GpuSample, read_gpu_csv
from jobgen.records import NamedTuple
from jobgen.report.facts import Curve, Usage

_STRETCHES = 400  # of time, at most
_LEAST_SECONDS = 30.0
_MOST_BYTES = 16 << 20  # of a file: 8 GPUs for a month
_LONGEST_PAUSE = 300.0  # seconds between two samples of one start


class GpuMoment(NamedTuple):
    """The GPUs of a node at one moment of one start."""

    time: float
    attempt: int
    gpus: tuple[GpuSample, ...]


# What each node has noted.
Samples = list[list[GpuMoment]]


def read_samples(run_dirs: Iterable[Path]) -> Samples:
    """Return the moments of each node in these folders; damaged lines are left out.

    Programs that share a node note the same GPUs: the longest record of it counts.
    """
    nodes: dict[str, list[GpuMoment]] = {}
    for path in (path for folder in run_dirs for path in sorted(folder.glob("usage/*.csv"))):
        try:
            with open_left(path) as file:
                text = file.read(_MOST_BYTES).decode(errors="replace")
        except OSError:
            continue
        moments = list(_count_starts(read_gpu_csv(text)))
        if len(moments) > len(nodes.get(path.name, ())):
            nodes[path.name] = moments
    return [*nodes.values()]


def gather_usage(nodes: Samples) -> Usage | None:
    """Return what the nodes have noted in sum; None if that is nothing."""
    if not nodes:
        return None
    gpus = [gpu for node in nodes for one in node for gpu in one.gpus]
    return Usage(
        nodes=len(nodes),
        seconds=min(map(_measure_cover, nodes)),
        gpu_use=_average(_list_known(gpus, "use")),
        gpu_memory=max(_list_known(gpus, "memory"), default=None),
        gpu_total=min(_list_known(gpus, "total"), default=None),
        gpu_power=_average(_list_known(gpus, "power")),
        gpu_uses=_draw_use(nodes),
    )


def measure_energy(nodes: Samples) -> float | None:
    """Return the kWh of all GPUs by the samples of their power; None without any.

    Between two samples the power is taken to change evenly; pauses count nothing.
    """
    joules: list[float] = []
    for node in nodes:
        for before, after in pairwise(node):
            watts = [_list_known(one.gpus, "power") for one in (before, after)]
            seconds = after.time - before.time
            if all(watts) and 0 < seconds <= _LONGEST_PAUSE:
                joules.append(sum(map(sum, watts)) / 2 * seconds)
    return sum(joules) / 3.6e6 if joules else None


def _draw_use(nodes: Sequence[Sequence[GpuMoment]]) -> Curve:
    """Return the use of all GPUs over minutes: each node's mean in a stretch, and theirs."""
    times = [one.time for node in nodes for one in node]
    begin = min(times)
    width = max(_LEAST_SECONDS, (max(times) - begin) / _STRETCHES)
    stretches: dict[int, list[float]] = {}
    for node in nodes:
        own: dict[int, list[float]] = {}
        for one in node:
            if uses := _list_known(one.gpus, "use"):
                own.setdefault(int((one.time - begin) / width), []).append(_mean(uses))
        for number, values in own.items():
            stretches.setdefault(number, []).append(_mean(values))
    x = sorted(stretches)
    return Curve(
        tuple(round((number + 0.5) * width / 60, 2) for number in x),
        tuple(_mean(stretches[number]) for number in x),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _average(values: Sequence[float]) -> float | None:
    return _mean(values) if values else None


def _list_known(gpus: Iterable[GpuSample], key: str) -> list[float]:
    """Return a number of each GPU that has it."""
    return [value for gpu in gpus if (value := getattr(gpu, key)) is not None]


def _measure_cover(node: Sequence[GpuMoment]) -> float:
    """Return the seconds of all starts that lie between samples."""
    own = [
        [one.time for one in node if one.attempt == attempt]
        for attempt in range(node[-1].attempt + 1)
    ]
    return sum(times[-1] - times[0] for times in own)


def _count_starts(moments: Iterable[tuple[float, tuple[GpuSample, ...]]]) -> Iterator[GpuMoment]:
    """Yield the moments, each with the number of its start: a pause parts two of them."""
    attempt, before = 0, None
    for moment, gpus in moments:
        if before is not None and not 0 <= moment - before <= _LONGEST_PAUSE:
            attempt += 1
        before = moment
        yield GpuMoment(moment, attempt, gpus)
