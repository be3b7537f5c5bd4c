"""A trace of chosen steps, for chrome://tracing or ui.perfetto.dev."""

from typing import Any

import torch

from .config import Config


class Profiler:
    """Traces the steps of --profile on one rank; without that, does nothing."""

    def __init__(self, config: Config, *, active: bool) -> None:
        self._steps = config.profile if active else None
        self._file = config.out / "trace-{}-{}.json"
        self._running: Any = None

    def before(self, step: int) -> None:
        """Begin, if this step is the first to be traced, or a later one at which a run goes on."""
        if self._steps and self._steps[0] <= step <= self._steps[1] and not self._running:
            self._first = step
            self._running = torch.profiler.profile(profile_memory=True)
            self._running.start()

    def after(self, step: int) -> str | None:
        """End, if this step was the last to be traced; returns a line about the file."""
        if self._running is None or not self._steps or step < self._steps[1]:
            return None
        self._running.stop()
        path = str(self._file).format(self._first, step)
        self._running.export_chrome_trace(path)
        self._running = self._steps = None
        return f"steps {self._first} to {step} are traced in {path}"
