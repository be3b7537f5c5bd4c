"""The batches of one rank, made ahead of the steps that need them."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor

from ..config import Config
from ..tasks import Task
from .order import list_items
from .split import BatchSplit

# Micro-batches that are requested at once, while as many are ready. To wake the thread for each
# would cost more than to make it, if an item is a window of a text.
_AT_ONCE = 4


def map_tensors(work: Callable[[Tensor], Tensor], batch: Any) -> Any:
    """Return the batch with each of its tensors changed; it may be of tuples, lists and dicts."""
    if isinstance(batch, Tensor):
        return work(batch)
    if isinstance(batch, dict):
        return {name: map_tensors(work, part) for name, part in batch.items()}
    if isinstance(batch, tuple | list):
        return type(batch)(map_tensors(work, part) for part in batch)
    return batch


def move_batch(batch: Any, device: torch.device) -> Any:
    """Return the batch on a device; a copy from pinned memory does not hold up the host."""
    return map_tensors(lambda tensor: tensor.to(device, non_blocking=True), batch)


def pin_batch(batch: Any) -> Any:
    """Return the batch in pinned memory.

    Contiguous: a strided tensor would be copied by way of unpinned memory, and the host would wait.
    """
    return map_tensors(lambda tensor: tensor.contiguous().pin_memory(), batch)


class Feed:
    """This rank's micro-batches, one after another, from a position in the data on."""

    def __init__(
        self, task: Task, config: Config, split: BatchSplit, *, rank: int, device: torch.device
    ) -> None:
        self.task, self.seed, self.device = task, config.seed, device
        self.items, self.own = split.items, split.micro_batches[rank]
        self._waited = 0.0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="data")
        self.seek(0)

    def seek(self, position: int) -> None:
        """Go on from this position: so many items of the run have been used."""
        self._positions = self._list_micro_batches(position)
        self._requested: deque[Future[tuple[Any, int]]] = deque()
        self._request()

    def take_batch(self) -> tuple[Any, int]:
        """Return the next micro-batch on the device, and how many units it has."""
        if len(self._requested) == _AT_ONCE:
            self._request()
        began = time.perf_counter()
        batch, units = self._requested.popleft().result()
        self._waited += time.perf_counter() - began
        return (batch if self.device.type == "cpu" else move_batch(batch, self.device)), units

    def take_wait(self) -> float:
        """Return the seconds spent waiting for data since the last call."""
        waited, self._waited = self._waited, 0.0
        return waited

    def _list_micro_batches(self, step: int) -> Iterator[range]:
        """Yield the positions of each micro-batch, from that of a step's first item on."""
        while True:
            yield from (range(step + each.start, step + each.stop) for each in self.own)
            step += self.items

    def _request(self) -> None:
        futures: list[Future[tuple[Any, int]]] = [Future() for _ in range(_AT_ONCE)]
        self._thread.submit(self._make_all, self._positions, futures)
        self._requested.extend(futures)

    def _make_all(self, positions: Iterator[range], futures: list[Future[tuple[Any, int]]]) -> None:
        """Make one after another, each to be used as soon as it is ready."""
        for future in futures:
            try:
                future.set_result(self._make(next(positions)))
            except BaseException as error:
                future.set_exception(error)

    def _make(self, positions: range) -> tuple[Any, int]:
        items = list_items(positions, count=self.task.train_items, seed=self.seed)
        batch = self.task.batch(items, training=True)
        units = len(items) * self.task.units_per_item
        if self.task.counted:
            units = self.task.count_units(batch)
        return (batch if self.device.type == "cpu" else pin_batch(batch)), units
