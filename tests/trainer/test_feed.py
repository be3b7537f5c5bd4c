"""How a step is dealt to ranks, and what each of them is fed."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="the trainer needs torch")

from jobgen.trainer.config import Config, TrainerError  # noqa: E402
from jobgen.trainer.data.deal import deal_items  # noqa: E402
from jobgen.trainer.data.feed import Feed, move_batch, pin_batch  # noqa: E402
from jobgen.trainer.data.order import list_items  # noqa: E402
from jobgen.trainer.flags import parse_flags  # noqa: E402
from jobgen.trainer.tasks import Task  # noqa: E402


def config(*flags: str) -> Config:
    return parse_flags([*flags])


@pytest.mark.parametrize("items", [24, 25, 127])
@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 7, 24])
def test_ranks_get_every_item_once_in_pieces_as_alike_as_can_be(ranks: int, items: int) -> None:
    deal = deal_items(config("--micro-batch", "5"), items, ranks)
    pieces = [piece for own in deal.micro_batches for piece in own]
    assert [item for piece in pieces for item in piece] == list(range(items))
    assert max(deal.shares) - min(deal.shares) <= 1
    assert deal.sizes[0] <= 5
    assert deal.sizes[0] - deal.sizes[-1] <= 1
    assert len(set(deal.counts)) == 1, "layers that are sharded need as many calls on each rank"
    assert bool(deal.warn()) == (len(deal.sizes) > 1)


def test_a_batch_with_an_awkward_number_of_items_is_cut_into_large_pieces_and_says_so() -> None:
    deal = deal_items(config("--micro-batch", "64"), 127, 1)
    assert (deal.counts, deal.sizes) == ([2], [64, 63])
    assert "127 items do not divide evenly: 2 micro-batches of 64 or 63" in str(deal.warn())
    six = deal_items(config(), 512, 6)
    assert six.shares == [85, 85, 86, 85, 85, 86]
    assert six.counts == [3] * 6


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
    own = config("--micro-batch", "2", "--reduce", "exact", *flags)
    for items, sizes in ((24, [2]), (23, [2, 1])):
        deal = deal_items(own, items, ranks)
        assert (deal.sizes, deal.counts) == (sizes, counts)
        alone = deal_items(config("--micro-batch", "2", "--reduce", "exact"), items, 1)
        assert [piece for own in deal.micro_batches for piece in own] == alone.micro_batches[0]


@pytest.mark.parametrize(
    ("shares", "items", "own", "counts"),
    [("1:2", 96, [32, 64], [1, 2]), ("10:2", 24, [20, 4], [1, 1]), ("1:2", 64, [21, 43], [1, 2])],
)
def test_shares_are_of_items(shares: str, items: int, own: list[int], counts: list[int]) -> None:
    deal = deal_items(config("--shares", shares), items, len(counts))
    assert (deal.shares, deal.counts) == (own, counts)


@pytest.mark.parametrize(
    ("flags", "items", "ranks", "message"),
    [
        ((), 2, 3, "a step of 2 items is too little for 3 ranks; lower the number of processes"),
        (("--reduce", "exact"), 24, 2, "24 items in 1 micro-batches is too little for 2 ranks; lo"),
        (("--shares", "1:2"), 24, 3, "--shares has 2 numbers for 3 ranks"),
        (("--shares", "1:99"), 24, 2, "is too little for 2 ranks; make --shares more alike"),
    ],
)
def test_a_rank_without_work_is_refused_with_what_to_do(
    flags: tuple[str, ...], items: int, ranks: int, message: str
) -> None:
    with pytest.raises(TrainerError) as caught:
        deal_items(config(*flags), items, ranks)
    assert message in str(caught.value)


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
        dealt = deal_items(shares, 12, ranks)
        feeds = [Feed(Numbers(), shares, dealt, rank=rank, device=cpu) for rank in range(ranks)]
        for feed in feeds:
            feed.move(start)
        return [
            [
                int(item)
                for rank, feed in enumerate(feeds)
                for _ in dealt.micro_batches[rank]
                for item in feed.take_batch()[0][0]
            ]
            for _ in range(count)
        ]

    alone = steps(config("--micro-batch", "2", "--reduce", "exact"), 1, 20)
    assert steps(uneven, 3, 20) == alone
    assert steps(uneven, 3, 5, start=36) == alone[3:8]
    epoch = [item for step in alone for item in step][:100]
    assert sorted(epoch) == list(range(100))


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
        dealt = deal_items(own, items, len(shares))
    except TrainerError:
        assume(False)
    read = []
    for rank in range(len(shares)):
        feed = Feed(Numbers(), own, dealt, rank=rank, device=torch.device("cpu"))
        feed.move(start)
        read += [int(item) for _ in dealt.micro_batches[rank] for item in feed.take_batch()[0][0]]
    assert read == list_items(range(start, start + items), parts=[(100, 1)], seed=seed)


def test_a_batch_may_be_of_tuples_lists_and_dicts_and_is_pinned_in_one_piece(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A strided tensor would be copied to a GPU by way of unpinned memory."""
    pinned: list[torch.Tensor] = []

    def pin(tensor: torch.Tensor) -> torch.Tensor:
        pinned.append(tensor)
        return tensor

    monkeypatch.setattr(torch.Tensor, "pin_memory", pin)
    whole = torch.arange(12).view(3, 4)
    batch = {"inputs": whole[:, :-1], "more": [whole[:, 1:], (whole.t(),)], "name": "kept"}
    again = pin_batch(batch)
    assert len(pinned) == 3
    assert all(tensor.is_contiguous() for tensor in pinned)
    assert torch.equal(again["more"][1][0], whole.t())
    assert again["name"] == "kept"
    assert torch.equal(move_batch(batch, torch.device("cpu"))["inputs"], whole[:, :-1])
