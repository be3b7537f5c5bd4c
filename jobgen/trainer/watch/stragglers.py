"""Ranks that are slow at their own work, and ranks that wait for their data."""

import socket
import statistics
import time
from collections.abc import Sequence
from typing import Any

import torch

from ..distributed.device import get_module
from ..distributed.world import World

# Slow is what takes so many times the median of all ranks, and so many seconds more.
_SLOW, _WORTH = 1.5, 0.5


class Clock:
    """Adds up the seconds that pass in `with` blocks, on the device where there is one."""

    def __init__(self, device: torch.device) -> None:
        self._module = get_module(device)
        self._starts: list[Any] = []
        self._ends: list[Any] = []

    def __enter__(self) -> None:
        self._starts.append(self._now())

    def __exit__(self, *error: object) -> None:
        self._ends.append(self._now())

    def take(self) -> float:
        """Return the seconds since the last call; on a GPU, of what it has done by now."""
        if self._module is None:
            seconds = sum(self._ends) - sum(self._starts)
            self._starts, self._ends = [], []
            return float(seconds)
        count = sum(end.query() for end in self._ends)  # in the order in which they were begun
        pairs = zip(self._starts[:count], self._ends[:count], strict=True)
        seconds = sum(start.elapsed_time(end) for start, end in pairs) / 1000
        del self._starts[:count], self._ends[:count]
        return float(seconds)

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

    @property
    def width(self) -> int:
        """How many numbers the ranks tell each other."""
        return 3 * self._size

    def make_row(self, forward: float, data: float, memory: float) -> list[float]:
        """Return a vector with this rank's numbers at its places, to be added up over ranks."""
        vector = [0.0] * self.width
        vector[self._rank :: self._size] = 0.0 if self._lockstep else forward, data, memory
        return vector

    def find_slow(self, table: Sequence[float], *, steps: int = 1) -> list[str]:
        """Return who is slow, and at what, given the sum of all ranks' vectors."""
        size, shares = self._size, self._shares
        self.steps += steps
        self._sums = [sum(pair) for pair in zip(self._sums, table, strict=False)]
        self._memory = list(table[2 * size :])
        before, self._slow, lines = self._slow, set(), []
        for what, first in (("forward passes", 0), ("waiting for data", size)):
            each = [table[first + rank] / shares[rank] for rank in range(size)]
            usual = statistics.median_low(each)
            for rank, node in enumerate(self.nodes):
                seconds, fair = table[first + rank], usual * shares[rank]
                if seconds > max(_SLOW * fair, fair + _WORTH):
                    self._slow.add((rank, what))
                    if (rank, what) in before:
                        lines.append(
                            f"rank {rank} on {node} is slow: {seconds:.1f} s of {what} since the "
                            f"last line; by the median of {size} ranks it would be {fair:.1f} s"
                        )
        return lines

    def take(self) -> dict[str, Any]:
        """Return each rank's numbers since the last call, as `metrics.jsonl` has them."""
        steps, size = self.steps, self._size
        each = [round(seconds / max(1, steps), 4) for seconds in self._sums]
        self.steps, self._sums = 0, [0.0] * (2 * size)
        return {
            "forward_s": None if self._lockstep else each[:size],
            "data_s": each[size:],
            "mem_gb": [round(held, 4) for held in self._memory],
            "steps": steps,
        }
