"""The program that compares the nodes: its sentences, and what nodes tell each other."""

import json
import os
import re
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from support import ROOT, plan_of

from jobgen.diagnose import CAUSES
from jobgen.rendering import header
from jobgen.rendering.render import render

PROGRAM = ROOT / "templates" / "runtime" / "preflight.py"
REPORT: dict[str, Any] = {
    "host": "n1.cluster",
    "address": "10.0.0.1",
    "interface": "hsn0",
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
def program() -> ModuleType:
    """The program, as a module that knows of no other node."""
    module = ModuleType("preflight")
    exec(compile(PROGRAM.read_text(), PROGRAM, "exec"), vars(module))
    vars(module)["WAIT"] = 5
    return module


def reports(**changes: dict[str, Any]) -> list[dict[str, Any]]:
    """Those of four nodes, with what is different on some."""
    return [{**REPORT, "node": f"n{i}", **changes.get(f"n{i}", {})} for i in range(1, 5)]


def test_nodes_that_are_alike_have_no_faults(program: ModuleType) -> None:
    assert program.find_faults(reports()) == []


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
            {"devices": REPORT["devices"][:3]},
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
    assert program.find_faults(reports(**{node: changes}))[0] == fault
    said = f"jobgen: preflight: {fault}"
    known = [found for cause in CAUSES if (found := re.search(cause.pattern, said))]
    assert node in known[0].groups(), "and `jobgen diagnose` knows whose it is"


def test_of_two_nodes_the_first_is_right(program: ModuleType) -> None:
    two = reports(n2={"torch": "2.9.1"})[:2]
    assert program.find_faults(two) == [f"n2: torch 2.9.1, n1 2.13.0; {SHARED}"]


def test_of_equally_many_those_like_the_first_are_right(program: ModuleType) -> None:
    halves = reports(n1={"driver": "1"}, n4={"driver": "1"})
    said = program.find_faults(halves)
    assert [fault.partition(";")[0] for fault in said] == [
        "n2: driver 570.86, others 1",
        "n3: driver 570.86, others 1",
    ]


def test_all_differences_are_told_at_once(program: ModuleType) -> None:
    """Other packages are no news where a version differs already."""
    n2 = {"torch": "2.9.1", "packages": ["a-1"], "clock_s": 9.0, "devices": []}
    n3 = {"nccl": None, "free_gb": {"TMPDIR": 0.05, "run folder": 0.5}, "interface": ""}
    said = program.find_faults(reports(n2=n2, n3={**n3, "reached": "timed out"}))
    assert [fault.partition(";")[0] for fault in said] == [
        "n2: torch 2.9.1, others 2.13.0",
        "n3: nccl None, others 2.28.9",
        "n2: clock 9 s ahead",
        "n2: sees 0 GPUs, plan says 4",
        "n3: 0.05 GB free in its TMPDIR",
        "n3: 0.5 GB free in its run folder",
        "n1 cannot reach n3 at 10.0.0.1: timed out",
    ]


def test_of_many_other_packages_three_are_named(program: ModuleType) -> None:
    own = [f"{letter}-1" for letter in "abcdef"]
    (fault,) = program.find_faults(reports(n4={"packages": own}))
    assert fault.startswith("n4: has b-1, c-1, d-1 and lacks b-2, unlike the others;")
    (fault,) = program.find_faults(reports(n4={"packages": []}))
    assert fault.startswith("n4: lacks a-1, b-2, unlike the others;")


@pytest.mark.parametrize(("by", "count"), [(0.0, 0), (0.1, 4)])
def test_what_is_just_enough_is_no_fault(program: ModuleType, by: float, count: int) -> None:
    device = {"name": "H200", "free_gb": 70.0 - by, "gb": 140.0}
    devices = [device, *REPORT["devices"][1:]]
    room = {"TMPDIR": 0.1 - by, "run folder": 1.0 - by}
    n2 = {"devices": devices, "free_gb": room, "clock_s": -2.0 - by}
    assert len(program.find_faults(reports(n2=n2))) == count


def test_more_devices_than_asked_for_are_no_fault(program: ModuleType) -> None:
    """PBS without its hook for cgroups shows a job all devices of a node."""
    assert program.find_faults(reports(n2={"devices": REPORT["devices"] * 2})) == []


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
    assert program.find_network(said) == network


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
    told = program.describe_network(said, str(tmp_path))
    assert told["nccl_network"] in ("Socket", "AWS Libfabric")
    assert (warned is not None) == ("warning" in told)
    assert f"not the site's {warned}" in told.get("warning", "not the site's None")


@pytest.mark.parametrize("content", [None, "", "{", "{}"])
def test_without_a_plan_to_read_nothing_is_warned_of(
    program: ModuleType, tmp_path: Path, content: str | None
) -> None:
    if content is not None:
        (tmp_path / "plan.json").write_text(content)
    assert program.describe_network(SOCKETS, str(tmp_path)) == {"nccl_network": "Socket"}


def test_nccls_log_is_read_whatever_is_in_it_and_removed(
    program: ModuleType, tmp_path: Path
) -> None:
    log = tmp_path / "nccl"
    log.write_bytes(b"\xff\xfe" + SOCKETS.encode())
    assert program.find_network(program.read_nccl_log(str(log))) == "Socket"
    assert not log.exists()
    assert program.read_nccl_log(str(log)) == ""


def test_packages_are_those_of_all_folders_that_exist(
    program: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one/b-2.dist-info", "one/b", "two/a-1.dist-info", "two/b-2.dist-info"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "three.zip").touch()
    folders = [tmp_path / name for name in ("one", "two", "three.zip", "four")]
    monkeypatch.setattr(sys, "path", list(map(str, folders)))
    assert program.list_packages() == ["a-1", "b-2"]


SECRET = "d9428888-122b-4f1c-8f0c-2d1f6a8f1b7e"


@pytest.fixture
def place(program: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Where the first of three nodes stands, all on this machine."""
    (tmp_path / "nodes").write_text("n1\nn2\nn3\n")
    with socket.create_server(("", 0)) as free:
        port = str(free.getsockname()[1])
    monkeypatch.setenv("JOBGEN_SECRET", SECRET)
    words = ["0", "4", port, "127.0.0.1", "127.0.0.1", "lo", str(tmp_path), str(tmp_path)]
    return program.read_place(words)


def report_of(place: Any, **changes: Any) -> dict[str, Any]:
    own = {"node": place.node, "address": place.address, "interface": place.interface}
    return {**REPORT, **own, **changes}


def exchange(program: ModuleType, place: Any, **changes: dict[str, Any]) -> list[dict[str, Any]]:
    """What each of the nodes has in the end, all run at once."""
    with ThreadPoolExecutor() as pool:
        others = []
        for rank in range(1, len(place.names)):
            own = place._replace(rank=rank)
            report = report_of(own, **changes.get(own.node, {}))
            others.append(pool.submit(program.visit, own, report))
        verdict = program.First(place).decide(report_of(place, **changes.get("n1", {})))
        return [verdict, *(other.result(30) for other in others)]


def kept(place: Any) -> dict[str, dict[str, Any]]:
    """The reports in the run folder, by file."""
    folder = Path(place.run_dir, "preflight")
    return {path.name: json.loads(path.read_text()) for path in folder.iterdir()}


def test_the_script_says_where_a_node_stands(place: Any, tmp_path: Path) -> None:
    assert place[:4] == (0, 4, place.port, "127.0.0.1")
    assert (place.names, place.node) == (["n1", "n2", "n3"], "n1")
    assert (place.interface, place.run_dir) == ("lo", str(tmp_path))


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_nodes_that_agree_get_a_port(program: ModuleType, place: Any, address: str) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        socket.create_server((address, 0), family=family).close()
    except OSError as error:
        pytest.skip(f"this machine has no {address}: {error}")
    verdicts = exchange(program, place._replace(head=address, address=address))
    assert verdicts == [{"faults": [], "port": verdicts[0]["port"]}] * 3
    assert verdicts[0]["port"] not in (0, place.port)
    written = kept(place)
    assert written.keys() == {"n1.json", "n2.json", "n3.json"}
    assert [written[f"n{i}.json"]["node"] for i in (1, 2, 3)] == ["n1", "n2", "n3"]
    for name in ("n2.json", "n3.json"):
        assert written[name]["reached"] is None
        assert abs(written[name]["clock_s"]) < 0.5


def test_every_node_hears_of_a_difference(program: ModuleType, place: Any) -> None:
    verdicts = exchange(program, place, n3={"torch": "2.9.1"})
    assert verdicts == [{"faults": [f"n3: torch 2.9.1, others 2.13.0; {SHARED}"]}] * 3


def test_clocks_are_compared_with_the_first_nodes(program: ModuleType, place: Any) -> None:
    ahead = ModuleType("ahead")
    exec(compile(PROGRAM.read_text(), PROGRAM, "exec"), vars(ahead))
    words = {"monotonic": time.monotonic, "sleep": time.sleep}
    vars(ahead)["time"] = SimpleNamespace(time=lambda: time.time() + 41.3, **words)
    own = place._replace(rank=1, names=["n1", "n2"])
    with ThreadPoolExecutor() as pool:
        other = pool.submit(ahead.visit, own, report_of(own))
        verdict = program.First(own._replace(rank=0)).decide(report_of(place))
        assert other.result(30) == verdict
    assert verdict["faults"] == ["n2: clock 41 s ahead; tell the administrators"]


def test_a_node_that_cannot_be_reached_is_named_with_its_address(
    program: ModuleType, place: Any
) -> None:
    """As behind a firewall that lets nodes reach the first one, and not be reached."""
    verdict = exchange(program, place, n2={"address": "255.255.255.255"})[0]
    (fault,) = verdict["faults"]
    assert fault.startswith("n1 cannot reach n2 at 255.255.255.255 over lo: ")
    assert fault.endswith("; set launch.interface, or ask whether a firewall stands between nodes")
    assert fault.split(": ")[1].startswith(kept(place)["n2.json"]["reached"])


def test_all_that_have_not_come_are_named(program: ModuleType, place: Any) -> None:
    vars(program)["WAIT"] = 0
    verdict = program.First(place).decide(report_of(place))
    assert verdict["faults"] == ["n2 has not come within 0 s", "n3 has not come within 0 s"]


def test_a_node_that_does_not_get_through_says_so_by_the_file_system(
    program: ModuleType, place: Any
) -> None:
    """And those of which nothing is known are not named beside it."""
    vars(program)["REACH"] = 0.5
    vars(program)["time"] = SimpleNamespace(monotonic=time.monotonic, sleep=lambda seconds: None)
    Path(place.attempt, "preflight-listens").touch()
    own = place._replace(rank=2)
    verdict = program.visit(own, report_of(own))
    (fault,) = verdict["faults"]
    assert re.match(rf"n3 cannot reach n1:{place.port} over lo: .*refused; set launch", fault)
    assert kept(place)["n3.json"]["lost"] == fault
    assert program.First(place).decide(report_of(place)) == verdict


@pytest.mark.parametrize("answer", [b"", b"SSH-2.0-OpenSSH_9.2\r\n", b"\xff\xfe\n"])
def test_another_program_at_the_first_nodes_port_is_no_first_node(
    program: ModuleType, place: Any, answer: bytes
) -> None:
    vars(program)["time"] = SimpleNamespace(
        monotonic=time.monotonic, time=time.time, sleep=lambda seconds: None
    )
    Path(place.attempt, "preflight-listens").touch()
    own = place._replace(rank=1)
    with socket.create_server(("", place.port)) as door, ThreadPoolExecutor() as pool:
        other = pool.submit(program.visit, own, report_of(own))
        talk = door.accept()[0]
        with talk:
            talk.recv(100)
            talk.sendall(answer)
        (fault,) = other.result(30)["faults"]
    assert f"n2 cannot reach n1:{place.port} over lo: it hangs up, or is another program;" in fault


STRANGE = [
    b"",
    b"GET / HTTP/1.1\r\n\r\n",
    b"\xff\xfe\n",
    b"[]\n7\n",
    b"{}\n",
    b'{"index": 9, "report": {}, "port": 1}\n',
    b'{"index": 1, "report": null, "port": 1}\n',
]


def test_strangers_are_no_nodes(
    program: ModuleType, place: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    """Port scanners and the like: they add nothing, and nobody waits for them."""
    first = program.First(place)
    for words in STRANGE:
        with socket.create_connection(("127.0.0.1", place.port)) as talk:
            talk.sendall(words)
            talk.shutdown(socket.SHUT_WR)
            talk.settimeout(10)
            assert talk.recv(100) == b""
    assert first.reports == {}
    first.door.close()
    assert capfd.readouterr() == ("", "")


def test_a_report_counts_only_with_the_secret_of_the_job(program: ModuleType, place: Any) -> None:
    """Whoever knows the job's id knows its port, and can write a report that is well formed."""
    first = program.First(place)
    said = {"index": 1, "report": report_of(place._replace(rank=1)), "port": 1}
    stranger = place._replace(secret=b"guessed")
    real = program.seal(place, "clock")
    lines = [json.dumps(said) + "\n", program.seal(stranger, said), real.replace("clock", "cluck")]
    for line in lines:
        with socket.create_connection(("127.0.0.1", place.port)) as talk:
            talk.sendall(line.encode())
            talk.settimeout(10)
            assert talk.recv(100) == b""
    assert first.reports == {}
    first.door.close()
    answer = program.seal(place, {"faults": []})
    assert program.unseal(place, answer) == {"faults": []}
    with pytest.raises(ValueError, match="stranger"):
        program.unseal(stranger, answer)


def test_no_command_line_shows_the_secret_of_preflight() -> None:
    """It is handed over as a variable, from a file that only the job's owner can read."""
    script = (PROGRAM.parent / "preflight.sh").read_text()
    assert '(umask 077 && head -c 32 /dev/urandom | base64 >"$attempt_dir/secret")' in script
    assert 'JOBGEN_SECRET=$(<"$attempt_dir/secret") python3 ' in script


def test_the_script_carries_the_program_and_prints_it(tmp_path: Path) -> None:
    """Compressed, in a line; `gzip` of another machine would give other bytes, so it is kept."""
    text = "name: a\nscheduler: local\nresources: {nodes: 2}\npreflight: true\nrun: {module: m}\n"
    without = render(plan_of(text, "preflight=false"))
    script = tmp_path / "script"
    script.write_text(render(plan_of(text)))
    printed = subprocess.run(["bash", script, "print_preflight"], capture_output=True, check=True)
    assert printed.stdout == PROGRAM.read_bytes()
    assert script.read_text().count("\n") - without.count("\n") <= 60


def test_a_report_is_of_the_node_that_the_job_has(program: ModuleType, place: Any) -> None:
    """A name that comes over the network is none of a file."""
    assert exchange(program, place, n2={"node": "../../n4"})[0]["faults"] == []
    assert kept(place).keys() == {"n1.json", "n2.json", "n3.json"}
    assert kept(place)["n2.json"]["node"] == "n2"


def test_the_first_node_ends_when_all_have_been_told(program: ModuleType, place: Any) -> None:
    """It ends at once where there is a fault, and its threads with it."""
    told = []

    def write(value: Any) -> str:
        if isinstance(value, dict) and "faults" in value:
            time.sleep(0.2)
            told.append(value)
        return json.dumps(value)

    vars(program)["json"] = SimpleNamespace(dumps=write, loads=json.loads, dump=json.dump)
    with ThreadPoolExecutor() as pool:
        others = [place._replace(rank=1), place._replace(rank=2)]
        for own in others:
            pool.submit(program.visit, own, report_of(own))
        program.First(place).decide(report_of(place, torch="2.9.1"))
        assert len(told) == 2


def test_reports_that_cannot_be_written_keep_nobody_from_being_told(
    program: ModuleType, place: Any
) -> None:
    """A full disk is such a case, and a fault of its own."""
    Path(place.run_dir, "preflight").touch()
    verdict = exchange(program, place, n1={"free_gb": {"TMPDIR": 9.0, "run folder": 0.0}})[2]
    assert verdict == {"faults": ["n1: 0.0 GB free in its run folder; make room there"]}


@pytest.mark.torch
@pytest.mark.parametrize("head", ["127.0.0.1", "::1"])
def test_two_nodes_meet_by_either_kind_of_address(tmp_path: Path, head: str) -> None:
    (tmp_path / "nodes").write_text("n1\nn2\n")
    with socket.create_server(("", 0)) as free:
        port = free.getsockname()[1]
    places = ["0", str(port), head, head, "", str(tmp_path), str(tmp_path)]
    nodes = [
        subprocess.Popen(
            [sys.executable, PROGRAM, str(index), *places],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "JOBGEN_SECRET": SECRET},
        )
        for index in range(2)
    ]
    said = [node.communicate(timeout=120)[0] for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], said
    assert "preflight: 2 nodes agree; all-reduce " in said[0]
    assert json.loads((tmp_path / "preflight" / "n2.json").read_text())["reached"] is None
