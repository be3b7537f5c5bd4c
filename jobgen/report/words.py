"""Numbers in words, the same in a page and in a terminal."""

from __future__ import annotations

import time

from jobgen.units import format_duration

UNKNOWN = "not known"


def span(seconds: float | None) -> str:
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


def moment(seconds: float | None) -> str:
    """`2026-11-21 14:31:05 UTC`."""
    if seconds is None:
        return UNKNOWN
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))
    except (OverflowError, ValueError, OSError):
        return UNKNOWN


def clock(seconds: float) -> str:
    """`HH:MM:SS`, as in a spec."""
    return format_duration(round(seconds))


def size(amount: float | None) -> str:
    """Bytes, in the units that schedulers count in: `1.5 GB` is 1.5 x 1024^3."""
    if amount is None:
        return UNKNOWN
    for unit, exponent in (("TB", 4), ("GB", 3), ("MB", 2)):
        if amount >= 0.9995 * 1024**exponent:
            return f"{amount / 1024**exponent:.4g} {unit}"
    return f"{amount / 1024:.4g} KB"


def figure(value: float | None, digits: int = 4) -> str:
    """So many digits that count, thousands apart."""
    if value is None:
        return UNKNOWN
    if value and abs(value) < 1e-3:
        return f"{value:.{digits - 1}e}"
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def share(value: float | None) -> str:
    """`42 %`, `0.4 %`."""
    if value is None:
        return UNKNOWN
    return f"{value * 100:.0f} %" if value >= 0.0995 else f"{value * 100:.1f} %"


def ranks(numbers: tuple[int, ...]) -> str:
    """`0-3, 6`."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def names(nodes: tuple[str, ...]) -> str:
    """Up to three names, and how many more there are."""
    more = f" and {len(nodes) - 3} more" if len(nodes) > 3 else ""
    return ", ".join(nodes[:3]) + more


def count(number: int, what: str, several: str = "") -> str:
    """`1 node`, `2 nodes`, `2 processes`."""
    return f"{number:,} {what if number == 1 else several or what + 's'}"
