"""Inside of what runs: commands on a job's nodes, and a job in an allocation that one holds."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from cluster_fixtures import Pbs, Slurm, wait_until
from jobs import JOBGEN, Job, jobgen, submit

CONTENT: dict[str, Any] = {
    "name": "a",
    "resources": {"nodes": 2, "cpus_per_node": 1, "walltime": "5m"},
    "launch": {"mode": "direct"},
    "environment": {"venv": sys.prefix},
    "run": {
        "command": [
            "bash",
            "-c",
            "echo rank $RANK on $(hostname); until [ -e go ]; do sleep 0.2; done",
        ]
    },
}


def visit(scheduler: str, env: Mapping[str, str], cwd: Path, names: list[str]) -> None:
    """A command runs on the node that was asked for, in the job's folder; its code is passed on."""
    job = submit(CONTENT, scheduler=scheduler, cwd=cwd, env=env)
    wait_until(lambda: len(list(job.run_dir.glob("logs/*/rank-*.out"))) == 2)

    def enter(*words: str) -> tuple[int, str, str]:
        done = jobgen("shell", job.id, *words, env=env, cwd=cwd)
        return done.returncode, done.stdout, done.stderr

    where = ("--", "bash", "-c", "hostname; pwd; echo $JOBGEN_RUN_DIR; exit 3")
    for options, name in (((), names[0]), (("--node", "1"), names[1])):
        code, out, err = enter(*options, *where)
        assert (code, out.split()) == (3, [name, str(cwd), str(job.run_dir)]), err
    assert jobgen("shell", *where, env=env, cwd=cwd).returncode == 3  # of the latest job
    code, _, err = enter("--node", "n9", "--", "true")
    assert code == 2
    assert f"job {job.id} has no node 'n9': it runs on " in err
    (cwd / "go").touch()
    assert job.wait() == "done 0"
    wait_until(lambda: enter("--", "true")[0] == 2)
    assert f"job {job.id} is done, so it has no node to enter" in enter("--", "true")[2]


@pytest.mark.slow
def test_a_shell_on_this_machine(tmp_path: Path) -> None:
    visit("local", os.environ, tmp_path, [os.uname().nodename] * 2)


def test_a_shell_on_slurm(slurm: Slurm, tmp_path: Path) -> None:
    visit("slurm", slurm.env, tmp_path, ["n1", "n2"])


@pytest.fixture
def pbs_env(pbs: Pbs, tmp_path: Path) -> dict[str, str]:
    """Of a login node, with an ssh that knows the nodes."""
    return pbs.add_ssh(tmp_path)


def test_a_shell_on_pbs_goes_by_ssh(pbs_env: dict[str, str], tmp_path: Path) -> None:
    visit("pbs", pbs_env, tmp_path / "work", ["n1", "n2"])


def visit_tasks(scheduler: str, env: Mapping[str, str], cwd: Path) -> None:
    """Of an array each task is a job with nodes of its own."""
    resources = {**CONTENT["resources"], "nodes": 1}
    content = CONTENT | {"resources": resources, "array": {"tasks": 2}}
    job = submit(content, scheduler=scheduler, cwd=cwd, env=env)
    for index in (0, 1):
        task = job.task(index)
        wait_until(lambda task=task: any(task.run_dir.glob("logs/*/rank-0.out")))
        nodes = (task.run_dir / "attempts" / "0" / "nodes").read_text().split()
        words = ("bash", "-c", "hostname; echo $JOBGEN_RUN_DIR; exit 4")
        done = jobgen("shell", task.id, "--", *words, env=env, cwd=cwd)
        assert done.returncode == 4, done.stderr
        assert done.stdout.split() == [*nodes, str(task.run_dir)]
    done = jobgen("shell", job.id, "--", "true", env=env, cwd=cwd)
    assert done.returncode == 2
    assert f"{job.id} is an array; name one of its tasks, such as {job.task(0).id}" in done.stderr
    (cwd / "go").touch()
    assert [job.task(index).wait() for index in (0, 1)] == ["done 0"] * 2


def test_a_shell_on_a_task_of_an_array_of_slurm(slurm: Slurm, tmp_path: Path) -> None:
    visit_tasks("slurm", slurm.env, tmp_path)


def test_a_shell_on_a_task_of_an_array_of_pbs(pbs_env: dict[str, str], tmp_path: Path) -> None:
    visit_tasks("pbs", pbs_env, tmp_path / "work")


def test_a_shell_reaches_both_parts_of_a_job_of_slurm(slurm: Slurm, tmp_path: Path) -> None:
    """Nodes that differ are a heterogeneous job, of which each part has nodes of its own."""
    resources = {"gpus_per_node": [4, 2], "cpus_per_gpu": 1, "walltime": "5m"}
    place = {"env": slurm.env, "cwd": tmp_path}
    job = submit(CONTENT | {"resources": resources}, scheduler="slurm", **place)
    wait_until(lambda: len(list(job.run_dir.glob("logs/*/rank-*.out"))) == 6)
    nodes = (job.run_dir / "attempts" / "0" / "nodes").read_text().split()
    assert len(set(nodes)) == 2
    for word, node in (("0", nodes[0]), (nodes[1], nodes[1])):
        done = jobgen("shell", job.id, "--node", word, "--", "hostname", **place)
        assert (done.returncode, done.stdout) == (0, f"{node}\n"), done.stderr
    (tmp_path / "go").touch()
    assert job.wait() == "done 0"


