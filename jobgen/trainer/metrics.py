"""What rank 0 leaves for others to look at: `metrics.jsonl`, and progress on its output.

`metrics.jsonl` has one JSON object a line, each with kind ("start", "step", "val", "save",
"ranks"), attempt (which start of the run wrote it: $JOBGEN_ATTEMPT, else counted from 0), step
(optimizer steps done) and time (Unix time, s). By kind, times in seconds and loss in nats a unit:

- start: steps (at which training ends), world_size, nodes (the host of each rank), device,
  device_name, parameters, unit ("tokens" or "samples"), items (of an epoch), units_per_item,
  micro_batches (of each rank in a step), torch (version), flops_per_unit and peak_flops (of a
  device, a second, dense bf16; null where unknown)
- step: loss (mean over the global batch, before the update), lr, grad_norm (before clipping),
  tokens (all so far), mem_gb (most memory that rank 0 has held, 10^9 bytes: its GPU's, else its
  process's); of the steps since the line before: step_s, step_min_s, step_max_s (mean, shortest,
  longest; without validations and saves), data_s (mean, rank 0 waiting for data), tokens_per_s
  (over all ranks), mfu (tokens_per_s flops_per_unit / peak_flops of all devices), ckpt_s
  (checkpoints held training up, in all). Where the unit is samples: samples, samples_per_s
- val: loss (mean over the validation items), val_s
- save: save_s (until it was on disk), ckpt_s (of them, training waited)
- ranks: of the steps since the line before, by rank and a step: forward_s (own forward passes; null
  where layers are sharded, as they wait for others), data_s; mem_gb; steps (how many)

After a restart the lines beyond the step it continues from are dropped, so each step is there once.
"""

import json
import os
import resource
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from .config import Config
from .files import replace_text
from .trackers import Tracker, WandB

# Dense bf16 operations per second of one device, by what its name contains; the first match counts.
# As in torchtitan's tools/utils.py, which has them from the makers' data sheets.
_PEAKS = {
    "A100": 312e12,
    "H100 NVL": 835e12,
    "H100 PCIe": 756e12,
    "H100": 989e12,
    "H200": 989e12,
    "B200": 2250e12,
    "L40S": 362e12,
    "MI250X": 191.5e12,
    "MI300X": 1300e12,
}


def peak_flops(name: str) -> float | None:
    """Return the most that a device of this name can do, operations per second; None if unknown."""
    return next((peak for part, peak in _PEAKS.items() if part in name), None)


def memory_held(device: torch.device) -> float:
    """Return the most memory held so far, in 10^9 bytes: of a GPU, else of this process."""
    if device.type == "cpu":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    return float(getattr(torch, device.type).max_memory_allocated(device)) / 1e9


class Log:
    """Metrics and progress of one start of the run; on ranks other than 0, nothing at all."""

    def __init__(self, config: Config, *, step: int, writes: bool) -> None:
        """Go on after this step; what an earlier start wrote beyond it is dropped."""
        self._config, self._writes = config, writes
        self._path = config.out / "metrics.jsonl"
        self._live = sys.stdout.isatty()
        self._spans: list[float] = []
        self._blocked, self._validation, self._lost = 0.0, "", False
        self._trackers: list[Tracker] = []
        if writes:
            wanted = ((config.tensorboard, Tracker), (config.wandb, WandB))
            self._trackers = [kind(config, step=step) for asked, kind in wanted if asked]
            before = max((line["attempt"] for line in _lines(self._path)), default=-1)
            self._attempt = int(os.environ.get("JOBGEN_ATTEMPT") or before + 1)
        self.rewind(step)

    def rewind(self, step: int) -> None:
        """Drop what was written beyond this step, from which the run goes on."""
        self._spans.clear()
        if self._writes:
            kept = [json.dumps(line) + "\n" for line in _lines(self._path) if line["step"] <= step]
            replace_text(self._path, "".join(kept))

    def start(self, step: int, **facts: Any) -> None:
        """Record what is about to be trained."""
        config, self._unit = self._config, facts["unit"]
        self.write("start", step, steps=config.steps, **facts)
        peak = (facts["peak_flops"] or 0) * facts["world_size"]
        self._share = (facts["flops_per_unit"] or 0) / peak if peak else 0.0
        self.say(
            f"{config.task} {config.model or ''}, {facts['parameters']:,} parameters; "
            f"{config.batch_units:,} {self._unit} a step over {facts['world_size']} ranks; "
            f"steps {step} to {config.steps}"
        )

    def step(
        self, step: int, numbers: dict[str, float], *, seconds: float, waited: float, units: int
    ) -> None:
        """Take note of a step that took so long; a line is written when one is due.

        `waited` are the seconds of waiting for data since the line before; numbers go as they are.
        """
        config, spans = self._config, self._spans
        spans.append(seconds)
        if not self._writes or not config.line_due(step):
            return
        step_s = sum(spans) / len(spans)
        speed = config.batch_units / step_s
        mfu = speed * self._share or None
        rates = {self._unit: units, f"{self._unit}_per_s": speed, "mfu": mfu}
        times = {"step_s": step_s, "step_min_s": min(spans), "step_max_s": max(spans)}
        times |= {"data_s": waited / len(spans), "ckpt_s": self._blocked}
        self.write("step", step, **numbers, **rates, **times)
        spans.clear()
        self._blocked = 0.0
        minutes, seconds_left = divmod(round((config.steps - step) * step_s), 60)
        self.say(
            f"step {step:>{len(str(config.steps))}}/{config.steps}  loss {numbers['loss']:.4f}"
            f"{self._validation}  lr {numbers['lr']:.2e}  {speed:,.0f} {self._unit}/s  "
            f"{f'{mfu:.1%} MFU  ' if mfu else ''}{minutes}:{seconds_left:02d} left",
            passing=True,
        )

    def say(self, text: str, *, passing: bool = False) -> None:
        """Print a line; on a terminal a passing one gives way to the next."""
        if not self._writes:
            return
        line = f"\r\x1b[K{text}" + "\n" * (not passing) if self._live else f"{text}\n"
        with suppress(OSError):  # Training goes on when the disk of the output is full.
            print(line, end="", flush=True)

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
                stream.write(json.dumps(line | values) + "\n")
            self._lost = False
        except OSError as error:  # A disk that is full is no reason to stop training.
            with suppress(OSError):
                os.truncate(self._path, size)  # half a line
            if not self._lost:
                self.say(f"warning: lines of metrics are lost: {error}")
            self._lost = True
        if kind != "ranks":
            for tracker in self._trackers:
                tracker.write(kind, step, values)

    def close(self) -> None:
        """Let the trackers write what is left."""
        for tracker in self._trackers:
            tracker.close()


def _lines(path: Path) -> list[dict[str, Any]]:
    """Return the lines there are; one cut short by a kill is none."""
    lines = []
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    for line in text.splitlines():
        with suppress(ValueError):
            lines.append(json.loads(line))
    return lines
