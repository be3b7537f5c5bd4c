"""Scripts that somebody wrote and the specs that `jobgen import` makes of them: the same jobs.

Each program prints what it was given and where it is; the lines of both jobs are the same.
"""

import ast
import sys
from pathlib import Path
from typing import Any

import pytest
from cluster_fixtures import Slurm, skip_without
from jobs import JOBGEN, Job

skip_without("torch")

pytestmark = pytest.mark.cluster

# Stands in for apptainer: what it runs knows the image by a variable.
APPTAINER = """\
#!/bin/bash
until [[ -d $1/of-the-image ]]; do shift; done
export INSIDE=$1
shift
exec "$@"
"""
PROGRAM = """\
import os, sys
names = ("SLURM_PROCID", "SLURM_LOCALID") if "--slurm" in sys.argv else ()
print(repr({"argv": sys.argv[1:], "inside": os.environ.get("INSIDE"),
            "folder": os.getcwd(), **{name: os.environ.get(name) for name in names}}), flush=True)
"""
HEAD = """\
#!/bin/bash
#SBATCH --job-name={name} --output=out-%j.txt
#SBATCH --time=5 --cpus-per-task=1
#SBATCH {asked}

source {prefix}/bin/activate
"""
SCRIPTS = {
    "array-of-arguments": (
        "--nodes=1 --ntasks-per-node=1",
        """\
OUT=$PWD/out
ARGS=(--out "$OUT/two words" --lr 3)
ARGS+=(--tag $(basename some/thing))
torchrun --standalone --nproc-per-node=2 program.py "${{ARGS[@]}}" --seed ${{SEED:-7}}
""",
        2,
    ),
    "container": (
        "--nodes=1 --ntasks-per-node=1",
        """\
IMAGE={image}
srun apptainer exec --no-home --bind {image}:/data $IMAGE \\
    bash -c "source {prefix}/bin/activate; python program.py --data /data"
""",
        1,
    ),
    "slurm-procid": (
        "--nodes=3 --ntasks-per-node=2",
        """\
export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)
srun --kill-on-bad-exit=1 python program.py --slurm --ranks-per-node=$SLURM_NTASKS_PER_NODE
""",
        6,
    ),
}


def lines_of(*paths: Path) -> list[dict[str, Any]]:
    """What the processes have printed, in an order of its own."""
    lines = [line for path in paths for line in path.read_text().splitlines()]
    printed = [ast.literal_eval(line) for line in lines if line.startswith("{'argv'")]
    return sorted(printed, key=repr)


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_imported_job_does_what_the_script_does(
    name: str, slurm: Slurm, tmp_path: Path
) -> None:
    asked, body, processes = SCRIPTS[name]
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "image" / "of-the-image").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "apptainer").write_text(APPTAINER)
    (tmp_path / "bin" / "apptainer").chmod(0o755)
    places = {
        "name": name,
        "asked": asked,
        "prefix": sys.prefix,
        "image": tmp_path / "image",
    }
    script = tmp_path / "job.sbatch"
    script.write_text((HEAD + body).format(**places))
    env = slurm.env | {"PATH": f"{slurm.run_folder}/bin:{tmp_path}/bin:{slurm.env['PATH']}"}

    job_id = slurm.run("sbatch", "--parsable", str(script), cwd=tmp_path, env=env).stdout.strip()
    state = slurm.wait(job_id)["JobState"]
    output = tmp_path / f"out-{job_id}.txt"
    assert state == "COMPLETED", output.read_text()
    theirs = lines_of(output)
    assert len(theirs) == processes

    words = ("import", "job.sbatch", "-o", "job.yaml")
    imported = slurm.run(*JOBGEN, *words, cwd=tmp_path, env=env)
    assert "Lost" not in imported.stderr
    submitted = slurm.run(
        *JOBGEN, "submit", "--wait", "job.yaml", cwd=tmp_path, env=env, check=False
    )
    folder = tmp_path / "runs" / name / submitted.stdout.split()[0]
    job = Job(folder.name, tmp_path, name)
    assert submitted.returncode == 0, submitted.stderr + job.everything()
    ours = lines_of(*folder.glob("logs/*/rank-*.out"))
    assert ours == theirs, (tmp_path / "job.yaml").read_text()
