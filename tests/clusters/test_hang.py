"""A rank of the trainer hangs in a real run on three nodes: `jobgen diagnose` names it.

Other faults are planted in `tests/diagnose/faults`, or by the tests that are about them.
"""

from pathlib import Path

from cluster_fixtures import Cluster, skip_without
from jobs import PROGRAMS, diagnosed, spec, submit
from support import ROOT

skip_without("torch")


def test_a_rank_that_hangs(slurm: Cluster, tmp_path: Path) -> None:
    args = {"task": str(PROGRAMS / "hanging_task.py"), "steps": 40, "log-every": 1}
    args["hang-after"] = 30
    # Agents of torchrun take as much processor time as ranks: it does without.
    content = spec(launch={"mode": "direct"}, run={"module": "jobgen.trainer", "args": args})
    content["environment"] |= {"variables": {"PYTHONPATH": str(ROOT)}}
    job = submit(content, scheduler="slurm", cwd=tmp_path, env=slurm.env)
    assert job.wait() == "failed 1", job.everything()
    found = diagnosed(job, slurm, tmp_path)
    assert (found["cause"], found["rank"], found["node"]) == ("hang", 1, "n2"), found
    assert found["waited_for"] == [1]
    assert "hanging_task.py:" in found["place"]
