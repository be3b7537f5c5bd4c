"""Durations, amounts of memory and ranges of numbers: each is read and written here alone.

Durations are whole seconds and memory is whole KiB, unless a function says something else.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

# Compiled when first used: few commands need all of them. They are as ECMA 262 and Python both read
# them, and without flags.
_CLOCK = r"(?:([0-9]{1,9})-)?([0-9]{1,9}):([0-5][0-9]):([0-5][0-9])"
_LETTERS = (
    r"(?:([0-9]{1,9}) ?[Dd](?:[Aa][Yy][Ss]?)? ?)?"
    r"(?:([0-9]{1,9}) ?[Hh](?:(?:[Oo][Uu])?[Rr][Ss]?)? ?)?"
    r"(?:([0-9]{1,9}) ?[Mm](?:[Ii][Nn](?:[Uu][Tt][Ee])?[Ss]?)? ?)?"
    r"(?:([0-9]{1,9}) ?[Ss](?:[Ee][Cc](?:[Oo][Nn][Dd])?[Ss]?)?)?"
)
_MEMORY = r"([0-9]{1,9})(?:\.([0-9]{1,9}))? ?([KkMmGgTtPp])(?:[Ii]?[Bb]?)"
# The whole text of what the two parsers take, for the JSON Schema. An amount like 1.1GB matches,
# though it is not a whole number of KB.
DURATION = rf"(?=.*[1-9])(?:{_CLOCK}|{_LETTERS})"
MEMORY = r"(?=.*[1-9])[0-9]{1,9}(?:(?:\.0{1,9})? ?[Kk]|(?:\.[0-9]{1,9})? ?[MmGgTtPp])[Ii]?[Bb]?"
_MEMORY_KIB = {"K": 1, "M": 1024, "G": 1024**2, "T": 1024**3, "P": 1024**4}


def parse_duration(text: str) -> int:
    """Seconds in `4h`, `90min`, `1d12h`, `02:00:00` (hours first) or `1-12:00:00` (days first).

    `7200` and `90:00` are refused: Slurm reads a bare number as minutes and PBS as seconds, and
    people read `10:00` as hours where both schedulers read minutes (sbatch(1), qsub(1B)).
    Raises ValueError with a message that continues "'TEXT' ...".
    """
    match = re.fullmatch(_CLOCK, text) or re.fullmatch(_LETTERS, text)
    parts = (int(part or 0) for part in match.groups()) if match else (0, 0, 0, 0)
    days, hours, minutes, seconds = parts
    if total := days * 86400 + hours * 3600 + minutes * 60 + seconds:
        return total
    raise ValueError(_explain_other_duration(text))


def _explain_other_duration(text: str) -> str:
    """Return why a text is not a duration, and how to write the one that may be meant."""
    if text.isascii() and text.isdecimal():
        if not int(text) % 3600 and int(text):
            return f"has no unit; write {int(text) // 3600}h if these are seconds, or {text}m"
        hours = f", {text}m or {text}h" if int(text) <= 240 else f" or {text}m"
        return f"has no unit; write e.g. {text}s{hours}"
    if re.fullmatch(DURATION, text.replace("0", "1")):
        return "is zero; write e.g. 04:00:00 or 4h"
    if re.fullmatch(r"[0-9-]+(:[0-9]{2}){2}", text) and (total := parse_clock(text)):
        return f"has minutes or seconds over 59; write {format_time(int(total))}"
    if match := re.fullmatch(r"([0-9]{1,4})[.,]([0-9]{1,2}) ?([hHdD])[a-zA-Z]*", text):
        minutes = float(f"{match[1]}.{match[2]}") * (60 if match[3] in "hH" else 1440)
        return f"has a fraction; write {round(minutes)}m"
    if match := re.fullmatch(r"(?!0+:00)([0-9]{1,9}):([0-9]{2})", text):
        first, second = int(match[1]), int(match[2])
        forms = (format_time(first * 3600 + second * 60), format_time(first * 60 + second))
        return f"could be HH:MM or MM:SS; write {' or '.join(forms)}"
    return "is not a duration; write e.g. 04:00:00 or 4h"


def format_duration(seconds: int) -> str:
    """Return `HH:MM:SS`, hours unbounded: the one form that sbatch and qsub read alike."""
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def format_time(seconds: int) -> str:
    """Return the shortest form that a spec takes: `5h`, `90m`, `1h30m`."""
    parts = ((seconds // 3600, "h"), (seconds // 60 % 60, "m"), (seconds % 60, "s"))
    return "".join(f"{number}{unit}" for number, unit in parts if number) or "0s"


def parse_memory(text: str) -> int:
    """KiB in `180GB`, `180G`, `512MiB` or `1.5TB`; as for sbatch and qsub, G is always 1024**3.

    Raises ValueError with a message that continues "'TEXT' ...".
    """
    if match := re.fullmatch(_MEMORY, text):
        whole, fraction, unit = match.groups("")
        scale: int = 10 ** len(fraction)
        kib, rest = divmod(int(whole + fraction) * _MEMORY_KIB[unit.upper()], scale)
        if kib and not rest:
            return kib
        raise ValueError(f"is {'not a whole number of KB' if rest else 'zero'}; write e.g. 180GB")
    if not (text.isascii() and text.isdecimal()):
        raise ValueError("is not an amount of memory; write e.g. 180GB or 512MB")
    if not int(text):
        raise ValueError("is zero; write e.g. 180GB")
    raise ValueError(f"has no unit; write e.g. {text}GB or {text}MB")


def split_memory(kib: int) -> tuple[int, str]:
    """Return (number, unit letter) in the largest unit, K to T, that is exact."""
    for letter in "TGM":
        if kib % _MEMORY_KIB[letter] == 0:
            return kib // _MEMORY_KIB[letter], letter
    return kib, "K"


def format_memory(kib: int) -> str:
    """Return memory as a spec takes it, such as `180GB`."""
    return "{}{}B".format(*split_memory(kib))


def parse_clock(text: object) -> float | None:
    """Return the seconds in a scheduler's `1-02:03:04`, `02:03:04` or `03:04.123`."""
    match = re.fullmatch(
        r"(?:([0-9]{1,9})-)?(?:([0-9]{1,9}):)?([0-9]{1,9}):([0-9]{1,9}(?:\.[0-9]{1,9})?)", str(text)
    )
    if not match:
        return None
    days, hours, minutes = (int(part or 0) for part in match.groups()[:3])
    return days * 86400 + hours * 3600 + minutes * 60 + float(match[4])


