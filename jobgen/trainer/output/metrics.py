"""What rank 0 leaves for others to look at: `metrics.jsonl`, and progress on its output.

`metrics.jsonl` has one JSON object a line; its fields are in `docs/reference/trainer.md`. After a
restart the lines beyond the step it continues from are dropped, so each step is there once.
"""

from __future__ import annotations

import json
import math
import os
import re
import resource
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import torch

from ..config import Config
from .files import replace_text

# Dense operations per second of one device in bf16, of GPUs without it in fp16, from the makers'
# data sheets. The first name counts that is a word, or words, of the device's name.
_PEAKS = {
    "A100": 312e12,
    "H100 NVL": 835e12,
    "H100 PCIe": 756e12,
    "H100": 989e12,
    "H200": 989e12,
    "GH200": 989e12,
    "B200": 2250e12,
    "GB200": 2500e12,
    "L40S": 362e12,
    "L40": 181e12,
    "L4": 121e12,
    "A40": 149.7e12,
    "A30": 165e12,
    "A10": 125e12,
    "V100-PCIE": 112e12,
    "V100": 125e12,
    "T4": 65e12,
    "P100-PCIE": 18.7e12,
    "P100": 21.2e12,
    "MI250X": 191.5e12,
    "MI300X": 1300e12,
}


class StepNumbers(NamedTuple):
    """What a step has shown, over all ranks."""

    step: int  # counted from 1
    position: int  # items used so far, this step's included
    learning_rate: float
    problem: str | None = None  # why the run cannot go on
    # Over all ranks if the step gets a line of metrics, or is bad:
    loss: float = math.nan  # mean over the global batch, before the update
    grad_norm: float = math.nan  # before clipping
    # If the step gets a line of metrics:
    memory_gb: float | None = None  # the most held by this rank
    waited: float = 0.0  # seconds in which this rank waited for data, since the line before
    # Seconds since then that each rank took for its own: data, and forward passes on the host.
    by_rank: tuple[float, ...] = ()


def look_up_peak(name: str) -> float | None:
    """Return the most operations per second of a device of this name; None if unknown."""
    words = (part for part in _PEAKS if re.search(rf"\b{part}\b", name))
    return next((_PEAKS[part] for part in words), None)


def measure_memory(device: torch.device) -> float:
    """Return the most memory held so far, in 10^9 bytes: of a GPU, else of this process."""
    if device.type == "cpu":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    return torch.cuda.max_memory_allocated(device) / 1e9


