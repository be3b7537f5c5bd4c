"""Durations and memory sizes: from what people write to numbers, and to what schedulers read."""

from __future__ import annotations

import re

_UNIT_SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_LETTERS = re.compile(
    r"(?:(\d{1,9}) ?d(?:ays?)? ?)?(?:(\d{1,9}) ?h(?:(?:ou)?rs?)? ?)?"
    r"(?:(\d{1,9}) ?m(?:in(?:ute)?s?)? ?)?(?:(\d{1,9}) ?s(?:ec(?:ond)?s?)?)?",
    re.ASCII | re.IGNORECASE,
)
_CLOCK = re.compile(r"(?:(\d{1,9})-)?(\d{1,9}):(\d\d):(\d\d)", re.ASCII)
_MEMORY = re.compile(r"(\d{1,9})(?:\.(\d{1,9}))? ?([KMGTP])(?:i?B?)", re.ASCII | re.IGNORECASE)
_NUMBER = re.compile(r"\d+", re.ASCII)
# What the two parsers below take, for the JSON Schema: as ECMA 262 and Python both read it, and
# without flags. An amount like 1.1GB matches, though it is not a whole number of KB.
DURATION = (
    r"(?=.*[1-9])(?:(?:[0-9]{1,9}-)?[0-9]{1,9}:[0-5][0-9]:[0-5][0-9]"
    r"|(?:[0-9]{1,9} ?[Dd](?:[Aa][Yy][Ss]?)? ?)?"
    r"(?:[0-9]{1,9} ?[Hh](?:(?:[Oo][Uu])?[Rr][Ss]?)? ?)?"
    r"(?:[0-9]{1,9} ?[Mm](?:[Ii][Nn](?:[Uu][Tt][Ee])?[Ss]?)? ?)?"
    r"(?:[0-9]{1,9} ?[Ss](?:[Ee][Cc](?:[Oo][Nn][Dd])?[Ss]?)?)?)"
)
MEMORY = r"(?=.*[1-9])[0-9]{1,9}(?:(?:\.0{1,9})? ?[Kk]|(?:\.[0-9]{1,9})? ?[MmGgTtPp])[Ii]?[Bb]?"
_MEMORY_KIB = {"K": 1, "M": 1024, "G": 1024**2, "T": 1024**3, "P": 1024**4}


def parse_duration(text: str) -> int:
    """Seconds in `4h`, `90min`, `1d12h`, `02:00:00` (hours first) or `1-12:00:00` (days first).

    `7200` and `90:00` are refused: Slurm reads a bare number as minutes and PBS as seconds, and
    people read `10:00` as hours where both schedulers read minutes (sbatch(1), qsub(1B)).
    Raises ValueError with a message that continues "'TEXT' ...".
    """
    if match := _CLOCK.fullmatch(text):
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
        if minutes > 59 or seconds > 59:
            raise ValueError("has minutes or seconds over 59")
        total = days * 86400 + hours * 3600 + minutes * 60 + seconds
    elif text and (match := _LETTERS.fullmatch(text)):
        total = sum(
            int(part or 0) * unit
            for part, unit in zip(match.groups(), _UNIT_SECONDS.values(), strict=True)
        )
    elif _NUMBER.fullmatch(text):
        raise ValueError(f"has no unit; write e.g. {text}s, {text}m or 04:00:00")
    elif match := re.fullmatch(r"(\d{1,4})[.,](\d{1,2}) ?([hd])\w*", text, re.ASCII | re.I):
        unit = _UNIT_SECONDS[match[3].lower()]
        minutes = round(float(f"{match[1]}.{match[2]}") * unit / 60)
        raise ValueError(f"has a fraction; write {minutes}m")
    elif match := re.fullmatch(r"(\d{1,4})-(\d{1,2})", text, re.ASCII):
        raise ValueError(f"is days and hours for Slurm alone; write {match[1]}d{match[2]}h")
    elif match := re.fullmatch(r"(\d{1,9}):\d\d", text, re.ASCII):
        number = int(match[1])
        forms = f"{number}h, {number}m or {format_duration(number * 60)}"
        raise ValueError(f"could mean hours or minutes; write e.g. {forms}")
    else:
        raise ValueError("is not a duration; write e.g. 04:00:00 or 4h")
    if total == 0:
        raise ValueError("is zero; write e.g. 04:00:00 or 4h")
    return total


def format_duration(seconds: int) -> str:
    """`HH:MM:SS`, hours unbounded: the one form that sbatch and qsub read alike."""
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def parse_memory(text: str) -> int:
    """KiB in `180GB`, `180G`, `512MiB` or `1.5TB`; as for sbatch and qsub, G is always 1024**3.

    Raises ValueError with a message that continues "'TEXT' ...".
    """
    if match := _MEMORY.fullmatch(text):
        whole, fraction, unit = match[1], match[2] or "", match[3]
        scale: int = 10 ** len(fraction)
        kib, rest = divmod(int(whole + fraction) * _MEMORY_KIB[unit.upper()], scale)
        if rest:
            raise ValueError("is not a whole number of KB; write e.g. 180GB")
        if not kib:
            raise ValueError("is zero; write e.g. 180GB")
        return kib
    if _NUMBER.fullmatch(text):
        if not int(text):
            raise ValueError("is zero; write e.g. 180GB")
        raise ValueError(f"has no unit; write e.g. {text}GB or {text}MB")
    if match := re.fullmatch(r"(\d{1,9})(?:,(\d{1,9}))? ?([KMGTP])[Iio]?[Bb]?(?:\+|\.\.)?", text):
        fraction = f".{match[2]}" if match[2] else ""
        raise ValueError(f"is not an amount of memory; write {match[1]}{fraction}{match[3]}B")
    raise ValueError("is not an amount of memory; write e.g. 180GB or 512MB")


def format_memory(kib: int) -> tuple[int, str]:
    """(number, unit letter) in the largest unit, K to T, that is exact."""
    for letter in "TGM":
        if kib % _MEMORY_KIB[letter] == 0:
            return kib // _MEMORY_KIB[letter], letter
    return kib, "K"
