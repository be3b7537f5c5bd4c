"""Runs side by side: what they differ in, which is best, and what a value does to the loss."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence

from jobgen.report.facts import Comparison, Curve, Parameter, Row, RunFacts, SeedGroup, Training
from jobgen.report.figures import sample_curve

MOST_CURVES = 12
_MOST_PARAMETERS = 4
_POINTS = 300
_LABEL = 60  # characters of a run's values
# Runs that differ in these alone are the same thing tried again.
_SEEDS = {"seed", "random_seed", "SEED", "data_seed", "run.args.seed"}


def compare(runs: tuple[RunFacts, ...]) -> Comparison:
    """Two runs or more, the best first; the settings are those that not all have alike.

    They are ordered by the last validation loss where every run that trained has one, else by the
    last loss of training.
    """
    keys = dict.fromkeys(key for run in runs for key in run.settings)
    settings = tuple(key for key in keys if len({run.settings.get(key) for run in runs}) > 1)
    trained = [run.training for run in runs if run.training]
    by_validation = bool(trained) and all(one.validation is not None for one in trained)

    def measure(run: RunFacts) -> float | None:
        if run.training is None:
            return None
        return run.training.validation if by_validation else run.training.loss

    ordered = sorted(runs, key=lambda run: (_infinite(measure(run)), _infinite(_loss(run)), run.id))
    labels = _label(ordered)
    drawn = [
        (label, run.training)
        for label, run in zip(labels, ordered, strict=True)
        if run.training is not None
    ]

    def draw(read: Callable[[Training], Curve]) -> tuple[tuple[str, Curve], ...]:
        return tuple(
            (label, sample_curve(*read(training), most=_POINTS))
            for label, training in drawn[:MOST_CURVES]
        )

    measured = [(run, value) for run in ordered if (value := measure(run)) is not None]
    return Comparison(
        settings=settings,
        measure="validation loss" if by_validation else "loss",
        rows=tuple(
            Row(
                title=label,
                id=run.id,
                state=run.state,
                loss=_loss(run),
                validation=run.training.validation if run.training else None,
                speed=run.training.speed if run.training else None,
                step=run.training.step_times.median
                if run.training and run.training.step_times
                else None,
                ran=run.ran,
                differs=tuple(run.settings.get(key) for key in settings),
            )
            for label, run in zip(labels, ordered, strict=True)
        ),
        curves=draw(lambda training: training.losses),
        validations=draw(lambda training: training.validations),
        speeds=draw(lambda training: training.speeds),
        left_out=max(0, len(drawn) - MOST_CURVES),
        groups=_group_seeds(measured),
        parameters=_draw_parameters(measured),
    )


def _loss(run: RunFacts) -> float | None:
    return run.training.loss if run.training else None


def _infinite(value: float | None) -> float:
    return math.inf if value is None else value


def _label(runs: Sequence[RunFacts]) -> list[str]:
    """Each by its own values, `lr=3e-3 seed=1`; by its id where it has none, or shares them."""
    keys = dict.fromkeys(key for run in runs for key in run.varied)
    differing = [key for key in keys if len({run.varied.get(key) for run in runs}) > 1]
    several = len({run.name for run in runs}) > 1
    labels = []
    for run in runs:
        values = [f"{key}={run.varied[key]}" for key in differing if key in run.varied]
        names = [run.name] if several else []
        labels.append(" ".join([*names, *(values or [run.id])])[:_LABEL])
    return [
        run.id if labels.count(label) > 1 and not several else label
        for run, label in zip(runs, labels, strict=True)
    ]


def _split_seed(run: RunFacts) -> tuple[dict[str, str], bool]:
    """A run's own values but for the seed, and whether it has one."""
    others = {key: value for key, value in run.varied.items() if key not in _SEEDS}
    return others, len(others) < len(run.varied)


def _group_seeds(measured: Sequence[tuple[RunFacts, float]]) -> tuple[SeedGroup, ...]:
    """Runs that differ in their seed alone, together; none where no two do."""
    together: dict[str, list[float]] = {}
    for run, value in measured:
        others, seeded = _split_seed(run)
        if seeded:
            label = " ".join(f"{key}={word}" for key, word in others.items()) or "all"
            together.setdefault(label[:_LABEL], []).append(value)
    if not any(len(values) > 1 for values in together.values()):
        return ()
    groups = [
        SeedGroup(
            label,
            len(values),
            statistics.fmean(values),
            statistics.stdev(values) if len(values) > 1 else None,
            min(values),
            max(values),
        )
        for label, values in together.items()
    ]
    return tuple(sorted(groups, key=lambda group: group.mean))


def _draw_parameters(measured: Sequence[tuple[RunFacts, float]]) -> tuple[Parameter, ...]:
    """What was measured against each value that is a number; the mean over seeds."""
    drawn = []
    for key in dict.fromkeys(key for run, _ in measured for key in run.varied if key not in _SEEDS):
        points: dict[str, dict[float, list[float]]] = {}
        for run, value in measured:
            x = _read_number(run.varied.get(key))
            if x is None:
                break
            others = {k: v for k, v in _split_seed(run)[0].items() if k != key}
            label = " ".join(f"{k}={v}" for k, v in others.items()) or "loss"
            points.setdefault(label[:_LABEL], {}).setdefault(x, []).append(value)
        else:
            places = sorted({x for curve in points.values() for x in curve})
            if len(places) < 2 or len(points) > MOST_CURVES:
                continue
            curves = tuple(
                (label, Curve(tuple(sorted(curve)), tuple(map(_mean_of(curve), sorted(curve)))))
                for label, curve in points.items()
            )
            # A learning rate is tried in powers: 1e-4, 3e-4, 1e-3.
            logarithmic = places[0] > 0 and places[-1] / places[0] >= 8
            drawn.append(Parameter(key, logarithmic, curves))
    return tuple(drawn[:_MOST_PARAMETERS])


def _mean_of(curve: dict[float, list[float]]) -> Callable[[float], float]:
    return lambda x: statistics.fmean(curve[x])


def _read_number(word: str | None) -> float | None:
    try:
        value = float(word or "")
    except ValueError:
        return None
    return value if math.isfinite(value) else None
