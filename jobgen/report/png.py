"""The loss curve as a picture. The only module that knows Matplotlib, which is an extra."""

from __future__ import annotations

import io

from jobgen.errors import UsageError
from jobgen.report.facts import Curve, Report

_MISSING = "--png needs Matplotlib: pip install 'jobgen[report]'"


def png(report: Report) -> bytes:
    """The loss by step; of several runs a curve each.

    Raises UsageError where Matplotlib is missing, or no loss is known.
    """
    curves: list[tuple[str, Curve]] = []
    if report.comparison:
        curves = list(report.comparison.curves)
    elif training := report.runs[0].training:
        curves = [("training", training.losses), ("validation", training.validations)]
    curves = [(name, curve) for name, curve in curves if curve.x]
    if not curves:
        raise UsageError("--png: no loss is known; the run has written down no step")
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise UsageError(_MISSING) from None
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for name, curve in curves:
        marker = "o" if len(curve.x) < 40 else None
        # With a dollar sign a name would be a formula, with an underscore no label.
        label = name.replace("$", r"\$")
        axes.plot(curve.x, curve.y, label=f" {label}", linewidth=1.4, marker=marker, markersize=3)
    axes.set(xlabel="step", ylabel="loss")
    axes.set_title(report.title.replace("$", r"\$"), loc="left", fontsize=11)
    axes.grid(color="#e6e9ed")
    axes.spines[["top", "right"]].set_visible(False)
    if len(curves) > 1:
        axes.legend(frameon=False)
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=150, metadata={"Software": None})
    return data.getvalue()
