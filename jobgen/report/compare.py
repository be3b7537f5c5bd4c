"""Compare runs: how they differ, which is best, and how a value changes the loss."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Mapping, Sequence
from typing import TypeVar

from jobgen.report.facts import (
    Comparison,
    Curve,
    NamedCurve,
    Parameter,
    Row,
    RunFacts,
    SeedGroup,
    Training,
)
from jobgen.report.figures import sample_curve
from jobgen.spec.units import read_number

MOST_CURVES = 12
_MOST_PARAMETERS = 4
_POINTS = 300
_LABEL = 60  # characters of a run's values
_Stands = TypeVar("_Stands", RunFacts, Row)
# Runs that differ in these alone are the same thing tried again.
_SEEDS = {"seed", "random_seed", "SEED", "data_seed"}


def compare(runs: tuple[RunFacts, ...]) -> Comparison:
    """Compare two runs or more, the best first; the settings are those in which they differ.

    They are ordered by the last validation loss if every run that trained has one, else by the last
    loss of training. Only runs that are done count, unless none is, and of them those whose loss is
    a number at the end; the others come last.
    """
    settings = tuple(_list_differing([run.settings for run in runs], _list_given(runs)))
    runs = _compare_given(runs)
    by = _choose_measure(select_counted(runs))
    ordered = sorted(runs, key=lambda run: _place(run, by))
    labelled = list(zip(_label(ordered), ordered, strict=True))
    drawn = [(label, run.training) for label, run in labelled if run.training]
    values = [(run, run.read(by)) for run in select_counted(ordered)]
    measured = [(run, value) for run, value in values if value is not None]
    return Comparison(
        settings=settings,
        measure="validation loss" if by == "validation" else "loss",
        rows=tuple(_make_row(label, run, settings) for label, run in labelled),
        curves=_draw_curves(drawn, "losses"),
        validations=_draw_curves(drawn, "validations"),
        speeds=_draw_curves(drawn, "speeds"),
        left_out=max(0, len(drawn) - MOST_CURVES),
        groups=_group_seeds(measured),
        parameters=_draw_parameters(measured),
    )


def select_counted(runs: Sequence[_Stands]) -> list[_Stands]:
    """Return the runs, or their rows, that are done, or else all; and of them those with a loss."""
    ended = [run for run in runs if run.state == "done"] or list(runs)
    return [run for run in ended if run.diverged is None] or ended


def _place(run: RunFacts, by: str) -> tuple[object, ...]:
    """Return what orders the runs."""
    last = run.state != "done", run.diverged is not None
    return *last, _rank(run, by), _rank(run, "loss"), _number(run)


def _number(run: RunFacts) -> tuple[list[int], str]:
    """Return the numbers of a run's ID, by which task 2 of an array comes before task 10."""
    return list(map(int, re.findall(r"\d+", run.id))), run.id


def _draw_curves(drawn: Sequence[tuple[str, Training]], name: str) -> tuple[NamedCurve, ...]:
    curves = ((label, getattr(one, name)) for label, one in drawn[:MOST_CURVES])
    return tuple((label, sample_curve(*curve, most=_POINTS)) for label, curve in curves)


def _choose_measure(runs: Sequence[RunFacts]) -> str:
    known = [run.training.validation for run in runs if run.training]
    return "validation" if known and None not in known else "loss"


def _make_row(label: str, run: RunFacts, settings: Sequence[str]) -> Row:
    times = run.training.step_times if run.training else None
    return Row(
        title=label,
        id=run.id,
        state=run.state,
        loss=run.read("loss"),
        diverged=run.diverged,
        validation=run.read("validation"),
        speed=run.read("speed"),
        step=times.median if times else None,
        ran=run.ran,
        differs=tuple(run.settings.get(key) for key in settings),
    )


def _rank(run: RunFacts, name: str) -> float:
    value = run.read(name)
    return math.inf if value is None else value


def _list_given(runs: Sequence[RunFacts]) -> dict[str, None]:
    """Return what was given to some run, by name."""
    return dict.fromkeys(key for run in runs for key in run.varied)


