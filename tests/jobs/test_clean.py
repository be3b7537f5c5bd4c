"""Run folders that go, those that stay, and the folders that jobs were submitted from."""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support import MINIMAL, jobgen

from jobgen import process as jobgen_process
from jobgen.jobs.record import JobRecord
from jobgen.process import CommandResult, get_start


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return Path.cwd()


def record(job_id: str, *, days: float = 40, word: str = "done 0", **more: object) -> JobRecord:
    """A job that has ended so long ago, with a log and a checkpoint."""
    when = time.time() - days * 24 * 3600
    job = JobRecord(job_id, "a", "local", os.getcwd(), when, (), None, 1, **more)  # type: ignore[arg-type]
    job.save()
    for name in ("logs/n1/rank-0.out", "checkpoints/step-1/x", "attempts/0/outcome"):
        path = job.run_dir / name
        path.parent.mkdir(parents=True)
        path.write_text(word if name.endswith("outcome") else "x" * 1000)
        os.utime(path, (when, when))
    return job


@pytest.fixture
def alive() -> Iterator[JobRecord]:
    process = subprocess.Popen(["sleep", "1000"])
    job = JobRecord("9", "a", "local", os.getcwd(), 1.0, (), process.pid, get_start(process.pid))
    job.save()
    yield job
    process.kill()
    process.wait()


def ids() -> list[str]:
    return sorted(path.parent.name for path in Path("runs").glob("*/*/job.json"))


def test_old_jobs_that_have_ended_go_and_nothing_else(alive: JobRecord) -> None:
    record("1")
    record("2", days=20)
    record("3", word="failed 1")
    Path("runs/a/code/20300101-000000-0123456789ab").mkdir(parents=True)
    record("4", token="20300101-000000-0123456789ab")
    Path("a-1.out").write_text("")
    code, out, err = jobgen("clean")
    assert (code, out) == (2, "")
    assert "of 3 jobs not removed: jobgen cannot ask here; to confirm, give --yes" in err
    assert "0.0 MB  failed  runs/a/3\n" in err
    assert ids() == ["1", "2", "3", "4", alive.id]
    assert jobgen("clean", "--yes", "--failed").out == "removed 0.0 MB of 1 job\n"
    assert ids() == ["1", "2", "4", alive.id]
    removed = json.loads(jobgen("clean", "--yes", "--json").out)["removed"]
    assert {each["id"] for each in removed} == {"1", "4"}
    assert ids() == ["2", alive.id]
    assert not Path("runs/a/code").exists()
    assert (
        jobgen("clean").err == "2 jobs kept: each goes on, or ended less than 30d ago (--older)\n"
    )
    recent = "it ended less than 30d ago (--older), or nothing of it is left to remove"
    told = jobgen("clean", "--yes", "--older", "30d", "2", alive.id).err
    assert f"2: kept, because {recent}\n" in told
    assert f"{alive.id}: kept, because it is running\n" in told
    code, _, err = jobgen("clean", "--yes", alive.id, "2")  # what is named may be new
    assert (code, err.splitlines()[0].partition(":")[0]) == (0, f"{alive.id}")
    assert ids() == [alive.id]
    assert Path("a-1.out").exists()
    code, _, err = jobgen("clean", "--older", "soon")
    assert code == 2
    assert "--older: 'soon' is not a duration" in err
    assert (
        "1 job kept: each goes on, or ended less than 0s ago"
        in jobgen("clean", "--older", "0s").err
    )


def test_tasks_of_an_array_that_are_done_stay_beside_those_that_failed() -> None:
    """All went where one had failed: the models of the others were lost."""
    array = JobRecord("1", "a", "slurm", os.getcwd(), 1.0, (), tasks=3, token="2-3-4")
    Path("runs/a/code/2-3-4").mkdir(parents=True)  # which all tasks run
    for task, word in enumerate(("done 0", "failed 3", "done 0")):
        folder = array.task(task).run_dir / "attempts/0"
        folder.mkdir(parents=True)
        (folder / "outcome").write_text(word)
    array.save()
    code, _, err = jobgen("clean", "1", "--failed", "--yes")
    assert (code, err) == (0, "0.0 MB  failed  runs/a/1_1\n")
    assert sorted(path.name for path in Path("runs/a").iterdir()) == ["1", "1_0", "1_2", "code"]
    assert Path("runs/a/code", array.token).exists()


@pytest.mark.parametrize(
    ("words", "gone"),
    [
        ("1_1", "1_1"),
        ("a_1 --keep checkpoints", "1_1"),
        ("1 1_0", "1"),
        ("1_0 1", "1_0 1"),
        ("1_0 1_2", "1_0"),  # 1_2 runs
        ("1 --failed", "1_1"),
    ],
)
def test_what_goes_is_not_called_kept_and_goes_once(words: str, gone: str) -> None:
    array = record("1", tasks=3 if "1_2" in words else 2, word="")
    for task, word in enumerate(("done 0", "failed 3", "")[: array.tasks]):
        folder = array.task(task).run_dir / "attempts/0"
        folder.mkdir(parents=True)
        (folder / "outcome").write_text(word)
        (folder.parents[1] / "logs").mkdir()
    running = replace(array, pid=os.getpid(), started=get_start(os.getpid()))
    (running if array.tasks == 3 else array).save()
    code, out, err = jobgen("clean", *words.split(), "--yes", "--json")
    assert (code, [one["id"] for one in json.loads(out)["removed"]]) == (0, gone.split())
    assert ("kept" in err) == ("1_2" in words), err


