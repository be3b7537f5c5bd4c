"""Runs side by side."""

from __future__ import annotations

import math

from jobgen.report.facts import Comparison, Row, Run
from jobgen.report.figures import thin

MOST_CURVES = 12
_POINTS = 300


def compare(runs: tuple[Run, ...]) -> Comparison:
    """Two runs or more, the least loss first; the settings are those that not all have alike."""
    keys = dict.fromkeys(key for run in runs for key in run.settings)
    settings = tuple(key for key in keys if len({run.settings.get(key) for run in runs}) > 1)
    ordered = sorted(runs, key=_loss)
    titles = [run.title for run in ordered]
    if len({run.name for run in ordered}) == 1:
        titles = [run.id for run in ordered]
    drawn = [
        (title, run.training)
        for title, run in zip(titles, ordered, strict=True)
        if run.training is not None
    ]
    return Comparison(
        settings=settings,
        rows=tuple(
            Row(
                title=title,
                state=run.state,
                loss=run.training.loss if run.training else None,
                validation=run.training.validation if run.training else None,
                speed=run.training.speed if run.training else None,
                step=run.training.step_times.median
                if run.training and run.training.step_times
                else None,
                ran=run.ran,
                differs=tuple(run.settings.get(key) for key in settings),
            )
            for title, run in zip(titles, ordered, strict=True)
        ),
        curves=tuple(
            (title, thin(*training.losses, most=_POINTS)) for title, training in drawn[:MOST_CURVES]
        ),
        speeds=tuple(
            (title, thin(*training.speeds, most=_POINTS)) for title, training in drawn[:MOST_CURVES]
        ),
        left_out=max(0, len(drawn) - MOST_CURVES),
    )


def _loss(run: Run) -> tuple[float, float, str]:
    """What runs are ordered by: validation, where there is one, tells more than training."""
    training = run.training
    validation = training.validation if training else None
    loss = training.loss if training else None
    first = loss if validation is None else validation
    return (
        math.inf if first is None else first,
        math.inf if loss is None else loss,
        run.id,
    )
