"""Requests to stop early: SIGTERM, SIGUSR1, a file named STOP in the job's folder, the time limit.

A handler only raises a flag. The flags of all ranks are added up with each step's loss, and read a
step later, so that all ranks stop after the same step whichever of them was asked. The time limit
is $JOBGEN_END, else $SLURM_JOB_END_TIME: the end of the job in seconds of Unix time.
"""

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

SIGNALS = (signal.SIGTERM, signal.SIGUSR1)
REASONS = [*(number.name for number in SIGNALS), "STOP file", "time limit"]

_SECONDS_BETWEEN_LOOKS = 1.0
_RESERVE = 5.0  # seconds to end the processes


class StopRequests:
    """Listens for requests between `with` and its end; before and after, signals act as usual.

    `stop_file` and `end` are None on ranks that need not look: one looking rank is enough, and
    thousands would burden a shared file system.
    """

    def __init__(self, stop_file: Path | None, end: float | None = None) -> None:
        self.stop_file, self.end = stop_file, end
        self._next_look, self._asked = 0.0, [0] * 3

    def __enter__(self) -> "StopRequests":
        self._usual = [signal.signal(number, self._raise_flag) for number in SIGNALS]
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in zip(SIGNALS, self._usual, strict=True):
            signal.signal(number, handler)

    def _raise_flag(self, number: int, frame: object) -> None:
        self._asked[SIGNALS.index(signal.Signals(number))] = 1

    def flags(self, *, needed: float = 0.0) -> list[int]:
        """Return a 0 or 1 for each of REASONS, as this rank knows it now.

        The time limit is one when the seconds needed to go on, and end in order, are not left.
        """
        now = time.monotonic()
        if self.stop_file is not None and now >= self._next_look:
            self._next_look = now + _SECONDS_BETWEEN_LOOKS
            self._asked[-1] = int(self.stop_file.exists())
        return [*self._asked, int(not self.time_for(needed))]

    def time_for(self, seconds: float) -> bool:
        """Return whether so many seconds are left, and some more to end in order."""
        return self.end is None or time.time() + seconds + _RESERVE < self.end


def get_end_of_job() -> float | None:
    """Return when the scheduler ends the job, Unix time in seconds, if that is known."""
    values = (os.environ.get(name, "") for name in ("JOBGEN_END", "SLURM_JOB_END_TIME"))
    return next((float(value) for value in values if value.isdigit()), None)


def explain_request(flags: Sequence[float]) -> str | None:
    """Return what was asked, given the flags of all ranks added up; None if nothing was."""
    asked = [name for name, count in zip(REASONS, flags, strict=True) if count]
    return " and ".join(asked) or None
