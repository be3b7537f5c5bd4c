"""The trainer as a job on unequal nodes of a real Slurm: killed, and continued."""

import json
import sys
from pathlib import Path

from cluster_fixtures import Cluster, skip_without
from jobs import Job, submit

skip_without("torch")

from .conftest import ROOT  # noqa: E402


def train(cluster: Cluster, folder: Path, name: str, mode: str = "direct") -> Job:
    """Submit 150 steps on 2 and 1 processes, with the run folder `out`."""
    args = {"out": str(folder / "out"), "steps": 150, "save-every": 10, "log-every": 1}
    args |= {"context": 16, "batch-tokens": 192, "val-items": 4}
    content = {
        "name": name,
        "resources": {"nodes": 2, "cpus_per_node": 2, "walltime": "5m"},
        "launch": {"processes_per_node": [2, 1], "mode": mode},
        "environment": {"venv": sys.prefix, "variables": {"PYTHONPATH": str(ROOT)}},
        "run": {"module": "jobgen.trainer", "args": args},
    }
    return submit(content, scheduler="slurm", cwd=folder, env=cluster.env)


def weights(folder: Path) -> dict[str, bytes]:
    from jobgen.trainer.checkpoint import Checkpoints, read_state, read_whole

    path, _ = Checkpoints(folder / "out").newest_whole()
    assert path is not None
    assert read_state(path)["step"] == 150
    assert read_state(path)["world_size"] == 3
    return {name: tensor.numpy().tobytes() for name, tensor in read_whole(path).items()}


def test_a_job_whose_rank_is_killed_is_continued_by_the_next_to_the_same_bits(
    slurm: Cluster, tmp_path: Path
) -> None:
    from jobgen.trainer.checkpoint import Checkpoints

    whole = train(slurm, tmp_path / "whole", "whole")
    assert whole.wait() == "done 0", whole.everything()

    killed = train(slurm, tmp_path / "killed", "killed", "torchrun")
    checkpoints = Checkpoints(tmp_path / "killed" / "out")
    killed.wait_for(lambda: checkpoints.newest_step() >= 30)
    # The oldest: what it forks has its words for a moment. The agent's own are others.
    (rank,) = slurm.on("n2", "pgrep", "-o", "-f", r"jobgen\.trainer --out").split()
    command = slurm.on("n2", "cat", f"/proc/{rank}/cmdline")
    assert "torch.distributed" not in command, command
    slurm.on("n2", "kill", "-KILL", rank)
    assert killed.wait().startswith("failed"), killed.everything()
    slurm.wait(killed.id)
    assert not any(slurm.processes(r"jobgen\.trainer --out").values())

    again = train(slurm, tmp_path / "killed", "killed", "torchrun")
    assert again.wait() == "done 0", again.everything()
    lines = (tmp_path / "killed/out/metrics.jsonl").read_text().splitlines()
    starts = [json.loads(line) for line in lines if json.loads(line)["kind"] == "start"]
    assert starts[0]["micro_batches"] == [1, 1, 1]
    assert len(starts) == 2
    assert starts[1]["step"] >= 30
    assert weights(tmp_path / "killed") == weights(tmp_path / "whole")
