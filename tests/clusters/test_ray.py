"""A Ray of all nodes of a job, or of a role: who joins, how it ends, and that nothing stays."""

import ast
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster_fixtures import ROOT, Cluster, Pbs, Slurm, running, skip_without, wait_until
from jobs import PROGRAMS, Job, diagnosed, submit

pytestmark = [pytest.mark.cluster, pytest.mark.torch]
skip_without("ray")

AHEAD = Path(f"/sys/fs/cgroup/cpu/jobgen-{os.getpid()}")
DAEMONS = "gcs_server|raylet|ray::|log_monitor|ray start|ray_world[.]py"


@pytest.fixture(scope="module")
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """One whose nodes each have a /tmp of their own, as Ray wants it."""
    if request.param is Pbs:
        yield request.getfixturevalue("pbs")
        return
    shared = [tmp_path_factory.getbasetemp(), ROOT, Path(sys.prefix)]
    options = [word for path in shared for word in ("--share", str(path))]
    yield from running(Slurm, options=["--private-tmp", *options])


@pytest.fixture(scope="module", autouse=True)
def ahead() -> Iterator[None]:
    """A group of processes that other work on this machine does not slow down.

    Ray gives the daemons of a node half a minute to start, which nothing changes.
    """
    if not AHEAD.parent.is_dir():  # cgroups of version 1
        yield
        return
    AHEAD.mkdir()
    (AHEAD / "cpu.shares").write_text("65536")
    yield
    AHEAD.rmdir()


def start(cluster: Cluster, folder: Path, *words: str, **changes: Any) -> Job:
    content = {
        "name": "onray",
        "resources": {"nodes": 2, "cpus_per_node": 1, "walltime": "5m"},
        "environment": {
            "venv": sys.prefix,
            "setup": f"[ ! -d {AHEAD} ] || echo 0 >{AHEAD}/cgroup.procs",
        },
        "launch": {"mode": "ray"},
        "run": {"script": str(PROGRAMS / "ray_world.py"), "args": list(words)},
    }
    content = {key: value for key, value in (content | changes).items() if value is not None}
    return submit(content, scheduler=cluster.kind, cwd=folder, env=cluster.env)


def told(job: Job, role: str = "") -> dict[str, Any]:
    """What the program has printed, on the first node."""
    (path,) = job.run_dir.glob(f"{role and f'roles/{role}/'}logs/*/rank-0.out")
    return dict(ast.literal_eval(path.read_text().splitlines()[0]))


def ends(cluster: Cluster, job: Job, outcome: str) -> None:
    """Wait for the job's end, after which no node has anything of it."""
    assert job.wait() == outcome, job.everything()
    wait_until(lambda: cluster.ended(job.id))
    left = {name: lines for name, lines in cluster.processes(DAEMONS).items() if lines}
    assert left == {}
    names = {name: cluster.on(name, "sh", "-c", "ls -d /tmp/ray* || :") for name in cluster.nodes}
    assert set(names.values()) == {""}


def wait_for_world(job: Job, role: str = "") -> None:
    logs = f"{role and f'roles/{role}/'}logs/*/rank-0.out"
    job.wait_for(lambda: any(path.stat().st_size for path in job.run_dir.glob(logs)))


def find_raylet(cluster: Cluster, node: str) -> int:
    """The raylet of a node, by its number outside."""
    init = (cluster.run_folder / "hosts" / node / "init.pid").read_text().split()[0]
    space = os.readlink(f"/proc/{init}/ns/pid")
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/ns/pid") == space:
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if words[0].endswith(b"/raylet"):
                    return int(pid)
        except OSError:
            continue
    raise AssertionError(f"{node} has no raylet")


@pytest.mark.parametrize("cluster", [Slurm], indirect=True)
def test_two_jobs_at_a_time_on_the_same_nodes(cluster: Cluster, tmp_path: Path) -> None:
    """One does well; the other, within its time, has the exit code of its program."""
    well = start(cluster, tmp_path / "well", "6", "--until", f"{tmp_path}/go")
    wait_for_world(well)
    fails = start(cluster, tmp_path / "fails", "6", "--code", "7")
    assert fails.wait() == "failed 7", fails.everything()
    assert well.outcome() is None
    (tmp_path / "go").touch()
    ends(cluster, well, "done 0")
    for job in (well, fails):
        assert told(job) == {"seen": ["n1", "n2"], "cpus": 2.0}


@pytest.mark.parametrize("cluster", [Pbs], indirect=True)
def test_a_worker_that_is_killed_ends_the_job_and_is_named(
    cluster: Cluster, tmp_path: Path
) -> None:
    job = start(cluster, tmp_path, "6", "--until", "/no/such")
    wait_for_world(job)
    os.kill(find_raylet(cluster, "n2"), signal.SIGKILL)
    ends(cluster, job, "failed 1")
    cause = diagnosed(job, cluster, tmp_path)
    assert (cause["node"], cause["rank"]) == ("n2", 1), cause
    assert "Some Ray subprocesses exited unexpectedly" in job.everything()


@pytest.mark.parametrize("cluster", [Pbs], indirect=True)
def test_a_role_has_a_ray_of_its_own(cluster: Cluster, tmp_path: Path) -> None:
    server = [sys.executable, str(PROGRAMS / "role.py"), "serve", "$SERVER_PORT"]
    run = {"command": [sys.executable, str(PROGRAMS / "ray_world.py"), "6"]}
    roles = {
        "server": {"nodes": 1, "run": {"command": server}, "ready": {"http": "/"}},
        "train": {"nodes": 2, "launch": {"mode": "ray"}, "run": run},
    }
    resources = {"nodes": 3, "cpus_per_node": 2, "walltime": "5m"}
    job = start(cluster, tmp_path, resources=resources, roles=roles, run=None, launch=None)
    ends(cluster, job, "done 0")
    assert told(job, "train") == {"seen": ["n2", "n3"], "cpus": 4.0}
    head = (job.run_dir / "roles/train/logs/n2/ray.log").read_text()
    assert re.search(r"--address='[0-9.]+:2\d{4}'", head)
