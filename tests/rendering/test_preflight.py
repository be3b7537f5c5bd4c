"""Preflight: the processes of a job compare their nodes, and try GPUs and network, before it runs.

Each test starts the very function that scripts carry, on "nodes" of this machine: processes with
other names, of which some lines before its program make some different.
"""

import json
import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from forked import Server, ask_by
from support import ROOT, plan_of

from jobgen.diagnose.cause import CAUSES
from jobgen.jobs.run_folder import read_network
from jobgen.rendering import header
from jobgen.rendering.render import render

RUNTIME = ROOT / "templates" / "runtime"
JOB = "name: a\nscheduler: slurm\nresources: {nodes: 2}\npreflight: true\nrun: {module: m}\n"
MOST_LINES = 80  # that it adds to a script
PLANTED = "import os, sys\nnode = os.environ['JOBGEN_NODE']\n"


class Said(NamedTuple):
    """What the processes of a preflight said, in the order of their ranks."""

    codes: list[int]
    texts: list[str]
    reports: dict[str, dict[str, object]]  # of the nodes

    @property
    def faults(self) -> list[str]:
        """What all of them found wrong, without jobgen's name."""
        found = [re.findall(r"^jobgen: preflight: (.*)$", text, re.M) for text in self.texts]
        assert all(one == found[0] for one in found), self.texts
        return found[0]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """One that has imported torch: what is tried is not how Python starts."""
    early = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"}
    server = Server({**os.environ, **early}, ("torch", "torch.distributed"))
    yield server
    server.end()


def preflight(
    folder: Path, *nodes: str, python: Sequence[str], gpus: int = 0, planted: str = ""
) -> Said:
    """Run one process for each of the names in `nodes`; `python` are its words before `-`."""
    (folder / "planted.py").write_text(PLANTED + planted)
    (folder / "bin").mkdir()
    stand_in = folder / "bin" / "python3"
    stand_in.write_text(f'#!/bin/sh\ncat {folder}/planted.py - | {shlex.join(python)} "$@"\n')
    stand_in.chmod(0o755)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    script = f". {RUNTIME}/core.sh; . {RUNTIME}/preflight.sh; gpus=({gpus}); preflight; echo began"
    processes = []
    for rank, node in enumerate(nodes):
        own = {
            "PATH": f"{stand_in.parent}:{os.environ['PATH']}",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "RANK": str(rank),
            "WORLD_SIZE": str(len(nodes)),
            "LOCAL_RANK": str(nodes[:rank].count(node)),
            "LOCAL_WORLD_SIZE": str(nodes.count(node)),
            "GROUP_RANK": "0",
            "JOBGEN_NODE": node,
            "JOBGEN_RUN_DIR": str(folder),
            "OMP_NUM_THREADS": "1",
        }
        words = ["bash", "-euc", script]
        pipe = subprocess.PIPE
        processes.append(subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True, env=own))
    told = [process.communicate(timeout=900) for process in processes]
    codes = [process.returncode for process in processes]
    assert [out for out, _ in told] == ["" if code else "began\n" for code in codes], told
    reports = {path.stem: json.loads(path.read_text()) for path in folder.glob("preflight/*.json")}
    return Said(codes, [errors for _, errors in told], reports)


@pytest.mark.torch
def test_nodes_that_are_alike_and_reach_each_other_start(tmp_path: Path, server: Server) -> None:
    said = preflight(tmp_path, "n1", "n1", "n2", python=ask_by(server))
    assert said.codes == [0, 0, 0]
    pattern = r"jobgen: preflight: 3 processes agree; all-reduce \S+ GB/s; it took \d+\.\d s\n"
    assert re.fullmatch(pattern, said.texts[0]), said.texts
    assert said.texts[1:] == ["", ""]
    assert said.reports.keys() == {"n1", "n2"}
    for node, report in said.reports.items():
        assert report["node"] == node
        assert report["python"] == sys.version.split()[0]
        assert str(report["torch"]).startswith("2.")
        assert report["clock_s"] == 0  # the processes have one clock, however they wait
        sizes = [float(str(report[f"allreduce_{size}"])) for size in (2**16, 2**19, 2**22)]
        assert report["allreduce_gb_s"] == sizes[-1]
        assert min(sizes) > 0


@pytest.mark.torch
def test_every_difference_is_said_by_every_process_at_once(tmp_path: Path, server: Server) -> None:
    planted = """\
import time, torch
if node == "n2":
    true_time = time.time
    time.time = lambda: true_time() + 90_000
if node == "n3":
    torch.__version__ = "2.9.1"
"""
    said = preflight(tmp_path, "n1", "n2", "n2", "n3", python=ask_by(server), planted=planted)
    assert said.codes == [1, 1, 1, 1]
    torch = said.reports["n1"]["torch"]
    clock, other = said.faults
    assert other == f"n3: torch 2.9.1, others {torch}"
    ahead = re.fullmatch(r"n2: clock (\d+) s ahead", clock)
    assert ahead, clock
    assert 80_000 < int(ahead[1]) <= 90_000  # less what this machine had the process wait
    for text, node in zip(said.texts, ("n1", "n2", "n2", "n3"), strict=True):
        assert f"jobgen: error: preflight failed on {node}; what each node has is in" in text
    assert said.reports["n3"]["torch"] == "2.9.1"
    assert "allreduce_gb_s" not in said.reports["n1"]


