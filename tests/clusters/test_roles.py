"""Several programs in one job: who runs where, and how the job ends, on every scheduler."""

import ast
import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from cluster_fixtures import wait_until
from jobs import BRISK, GLOO, JOBGEN, PROGRAMS, Job, jobgen, submit

from jobgen.plan.resolve import resolve
from jobgen.rendering.render import render
from jobgen.spec.load import load

PYTHON = [sys.executable, "-u", str(PROGRAMS / "role.py")]
URL = "http://$SERVER_ADDR:$SERVER_PORT/"
KINDS = [
    "local",
    pytest.param("slurm", marks=pytest.mark.cluster),
    pytest.param("pbs", marks=pytest.mark.cluster),
]


def serve(*options: str) -> dict[str, Any]:
    return {"command": [*PYTHON, "serve", "$SERVER_PORT", *options]}


def ask(*options: str) -> dict[str, Any]:
    return {"command": [*PYTHON, "ask", URL, *options]}


def count_heard(job: Job) -> int:
    """How many of those who ask have had their answer."""
    logs = job.run_dir.glob("roles/train/logs/*/rank-*.out")
    return sum("\nfrom " in log.read_text() for log in logs)


class Started:
    """A job of a server on one node and a client on two, on a cluster or on this machine."""

    def __init__(self, kind: str, folder: Path, request: pytest.FixtureRequest) -> None:
        self.kind, self.folder = kind, folder
        self.cluster = None if kind == "local" else request.getfixturevalue(kind)
        self.env = self.cluster.env if self.cluster else os.environ

    def run(self, server: dict[str, Any], train: dict[str, Any], **changes: Any) -> Job:
        ready = {"http": "/", "within": "3m"}
        roles = {
            "server": {"nodes": 1, "run": serve(), "ready": ready, **server},
            "train": {"nodes": 2, "run": ask(), **train},
        }
        return self.submit(roles, nodes=3, **changes)

    def submit(self, roles: dict[str, Any], *, nodes: int, **changes: Any) -> Job:
        """The job of these roles."""
        resources = {"nodes": nodes, "cpus_per_node": 2, "walltime": "20m"}
        command = changes.pop("command", JOBGEN)
        given = {"name": "roles", "resources": resources, "roles": roles, **changes}
        place = {"scheduler": self.kind, "cwd": self.folder, "env": self.env}
        self.job = submit(given, command=command, **place)
        return self.job

    def ask(self, *words: str) -> str:
        """What jobgen says of the job."""
        done = jobgen(*words, self.job.id, env=self.env, cwd=self.folder)
        return done.stdout

    def said(self) -> str:
        """What the job has printed."""
        files = [*self.folder.glob("roles-*.out"), *self.folder.glob("roles.o*")]
        files += self.folder.glob("runs/roles/*/job.out")
        return "".join(file.read_text() for file in files)

    def left(self) -> list[str]:
        """The processes of the roles that are still there."""
        if self.cluster:
            return [
                line for found in self.cluster.processes("role[.]py").values() for line in found
            ]
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it has ended, or is another user's
                words = (process / "cmdline").read_bytes().decode().replace("\0", " ")
                if "role.py" in words and (process / "cwd").readlink() == self.folder:
                    found.append(words)
        return found

    def ends(self, outcome: str) -> str:
        """The text that the job has printed when it has ended so, with nothing left running."""
        assert self.job.wait() == outcome, self.job.everything()
        wait_until(lambda: not self.left(), what=lambda: str(self.left()))
        wait_until(lambda: "jobgen: " in self.said())
        return self.said()


