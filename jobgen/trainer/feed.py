"""The batches of one rank, made ahead of the steps that need them.

A step's items are cut into equal micro-batches, and these are dealt to the ranks: as many to each,
or as unequal as `--shares` says. Which items are in a micro-batch does not depend on who runs it.
"""

import itertools
import time
from collections import deque
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
    """Divide a step's items; TrainerError when a rank would get none.

    Micro-batches are as large as --micro-batch and the ranks' shares allow; with --reduce exact the
    ranks have no say, as they must not change what is computed.
    """
    shares = config.shares or [1] * ranks
    if len(shares) != ranks:
        raise TrainerError(f"--shares has {len(shares)} numbers for {ranks} ranks")
    most = min(config.micro_batch, items)
    if config.reduce != "exact":
        most = min(most, max(1, items // sum(shares)))
    size = next(size for size in range(most, 0, -1) if items % size == 0)
    count = items // size
    ends = [sum(shares[:rank]) * count // sum(shares) for rank in range(ranks + 1)]
    counts = [ends[rank + 1] - ends[rank] for rank in range(ranks)]
    if not all(counts):
        what = "make --shares more alike" if config.shares else "lower the number of processes"
        if items >= ranks and size > 1:
            what = "lower --micro-batch"
        raise TrainerError(
            f"a step of {items} items is {count} micro-batches of {size}, too few for {ranks} "
            f"ranks; {what}, or raise the batch"
        )
    return Deal(items, size, counts)


class Feed:
    """This rank's micro-batches, one after another, from a place in the data on."""

    def __init__(
        self, task: Task, config: Config, dealt: Deal, *, rank: int, device: torch.device
    ) -> None:
        self.task, self.seed, self.device = task, config.seed, device
        self.deal, self.own = dealt, dealt.of(rank)
        self._waited = 0.0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="data")
        self.move(0)

    def move(self, position: int) -> None:
        """Go on from this place: so many items of the run have been used."""
        steps, size = itertools.count(position, self.deal.items), self.deal.size
        self._firsts = (step + number * size for step in steps for number in self.own)
        self._made = deque(self._order() for _ in range(_AHEAD))

    def take(self) -> Batch:
        """Return the next micro-batch on the rank's device."""
        began = time.perf_counter()
        batch = self._made.popleft().result()
        self._waited += time.perf_counter() - began
        self._made.append(self._order())
        return tuple(part.to(self.device, non_blocking=True) for part in batch)

    def take_wait(self) -> float:
        """Return the seconds spent waiting for data since the last call."""
        waited, self._waited = self._waited, 0.0
        return waited

    def _order(self) -> Future[Batch]:
        return self._thread.submit(self._make, next(self._firsts))

    def _make(self, first: int) -> Batch:
        positions = range(first, first + self.deal.size)
        items = items_at(positions, count=self.task.train_items, seed=self.seed)
        batch = self.task.batch(items, training=True)
        return batch if self.device.type == "cpu" else tuple(part.pin_memory() for part in batch)
