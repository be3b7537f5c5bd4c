"""The comparison of nodes, on clusters with faults that are planted."""

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from cluster_fixtures import Cluster, Slurm, skip_without
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
    assert plan.nodes.preflight is not None
    assert plan.nodes.preflight.gpus == gpus
    assert plan_of(text, "preflight=false", scheduler=scheduler).nodes.preflight is None


@pytest.fixture(params=["slurm", "pbs"])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    skip_without("torch")
    found: Cluster = request.getfixturevalue(request.param)
    return found


# Python reads this at its start; bash hands the program of the preflight to python3 as a pipe.
PLANTED = """\
import socket, sys
if any(word.startswith("/dev/fd/") for word in sys.orig_argv):
    import time, torch
    host = socket.gethostname()
    devices = {"n1": 2, "n2": 1, "n3": 2}[host]
    torch.cuda.device_count = lambda: devices
    torch.cuda.mem_get_info = lambda device: (139e9, 140e9)
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


def test_where_all_is_well_it_costs_seconds(cluster: Cluster, tmp_path: Path) -> None:
    job = run(cluster, tmp_path, launch={"interface": "eth0"})
    assert job.wait() == "done 0", job.everything()
    log = (job.run_dir / "logs" / "n1" / "agent.log").read_text()
    found = re.search(r"preflight: 3 nodes agree; all-reduce [\d.]+ GB/s; it took ([\d.]+) s", log)
    assert found, log
    # Three nodes import torch on this one machine, which may be busy with other tests.
    began = time.monotonic()
    imports = [subprocess.Popen([sys.executable, "-c", "import torch"]) for _ in range(3)]
    assert [process.wait() for process in imports] == [0, 0, 0]
    assert float(found[1]) < max(10, 5 * (time.monotonic() - began))
    reports = {path.stem: json.loads(path.read_text()) for path in job.run_dir.glob("preflight/*")}
    assert reports.keys() == {"n1", "n2", "n3"}
    for node, report in reports.items():
        assert report["host"] == node
        assert report["address"].startswith("10.")
        assert abs(report.get("clock_s", 0)) < 1
        assert report["torch"].startswith("2.")
        assert report["free_gb"]["run folder"] > 0
    assert reports["n1"]["allreduce_gb_s"] > 0


def test_what_is_planted_is_found_and_named(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(PLANTED)
    resources = {"nodes": 3, "gpus_per_node": 2, "cpus_per_node": 2, "walltime": "5m"}
    environment = {"venv": sys.prefix, "variables": {"PYTHONPATH": str(tmp_path)}}
    job = run(cluster, tmp_path, resources=resources, environment=environment, launch={})
    log = job.run_dir / "logs" / "n1" / "agent.log"
    job.wait_for(log.exists)
    began = time.monotonic()
    assert job.wait(40) == "failed 1", job.everything()
    assert time.monotonic() - began < 15 + 5  # and the job's own end
    for fault in (
        "n3: torch 2.9.1, others 2.13.0",
        "n2: clock 41 s ahead; tell the administrators",
        "n2: sees 1 GPUs, plan says 2; see nvidia-smi there",
    ):
        assert fault in log.read_text(), job.everything()
    found = diagnosed(job, cluster, tmp_path)
    assert (found["cause"], found["node"], found["rank"]) == ("version-mismatch", "n3", None)
    assert '"torch": "2.9.1"' in found["evidence"][1]
    assert not job.ranks()


def test_a_port_that_is_blocked_is_named_with_both_ends(slurm: Slurm, tmp_path: Path) -> None:
    skip_without("torch")
    # What the first node answers from such a port does not get to n2, as behind a firewall.
    rule = ["to", "10.77.0.12", "ipproto", "tcp", "sport", "20000-29999", "blackhole"]
    slurm.on("n1", "ip", "rule", "add", *rule)
    try:
        job = run(slurm, tmp_path, launch={"interface": "eth0"})
        log = job.run_dir / "logs" / "n1" / "agent.log"
        job.wait_for(log.exists)
        began = time.monotonic()
        assert job.wait(40) == "failed 1", job.everything()
        assert time.monotonic() - began < 15 + 5
        pattern = r"n2 cannot reach n1:2\d{4} over eth0: timed out; set launch\.interface"
        assert re.search(pattern, log.read_text()), job.everything()
        found = diagnosed(job, slurm, tmp_path)
        assert (found["cause"], found["node"]) == ("rendezvous", "n2"), found
    finally:
        slurm.on("n1", "ip", "rule", "delete", *rule)
