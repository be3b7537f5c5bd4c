"""How training went: the trainer's `metrics.jsonl`, or what a program of one's own wrote.

`docs/reference/trainer.md` has the fields of the former.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jobgen.jobs.record import open_left, read_left
from jobgen.report.facts import Ranks, Slow, Training
from jobgen.report.figures import find_median, measure_spread, sample_curve
from jobgen.report.foreign import find_metrics

_SLOW = re.compile(r"rank ([0-9]+) on (\S+) is slow: (.*)")
_MOST_BYTES = 32 << 20  # of metrics.jsonl: some 100,000 lines
_LOG_TAIL = 4 << 20  # of rank 0's output, in which stragglers are named


class History:
    """The lines of the file, by kind, with what is wrong with it in `notes`.

    `source` is the file, where it is not the trainer's own: found in the run folder, or at `given`,
    a path seen from `folder`, if it was written after `since`.
    """

    def __init__(self, run_dir: Path, folder: Path, *, given: str = "", since: float = 0.0) -> None:
        self.run_dir = run_dir
        self.notes: list[str] = []
        self.source = ""
        self.lines: dict[str, list[dict[str, Any]]] = {}
        damaged = 0
        for line in self._read(run_dir / "metrics.jsonl"):
            if line is None:
                damaged += 1
            else:
                self.lines.setdefault(str(line.get("kind")), []).append(line)
        if damaged:
            what = "1 line is" if damaged == 1 else f"{damaged} lines are"
            self.notes.append(f"metrics.jsonl: {what} no whole record, and left out")
        if given or not (self.lines.keys() & {"start", "step"}):
            self._look_elsewhere(folder, given, since)

    def _look_elsewhere(self, folder: Path, given: str, since: float) -> None:
        """Read what a program of one's own has written."""
        metrics = find_metrics(self.run_dir, given, folder, since=since)
        if metrics:
            self.lines, self.source = metrics.lines, os.path.relpath(metrics.path)
            return
        where = f"at {given}" if given else "in the run folder"
        hint = "" if given else "; `report: {metrics: PATH}` in the spec says where they are"
        self.notes.append(f"there are no metrics {where}: loss and speed are not known{hint}")

    def _read(self, path: Path) -> Iterator[dict[str, Any] | None]:
        try:
            with open_left(path) as file:
                for data in iter(lambda: file.readline(_MOST_BYTES), b""):
                    if file.tell() > _MOST_BYTES:
                        self.notes.append(f"of metrics.jsonl only {_MOST_BYTES >> 20} MiB are read")
                        return
                    text = data.decode(errors="replace")
                    if not text.strip():
                        continue
                    try:
                        line = json.loads(text)
                    except (ValueError, RecursionError):
                        line = None
                    yield line if isinstance(line, dict) else None
        except FileNotFoundError:
            return
        except OSError as error:
            self.notes.append(f"metrics.jsonl cannot be read: {error.strerror}")

    def first_steps(self) -> dict[int, float]:
        """When each attempt was ready to train."""
        ready: dict[int, float] = {}
        for line in self.lines.get("start", []):
            attempt, time = read_number(line.get("attempt")), read_number(line.get("time"))
            if attempt is not None and time is not None:
                ready.setdefault(int(attempt), time)
        return ready

    def training(self) -> Training | None:
        """What was trained, and how fast; None where no step was written down."""
        steps = self._numbered("step")
        if not steps:
            return None
        starts = self.lines.get("start", [])
        start = starts[-1] if starts else {}
        tokens = any("tokens_per_s" in line for line in steps)
        unit = str(start.get("unit") or ("tokens" if tokens else "samples"))
        at = [_get_number(line, "step") for line in steps]

        def values(key: str) -> list[float]:
            return [_get_number(line, key) for line in steps]

        losses, times = values("loss"), values("step_s")
        finite = [
            (loss, int(step)) for loss, step in zip(losses, at, strict=True) if _is_real(loss)
        ]
        bad = len(steps) - len(finite)
        if bad:
            self.notes.append(f"the loss is no number in {bad} of {len(steps)} lines")
        validations = self._numbered("val")
        measured = [
            value for line in validations if (value := read_number(line.get("loss"))) is not None
        ]
        memory = max(filter(_is_real, values("mem_gb")), default=None)
        config = self.config()
        waits = [
            wait / step
            for wait, step in zip(values("data_s"), times, strict=True)
            if _is_real(wait) and step > 0
        ]
        # A save is counted in the line of steps that follows it, where there is one.
        saving = sum(value for value in values("ckpt_s") if _is_real(value))
        stepping = _sum_steps(at, times)
        shortest, longest = values("step_min_s"), values("step_max_s")
        ends = [value for value in (*shortest, *longest) if _is_real(value)]
        wanted = read_number(config.get("steps"))
        return Training(
            source=self.source,
            unit=unit,
            first_step=int(min(at)),
            last_step=int(max(at)),
            all_steps=None if wanted is None else int(wanted),
            device=_read_text(start.get("device_name")) or _read_text(start.get("device")),
            arithmetic=_describe_arithmetic(start),
            parameters=_read_whole(start.get("parameters")),
            ranks=_read_whole(start.get("world_size")),
            loss=finite[-1][0] if finite else None,
            least_loss=min(finite) if finite else None,
            validation=measured[-1] if measured else None,
            speed=find_median(values(f"{unit}_per_s")),
            mfu=find_median(values("mfu")),
            waiting=find_median(waits),
            checkpoints=saving / (stepping + saving)
            if stepping and "ckpt_s" in steps[-1]
            else None,
            memory=None if memory is None else memory * 1e9,
            consumed=read_number(steps[-1].get(unit)),
            losses=sample_curve(at, losses),
            validations=sample_curve(
                [_get_number(line, "step") for line in validations],
                [_get_number(line, "loss") for line in validations],
            ),
            rates=sample_curve(at, values("lr")),
            gradients=sample_curve(at, values("grad_norm")),
            speeds=sample_curve(at, values(f"{unit}_per_s")),
            step_times=measure_spread(times),
            extremes=(min(ends), max(ends)) if ends else None,
            starts=tuple(
                int(step) for line in starts[1:] if _is_real(step := _get_number(line, "step"))
            ),
        )

    def _numbered(self, kind: str) -> list[dict[str, Any]]:
        """The lines of a kind that say their step."""
        return [
            line for line in self.lines.get(kind, []) if read_number(line.get("step")) is not None
        ]

    def ranks(self, training: Training | None) -> Ranks | None:
        """What each rank did; None where nothing tells how many there were."""
        starts = self.lines.get("start", [])
        count = _read_whole(starts[-1].get("world_size")) if starts else None
        if not count or count > 1_000_000:
            return None
        shares = _read_list(starts[-1].get("micro_batches"), count)
        speed = None
        if shares and sum(shares) > 0 and training is not None and training.speed is not None:
            speed = tuple(training.speed * share / sum(shares) for share in shares)
        memory = self._by_rank("mem_gb", count, most=True)
        return Ranks(
            size=count,
            speed=speed,
            forward=self._by_rank("forward_s", count),
            waiting=self._by_rank("data_s", count),
            memory=tuple(value * 1e9 for value in memory) if memory else None,
            gpu_use=self._by_rank("gpu_util", count),
            slow=self._slow(),
        )

    def _by_rank(self, key: str, count: int, *, most: bool = False) -> tuple[float, ...] | None:
        """The mean over all steps that tell of as many ranks as there were last, or the most."""
        rows = []
        for line in self.lines.get("ranks", []):
            values, steps = _read_list(line.get(key), count), read_number(line.get("steps"))
            if values is not None and steps is not None and steps > 0:
                rows.append((steps, values))
        if not rows:
            return None
        columns = list(zip(*(values for _, values in rows), strict=True))
        if most:
            return tuple(map(max, columns))
        weights = [steps for steps, _ in rows]
        return tuple(
            sum(weight * value for weight, value in zip(weights, column, strict=True))
            / sum(weights)
            for column in columns
        )

    def _slow(self) -> tuple[Slow, ...]:
        """Whom the trainer has named in rank 0's output, the most often named first."""
        slow: dict[tuple[int, str], tuple[int, str]] = {}
        for path in sorted(self.run_dir.glob("logs/*/rank-0.out")):
            try:
                with open_left(path) as file:
                    size = file.seek(0, 2)
                    file.seek(max(0, size - _LOG_TAIL))
                    text = file.read().decode(errors="replace")
            except OSError:
                continue
            for match in _SLOW.finditer(text):
                key = int(match[1]), match[2]
                slow[key] = slow.get(key, (0, ""))[0] + 1, match[3].strip()
        named = [Slow(rank, node, *counted) for (rank, node), counted in slow.items()]
        return tuple(sorted(named, key=lambda slow: (-slow.times, slow.rank)))

    def config(self) -> dict[str, Any]:
        """The trainer's settings, as it has recorded them; nothing where there are none."""
        try:
            config = json.loads(read_left(self.run_dir / "config.json"))
        except (OSError, ValueError, RecursionError):
            return {}
        return config if isinstance(config, dict) else {}


