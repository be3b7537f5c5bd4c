"""What rank 0 leaves for others to look at: `metrics.jsonl`, and progress on its output.

`metrics.jsonl` has one JSON object a line, each with

- kind: "start", "step", "val" or "save"
- attempt: which start of the run wrote it: $JOBGEN_ATTEMPT, else counted from 0
- step: optimizer steps done
- time: Unix time, seconds

and by kind

- start: world_size, device, device_name, parameters (how many), unit (tokens or samples), items
  (how many the training data hold; one epoch), units_per_item, micro_batches (of each rank in a
  step), flops_per_unit (to train on one unit) and peak_flops (of one device, per second, dense
  bf16) or null where unknown, torch (version), and the task's own facts
- step: loss (mean over the step's global batch, nats per token, before the update), lr, grad_norm
  (before clipping), tokens (all that the run has trained on), and of the steps since the line
  before: step_s (seconds a step, validations and saves left out), data_s (of them, those in which
  rank 0 waited for data), tokens_per_s (over all ranks), mfu (flops_per_unit by tokens_per_s, as a
  share of all devices' peak_flops; null where one of them is), ckpt_s (seconds in all in which
  checkpoints held training up), mem_gb (most memory that rank 0 has held, 10^9 bytes: of its GPU,
  else of its process)
- val: loss (mean over the validation sequences, nats per token), val_s (seconds it took)
- save: save_s (seconds until the checkpoint was on disk), ckpt_s (of them, those in which training
  waited)

Where the unit is samples, tokens and tokens_per_s are called samples and samples_per_s.

After a restart the lines beyond the step it continues from are dropped, so each step is there once.
"""

import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

import torch

from .config import Config
from .files import replace_text
from .trackers import trackers

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
    held: int = getattr(torch, device.type).max_memory_allocated(device)
    return held / 1e9


class Log:
    """Metrics and progress of one start of the run; on ranks other than 0, nothing at all."""

    def __init__(self, config: Config, *, step: int, writes: bool) -> None:
        """Go on after this step; what an earlier start wrote beyond it is dropped."""
        self._config = config
        self._writes = writes
        self._path = config.out / "metrics.jsonl"
        self._live = sys.stdout.isatty()
        self._spans: list[float] = []
        self._blocked = 0.0
        self._validation = ""
        self._unit, self._share = "tokens", None
        if writes:
            self._trackers = trackers(config, step=step)
            lines = _lines(self._path)
            given = os.environ.get("JOBGEN_ATTEMPT")
            before = max((int(line["attempt"]) for line in lines), default=-1)
            self._attempt = int(given) if given else before + 1
            self._stream = self._path.open("a", encoding="utf-8", buffering=1)
        self.rewind(step)

    def start(self, step: int, **facts: Any) -> None:
        """Record what is about to be trained."""
        self._write("start", step, **facts)
        config = self._config
        self._unit = facts["unit"]
        if facts["flops_per_unit"] and facts["peak_flops"]:
            self._share = facts["flops_per_unit"] / (facts["peak_flops"] * facts["world_size"])
        self.say(
            f"{config.task} {config.model or ''}, {facts['parameters']:,} parameters; "
            f"{config.batch_units:,} {self._unit} a step over {facts['world_size']} ranks; "
            f"steps {step} to {config.steps}"
        )

    def step(
        self,
        step: int,
        *,
        loss: float,
        lr: float,
        grad_norm: float,
        seconds: float,
        waited: float,
        units: int,
        memory: float,
    ) -> None:
        """Take note of a step that took so long; a line is written when one is due.

        `waited` are the seconds of waiting for data since the line before.
        """
        config = self._config
        self._spans.append(seconds)
        if step % config.log_every and step != config.steps:
            return
        step_s = sum(self._spans) / len(self._spans)
        speed = config.batch_units / step_s
        mfu = self._share and speed * self._share
        self._write(
            "step",
            step,
            loss=loss,
            lr=lr,
            grad_norm=grad_norm,
            **{self._unit: units, f"{self._unit}_per_s": speed},
            mfu=mfu,
            step_s=step_s,
            data_s=waited / len(self._spans),
            ckpt_s=self._blocked,
            mem_gb=memory,
        )
        self._spans.clear()
        self._blocked = 0.0
        minutes, seconds_left = divmod(round((config.steps - step) * step_s), 60)
        self.say(
            f"step {step:>{len(str(config.steps))}}/{config.steps}  loss {loss:.4f}"
            f"{self._validation}  lr {lr:.2e}  {speed:,.0f} {self._unit}/s  "
            f"{f'{mfu:.1%} MFU  ' if mfu else ''}{minutes}:{seconds_left:02d} left",
            passing=True,
        )

    def validation(self, step: int, loss: float, *, seconds: float) -> None:
        """Record a validation; from now on the progress shows it."""
        self._write("val", step, loss=loss, val_s=seconds)
        self._validation = f"  val {loss:.4f}"
        if step == self._config.steps:
            self.say(f"validation loss {loss:.4f}")

    def saved(self, step: int, *, seconds: float, blocked: float) -> None:
        """Record a checkpoint."""
        self._blocked += blocked
        self._write("save", step, save_s=seconds, ckpt_s=blocked)

    def rewind(self, step: int) -> None:
        """Drop what was written beyond this step, from which the run goes on."""
        self._spans.clear()
        if self._writes:
            self._stream.close()
            kept = [json.dumps(line) + "\n" for line in _lines(self._path) if line["step"] <= step]
            replace_text(self._path, "".join(kept))
            self._stream = self._path.open("a", encoding="utf-8", buffering=1)

    def say(self, text: str, *, passing: bool = False) -> None:
        """Print a line; on a terminal a passing one gives way to the next."""
        if not self._writes:
            return
        if self._live:
            print(f"\r\x1b[K{text}", end="" if passing else "\n", flush=True)
        else:
            print(text, flush=True)

    def close(self) -> None:
        """Close the file."""
        if self._writes:
            self._stream.close()
            for tracker in self._trackers:
                tracker.close()

    def _write(self, kind: str, step: int, **values: object) -> None:
        if self._writes:
            line = {"kind": kind, "attempt": self._attempt, "step": step, "time": time.time()}
            self._stream.write(json.dumps(line | values) + "\n")
            for tracker in self._trackers:
                tracker.write(kind, step, values)


def _lines(path: Path) -> list[dict[str, float]]:
    """Return the lines there are; one cut short by a kill is none."""
    lines = []
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    for line in text.splitlines():
        try:
            lines.append(json.loads(line))
        except ValueError:
            continue
    return lines
