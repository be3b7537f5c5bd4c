"""How far a job's program has come, by its `metrics.jsonl` (`jobgen/trainer/metrics.py`)."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any, NamedTuple

# A run may write gigabytes of it; so much of its end, and of its beginning, is read.
_BYTES = 64 * 1024


class Progress(NamedTuple):
    """What rank 0 has said last; what it has not said is None."""

    step: int
    steps: int | None  # of the whole training
    loss: float | None
    per_second: float | None  # tokens, or what else `unit` says, over all ranks
    unit: str
    time: float  # when that was, in seconds since 1970
    left: float | None  # seconds until all steps are done

    def as_text(self) -> str:
        """For a person to read."""
        of_all = "" if self.steps is None else f" of {self.steps}"
        loss = "" if self.loss is None else f", loss {self.loss:.4g}"
        speed = "" if self.per_second is None else f", {self.per_second:,.0f} {self.unit}/s"
        return f"step {self.step}{of_all}{loss}{speed}"


def read(run_dir: Path) -> Progress | None:
    """None where there are no metrics, or none that can be read."""
    try:
        with (run_dir / "metrics.jsonl").open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - _BYTES))
            end = file.read()
            step, start = _last("step", end), _last("start", end)
            if step and start is None:
                file.seek(0)
                start = _last("start", file.read(_BYTES))
        return _progress(step, start or {}) if step else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _last(kind: str, data: bytes) -> dict[str, Any] | None:
    """The last line of this kind that is whole."""
    for text in reversed(data.splitlines()):
        if f'"{kind}"'.encode() not in text:  # far quicker than to read it
            continue
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(line, dict) and line.get("kind") == kind:
            return line
    return None


def _progress(last: dict[str, Any], start: dict[str, Any]) -> Progress:
    speed = next((key for key in last if key.endswith("_per_s")), None)
    step, steps = int(last["step"]), start.get("steps")
    seconds = _number(last.get("step_s"))
    left = None
    if isinstance(steps, int) and seconds is not None:
        left = max(0, steps - step) * seconds
    return Progress(
        step=step,
        steps=steps if isinstance(steps, int) else None,
        loss=_number(last.get("loss")),
        per_second=_number(last[speed]) if speed else None,
        unit=speed.removesuffix("_per_s") if speed else "",
        time=float(last["time"]),
        left=left,
    )


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None
