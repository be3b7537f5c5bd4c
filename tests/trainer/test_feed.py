"""How a step is dealt to ranks, and what each of them is fed."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="the trainer needs torch")

from jobgen.trainer.config import Config, TrainerError  # noqa: E402
from jobgen.trainer.feed import Feed, deal  # noqa: E402
from jobgen.trainer.flags import parse_flags  # noqa: E402
from jobgen.trainer.order import items_at  # noqa: E402
from jobgen.trainer.tasks import Task  # noqa: E402


def config(*flags: str) -> Config:
    return parse_flags([*flags])


@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 7, 24])
def test_ranks_get_every_item_once_in_equal_pieces(ranks: int) -> None:
    dealt = deal(config("--micro-batch", "5"), 24, ranks)
    numbers = [number for rank in range(ranks) for number in dealt.of(rank)]
    assert numbers == list(range(24 // dealt.size))
    assert dealt.size <= 5
    assert max(dealt.counts) - min(dealt.counts) <= 1


@pytest.mark.parametrize(
    ("flags", "ranks", "counts"),
    [
        (("--shares", "10:2"), 2, [10, 2]),
        (("--shares", "2:4:6"), 3, [2, 4, 6]),
        (("--shares", "1:2:3"), 3, [2, 4, 6]),
        ((), 4, [3, 3, 3, 3]),
        ((), 5, [2, 2, 3, 2, 3]),
    ],
)
def test_with_exact_sums_the_number_of_ranks_does_not_change_the_pieces(
    flags: tuple[str, ...], ranks: int, counts: list[int]
) -> None:
    dealt = deal(config("--micro-batch", "2", "--reduce", "exact", *flags), 24, ranks)
    assert (dealt.size, dealt.counts) == (2, counts)


@pytest.mark.parametrize(
    ("shares", "items", "size", "counts"),
    [("1:2", 96, 32, [1, 2]), ("10:2", 24, 2, [10, 2]), ("1:2", 64, 16, [1, 3])],
)
def test_pieces_are_small_enough_for_the_shares(
    shares: str, items: int, size: int, counts: list[int]
) -> None:
    dealt = deal(config("--shares", shares), items, len(counts))
    assert (dealt.size, dealt.counts) == (size, counts)


@pytest.mark.parametrize(
    ("flags", "items", "ranks", "said"),
    [
        ((), 2, 3, "2 micro-batches of 1, too few for 3 ranks; lower the number of processes"),
        (("--reduce", "exact"), 24, 2, "1 micro-batches of 24, too few for 2 ranks; lower --micro"),
        (("--shares", "1:2"), 24, 3, "--shares has 2 numbers for 3 ranks"),
        (("--shares", "1:99"), 24, 2, "24 micro-batches of 1, too few for 2 ranks; make --shares"),
    ],
)
def test_a_rank_without_work_is_refused_with_what_to_do(
    flags: tuple[str, ...], items: int, ranks: int, said: str
) -> None:
    with pytest.raises(TrainerError) as caught:
        deal(config(*flags), items, ranks)
    assert said in str(caught.value)


class Numbers(Task):
    """Items that are their own numbers."""

    unit = "samples"
    units_per_item = 1
    train_items = 100
    val_items = 1

    def batch(self, items: object, *, training: bool) -> tuple[torch.Tensor, ...]:
        assert training
        return (torch.tensor(items),)


def test_together_the_ranks_see_what_one_would_and_go_on_from_any_place() -> None:
    uneven = config("--micro-batch", "2", "--reduce", "exact", "--shares", "1:2:3")
    cpu = torch.device("cpu")

    def steps(shares: Config, ranks: int, count: int, start: int = 0) -> list[list[int]]:
        dealt = deal(shares, 12, ranks)
        feeds = [Feed(Numbers(), shares, dealt, rank=rank, device=cpu) for rank in range(ranks)]
        for feed in feeds:
            feed.move(start)
        return [
            [
                int(item)
                for rank, feed in enumerate(feeds)
                for _ in dealt.of(rank)
                for item in feed.take()[0]
            ]
            for _ in range(count)
        ]

    alone = steps(config("--micro-batch", "2", "--reduce", "exact"), 1, 20)
    assert steps(uneven, 3, 20) == alone
    assert steps(uneven, 3, 5, start=36) == alone[3:8]
    epoch = [item for step in alone for item in step][:100]
    assert sorted(epoch) == list(range(100))


@settings(max_examples=60, deadline=None)
@given(
    items=st.integers(1, 40),
    most=st.integers(1, 9),
    start=st.integers(0, 250),
    seed=st.integers(0, 5),
    shares=st.lists(st.integers(1, 5), min_size=1, max_size=6),
    exact=st.booleans(),
)
def test_the_order_of_items_does_not_depend_on_who_reads_them(
    items: int, most: int, start: int, seed: int, shares: list[int], exact: bool
) -> None:
    """Whatever the ranks, their shares, the micro-batch and the place at which they begin."""
    flags = ["--micro-batch", str(most), "--seed", str(seed)]
    flags += ["--shares", ":".join(map(str, shares)), "--reduce", "exact" if exact else "fast"]
    own = config(*flags)
    try:
        dealt = deal(own, items, len(shares))
    except TrainerError:
        assume(False)
    read = []
    for rank in range(len(shares)):
        feed = Feed(Numbers(), own, dealt, rank=rank, device=torch.device("cpu"))
        feed.move(start)
        read += [int(item) for _ in dealt.of(rank) for item in feed.take()[0]]
    assert read == items_at(range(start, start + items), count=100, seed=seed)