def _compare_given(runs: Sequence[RunFacts]) -> tuple[RunFacts, ...]:
    """Return the runs with those of the given values by which they differ, wherever from."""
    given, whole = _list_given(runs), [run.settings | run.varied for run in runs]
    differing = [key for key in _list_differing(whole, given) if key in given]
    return tuple(
        run._replace(varied={key: values[key] for key in differing if key in values})
        for run, values in zip(runs, whole, strict=True)
    )


def _label(runs: Sequence[RunFacts]) -> list[str]:
    """Label each run by its own values, `lr=3e-3 seed=1`, or by its id if they do not serve."""
    valued = [(run.name, _join(run.varied)) for run in runs]
    labels = [
        values if 0 < len(values) <= _LABEL and valued.count((name, values)) == 1 else run.id
        for run, (name, values) in zip(runs, valued, strict=True)
    ]
    if len({run.name for run in runs}) == 1:
        return labels
    return [f"{run.name} {label}" for run, label in zip(runs, labels, strict=True)]


def _list_differing(runs: Sequence[Mapping[str, str]], given: Mapping[str, None]) -> list[str]:
    """Return the keys whose values differ; one that a run lacks does if it was `given` to some."""
    keys = dict.fromkeys(key for values in runs for key in values)
    known = {key: [values[key] for values in runs if key in values] for key in keys}
    lacked = {key for key in given if len(known.get(key, runs)) < len(runs)}
    return [key for key in keys if key in lacked or len({*map(_read, known[key])}) > 1]


def _read(text: str) -> float | str:
    """Return what a value means: 1e-3 is 0.001, and true is True."""
    number = read_number(text, text=True)
    return text.lower() if number is None else number


def _split_seed(run: RunFacts) -> tuple[dict[str, str], bool]:
    """Return a run's own values without the seed, and whether it has a seed."""
    others = {key: value for key, value in run.varied.items() if key not in _SEEDS}
    return others, len(others) < len(run.varied)


def _group_seeds(measured: Sequence[tuple[RunFacts, float]]) -> tuple[SeedGroup, ...]:
    """Group runs that differ only in their seed; return nothing if no two do."""
    together: dict[str, list[float]] = {}
    for run, value in measured:
        others, seeded = _split_seed(run)
        if seeded:
            together.setdefault(_join(others) or "all", []).append(value)
    if not any(len(values) > 1 for values in together.values()):
        return ()
    groups = []
    for label, values in together.items():
        deviation = statistics.stdev(values) if len(values) > 1 else None
        mean, least, most = statistics.fmean(values), min(values), max(values)
        groups.append(SeedGroup(label, len(values), mean, deviation, least, most))
    return tuple(sorted(groups, key=lambda group: group.mean))


def _draw_parameters(measured: Sequence[tuple[RunFacts, float]]) -> tuple[Parameter, ...]:
    """Draw the measure against each numeric value, as the mean over seeds."""
    keys = dict.fromkeys(key for run, _ in measured for key in run.varied if key not in _SEEDS)
    drawn = [_draw_parameter(key, measured) for key in keys]
    return tuple(filter(None, drawn))[:_MOST_PARAMETERS]


def _draw_parameter(key: str, measured: Sequence[tuple[RunFacts, float]]) -> Parameter | None:
    """Draw a curve for each choice of the other values; None if there is nothing to draw."""
    points: dict[str, dict[float, list[float]]] = {}
    places = set()
    for run, value in measured:
        x = read_number(run.varied.get(key), text=True)
        if x is None:
            return None
        places.add(x)
        others = {name: word for name, word in _split_seed(run)[0].items() if name != key}
        points.setdefault(_join(others) or "loss", {}).setdefault(x, []).append(value)
    if len(places) < 2 or len(points) > MOST_CURVES:
        return None
    curves = tuple((label, _average(curve)) for label, curve in points.items())
    # A learning rate is tried in powers: 1e-4, 3e-4, 1e-3.
    least, most = min(places), max(places)
    return Parameter(key, least > 0 and most / least >= 8, curves)


def _average(points: dict[float, list[float]]) -> Curve:
    x = tuple(sorted(points))
    return Curve(x, tuple(statistics.fmean(points[place]) for place in x))


def _join(values: dict[str, str]) -> str:
    return " ".join(f"{name}={word}" for name, word in values.items())