def find_slow(by_rank: Sequence[float], steps: int) -> tuple[int, float, float] | None:
    """Return the rank that takes five times as long as the others, and their seconds a step.

    Below a tenth of a second a step it makes no difference worth a line.
    """
    shares = sorted((own / steps, rank) for rank, own in enumerate(by_rank))
    if len(shares) < 2:
        return None
    (usual, _), (most, rank) = shares[len(shares) // 2 - 1], shares[-1]
    return (rank, most, usual) if most > max(5 * usual, 0.1) else None


class Log:
    """Metrics and progress of one start of the run; on ranks other than 0, nothing at all."""

    def __init__(self, config: Config, *, step: int, writes: bool) -> None:
        """Go on after this step; what an earlier start wrote beyond it is dropped."""
        self._config, self._writes = config, writes
        self._path = config.out / "metrics.jsonl"
        self._spans: list[float] = []
        self._blocked, self._validation, self._lost = 0.0, "", False
        if writes:
            lines = _read_lines(self._path)
            before = max((line["attempt"] for line in lines), default=-1)
            self._attempt = int(os.environ.get("JOBGEN_ATTEMPT") or before + 1)
            kept = [_as_line(line) for line in lines if line["step"] <= step]
            replace_text(self._path, "".join(kept))

    def start(self, step: int, **facts: Any) -> None:
        """Record what is about to be trained."""
        config, self._unit = self._config, facts["unit"]
        self._units_per_item = facts["units_per_item"]
        self.write("start", step, steps=config.steps, **facts)
        peak = (facts["peak_flops"] or 0) * facts["world_size"]
        self._share = (facts["flops_per_unit"] or 0) / peak if peak else 0.0
        self.say(
            f"{config.task} {config.model or ''}, {facts['parameters']:,} parameters; "
            f"{config.batch_units:,} {self._unit} a step over {facts['world_size']} ranks; "
            f"steps {step} to {config.steps}"
        )

    def step(self, numbers: StepNumbers, *, seconds: float) -> None:
        """Take note of a step that took so long; a line is written when one is due."""
        config, spans, step = self._config, self._spans, numbers.step
        spans.append(seconds)
        if not self._writes or not config.is_logged(step):
            return
        step_s = sum(spans) / len(spans)
        speed = config.batch_units / step_s
        mfu = speed * self._share or None
        line: dict[str, Any] = {"loss": numbers.loss, "lr": numbers.learning_rate}
        line |= {"grad_norm": numbers.grad_norm, "mem_gb": numbers.memory_gb}
        line |= {self._unit: numbers.position * self._units_per_item}
        line |= {f"{self._unit}_per_s": speed, "mfu": mfu}
        line |= {"step_s": step_s, "step_min_s": min(spans), "step_max_s": max(spans)}
        line |= {"data_s": numbers.waited / len(spans), "ckpt_s": self._blocked}
        self.write("step", step, **line)
        slow = find_slow(numbers.by_rank, len(spans))
        usual = sorted(spans)[len(spans) // 2]  # the first may compile
        spans.clear()
        self._blocked = 0.0
        left = timedelta(seconds=round((config.steps - step) * usual))
        self.say(
            f"step {step:>{len(str(config.steps))}}/{config.steps}  loss {numbers.loss:.4f}"
            f"{self._validation}  lr {numbers.learning_rate:.2e}  {speed:,.0f} {self._unit}/s  "
            f"{f'{mfu:.1%} MFU  ' if mfu else ''}{left} left"
        )
        if slow:
            rank, most, usual = slow
            log = next(self._config.out.glob(f"logs/*/rank-{rank}.out"), Path("its-node/log"))
            self.say(
                f"rank {rank} on {log.parent.name} is slow: {most:.3f} s a step for its data and "
                f"forward passes, the others {usual:.3f} s"
            )

    def say(self, text: str) -> None:
        """Print a line."""
        if self._writes:
            with suppress(OSError):  # Training goes on when the disk of the output is full.
                print(text, flush=True)

    def write(self, kind: str, step: int, **values: Any) -> None:
        """Write a line; later progress shows a validation, a later step what a save has cost."""
        if not self._writes:
            return
        if kind == "val":
            self._validation = f"  val {values['loss']:.4f}"
        if kind == "save":
            self._blocked += values["ckpt_s"]
        line = {"kind": kind, "attempt": self._attempt, "step": step, "time": time.time()}
        size = self._path.stat().st_size
        try:
            with self._path.open("a", encoding="utf-8") as stream:
                stream.write(_as_line(line | values))
            self._lost = False
        except OSError as error:  # A disk that is full is no reason to stop training.
            with suppress(OSError):
                os.truncate(self._path, size)  # half a line
            if not self._lost:
                self.say(f"warning: lines of metrics are lost: {error}")
            self._lost = True


def _as_line(values: dict[str, Any]) -> str:
    """Return the values as one line of JSON, which has no word for a number that is not one."""
    bad = {name for name, it in values.items() if isinstance(it, float) and not math.isfinite(it)}
    return json.dumps(values | dict.fromkeys(bad), allow_nan=False) + "\n"


def _read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the lines that are whole; one cut short by a kill is left out."""
    lines = []
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    for line in text.splitlines():
        with suppress(ValueError):
            lines.append(json.loads(line))
    return lines
