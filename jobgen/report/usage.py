"""What the job's own processes have used, in all and over time, by what its nodes have noted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from jobgen.jobs.usage import Sample, read_usage
from jobgen.report.facts import Curve, Usage

_STRETCHES = 400  # of time, at most
_LEAST_SECONDS = 30.0
Points = Iterable[tuple[float, float]]


def gather_usage(run_dir: Path) -> Usage | None:
    """Return what was noted; None where nothing was."""
    nodes = list(read_usage(run_dir).values())
    samples = [sample for node in nodes for sample in node]
    if not samples:
        return None
    begin = min(sample.time for sample in samples)
    length = max(sample.time for sample in samples) - begin
    width = max(_LEAST_SECONDS, length / _STRETCHES)

    def draw(
        read: Callable[[list[Sample]], Points], combine: Callable[[list[float]], float]
    ) -> Curve:
        """A curve over minutes: of each node its mean in a stretch of time, then of all nodes."""
        stretches: dict[int, list[float]] = {}
        for node in nodes:
            own: dict[int, list[float]] = {}
            for time, value in read(node):
                own.setdefault(int((time - begin) / width), []).append(value)
            for number, values in own.items():
                stretches.setdefault(number, []).append(_average(values))
        x = sorted(stretches)
        return Curve(
            tuple(round((number + 0.5) * width / 60, 2) for number in x),
            tuple(combine(stretches[number]) for number in x),
        )

    gpus = [gpu for sample in samples for gpu in sample.gpus]
    powers = [gpu.power for gpu in gpus if gpu.power is not None]
    uses = [gpu.use for gpu in gpus if gpu.use is not None]
    return Usage(
        nodes=len(nodes),
        seconds=min(sum(last.time - first.time for first, last in _starts(node)) for node in nodes),
        cpu_seconds=sum(last.cpu_seconds for node in nodes for _, last in _starts(node)),
        memory=max(sample.most for sample in samples),
        gpu_use=_average(uses) if uses else None,
        gpu_memory=max((gpu.memory for gpu in gpus if gpu.memory is not None), default=None),
        gpu_total=min((gpu.total for gpu in gpus if gpu.total is not None), default=None),
        gpu_power=_average(powers) if powers else None,
        busy=draw(_read_busy, sum),
        held=draw(lambda node: ((one.time, one.memory) for one in node), max),
        gpu_uses=draw(_read_gpu_use, _average),
    )


def _average(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _starts(node: list[Sample]) -> Iterator[tuple[Sample, Sample]]:
    """The first and the last sample of each start of the job."""
    for attempt in dict.fromkeys(sample.attempt for sample in node):
        own = [sample for sample in node if sample.attempt == attempt]
        yield own[0], own[-1]


def _read_busy(node: list[Sample]) -> Iterator[tuple[float, float]]:
    """How many CPUs were busy between two samples."""
    for before, after in pairwise(node):
        seconds = after.time - before.time
        if before.attempt == after.attempt and seconds > 0:
            busy = max(0.0, after.cpu_seconds - before.cpu_seconds) / seconds
            yield (before.time + after.time) / 2, busy


def _read_gpu_use(node: list[Sample]) -> Iterator[tuple[float, float]]:
    """How busy a node's GPUs were, in percent, on average."""
    for sample in node:
        uses = [gpu.use for gpu in sample.gpus if gpu.use is not None]
        if uses:
            yield sample.time, _average(uses)