@pytest.fixture
def start(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Started:
    return Started(kind, tmp_path, request)


@pytest.mark.parametrize("kind", KINDS)
def test_each_runs_on_its_nodes_and_finds_the_other(start: Started) -> None:
    job = start.run({}, {})
    said = start.ends("done 0")
    assert "DONE" in said
    names = ["node0", "node1", "node2"] if start.kind == "local" else ["n1", "n2", "n3"]
    told = {}
    for role in ("server", "train"):
        for path in sorted(job.run_dir.glob(f"roles/{role}/logs/*/rank-*.out")):
            first, *rest = path.read_text().splitlines()
            told[path.parent.name] = (ast.literal_eval(first), rest)
    assert list(told) == names
    (server, _), (one, heard), (two, _) = told.values()
    assert [server["role"], one["role"], two["role"]] == ["server", "train", "train"]
    assert [server["RANK"], one["RANK"], two["RANK"]] == ["0", "0", "1"]
    assert heard == [f"from {names[0]}"]
    addresses = ["127.0.0.1"] * 3 if start.kind == "local" else names
    for own in (server, one, two):
        assert own["SERVER_ADDR"] == own["SERVER_HOSTS"] == addresses[0]
        assert own["TRAIN_HOSTS"] == ",".join(addresses[1:])
        assert int(own["TRAIN_PORT"]) - int(own["SERVER_PORT"]) == 4


@pytest.mark.parametrize("kind", KINDS[:2])
def test_a_role_that_dies_before_it_is_ready_is_named(start: Started) -> None:
    start.run({"run": serve("--slow", "1000", "--dies-after", "1", "--code", "3")}, {})
    said = start.ends("failed 3")
    node = "node0" if start.kind == "local" else "n1"
    assert f"FAILED: role server with exit code 3: rank 0 on {node}, see " in said
    assert "the server gives up" in said
    assert "train starts" not in said
    cause = start.ask("diagnose")
    assert f"cause: server rank 0 on {node}: " in cause
    printed = start.ask("logs", "--role", "server", "--stderr")
    assert f"server {node} rank 0 | the server gives up" in printed
    assert "the server gives up" not in start.ask("logs", "--role", "train", "--stderr")


@pytest.mark.parametrize("kind", KINDS[:2])
def test_a_role_that_is_never_ready_is_named_with_what_was_waited_for(start: Started) -> None:
    ready = {"http": "/", "within": "3s"}
    start.run({"run": serve("--slow", "1000"), "ready": ready}, {})
    said = start.ends("failed 1")
    where = "127.0.0.1" if start.kind == "local" else "n1"
    fault = f"role server was not ready within 3 s: no answer at http://{where}:"
    assert f"FAILED: {fault}" in said
    assert fault in start.ask("diagnose")


@pytest.mark.parametrize("kind", KINDS[:2])
def test_a_server_that_dies_ends_the_job_and_is_blamed(start: Started) -> None:
    start.run(
        {"run": serve("--dies-after", "1", "--asked", "2", "--code", "5")},
        {"run": ask("--for", "1000")},
    )
    said = start.ends("failed 5")
    assert "FAILED: role server with exit code 5: rank 0 on n" in said
    assert "the server gives up" in said


@pytest.mark.parametrize("kind", KINDS[::2])
def test_a_server_that_ends_early_fails_the_job_unless_it_may(start: Started) -> None:
    ends = {"run": serve("--dies-after", "1", "--asked", "2")}
    start.run(ends, {"run": ask("--for", "1000")})
    assert "FAILED: role server ended before train did: rank 0 on n" in start.ends("failed 1")
    other = Started.__new__(Started)
    other.__dict__.update(start.__dict__, folder=start.folder / "alone")
    other.run({**ends, "ends": "alone"}, {"run": ask("--for", "7")})
    assert "DONE: train ended well\n" in other.ends("done 0")
    goes_on = Started.__new__(Started)
    goes_on.__dict__.update(start.__dict__, folder=start.folder / "goes on")
    goes_on.run({"ends": "alone"}, {})
    assert "DONE: train ended well; stopped with it: server\n" in goes_on.ends("done 0")
    status = goes_on.ask("status")
    assert "server was stopped before it ended\nserver stopped, on n" in status


@pytest.mark.parametrize("kind", KINDS[::2])
def test_the_last_role_gives_the_exit_code(start: Started) -> None:
    start.run({}, {"run": ask("--code", "7")})
    said = start.ends("failed 7")
    assert "FAILED: role train with exit code 7: rank " in said
    assert "the asking ends" in said


@pytest.mark.parametrize("kind", KINDS[1:])
def test_a_role_that_ignores_the_call_to_end_is_made_to(start: Started) -> None:
    start.run({"run": serve("--deaf")}, {})
    start.ends("done 0")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS[1:])
def test_a_node_that_is_lost_is_named_with_its_role(start: Started) -> None:
    roles = {
        "server": {"nodes": 2, "run": serve(), "ready": {"http": "/"}},
        "train": {"nodes": 1, "run": ask("--for", "1000")},
    }
    job = start.submit(roles, nodes=3, command=BRISK)
    job.wait_for(lambda: count_heard(job) == 1)
    assert start.cluster
    start.cluster.fail("n2")
    try:
        job.wait_for(lambda: job.outcome() == "failed 1", 120)  # Slurm tells of it as of an end
        said = start.said()
    finally:
        start.cluster.cancel(job.id)
        start.cluster.heal("n2")
    assert "FAILED: role server: n2 is lost" in said


