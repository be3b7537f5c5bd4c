"""Many jobs from eight threads of one process: each has an id of its own, and runs once."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from cluster_fixtures import Slurm
from support import ROOT

PROGRAM = """
import sys
from concurrent.futures import ThreadPoolExecutor
import jobgen

def submit(number):
    spec = {
        "name": f"job{number % 4}",
        "scheduler": sys.argv[1],
        "resources": {"nodes": 1, "cpus_per_node": 1, "walltime": "5m"},
        "launch": {"mode": "direct"},
        "environment": {"venv": sys.prefix},
        "run": {"command": ["bash", "-c", f"echo {number} >>ran"]},
        "report": {"usage": False},
    }
    return jobgen.submit(spec, warn=lambda said: None)  # of a venv on this machine's disk

with ThreadPoolExecutor(8) as threads:
    jobs = list(threads.map(submit, range(int(sys.argv[2]))))
for seen in jobgen.Watch(jobs).until_over():
    pass
assert {each.state.name for each in seen.jobs} == {"done"}, seen
print(*(job.id for job in jobs))
"""


def submit_many(scheduler: str, count: int, env: dict[str, str], cwd: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, scheduler, str(count)],
        env={**env, "PYTHONPATH": str(ROOT)},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(set(done.stdout.split())) == count
    assert len(list(cwd.glob("runs/*/*/job.json"))) == count
    ran = Counter((cwd / "ran").read_text().split())
    assert ran == Counter(map(str, range(count)))
    assert not list(cwd.glob("runs/*/submissions/*"))


@pytest.mark.slow
def test_on_this_machine(tmp_path: Path) -> None:
    submit_many("local", 16, dict(os.environ), tmp_path)
    ids = [path.parent.name for path in tmp_path.glob("runs/*/*/job.json")]
    assert len({int(job_id.rpartition("-")[2]) % 10_000 for job_id in ids}) == 16  # their ports


def test_on_slurm(slurm: Slurm, tmp_path: Path) -> None:
    submit_many("slurm", 16, slurm.env, tmp_path)
