"""What rank 0 leaves for others to look at: `metrics.jsonl`, and progress on its output.

`metrics.jsonl` has one JSON object a line, each with

- kind: "start", "step", "val" or "save"
- attempt: which start of the run wrote it: $JOBGEN_ATTEMPT, else counted from 0
- step: optimizer steps done
- time: Unix time, seconds

and by kind

- start: world_size, device, parameters (how many), unit (tokens or samples), items (how many the
  training data hold; one epoch), units_per_item, torch (version), and the task's own facts
- step: loss (mean over the step's global batch, nats per token, before the update), lr, grad_norm
  (before clipping), step_s (seconds per step, mean since the line before, validations and saves
  left out), tokens_per_s (over all ranks, same span), tokens (all that the run has trained on)
- val: loss (mean over the validation sequences, nats per token), val_s (seconds it took)
- save: save_s (seconds until the checkpoint was on disk), ckpt_s (of them, those in which training
  waited)

After a restart the lines beyond the step it continues from are dropped, so each step is there once.
"""

import json
import os
import sys
import time
from pathlib import Path

from .config import Config
from .files import replace_text


class Log:
    """Metrics and progress of one start of the run; on ranks other than 0, nothing at all."""

    def __init__(self, config: Config, *, step: int, writes: bool) -> None:
        """Go on after this step; what an earlier start wrote beyond it is dropped."""
        self._config = config
        self._writes = writes
        self._path = config.out / "metrics.jsonl"
        self._live = sys.stdout.isatty()
        self._spans: list[float] = []
        self._validation = ""
        if writes:
            lines = _lines(self._path)
            given = os.environ.get("JOBGEN_ATTEMPT")
            before = max((int(line["attempt"]) for line in lines), default=-1)
            self._attempt = int(given) if given else before + 1
            self._stream = self._path.open("a", encoding="utf-8", buffering=1)
        self.rewind(step)

    def start(self, step: int, **facts: object) -> None:
        """Record what is about to be trained."""
        self._write("start", step, **facts)
        config = self._config
        self.say(
            f"{config.task}, {facts['parameters']:,} parameters; {config.batch_units} "
            f"{facts['unit']} a step over {facts['world_size']} ranks; "
            f"steps {step} to {config.steps}"
        )

    def step(
        self, step: int, *, loss: float, lr: float, grad_norm: float, seconds: float, tokens: int
    ) -> None:
        """Take note of a step that took so long; a line is written when one is due."""
        config = self._config
        self._spans.append(seconds)
        if step % config.log_every and step != config.steps:
            return
        step_s = sum(self._spans) / len(self._spans)
        self._spans.clear()
        speed = config.batch_units / step_s
        self._write(
            "step",
            step,
            loss=loss,
            lr=lr,
            grad_norm=grad_norm,
            step_s=step_s,
            tokens_per_s=speed,
            tokens=tokens,
        )
        minutes, seconds_left = divmod(round((config.steps - step) * step_s), 60)
        self.say(
            f"step {step:>{len(str(config.steps))}}/{config.steps}  loss {loss:.4f}"
            f"{self._validation}  lr {lr:.2e}  {speed:,.0f} tokens/s  "
            f"{minutes}:{seconds_left:02d} left",
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

    def _write(self, kind: str, step: int, **values: object) -> None:
        if self._writes:
            line = {"kind": kind, "attempt": self._attempt, "step": step, "time": time.time()}
            self._stream.write(json.dumps(line | values) + "\n")


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
