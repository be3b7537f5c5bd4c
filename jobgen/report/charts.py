"""The charts of a page as data, which `page/page.js` draws."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jobgen.records import NamedTuple
from jobgen.report.facts import Comparison, Curve, Report, RunFacts, Training, Usage
from jobgen.report.figures import format_number

Values = Sequence[float | None]
_MOST_PLACES = 8  # on x that are all labelled


class Chart(NamedTuple):
    """One chart: `data` has x, then the values of each series, or None for a missing one.

    `marks` are places on x where an attempt began. `text` describes the chart in words.
    """

    id: str
    title: str
    x: str
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
    if run.training:
        yield from _draw_training(run.training)
    if run.usage and len(run.usage.gpu_uses.x) > 1:
        yield _draw_gpu_use(run.usage)


def _draw_training(training: Training) -> Iterator[Chart]:
    unit = training.unit
    marks = tuple(float(step) for step in training.starts)
    if training.losses.x:
        lost = training.loss is None and training.diverged is not None
        text = f"The last loss is {'not a number' if lost else format_number(training.loss)}"
        if training.least_loss:
            least, step = training.least_loss
            text += f", the least {format_number(least)} at step {step}"
        if training.validation is not None:
            text += f"; the last validation {format_number(training.validation)}"
        curves = [("training", training.losses), ("validation", training.validations)]
        yield _draw_lines("loss", "Loss", curves, text)._replace(marks=marks, wide=True)
    over_all = f"The median is {format_number(training.speed)} {unit}/s, over all ranks."
    for id, title, name, curve, text in (
        ("speed", f"{unit.capitalize()}/s", f"{unit}/s", training.speeds, over_all),
        ("rate", "Learning rate", "learning rate", training.rates, "The last rate is {}."),
        ("gradients", "Gradient norm", "gradient norm", training.gradients, "The last norm is {}."),
    ):
        if curve.x:
            words = text.replace("{}", format_number(curve.y[-1]))
            yield _draw_lines(id, title, [(name, curve)], words)._replace(marks=marks)


def _draw_gpu_use(usage: Usage) -> Chart:
    text = f"The mean of all GPUs: {usage.gpu_use:.0f} % over the whole run."
    chart = _draw_lines("usage-gpu", "GPU use", [("busy", usage.gpu_uses)], text)
    return chart._replace(x="minutes", wide=True, top=100.0)


def _draw_several(comparison: Comparison) -> Iterator[Chart]:
    more = f" {comparison.left_out} more are not drawn." if comparison.left_out else ""
    for id, title, curves in (
        ("losses", "Training loss", comparison.curves),
        ("validations", "Validation loss", comparison.validations),
        ("speeds", "Speed", comparison.speeds),
    ):
        if drawn := sum(bool(curve.x) for _, curve in curves):
            text = f"{drawn} runs, {comparison.order}.{more}"
            yield _draw_lines(id, title, curves, text)._replace(wide=True)
    for number, parameter in enumerate(comparison.parameters):
        title = f"{comparison.measure.capitalize()} by {parameter.name}"
        text = "The last value of each run, or the mean of runs that differ only in their seed."
        chart = _draw_lines(f"parameter-{number}", title, parameter.curves, text)
        tried = tuple(value for value in chart.data[0] if value is not None)
        chart = chart._replace(x=parameter.name, logarithmic=parameter.logarithmic)
        yield chart._replace(splits=tried if len(tried) <= _MOST_PLACES else ())


def _draw_lines(id: str, title: str, curves: Sequence[tuple[str, Curve]], text: str) -> Chart:
    """Draw curves over the same steps; a curve without a value at a step has None there."""
    curves = [(name, curve) for name, curve in curves if curve.x]
    places = sorted({at for _, curve in curves for at in curve.x})
    known = [dict(zip(curve.x, curve.y, strict=True)) for _, curve in curves]
    columns = [_shorten([values.get(at) for at in places]) for values in known]
    names = tuple(name for name, _ in curves)
    return Chart(id, title, "step", names, (places, *columns), text)


def _shorten(values: Values) -> list[float | None]:
    """Round to six digits, which is more than a chart shows."""
    return [None if value is None else float(f"{value:.6g}") for value in values]
