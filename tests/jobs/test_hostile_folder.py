"""What a stranger has put into a folder: no record of it counts, and nothing outside is written."""

import json
import os
import re
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest
from support import ROOT, jobgen

from jobgen import process

sys.path.insert(0, str(ROOT / "benchmarks"))
from fuzz import RUN_FILES

RECORD: dict[str, Any] = {
    "id": "7",
    "name": "x",
    "scheduler": "slurm",
    "folder": "/somewhere/else",
    "submitted": 1.0,
    "argv": ["sbatch", "x"],
}
TOKEN = "20260101-000000-0123456789ab"


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cloned folder beside the user's home; at the end nothing but the clone has changed."""
    home = tmp_path / "home"
    home.mkdir()
    (home / ".bashrc").write_text("mine\n")
    here = tmp_path / "clone"
    (here / "runs/x/7").mkdir(parents=True)
    monkeypatch.chdir(here)
    monkeypatch.setenv("PATH", str(tmp_path / "no-scheduler"))
    killed: list[tuple[object, ...]] = []
    monkeypatch.setattr(os, "kill", lambda *words: killed.append(words))
    monkeypatch.setattr(os, "killpg", lambda *words: killed.append(words))
    yield here
    assert killed == []
    assert [path.name for path in home.iterdir()] == [".bashrc"]
    assert (home / ".bashrc").read_text() == "mine\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["clone", "home"]


def write_record(where: str = "runs/x/7", **changes: Any) -> None:
    Path(where).mkdir(parents=True, exist_ok=True)
    Path(where, "job.json").write_text(json.dumps(RECORD | changes))


def write_intent(where: str = "x", **changes: Any) -> None:
    folder = Path("runs", where, "submissions")
    folder.mkdir(parents=True, exist_ok=True)
    job = RECORD | {"id": "", "token": TOKEN, "name": where} | changes
    intent = {"job": job, "jobs": 1, "pid": 0, "started": None, "boot": "", "source": "evil\n"}
    (folder / f"{TOKEN}.json").write_text(json.dumps(intent))
    (folder / f"{TOKEN}.sbatch").write_text("evil\n")
    (folder / f"{TOKEN}.out").write_text("7\n")


def test_a_file_of_a_run_folder_is_not_written_through_a_link(clone: Path) -> None:
    for name in ("job.yaml", "script", "job.json", "state.json", "cancelled"):
        Path("runs/x/7", name).symlink_to("../../../../home/.bashrc")
    write_intent()
    assert "Traceback" not in jobgen("list").err
    assert not Path("runs/x/7/job.yaml").is_symlink()


def test_the_report_is_not_written_through_a_link(clone: Path) -> None:
    write_record(folder=str(clone))
    Path("runs/x/7/attempts/0").mkdir(parents=True)
    Path("runs/x/7/attempts/0/outcome").write_text("failed 1\n")
    Path("runs/x/7/report.html").symlink_to("../../../../home/.bashrc")
    assert jobgen("report", "7").code == 0
    assert not Path("runs/x/7/report.html").is_symlink()
    assert "<html" in Path("runs/x/7/report.html").read_text()


def test_no_copy_of_the_code_is_made_through_a_link(clone: Path) -> None:
    Path("job.yaml").write_text(
        "name: x\nscheduler: local\nresources: {}\nsnapshot: [job.yaml]\nrun: {command: [sh]}\n"
    )
    Path("runs/x/code").symlink_to("../../../home")
    assert "runs/x/code" in jobgen("submit").err
    assert not list(Path("../home").rglob("job.yaml"))


def test_all_that_jobgen_writes_into_a_run_folder_goes_through_functions_that_follow_no_link() -> (
    None
):
    """Another way of writing would follow a link that lies there."""
    writes = re.compile(r"\.write_(text|bytes)\(|\.open\(\"[wax]|\bopen\(.*, \"[wax]b?\"")
    for path in (*ROOT.glob("jobgen/jobs/*.py"), *ROOT.glob("jobgen/report/*.py")):
        lines = [line for line in path.read_text().splitlines() if writes.search(line)]
        # The functions themselves; the user's own list of folders; what the job's process writes.
        expected = {"files.py": 2, "folders.py": 1, "call.py": 1}
        assert len(lines) == expected.get(path.name, 0), f"{path}: {lines}"