@pytest.mark.torch
def test_of_two_nodes_the_first_is_right_and_any_package_counts(
    tmp_path: Path, server: Server
) -> None:
    planted = """\
if node == "n2":
    sys.path.append(os.environ["JOBGEN_RUN_DIR"] + "/more")
"""
    (tmp_path / "more" / "odd_one-1.2.dist-info").mkdir(parents=True)
    said = preflight(tmp_path, "n1", "n2", python=ask_by(server), planted=planted)
    assert said.faults == ["n2: odd_one 1.2, others None"]


@pytest.mark.torch
def test_a_process_that_is_far_slower_is_named(tmp_path: Path, server: Server) -> None:
    planted = """\
if node == "n2":
    import timeit
    true_repeat = timeit.repeat
    timeit.repeat = lambda *words, **more: [50 * one for one in true_repeat(*words, **more)]
"""
    said = preflight(tmp_path, "n1", "n1", "n2", python=ask_by(server), planted=planted)
    (fault,) = said.faults
    assert re.fullmatch(r"n2: process 0 multiplies at \S+ TFLOP/s, others \S+", fault)
    assert said.codes == [1, 1, 1]


GPUS = """\
import torch
torch.cuda.device_count = lambda: {"n1": 2, "n2": 1}[node]
torch.cuda.set_device = lambda device: None
torch.cuda.mem_get_info = lambda: (3e9 if node == "n2" else 139e9, 140e9)
torch.cuda.get_device_name = lambda device: "H200"
"""


@pytest.mark.torch
def test_gpus_that_are_missing_or_in_use_are_found(tmp_path: Path, server: Server) -> None:
    said = preflight(tmp_path, "n1", "n2", python=ask_by(server), gpus=2, planted=GPUS)
    assert said.faults == ["n2: sees 1 GPUs, plan says 2", "n2: GPU 0 has 3.0 of 140.0 GB free"]
    assert said.reports["n1"]["devices"] == [{"name": "H200", "gb": 140.0}] * 2


TORCH_MISSING = "sys.modules['torch'] = None\n"


def test_without_torch_it_fails_and_says_so(tmp_path: Path) -> None:
    said = preflight(tmp_path, "n1", python=[sys.executable], planted=TORCH_MISSING)
    assert said.codes == [1]
    assert "ModuleNotFoundError" in said.texts[0]
    assert "jobgen: error: preflight failed on n1;" in said.texts[0]


@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        ("n3: torch 2.9.1, others 2.13.0", "version-mismatch"),
        ("n3: flash_attn None, others 2.5", "version-mismatch"),
        ("n3: driver 550.54, others 570.86", "driver-mismatch"),
        ("n3: clock 3 s behind", "clock"),
        ("n3: sees 3 GPUs, plan says 4", "gpu-missing"),
        ("n3: GPU 0 has 3.0 of 140.0 GB free", "gpu-busy"),
        ("n3: process 5 multiplies at 88.1 TFLOP/s, others 612", "gpu-slow"),
    ],
)
def test_diagnose_knows_each_sentence_and_whose_it_is(fault: str, cause: str) -> None:
    said = f"jobgen: preflight: {fault}"
    found = next(one for one in CAUSES if one.own and re.search(one.own, said))
    match = re.search(found.own, said)
    assert match
    assert (found.id, "n3" in match.groups()) == (cause, True)


def test_the_script_has_it_to_read_in_few_lines() -> None:
    with_it, without = render(plan_of(JOB)), render(plan_of(JOB, "preflight=false"))
    assert 0 < with_it.count("\n") - without.count("\n") <= MOST_LINES
    assert (RUNTIME / "preflight.sh").read_text() in with_it
    assert "preflight()" not in without
    for mode in ("torchrun", "direct"):
        script = render(plan_of(JOB, f"launch.mode={mode}"))
        assert "what each process runs\n    preflight\n    exec python3 -u -m m\n" in script


LOG = "n1:41:77 [0] NCCL INFO {}\n"
SOCKETS = LOG.format("Initialized NET plugin Socket") + LOG.format("Using network Socket")
OFI = LOG.format("NET/OFI Selected provider is cxi, fabric is cxi (found 4 nics)")


def written(folder: Path, said: str, site: str = "slurm-generic", *changes: str) -> Path:
    """A run folder with what NCCL has said there."""
    text = "name: a\naccount: a\nresources: {nodes: 2, gpus_per_node: 4}\nrun: {module: m}\n"
    plan = plan_of(text, "preflight=true", *changes, site=site)
    (folder / "plan.json").write_text(header.write_json(header.describe_plan(plan)))
    (folder / "preflight").mkdir()
    (folder / "preflight" / "nccl").write_bytes(b"\xff\xfe" + said.encode())
    return folder


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
def test_nccls_own_lines_tell_the_network(tmp_path: Path, said: str, network: str | None) -> None:
    assert read_network(written(tmp_path, said)) == (network, None)


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
    tmp_path: Path, site: str, changes: tuple[str, ...], said: str, warned: str | None
) -> None:
    network, warning = read_network(written(tmp_path, said, site, *changes))
    assert network in ("Socket", "AWS Libfabric")
    assert (warning is not None) == (warned is not None)
    assert warned is None or f"not the site's {warned}" in str(warning)


def test_without_files_to_read_nothing_is_warned_of(tmp_path: Path) -> None:
    assert read_network(tmp_path) == (None, None)
    (written(tmp_path, SOCKETS) / "plan.json").write_text("{")
    assert read_network(tmp_path) == ("Socket", None)
