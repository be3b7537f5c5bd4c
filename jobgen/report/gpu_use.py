"""The nodes' GPU samples in `usage/<node>.csv`, in total and over time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean

from jobgen.jobs.files import open_left
from jobgen.jobs.gpu_samples import GpuSample, read_gpu_csv
from jobgen.report.facts import Curve, Usage

_STRETCHES = 400  # of time, at most
_LEAST_SECONDS = 30.0
_MOST_BYTES = 16 << 20  # of a file: 8 GPUs for a month
_LONGEST_PAUSE = 300.0  # seconds between two samples of one start
Noted = tuple[float, tuple[GpuSample, ...]]  # a moment, and the GPUs of a node then
Samples = list[list[Noted]]  # of each node


def read_samples(run_dirs: Iterable[Path]) -> Samples:
    """Return the moments of each node in these folders; damaged lines are left out.

    Programs that share a node note the same GPUs: the longest record of it counts.
    """
    nodes: dict[str, list[Noted]] = {}
    for path in (path for folder in run_dirs for path in sorted(folder.glob("usage/*.csv"))):
        try:
            with open_left(path) as file:
                text = file.read(_MOST_BYTES).decode(errors="replace")
        except OSError:
            continue
        moments = list(read_gpu_csv(text))
        if len(moments) > len(nodes.get(path.name, ())):
            nodes[path.name] = moments
    return [*nodes.values()]


def gather_usage(nodes: Samples) -> Usage | None:
    """Return the totals of the nodes' samples; None without any."""
    if not nodes:
        return None
    gpus = [gpu for node in nodes for _, some in node for gpu in some]
    return Usage(
        nodes=len(nodes),
        seconds=min(sum(seconds for seconds, *_ in _pair_samples(node)) for node in nodes),
        gpu_use=_average(_list_known(gpus, "use")),
        gpu_memory=max(_list_known(gpus, "memory"), default=None),
        gpu_total=min(_list_known(gpus, "total"), default=None),
        gpu_power=_average(_list_known(gpus, "power")),
        gpu_uses=_draw_use(nodes),
    )


def measure_energy(nodes: Samples) -> float | None:
    """Return the kWh of all GPUs from their power samples; None without any.

    Between two samples the power is taken to change evenly; pauses count nothing.
    """
    joules: list[float] = []
    for node in nodes:
        for seconds, *both in _pair_samples(node):
            watts = [_list_known(gpus, "power") for gpus in both]
            if all(watts):
                joules.append(sum(map(sum, watts)) / 2 * seconds)
    return sum(joules) / 3.6e6 if joules else None


def _pair_samples(
    node: list[Noted],
) -> Iterator[tuple[float, tuple[GpuSample, ...], tuple[GpuSample, ...]]]:
    """Yield the seconds between two samples of one start, and both; a pause ends a start."""
    for (before, gpus), (after, following) in pairwise(node):
        if 0 < after - before <= _LONGEST_PAUSE:
            yield after - before, gpus, following


def _draw_use(nodes: Samples) -> Curve:
    """Return the use of all GPUs over minutes: each node's mean in a stretch, and theirs."""
    times = [time for node in nodes for time, _ in node]
    begin = min(times)
    width = max(_LEAST_SECONDS, (max(times) - begin) / _STRETCHES)
    stretches: dict[int, dict[int, list[float]]] = {}
    for number, node in enumerate(nodes):
        for time, gpus in node:
            if uses := _list_known(gpus, "use"):
                stretch = stretches.setdefault(int((time - begin) / width), {})
                stretch.setdefault(number, []).append(fmean(uses))
    x = sorted(stretches)
    return Curve(
        tuple(round((at + 0.5) * width / 60, 2) for at in x),
        tuple(fmean(map(fmean, stretches[at].values())) for at in x),
    )


def _average(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def _list_known(gpus: Iterable[GpuSample], key: str) -> list[float]:
    values = [getattr(gpu, key) for gpu in gpus]
    return [value for value in values if value is not None]
