"""Failures after which a run goes on, without the node at fault, on both clusters."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from cluster_fixtures import Cluster, Pbs, Slurm
from jobs import BRISK, JOBGEN, PROGRAMS, Job, diagnosed, jobgen, spec, submit

pytestmark = pytest.mark.cluster

PATIENT = {"then": "restart"}


def start(
    cluster: Cluster,
    cwd: Path,
    kind: str,
    *,
    nodes: int = 2,
    command: Sequence[str] = JOBGEN,
    **changes: Any,
) -> Job:
    """Submit a job of two nodes and a spare one, of which `kind` says who is bad."""
    (cwd / "bad").write_text(kind)
    resources = {"nodes": nodes, "spare_nodes": 3 - nodes, "cpus_per_node": 2, "walltime": "20m"}
    content = spec(
        resources=resources,
        launch={"mode": "direct", "processes_per_node": 1},
        run={"script": str(PROGRAMS / "bad_node.py"), "args": ["30", str(cwd / "bad")]},
        on_failure=PATIENT,
    )
    content |= changes
    return submit(content, scheduler=cluster.kind, cwd=cwd, env=cluster.env, command=command)


def verdicts(job: Job) -> list[list[str]]:
    """The first words of each verdict, in order."""
    files = sorted(job.run_dir.glob("attempts/*/verdict"))
    return [file.read_text().splitlines()[0].split() for file in files]


def bad_nodes(job: Job) -> list[str]:
    path = job.run_dir / "bad-nodes"
    return [line.split("\t")[0] for line in path.read_text().splitlines()] if path.exists() else []


def outcomes(job: Job) -> list[str]:
    return [path.read_text().strip() for path in sorted(job.run_dir.glob("attempts/*/outcome"))]


def wait_for_end(job: Job) -> list[str]:
    job.wait_for(lambda: outcomes(job) and not outcomes(job)[-1].startswith("continued"))
    return outcomes(job)


@pytest.mark.parametrize(
    ("cluster", "kind"),
    [("slurm", "late"), ("pbs", "late"), ("pbs", "vanishes"), ("slurm", "hangs")],
    indirect=["cluster"],
)
def test_a_spare_node_takes_the_place_of_a_bad_one(
    cluster: Cluster, tmp_path: Path, kind: str
) -> None:
    job = start(cluster, tmp_path, f"n2 {kind}\n")
    ends = wait_for_end(job)
    assert [end.split()[0] for end in ends] == ["continued", "done"], job.everything()
    assert (job.run_dir / "attempts/0/nodes").read_text().split() == ["n1", "n2"]
    assert (job.run_dir / "attempts/1/nodes").read_text().split() == ["n1", "n3"]
    (verdict, _, _, node), *_ = verdicts(job)
    assert (verdict, node) == ("unknown" if kind in ("hangs", "vanishes") else "restart", "n2")
    assert bad_nodes(job) == (["n2"] if verdict == "restart" else [])
    if kind == "late":
        assert "begins after step 20 on n3" in job.everything()


def test_the_first_node_can_be_the_one(cluster: Cluster, tmp_path: Path) -> None:
    job = start(cluster, tmp_path, "n1 at-once\n")
    assert wait_for_end(job)[-1] == "done 0", job.everything()
    assert (job.run_dir / "attempts/1/nodes").read_text().split() == ["n2", "n3"]


def test_all_roles_start_again_without_the_node_at_fault(pbs: Pbs, tmp_path: Path) -> None:
    (tmp_path / "bad").write_text("n2 late\n")
    train = {"script": str(PROGRAMS / "bad_node.py"), "args": ["30", str(tmp_path / "bad")]}
    direct = {"mode": "direct", "processes_per_node": 1}
    content = {key: value for key, value in spec(launch={}).items() if key != "run"} | {
        "resources": {"nodes": 2, "spare_nodes": 1, "cpus_per_node": 2, "walltime": "20m"},
        "roles": {
            "server": {"nodes": 1, "run": {"command": ["sleep", "300"]}},
            "train": {"nodes": 1, "run": train, "launch": direct},
        },
        "on_failure": "restart",
    }
    job = submit(content, scheduler="pbs", cwd=tmp_path, env=pbs.env)
    assert wait_for_end(job)[-1] == "done 0", job.everything()
    assert (job.run_dir / "attempts/1/nodes").read_text().split() == ["n1", "n3"]
    assert bad_nodes(job) == ["n2"]
    assert "begins after step 20 on n3" in job.everything()


def test_the_loss_of_a_roles_node_is_what_ends_a_job_that_slurm_takes_back(
    slurm: Slurm, tmp_path: Path
) -> None:
    """There is no start in an allocation that is gone; Slurm's own follows in the next."""
    content = {key: value for key, value in spec(launch={}).items() if key != "run"} | {
        "resources": {"nodes": 2, "cpus_per_node": 2, "walltime": "20m"},
        "roles": {
            "server": {"nodes": 1, "run": {"command": ["sleep", "1000"]}},
            "train": {
                "nodes": 1,
                "run": {"command": ["bash", "-c", '[ "$JOBGEN_NODE" = n3 ] || sleep 1000']},
            },
        },
        "on_failure": PATIENT,
    }
    job = submit(content, scheduler="slurm", cwd=tmp_path, env=slurm.env)
    job.wait_for(lambda: any(job.run_dir.glob("roles/train/logs/n2/rank-0.out")))
    slurm.fail("n2")
    try:
        job.wait_for(lambda: len(outcomes(job)) == 2)
        assert outcomes(job) == ["failed 1", "done 0"], job.everything()
        assert verdicts(job) == [["restart", "node-lost", "-", "n2"]]
        assert bad_nodes(job) == ["n2"]
    finally:
        slurm.heal("n2")


