"""The program that compares the nodes: on its own, and on clusters with faults that are planted."""

import json
import re
import socket
import subprocess
import sys
import time
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from cluster_fixtures import Cluster, Slurm
from jobs import Job, diagnosed, spec, submit
from support import ROOT, edited, plan_of

from jobgen.diagnose import CAUSES
from jobgen.rendering import header

PROGRAM = ROOT / "templates" / "runtime" / "features" / "preflight.py"
REPORT = {
    "host": "n1.cluster",
    "address": "10.0.0.1",
    "python": "3.11.7",
    "torch": "2.13.0",
    "cuda": "12.8",
    "nccl": "2.28.9",
    "driver": "570.86",
    "packages": ["a-1", "b-2"],
    "devices": [{"name": "H200", "free_gb": 139.0, "gb": 140.0}] * 4,
    "gpus": 4,
    "free_gb": {"TMPDIR": 100.0, "run folder": 1000.0},
    "reached": None,
    "clock_s": 0.01,
}


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The program as the first of four nodes would load it."""
    (tmp_path / "nodes").write_text("n1\nn2\nn3\nn4\n")
    words = ["0", "4", "4", "24123", "n1", "10.0.0.1", "hsn0", str(tmp_path), str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["-", *words, "n1", "n1"])
    loader = SourceFileLoader("preflight", str(PROGRAM))
    found = spec_from_loader("preflight", loader)
    assert found is not None
    module = module_from_spec(found)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    loader.exec_module(module)
    return module


def reports(**changes: dict[str, Any]) -> list[dict[str, Any]]:
    """Those of four nodes, with what is different on some."""
    return [{**REPORT, "node": f"n{i}", **changes.get(f"n{i}", {})} for i in range(1, 5)]


def test_nodes_that_are_alike_have_no_faults(program: ModuleType) -> None:
    assert program.faults(reports()) == []


SHARED = "build the environment on a file system that all nodes share"


@pytest.mark.parametrize(
    ("node", "changes", "fault"),
    [
        ("n3", {"torch": "2.9.1"}, f"n3: torch 2.9.1, others 2.13.0; {SHARED}"),
        ("n1", {"python": "3.10.2"}, f"n1: python 3.10.2, others 3.11.7; {SHARED}"),
        ("n4", {"cuda": None}, f"n4: cuda None, others 12.8; {SHARED}"),
        (
            "n2",
            {"packages": ["a-1", "b-3"]},
            f"n2: has b-3 and lacks b-2, unlike the others; {SHARED}",
        ),
        (
            "n2",
            {"driver": "550"},
            "n2: driver 550, others 570.86; ask for nodes that are alike, or tell the "
            "administrators",
        ),
        ("n2", {"clock_s": 41.2}, "n2: clock 41 s ahead; tell the administrators"),
        ("n2", {"clock_s": -3.0}, "n2: clock 3 s behind; tell the administrators"),
        (
            "n4",
            {"devices": REPORT["devices"][:3]},  # type: ignore[index]
            "n4: sees 3 GPUs, plan says 4; see nvidia-smi there, and CUDA_VISIBLE_DEVICES; exclude "
            "n4",
        ),
        (
            "n4",
            {"devices": [{"name": "H200", "free_gb": 3.0, "gb": 140.0}] * 4, "gpus": 4},
            "n4: GPU 0 has 3.0 of 140.0 GB free; another program is on it; ask for whole nodes, or "
            "exclude it",
        ),
        (
            "n3",
            {"free_gb": {"TMPDIR": 0.0, "run folder": 9.0}},
            "n3: 0.0 GB free in its TMPDIR; make room there",
        ),
        (
            "n2",
            {"reached": "timed out"},
            "n1 cannot reach n2 at 10.0.0.1 over hsn0: timed out; set launch.interface, or ask "
            "whether a firewall stands between nodes",
        ),
    ],
)
def test_each_difference_is_a_sentence_with_a_remedy(
    program: ModuleType, node: str, changes: dict[str, Any], fault: str
) -> None:
    assert program.faults(reports(**{node: changes}))[0] == fault
    said = f"jobgen: preflight: {fault}"
    known = [found for cause in CAUSES if (found := re.search(cause.pattern, said))]
    assert node in known[0].groups(), "and `jobgen diagnose` knows whose it is"


def test_of_two_nodes_the_first_is_right(program: ModuleType) -> None:
    two = reports(n2={"torch": "2.9.1"})[:2]
    assert program.faults(two) == [f"n2: torch 2.9.1, n1 2.13.0; {SHARED}"]


def test_more_devices_than_asked_for_are_no_fault(program: ModuleType) -> None:
    """PBS without its hook for cgroups shows a job all devices of a node."""
    assert program.faults(reports(n2={"devices": REPORT["devices"] * 2})) == []  # type: ignore[operator]


LOG = "n1:41:77 [0] NCCL INFO {}\n"
SOCKETS = LOG.format("Initialized NET plugin Socket") + LOG.format("Using network Socket")
OFI = LOG.format("NET/OFI Selected provider is cxi, fabric is cxi (found 4 nics)")


@pytest.mark.parametrize(
    ("said", "network"),
    [
        (SOCKETS, "Socket"),
        (SOCKETS + LOG.format("Channel 00/0 : 1[0] -> 0[0] [receive] via NET/Socket/0"), "Socket"),
        (
            LOG.format("NET/Socket : Using [0]hsn0:10.0.0.1<0>") + LOG.format("Using network IB"),
            "IB",
        ),
        (LOG.format("Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0(1)/GDRDMA"), "IB"),
        (OFI + LOG.format("Using network AWS Libfabric"), "AWS Libfabric"),
        (
            OFI + LOG.format("Channel 01 : 0[0] -> 1[0] via NET/AWS Libfabric/1/GDRDMA"),
            "AWS Libfabric",
        ),
        (OFI + LOG.format("comm 0x5 rank 0 nranks 2 - Init START"), None),
        ("", None),
    ],
)
def test_nccls_own_lines_tell_the_network(
    program: ModuleType, said: str, network: str | None
) -> None:
    assert program.network_of(said) == network


@pytest.mark.parametrize(
    ("site", "changes", "said", "warned"),
    [
        ("ncar-derecho", (), SOCKETS, "slingshot"),
        ("ncar-derecho", (), LOG.format("Using network AWS Libfabric"), None),
        ("cineca-leonardo", (), SOCKETS, "infiniband"),
        ("ncar-derecho", ("environment.variables.NCCL_NET=Socket",), SOCKETS, None),
        ("slurm-generic", (), SOCKETS, None),
        ("ncar-derecho", ("preflight=false",), SOCKETS, None),
    ],
)
def test_sockets_are_warned_of_where_the_site_has_a_fabric(
    program: ModuleType,
    tmp_path: Path,
    site: str,
    changes: tuple[str, ...],
    said: str,
    warned: str | None,
) -> None:
    text = "name: a\naccount: a\nresources: {nodes: 2, gpus_per_node: 4}\nrun: {module: m}\n"
    plan = plan_of(text, "preflight=true", *changes, site=site)
    (tmp_path / "plan.json").write_text(header.write_json(header.describe_plan(plan)))
    told = program.describe_network(said)
    assert told["nccl_network"] in ("Socket", "AWS Libfabric")
    assert (warned is not None) == ("warning" in told)
    assert f"not the site's {warned}" in told.get("warning", "not the site's None")


@pytest.mark.torch
@pytest.mark.parametrize("head", ["127.0.0.1", "::1"])
def test_two_nodes_meet_by_either_kind_of_address(tmp_path: Path, head: str) -> None:
    (tmp_path / "nodes").write_text("n1\nn2\n")
    with socket.create_server(("", 0)) as free:
        port = free.getsockname()[1]
    places = ["2", "0", str(port), head, head, "", str(tmp_path), str(tmp_path)]
    nodes = [
        subprocess.Popen(
            [sys.executable, PROGRAM, str(index), *places, f"n{index + 1}", "n1"],
            stdout=subprocess.PIPE,
            text=True,
        )
        for index in range(2)
    ]
    said = [node.communicate(timeout=120)[0] for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], said
    assert "preflight: 2 nodes agree; all-reduce " in said[0]
    assert json.loads((tmp_path / "preflight" / "n2.json").read_text())["reached"] is None


def test_it_is_python_as_the_rest_is(tmp_path: Path) -> None:
    copy = tmp_path / "preflight.py"
    copy.write_text(PROGRAM.read_text())
    ruff = [sys.executable, "-m", "ruff"]
    config = ["--config", str(ROOT / "pyproject.toml"), str(copy)]
    for words in (["check", "-q"], ["format", "-q", "--check"]):
        done = subprocess.run([*ruff, *words, *config], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


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
    pytest.importorskip("torch", reason="jobs need torch")
    found: Cluster = request.getfixturevalue(request.param)
    return found


# Python reads this at its start; the program of the preflight is what python3 reads from stdin.
PLANTED = """\
import socket, sys
if "-" in sys.orig_argv:
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
    assert float(found[1]) < 10
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
    pytest.importorskip("torch", reason="jobs need torch")
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
