"""`status`, `diagnose`, the report and the script say the same of a job: who it was, and what."""

import html
import re
from pathlib import Path

import pytest
from fault_archive import FOLDER, read_fault
from script_says import differ, show_end
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
# What the script of today leaves: its words are compared too.
OF_TODAY = FAULTS[5], FAULTS[7], FAULTS[8]


@pytest.mark.parametrize("name", FAULTS)
def test_all_that_tells_of_a_failed_job_says_the_same(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = read_fault(FOLDER / f"{name}.txt")
    job = fault.unpack(tmp_path)
    found = diagnose(job, fault.state, now=fault.now)
    headline = found.headline
    if name in OF_TODAY:
        assert differ(fault, found, tmp_path) == ""
        assert found.title.rpartition(": ")[2][:30] in show_end(tmp_path / fault.job)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert found.who
    assert headline.startswith(f"{found.who}: ")
    assert headline in jobgen("diagnose", job.id).out
    assert headline in jobgen("report", job.id, "--text").out
    page = html.unescape(jobgen("report", job.id, "-o", "-").out)
    assert headline in re.sub(r"<[^>]*>", "", page)
    asked = jobgen("status", job.id)
    assert asked.out.startswith(f"{fault.state.name}\n")
    assert headline in asked.out
    assert jobgen("wait", job.id).err.count(headline) == 1


@pytest.mark.parametrize(
    "name", ["project-missing-pbs", "project-read-only-pbs", "project-read-only-pbs-direct"]
)
def test_a_node_that_was_not_started_is_told_in_the_words_of_the_script(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = read_fault(FOLDER / f"{name}.txt")
    job = fault.unpack(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    headline = diagnose(job, fault.state, now=fault.now).headline
    assert headline.startswith("n2: not started: ")
    (output,) = tmp_path.glob("train.o*")
    assert f"jobgen: FAILED: {headline}\n" in output.read_text()
    # The script noticed within seconds of its start.
    began, failed = (job.run_dir / "attempts/0" / name for name in ("job", "failed"))
    assert failed.stat().st_mtime - began.stat().st_mtime < 10
    assert jobgen("status", job.id)[1:] == (f"failed\n{headline}\n", "")
    assert f"failed ({headline})\n" in jobgen("wait", job.id).err
    assert headline in jobgen("report", job.id, "--text").out


def test_a_chain_is_judged_by_the_start_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On PBS all starts are queued at once, and those after a failure end as they begin."""
    fault = read_fault(FOLDER / "chain-of-a-cut-checkpoint-pbs-direct.txt")
    job = fault.unpack(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert (job.run_dir / "attempts/2/outcome").exists()
    assert "start 2\n" in jobgen("status", job.id).out
    assert read_nodes(job) == ["n1"]
