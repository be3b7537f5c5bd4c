"""Numbers: many as few (curves thinned so that nothing that stands out is lost), and in words."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from jobgen.report.facts import Curve, Spread
from jobgen.spec.units import format_duration

UNKNOWN = "not known"
MOST_POINTS = 800
_BINS = 30


def sample_curve(x: Sequence[float], y: Sequence[float], *, most: int = MOST_POINTS) -> Curve:
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


def measure_spread(values: Sequence[float]) -> Spread | None:
    """How they lie; None where there are none.

    The histogram ends at three times the median: one step that took minutes would leave the others
    in a single bar. What is beyond is in the last bar.
    """
    ordered = sorted(value for value in values if math.isfinite(value))
    if not ordered:
        return None
    least, most, median = ordered[0], ordered[-1], find_quantile(ordered, 0.5)
    top = min(most, 3 * median) if median > 0 else most
    bins = 1 if top <= least else min(_BINS, max(5, math.isqrt(len(ordered))))
    width = (top - least) / bins
    counts = [0] * bins
    for value in ordered:
        at = (value - least) / width if width > 0 else 0
        counts[int(min(at, bins - 1))] += 1
    edges = tuple(least + width * number for number in range(bins + 1))
    p5, p95 = find_quantile(ordered, 0.05), find_quantile(ordered, 0.95)
    return Spread(len(ordered), least, p5, median, p95, most, edges, tuple(counts))


def find_quantile(ordered: Sequence[float], share: float) -> float:
    """Of sorted values, between neighbours in proportion."""
    at = (len(ordered) - 1) * share
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def find_median(values: Sequence[float]) -> float | None:
    """The middle one; None where there are none that are finite."""
    ordered = sorted(value for value in values if math.isfinite(value))
    return find_quantile(ordered, 0.5) if ordered else None


def format_span(seconds: float | None) -> str:
    """`850 ms`, `12.3 s`, `4 min 10 s`, `2 h 5 min` or `3 d 4 h`."""
    if seconds is None:
        return UNKNOWN
    if 0 < seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 59.95:
        return f"{seconds:.3g} s"
    whole = round(seconds)
    for size, unit, below, smaller in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if whole >= size:
            count, rest = divmod(whole, size)
            return f"{count} {unit}" + (f" {rest // below} {smaller}" if rest // below else "")
    return f"{whole} s"


def format_moment(seconds: float | None) -> str:
    """`2026-11-21 14:31:05 UTC`."""
    if seconds is None:
        return UNKNOWN
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))
    except (OverflowError, ValueError, OSError):
        return UNKNOWN


def format_clock(seconds: float) -> str:
    """`HH:MM:SS`, as in a spec."""
    return format_duration(round(seconds))


def format_size(amount: float | None) -> str:
    """Bytes, in the units that schedulers count in: `1.5 GB` is 1.5 x 1024^3."""
    if amount is None:
        return UNKNOWN
    for unit, exponent in (("TB", 4), ("GB", 3), ("MB", 2)):
        if amount >= 0.9995 * 1024**exponent:
            return f"{amount / 1024**exponent:.4g} {unit}"
    return f"{amount / 1024:.4g} KB"


def format_number(value: float | None, digits: int = 4) -> str:
    """So many digits that count, thousands apart."""
    if value is None:
        return UNKNOWN
    if value and abs(value) < 1e-3:
        return f"{value:.{digits - 1}e}"
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def format_share(value: float | None) -> str:
    """`42 %`, `0.4 %`."""
    if value is None:
        return UNKNOWN
    return f"{value * 100:.0f} %" if value >= 0.0995 else f"{value * 100:.1f} %"


def format_ranks(numbers: tuple[int, ...]) -> str:
    """`0-3, 6`."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def format_names(nodes: tuple[str, ...]) -> str:
    """Up to three names, and how many more there are."""
    more = f" and {len(nodes) - 3} more" if len(nodes) > 3 else ""
    return ", ".join(nodes[:3]) + more


def format_count(number: int, what: str, several: str = "") -> str:
    """`1 node`, `2 nodes`, `2 processes`."""
    return f"{number:,} {what if number == 1 else several or what + 's'}"
