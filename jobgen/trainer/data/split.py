"""How the items of a step are split over the ranks, and into micro-batches.

Each rank has its share of a step's items, and runs them in micro-batches of at most
`--micro-batch`; shares and micro-batches are as alike in size as they can be.
"""

import math
from itertools import pairwise
from typing import NamedTuple

from ..config import Config, TrainerError


class BatchSplit(NamedTuple):
    """How the items of a step are split; ranges are of items, counted from the step's first."""

    items: int  # in a step
    micro_batches: list[list[range]]  # of each rank

    @property
    def counts(self) -> list[int]:
        """How many micro-batches each rank has."""
        return [len(own) for own in self.micro_batches]

    @property
    def sizes(self) -> list[int]:
        """The sizes of micro-batches, the largest first."""
        return sorted({len(each) for own in self.micro_batches for each in own}, reverse=True)

    def __str__(self) -> str:
        """Say what each rank runs in a step."""
        sizes = " or ".join(map(str, self.sizes))
        if len(set(self.counts)) == 1:
            return f"{self.counts[0]} micro-batches of {sizes} on each of {len(self.counts)} ranks"
        return f"{':'.join(map(str, self.counts))} micro-batches of {sizes} by rank"

    def explain_unevenness(self) -> str | None:
        """Return a line about a batch that does not divide evenly; None if it does."""
        if len(self.sizes) == 1:
            return None
        return f"note: {self.items} items do not divide evenly: {self}; one that does is faster"


def split_batch(config: Config, items: int, ranks: int) -> BatchSplit:
    """Split a step's items; TrainerError if a rank would get none."""
    ends = [part * items // ranks for part in range(ranks + 1)]
    # All ranks run equally often: where layers are sharded, they must.
    often = math.ceil(math.ceil(items / ranks) / config.micro_batch)
    split = [_cut(range(first, end), often) for first, end in pairwise(ends)]
    if not all(split):
        raise TrainerError(
            f"a step of {items} items is too small for {ranks} ranks; lower the number of "
            f"processes, or raise the batch"
        )
    return BatchSplit(items, split)


def _cut(own: range, parts: int) -> list[range]:
    """Cut a range into parts whose sizes differ by at most one; an empty range into none."""
    parts = min(parts, len(own))
    ends = [own.start + part * len(own) // parts for part in range(parts + 1)] if parts else []
    return [range(first, end) for first, end in pairwise(ends)]
