"""How training went, by the trainer's `metrics.jsonl` or the metrics of another program.

`docs/reference/trainer.md` has the fields of the former.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from jobgen.diagnose.reading import SLOW_RANK
from jobgen.jobs.files import open_left, parse_object, read_end, read_if_left
from jobgen.report.facts import Ranks, Slow, Training
from jobgen.report.figures import find_median, measure_spread, sample_curve
from jobgen.report.foreign import find_metrics
from jobgen.spec.units import read_number

_MOST_BYTES = 32 << 20  # of metrics.jsonl: some 100,000 lines
_LOG_TAIL = 4 << 20  # of rank 0's output, in which stragglers are named


class History:
    """The lines of a metrics file by kind; `notes` has what is wrong with it.

    `source` is the file if it is not the trainer's: one in the run folder, or at the path `given`,
    relative to `folder`, that was written after `since`.
    """

    def __init__(self, run_dir: Path, folder: Path, *, given: str = "", since: float = 0.0) -> None:
        self.run_dir = run_dir
        self.notes: list[str] = []
        self.source = ""
        self.lines: dict[str, list[dict[str, Any]]] = {}
        self._read_lines(run_dir / "metrics.jsonl")
        if given or not (self.lines.keys() & {"start", "step"}):
            self._look_elsewhere(folder, given, since)

    def _look_elsewhere(self, folder: Path, given: str, since: float) -> None:
        """Read the metrics of another program."""
        path, lines = find_metrics(self.run_dir, given, folder, since=since)
        if lines:
            self.lines, self.source = lines, os.path.relpath(path)
            return
        where = f"at {given}" if given else "in the run folder"
        hint = "" if given else "; name their place with `report: {metrics: PATH}` in the spec"
        self.notes.append(f"no metrics {where}: loss and speed are not known{hint}")

    def _read_lines(self, path: Path) -> None:
        """Read the trainer's own metrics, if there are any."""
        try:
            with open_left(path) as file:
                data = file.read(_MOST_BYTES + 1)
        except OSError as error:
            if not isinstance(error, FileNotFoundError):
                self.notes.append(f"metrics.jsonl cannot be read: {error.strerror}")
            return
        if len(data) > _MOST_BYTES:
            data = data[:_MOST_BYTES].rpartition(b"\n")[0]
            self.notes.append(f"only the first {_MOST_BYTES >> 20} MiB of metrics.jsonl are read")
        texts = filter(bytes.strip, data.split(b"\n"))
        lines = [parse_object(text.decode(errors="replace")) for text in texts]
        for line in lines:
            if line is not None:
                self.lines.setdefault(str(line.get("kind")), []).append(line)
        if damaged := lines.count(None):
            what = "1 line is" if damaged == 1 else f"{damaged} lines are"
            self.notes.append(f"metrics.jsonl: {what} damaged and left out")

    def first_steps(self) -> dict[int, float]:
        """Return when each attempt was ready to train."""
        ready: dict[int, float] = {}
        for line in self.lines.get("start", []):
            attempt, time = read_number(line.get("attempt")), read_number(line.get("time"))
            if attempt is not None and time is not None:
                ready.setdefault(int(attempt), time)
        return ready

    @property
    def last(self) -> float:
        """When the last line was written; 0 without lines."""
        times = (read_number(line.get("time")) for some in self.lines.values() for line in some)
        return max((time for time in times if time is not None), default=0.0)

    def training(self) -> Training | None:
        """Return what was trained, and how fast; None if no step was written down."""
        lines = _list_numbered(self.lines.get("step", []))
        if not lines:
            return None
        steps, validations = _Columns(lines), _Columns(_list_numbered(self.lines.get("val", [])))
        starts = self.lines.get("start", [])
        start = starts[-1] if starts else {}
        unit = str(start.get("unit") or ("tokens" if steps.has("tokens_per_s") else "samples"))
        losses, speeds = _list_losses(steps), steps[f"{unit}_per_s"]
        if len(losses) < len(lines):
            bad = len(lines) - len(losses)
            self.notes.append(f"the loss is not a number in {bad} of {len(lines)} lines")
        memory = max(_keep_real(steps["mem_gb"]), default=None)
        return Training(
            source=self.source,
            unit=unit,
            first_step=int(min(steps.at)),
            last_step=int(max(steps.at)),
            all_steps=_read_whole(self.config().get("steps")),
            device=_read_text(start.get("device_name")) or _read_text(start.get("device")),
            arithmetic=_describe_arithmetic(start),
            parameters=_read_whole(start.get("parameters")),
            ranks=_read_whole(start.get("world_size")),
            loss=losses[-1][0] if losses else None,
            least_loss=min(losses, default=None),
            validation=next(reversed(_keep_real(validations["loss"])), None),
            speed=find_median(speeds),
            mfu=find_median(steps["mfu"]),
            waiting=_find_waiting(steps),
            checkpoints=_find_saving(steps),
            memory=None if memory is None else memory * 1e9,
            consumed=read_number(lines[-1].get(unit)),
            losses=sample_curve(steps.at, steps["loss"]),
            validations=sample_curve(validations.at, validations["loss"]),
            rates=sample_curve(steps.at, steps["lr"]),
            gradients=sample_curve(steps.at, steps["grad_norm"]),
            speeds=sample_curve(steps.at, speeds),
            step_times=measure_spread(steps["step_s"]),
            extremes=_find_extremes(steps),
            starts=tuple(int(at) for at in _keep_real(_Columns(starts[1:]).at)),
        )

    def ranks(self, training: Training | None) -> Ranks | None:
        """Return the figures of each rank; None if the number of ranks is not known."""
        starts = self.lines.get("start", [])
        count = _read_whole(starts[-1].get("world_size")) if starts else None
        if not count or count > 1_000_000:
            return None
        shares = _read_list(starts[-1].get("micro_batches"), count)
        memory = self._by_rank("mem_gb", count, most=True)
        return Ranks(
            size=count,
            speed=_divide_speed(training, shares),
            forward=self._by_rank("forward_s", count),
            waiting=self._by_rank("data_s", count),
            memory=tuple(value * 1e9 for value in memory) if memory else None,
            gpu_use=self._by_rank("gpu_util", count),
            slow=self._slow(),
        )

    def _by_rank(self, key: str, count: int, *, most: bool = False) -> tuple[float, ...] | None:
        """Return the mean over all steps, or the most, where as many ranks were told as last."""
        weights, rows = [], []
        for line in self.lines.get("ranks", []):
            values, steps = _read_list(line.get(key), count), read_number(line.get("steps"))
            if values is not None and steps is not None and steps > 0:
                weights.append(steps)
                rows.append(values)
        if not rows:
            return None
        columns = zip(*rows, strict=True)
        return tuple(max(column) if most else _weigh(column, weights) for column in columns)

    def _slow(self) -> tuple[Slow, ...]:
        """Return the ranks that rank 0's output calls slow, the most frequent first."""
        slow: dict[tuple[int, str], tuple[int, str]] = {}
        for path in sorted(self.run_dir.glob("logs/*/rank-0.out")):
            try:
                text = read_end(path, _LOG_TAIL)
            except OSError:
                continue
            for match in SLOW_RANK.finditer(text):
                key = int(match[1]), match[2]
                slow[key] = slow.get(key, (0, ""))[0] + 1, match[3].strip()
        named = [Slow(rank, node, *counted) for (rank, node), counted in slow.items()]
        return tuple(sorted(named, key=lambda slow: (-slow.times, slow.rank)))

    def config(self) -> dict[str, Any]:
        """Return the settings that the trainer recorded; empty if there are none."""
        return parse_object(read_if_left(self.run_dir / "config.json")) or {}


