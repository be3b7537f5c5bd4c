"""`status`, `diagnose`, the report and the script say the same of a job: who it was, and what."""

import html
import re
from pathlib import Path

import pytest
from fault_archive import FOLDER, read_fault
from support import jobgen

from jobgen.diagnose import diagnose
from jobgen.jobs.run_folder import read_nodes

FAULTS = (
    "raise-slurm",
    "argument-pbs-direct",
    "node-tmp-full-slurm-direct",
    "kill-pbs",
    "leave-pbs",
    "nan-on-two-slurm",
    "task-launch-slurm",
    "cpp-what-slurm-direct",
    "hydra-primary-config-pbs-direct",
)


@pytest.mark.parametrize("name", FAULTS)
def test_all_that_tells_of_a_failed_job_says_the_same(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = read_fault(FOLDER / f"{name}.txt")
    job = fault.unpack(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = diagnose(job, fault.state, now=fault.now)
    headline = found.headline
    assert found.who
    assert headline.startswith(f"{found.who}: ")
    assert headline in jobgen("diagnose", job.id).out
    assert headline in jobgen("report", job.id, "--text").out
    page = html.unescape(jobgen("report", job.id, "-o", "-").out)
    assert headline in re.sub(r"<[^>]*>", "", page)
    assert fault.state.name in jobgen("status", job.id).out


def test_a_chain_is_judged_by_the_start_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On PBS all starts are queued at once, and those after a failure end as they begin."""
    fault = read_fault(FOLDER / "chain-of-a-cut-checkpoint-pbs-direct.txt")
    job = fault.unpack(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert (job.run_dir / "attempts/2/outcome").exists()
    assert "start 2\n" in jobgen("status", job.id).err
    assert read_nodes(job) == ["n1"]