def test_a_run_folder_that_is_a_link_is_left_alone(clone: Path) -> None:
    Path("runs/x/7").rmdir()
    Path("runs/x/7").symlink_to("../../../home")
    write_intent()
    assert "its record cannot be written" in jobgen("list").err
    Path("runs/y").symlink_to("../../home")
    write_intent("z")
    Path("runs/z/7").symlink_to("../y")
    assert "its record cannot be written" in jobgen("list").err


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "../../home"},
        {"name": "y"},
        {"id": "8"},
        {"id": "../../../home"},
        {"id": "7\0"},
        {"name": "\ud800"},
        {"scheduler": "local", "pid": -1, "started": 1},
        {"submitted": float("nan")},
        {"submitted": float("inf")},
        {"tasks": 10**8},
        {"tasks": -1},
        {"links": ["7; rm -rf ."]},
        {"links": ["-x"]},
        {"counted_from": -5},
        {"folder": "a\0b"},
    ],
    ids=lambda changes: " ".join(map(str, changes)),
)
def test_a_record_of_odd_values_is_named_as_damaged_and_others_are_shown(
    clone: Path, changes: dict[str, Any]
) -> None:
    write_record(**changes)
    write_record("runs/y/9", id="9", name="y", scheduler="local")
    for command in ("list", "status", "logs", "diagnose", "wait", "cancel"):
        words = [] if command == "list" else ["7"]
        code, _, err = jobgen(command, *words)
        assert code in (2, 7), (command, code, err)
        assert "runs/x/7/job.json: not the record of a job: " in err
        assert "Traceback" not in err
    assert "9" in jobgen("list").out


@pytest.mark.parametrize("pid", [-1, 0, 1])
def test_no_process_but_its_own_is_ended(clone: Path, pid: int) -> None:
    """-1 means all processes of the user for kill(2), 0 those of this group."""
    for started in (None, process.get_start(pid)):
        write_record(scheduler="local", pid=pid, started=started)
        assert jobgen("cancel", "7").code in (2, 5)


def test_a_record_of_another_user_or_through_a_link_is_none(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_record()
    Path("runs/y").mkdir()
    Path("runs/y/8").symlink_to("../x/7")
    assert "runs/y/8/job.json: " in jobgen("list").err
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert "runs/x/7/job.json: it belongs to another user" in jobgen("list").err


def test_odd_files_of_a_submission_stop_nothing(clone: Path) -> None:
    write_record("runs/y/9", id="9", name="y", scheduler="local")
    write_intent()
    output = Path("runs/x/submissions", f"{TOKEN}.out")
    output.unlink()
    output.mkdir()
    write_intent("z", name="y")
    Path("runs/x/submissions", f"{TOKEN}.sbatch").write_bytes(b"\xff\n")
    _, out, err = jobgen("list")
    assert "Traceback" not in err
    assert "9 " in out
    assert "not the record of a submission: it is of y/" in err


def test_a_chain_that_contains_itself_ends(clone: Path) -> None:
    write_record()
    attempts = Path("runs/x/7/attempts")
    attempts.mkdir()
    (attempts / "after-7").write_text("8\n")
    (attempts / "after-8").write_text("7\n")
    assert "Traceback" not in jobgen("list").err


KINDS: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a folder": Path.mkdir,
    "50 MB": lambda path: path.write_bytes(b"a" * 50_000_000),
    "400 MB of nothing": lambda path: os.truncate(os.open(path, os.O_CREAT | os.O_RDWR), 400 << 20),
    "two million brackets": lambda path: path.write_text("[" * 2_000_000),
    "a number of a million digits": lambda path: path.write_text(f'{{"a": {"9" * 10**6}}}'),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_no_file_of_a_run_folder_stops_a_command(
    clone: Path, kind: str, subtests: pytest.Subtests
) -> None:
    """Whatever stands in its place: each command ends by itself, in bounds, without a traceback."""
    record = "a/7/job.json"
    together = [[record], [name for name in RUN_FILES if name != record]]
    commands = ("list", "status 7", "logs 7", "diagnose 7", "report --text", "top 7")
    for names in [[name] for name in RUN_FILES] if kind == "a pipe" else together:
        rmtree("runs")
        for name, text in RUN_FILES.items():
            path = Path("runs", name)
            path.parent.mkdir(parents=True, exist_ok=True)
            KINDS[kind](path) if name in names else path.write_text(text)
        for words in commands:
            if words == "logs 7" and kind == "400 MB of nothing":
                continue  # what the job has printed is printed, and this test would hold it
            with subtests.test(names=names, words=words):
                assert run_bounded(words) in (0, 2, 6, 7)


def run_bounded(words: str) -> int:
    """Run a command in a process that may take 300 MB over this one's, and 20 s of CPU time.

    One second is usual; a host that is slow to hand out memory takes three more for what is read.
    """
    if not (pid := os.fork()):
        size = int(Path("/proc/self/statm").read_text().split()[0]) * 4096 + (300 << 20)
        resource.setrlimit(resource.RLIMIT_AS, (size, size))
        resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
        signal.alarm(600)
        code, _, err = jobgen(*words.split())
        os._exit(99 if "Traceback" in err else code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