class _Columns:
    """Lines by column: what a line lacks, or has not as a number, is NaN. `at` is their step."""

    def __init__(self, lines: list[dict[str, Any]]) -> None:
        self._lines = lines
        self.at = self["step"]

    def __getitem__(self, key: str) -> list[float]:
        numbers = (read_number(line.get(key)) for line in self._lines)
        return [math.nan if number is None else number for number in numbers]

    def has(self, key: str) -> bool:
        """Whether a line has such a column."""
        return any(key in line for line in self._lines)


def _list_numbered(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the lines that have a step."""
    return [line for line in lines if read_number(line.get("step")) is not None]


def _keep_real(values: Iterable[float]) -> list[float]:
    return [value for value in values if math.isfinite(value)]


def _list_losses(steps: _Columns) -> list[tuple[float, int]]:
    """Return the losses that are numbers, each with its step."""
    pairs = zip(steps["loss"], steps.at, strict=True)
    return [(loss, int(step)) for loss, step in pairs if math.isfinite(loss)]


def _find_waiting(steps: _Columns) -> float | None:
    """Return the median share of a step in which rank 0 waited for data."""
    pairs = zip(steps["data_s"], steps["step_s"], strict=True)
    return find_median([wait / step for wait, step in pairs if math.isfinite(wait) and step > 0])


def _find_saving(steps: _Columns) -> float | None:
    """Return the share of all time in which checkpoints held training up.

    A save is counted in the line of steps that follows it.
    """
    stepping, saving = _sum_steps(steps.at, steps["step_s"]), sum(_keep_real(steps["ckpt_s"]))
    known = math.isfinite(steps["ckpt_s"][-1])
    return saving / (stepping + saving) if stepping and known else None


def _find_extremes(steps: _Columns) -> tuple[float, float] | None:
    """Return the shortest and the longest single step."""
    ends = _keep_real((*steps["step_min_s"], *steps["step_max_s"]))
    return (min(ends), max(ends)) if ends else None


def _weigh(values: Sequence[float], weights: Sequence[float]) -> float:
    """Return the mean of values by their weights."""
    pairs = zip(weights, values, strict=True)
    return sum(weight * value for weight, value in pairs) / sum(weights)


def _read_whole(value: object) -> int | None:
    whole = read_number(value)
    return None if whole is None else int(whole)


def _read_text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _describe_arithmetic(start: dict[str, Any]) -> str | None:
    """Return `bf16, compiled, attention: cudnn`; None if the trainer did not record it."""
    dtype, attention = _read_text(start.get("dtype")), _read_text(start.get("attention"))
    if dtype is None:
        return None
    words = [dtype, "compiled" if start.get("compiled") is True else "not compiled"]
    return ", ".join([*words, *([f"attention: {attention}"] if attention else [])])


def _read_list(value: object, count: int) -> tuple[float, ...] | None:
    """Return a list with one number per rank; None if the value is not one."""
    if not isinstance(value, list) or len(value) != count:
        return None
    numbers = tuple(read_number(item) for item in value)
    return None if None in numbers else tuple(item for item in numbers if item is not None)


def _sum_steps(at: list[float], times: list[float]) -> float:
    """Return the seconds of all steps; each line has the mean since the line before."""
    before, total = 0.0, 0.0
    for step, seconds in zip(at, times, strict=True):
        if math.isfinite(seconds) and step > before:
            total += (step - before) * seconds
        before = step
    return total


def _divide_speed(
    training: Training | None, shares: tuple[float, ...] | None
) -> tuple[float, ...] | None:
    """Return the speed of each rank, by its share of the batch."""
    if training is None or training.speed is None or not shares or sum(shares) <= 0:
        return None
    return tuple(training.speed * share / sum(shares) for share in shares)
