"""Faults planted in real runs on three nodes: `jobgen diagnose` names the cause, and whose it is.

Those that other tests plant too, such as exceptions and killed agents, are diagnosed there.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_fixtures import Cluster, skip_without
from jobs import Job, diagnosed, spec, submit
from support import ROOT

skip_without("torch")

PROGRAMS = ROOT / "tests" / "helpers" / "programs"
FAULTS = PROGRAMS / "faults.py"


# Agents of torchrun take as much processor time as ranks: most of the jobs do without.
DIRECT = {"mode": "direct"}


def train(cluster: Cluster, folder: Path, fault: str) -> Job:
    """A run of the bundled trainer, one process a node, with a fault in its third step."""
    args: dict[str, object] = {"task": str(PROGRAMS / "faulty_task.py"), "steps": 40}
    args |= {"log-every": 1} | ({"hang-after": 45} if fault == "hang" else {})
    variables = {"PYTHONPATH": str(ROOT), "FAULT": fault}
    content = spec(launch=DIRECT, name=fault, run={"module": "jobgen.trainer", "args": args})
    content["environment"] = content["environment"] | {"variables": variables}
    return submit(content, scheduler="slurm", cwd=folder, env=cluster.env)


@pytest.fixture(scope="module")
def hanging(slurm: Cluster, tmp_path_factory: pytest.TempPathFactory) -> tuple[Job, Path]:
    """A run that hangs for a while beside the other tests."""
    folder = tmp_path_factory.mktemp("hanging")
    job = train(slurm, folder, "hang")
    # A step's line is written while the next one computes; the third hangs.
    job.wait_for(lambda: '"step": 1' in _metrics(job))
    return job, folder


@pytest.fixture(scope="module")
def differing(slurm: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a module in it; on n2, another that is almost full is mounted there."""
    folder = tmp_path_factory.mktemp("differing")
    (folder / "only_on_some_nodes.py").touch()
    slurm.on("n2", "mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder))
    yield folder
    slurm.on("n2", "umount", str(folder))


def _metrics(job: Job) -> str:
    path = job.run_dir / "metrics.jsonl"
    return path.read_text() if path.exists() else ""


@pytest.mark.parametrize(
    ("fault", "rank", "cause", "place"),
    [
        # No cgroups here that would kill: torch is refused what it asks for.
        ("memory", 2, "out-of-memory-host", "in main"),
        ("module", 1, "import", "faults.py:"),
        ("disk", 1, "no-space", "in main"),
        ("port", 2, "rendezvous", "in main"),
    ],
)
def test_a_fault_of_one_rank(
    slurm: Cluster,
    tmp_path: Path,
    differing: Path,
    hanging: tuple[Job, Path],
    *,
    fault: str,
    rank: int,
    cause: str,
    place: str,
) -> None:
    args = {"fault": fault, "rank": rank, "folder": str(differing)}
    content = spec(launch=DIRECT, run={"script": str(FAULTS), "args": args})
    job = submit(content, scheduler="slurm", cwd=tmp_path, env=slurm.env)
    assert job.wait() == "failed 1", job.everything()
    found = diagnosed(job, slurm, tmp_path)
    assert (found["cause"], found["rank"], found["node"]) == (cause, rank, f"n{rank + 1}"), found
    assert place in found["place"]
    assert fault == "port" or found["ranks"] == [rank], found


def test_an_argument_that_the_program_does_not_know(slurm: Cluster, tmp_path: Path) -> None:
    content = spec(launch=DIRECT, run={"script": str(FAULTS), "args": {"fautl": "disk"}})
    job = submit(content, scheduler="slurm", cwd=tmp_path, env=slurm.env)
    assert job.wait().startswith("failed"), job.everything()
    found = diagnosed(job, slurm, tmp_path)
    assert found["cause"] == "bad-argument", found
    assert "unrecognized arguments: --fautl" in found["evidence"][0]


def test_a_loss_that_is_no_number(slurm: Cluster, tmp_path: Path) -> None:
    job = train(slurm, tmp_path, "nan")
    assert job.wait() == "failed 1", job.everything()
    found = diagnosed(job, slurm, tmp_path)
    assert found["cause"] == "not-a-number", found
    assert "at step 3 the loss is nan" in found["title"]


def test_a_rank_that_hangs(slurm: Cluster, hanging: tuple[Job, Path]) -> None:
    job, folder = hanging
    assert job.wait() == "failed 1", job.everything()
    found = diagnosed(job, slurm, folder)
    assert (found["cause"], found["rank"], found["node"]) == ("hang", 1, "n2"), found
    assert found["waited_for"] == [1]
    assert "faulty_task.py:" in found["place"]
