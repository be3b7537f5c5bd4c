"""The order of the items."""

import pytest

from jobgen.trainer.data import order


@pytest.mark.parametrize("size", [1, 2, 3, 64, 65, 1000])
def test_a_permutation_uses_every_number_exactly_once(size: int) -> None:
    assert sorted(order.permute(i, size=size, key=(7, 1)) for i in range(size)) == list(range(size))


def test_an_epoch_has_every_item_once() -> None:
    epoch = order.list_items(range(1000, 2000), parts=[(1000, 1)], seed=7)
    assert sorted(epoch) == list(range(1000))


def test_a_validation_is_spread_over_the_data() -> None:
    assert order.spread_evenly(100, 4) == [0, 25, 50, 75]
    assert order.spread_evenly(3, 99) == [0, 1, 2]


def test_the_order_depends_on_seed_and_epoch_and_is_shuffled() -> None:
    def epoch_of(epoch: int, seed: int) -> list[int]:
        return order.list_items(
            range(1000 * epoch, 1000 * (epoch + 1)), parts=[(1000, 1)], seed=seed
        )

    assert epoch_of(0, 0) != epoch_of(1, 0)
    assert epoch_of(0, 0) != epoch_of(0, 1)
    assert epoch_of(0, 0) == epoch_of(0, 0)
    near = sum(abs(a - b) < 10 for a, b in zip(epoch_of(0, 0), epoch_of(0, 0)[1:], strict=False))
    assert near < 60  # by chance about 19 of 999 neighbours are that close


def test_a_mixture_draws_from_its_parts_in_proportion_and_each_has_its_own_epochs() -> None:
    """Against counting: of every ten items, seven, two and one; within a part, epoch by epoch."""
    parts = [(50, 7), (1000, 2), (3, 1)]
    items = order.list_items(range(1000), parts=parts, seed=3)
    first, second, third = (
        [item - start for item in items if start <= item < start + count]
        for start, (count, _) in zip((0, 50, 1050), parts, strict=True)
    )
    assert [len(first), len(second), len(third)] == [700, 200, 100]
    for block in range(0, 1000, 10):
        assert sum(item < 50 for item in items[block : block + 10]) == 7
    for epoch in range(14):
        # A block may take a part's items in any order: an epoch is whole but for a block's seven.
        assert len(set(first[50 * epoch : 50 * epoch + 50])) >= 43
    assert sorted(set(first)) == list(range(50))
    assert len(set(second)) == 200, "no item twice before all were used"
    assert order.list_items(range(400, 500), parts=parts, seed=3) == items[400:500]
    assert order.list_items(range(1000), parts=parts, seed=4) != items
