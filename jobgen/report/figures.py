"""Numbers for a page: curves thinned without losing extremes, and numbers in words."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Sequence

from jobgen.report.facts import Curve, Spread
from jobgen.spec.units import describe_bytes, describe_seconds, format_ranges, read_number

UNKNOWN = "not known"
MOST_POINTS = 800


def sample_curve(x: Sequence[float], y: Sequence[float], *, most: int = MOST_POINTS) -> Curve:
    """Return at most `most` points: the first, the last, and the extremes of each stretch.

    The result is the same for the same values. Values that are not finite are left out.
    """
    points = [(a, b) for a, b in zip(x, y, strict=True) if math.isfinite(a) and math.isfinite(b)]
    if len(points) > most:
        stretches = (most - 2) // 2
        ends = [1 + number * (len(points) - 2) // stretches for number in range(stretches + 1)]
        kept = {0, len(points) - 1}
        for stretch in map(range, ends, ends[1:]):
            kept.add(min(stretch, key=lambda index: points[index][1]))
            kept.add(max(stretch, key=lambda index: points[index][1]))
        points = [points[index] for index in sorted(kept)]
    return Curve(*zip(*points, strict=True)) if points else Curve((), ())


def measure_spread(values: Sequence[float]) -> Spread | None:
    """Return the distribution of values; None if there are none."""
    ordered = sorted(filter(math.isfinite, values))
    if not ordered:
        return None
    least, most, median = ordered[0], ordered[-1], statistics.median(ordered)
    cuts = statistics.quantiles(ordered, n=20, method="inclusive") if ordered[1:] else ordered
    # The cuts are rounded, also of values that are all the same.
    p5, p95 = min(max(cuts[0], least), median), max(min(cuts[-1], most), median)
    return Spread(len(ordered), least, p5, median, p95, most)


def list_numbers(values: Iterable[object]) -> list[float]:
    """Return those of the values that are finite numbers."""
    return [number for number in map(read_number, values) if number is not None]


def find_median(values: Sequence[float]) -> float | None:
    """Return the median of the finite values; None if there are none."""
    finite = list(filter(math.isfinite, values))
    return statistics.median(finite) if finite else None


def _or_unknown(describe: Callable[[float], str]) -> Callable[[float | None], str]:
    """Return a function that also describes what is not known."""
    return lambda value: UNKNOWN if value is None else describe(value)


format_span = _or_unknown(describe_seconds)
#: in the units that schedulers count in: `1.5 GB` is 1.5 x 1024^3 bytes
format_size = _or_unknown(describe_bytes)


@_or_unknown
def format_moment(seconds: float) -> str:
    """`2026-11-21 14:31:05 UTC`."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))


@_or_unknown
def format_number(value: float) -> str:
    """Return a number with four significant digits and commas between thousands."""
    if value and abs(value) < 1e-3:
        return f"{value:.3e}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


@_or_unknown
def format_share(value: float) -> str:
    """`42 %`, `0.4 %`."""
    return f"{value * 100:.0f} %" if value >= 0.0995 else f"{value * 100:.1f} %"


def format_ranks(numbers: tuple[int, ...]) -> str:
    """`0-3, 6`."""
    return format_ranges(sorted(numbers), separator=", ")
