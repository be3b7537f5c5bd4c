"""How a step is split to ranks, and what each of them is fed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from late import import_late

from jobgen.trainer.config import Config, TrainerError
from jobgen.trainer.data.order import list_items
from jobgen.trainer.data.split import split_batch
from jobgen.trainer.flags import parse_flags
from jobgen.trainer.tasks import Task

if TYPE_CHECKING:
    import torch

    from jobgen.trainer.data.feed import Feed, move_batch, pin_batch

__all__ = ["import_late"]


def config(*flags: str) -> Config:
    return parse_flags([*flags])


@pytest.mark.parametrize("items", [24, 25, 127])
@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 7, 24])
def test_ranks_get_every_item_once_in_pieces_as_alike_as_can_be(ranks: int, items: int) -> None:
    split = split_batch(config("--micro-batch", "5"), items, ranks)
    pieces = [piece for own in split.micro_batches for piece in own]
    assert [item for piece in pieces for item in piece] == list(range(items))
    shares = [sum(map(len, own)) for own in split.micro_batches]
    assert max(shares) - min(shares) <= 1
    assert split.sizes[0] <= 5
    assert split.sizes[0] - split.sizes[-1] <= 1
    assert len(set(split.counts)) == 1, "layers that are sharded need as many calls on each rank"
    assert bool(split.explain_unevenness()) == (len(split.sizes) > 1)


def test_a_batch_with_an_awkward_number_of_items_is_cut_into_large_pieces_and_says_so() -> None:
    split = split_batch(config("--micro-batch", "64"), 127, 1)
    assert (split.counts, split.sizes) == ([2], [64, 63])
    assert "127 items do not divide evenly: 2 micro-batches of 64 or 63" in str(
        split.explain_unevenness()
    )
    six = split_batch(config(), 512, 6)
    assert [sum(map(len, own)) for own in six.micro_batches] == [85, 85, 86, 85, 85, 86]
    assert six.counts == [3] * 6


def test_a_rank_without_work_is_refused_with_what_to_do() -> None:
    with pytest.raises(TrainerError, match="too small for 3 ranks; lower the number of processes"):
        split_batch(config(), 2, 3)


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
    settings = config("--micro-batch", "2")
    cpu = torch.device("cpu")

    def steps(ranks: int, count: int, start: int = 0) -> list[list[int]]:
        split = split_batch(settings, 12, ranks)
        feeds = [Feed(Numbers(), settings, split, rank=rank, device=cpu) for rank in range(ranks)]
        for feed in feeds:
            feed.seek(start)
        return [
            [
                int(item)
                for rank, feed in enumerate(feeds)
                for _ in split.micro_batches[rank]
                for item in feed.take_batch()[0][0]
            ]
            for _ in range(count)
        ]

    alone = steps(1, 20)
    assert steps(5, 20) == alone, "two or three items a rank"
    assert steps(5, 5, start=36) == alone[3:8]
    epoch = [item for step in alone for item in step][:100]
    assert sorted(epoch) == list(range(100))


@given(
    items=st.integers(1, 40),
    most=st.integers(1, 9),
    start=st.integers(0, 250),
    seed=st.integers(0, 5),
    ranks=st.integers(1, 6),
)
def test_the_order_of_items_does_not_depend_on_who_reads_them(
    items: int, most: int, start: int, seed: int, ranks: int
) -> None:
    """Whatever the ranks, the micro-batch and the place at which they begin."""
    own = config("--micro-batch", str(most), "--seed", str(seed))
    try:
        split = split_batch(own, items, ranks)
    except TrainerError:
        assume(False)
    read = []
    for rank in range(ranks):
        feed = Feed(Numbers(), own, split, rank=rank, device=torch.device("cpu"))
        feed.seek(start)
        read += [int(item) for _ in split.micro_batches[rank] for item in feed.take_batch()[0][0]]
    assert read == list_items(range(start, start + items), count=100, seed=seed)


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
