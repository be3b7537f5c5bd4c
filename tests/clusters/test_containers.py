"""Jobs whose agents run in a container, and what stays outside of it.

No runtime is at hand where these run: the folder `containers` has one that does what jobgen's
scripts ask of apptainer, podman-hpc and pyxis, with namespaces of its own.
"""

import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from cluster_fixtures import Cluster, skip_without
from jobs import ALLREDUCE, Job, jobgen, spec, submit
from support import ROOT

skip_without("torch")

pytestmark = pytest.mark.torch

RUNTIMES = ROOT / "tests" / "clusters" / "containers"


def find_torch() -> str:
    """Return the folder of packages that torch is in, which may be outside of the venv."""
    found = find_spec("torch")
    assert found is not None
    assert found.origin is not None
    return str(Path(found.origin).parents[1])


# torch, the Python that it is for, and the program.
BINDS = [sys.prefix, sys.base_prefix, find_torch(), str(ROOT / "tests")]


@pytest.fixture(autouse=True)
def root() -> None:
    """Mount namespaces are root's."""
    if os.geteuid():
        assert os.environ.get("CI") != "true", "CI runs as root"
        pytest.skip("needs root")


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """An image: a folder, with a file by which it is known."""
    (tmp_path / "image").mkdir()
    (tmp_path / "image" / "in-the-image").touch()
    return tmp_path / "image"


def job_in(image: Path, runtime: str, **environment: Any) -> dict[str, Any]:
    """A job in a container that says where it is before it reduces."""
    container = {"image": str(image), "runtime": runtime, "binds": BINDS}
    setup = "echo \"here: $(ls / | tr '\\n' ' ')$IN_CONTAINER ${HOST_ONLY-none}\""
    return spec(
        resources={"nodes": 2, "cpus_per_node": 2, "walltime": "5m"},
        environment={"container": container, "venv": sys.prefix, "setup": setup, **environment},
        run={"script": str(ALLREDUCE)},
    )


def places(job: Job) -> list[str]:
    """What `setup` found, on each node."""
    logs = [path.read_text() for path in job.run_dir.glob("logs/*/agent.log")]
    return [line for log in logs for line in re.findall("^here: (.*)", log, re.M)]


def calls(folder: Path) -> list[list[str]]:
    """The words of each call of a runtime."""
    return [path.read_text().splitlines() for path in folder.iterdir()]


@pytest.mark.parametrize("runtime", ["apptainer", "podman-hpc"])
def test_agents_and_ranks_run_in_the_container(tmp_path: Path, image: Path, runtime: str) -> None:
    (tmp_path / "calls").mkdir()
    env = {
        **os.environ,
        "PATH": f"{RUNTIMES}:{os.environ['PATH']}",
        "JOBGEN_CONTAINER_CALLS": str(tmp_path / "calls"),
        "HOST_ONLY": "handed on",
        "TMPDIR": str(tmp_path / "tmp"),
    }
    (tmp_path / "tmp").mkdir()
    content = {**job_in(image, runtime), "preflight": False}
    job = submit(content, scheduler="local", cwd=tmp_path / "work", env=env)
    assert job.wait() == "done 0", job.everything()
    ranks = job.ranks()
    assert {rank["sum"] for rank in ranks.values()} == {10.0}
    found = places(job)
    assert len(found) == 2
    assert all("in-the-image" in place for place in found)
    assert all(place.endswith(f"{runtime} handed on") for place in found)
    # One container a node, not one a process; what is temporary is seen inside, and gone.
    assert [words[0] for words in calls(tmp_path / "calls")] == [runtime] * 2
    assert os.listdir(tmp_path / "tmp") == []


def test_nodes_are_compared_by_what_is_in_the_container(tmp_path: Path, image: Path) -> None:
    env = {**os.environ, "PATH": f"{RUNTIMES}:{os.environ['PATH']}"}
    content = {**job_in(image, "podman-hpc"), "preflight": True}
    content["launch"] = {"processes_per_node": 1}
    job = submit(content, scheduler="local", cwd=tmp_path / "work", env=env)
    assert job.wait() == "done 0", job.everything()
    assert len(places(job)) == 2  # each node's container is entered once, for it and the agent
    assert len(list(job.run_dir.glob("preflight/*"))) == 2


