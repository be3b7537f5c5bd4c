"""Requests to stop, and what a job script finds afterwards."""

import json
import os
import signal
import time
from pathlib import Path

import pytest

from jobgen.trainer.watch import stop
from jobgen.trainer.watch.status import Status


def test_a_signal_raises_a_flag_and_nothing_else(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with stop.StopRequests(tmp_path / "STOP") as requests:
        assert stop.explain_request(requests.flags()) is None
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.explain_request(requests.flags()) == "SIGTERM"
        os.kill(os.getpid(), signal.SIGUSR1)
        assert stop.explain_request(requests.flags()) == "SIGTERM and SIGUSR1"
    assert signal.getsignal(signal.SIGTERM) is before


def test_the_stop_file_is_seen(tmp_path: Path) -> None:
    (tmp_path / "STOP").touch()
    with stop.StopRequests(tmp_path / "STOP") as requests:
        assert stop.explain_request(requests.flags()) == "STOP file"


def test_flags_of_several_ranks_add_up() -> None:
    assert stop.explain_request([0.0, 3.0, 0.0, 0.0]) == "SIGUSR1"
    assert stop.explain_request([0.0, 0.0, 0.0, 0.0]) is None


def test_the_time_limit_leaves_room_for_what_is_still_to_be_done() -> None:
    requests = stop.StopRequests(None, end=time.time() + 60)
    assert stop.explain_request(requests.flags(needed=50)) is None
    assert stop.explain_request(requests.flags(needed=56)) == "time limit"
    assert stop.StopRequests(None).flags(needed=1e9)[-1] == 0


def test_the_end_of_the_job_is_the_scripts_or_slurms(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JOBGEN_END", "SLURM_JOB_END_TIME"):
        monkeypatch.delenv(name, raising=False)
    assert stop.get_end_of_job() is None
    monkeypatch.setenv("SLURM_JOB_END_TIME", "200")
    assert stop.get_end_of_job() == 200
    monkeypatch.setenv("JOBGEN_END", "100")
    assert stop.get_end_of_job() == 100


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
