"""The batches of one rank, made ahead of the steps that need them.

A step's items are cut into equal micro-batches, and these are dealt to the ranks: as many to each,
or as unequal as `--shares` says. Which items are in a micro-batch does not depend on who runs it.
"""

import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import torch
from torch import Tensor

from .config import Config, TrainerError
from .order import items_at
from .tasks import Task

_AHEAD = 2

Batch = tuple[Tensor, ...]


class Deal(NamedTuple):
    """How the items of a step are divided."""

    items: int  # in a step
    size: int  # items of a micro-batch
    counts: list[int]  # micro-batches of each rank

    def of(self, rank: int) -> range:
        """Return the numbers of the rank's micro-batches within a step."""
        first = sum(self.counts[:rank])
        return range(first, first + self.counts[rank])


def deal(config: Config, items: int, ranks: int) -> Deal:
    """Divide a step's items.

    Micro-batches are as large as --micro-batch and the number of ranks allow; with --reduce exact
    the number of ranks has no say, as it must not change what is computed.

    Raises TrainerError when a rank would get none.
    """
    most = config.micro_batch
    if config.reduce != "exact":
        most = min(most, max(1, items // ranks))
    size = next(size for size in range(min(most, items), 0, -1) if items % size == 0)
    count = items // size
    shares = config.shares or [1] * ranks
    if len(shares) != ranks:
        raise TrainerError(f"--shares has {len(shares)} numbers for {ranks} ranks")
    ends = [sum(shares[: rank + 1]) * count // sum(shares) for rank in range(ranks)]
    counts = [end - start for start, end in zip([0, *ends], ends, strict=False)]
    if not all(counts):
        what = "--micro-batch" if items >= ranks and size > 1 else "the number of processes"
        raise TrainerError(
            f"a step of {items} items is {count} micro-batches of {size}, too few for {ranks} "
            f"ranks; lower {what}, or raise the batch"
        )
    return Deal(items, size, counts)


class Feed:
    """This rank's micro-batches, one after another, from a place in the data on."""

    def __init__(
        self, task: Task, config: Config, dealt: Deal, *, rank: int, device: torch.device
    ) -> None:
        self.task = task
        self.seed = config.seed
        self.deal = dealt
        self.own = dealt.of(rank)
        self.device = device
        self.waited = 0.0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="data")
        self._made: deque[Future[Batch]] = deque()
        self.move(0)

    def move(self, position: int) -> None:
        """Go on from this place: so many items of the run have been used."""
        self._made.clear()
        self._next = (position, 0)
        for _ in range(_AHEAD):
            self._order()

    def take(self) -> Batch:
        """Return the next micro-batch on the rank's device."""
        began = time.perf_counter()
        batch = self._made.popleft().result()
        self.waited += time.perf_counter() - began
        self._order()
        return tuple(part.to(self.device, non_blocking=True) for part in batch)

    def take_wait(self) -> float:
        """Return the seconds spent waiting for data since the last call."""
        waited, self.waited = self.waited, 0.0
        return waited

    def _order(self) -> None:
        position, turn = self._next
        first = position + self.own[turn] * self.deal.size
        self._made.append(self._thread.submit(self._make, range(first, first + self.deal.size)))
        turn += 1
        done = turn == len(self.own)
        self._next = (position + self.deal.items, 0) if done else (position, turn)

    def _make(self, positions: Sequence[int]) -> Batch:
        items = items_at(positions, count=self.task.train_items, seed=self.seed)
        batch = self.task.batch(items, training=True)
        if self.device.type == "cpu":
            return batch
        return tuple(part.pin_memory() for part in batch)
