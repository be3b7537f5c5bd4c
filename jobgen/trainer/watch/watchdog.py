"""A rank that hangs: what goes wrong without an error."""

import faulthandler
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import torch

from .status import Status

# Seconds. A rank that loses a peer fails at once, and has left no stacks.
_OTHERS_BARK_WITHIN = 2.0


class Watchdog:
    """Ends the process, its stacks written to the run folder, when it has not moved for long.

    Other ranks wait for one that hangs inside their collective operations, where nothing but
    only a separate thread can act; every rank leaves its stacks, so that the odd one can be found.
    """

    def __init__(self, seconds: float, status: Status, newest_step: Callable[[], int]) -> None:
        self._seconds, self._status, self._newest_step = seconds, status, newest_step
        self._ended = threading.Event()

    def __enter__(self) -> None:
        self.begins("building the model")
        threading.Thread(target=self._watch, daemon=True, name="watchdog").start()

    def __exit__(self, *error: object) -> None:
        self._ended.set()

    def begins(self, what: str) -> None:
        """Take note that the process moves: this is what it does next."""
        self._doing = (what, time.monotonic())

    def _watch(self) -> None:
        while not self._ended.wait(min(1.0, self._seconds / 4)):
            what, since = self._doing
            if time.monotonic() - since > self._seconds:
                try:
                    self._bark(f"no progress for {self._seconds:g} s in {what}")
                    time.sleep(_OTHERS_BARK_WITHIN)
                finally:  # A disk that is full must not keep it.
                    os._exit(1)

    def _bark(self, problem: str) -> None:
        folder = self._status.folder / "hangs"
        error = TimeoutError(f"{problem}; stacks in {folder}")
        print(f"jobgen.trainer: error: {error}", file=sys.stderr, flush=True)
        self._status.failed(error, step=self._newest_step())
        folder.mkdir(exist_ok=True)
        name = folder / f"{socket.gethostname()}-rank-{os.environ.get('RANK', '0')}"
        with Path(f"{name}.stacks").open("w") as stream:
            print(problem, file=stream, flush=True)
            faulthandler.dump_traceback(stream, all_threads=True)
        # Torch's record of the last collective operations, where it keeps one.
        if dump := getattr(torch._C._distributed_c10d, "_dump_fr_trace_json", None):
            Path(f"{name}.flight.json").write_bytes(dump())
