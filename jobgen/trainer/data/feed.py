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
from .deal import Deal
from .order import list_items

# Micro-batches that are ordered at once, while as many are there to be used. To wake the thread for
# each would cost more than to make it, where an item is a window of a text.
_AT_ONCE = 4

# Of one micro-batch after another: the places of its items in the run and, with a step's first
# one, those of all items of the step.
Places = Iterator[tuple[range, range | None]]


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

    Contiguous: a strided tensor is copied to the GPU by way of unpinned memory, for which the host
    waits.
    """
    return map_tensors(lambda tensor: tensor.contiguous().pin_memory(), batch)


class Feed:
    """This rank's micro-batches, one after another, from a place in the data on."""

    def __init__(
        self, task: Task, config: Config, dealt: Deal, *, rank: int, device: torch.device
    ) -> None:
        self.task, self.seed, self.device = task, config.seed, device
        self.parts = task.parts()
        self.items, self.own = dealt.items, dealt.micro_batches[rank]
        # Most tasks count what an item holds; only then is it known without looking at the items.
        self._fixed_units = not task.counted
        self._units, self._waited = dealt.items * task.units_per_item, 0.0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="data")
        self.move(0)

    def move(self, position: int) -> None:
        """Go on from this place: so many items of the run have been used."""
        self._places = self._list_micro_batches(position)
        self._ordered: deque[Future[tuple[Any, int | None]]] = deque()
        self._order()

    def take_batch(self) -> tuple[Any, int]:
        """Return the next micro-batch on the rank's device, and the units of its step on all."""
        if len(self._ordered) == _AT_ONCE:
            self._order()
        began = time.perf_counter()
        batch, units = self._ordered.popleft().result()
        self._waited += time.perf_counter() - began
        self._units = units or self._units
        return (batch if self.device.type == "cpu" else move_batch(batch, self.device)), self._units

    def take_wait(self) -> float:
        """Return the seconds spent waiting for data since the last call."""
        waited, self._waited = self._waited, 0.0
        return waited

    def _list_micro_batches(self, step: int) -> Places:
        """Yield the places of each micro-batch, from that of a step's first item on."""
        while True:
            for number, each in enumerate(self.own):
                whole = range(step, step + self.items) if number == 0 else None
                yield range(step + each.start, step + each.stop), whole
            step += self.items

    def _order(self) -> None:
        futures: list[Future[tuple[Any, int | None]]] = [Future() for _ in range(_AT_ONCE)]
        self._thread.submit(self._make_all, self._places, futures)
        self._ordered.extend(futures)

    def _make_all(self, places: Places, futures: list[Future[tuple[Any, int | None]]]) -> None:
        """Make one after another, each to be used as soon as it is there."""
        for future in futures:
            try:
                future.set_result(self._make(*next(places)))
            except BaseException as error:
                future.set_exception(error)

    def _make(self, places: range, step: range | None) -> tuple[Any, int | None]:
        batch = self.task.batch(self._list_items(places), training=True)
        if self.device.type != "cpu":
            batch = pin_batch(batch)
        if self._fixed_units or step is None:
            return batch, None
        return batch, self.task.count_units(self._list_items(step), training=True)

    def _list_items(self, places: range) -> list[int]:
        return list_items(places, parts=self.parts, seed=self.seed)
