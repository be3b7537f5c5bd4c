"""For other programs: metrics for TensorBoard and Weights & Biases, and a trace for Chrome."""

import json
import os
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from ..config import Config, TrainerError


class Tracker:
    """TensorBoard's files, in the run folder."""

    def __init__(self, config: Config, *, step: int) -> None:
        """Begin to take what is written to metrics.jsonl; the run goes on after this step."""
        try:
            from torch.utils.tensorboard.writer import SummaryWriter
        except ImportError as error:
            raise TrainerError(f"--tensorboard: pip install tensorboard ({error})") from error
        # What an earlier start wrote beyond the step is hidden.
        self._writer: Any = SummaryWriter(str(config.out / "tensorboard"), purge_step=step + 1)

    def write(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        """Take a line of metrics."""
        for name, value in values.items():
            if kind != "start" and value is not None:
                self._writer.add_scalar(f"{kind}/{name}", value, step)

    def close(self) -> None:
        """Write what is left."""
        self._writer.close()


class WandB(Tracker):
    """One run of Weights & Biases for all starts on a run folder.

    Offline, unless WANDB_MODE says otherwise: nodes often have no way out. `wandb sync` sends the
    folder `wandb` of the run folder from one that has.
    """

    def __init__(self, config: Config, *, step: int) -> None:
        try:
            import wandb
        except ImportError as error:
            raise TrainerError(f"--wandb: pip install wandb ({error})") from error
        identity = config.out / "wandb-id"
        if not identity.exists():
            identity.write_text(uuid.uuid4().hex[:12])
        self._run = wandb.init(
            project=config.wandb,
            dir=str(config.out),
            id=identity.read_text(),
            resume="allow",
            mode=os.environ.get("WANDB_MODE", "offline"),
            config=config.as_json() | {"job": _read_job()},
        )

    def write(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        """Take a line of metrics."""
        if kind == "start":
            self._run.config.update(dict(values), allow_val_change=True)
        else:
            self._run.log({f"{kind}/{name}": value for name, value in values.items()}, step=step)

    def close(self) -> None:
        """Write what is left."""
        self._run.finish()


def _read_job() -> dict[str, str]:
    """The job that this is, by its id, and by the digest of its script where jobgen wrote it."""
    job = {"id": os.environ.get("JOBGEN_JOB_ID", ""), "script": ""}
    with suppress(OSError, ValueError, KeyError, TypeError):
        plan = Path(os.environ["JOBGEN_RUN_DIR"], "plan.json").read_text(encoding="utf-8")
        job["script"] = str(json.loads(plan)["digest"])
    return {name: value for name, value in job.items() if value}


class Profiler:
    """Traces the steps of --profile on one rank, for chrome://tracing or ui.perfetto.dev."""

    def __init__(self, config: Config, *, active: bool) -> None:
        self._first, self._last = config.profile if active and config.profile else (0, 0)
        self._folder = config.out
        self._running: Any = None

    def before(self, step: int) -> None:
        """Begin, if this step is the first to be traced, or a later one at which a run goes on."""
        if self._first <= step <= self._last and not self._running:
            self._first, self._running = step, torch.profiler.profile(profile_memory=True)
            self._running.start()

    def after(self, step: int) -> str | None:
        """End, if this step was the last to be traced; returns a line about the file."""
        if self._running is None or step < self._last:
            return None
        self._running.stop()
        path = self._folder / f"trace-{self._first}-{step}.json"
        self._running.export_chrome_trace(str(path))
        self._running, self._last = None, 0
        return f"steps {self._first} to {step} are traced in {path}"
