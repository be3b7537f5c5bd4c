"""A checkpoint is whole, or it is not used."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from late import import_late

from jobgen.trainer.config import TrainerError

if TYPE_CHECKING:
    import torch

    from jobgen.trainer.checkpoint import (
        Checkpoints,
        Writer,
        read_into,
        read_state,
        read_whole,
    )
    from jobgen.trainer.distributed.world import World

__all__ = ["import_late"]

TENSORS = "rank-00000.pt"


@pytest.fixture
def save(tmp_path: Path, world: World) -> Callable[..., Path]:
    """Write a checkpoint of a step, as a run does."""

    def save(step: int, keep: int = 3) -> Path:
        writer = Writer(Checkpoints(tmp_path), world, keep=keep)
        tensors = {"model.w": torch.full((100,), float(step))}
        assert writer.start(step, tensors, {"step": step}) is None
        tensors["model.w"].fill_(-1)  # training goes on
        saved = writer.wait()
        assert saved is not None
        assert (saved.step, saved.problem) == (step, None)
        return tmp_path / "checkpoints" / f"step-{step:08d}"

    return save


def test_what_is_loaded_is_what_was_saved(tmp_path: Path, save: Callable[..., Path]) -> None:
    checkpoints = Checkpoints(tmp_path)
    assert checkpoints.newest_whole() == (None, [])
    save(5)
    path = save(10)
    assert checkpoints.newest_whole() == (path, [])
    assert read_state(path) == {"step": 10}
    assert torch.equal(read_whole(path)["w"], torch.full((100,), 10.0))


def test_only_the_last_ones_are_kept_and_nothing_else_is_left(
    tmp_path: Path, save: Callable[..., Path]
) -> None:
    for step in (1, 2, 3, 4, 5, 6):
        save(step, keep=2)
    names = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert names == ["step-00000005", "step-00000006"]


def test_a_full_disk_keeps_the_one_before_and_says_why(
    tmp_path: Path, world: World, save: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    good = save(5)

    def full(path: Path, content: object) -> None:
        raise OSError(28, "No space left on device", str(path))

    for place in ("jobgen.trainer.checkpoint._write_json", "os.fsync"):
        with monkeypatch.context() as patch:
            patch.setattr(place, full if place.endswith("_json") else lambda handle: full(good, 0))
            writer = Writer(Checkpoints(tmp_path), world, keep=3)
            writer.start(10, {"model.w": torch.ones(100)}, {"step": 10})
            saved = writer.wait()
        assert saved is not None
        assert "No space left on device" in str(saved.problem)
        assert "\n" not in str(saved.problem)
        assert Checkpoints(tmp_path).newest_whole() == (good, [])
        assert sorted(path.name for path in good.parent.iterdir()) == [good.name]


def test_what_fails_after_a_checkpoint_is_there_does_not_unmake_it(
    tmp_path: Path,
    save: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    save(5)

    def full(path: Path, hidden: Path) -> None:
        if path.name == "step-00000005":
            raise OSError(28, "No space left on device", str(path))
        rename(path, hidden)

    rename = os.rename
    monkeypatch.setattr("os.rename", full)
    path = save(10, keep=1)
    assert Checkpoints(tmp_path).newest_whole() == (path, [])
    assert "step-00000010: [Errno 28] No space left on device" in capsys.readouterr().out
    monkeypatch.undo()
    Checkpoints(tmp_path).tidy()


def flip_a_bit(path: Path) -> None:
    content = bytearray((path / TENSORS).read_bytes())
    content[len(content) // 2] ^= 1
    (path / TENSORS).write_bytes(content)


def truncate(path: Path) -> None:
    (path / TENSORS).write_bytes((path / TENSORS).read_bytes()[:-1])


def lose_a_file(path: Path) -> None:
    (path / "state.json").unlink()


def lose_the_manifest(path: Path) -> None:
    (path / "manifest.json").unlink()


def break_the_manifest(path: Path) -> None:
    (path / "manifest.json").write_text("{")


def take_another_step(path: Path) -> None:
    path.rename(path.with_name("step-00000099"))


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (flip_a_bit, "rank-00000.pt has changed since it was written"),
        (truncate, "rank-00000.pt has "),
        (lose_a_file, "state.json: No such file"),
        (lose_the_manifest, "manifest.json: No such file"),
        (break_the_manifest, "manifest.json cannot be read"),
        (take_another_step, "manifest.json is of step 10"),
    ],
)
def test_a_damaged_one_is_skipped_for_the_one_before_and_named(
    tmp_path: Path, save: Callable[..., Path], damage: Callable[[Path], None], problem: str
) -> None:
    checkpoints = Checkpoints(tmp_path)
    good = save(5)
    damage(save(10))
    path, skipped = checkpoints.newest_whole()
    assert path == good
    assert len(skipped) == 1
    assert problem in skipped[0]


def test_torch_itself_would_load_the_flipped_bit(save: Callable[..., Path]) -> None:
    """Why there is a manifest at all."""
    path = save(10)
    before = read_whole(path)["w"]
    content = (path / TENSORS).read_bytes()
    (path / TENSORS).write_bytes(content.replace(b"\x20\x41", b"\x21\x41"))  # the end of 10.0
    assert not torch.equal(read_whole(path)["w"], before)


def test_when_none_is_whole_the_run_does_not_silently_start_over(
    tmp_path: Path, save: Callable[..., Path]
) -> None:
    checkpoints = Checkpoints(tmp_path)
    flip_a_bit(save(5))
    with pytest.raises(TrainerError, match="no checkpoint is complete") as caught:
        checkpoints.newest_whole()
    assert "step-00000005: rank-00000.pt has changed" in str(caught.value)


def test_damaged_ones_are_replaced_and_never_push_out_good_ones(
    tmp_path: Path, save: Callable[..., Path]
) -> None:
    checkpoints = Checkpoints(tmp_path)
    save(5)
    for step in (10, 15):
        flip_a_bit(save(step))
    save(7, keep=1)
    assert checkpoints.newest_whole()[0] == checkpoints.folder / "step-00000007"
    path = save(15, keep=1)
    assert checkpoints.newest_whole() == (path, [])


def test_what_a_kill_left_half_written_is_ignored_and_later_removed(
    tmp_path: Path, save: Callable[..., Path]
) -> None:
    checkpoints = Checkpoints(tmp_path)
    good = save(5)
    half = checkpoints.folder / ".tmp-step-00000010"
    half.mkdir()
    (half / TENSORS).write_bytes(b"PK")
    assert checkpoints.newest_whole() == (good, [])
    checkpoints.tidy()
    assert not half.exists()


def test_a_checkpoint_of_a_stranger_runs_no_code(tmp_path: Path, save: Callable[..., Path]) -> None:
    """Its digests prove nothing: whoever writes the files writes those too."""
    path, canary = save(5), tmp_path / "canary"

    class Evil:
        def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
            return os.system, (f"touch {canary}",)

    torch.save({"model.w": Evil()}, path / TENSORS)
    for read in (
        lambda: read_whole(path),
        lambda: read_into(path, {"model.w": torch.ones(100)}),
    ):
        with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
            read()
    assert not canary.exists()


def test_a_checkpoint_of_another_model_is_refused(save: Callable[..., Path]) -> None:
    path = save(5)
    with pytest.raises(TrainerError, match=r"to another model: they differ in model.v, model.w"):
        read_into(path, {"model.v": torch.ones(100)})
    with pytest.raises(TrainerError, match=r"model.w is \[100\], in this model"):
        read_into(path, {"model.w": torch.ones(50)})


@pytest.mark.parametrize(
    "words",
    [
        "[enforce fail at inline_container.cc:672] . unexpected pos 704 vs 598",
        "basic_ios::clear: iostream error",
    ],
)
def test_a_full_disk_is_called_one_whatever_torch_says_of_it(
    tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError(words)

    monkeypatch.setattr(torch, "save", fail)
    writer = Writer(Checkpoints(tmp_path), world, keep=3)
    writer.start(10, {"model.w": torch.ones(100)}, {"step": 10})
    saved = writer.wait()
    assert saved is not None
    assert "the disk is full (RuntimeError: " in str(saved.problem)
