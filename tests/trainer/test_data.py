"""The order of the samples, and how they are dealt to ranks."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the trainer needs torch")

from jobgen.trainer import data  # noqa: E402
from jobgen.trainer.config import TrainerError  # noqa: E402


@pytest.mark.parametrize("size", [1, 2, 3, 64, 65, 1000])
def test_a_permutation_uses_every_number_exactly_once(size: int) -> None:
    assert sorted(data.permute(i, size=size, key=(7, 1)) for i in range(size)) == list(range(size))


@pytest.mark.parametrize("windows", [10, 11, 19, 20, 1000])
def test_an_epoch_trains_on_every_window_once_but_those_that_validate(windows: int) -> None:
    count, validating = data.split(windows)
    epoch = data.samples(range(count, 2 * count), count=count, seed=7)
    assert len(validating) == windows // 10
    assert sorted([*epoch, *validating]) == list(range(windows))


def test_a_validation_is_spread_over_the_text() -> None:
    assert data.spread(range(9, 1000, 10), 4) == [9, 259, 509, 759]
    assert data.spread(range(9, 30, 10), 99) == [9, 19, 29]


def test_the_order_depends_on_seed_and_epoch_and_is_shuffled() -> None:
    def order(epoch: int, seed: int) -> list[int]:
        return data.samples(range(1000 * epoch, 1000 * (epoch + 1)), count=1000, seed=seed)

    assert order(0, 0) != order(1, 0)
    assert order(0, 0) != order(0, 1)
    assert order(0, 0) == order(0, 0)
    near = sum(abs(a - b) < 10 for a, b in zip(order(0, 0), order(0, 0)[1:], strict=False))
    assert near < 60  # by chance about 19 of 999 neighbours are that close


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 24])
def test_ranks_get_every_slot_once_in_order_and_almost_equal_shares(size: int) -> None:
    shares = [data.deal(24, rank=rank, size=size) for rank in range(size)]
    assert [slot for share in shares for slot in share] == list(range(24))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_a_rank_without_work_is_refused_with_what_to_do() -> None:
    with pytest.raises(TrainerError, match="2 sequences cannot be dealt to 3 ranks; raise --batch"):
        data.deal(2, rank=0, size=3)


def test_a_batch_is_the_text_and_the_text_one_further(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("über Ж and ß, 𝄞 too. " * 5, encoding="utf-8")
    corpus = data.load_corpus(path)
    inputs, targets = data.batch(corpus.tokens, [2, 0], context=8)
    assert corpus.decode(inputs[0].tolist()) == path.read_text(encoding="utf-8")[16:24]
    assert corpus.decode(targets[1].tolist()) == path.read_text(encoding="utf-8")[1:9]
    assert corpus.decode(corpus.tokens.tolist()) == path.read_text(encoding="utf-8")


def test_the_text_inside_python_needs_no_file() -> None:
    corpus = data.load_corpus(None)
    assert len(corpus.tokens) > 300_000
    assert "def" in corpus.decode(corpus.tokens.tolist())


def test_a_text_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "binary").write_bytes(b"ab\xff")
    for name, problem in [
        ("absent", "No such file"),
        ("empty", "is empty"),
        ("binary", "not UTF-8 text \\(byte 2\\)"),
        (".", "Is a directory"),
    ]:
        with pytest.raises(TrainerError, match=problem):
            data.load_corpus(tmp_path / name)
