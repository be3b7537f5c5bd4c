"""jobgen.loop: to stop in time, to save durably, and to go on with the same bits."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from forked import Forked, start_python
from late import import_late
from support import ROOT, load_program

if TYPE_CHECKING:
    import torch

    from jobgen.loop import Loop, join

__all__ = ["import_late"]

MODULES = ("jobgen.loop", "torch._dynamo", "torch.nn.parallel")


@pytest.fixture
def loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Loop]:
    """A process alone, in a run folder."""
    for name in ("RANK", "WORLD_SIZE", "JOBGEN_END", "SLURM_JOB_END_TIME", "SLURM_STEP_NUM_TASKS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("JOBGEN_RUN_DIR", str(tmp_path))
    usual = signal.getsignal(signal.SIGTERM)
    yield join()
    signal.signal(signal.SIGTERM, usual)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def start_ranks(program: str, folder: Path, ranks: int) -> list[Forked]:
    """Start a program on several ranks; what they print is in the file `log` of the folder."""
    (folder / "program.py").write_text(program)
    own = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "PYTHONPATH": str(ROOT)}
    own |= {"MASTER_PORT": str(20000 + os.getpid() % 9000), "JOBGEN_RUN_DIR": str(folder)}
    processes = []
    for rank in range(ranks):
        env = {**os.environ, **own, "RANK": str(rank), "LOCAL_RANK": str(rank)}
        with (folder / "log").open("a") as log:
            argv = [sys.executable, "program.py"]
            processes.append(start_python(argv, cwd=folder, env=env, stdout=log, modules=MODULES))
    return processes


@pytest.mark.torch
def test_it_is_short_and_imports_nothing_but_torch(tmp_path: Path) -> None:
    """It can be copied beside a train.py, onto a cluster without jobgen, click and yaml."""
    source = ROOT / "jobgen" / "loop.py"
    assert len(source.read_text().splitlines()) <= 150
    shutil.copy(source, tmp_path / "loop.py")
    program = "import sys, torch; before = set(sys.modules); from {} import join\n"
    program += "new = {{name.partition('.')[0] for name in set(sys.modules) - before}}\n"
    program += "print(sorted(new - sys.stdlib_module_names), *sorted(sys.modules.keys() - before))"
    for name, folder in (("loop", tmp_path), ("jobgen.loop", ROOT)):
        argv = [sys.executable, "-c", program.format(name)]
        ended = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=True)
        names, *modules = ended.stdout.replace("'] ", "']\n").split("\n", 1)
        assert names == f"['{name.partition('.')[0]}']"
        assert "jobgen.api" not in modules[0]
        assert "jobgen.errors" not in modules[0]


def test_a_state_comes_back_as_it_was(loop: Loop) -> None:
    assert loop.load() == (0, None)
    state = {"model": {"w": torch.arange(3.0)}, "lr": 0.1, "names": ["a", "b"]}
    loop.save(state, 10)
    step, found = loop.load()
    assert step == 10
    assert found["model"]["w"].equal(state["model"]["w"])
    assert found["lr"] == 0.1
    assert found["names"] == ["a", "b"]


def test_the_newest_are_kept_and_a_damaged_one_is_left_out(
    loop: Loop, capsys: pytest.CaptureFixture[str]
) -> None:
    for step in (1, 2, 3):
        loop.save({"step": step}, step)
    old, newest = sorted(loop.checkpoints.iterdir())
    os.truncate(newest, 100)
    assert loop.load() == (2, {"step": 2})
    assert f"{newest} is damaged" in capsys.readouterr().out
    loop.save({"step": 3}, 3)  # the same bits have the same name: it takes the damaged one's place
    assert loop.load() == (3, {"step": 3})
    old.write_bytes(b"")
    newest.write_bytes(b"")
    with pytest.raises(RuntimeError, match="every checkpoint is damaged"):
        loop.load()


def test_a_newer_damaged_checkpoint_does_not_push_out_whole_ones(loop: Loop) -> None:
    loop.save({}, 50)
    loop.save({}, 100)
    os.truncate(sorted(loop.checkpoints.iterdir())[-1], 10)
    loop.save({}, 60)
    loop.save({}, 70)
    assert [path.name[5:13] for path in sorted(loop.checkpoints.iterdir())] == [
        "00000060",
        "00000070",
        "00000100",
    ]


def test_a_checkpoint_runs_no_code(loop: Loop) -> None:
    loop.save({"path": Path("x")}, 1)
    with pytest.raises(Exception, match="Weights only load failed"):
        loop.load()


def test_in_the_background_a_copy_is_written(loop: Loop) -> None:
    weights = torch.zeros(2)
    loop.save({"w": weights}, 1, background=True)
    weights += 1
    loop.leave(done=True)
    (path,) = loop.checkpoints.iterdir()
    assert torch.load(path)["w"].tolist() == [0.0, 0.0]


def test_a_disk_that_is_full_is_said(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checkpoint before stays; in the background it is said with the next call."""
    loop.save({}, 1)
    before = list(loop.checkpoints.iterdir())

    def refuse(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", refuse)
    with pytest.raises(OSError, match="No space left"):
        loop.save({}, 2)
    loop._writing = loop._thread.submit(int)
    loop.save({}, 3, background=True)
    with pytest.raises(OSError, match="No space left"):
        loop.leave(done=True)
    assert list(loop.checkpoints.iterdir()) == before


def test_the_file_stop_is_seen_once_and_answered(loop: Loop) -> None:
    (loop.folder / "STOP").touch()
    assert loop.should_stop()
    assert loop.should_stop()
    loop.leave(done=False)
    assert not (loop.folder / "STOP").exists()
    assert (loop.folder / "STOPPED").exists()
    assert not join().should_stop()
    assert not (loop.folder / "STOPPED").exists()


def test_calls_between_two_looks_cost_nothing(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    """About once a second rank 0 looks for the file, and all ranks hear of it."""
    looks: list[Path] = []
    exists = Path.exists
    monkeypatch.setattr(Path, "exists", lambda path: looks.append(path) or exists(path))  # type: ignore
    calls = 0
    monkeypatch.setattr(time, "monotonic", lambda: calls / 100)  # a call takes 10 ms
    while calls < 3000:
        calls += 1
        assert not loop.should_stop()
    assert 25 <= len(looks) <= 35


def test_a_slow_setup_does_not_stop_a_short_job_at_its_first_step(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What passes between `join` and the first look is not the time of a step."""
    monkeypatch.setenv("JOBGEN_END", str(int(time.time()) + 60))
    began = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: began + 120)  # two minutes of imports and data
    assert not loop.should_stop()
    loop._left = 0
    monkeypatch.setattr(time, "monotonic", lambda: began + 150)  # a step of 30 seconds
    assert loop.should_stop()


def test_it_stops_while_there_is_time_for_a_save(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert loop.seconds_left() == float("inf")
    monkeypatch.setenv("SLURM_JOB_END_TIME", str(int(time.time()) + 1000))
    monkeypatch.setenv("JOBGEN_END", str(int(time.time()) + 60))
    assert loop.seconds_left() < 61
    assert not loop.should_stop()
    loop.save_s = 30.0
    loop._left = 0
    assert loop.should_stop()


def test_metrics_are_what_report_reads(loop: Loop, capsys: pytest.CaptureFixture[str]) -> None:
    loop.log(5, loss=torch.tensor(2.5, requires_grad=True), lr=0.1)
    assert capsys.readouterr().out == "step 5   loss 2.5  lr 0.1\n"
    line = json.loads((loop.folder / "metrics.jsonl").read_text())
    assert line.pop("time") == pytest.approx(time.time(), abs=600)
    assert line == {"step": 5, "loss": 2.5, "lr": 0.1}


def test_progress_is_a_file_that_chains_look_at(loop: Loop) -> None:
    loop.progress()
    assert (loop.folder / "PROGRESS").exists()


def test_tasks_of_slurm_without_ranks_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each would train by itself, and all of them would write the same files."""
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "4")
    with pytest.raises(RuntimeError, match="RANK is not set"):
        join()


STOPS = """
import os, signal, time, torch
from jobgen.loop import join
loop = join()
for step in range(1, 100000):
    time.sleep(0.01)
    if step == 20 and loop.rank == 1:
        os.kill(os.getpid(), signal.SIGTERM)
    if loop.should_stop():
        break
loop.log(step, rank=torch.tensor(float(loop.rank)), step_of_rank=torch.tensor(float(step)))
loop.save({"step": step}, step)
loop.leave(done=False)
"""


@pytest.mark.torch
def test_sigterm_on_one_rank_stops_all_after_the_same_step(tmp_path: Path) -> None:
    ranks = start_ranks(STOPS, tmp_path, 3)
    assert [rank.wait(300) for rank in ranks] == [0, 0, 0], (tmp_path / "log").read_text()
    line = json.loads((tmp_path / "metrics.jsonl").read_text())
    assert line["rank"] == 1.0  # the mean of 0, 1 and 2
    assert line["step"] == line["step_of_rank"]
    assert (tmp_path / "STOPPED").exists()
    assert len(list((tmp_path / "checkpoints").iterdir())) == 1


@pytest.mark.torch
def test_kills_damage_and_power_cuts_change_no_bit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    benchmark = load_program(ROOT / "benchmarks" / "loop_kills.py")
    few = ["--kills", "6", "--damaged", "2", "--power-cuts", "2", "--ranks", "1", "3"]
    monkeypatch.setattr(sys, "argv", ["loop_kills.py", *few, "--steps", "250"])
    benchmark.main()
    assert "the same bits after {'kills': 6" in capsys.readouterr().out
