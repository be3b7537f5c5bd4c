"""Metrics for other programs too: TensorBoard, Weights & Biases. Imported only where asked for."""

import os
import uuid
from collections.abc import Mapping
from typing import Any, Protocol

from .config import Config, TrainerError


class Tracker(Protocol):
    """Something that metrics are written to."""

    def write(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        """Take what is written to metrics.jsonl."""

    def close(self) -> None:
        """Write what is left."""


def trackers(config: Config, *, step: int) -> list[Tracker]:
    """Return what the settings ask for; the run goes on after this step."""
    found: list[Tracker] = []
    if config.tensorboard:
        found.append(_TensorBoard(config, step=step))
    if config.wandb:
        found.append(_WandB(config))
    return found


class _TensorBoard:
    def __init__(self, config: Config, *, step: int) -> None:
        try:
            from torch.utils.tensorboard.writer import SummaryWriter
        except ImportError as error:
            raise TrainerError(f"--tensorboard: pip install tensorboard ({error})") from error
        # What an earlier start wrote beyond the step is hidden.
        self._writer: Any = SummaryWriter(str(config.out / "tensorboard"), purge_step=step + 1)

    def write(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            if kind != "start" and value is not None:
                self._writer.add_scalar(f"{kind}/{name}", value, step)

    def close(self) -> None:
        self._writer.close()


class _WandB:
    """One run for all starts on a run folder.

    Offline, unless WANDB_MODE says otherwise: nodes often have no way out. `wandb sync` sends the
    folder `wandb` of the run folder from one that has.
    """

    def __init__(self, config: Config) -> None:
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
            config=config.as_json(),
        )

    def write(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        if kind == "start":
            self._run.config.update(dict(values), allow_val_change=True)
        else:
            self._run.log({f"{kind}/{name}": value for name, value in values.items()}, step=step)

    def close(self) -> None:
        self._run.finish()