def test_a_job_runs_in_an_allocation_of_slurm(slurm: Slurm, tmp_path: Path) -> None:
    (tmp_path / "go").touch()
    (tmp_path / "job.yaml").write_text(json.dumps(CONTENT | {"scheduler": "slurm"}))
    # By name, as a node that an allocation has just left is not taken for the next one.
    held = ["salloc", "--quiet", "-w", "n[1-2]", "-c", "1", "--ntasks-per-node=1", "-t", "5"]

    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*held, *JOBGEN, "run", *words],
            env=slurm.env,
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )

    done = run()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "DONE: all processes ended well" in done.stdout
    assert done.stdout.count("rank 0 on n1\n") == 1
    (folder,) = tmp_path.glob("runs/a/[0-9]*")
    ranks = sorted(path.read_text() for path in folder.glob("logs/*/rank-*.out"))
    assert ranks == ["rank 0 on n1\n", "rank 1 on n2\n"]
    told = jobgen("status", folder.name, env=slurm.env, cwd=tmp_path)
    assert told.stdout.startswith("done\n")
    done = run("--set", "run.command=[bash, -c, exit 5]")
    assert done.returncode == 5, done.stdout + done.stderr
    again = "; ".join(f"{shlex.join(JOBGEN)} run {more}" for more in ("", "", "--set name=b"))
    done = subprocess.run(
        [*held, "bash", "-c", f"{again}; {shlex.join(JOBGEN)} run --set run.command=true"],
        env=slurm.env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.stdout.count("DONE: all processes ended well") == 4, done.stdout + done.stderr
    assert "start 3, on n1 n2" in done.stdout
    for change, difference in (
        ("nodes=3", "nodes: 2, but the spec asks for 3"),
        ("gpus_per_node=1", "GPUs of its nodes: 0, but the spec asks for 1"),
        ("cpus_per_node=4", "CPUs of its nodes: 1, but the spec asks for 4"),
        ("memory_per_node=9GB", "memory of its nodes: 4000MB, but the spec asks for 9GB"),
    ):
        done = run("--set", f"resources.{change}")
        assert done.returncode == 2
        assert re.search(rf"job \d+ does not match the spec: {difference}\n", done.stderr)


def test_a_script_in_an_allocation_of_another_shape_says_what_srun_says(
    slurm: Slurm, tmp_path: Path
) -> None:
    resources = {**CONTENT["resources"], "cpus_per_node": 8}
    content = CONTENT | {"scheduler": "slurm", "resources": resources}
    (tmp_path / "job.yaml").write_text(json.dumps(content))
    made = jobgen("render", "job.yaml", "-o", "job.sbatch", env=slurm.env, cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    done = slurm.run(
        *("salloc", "--quiet", "-N2", "-c1", "--ntasks-per-node=1", "-t5", "bash", "job.sbatch"),
        cwd=tmp_path,
        check=False,
    )
    told = done.stdout + done.stderr
    assert done.returncode != 0, told
    assert "srun: error: " in told
    assert "More processors requested than permitted" in told


def test_a_job_runs_in_an_allocation_of_pbs(pbs: Pbs, tmp_path: Path) -> None:
    (tmp_path / "go").touch()
    (tmp_path / "job.yaml").write_text(json.dumps(CONTENT | {"scheduler": "pbs"}))
    run = f"PYTHONPATH={Path.cwd()} {' '.join(JOBGEN)} run"
    other = (
        "nodes=3",
        "gpus_per_node=1",
        "cpus_per_node=4",
        "memory_per_node=2GB",
        "gpus_per_node=[2,1]",
    )
    lines = [f"cd {tmp_path}", f"{run} >told 2>&1", "echo $? >code"]
    lines += [f"{run} --set resources.{change} 2>>shapes; echo $? >>codes" for change in other]
    (tmp_path / "held").write_text("\n".join(lines) + "\n")
    select = "select=1:ncpus=2:mem=1gb+1:ncpus=3:mem=1gb:ngpus=1"
    job_id = pbs.submit(
        "-l", select, "-l", "place=scatter", "-l", "walltime=300", "held", cwd=tmp_path
    )
    pbs.wait(job_id)
    assert (tmp_path / "codes").read_text() == "2\n" * len(other)
    assert re.findall("does not match the spec: (.*)", (tmp_path / "shapes").read_text()) == [
        "nodes: 2, but the spec asks for 3",
        "GPUs of its nodes: 1, 0, but the spec asks for 1",
        "CPUs of its nodes: 3, 2, but the spec asks for 4",
        "memory of its nodes: 1GB, but the spec asks for 2GB",
        "GPUs of its nodes: 1, 0, but the spec asks for 2, 1",
    ]
    told = (tmp_path / "told").read_text()
    assert (tmp_path / "code").read_text() == "0\n", told
    assert "DONE: all processes ended well" in told
    job = Job(job_id, tmp_path, "a")
    ranks = sorted(path.read_text() for path in job.run_dir.glob("logs/*/rank-*.out"))
    assert ranks == ["rank 0 on n1\n", "rank 1 on n2\n"]


@pytest.mark.slow
def test_a_job_runs_here_in_the_foreground_and_nowhere_without_an_allocation(
    tmp_path: Path,
) -> None:
    (tmp_path / "go").touch()
    (tmp_path / "job.yaml").write_text(json.dumps(CONTENT | {"scheduler": "local"}))
    done = jobgen("run", env=os.environ, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "DONE: all processes ended well" in done.stdout
    done = jobgen("run", "--scheduler", "pbs", env=os.environ, cwd=tmp_path)
    assert done.returncode == 2
    assert "this shell holds no PBS job; get one with salloc, qsub -I" in done.stderr
    done = jobgen("run", "--set", "array.tasks=3", env=os.environ, cwd=tmp_path)
    assert done.returncode == 2
    assert "an array cannot run in one allocation; choose a task with --task N" in done.stderr
    done = jobgen("run", "--set", "snapshot=true", env=os.environ, cwd=tmp_path)
    assert done.returncode == 2
    assert "uses the code in this folder; give --set snapshot=false" in done.stderr