def parse_bytes(text: object) -> float | None:
    """Return the bytes in a scheduler's `1234K`, `4000Mn`, `12gb` or `100kb`; `42` is 42 bytes."""
    match = re.fullmatch(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)([KMGTPkmgtp]?)[bB]?[cn]?", str(text))
    if not match:
        return None
    return float(match[1]) * (_MEMORY_KIB[match[2].upper()] * 1024 if match[2] else 1)


def describe_seconds(seconds: float) -> str:
    """Return a duration in words: `850 ms`, `12.3 s`, `4 min 10 s`, `2 h 5 min` or `3 d 4 h`."""
    if 0 < seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 59.95:
        return f"{seconds:.3g} s"
    whole = round(seconds)
    size, unit, below, smaller = next(span for span in _SPANS if whole >= span[0])
    more = whole % size // below
    return f"{whole // size} {unit}" + (f" {more} {smaller}" if more else "")


_SPANS = ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))


def describe_bytes(amount: float) -> str:
    """Return bytes in the units that schedulers count in: `1.5 GB` is 1.5 x 1024^3."""
    for unit, exponent in (("TB", 4), ("GB", 3), ("MB", 2)):
        if amount >= 0.9995 * 1024**exponent:
            return f"{amount / 1024**exponent:.4g} {unit}"
    return f"{amount / 1024:.4g} KB"


def format_ranges(numbers: Iterable[int], *, separator: str = ",", most: int = 0) -> str:
    """Write ascending numbers as `0-3,5`; with `most`, only that many ranges and then `...`."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    words = [str(first) if first == last else f"{first}-{last}" for first, last in ranges]
    if most and len(words) > most:
        words[most:] = ["..."]
    return separator.join(words)


def parse_ranges(text: str) -> list[int]:
    """Return the numbers of `0-3,5` or `0-9:2`, in the order of the text.

    Raises ValueError if the text is something else, or means more than 10,000 numbers.
    """
    numbers: list[int] = []
    for part in text.replace(" ", "").split(","):
        match = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9}))?)?", part)
        if not match or (match[3] and not int(match[3])):
            raise ValueError(f"{text!r} is not a list of numbers such as 0-3,5")
        span = range(int(match[1]), int(match[2] or match[1]) + 1, int(match[3] or 1))
        if len(numbers) + len(span) > 10_000:
            raise ValueError(f"{text!r} means more than 10,000 numbers")
        numbers += span
    return numbers


def read_number(value: object, *, text: bool = False) -> float | None:
    """Return a finite number, as JSON has it or, with `text`, as a text has; None for all else."""
    try:
        number = float(value) if text and isinstance(value, str) else value
        if isinstance(number, int | float) and not isinstance(number, bool):
            return float(number) if math.isfinite(number) else None
    except (ValueError, OverflowError):
        pass
    return None
