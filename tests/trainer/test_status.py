"""What a job script finds after a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from late import import_late

if TYPE_CHECKING:
    from jobgen.trainer.watch.status import Status

__all__ = ["import_late"]


@pytest.fixture
def status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Status:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.delenv("JOBGEN_RUN_DIR", raising=False)
    return Status(tmp_path)


def read(status: Status) -> dict[str, object]:
    record: dict[str, object] = json.loads((status.folder / "status.json").read_text())
    return record


def test_marks_follow_the_state(status: Status) -> None:
    status.stop_file.touch()
    status.ended(40, reason="STOP file")
    assert read(status)["state"] == "stopped"
    assert read(status)["reason"] == "STOP file"
    assert (status.folder / "STOPPED").exists()
    assert not status.stop_file.exists(), "the next start would stop at once"
    status.running(40)
    assert not (status.folder / "STOPPED").exists()
    status.ended(80)
    assert (status.folder / "DONE").read_text() == "step 80\n"
    assert read(status)["resumable"] is True


def test_the_first_rank_to_fail_is_the_one_that_is_named(status: Status) -> None:
    status.running(0)
    assert status.failed(ValueError("the cause"), step=0)
    assert not status.failed(RuntimeError("lost my peer"), step=0)
    assert read(status)["state"] == "failed"
    assert str(read(status)["reason"]).startswith("rank 1 on ")
    assert str(read(status)["reason"]).endswith("ValueError: the cause")
    assert read(status)["resumable"] is False


def test_a_failure_of_an_earlier_start_does_not_hide_a_new_one(status: Status) -> None:
    status.failed(ValueError("old"), step=0)
    record = read(status) | {"time": 1.0}
    (status.folder / "status.json").write_text(json.dumps(record))
    assert status.failed(ValueError("new"), step=10)
    assert "new" in str(read(status)["reason"])


def test_marks_lie_where_the_job_script_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JOBGEN_RUN_DIR", str(tmp_path / "job"))
    assert Status(tmp_path / "elsewhere").folder == tmp_path / "job"
    monkeypatch.delenv("JOBGEN_RUN_DIR")
    assert Status(tmp_path / "elsewhere").folder == tmp_path / "elsewhere"
