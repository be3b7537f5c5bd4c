"""Metrics of other programs, translated to the fields of the trainer's `metrics.jsonl`.

Hugging Face's `trainer_state.json`, `metrics.csv` of Lightning's CSVLogger, TensorBoard's event
files, and JSON lines as in `docs/guides/report.md`. Known spellings of loss, validation, learning
rate, gradient norm and speed are read; other values are not.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any

from jobgen.jobs.files import get_mtime, parse_object
from jobgen.output import format_names
from jobgen.report.events import read_events
from jobgen.spec.tables import read_rows

_MOST_BYTES = 64 << 20
_MOST_FILES = 2000  # that are looked at below a folder
_DEEPEST = 6
# The fields of metrics.jsonl by what others call them, without a prefix before a slash.
_FIELDS = {
    name: field for field, names in read_rows("fields.txt", room="report") for name in names.split()
}
_OF_VALIDATION = re.compile(r"^(val|eval|valid|validation|test)[_/.]")
_KNOWN = ("trainer_state.json", "metrics.csv", "metrics.jsonl")
Lines = dict[str, list[dict[str, Any]]]  # of metrics.jsonl, by kind
Rows = Iterable[Mapping[str, Any]]
Numbers = dict[str, float]  # of a row, by its column
_PLACE = ("step", "time")


def find_metrics(
    run_dir: Path, given: str, folder: Path, *, since: float, starts: Iterable[float]
) -> tuple[Path, Lines, list[str]]:
    """Return the file with the metrics and its lines, in the run folder or at the path `given`.

    That is relative to `folder`. Of several files the newest counts. A file older than `since`
    belongs to another run. Without metrics there are no lines. `starts` are when attempts began.
    The last are notes on what of it is read.
    """
    place = folder / os.path.expanduser(given) if given else run_dir
    files = islice(_list_files(place), _MOST_FILES)
    paths = [path for path in files if _is_known(path) or (given and path == place)]
    for written, path in sorted(((get_mtime(path), path) for path in paths), reverse=True):
        lines, notes = _read(path) if written >= since else ({}, [])
        if lines.keys() & {"step", "val"}:
            _time_steps(lines.get("step", []), sorted(starts))
            return path, lines, notes
    return place, {}, []


def _is_known(path: Path) -> bool:
    return path.name in _KNOWN or "tfevents" in path.name


def _list_files(place: Path) -> Iterator[Path]:
    """Yield the file, or those below the folder, except logs and very deep ones."""
    if place.is_file():
        yield place
        return
    for base, folders, names in os.walk(place):
        depth = len(Path(base).relative_to(place).parts)
        folders[:] = [] if depth >= _DEEPEST else sorted(set(folders) - {"logs", "attempts"})
        yield from (Path(base, name) for name in sorted(names))


def _read(path: Path) -> tuple[Lines, list[str]]:
    """Return the lines of a file by kind, and notes on them; none if it cannot be read."""
    by_step: dict[tuple[str, float], dict[str, Any]] = {}
    try:
        rows = [*map(_read_numbers, _read_rows(path))]
        columns = _list_columns(rows)
        fields = _choose_columns(columns)
        for row in rows:
            for line in _translate(row, fields):  # loggers write a row for each value of a step
                by_step.setdefault((line["kind"], line["step"]), {}).update(line)
    except (OSError, ValueError, TypeError, AttributeError, RecursionError, csv.Error):
        return {}, []
    lines: Lines = defaultdict(list)
    for (kind, _), line in sorted(by_step.items()):
        lines[kind].append(line)
    return lines, [*_note_others(columns, rows)]


def _read_rows(path: Path) -> Rows:
    if not path.is_file():
        return ()
    if "tfevents" in path.name:
        return _read_events(path.parent)
    if path.stat().st_size > _MOST_BYTES:
        return ()
    text = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix == ".csv":
        return csv.DictReader(io.StringIO(text, newline=""))
    if path.suffix == ".json":  # of Hugging Face's Trainer, without the summary at its end
        history = json.loads(text).get("log_history", [])
        return [entry for entry in history if "train_runtime" not in entry]
    return filter(None, map(parse_object, text.splitlines()))


def _time_steps(lines: list[dict[str, Any]], starts: list[float]) -> None:
    """Compute the time of a step from the times of the lines if the program does not tell it.

    The time between the lines of two starts does not count.
    """
    for before, after in pairwise(lines):
        steps = after["step"] - before["step"]
        since, until = before.get("time", 0.0), after.get("time", 0.0)
        seconds = until - since if bisect(starts, since) == bisect(starts, until) else 0.0
        if "step_s" not in after and steps > 0 and seconds > 0:
            after["step_s"] = seconds / steps


def _read_numbers(row: Mapping[str, Any]) -> Numbers:
    """Return the numbers of a row that tell anything: a file may have thousands of columns."""
    numbers = (
        (key, _read_float(value))
        for key, value in row.items()
        if key and (_name_field(key) or _OF_VALIDATION.match(key))
    )
    return {key: number for key, number in numbers if number is not None}


def _list_columns(rows: Iterable[Numbers]) -> dict[str, list[str]]:
    """Return the columns by our names of them, those with the most numbers first."""
    columns: dict[str, list[str]] = {}
    for key, _ in Counter(chain.from_iterable(rows)).most_common():
        if field := _name_field(key):
            columns.setdefault(field, []).append(key)
    return columns


def _choose_columns(columns: dict[str, list[str]]) -> dict[str, str]:
    """Return the column of each name: a step's loss and its mean over an epoch are no one curve.

    Of those that tell the step or the time, the first of each row counts.
    """
    return {
        key: field
        for field, keys in columns.items()
        for key in (keys if field in _PLACE else keys[:1])
    }


def _note_others(columns: dict[str, list[str]], rows: Sequence[Numbers]) -> Iterator[str]:
    """Yield which column is a loss if others, in other rows, could be."""
    for field, words in (("loss", "the loss"), ("val", "the validation loss")):
        taken, *others = columns.get(field, [""])
        others = [key for key in others if any((key in row) != (taken in row) for row in rows)]
        if others:
            yield f"{words} is {taken}; left out: {format_names(others)}"


def _translate(numbers: Numbers, fields: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Yield a row as lines of metrics.jsonl: one for the step, one for validation, or both."""
    known = {fields[key]: numbers[key] for key in reversed(numbers) if key in fields}
    if "step" not in known:
        return
    place: dict[str, Any] = {key: known.pop(key) for key in _PLACE if key in known}
    if "val" in known:
        yield {"kind": "val", **place, "loss": known.pop("val")}
    if known and ("loss" in known or not any(map(_OF_VALIDATION.match, numbers))):
        yield {"kind": "step", **place, **known}


@lru_cache(1024)
def _name_field(key: str) -> str | None:
    """Return the field of metrics.jsonl for what others call `key`."""
    plain = re.sub(r"[/. -]+", "_", key.strip().lower())
    if plain.startswith("lr_"):  # Lightning's monitor: lr-AdamW, lr-AdamW/pg1
        return "lr"
    return _FIELDS.get(plain) or _FIELDS.get(plain.removeprefix("train_").removeprefix("loss_"))


def _read_float(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _read_events(folder: Path) -> Rows:
    """Read all event files of a folder as one run, with a row per step."""
    rows: dict[int, dict[str, Any]] = {}
    for file in sorted(folder.glob("*tfevents*")):
        for scalar in read_events(file):
            row = rows.setdefault(scalar.step, {"step": scalar.step})
            row["time"] = max(scalar.time, row.get("time", 0.0))
            row[scalar.tag] = scalar.value
    return [rows[step] for step in sorted(rows)]
