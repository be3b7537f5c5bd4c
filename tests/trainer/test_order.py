"""The order of the items."""

import pytest

from jobgen.trainer.data import order


@pytest.mark.parametrize("size", [1, 2, 3, 64, 65, 1000])
def test_a_permutation_uses_every_number_exactly_once(size: int) -> None:
    assert sorted(order.permute(i, size=size, key=(7, 1)) for i in range(size)) == list(range(size))


def test_an_epoch_has_every_item_once() -> None:
    epoch = order.list_items(range(1000, 2000), count=1000, seed=7)
    assert sorted(epoch) == list(range(1000))


def test_a_validation_is_spread_over_the_data() -> None:
    assert order.spread_evenly(100, 4) == [0, 25, 50, 75]
    assert order.spread_evenly(3, 99) == [0, 1, 2]


def test_the_order_depends_on_seed_and_epoch_and_is_shuffled() -> None:
    def epoch_of(epoch: int, seed: int) -> list[int]:
        return order.list_items(range(1000 * epoch, 1000 * (epoch + 1)), count=1000, seed=seed)

    assert epoch_of(0, 0) != epoch_of(1, 0)
    assert epoch_of(0, 0) != epoch_of(0, 1)
    assert epoch_of(0, 0) == epoch_of(0, 0)
    near = sum(abs(a - b) < 10 for a, b in zip(epoch_of(0, 0), epoch_of(0, 0)[1:], strict=False))
    assert near < 60  # by chance about 19 of 999 neighbours are that close
