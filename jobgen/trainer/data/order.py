"""Which item comes next.

The position in the data is one integer, the number of items used so far. It and the seed decide
which item comes next: a run continues exactly where it was, at no cost, on any number of ranks, and
no item comes twice in one epoch.
"""

from collections.abc import Iterable

_MASK = (1 << 64) - 1


def list_items(positions: Iterable[int], *, count: int, seed: int) -> list[int]:
    """Return the item, of `count`, at each position of the run; each epoch has its own order."""
    return [permute(at % count, size=count, key=(seed, at // count)) for at in positions]


def spread_evenly(count: int, wanted: int) -> list[int]:
    """Return at most `wanted` of `count` items, evenly over all of them."""
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