def read_number(value: object) -> float | None:
    """`value` where it is a number that is finite, as JSON has it; else None."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value) if math.isfinite(value) else None
        except OverflowError:
            return None
    return None


def _get_number(line: dict[str, Any], key: str) -> float:
    value = read_number(line.get(key))
    return math.nan if value is None else value


def _is_real(value: float) -> bool:
    return math.isfinite(value)


def _read_whole(value: object) -> int | None:
    whole = read_number(value)
    return None if whole is None else int(whole)


def _read_text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _describe_arithmetic(start: dict[str, Any]) -> str | None:
    """`bf16, compiled, attention: cudnn`; None where the trainer has not said."""
    dtype, attention = _read_text(start.get("dtype")), _read_text(start.get("attention"))
    if dtype is None:
        return None
    words = [dtype, "compiled" if start.get("compiled") is True else "not compiled"]
    return ", ".join([*words, *([f"attention: {attention}"] if attention else [])])


def _read_list(value: object, count: int) -> tuple[float, ...] | None:
    """One number for each rank; None where that is not what it is."""
    if not isinstance(value, list) or len(value) != count:
        return None
    numbers = tuple(read_number(item) for item in value)
    return None if None in numbers else tuple(item for item in numbers if item is not None)


def _sum_steps(at: list[float], times: list[float]) -> float:
    """Seconds of all steps: each line gives the mean of those since the line before."""
    before, total = 0.0, 0.0
    for step, seconds in zip(at, times, strict=True):
        if math.isfinite(seconds) and step > before:
            total += (step - before) * seconds
        before = step
    return total