def test_a_signal_reaches_the_agent_in_the_container(tmp_path: Path, image: Path) -> None:
    env = {**os.environ, "PATH": f"{RUNTIMES}:{os.environ['PATH']}"}
    content = job_in(image, "apptainer")
    options = ("--set", f"run.args.sleep-until={tmp_path}/go")
    job = submit(content, *options, scheduler="local", cwd=tmp_path / "work", env=env)
    job.wait_for(lambda: len(job.ranks()) == 4)
    pids = [rank["pid"] for rank in job.ranks().values()]
    assert jobgen("cancel", job.id, env=env, cwd=tmp_path / "work").returncode == 0
    assert job.outcome() == "cancelled 143"
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"image": "/no/such.sif"}, "no container image on node0: /no/such.sif"),
        ({"binds": ["/no/such"]}, "mount source /no/such doesn't exist"),
    ],
)
def test_a_container_that_does_not_open_fails_the_job_at_once(
    tmp_path: Path, image: Path, changes: dict[str, object], said: str
) -> None:
    env = {**os.environ, "PATH": f"{RUNTIMES}:{os.environ['PATH']}"}
    content = job_in(image, "apptainer")
    content["environment"]["container"].update(changes)
    content["resources"]["nodes"] = 1
    job = submit(content, scheduler="local", cwd=tmp_path / "work", env=env)
    assert job.wait().startswith("failed"), job.everything()
    assert said in (job.run_dir / "logs/node0/agent.log").read_text()


def test_a_command_of_setup_that_fails_in_the_container_ends_the_job_there(
    tmp_path: Path, image: Path
) -> None:
    env = {**os.environ, "PATH": f"{RUNTIMES}:{os.environ['PATH']}"}
    content = job_in(image, "apptainer", setup="echo a\nfalse\necho b")
    content["resources"]["nodes"] = 1
    job = submit(content, scheduler="local", cwd=tmp_path / "work", env=env)
    assert job.wait() == "failed 1", job.everything()
    log = (job.run_dir / "logs/node0/agent.log").read_text()
    ends = (
        "jobgen: the setup ended at: false\njobgen: the program never began on node0; exit code 1\n"
    )
    assert log.endswith(f"\na\n{ends}")


@pytest.mark.cluster
@pytest.mark.parametrize(("kind", "mode"), [("slurm", "torchrun"), ("pbs", "direct")])
def test_a_container_on_a_cluster_with_the_module_of_its_runtime(
    kind: str, mode: str, tmp_path: Path, image: Path, request: pytest.FixtureRequest
) -> None:
    if not Path("/usr/share/modules/init/bash").exists():
        assert os.environ.get("CI") != "true", "CI must have environment-modules"
        pytest.skip("there is no environment-modules")
    cluster: Cluster = request.getfixturevalue(kind)
    (tmp_path / "modules").mkdir()
    text = f"#%Module\nprepend-path PATH {RUNTIMES}\n"
    (tmp_path / "modules" / "apptainer").write_text(text)
    modules = {"use": [str(tmp_path / "modules")], "load": ["apptainer"]}
    content = job_in(image, "apptainer", modules=modules)
    content["launch"]["mode"] = mode
    job = submit(content, scheduler=kind, cwd=tmp_path / "work", env=cluster.env)
    assert job.wait() == "done 0", job.everything()
    assert {rank["sum"] for rank in job.ranks().values()} == {10.0}
    entered = {"torchrun": 2, "direct": 4}  # once by each agent; by each process
    assert len([place for place in places(job) if "in-the-image" in place]) == entered[mode]


def test_srun_takes_each_task_into_its_container(
    slurm: Cluster, tmp_path: Path, image: Path
) -> None:
    content = job_in(image, "pyxis")
    content["launch"]["mode"] = "direct"
    content["environment"]["container"]["image"] = "../image"
    env = {**slurm.env, "PATH": f"{RUNTIMES}:{slurm.env['PATH']}"}
    job = submit(content, scheduler="slurm", cwd=tmp_path / "work", env=env)
    assert job.wait() == "done 0", job.everything()
    assert {rank["sum"] for rank in job.ranks().values()} == {10.0}
    assert [place.endswith("podman-hpc none") for place in places(job)] == [True] * 4
