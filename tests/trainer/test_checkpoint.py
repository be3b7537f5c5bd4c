"""A checkpoint is whole, or it is not used."""

from collections.abc import Callable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the trainer needs torch")

from jobgen.trainer.checkpoint import Checkpoints, read_part, read_state  # noqa: E402
from jobgen.trainer.config import TrainerError  # noqa: E402


def save(checkpoints: Checkpoints, step: int, keep: int = 3) -> Path:
    parts = {"model": {"w": torch.full((100,), float(step))}}
    return checkpoints.save(step, parts=parts, state={"step": step}, keep=keep)


def test_what_is_loaded_is_what_was_saved(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    assert checkpoints.newest_whole() == (None, [])
    save(checkpoints, 5)
    path = save(checkpoints, 10)
    assert checkpoints.newest_whole() == (path, [])
    assert read_state(path) == {"step": 10}
    assert torch.equal(read_part(path, "model")["w"], torch.full((100,), 10.0))
    assert (tmp_path / "checkpoints" / "latest").read_text() == "step-00000010\n"


def test_only_the_last_ones_are_kept_and_nothing_else_is_left(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    for step in (1, 2, 3, 4):
        save(checkpoints, step, keep=2)
    names = sorted(path.name for path in checkpoints.folder.iterdir())
    assert names == ["latest", "step-00000003", "step-00000004"]


def flip_a_bit(path: Path) -> None:
    content = bytearray((path / "model.pt").read_bytes())
    content[len(content) // 2] ^= 1
    (path / "model.pt").write_bytes(content)


def truncate(path: Path) -> None:
    (path / "model.pt").write_bytes((path / "model.pt").read_bytes()[:-1])


def lose_a_file(path: Path) -> None:
    (path / "state.json").unlink()


def lose_the_manifest(path: Path) -> None:
    (path / "manifest.json").unlink()


def break_the_manifest(path: Path) -> None:
    (path / "manifest.json").write_text("{")


def take_another_step(path: Path) -> None:
    path.rename(path.with_name("step-00000099"))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (flip_a_bit, "model.pt has changed since it was written"),
        (truncate, "model.pt has "),
        (lose_a_file, "state.json: No such file"),
        (lose_the_manifest, "manifest.json: No such file"),
        (break_the_manifest, "manifest.json cannot be read"),
        (take_another_step, "manifest.json is of step 10"),
    ],
)
def test_a_damaged_one_is_skipped_for_the_one_before_and_named(
    tmp_path: Path, damage: Callable[[Path], None], said: str
) -> None:
    checkpoints = Checkpoints(tmp_path)
    good = save(checkpoints, 5)
    damage(save(checkpoints, 10))
    path, skipped = checkpoints.newest_whole()
    assert path == good
    assert len(skipped) == 1
    assert said in skipped[0]


def test_torch_itself_would_load_the_flipped_bit(tmp_path: Path) -> None:
    """Why there is a manifest at all."""
    path = save(Checkpoints(tmp_path), 10)
    before = read_part(path, "model")["w"]
    flip_a_bit(path)
    assert not torch.equal(read_part(path, "model")["w"], before)


def test_when_none_is_whole_the_run_does_not_silently_begin_anew(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    flip_a_bit(save(checkpoints, 5))
    with pytest.raises(TrainerError, match="no checkpoint is whole") as caught:
        checkpoints.newest_whole()
    assert "step-00000005: model.pt has changed" in str(caught.value)


def test_damaged_ones_are_replaced_and_never_push_out_good_ones(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    save(checkpoints, 5)
    for step in (10, 15):
        flip_a_bit(save(checkpoints, step))
    save(checkpoints, 7, keep=1)
    assert checkpoints.newest_whole()[0] == checkpoints.folder / "step-00000007"
    path = save(checkpoints, 15, keep=1)
    assert checkpoints.newest_whole() == (path, [])


def test_what_a_kill_left_half_written_is_ignored_and_later_removed(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    good = save(checkpoints, 5)
    half = checkpoints.folder / ".tmp-step-00000010"
    half.mkdir()
    (half / "model.pt").write_bytes(b"PK")
    assert checkpoints.newest_whole() == (good, [])
    save(checkpoints, 12)
    assert not half.exists()
