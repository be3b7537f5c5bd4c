"""The text."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the trainer needs torch")

from jobgen.trainer import data  # noqa: E402
from jobgen.trainer.config import TrainerError  # noqa: E402


@pytest.mark.parametrize("count", [10, 11, 19, 20, 1000])
def test_every_window_is_trained_on_or_validates(count: int) -> None:
    training, validating = data.split(count)
    assert validating == count // 10
    chosen = data.windows(range(training), training=True)
    assert sorted([*chosen, *data.windows(range(validating), training=False)]) == list(range(count))


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
