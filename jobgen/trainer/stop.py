"""Requests to stop early: SIGTERM, SIGUSR1, or a file named STOP in the job's folder.

A handler only raises a flag. The flags of all ranks are added up inside the all-reduce of each
step, so that all ranks stop after the same step whichever of them was told.
"""

import signal
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType, TracebackType

SIGNALS = (signal.SIGTERM, signal.SIGUSR1)

_SECONDS_BETWEEN_LOOKS = 1.0


class StopRequests:
    """Listens for requests between `with` and its end; before and after, signals act as usual.

    `stop_file` is None on ranks that need not look for it: one looking rank is enough, and
    thousands would burden a shared file system.
    """

    def __init__(self, stop_file: Path | None) -> None:
        self._stop_file = stop_file
        self._next_look = 0.0
        self._flags = [0] * (len(SIGNALS) + 1)
        self._usual: list[signal._HANDLER] = []

    def __enter__(self) -> "StopRequests":
        self._usual = [signal.signal(number, self._raise_flag) for number in SIGNALS]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in zip(SIGNALS, self._usual, strict=True):
            signal.signal(number, handler)

    def _raise_flag(self, number: int, frame: FrameType | None) -> None:
        self._flags[SIGNALS.index(signal.Signals(number))] = 1

    def flags(self) -> list[int]:
        """Return a 0 or 1 for each kind of request, as this rank knows it now."""
        now = time.monotonic()
        if self._stop_file is not None and now >= self._next_look:
            self._next_look = now + _SECONDS_BETWEEN_LOOKS
            self._flags[-1] = int(self._stop_file.exists())
        return list(self._flags)


def reason(flags: Sequence[float]) -> str | None:
    """Return what was asked, given the flags of all ranks added up; None if nothing was."""
    names = [*(number.name for number in SIGNALS), "STOP file"]
    asked = [name for name, count in zip(names, flags, strict=True) if count]
    return " and ".join(asked) or None
