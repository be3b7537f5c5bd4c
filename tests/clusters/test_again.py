"""Jobs once more: with the code as it was submitted, and the failed tasks alone."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from cluster_fixtures import Pbs, Slurm, wait_until
from jobs import Job, jobgen, submit

PROGRAM = """
import os, sys, time
print("VERSION", sys.argv, flush=True)
with open("OUT-" + os.environ["JOBGEN_TASK"], "a") as file:
    file.write("VERSION" * (os.environ["RANK"] == "0"))
while not os.path.exists("GO"):
    time.sleep(0.1)
sys.exit(os.environ["RANK"] == "0" and "VERSION" == "old" and sys.argv[-1] != "1")
"""


def do_again(scheduler: str, env: Mapping[str, str], cwd: Path) -> None:
    def write(version: str) -> None:
        text = PROGRAM.replace("VERSION", version).replace("GO", str(cwd / "go"))
        text = text.replace("OUT", str(cwd / "out"))
        (cwd / "prog.py").write_text(text)

    def over(job_id: str) -> bool:
        told = jobgen("status", "--json", job_id, env=env, cwd=cwd)
        return json.loads(told.stdout)["jobs"][0]["state"] in ("done", "failed")

    def printed(job: Job) -> list[str]:
        files = sorted(cwd.glob(f"runs/*/{job.run_dir.name}*/logs/*/rank-0.out"))
        return [path.read_text().strip() for path in files]

    git = {**env, "GIT_AUTHOR_NAME": "a", "GIT_COMMITTER_NAME": "a", "EMAIL": "a@b.c"}
    cwd.chmod(0o755)
    write("older")
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run(["git", *words], cwd=cwd, env=git, check=True)
    write("old")
    content = {
        "name": "a",
        "resources": {"nodes": 2, "cpus_per_node": 1, "walltime": "5m"},
        "launch": {"mode": "direct"},
        "environment": {"venv": sys.prefix},
        "run": {"script": "prog.py"},
        "array": {"values": {"x": [1, 2, 3]}},
        "snapshot": True,
    }
    job = submit(content, scheduler=scheduler, cwd=cwd, env=env)
    write("new")
    (cwd / "go").touch()
    wait_until(lambda: over(job.id), every=1)
    assert printed(job) == [f"old ['prog.py', '-x', '{x}']" for x in (1, 2, 3)]
    record = json.loads((job.run_dir / "job.json").read_text())
    assert (len(record["commit"]), record["changed"]) == (40, 2)  # job.yaml is new
    assert '"old" == "old"' in (job.run_dir / "code.diff").read_text()
    assert "and 2 changed files" in jobgen("status", job.id, env=env, cwd=cwd).stdout
    (run,) = json.loads(jobgen("report", job.task(1).id, "--json", env=env, cwd=cwd).stdout)["runs"]
    assert "and 2 changed files" in run["origins"][0]
    assert run["diff"] == (job.run_dir / "code.diff").read_text()

    done = jobgen("rerun", job.id, "--failed", "--json", env=env, cwd=cwd)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["jobs"]
    again = Job(row["id"], cwd, "a")
    assert row["rerun_of"] == [job.task(1).id, job.task(2).id]
    wait_until(lambda: over(again.id), every=1)
    assert printed(again) == [f"new ['prog.py', '-x', '{x}']" for x in (2, 3)]
    files = {path.name: path.read_text() for path in cwd.glob("out-*")}
    assert files == {"out-0": "old", "out-1": "oldnew", "out-2": "oldnew"}
    told = jobgen("status", job.id, env=env, cwd=cwd)
    assert f"was rerun as {again.id}\n" in told.stdout
    done = jobgen("rerun", again.id, "--failed", env=env, cwd=cwd)
    assert (done.returncode, done.stdout) == (2, "")
    assert "nothing to rerun, because no task has failed" in done.stderr

    words = ("rerun", job.task(2).id, "--set", "resources.walltime=7m")
    done = jobgen(*words, env=env, cwd=cwd)
    assert done.returncode == 0, done.stderr
    alone = Job(done.stdout.strip(), cwd, "a-2")
    wait_until(lambda: over(alone.id), every=1)
    assert printed(alone) == ["new ['prog.py', '-x', '3']"]
    assert '"walltime": 420' in (alone.run_dir / "script").read_text()
    done = jobgen("rerun", alone.id, env=env, cwd=cwd)
    assert done.returncode == 0, done.stderr
    same = Job(done.stdout.strip(), cwd, "a-2")
    texts = [(one.run_dir / "script").read_text().splitlines()[:-1] for one in (alone, same)]
    assert texts[0] == texts[1]
    wait_until(lambda: over(same.id), every=1)

    done = jobgen("clean", "--older", "1s", "--yes", "--json", again.id, job.id, env=env, cwd=cwd)
    assert {each["id"] for each in json.loads(done.stdout)["removed"]} == {again.id, job.id}
    assert not list(cwd.glob(f"runs/a/{job.run_dir.name}*"))
    assert alone.run_dir.exists()


SHARED = """
import os, sys
task = int(os.environ["JOBGEN_TASK"])
print("TASK", task, sys.argv[1:], os.environ["WORLD_SIZE"], flush=True)
print(os.environ.get("SLURM_ARRAY_TASK_ID"), file=sys.stderr)
sys.exit(task in (1, 3) and not os.path.exists("GO"))
"""


def share_nodes(scheduler: str, env: Mapping[str, str], cwd: Path) -> None:
    """Five tasks, two on a node: one that fails takes no other with it, and is done again alone."""

    def read(job_id: str) -> dict[str, Any]:
        told = jobgen("status", "--json", job_id, env=env, cwd=cwd)
        row: dict[str, Any] = json.loads(told.stdout)["jobs"][0]
        return row

    def run(words: tuple[str, ...]) -> Job:
        done = jobgen(*words, env=env, cwd=cwd)
        assert done.returncode == 0, done.stderr
        started = Job(done.stdout.split()[0], cwd, "a")
        wait_until(lambda: read(started.id)["state"] in ("done", "failed"), every=1)
        return started

    cwd.chmod(0o755)
    (cwd / "prog.py").write_text(SHARED.replace("GO", str(cwd / "go")))
    content = {
        "name": "a",
        "scheduler": scheduler,
        "resources": {"cpus_per_node": 1, "walltime": "5m"},
        "environment": {"venv": sys.prefix},
        "run": {"script": "prog.py"},
        "array": {"values": {"x": [1, 2, 3, 4, 5]}, "together": 2},
    }
    (cwd / "job.yaml").write_text(json.dumps(content))
    job = run(("submit",))
    states = [task["state"] for task in read(job.id)["tasks"]]
    assert states == ["done", "failed", "done", "failed", "done"]
    for task in range(5):
        (log,) = job.task(task).run_dir.glob("logs/*/rank-0.out")
        assert log.read_text() == f"TASK {task} ['-x', '{task + 1}'] 1\n"
    assert "TASK 3" in jobgen("logs", job.task(3).id, env=env, cwd=cwd).stdout
    cause = json.loads(jobgen("diagnose", job.id, "--json", env=env, cwd=cwd).stdout)
    assert (cause["job"], cause["ranks"]) == (f"a {job.task(1).id}", [0]), cause
    (cwd / "go").touch()
    again = run(("rerun", job.id, "--failed"))  # one job, and so no array to the scheduler
    assert "[" not in again.id
    assert [task["state"] for task in read(again.id)["tasks"]] == ["done", "done"]
    logs = [cwd.glob(f"runs/a/{again.run_dir.name}_{task}/logs/*/rank-0.out") for task in (0, 1)]
    printed = ["TASK 1 ['-x', '2'] 1\n", "TASK 3 ['-x', '4'] 1\n"]
    assert [next(log).read_text() for log in logs] == printed
    again = run(("rerun", job.id, "--failed", "--again", "--set", "array.together=1"))
    for task, (number, value) in enumerate(((1, 2), (3, 4))):
        folder = again.task(task).run_dir
        (out,), (err,) = (folder.glob(f"logs/*/rank-0.{kind}") for kind in ("out", "err"))
        assert out.read_text() == f"TASK {number} ['-x', '{value}'] 1\n"
        assert err.read_text() == f"{number}\n"
    ended = jobgen("cancel", job.task(3).id, env=env, cwd=cwd)
    assert (ended.returncode, "has already ended" in ended.stderr) == (5, True), ended.stderr


def test_tasks_share_nodes_of_slurm(slurm: Slurm, tmp_path: Path) -> None:
    share_nodes("slurm", slurm.env, tmp_path)


@pytest.mark.slow
def test_on_this_machine(tmp_path: Path) -> None:
    do_again("local", os.environ, tmp_path)


def test_on_pbs(pbs: Pbs, tmp_path: Path) -> None:
    do_again("pbs", pbs.env, tmp_path)
