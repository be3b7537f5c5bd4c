"""The comparison of nodes, on clusters with faults that are planted."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from cluster_fixtures import Cluster, skip_without
from jobs import Job, diagnosed, spec, submit
from support import edited, plan_of


@pytest.mark.parametrize(
    ("resources", "scheduler", "gpus"),
    [
        ("{nodes: 2}", "slurm", (0, 0)),
        ("{nodes: 2, gpus_per_node: 4}", "pbs", (4, 4)),
        ("{gpus_per_node: [2, 8], cpus_per_node: 8}", "slurm", (8, 2)),
        ("{nodes: 2, gpus_per_node: 4}", "local", (0, 0)),
    ],
)
def test_what_each_node_must_see(resources: str, scheduler: str, gpus: tuple[int, ...]) -> None:
    text = edited(("{nodes: 2}", resources), ("", "preflight: true\n"))
    plan = plan_of(text, scheduler=scheduler)
    assert plan.nodes.preflight == gpus
    assert plan_of(text, "preflight=false", scheduler=scheduler).nodes.preflight is None


@pytest.fixture(params=["slurm", "pbs"])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    skip_without("torch")
    found: Cluster = request.getfixturevalue(request.param)
    return found


# Python reads this at its start; preflight is a program that bash hands to python3 by its input.
PLANTED = """\
import socket, sys
if sys.argv[0] == "-":
    import time, torch
    host = socket.gethostname()
    torch.cuda.device_count = lambda: {"n1": 2, "n2": 1, "n3": 2}[host]
    torch.cuda.set_device = lambda device: None
    torch.cuda.mem_get_info = lambda: (139e9, 140e9)
    torch.cuda.get_device_name = lambda device: "H200"
    if host == "n2":
        true_time = time.time
        time.time = lambda: true_time() + 41.3
    if host == "n3":
        torch.__version__ = "2.9.1"
"""


def run(cluster: Cluster, cwd: Path, **changes: Any) -> Job:
    content = spec(**changes) | {"preflight": True}
    return submit(content, scheduler=cluster.kind, cwd=cwd, env=cluster.env)


@pytest.mark.parametrize(
    ("cluster", "mode"),
    [("slurm", "torchrun"), ("pbs", "direct")],
    indirect=["cluster"],
)
def test_where_all_is_well_it_says_so(cluster: Cluster, tmp_path: Path, mode: str) -> None:
    """The program then meets by the same address and port."""
    resources = {"nodes": 2, "cpus_per_node": 1, "walltime": "5m"}
    launch = {"interface": "eth0", "mode": mode, "processes_per_node": 1}
    job = run(cluster, tmp_path, resources=resources, launch=launch)
    assert job.wait() == "done 0", job.everything()
    log = (job.run_dir / "logs" / "n1" / "rank-0.err").read_text()
    pattern = r"preflight: \d+ processes agree; all-reduce \S+ GB/s; it took [\d.]+ s"
    assert re.search(pattern, log), log
    assert [rank["sum"] for rank in job.ranks().values()] == [3.0, 3.0]
    reports = {
        path.stem: json.loads(path.read_text()) for path in job.run_dir.glob("preflight/*.json")
    }
    assert reports.keys() == {"n1", "n2"}
    for report in reports.values():
        assert report["clock_s"] == 0
        assert report["torch"].startswith("2.")
        assert report["allreduce_gb_s"] > 0


@pytest.mark.parametrize("cluster", ["slurm"], indirect=True)
def test_what_is_planted_is_found_and_named(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(PLANTED)
    resources = {"nodes": 3, "gpus_per_node": 2, "cpus_per_node": 2, "walltime": "5m"}
    environment = {"venv": sys.prefix, "variables": {"PYTHONPATH": str(tmp_path)}}
    launch = {"mode": "direct", "processes_per_node": 1}
    job = run(cluster, tmp_path, resources=resources, environment=environment, launch=launch)
    assert job.wait() == "failed 1", job.everything()
    for rank in range(3):
        log = (job.run_dir / "logs" / f"n{rank + 1}" / f"rank-{rank}.err").read_text()
        for fault in (
            r"n3: torch 2\.9\.1, others 2\.13\.0",
            r"n2: clock (3\d|4[01]) s ahead",  # but what a busy machine takes to tell
            "n2: sees 1 GPUs, plan says 2",
        ):
            assert re.search(f"jobgen: preflight: {fault}", log), job.everything()
    found = diagnosed(job, cluster, tmp_path)
    assert (found["cause"], found["node"]) == ("version-mismatch", "n3")
    assert any("n3: torch 2.9.1, others" in line for line in found["evidence"]), found
    assert not job.ranks()
