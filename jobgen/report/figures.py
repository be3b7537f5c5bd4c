"""Many numbers as few: curves thinned so that nothing that stands out is lost, and spreads."""

from __future__ import annotations

import math
from collections.abc import Sequence

from jobgen.report.facts import Curve, Spread

MOST_POINTS = 800
_BINS = 30


def thin(x: Sequence[float], y: Sequence[float], *, most: int = MOST_POINTS) -> Curve:
    """At most `most` points, the same at every call: of each stretch the lowest and the highest.

    The first and the last point stay. What is not finite is left out.
    """
    points = [(a, b) for a, b in zip(x, y, strict=True) if math.isfinite(a) and math.isfinite(b)]
    if len(points) > most:
        stretches = (most - 2) // 2
        inner = len(points) - 2
        kept = {0, len(points) - 1}
        for number in range(stretches):
            stretch = range(1 + number * inner // stretches, 1 + (number + 1) * inner // stretches)
            kept.add(min(stretch, key=lambda index: points[index][1]))
            kept.add(max(stretch, key=lambda index: points[index][1]))
        points = [points[index] for index in sorted(kept)]
    return Curve(tuple(point[0] for point in points), tuple(point[1] for point in points))


def spread(values: Sequence[float]) -> Spread | None:
    """How they lie; None where there are none.

    The histogram ends at three times the median: one step that took minutes would leave the others
    in a single bar. What is beyond is in the last bar.
    """
    ordered = sorted(value for value in values if math.isfinite(value))
    if not ordered:
        return None
    least, most, median = ordered[0], ordered[-1], quantile(ordered, 0.5)
    top = min(most, 3 * median) if median > 0 else most
    bins = 1 if top <= least else min(_BINS, max(5, math.isqrt(len(ordered))))
    width = (top - least) / bins
    counts = [0] * bins
    for value in ordered:
        at = (value - least) / width if width > 0 else 0
        counts[int(min(at, bins - 1))] += 1
    edges = tuple(least + width * number for number in range(bins + 1))
    p5, p95 = quantile(ordered, 0.05), quantile(ordered, 0.95)
    return Spread(len(ordered), least, p5, median, p95, most, edges, tuple(counts))


def quantile(ordered: Sequence[float], share: float) -> float:
    """Of sorted values, between neighbours in proportion."""
    at = (len(ordered) - 1) * share
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def median(values: Sequence[float]) -> float | None:
    """The middle one; None where there are none that are finite."""
    ordered = sorted(value for value in values if math.isfinite(value))
    return quantile(ordered, 0.5) if ordered else None
