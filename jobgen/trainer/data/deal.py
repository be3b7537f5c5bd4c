"""How the items of a step are dealt to the ranks, and cut into micro-batches.

Each rank has its share of a step's items, as many as the others or as unequal as `--shares` says,
and runs them in micro-batches of at most `--micro-batch`, as alike in size as they can be.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from ..config import Config, TrainerError


class Deal(NamedTuple):
    """How the items of a step are divided; ranges are of items, counted from the step's first."""

    items: int  # in a step
    micro_batches: list[list[range]]  # of each rank

    @property
    def counts(self) -> list[int]:
        """How many micro-batches each rank has."""
        return [len(own) for own in self.micro_batches]

    @property
    def shares(self) -> list[int]:
        """How many items each rank has."""
        return [sum(map(len, own)) for own in self.micro_batches]

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

    def warn(self) -> str | None:
        """Return a line about a batch that does not divide evenly; None when it does."""
        if len(self.sizes) == 1:
            return None
        return (
            f"note: {self.items} items do not divide evenly: {self}; a batch that does is a little "
            f"faster"
        )


def deal_items(config: Config, items: int, ranks: int) -> Deal:
    """Divide a step's items; TrainerError when a rank would get none.

    With --reduce exact the micro-batches are cut first, so that the ranks do not change what is
    computed; else each rank's items are.
    """
    weights = config.shares or [1] * ranks
    if len(weights) != ranks:
        raise TrainerError(f"--shares has {len(weights)} numbers for {ranks} ranks")
    if config.reduce == "exact":
        cuts = _cut(range(items), -(-items // config.micro_batch))
        dealt = [[cuts[number] for number in own] for own in _share(len(cuts), weights)]
    else:
        shares = _share(items, weights)
        # Ranks with equal shares run equally often: where layers are sharded, they must.
        often = -(-max(map(len, shares)) // config.micro_batch)
        dealt = [
            _cut(own, often if len(set(weights)) == 1 else -(-len(own) // config.micro_batch))
            for own in shares
        ]
    if not all(dealt):
        what = "make --shares more alike" if config.shares else "lower the number of processes"
        if config.reduce == "exact" and items >= ranks and config.micro_batch > 1:
            what = "lower --micro-batch"
        of = f"{items} items"
        if config.reduce == "exact":
            of += f" in {len(cuts)} micro-batches"
        raise TrainerError(f"a step of {of} is too little for {ranks} ranks; {what}, or raise it")
    return Deal(items, dealt)


def _share(count: int, weights: Sequence[int]) -> list[range]:
    """Divide range(count) in proportion to the weights, one part after another."""
    whole = sum(weights)
    ends = [sum(weights[:part]) * count // whole for part in range(len(weights) + 1)]
    return [range(ends[part], ends[part + 1]) for part in range(len(weights))]


def _cut(own: range, parts: int) -> list[range]:
    """Cut a range into so many parts whose sizes differ by one at most; into none when empty."""
    parts = min(parts, len(own))
    ends = [own.start + part * len(own) // parts for part in range(parts + 1)] if parts else []
    return [range(first, end) for first, end in pairwise(ends)]
