"""How training went, from the trainer's `metrics.jsonl` or another program's metrics.

`docs/reference/trainer.md` has the fields of the former.
"""

from __future__ import annotations

import math
import os
from collections import defaultdict
from collections.abc import Iterable
from itertools import chain, pairwise, takewhile
from pathlib import Path
from typing import Any

from jobgen.diagnose.reading import SLOW_RANK
from jobgen.jobs.files import open_left, parse_object, read_end, read_if_left
from jobgen.output import format_count
from jobgen.report.facts import Curve, Ranks, Slow, Training
from jobgen.report.figures import find_median, list_numbers, measure_spread, sample_curve
from jobgen.report.foreign import Lines, find_metrics
from jobgen.spec.units import read_number

_MOST_BYTES = 32 << 20  # of metrics.jsonl: some 100,000 lines
_LOG_TAIL = 4 << 20  # of rank 0's output, in which stragglers are named


class History:
    """The lines of a metrics file by kind; `notes` has what is wrong with it.

    `source` is the file if it is not the trainer's: one in the run folder, or at the path `given`,
    relative to `folder`, that was written after `since`. `starts` are when attempts began.
    """

    def __init__(
        self,
        run_dir: Path,
        folder: Path,
        *,
        given: str = "",
        since: float = 0.0,
        starts: Iterable[float] = (),
    ) -> None:
        self.run_dir = run_dir
        self.notes: list[str] = []
        self.source = ""
        self.lines: Lines = defaultdict(list)
        self._read_lines(run_dir / "metrics.jsonl")
        if given or not (self.lines.keys() & {"start", "step"}):
            self._take_others(
                given, *find_metrics(run_dir, given, folder, since=since, starts=starts)
            )

    def _take_others(self, given: str, path: Path, lines: Lines, notes: list[str]) -> None:
        self.notes += notes
        if lines:
            self.lines, self.source = lines, os.path.relpath(path)
            return
        where = f"at {given}" if given else "in the run folder"
        hint = "" if given else "; name their path with `report: {metrics: PATH}` in the spec"
        self.notes.append(f"no metrics {where}: loss and speed are not known{hint}")

    def _read_lines(self, path: Path) -> None:
        try:
            with open_left(path) as file:
                data = file.read(_MOST_BYTES + 1)
        except FileNotFoundError:
            return
        except OSError as error:
            self.notes.append(f"metrics.jsonl cannot be read: {error.strerror}")
            return
        if len(data) > _MOST_BYTES:
            data = data[:_MOST_BYTES].rpartition(b"\n")[0]
            self.notes.append(f"only the first {_MOST_BYTES >> 20} MiB of metrics.jsonl are read")
        damaged = 0
        for text in filter(bytes.strip, data.split(b"\n")):
            line = parse_object(text.decode(errors="replace"))
            if line is None:
                damaged += 1
            else:
                self.lines[str(line.get("kind"))].append(line)
        if damaged:
            count = format_count(damaged, "line is", "lines are")
            self.notes.append(f"metrics.jsonl: {count} damaged and ignored")

    @property
    def start(self) -> dict[str, Any]:
        """The trainer's record of its last start; empty without one."""
        return self.lines["start"][-1] if self.lines["start"] else {}

    @property
    def last(self) -> float:
        """When the last line was written; 0 without lines."""
        lines = chain.from_iterable(self.lines.values())
        return max(list_numbers(line.get("time") for line in lines), default=0.0)

    def training(self) -> Training | None:
        """Return what was trained, and how fast; None if no step was recorded."""
        steps, validations = _Columns(self.lines["step"]), _Columns(self.lines["val"])
        if not steps.at:
            return None
        start, wanted = self.start, _read_whole(self.config().get("steps"))
        unit = str(start.get("unit") or ("tokens" if steps.has("tokens_per_s") else "samples"))
        losses = [(loss, int(step)) for loss, step in steps.pair("loss", "step")]
        if bad := len(steps.at) - len(losses):
            self.notes.append(f"the loss is not a number in {bad} of {len(steps.at)} lines")
        ends = steps.list_real("step_min_s") + steps.list_real("step_max_s")
        return Training(
            source=self.source,
            unit=unit,
            first_step=int(min(steps.at)),
            last_step=int(max(steps.at)),
            done_steps=_count_steps(steps.at, wanted),
            all_steps=wanted,
            device=_read_text(start.get("device_name")) or _read_text(start.get("device")),
            arithmetic=_describe_arithmetic(start),
            parameters=_read_whole(start.get("parameters")),
            ranks=_read_whole(start.get("world_size")),
            loss=steps.find_last("loss"),
            diverged=_find_divergence(steps, validations),
            least_loss=min(losses, default=None),
            validation=validations.find_last("loss"),
            speed=find_median(steps[f"{unit}_per_s"]),
            mfu=find_median(steps["mfu"]),
            waiting=find_median(steps.divide("data_s", "step_s")),
            memory=max((size * 1e9 for size in steps.list_real("mem_gb")), default=None),
            consumed=read_number(steps.lines[-1].get(unit)),
            losses=steps.sample("loss"),
            validations=validations.sample("loss"),
            rates=steps.sample("lr"),
            gradients=steps.sample("grad_norm"),
            speeds=steps.sample(f"{unit}_per_s"),
            step_times=measure_spread(steps["step_s"]),
            extremes=(min(ends), max(ends)) if ends else None,
            starts=tuple(map(int, _Columns(self.lines["start"][1:]).at)),
        )

    def ranks(self) -> Ranks | None:
        """Return the slow ranks; None if the number of ranks is not known."""
        count = _read_whole(self.start.get("world_size"))
        return Ranks(count, self._slow()) if count else None

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
    """The lines that have a step, by column; what else a line lacks as a number is NaN."""

    def __init__(self, lines: list[dict[str, Any]]) -> None:
        self.lines = [line for line in lines if read_number(line.get("step")) is not None]
        self.at = self["step"]

    def __getitem__(self, key: str) -> list[float]:
        numbers = (read_number(line.get(key)) for line in self.lines)
        return [math.nan if number is None else number for number in numbers]

    def has(self, key: str) -> bool:
        """Return whether any line has this column."""
        return any(key in line for line in self.lines)

    def list_real(self, key: str) -> list[float]:
        """Return the numbers of a column that are finite."""
        return list_numbers(self[key])

    def pair(self, key: str, other: str) -> list[tuple[float, float]]:
        """Return those of two columns, line by line, where the first is finite."""
        pairs = zip(self[key], self[other], strict=True)
        return [(value, with_it) for value, with_it in pairs if math.isfinite(value)]

    def divide(self, key: str, whole: str) -> list[float]:
        """Return a column as shares of another that is not 0."""
        return [part / all for part, all in self.pair(key, whole) if all > 0]

    def find_last(self, key: str) -> float | None:
        """Return the last number of a column; None if that is not finite."""
        if self.find_divergence(key) is not None:
            return None
        return next(reversed(self.list_real(key)), None)

    def find_divergence(self, key: str) -> int | None:
        """Return the step from which on a column has numbers, of which none is finite."""
        lines = [line for line in self.lines if isinstance(line.get(key), int | float)]
        ends = [*takewhile(lambda line: read_number(line[key]) is None, reversed(lines))]
        return int(ends[-1]["step"]) if ends else None

    def sample(self, key: str) -> Curve:
        """Return the curve of a column."""
        return sample_curve(self.at, self[key])


def _find_divergence(steps: _Columns, validations: _Columns) -> int | None:
    """Return the step from which on a loss is not a number; one of validation never is for some."""
    since = steps.find_divergence("loss")
    if since is None and validations.list_real("loss"):
        return validations.find_divergence("loss")
    return since


def _count_steps(at: list[float], wanted: int | None) -> int:
    """Return how many steps are done: one more than the last if the first of all is step 0.

    Line 0 may be what was before all steps: where every tenth step has a line, or the last is the
    last that was `wanted`.
    """
    ordered = sorted(set(at))
    from_zero = ordered[0] == 0 and find_median([b - a for a, b in pairwise(ordered)]) == 1
    return int(ordered[-1]) + (from_zero and wanted != ordered[-1])


def _read_whole(value: object) -> int | None:
    whole = read_number(value)
    return None if whole is None else int(whole)


def _read_text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _describe_arithmetic(start: dict[str, Any]) -> str | None:
    """Return `bf16, compiled`; None if the trainer did not record it."""
    dtype = _read_text(start.get("dtype"))
    compiled = "compiled" if start.get("compiled") is True else "not compiled"
    return dtype and f"{dtype}, {compiled}"
