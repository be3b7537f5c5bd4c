"""The charts of a page, as data: `page/page.js` draws them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from jobgen.report.facts import Comparison, Curve, Ranks, Report, Run, Spread
from jobgen.report.figures import median
from jobgen.report.words import figure, span

Values = Sequence[float | None]


class Chart(NamedTuple):
    """One chart: `data` has x, then the values of each series; None where there is none.

    `kind` is lines, bars or steps; `marks` are places on x where an attempt began. `text` says in
    words what is seen.
    """

    id: str
    title: str
    kind: str
    x: str
    y: str
    series: tuple[str, ...]
    data: tuple[Values, ...]
    text: str
    marks: tuple[float, ...] = ()
    wide: bool = False


def charts(report: Report) -> tuple[Chart, ...]:
    """All that have something to show, in order."""
    if report.comparison:
        return tuple(_of_several(report.comparison))
    run = report.runs[0]
    found = [*_of_training(run)]
    if run.training and run.training.step_times:
        found.append(_of_steps(run.training.step_times))
    if run.ranks and run.ranks.size > 1:
        found += _of_ranks(run.ranks, run.training.unit if run.training else "tokens")
    return tuple(found)


def _of_training(run: Run) -> Iterator[Chart]:
    training = run.training
    if training is None:
        return
    marks = tuple(float(step) for step in training.starts)
    of_loss = [("training", training.losses), ("validation", training.validations)]
    if training.losses.x:
        text = f"The last loss is {figure(training.loss)}"
        if training.least_loss:
            text += f", the least {figure(training.least_loss[0])} at step {training.least_loss[1]}"
        if training.validation is not None:
            text += f"; the last validation {figure(training.validation)}"
        yield _lines("loss", "Loss", "loss", of_loss, text, marks=marks, wide=True)
    if training.speeds.x:
        text = f"The median is {figure(training.speed)} {training.unit} a second, all ranks."
        named = [(f"{training.unit}/s", training.speeds)]
        yield _lines(
            "speed", f"{training.unit.capitalize()} a second", "", named, text, marks=marks
        )
    if training.rates.x:
        text = f"The last rate is {figure(training.rates.y[-1])}."
        yield _lines(
            "rate", "Learning rate", "", [("learning rate", training.rates)], text, marks=marks
        )


def _of_steps(times: Spread) -> Chart:
    text = (
        f"Half of the log's lines tell of less than {span(times.median)} a step, one in twenty of "
        f"more than {span(times.p95)}, the last bar of up to {span(times.most)}."
    )
    middles = [(a + b) / 2 for a, b in zip(times.edges, times.edges[1:], strict=False)]
    return Chart(
        "steps",
        "Time of a step",
        "bars",
        "seconds a step",
        "lines of the log",
        ("lines of the log",),
        (_short(middles), list(times.counts)),
        text,
    )


def _of_ranks(ranks: Ranks, unit: str) -> Iterator[Chart]:
    slow = {one.rank for one in ranks.slow}
    kind = "bars" if ranks.size <= 200 else "steps"
    x = [float(rank) for rank in range(ranks.size)]

    def chart(id: str, title: str, what: str, values: Sequence[float], text: str) -> Chart:
        hidden = slow if kind == "bars" else ()
        usual = _short([None if rank in hidden else value for rank, value in enumerate(values)])
        data: tuple[Values, ...] = (x, usual)
        series: tuple[str, ...] = (what,)
        if slow:
            odd = [value if rank in slow else None for rank, value in enumerate(values)]
            data, series = (*data, _short(odd)), (*series, "slow ranks")
        return Chart(id, title, kind, "rank", "", series, data, text)

    if ranks.speed:
        text = "By the share of the batch that each rank has: all wait for the slowest."
        yield chart(
            "rank-speed", f"{unit.capitalize()} a second by rank", f"{unit}/s", ranks.speed, text
        )
    if ranks.forward and any(ranks.forward):
        own = ranks.speed or (1.0,) * ranks.size
        each = [seconds / (share or 1.0) for seconds, share in zip(ranks.forward, own, strict=True)]
        slowest = max(range(ranks.size), key=lambda rank: each[rank])
        usually = median(each)
        text = "Seconds a step in the rank's own forward passes."
        if usually:
            times = each[slowest] / usually
            text += f" Rank {slowest} took longest for its share: {times:.2f} times the median."
        yield chart("rank-forward", "Forward passes by rank", "seconds", ranks.forward, text)
    if ranks.waiting and any(ranks.waiting):
        text = "Seconds a step in which the rank waited for its data."
        yield chart("rank-waiting", "Waiting for data by rank", "seconds", ranks.waiting, text)
    if ranks.memory:
        text = "The most that each rank has held, in 1024^3 bytes."
        held = [value / 1024**3 for value in ranks.memory]
        yield chart("rank-memory", "Memory by rank", "GB", held, text)
    if ranks.gpu_use:
        text = "How much of the time the GPU was busy."
        yield chart("rank-gpu", "GPU use by rank", "%", ranks.gpu_use, text)


def _of_several(comparison: Comparison) -> Iterator[Chart]:
    for id, title, curves in (
        ("losses", "Loss", comparison.curves),
        ("speeds", "Speed", comparison.speeds),
    ):
        drawn = [(name, curve) for name, curve in curves if curve.x]
        if drawn:
            more = f" {comparison.left_out} more are not drawn." if comparison.left_out else ""
            text = f"{len(drawn)} runs, the least loss first.{more}"
            y = "loss" if id == "losses" else "units a second"
            yield _lines(id, title, y, drawn, text, wide=True)


def _lines(
    id: str,
    title: str,
    y: str,
    curves: Sequence[tuple[str, Curve]],
    text: str,
    *,
    marks: tuple[float, ...] = (),
    wide: bool = False,
) -> Chart:
    """Curves over the same steps; where one has no value it has None."""
    curves = [(name, curve) for name, curve in curves if curve.x]
    x = sorted({at for _, curve in curves for at in curve.x})
    columns: list[Values] = []
    for _, curve in curves:
        known = dict(zip(curve.x, curve.y, strict=True))
        columns.append(_short([known.get(at) for at in x]))
    names = tuple(name for name, _ in curves)
    return Chart(id, title, "lines", "step", y, names, (x, *columns), text, marks, wide)


def _short(values: Values) -> Values:
    """Six digits are more than can be seen."""
    return [None if value is None else float(f"{value:.6g}") for value in values]
