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


class Clock:
    """Adds up the seconds that pass in `with` blocks, on the device where there is one."""

    def __init__(self, device: torch.device) -> None:
        self._module = None if device.type == "cpu" else getattr(torch, device.type)
        self._marks: list[Any] = []

    def __enter__(self) -> None:
        self._marks.append(self._now())

    def __exit__(self, *error: object) -> None:
        self._marks.append(self._now())

    def take(self) -> float:
        """Return the seconds since the last call."""
        starts, ends = self._marks[::2], self._marks[1::2]
        self._marks = []
        if self._module is None:
            return float(sum(ends) - sum(starts))
        self._module.synchronize()
        return sum(map(self._module.Event.elapsed_time, starts, ends), 0.0) / 1000

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
        self.nodes = world.gather(socket.gethostname())
        self._rank, self._size = world.rank, world.size
        self._shares, self._lockstep = shares, lockstep
        self._slow: set[tuple[int, str]] = set()
        self.steps, self._sums, self._memory = 0, [0.0] * (2 * world.size), [0.0] * world.size

    def mine(self, model: float, data: float, memory: float) -> list[float]:
        """Return a vector with this rank's numbers at its places, to be added up over ranks."""
        vector = [0.0] * (3 * self._size)
        vector[self._rank :: self._size] = 0.0 if self._lockstep else model, data, memory
        return vector

    def find(self, table: Sequence[float], *, steps: int = 1) -> list[str]:
        """Return who is slow, and at what, given the sum of all ranks' vectors."""
        size, shares = self._size, self._shares
        self.steps += steps
        self._sums = [sum(pair) for pair in zip(self._sums, table, strict=False)]
        self._memory = list(table[2 * size :])
        before, self._slow, said = self._slow, set(), []
        for what, first in (("forward passes", 0), ("waiting for data", size)):
            each = [table[first + rank] / shares[rank] for rank in range(size)]
            usual = statistics.median_low(each)
            for rank, node in enumerate(self.nodes):
                seconds, fair = table[first + rank], usual * shares[rank]
                if seconds > max(_SLOW * fair, fair + _WORTH):
                    self._slow.add((rank, what))
                    if (rank, what) in before:
                        said.append(
                            f"rank {rank} on {node} is slow: {seconds:.1f} s of {what} since the "
                            f"last line; by the median of {size} ranks it would be {fair:.1f} s"
                        )
        return said

    def take(self) -> dict[str, Any]:
        """Return each rank's numbers since the last call, as `metrics.jsonl` has them."""
        steps, size = self.steps, self._size
        each = [round(seconds / max(1, steps), 4) for seconds in self._sums]
        self.steps, self._sums = 0, [0.0] * (2 * size)
        found = {"forward_s": None if self._lockstep else each[:size], "data_s": each[size:]}
        return found | {"mem_gb": [round(held, 4) for held in self._memory], "steps": steps}