def test_a_name_stands_for_the_latest_job_and_the_others_are_named() -> None:
    for days in (1, 2, 3):
        record(str(days), days=days)
    others = "a name is the latest job of that name; for the others: jobgen clean 2 3\n"
    assert jobgen("clean", "a", "--yes").err.startswith(others)
    assert ids() == ["2", "3"]
    assert not jobgen("clean", "2", "3", "--yes").err.startswith("a name")
    assert not Path("runs/a").exists()


def test_the_calls_of_functions_go_with_the_last_job_that_makes_them(here: Path) -> None:
    def make_calls(job: JobRecord, calls: str) -> Path:
        (here / calls).mkdir(parents=True, exist_ok=True)
        (here / calls / "call.py").write_text("x" * 10**6)
        (job.run_dir / "script").write_text(f"exec python3 {calls}/call.py\n")
        return here / calls

    one, other = (f"runs/a/calls/20300101-00000{n}-0123456789ab" for n in (1, 2))
    first = make_calls(record("1"), one)
    make_calls(record("2", days=1), one)  # the first once more
    second = make_calls(record("3"), other)
    (here / "precious").mkdir()
    away = "runs/a/calls/20300101-000003-0123456789ab"
    linked = record("4")
    (here / away).symlink_to(here / "precious")
    make_calls(linked, away)
    code, out, err = jobgen("clean", "--yes")
    assert (code, out) == (0, "removed 1.0 MB of 3 jobs\n")
    assert "1.0 MB  done  runs/a/3\n" in err
    assert (first.exists(), second.exists(), ids()) == (True, False, ["2"])
    assert (here / "precious" / "call.py").exists()
    assert jobgen("clean", "--yes", "--older", "1s").code == 0
    assert not first.exists()


def test_what_is_kept_stays_with_the_record() -> None:
    job = record("1", word="failed 3")
    assert jobgen("clean", "--yes", "--keep", "checkpoints").code == 0
    assert {path.name for path in job.run_dir.iterdir()} == {"job.json", "checkpoints", "attempts"}
    assert jobgen("status", "1").out.startswith("failed\n")
    assert jobgen("clean", "--yes", "--keep", "checkpoints").out == "removed 0.0 MB of 0 jobs\n"


def test_a_part_that_is_misspelt_is_not_lost() -> None:
    job = record("1", word="failed 3")
    ended = jobgen("clean", "--yes", "--keep", "chekpoints")
    assert (ended.code, ended.out) == (2, "")
    assert "no run folder has such a part; did you mean checkpoints?" in ended.err
    assert (job.run_dir / "checkpoints").exists()


@pytest.mark.parametrize(
    ("says", "left"),
    [
        ("qstat: Unknown Job Id 7.login", []),
        ("qstat: cannot connect to server", ["7"]),
    ],
)
def test_a_job_that_its_scheduler_does_not_know_goes_only_by_its_name(
    monkeypatch: pytest.MonkeyPatch, says: str, left: list[str]
) -> None:
    JobRecord("7.login", "a", "pbs", os.getcwd(), 1.0, ("x",)).save()
    JobRecord("8", "a", "local", os.getcwd(), 1.0, (), 1, host="elsewhere").save()
    monkeypatch.setattr(jobgen_process, "ask", lambda *_, **__: CommandResult("", 153, says))
    jobgen("clean", "--older", "1s", "--failed", "--yes")
    assert ids() == ["7", "8"]
    jobgen("clean", "7", "8", "--yes")
    assert ids() == [*left, "8"]


def test_a_cancelled_local_job_stays_cancelled() -> None:
    job = record("1")
    (job.run_dir / "cancelled").write_text("")
    assert jobgen("clean", "--yes", "--keep", "checkpoints").code == 0
    assert (job.run_dir / "cancelled").exists()


def test_no_link_is_followed(here: Path) -> None:
    job = record("1")
    other = here.parent / "precious"
    other.mkdir()
    (other / "x").write_text("")
    (job.run_dir / "data").symlink_to(other)
    linked = record("2")
    linked.run_dir.rename(here.parent / "moved")
    linked.run_dir.symlink_to(here.parent / "moved")
    jobgen("clean", "--yes")
    assert not job.run_dir.exists()
    assert (other / "x").exists()
    assert (here.parent / "moved" / "job.json").exists()


def test_jobs_elsewhere_are_listed_with_their_folders(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "other"):
        folder = here.parent / name
        folder.mkdir()
        monkeypatch.chdir(folder)
        Path("job.yaml").write_text(MINIMAL)
        for _ in range(2):
            assert jobgen("submit", "--again").code == 0
    monkeypatch.chdir(here)
    assert jobgen("list").out.count("\n") == 1
    out = jobgen("list", "--all").out
    assert out.count("\n") == 5
    assert out.count("../one/runs/a/") == out.count("../other/runs/a/") == 2
    listed = (here.parent / "state/jobgen/folders").read_text().splitlines()
    assert listed == [str(here.parent / "one"), str(here.parent / "other")]
    (here.parent / "other/runs").rename(here.parent / "gone")
    assert jobgen("list", "--all", "--limit", "9").out.count("\n") == 3


def test_a_command_runs_as_each_job_ends() -> None:
    record("1")
    record("2", word="failed 3")
    words = " ".join(f"$JOBGEN_JOB_{key}" for key in ("NAME", "ID", "STATE", "REASON"))
    hook = f'echo "{words}" >>told; exit 4'
    code, out, err = jobgen("wait", "1", "2", "--then", hook)
    assert (code, out) == (7, "1 done\n2 failed\n")
    assert Path("told").read_text() == "a 1 done \na 2 failed exit code 3\n"
    assert "--then of job 2 failed with exit code 4\n" in err
    unquoted = jobgen("wait", "1", "--then", "echo", "done").err
    assert unquoted.endswith(
        "--then takes one word; put the command in quotes: --then 'echo ...'\n"
    )