@pytest.mark.parametrize("kind", KINDS)
def test_what_asks_about_a_job_knows_its_roles(start: Started) -> None:
    job = start.run({}, {"run": ask("--for", "1000")})
    job.wait_for(lambda: count_heard(job) == 2)
    nodes = ["node0", "node1", "node2"] if start.kind == "local" else ["n1", "n2", "n3"]
    (row,) = json.loads(start.ask("status", "--json"))["jobs"]
    (server,) = job.run_dir.glob("roles/server/logs/*/rank-0.out")
    port = int(ast.literal_eval(server.read_text().splitlines()[0])["SERVER_PORT"])
    assert row["roles"] == [
        {"role": "server", "state": "running", "nodes": nodes[:1], "port": port},
        {"role": "train", "state": "running", "nodes": nodes[1:], "port": port + 4},
    ]
    listed = jobgen("list", "--json", env=start.env, cwd=start.folder).stdout
    assert json.loads(listed)["jobs"][0]["roles"] == row["roles"]
    assert f"server running, on {nodes[0]}, port {port}\n" in start.ask("status")
    words = ("forward", job.id, "--role", "server", "--print")
    forwarded = jobgen(*words, env=start.env, cwd=start.folder)
    where = (
        f"http://127.0.0.1:{port}/" if start.kind == "local" else f":localhost:{port} {nodes[0]}"
    )
    assert where in forwarded.stdout + forwarded.stderr
    assert jobgen(*words[:2], env=start.env, cwd=start.folder).returncode == 2
    used = json.loads(start.ask("top", "--json"))["nodes"]
    assert [(one["role"], one["node"]) for one in used] == [
        ("server", nodes[0]),
        ("train", nodes[1]),
        ("train", nodes[2]),
    ]
    if start.kind == "local":  # elsewhere by a step, or by ssh
        words = ("shell", job.id, "--role", "train", "--", "printenv", "JOBGEN_RUN_DIR")
        argv = [sys.executable, "-m", "jobgen", *words]
        said = subprocess.run(argv, cwd=start.folder, capture_output=True, text=True, check=True)
        assert said.stdout == f"{job.run_dir}/roles/train\n"
    (run,) = json.loads(start.ask("report", "--json"))["runs"]
    places = [(one["role"], one["node"], one["ranks"]) for one in run["places"]]
    assert places == [("server", nodes[0], [0]), ("train", nodes[1], [0]), ("train", nodes[2], [1])]
    assert jobgen("cancel", job.id, env=start.env, cwd=start.folder).returncode == 0
    start.ends("cancelled 143")


@pytest.mark.parametrize("kind", KINDS)
def test_the_last_role_is_asked_to_stop_before_the_walltime_ends(start: Started) -> None:
    """By the signal that Slurm sends then, and elsewhere the script itself."""
    asks = {"run": ask("--for", "1000", "--stops")}
    job = start.run({}, asks, on_walltime={"notice": "10m"})
    job.wait_for(lambda: count_heard(job) == 2)
    assert not (job.run_dir / "roles/train/STOP").exists()
    if start.cluster and start.kind == "slurm":
        start.cluster.run("scancel", "--batch", "--signal=USR1", job.id)
    elif start.cluster:
        start.cluster.on("n1", "pkill", "-USR1", "-o", "-f", f"{job.id}.SC")
    else:
        os.kill(json.loads((job.run_dir / "job.json").read_text())["pid"], signal.SIGUSR1)
    said = start.ends("done 0")
    assert "the program is asked to stop" in said
    assert "STOPPED as asked, before the run was done" in said
    assert "DONE" not in said
    assert (job.run_dir / "roles/train/STOPPED").exists()
    assert not (job.run_dir / "roles/server/STOP").exists()


@pytest.mark.parametrize("kind", [KINDS[1]])
def test_a_chain_goes_on_with_all_its_roles(start: Started) -> None:
    chain = {"notice": "10m", "then": "requeue", "at_most": 3}
    asks = {"run": ask("--for", "1000", "--stops")}
    server = {"run": serve("--stops"), "notice": True}
    job = start.run(server, asks, on_walltime=chain)
    job.wait_for(lambda: count_heard(job) == 2)
    assert start.cluster
    start.cluster.run("scancel", "--batch", "--signal=USR1", job.id)
    job.wait_for(lambda: (job.run_dir / "attempts/1/outcome").exists())
    outcomes = [job.run_dir / f"attempts/{number}/outcome" for number in (0, 1)]
    assert [path.read_text().split() for path in outcomes] == [["continued", "0"], ["done", "0"]]


