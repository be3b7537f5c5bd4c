"""What the job's nodes noted while it ran, in total and over time.

GPUs are in `usage/<node>.csv`. Older scripts wrote `usage/<node>.jsonl`, which has CPU time and
memory too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from jobgen.jobs.record import open_left
from jobgen.jobs.usage import GpuSample, Sample, read_gpu_csv, read_usage
from jobgen.records import NamedTuple
from jobgen.report.facts import Curve, Usage

_STRETCHES = 400  # of time, at most
_LEAST_SECONDS = 30.0
_MOST_BYTES = 16 << 20  # of a file: 8 GPUs for a month
_LONGEST_PAUSE = 300.0  # seconds between two samples of one start
Points = Iterable[tuple[float, float]]


class GpuMoment(NamedTuple):
    """The GPUs of a node at one moment of one start."""

    time: float
    attempt: int
    gpus: tuple[GpuSample, ...]


Moment = TypeVar("Moment", bound="Sample | GpuMoment")


def gather_usage(*run_dirs: Path) -> Usage | None:
    """Return what was noted in these folders; None if nothing was."""
    processes = [node for folder in run_dirs for node in read_usage(folder).values()]
    devices = [*_list_gpu_moments(processes)]
    devices += [moments for folder in run_dirs for moments in _read_csv_files(folder)]
    moments = [*_list_times(processes), *_list_times(devices)]
    if not moments:
        return None
    timing = _Timing(min(moments), max(moments))
    gpus = [gpu for node in devices for one in node for gpu in one.gpus]
    return Usage(
        nodes=len(processes) or len(devices),
        seconds=min(map(_measure_cover, processes or devices)),
        cpu_seconds=_sum_cpu_time(processes),
        memory=max((one.most for node in processes for one in node), default=None),
        gpu_use=_average(_list_known(gpus, "use")),
        gpu_memory=max(_list_known(gpus, "memory"), default=None),
        gpu_total=min(_list_known(gpus, "total"), default=None),
        gpu_power=_average(_list_known(gpus, "power")),
        busy=timing.draw(map(_read_busy, processes), sum),
        held=timing.draw(([(one.time, one.memory) for one in node] for node in processes), max),
        gpu_uses=timing.draw(map(_read_gpu_use, devices), _mean),
    )


def measure_energy(run_dir: Path) -> float | None:
    """Return the kWh of all GPUs by the samples of their power; None without any.

    Between two samples the power is taken to change evenly; pauses count nothing.
    """
    joules: list[float] = []
    for node in [*_list_gpu_moments(read_usage(run_dir).values()), *_read_csv_files(run_dir)]:
        for before, after in pairwise(node):
            watts = [_list_known(one.gpus, "power") for one in (before, after)]
            seconds = after.time - before.time
            if all(watts) and 0 < seconds <= _LONGEST_PAUSE:
                joules.append(sum(map(sum, watts)) / 2 * seconds)
    return sum(joules) / 3.6e6 if joules else None


class _Timing:
    """The time from the first sample to the last, in stretches of one length."""

    def __init__(self, begin: float, end: float) -> None:
        self.begin = begin
        self.width = max(_LEAST_SECONDS, (end - begin) / _STRETCHES)

    def draw(self, nodes: Iterable[Points], combine: Callable[[list[float]], float]) -> Curve:
        """Return a curve over minutes: each node's mean in a stretch, combined over the nodes."""
        stretches: dict[int, list[float]] = {}
        for points in nodes:
            own: dict[int, list[float]] = {}
            for moment, value in points:
                own.setdefault(int((moment - self.begin) / self.width), []).append(value)
            for number, values in own.items():
                stretches.setdefault(number, []).append(_mean(values))
        x = sorted(stretches)
        return Curve(
            tuple(round((number + 0.5) * self.width / 60, 2) for number in x),
            tuple(combine(stretches[number]) for number in x),
        )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _average(values: Sequence[float]) -> float | None:
    return _mean(values) if values else None


def _list_known(gpus: Iterable[GpuSample], key: str) -> list[float]:
    """Return a number of each GPU that has it."""
    return [value for gpu in gpus if (value := getattr(gpu, key)) is not None]


def _list_times(nodes: Iterable[Sequence[Sample | GpuMoment]]) -> Iterator[float]:
    return (one.time for node in nodes for one in node)


def _split(node: Sequence[Moment]) -> Iterator[tuple[Moment, Moment]]:
    """Yield the first and the last sample of each start of the job."""
    for attempt in dict.fromkeys(one.attempt for one in node):
        own = [one for one in node if one.attempt == attempt]
        yield own[0], own[-1]


def _measure_cover(node: Sequence[Sample | GpuMoment]) -> float:
    """Return the seconds of all starts that lie between samples."""
    return sum(last.time - first.time for first, last in _split(node))


def _sum_cpu_time(processes: list[list[Sample]]) -> float | None:
    if not processes:
        return None
    return sum(last.cpu_seconds for node in processes for _, last in _split(node))


def _read_busy(node: list[Sample]) -> Iterator[tuple[float, float]]:
    """Yield how many CPUs were busy between two samples."""
    for before, after in pairwise(node):
        seconds = after.time - before.time
        if before.attempt == after.attempt and seconds > 0:
            busy = max(0.0, after.cpu_seconds - before.cpu_seconds) / seconds
            yield (before.time + after.time) / 2, busy


def _read_gpu_use(node: list[GpuMoment]) -> Iterator[tuple[float, float]]:
    """Yield the percent of the time that a node's GPUs were busy, on average."""
    for one in node:
        if (use := _average(_list_known(one.gpus, "use"))) is not None:
            yield one.time, use


def _list_gpu_moments(processes: Iterable[list[Sample]]) -> Iterator[list[GpuMoment]]:
    """Yield what the older form says of each node that has GPUs."""
    for node in processes:
        if any(sample.gpus for sample in node):
            yield [GpuMoment(sample.time, sample.attempt, sample.gpus) for sample in node]


def _read_csv_files(run_dir: Path) -> Iterator[list[GpuMoment]]:
    """Yield the moments of each node in `usage/*.csv`; damaged lines are left out."""
    for path in sorted(run_dir.glob("usage/*.csv")):
        try:
            with open_left(path) as file:
                text = file.read(_MOST_BYTES).decode(errors="replace")
        except OSError:
            continue
        if moments := list(_count_starts(read_gpu_csv(text))):
            yield moments


def _count_starts(moments: Iterable[tuple[float, tuple[GpuSample, ...]]]) -> Iterator[GpuMoment]:
    """Yield the moments, each with the number of its start: a pause parts two of them."""
    attempt, before = 0, None
    for moment, gpus in moments:
        if before is not None and not 0 <= moment - before <= _LONGEST_PAUSE:
            attempt += 1
        before = moment
        yield GpuMoment(moment, attempt, gpus)
