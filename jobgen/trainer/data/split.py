"""How the items of a step are split over the ranks, and into micro-batches.

Each rank has its share of a step's items, equal ones or as `--shares` says, and runs them in
micro-batches of at most `--micro-batch`, as alike in size as they can be.
"""

from collections.abc import Sequence
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
    shares = config.shares or [1] * ranks
    if len(shares) != ranks:
        raise TrainerError(f"--shares has {len(shares)} numbers for {ranks} ranks")
    parts = _share(items, shares)
    # Ranks with equal shares run equally often: where layers are sharded, they must.
    often = -(-max(map(len, parts)) // config.micro_batch)
    equal = len(set(shares)) == 1
    split = [_cut(own, often if equal else -(-len(own) // config.micro_batch)) for own in parts]
    if not all(split):
        what = "make --shares more alike" if config.shares else "lower the number of processes"
        raise TrainerError(
            f"a step of {items} items is too small for {ranks} ranks; {what}, or raise the batch"
        )
    return BatchSplit(items, split)


def _share(count: int, weights: Sequence[int]) -> list[range]:
    """Split range(count) in proportion to the weights, one part after another."""
    whole = sum(weights)
    ends = [sum(weights[:part]) * count // whole for part in range(len(weights) + 1)]
    return [range(ends[part], ends[part + 1]) for part in range(len(weights))]


def _cut(own: range, parts: int) -> list[range]:
    """Cut a range into parts whose sizes differ by at most one; an empty range into none."""
    parts = min(parts, len(own))
    ends = [own.start + part * len(own) // parts for part in range(parts + 1)] if parts else []
    return [range(first, end) for first, end in pairwise(ends)]
