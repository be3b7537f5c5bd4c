"""What goes wrong without an error: a rank that hangs, and one that is slow."""

import faulthandler
import os
import socket
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import torch

from .parallel import World
from .status import Status

# Slow is what takes so many times the median of all ranks, and so many seconds more.
_SLOW, _WORTH = 1.5, 0.5


class Watchdog:
    """Ends the process, its stacks written to the run folder, when it has not moved for long.

    Other ranks wait for one that hangs inside their collective operations, where nothing but
    a thread of their own can act; every rank leaves its stacks, so that the odd one can be found.
    """

    def __init__(self, seconds: float, status: Status, newest_step: Callable[[], int]) -> None:
        self._seconds = seconds
        self._newest_step = newest_step
        self._status = status
        self._doing = ("starting", time.monotonic())
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True, name="watchdog")

    def __enter__(self) -> "Watchdog":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()

    def begins(self, what: str) -> None:
        """Take note that the process moves: this is what it does next."""
        self._doing = (what, time.monotonic())

    def _watch(self) -> None:
        while not self._ended.wait(min(1.0, self._seconds / 4)):
            what, since = self._doing
            if time.monotonic() - since > self._seconds:
                self._bark(what)

    def _bark(self, what: str) -> None:
        rank = int(os.environ.get("RANK", "0"))
        folder = self._status.folder / "hangs"
        folder.mkdir(exist_ok=True)
        name = folder / f"{socket.gethostname()}-rank-{rank}"
        with Path(f"{name}.stacks").open("w") as stream:
            stream.write(f"no progress for {self._seconds:g} s in: {what}\n")
            faulthandler.dump_traceback(stream, all_threads=True)
        problem = TimeoutError(f"no progress for {self._seconds:g} s in {what}; stacks in {folder}")
        self._status.failed(problem, step=self._newest_step())
        print(f"jobgen.trainer: error: {problem}", file=sys.stderr, flush=True)
        _flight_record(Path(f"{name}.flight.json"))
        os._exit(1)


def _flight_record(path: Path) -> None:
    """Write torch's record of the last collective operations, where it keeps one."""
    dump = getattr(torch._C._distributed_c10d, "_dump_fr_trace_json", None)
    if dump is not None:
        content = dump()
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


class Clock:
    """Adds up the seconds that pass in `with` blocks, on the device where there is one."""

    def __init__(self, device: torch.device) -> None:
        self._module = None if device.type == "cpu" else getattr(torch, device.type)
        self._marks: list[Any] = []

    def __enter__(self) -> None:
        self._marks.append(self._now())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._marks.append(self._now())

    def take(self) -> float:
        """Return the seconds since the last call."""
        pairs = list(zip(self._marks[::2], self._marks[1::2], strict=True))
        self._marks.clear()
        if self._module is None:
            return float(sum(end - start for start, end in pairs))
        self._module.synchronize()
        return float(sum(start.elapsed_time(end) for start, end in pairs)) / 1000

    def _now(self) -> Any:
        if self._module is None:
            return time.perf_counter()
        mark = self._module.Event(enable_timing=True)
        mark.record()
        return mark


class Stragglers:
    """Names ranks that need longer for their own work than others, two lines of the log in a row.

    Where layers are sharded, a forward pass waits for other ranks, so that only data can tell.
    """

    def __init__(self, world: World, shares: Sequence[int], *, lockstep: bool) -> None:
        self._world = world
        self._shares = shares
        self._lockstep = lockstep
        self._nodes = world.gather(socket.gethostname())
        self._before: set[tuple[int, str]] = set()

    def mine(self, model: float, data: float) -> list[float]:
        """Return a vector with this rank's seconds at its place, to be added up over ranks."""
        rank, size = self._world.rank, self._world.size
        vector = [0.0] * (2 * size)
        vector[rank], vector[size + rank] = 0.0 if self._lockstep else model, data
        return vector

    def find(self, table: Sequence[float]) -> list[str]:
        """Return who is slow, and at what, given the sum of all ranks' vectors."""
        size = self._world.size
        now: dict[tuple[int, str], str] = {}
        for what, seconds in (("forward passes", table[:size]), ("waiting for data", table[size:])):
            each = [value / share for value, share in zip(seconds, self._shares, strict=True)]
            usual = statistics.median_low(each)
            for rank, node in enumerate(self._nodes):
                fair = usual * self._shares[rank]
                if seconds[rank] > max(_SLOW * fair, fair + _WORTH):
                    now[rank, what] = (
                        f"rank {rank} on {node} is slow: {seconds[rank]:.1f} s of {what} since "
                        f"the last line; by the median of {size} ranks it would be {fair:.1f} s"
                    )
        said = [text for key, text in now.items() if key in self._before]
        self._before = set(now)
        return said