@pytest.mark.parametrize(
    ("cluster", "kind", "starts"),
    [("slurm", "crashes", 2), ("pbs", "wrong", 1)],
    indirect=["cluster"],
)
def test_an_error_of_the_program_ends_the_job_and_blames_no_node(
    cluster: Cluster, tmp_path: Path, kind: str, starts: int
) -> None:
    job = start(cluster, tmp_path, f"user {kind}\n")
    assert [end.split()[0] for end in wait_for_end(job)][-1] == "failed", job.everything()
    assert len(outcomes(job)) == starts
    assert verdicts(job)[-1][0] == "stop"
    assert bad_nodes(job) == []


def test_a_cancelled_job_does_not_start_again(slurm: Slurm, tmp_path: Path) -> None:
    job = start(slurm, tmp_path, "user stays\n")
    job.wait_for(lambda: (job.run_dir / "checkpoints/step").exists())
    slurm.cancel(job.id)
    slurm.wait(job.id)
    assert outcomes(job) == ["cancelled 143"], job.everything()
    assert verdicts(job) == []


def test_a_lost_node_is_replaced_in_the_same_job(slurm: Slurm, tmp_path: Path) -> None:
    job = start(slurm, tmp_path, "user stays\n")
    job.wait_for(lambda: (job.run_dir / "checkpoints/step").exists())
    slurm.fail("n2")
    try:
        assert wait_for_end(job)[-1] == "done 0", job.everything()
        assert verdicts(job)[0] == ["restart", "node-lost", "-", "n2"]
    finally:
        slurm.heal("n2")


def test_status_tells_of_a_job_that_is_idle_as_slurm_has_lost_its_first_node(
    slurm: Slurm, tmp_path: Path
) -> None:
    job = start(slurm, tmp_path, "user stays\n")
    job.wait_for(lambda: (job.run_dir / "checkpoints/step").exists())
    slurm.fail("n1")
    try:
        job.wait_for(lambda: diagnosed(job, slurm, tmp_path)["cause"] == "node-lost")
        told = jobgen("status", job.id, env=slurm.env, cwd=tmp_path).stdout
        assert told.startswith("running\nNode failure on n1 has ended its script: cancel it"), told
    finally:
        slurm.cancel(job.id)
        slurm.heal("n1")


def test_pbs_too_lets_the_run_go_on_with_a_spare_node(pbs: Pbs, tmp_path: Path) -> None:
    """PBS itself ends a job some minutes after it has lost a node, unless it is told not to."""
    program = {"script": str(PROGRAMS / "bad_node.py"), "args": ["250", str(tmp_path / "bad")]}
    with pbs.settings(down_delay=0.2, max_poll_downtime=25):
        job = start(pbs, tmp_path, "n2 stays\n", run=program, command=BRISK)
        job.wait_for(lambda: (job.run_dir / "checkpoints/step").exists())
        pbs.fail("n2")
        try:
            assert wait_for_end(job) == ["continued 1", "done 0"], job.everything()
            assert verdicts(job) == [["restart", "node-lost", "-", "n2"]]
        finally:
            pbs.heal("n2")


@pytest.mark.parametrize("then", ["requeue", "resubmit"])
def test_without_a_spare_another_job_goes_on_elsewhere(
    slurm: Slurm, tmp_path: Path, then: str
) -> None:
    walltime = {"notice": "1m", "then": then}
    resources = {"nodes": 2, "cpus_per_node": 2, "walltime": "20m"}
    job = start(slurm, tmp_path, "n2 late\n", on_walltime=walltime, resources=resources)
    assert wait_for_end(job)[-1] == "done 0", job.everything()
    assert (job.run_dir / "attempts/1/nodes").read_text().split() == ["n1", "n3"]


def test_on_pbs_the_next_job_goes_on(pbs: Pbs, tmp_path: Path) -> None:
    walltime = {"notice": "1m", "then": "resubmit", "at_most": 2}
    resources = {"nodes": 2, "cpus_per_node": 2, "walltime": "20m"}
    job = start(pbs, tmp_path, "n2 once\n", on_walltime=walltime, resources=resources)
    assert wait_for_end(job)[-1] == "done 0", job.everything()
