"""A script of the user's own, run as it is: once, on the first node, with its own launch lines."""

import os
from pathlib import Path

import pytest
from cluster_fixtures import Cluster
from jobs import Job, jobgen, spec, submit

ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
BODY = """\
trap 'echo told; exit 5' USR2
echo "$0 got $# arguments in $PWD" "${RANK-no rank}" "${OMP_NUM_THREADS-no threads}"
"""


def run(folder: Path, body: str, **changes: object) -> Job:
    (folder / "old.body.sh").write_text(BODY + body)
    run = {"body": "old.body.sh", "args": ["two words", "$HOME"]}
    given = {"launch": {}, "environment": {}, "run": run, **changes}
    options = {"scheduler": "local", "env": ENVIRONMENT, **given.pop("target", {})}  # type: ignore
    return submit(spec(**given), cwd=folder, **options)  # type: ignore[arg-type]


def test_it_runs_once_in_its_own_way_and_ends_as_it_ends(tmp_path: Path) -> None:
    job = run(tmp_path, "echo on $JOBGEN_NODE; exit 3", environment={"setup": "cd /"})
    assert job.wait() == "failed 3", job.everything()
    (output,) = job.run_dir.glob("logs/*/rank-0.out")
    told = f"{tmp_path}/old.body.sh got 2 arguments in / no rank no threads"
    assert output.read_text() == f"{told}\non node0\n"
    answer = jobgen("diagnose", job.id, env=os.environ, cwd=tmp_path)
    assert "failed (exit code 3)" in answer.stdout


def test_a_signal_of_the_scheduler_reaches_it(tmp_path: Path) -> None:
    job = run(tmp_path, "kill -USR2 $PPID; while :; do sleep 0.1; done")
    assert job.wait() == "failed 5", job.everything()


@pytest.mark.cluster
@pytest.mark.parametrize("kind", ["slurm", "pbs"])
def test_its_own_launcher_reaches_every_node(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    cluster: Cluster = request.getfixturevalue(kind)
    launch = {"slurm": "srun", "pbs": "pbsdsh"}[kind]
    target = {"scheduler": kind, "env": cluster.env}
    directive = "#SBATCH --ntasks-per-node=2" if kind == "slurm" else "#PBS -l place=scatter"
    listing = tmp_path / "nodes"
    job = run(
        tmp_path, f'{launch} bash -c "uname -n >>{listing}"', target=target, directives=[directive]
    )
    assert job.wait() == "done 0", job.everything()
    nodes = sorted(listing.read_text().split())
    assert nodes == [f"n{n}" for n in (1, 2, 3) for _ in range(2 if kind == "slurm" else 1)]