@pytest.mark.slow
def test_a_port_that_another_program_has_is_named(tmp_path: Path) -> None:
    roles = {"server": {"nodes": 1, "run": serve()}, "train": {"nodes": 2, "run": ask()}}
    content = {"name": "roles", "resources": {"nodes": 3}, "roles": roles}
    script = render(resolve(load(content), scheduler="local"))
    (tmp_path / "job.sh").write_text(script)
    with socket.create_server(("127.0.0.1", 20000 + 7 * 40)):
        done = subprocess.run(
            ["bash", "job.sh"],
            cwd=tmp_path,
            env=os.environ | {"JOBGEN_SUBMIT_ID": "20200101-000000-7"},
            capture_output=True,
            text=True,
        )
    assert done.returncode == 1
    assert "FAILED: role server with exit code 1" in done.stdout
    assert "port 20280 on node0 is in use by another program" in done.stdout


@pytest.mark.parametrize("kind", KINDS[:1])
def test_another_program_at_the_port_of_a_loading_server_is_no_server(start: Started) -> None:
    command = ["bash", "-c", 'sleep 60; exec "$@"', "serve", *serve()["command"]]
    job = start.run({"run": {"command": command}}, {})
    job.wait_for(lambda: any(job.run_dir.glob("roles/server/logs/*/rank-*.out")))
    role = (job.run_dir / "roles/server/attempts/0/role").read_text()
    port = role.partition("SERVER_PORT=")[2].split()[0]
    with subprocess.Popen([sys.executable, "-m", "http.server", port]) as stranger:
        said = start.ends("failed 1")
        stranger.kill()
    assert f"role server was not ready: port {port} on node0 is in use by another program" in said
    assert "train starts" not in said
    assert "cause: server: another program has the port [port-in-use]" in start.ask("diagnose")


@pytest.mark.parametrize("kind", KINDS)
def test_roles_beside_each_other_on_a_node_wait_for_a_file_and_for_a_line(start: Started) -> None:
    made = 'touch "$1"; echo "it is up"; exec sleep 1000'
    one = {"command": ["bash", "-c", made, "made", str(start.folder / "up")]}
    start.folder.joinpath("up").write_text("of an older job")
    time.sleep(1.1)
    start.env = {**start.env, "SECRET": "s3"}
    third = {"command": ["bash", "-c", "echo $FIRST_HOSTS $THIRD_HOSTS $SECRET"]}
    roles = {
        "first": {"gpus": 0, "run": one, "ready": {"file": str(start.folder / "up")}},
        "second": {"gpus": 0, "nodes": 2, "run": one, "ready": {"log": "is (up|there)$"}},
        "third": {"gpus": 0, "nodes": 1, "run": third},  # on the first of the two
    }
    job = start.submit(roles, nodes=2, environment={"from_shell": ["SECRET"]})
    said = start.ends("done 0")
    assert said.index("first is ready") < said.index("second starts")
    assert said.index("second is ready") < said.index("third starts")
    (output,) = job.run_dir.glob("roles/third/logs/*/rank-0.out")
    first, last, secret = output.read_text().split()
    assert secret == "s3"
    name = "127.0.0.1" if start.kind == "local" else "n1"
    assert (first, last) == (",".join([name, name.replace("n1", "n2")]), name)


@pytest.mark.torch
@pytest.mark.parametrize("kind", [KINDS[1]])
def test_a_role_that_torchrun_starts_has_a_world_of_its_own(start: Started) -> None:
    roles = {
        "server": {"nodes": 1, "run": serve(), "ready": {"tcp": True}},
        "train": {
            "nodes": 2,
            "run": GLOO,
            "environment": {"venv": sys.prefix},
        },
    }
    job = start.submit(roles, nodes=3)
    start.ends("done 0")
    told = [
        ast.literal_eval(line)
        for path in job.run_dir.glob("roles/train/logs/*/rank-*.out")
        for line in path.read_text().splitlines()
    ]
    assert sorted(int(line["RANK"]) for line in told) == [0, 1]
    assert {line["WORLD_SIZE"] for line in told} == {"2"}


@pytest.mark.torch
@pytest.mark.parametrize("kind", [KINDS[0]])
def test_a_role_that_may_restart_meets_beside_its_rendezvous(start: Started) -> None:
    roles = {
        "server": {"nodes": 1, "run": serve(), "ready": {"tcp": True}},
        "train": {"nodes": 2, "launch": {"max_restarts": 1}, "run": GLOO},
    }
    job = start.submit(roles, nodes=3, environment={"venv": sys.prefix})
    start.ends("done 0")
    assert len([*job.run_dir.glob("roles/train/logs/*/rank-*.out")]) == 2
