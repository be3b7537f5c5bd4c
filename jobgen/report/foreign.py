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
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from jobgen.jobs.files import get_mtime, parse_object
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


def find_metrics(
    run_dir: Path, given: str, folder: Path, *, since: float, starts: Iterable[float]
) -> tuple[Path, Lines]:
    """Return the file with the metrics and its lines, in the run folder or at the path `given`.

    That is relative to `folder`. Of several files the newest counts. A file older than `since`
    belongs to another run. Without metrics there are no lines. `starts` are when attempts began.
    """
    place = folder / os.path.expanduser(given) if given else run_dir
    files = islice(_list_files(place), _MOST_FILES)
    paths = [path for path in files if _is_known(path) or (given and path == place)]
    for written, path in sorted(((get_mtime(path), path) for path in paths), reverse=True):
        lines = _read(path) if written >= since else {}
        if lines.keys() & {"step", "val"}:
            _time_steps(lines.get("step", []), sorted(starts))
            return path, lines
    return place, {}


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


def _read(path: Path) -> Lines:
    """Return the lines of a file by kind; none if it cannot be read."""
    by_step: dict[tuple[str, float], dict[str, Any]] = {}
    try:
        for row in _read_rows(path):
            for line in _translate(row):  # loggers write a row for each value of a step
                by_step.setdefault((line["kind"], line["step"]), {}).update(line)
    except (OSError, ValueError, TypeError, AttributeError, RecursionError, csv.Error):
        return {}
    lines: Lines = defaultdict(list)
    for (kind, _), line in sorted(by_step.items()):
        lines[kind].append(line)
    return lines


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


def _name_fields(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Return numbers by our names of them; of several for one name the first."""
    known: dict[str, Any] = {}
    for key, number in numbers.items():
        if field := _name_field(key):
            known.setdefault(field, number)
    return known


def _translate(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a row as lines of metrics.jsonl: one for the step, one for validation, or both."""
    numbers = {str(key): _read_float(value) for key, value in row.items()}
    numbers = {key: number for key, number in numbers.items() if number is not None}
    known = _name_fields(numbers)
    if "step" not in known:
        return
    place: dict[str, Any] = {key: known.pop(key) for key in ("step", "time") if key in known}
    if "val" in known:
        yield {"kind": "val", **place, "loss": known.pop("val")}
    if known and ("loss" in known or not any(map(_OF_VALIDATION.match, numbers))):
        yield {"kind": "step", **place, **known}


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
