"""What a job's own script has noted of its nodes while it ran.

`usage/<node>.csv` has the lines of nvidia-smi (timestamp, index, percent busy, MiB used, MiB in
total, watts), or the tables of rocm-smi below a timestamp, every half minute.
"""

from __future__ import annotations

import calendar
import re
import time
from collections.abc import Iterator
from pathlib import Path

from jobgen.jobs.files import get_mtime, read_end
from jobgen.records import NamedTuple
from jobgen.spec.units import read_number

_LAST_BYTES = 1 << 14


class GpuSample(NamedTuple):
    """One GPU at one moment: percent of the time it was busy, bytes, and watts."""

    use: float | None
    memory: float | None
    total: float | None
    power: float | None


def read_last_gpus(run_dir: Path, node: str, *, since: Path) -> tuple[GpuSample, ...]:
    """Return the node's GPUs as noted last; nothing if that was before `since` was written."""
    path = run_dir / "usage" / f"{node}.csv"
    try:
        text = "" if get_mtime(path) < get_mtime(since) else read_end(path, _LAST_BYTES)
    except (OSError, ValueError):
        return ()
    return next((gpus for _, gpus in reversed(list(read_gpu_csv(text)))), ())


def read_gpu_csv(text: str) -> Iterator[tuple[float, tuple[GpuSample, ...]]]:
    """Yield each moment with what was noted of the GPUs then."""
    groups: list[tuple[float, list[str]]] = []
    before = -1
    for line in text.replace('"', "").splitlines():
        stamp, _, rest = line.partition(",")
        moment = _read_stamp(stamp.strip())
        if moment is None:  # a row of rocm-smi, below its moment
            if groups:
                groups[-1][1].append(line)
            continue
        word, _, values = rest.partition(",")
        index = int(word) if re.fullmatch(r" ?[0-9]{1,4}", word) else -1
        if index <= before or not groups:
            groups.append((moment, []))
        before = index
        groups[-1][1].append(values)
    for moment, lines in groups:
        if gpus := tuple(_read_gpus(list(filter(None, lines)))):
            yield moment, gpus


def _read_stamp(text: str) -> float | None:
    """Return the seconds of nvidia-smi's `2026/11/23 14:05:06.123`, or of a number alone."""
    if re.fullmatch(r"[0-9]{10}", text):
        return float(text)
    try:  # The zone is the node's own, whichever that is: only differences count.
        return calendar.timegm(time.strptime(text.partition(".")[0], "%Y/%m/%d %H:%M:%S"))
    except ValueError:
        return None


def _find_columns(titles: list[str]) -> list[int | None]:
    """Where rocm-smi has use, memory, all memory and power."""
    columns = {word.partition(" (")[0]: index for index, word in enumerate(titles)}
    power = [index for word, index in columns.items() if "Power" in word]
    known = ("GPU use", "VRAM Total Used Memory", "VRAM Total Memory")
    return [*map(columns.get, known), power[0] if power else None]


def _read_cell(row: list[str], at: int | None) -> float | None:
    return None if at is None or at >= len(row) else read_number(row[at], text=True)


def _read_gpus(lines: list[str]) -> Iterator[GpuSample]:
    rows = [[word.strip() for word in line.split(",")] for line in lines]
    columns: list[int | None] = [0, 1, 2, 3]
    unit = 1 << 20
    if rows and rows[0][0] == "device":
        columns, unit = _find_columns(rows.pop(0)), 1
    for line in rows:
        use, memory, total, watts = (_read_cell(line, at) for at in columns)
        yield GpuSample(use, memory and memory * unit, total and total * unit, watts)
