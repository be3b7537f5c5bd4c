"""Which item comes next.

The place in the data is one integer, the number of items used so far: it and the seed decide which
item comes next. So a run continues exactly where it was, at no cost, on any number of ranks, and no
item comes twice in one epoch.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

_MASK = (1 << 64) - 1


def list_items(
    positions: Iterable[int], *, parts: Sequence[tuple[int, int]], seed: int
) -> list[int]:
    """Return the item at each position of the run.

    `parts` are pairs of a number of items and a weight; items are numbered through all parts. Of
    each block of as many positions as the weights add up to, a part has as many as its weight, in
    an order drawn anew for each block; within a part, each epoch has an order of its own.
    """
    if len(parts) == 1:
        count = parts[0][0]
        return [permute(at % count, size=count, key=(seed, at // count)) for at in positions]
    return list(_mix_items(positions, parts, seed))


def _mix_items(
    positions: Iterable[int], parts: Sequence[tuple[int, int]], seed: int
) -> Iterator[int]:
    firsts = [0, *accumulate(count for count, _ in parts)]
    bounds = [0, *accumulate(weight for _, weight in parts)]
    block_size = bounds[-1]
    owners = [part for part, (_, weight) in enumerate(parts) for _ in range(weight)]
    for position in positions:
        block, place = divmod(position, block_size)
        slot = permute(place, size=block_size, key=(mix(seed, 1), block))
        part = owners[slot]
        count, weight = parts[part]
        at = block * weight + slot - bounds[part]
        yield firsts[part] + permute(at % count, size=count, key=(mix(seed, part), at // count))


def spread_evenly(count: int, wanted: int) -> list[int]:
    """Return at most `wanted` of so many items, evenly over all of them."""
    wanted = min(wanted, count)
    return [i * count // wanted for i in range(wanted)]


def permute(index: int, *, size: int, key: tuple[int, int]) -> int:
    """Return where a pseudo-random permutation of range(size), chosen by key, sends index.

    A Feistel network over the next power of four, walked until it lands below size (Black and
    Rogaway, Ciphers with Arbitrary Finite Domains, CT-RSA 2002): no table to build or to keep,
    and the same order in every version of torch.
    """
    half = max(1, ((size - 1).bit_length() + 1) // 2)
    mask = (1 << half) - 1
    start = mix(*key)
    while True:
        left, right = index >> half, index & mask
        for turn in range(4):
            left, right = right, left ^ (_scramble(start ^ (turn << 58) ^ right) & mask)
        index = (left << half) | right
        if index < size:
            return index


def mix(one: int, other: int) -> int:
    """Return a number of 64 bits that looks drawn at random for each pair."""
    return _scramble(_scramble(one) ^ other)


def _scramble(value: int) -> int:
    """Scramble 64 bits (the finalizer of SplitMix64: Steele, Lea and Flood, OOPSLA 2014)."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)
