"""The charts of a page as data, which `page/page.js` draws."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from jobgen.records import NamedTuple
from jobgen.report.facts import Comparison, Curve, Ranks, Report, RunFacts, Spread, Training, Usage
from jobgen.report.figures import format_number, format_span

Values = Sequence[float | None]
_MOST_BARS = 200  # of one chart; more are a line
_MOST_PLACES = 8  # on x that are all labelled


class Chart(NamedTuple):
    """One chart: `data` has x, then the values of each series, or None for a missing one.

    `kind` is lines, bars or steps; `marks` are places on x where an attempt began. `text` describes
    the chart in words.
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
    logarithmic: bool = False  # x
    top: float | None = None  # of y, where several charts share a scale
    splits: tuple[float, ...] = ()  # where x is labelled


def draw_charts(report: Report) -> tuple[Chart, ...]:
    """Return the charts that have data, in the order of the page."""
    if report.comparison:
        return tuple(_draw_several(report.comparison))
    return tuple(_draw_run(report.runs[0]))


def _draw_run(run: RunFacts) -> Iterator[Chart]:
    training, ranks = run.training, run.ranks
    if training:
        yield from _draw_training(training)
    if training and ranks and ranks.size > 1 and ranks.speed:
        yield _draw_ranks(ranks, ranks.speed, training.unit)
    if run.usage and len(run.usage.gpu_uses.x) > 1:
        yield _draw_gpu_use(run.usage)


def _draw_training(training: Training) -> Iterator[Chart]:
    unit = training.unit
    marks = tuple(float(step) for step in training.starts)
    if training.losses.x:
        text = f"The last loss is {format_number(training.loss)}"
        if training.least_loss:
            least, step = training.least_loss
            text += f", the least {format_number(least)} at step {step}"
        if training.validation is not None:
            text += f"; the last validation {format_number(training.validation)}"
        curves = [("training", training.losses), ("validation", training.validations)]
        yield _draw_lines("loss", "Loss", "loss", curves, text)._replace(marks=marks, wide=True)
    over_all = f"The median is {format_number(training.speed)} {unit}/s, over all ranks."
    for id, title, name, curve, text in (
        ("speed", f"{unit.capitalize()}/s", f"{unit}/s", training.speeds, over_all),
        ("rate", "Learning rate", "learning rate", training.rates, "The last rate is {}."),
        ("gradients", "Gradient norm", "gradient norm", training.gradients, "The last norm is {}."),
    ):
        if curve.x:
            words = text.replace("{}", format_number(curve.y[-1]))
            yield _draw_lines(id, title, "", [(name, curve)], words)._replace(marks=marks)
    if training.step_times:
        yield _draw_steps(training.step_times)


def _draw_steps(times: Spread) -> Chart:
    text = (
        f"Half of the lines in the log are below {format_span(times.median)} per step, one in "
        f"twenty is above {format_span(times.p95)}; the last bar reaches to "
        f"{format_span(times.most)}."
    )
    # In the unit of the sentences around it.
    scale, unit = (1000, "ms") if times.median < 1 else (1, "s")
    edges = [edge * scale for edge in times.edges]
    data = (_shorten([(a + b) / 2 for a, b in pairwise(edges)]), list(times.counts))
    y = "lines of the log"
    chart = Chart("steps", "Time per step", "bars", f"{unit} a step", y, (y,), data, text)
    splits = edges[:: max(1, len(edges) // 4)]
    return chart._replace(splits=tuple(float(f"{edge:.3g}") for edge in splits))


def _draw_ranks(ranks: Ranks, speed: Sequence[float], unit: str) -> Chart:
    """Draw the speed by rank; the slow ranks are their own series."""
    text = "Each rank's speed on its share of the batch; all ranks wait for the slowest."
    title, what = f"{unit.capitalize()}/s by rank", f"{unit}/s"
    chart = Chart("rank-speed", title, "bars", "rank", "", (what,), (), text)
    numbers, usual = list(map(float, range(len(speed)))), _shorten(speed)
    slow = {one.rank for one in ranks.slow}
    odd = [value if rank in slow else None for rank, value in enumerate(usual)]
    if len(speed) > _MOST_BARS:  # as a line, which has no gaps
        chart = chart._replace(kind="steps")
    else:
        usual = [None if rank in slow else value for rank, value in enumerate(usual)]
    if not slow:
        return chart._replace(data=(numbers, usual))
    return chart._replace(series=(what, "slow ranks"), data=(numbers, usual, odd))


def _draw_gpu_use(usage: Usage) -> Chart:
    text = f"The mean of all GPUs: {usage.gpu_use:.0f} % over the whole run."
    chart = _draw_lines("usage-gpu", "GPU use", "%", [("busy", usage.gpu_uses)], text)
    return chart._replace(x="minutes", wide=True, top=100.0)


def _draw_several(comparison: Comparison) -> Iterator[Chart]:
    more = f" {comparison.left_out} more are not drawn." if comparison.left_out else ""
    for id, title, y, curves in (
        ("losses", "Training loss", "loss", comparison.curves),
        ("validations", "Validation loss", "loss", comparison.validations),
        ("speeds", "Speed", "units per second", comparison.speeds),
    ):
        if drawn := sum(bool(curve.x) for _, curve in curves):
            text = f"{drawn} runs, {comparison.order}.{more}"
            yield _draw_lines(id, title, y, curves, text)._replace(wide=True)
    measure = comparison.measure
    for number, parameter in enumerate(comparison.parameters):
        title = f"{measure.capitalize()} by {parameter.name}"
        text = "The last value of each run, or the mean of runs that differ only in their seed."
        chart = _draw_lines(f"parameter-{number}", title, measure, parameter.curves, text)
        tried = tuple(value for value in chart.data[0] if value is not None)
        chart = chart._replace(x=parameter.name, logarithmic=parameter.logarithmic)
        yield chart._replace(splits=tried if len(tried) <= _MOST_PLACES else ())


def _draw_lines(
    id: str, title: str, y: str, curves: Sequence[tuple[str, Curve]], text: str
) -> Chart:
    """Draw curves over the same steps; a curve without a value at a step has None there."""
    curves = [(name, curve) for name, curve in curves if curve.x]
    places = sorted({at for _, curve in curves for at in curve.x})
    known = [dict(zip(curve.x, curve.y, strict=True)) for _, curve in curves]
    columns = [_shorten([values.get(at) for at in places]) for values in known]
    names = tuple(name for name, _ in curves)
    return Chart(id, title, "lines", "step", y, names, (places, *columns), text)


def _shorten(values: Values) -> list[float | None]:
    """Round to six digits, which is more than a chart shows."""
    return [None if value is None else float(f"{value:.6g}") for value in values]
