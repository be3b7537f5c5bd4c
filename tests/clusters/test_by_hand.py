"""A colleague edits Part 1 and submits by plain sbatch or qsub; later jobgen knows the job."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from cluster_fixtures import Cluster
from jobs import Job, jobgen, spec

pytestmark = pytest.mark.cluster


TWO = {"nodes": 2, "cpus_per_node": 2, "walltime": "5m"}
# The program's own line, and not what the header says of it.
PROGRAM = ("allreduce.py\n", "allreduce.py --raise-on 2\n")


def start(cluster: Cluster, folder: Path, *edits: tuple[str, str]) -> Job:
    """Render, edit the text of Part 1, and submit the file with the scheduler's own command."""
    (folder / "job.yaml").write_text(json.dumps(spec(resources=TWO)))
    script = folder / f"job.{'sbatch' if cluster.kind == 'slurm' else 'pbs'}"
    words = ("render", "--scheduler", cluster.kind, "-o", script.name)
    assert jobgen(*words, env=os.environ, cwd=folder).returncode == 0
    text = script.read_text()
    for old, new in edits:
        assert old in text
        text = text.replace(old, new, 1)
    script.write_text(text)
    command = "sbatch" if cluster.kind == "slurm" else "qsub"
    done = subprocess.run(
        [command, script.name], env=cluster.env, cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return Job(done.stdout.split()[-1], folder, "reduce")


def test_an_edited_script_runs_as_edited_and_jobgen_knows_its_job(
    cluster: Cluster, tmp_path: Path
) -> None:
    job = start(
        cluster,
        tmp_path,
        ("--nproc-per-node=2", "--nproc-per-node=3"),
        ("environment() {", "environment() {\n    export FROM_HAND=yes"),
        PROGRAM,
    )
    assert job.wait() == "failed 1", job.everything()
    assert len(list(job.run_dir.glob("logs/*/rank-*.out"))) == 6, "three processes a node"
    name = job.run_dir.name
    for words in (("status", name), ("logs", "reduce"), ("diagnose", f"runs/reduce/{name}")):
        answer = jobgen(*words, env=cluster.env, cwd=tmp_path)
        assert answer.returncode == 0, answer.stderr
    assert "rank 2" in answer.stdout
    assert "planted on rank 2" in answer.stdout
    listed = jobgen("list", env=cluster.env, cwd=tmp_path).stdout
    assert job.id in listed
    assert "failed" in listed
    report = jobgen("report", name, "--text", env=cluster.env, cwd=tmp_path)
    assert report.returncode == 0, report.stderr
    assert "planted on rank 2" in report.stdout
    # The job's own output leads with the user's error.
    (output,) = [
        path for path in tmp_path.iterdir() if path.is_file() and path.name.startswith("reduce")
    ]
    lines = output.read_text().splitlines()
    ours = [line for line in lines if line.startswith("jobgen:")]
    assert len(ours) <= 5, lines
    assert len(lines) <= 30, lines
    assert any("RuntimeError: planted on rank 2" in line for line in lines)
