"""How a process learns its number from what started it, and how the script finds a launcher."""

import subprocess
from pathlib import Path

import pytest
from support import ROOT, plan_of

from jobgen.rendering.render import render

RUNTIME = ROOT / "templates" / "runtime"


def run(program: str, *, tools: Path, **variables: str) -> tuple[int, str]:
    """The exit code and the words of a program with the launcher's functions."""
    text = f"""
        . {RUNTIME}/core.sh; . {RUNTIME}/mpiexec.sh
        environment() {{ :; }}
        names=(n1 n2) attempt_dir=/a run_dir=/r
        {program}
    """
    ended = subprocess.run(
        ["/bin/bash", "-euo", "pipefail", "-c", text],
        env={"PATH": str(tools), "USER": "a", "LOGNAME": "a", **variables},
        capture_output=True,
        text=True,
    )
    return ended.returncode, ended.stdout + ended.stderr


@pytest.mark.parametrize(
    ("variables", "numbers"),
    [
        ({"OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}, "5 1\n"),
        ({"PMI_RANK": "5", "MPI_LOCALRANKID": "1"}, "5 1\n"),  # Intel MPI, as by TACC's ibrun
        ({"MV2_COMM_WORLD_RANK": "5", "MV2_COMM_WORLD_LOCAL_RANK": "1"}, "5 1\n"),
        ({"PALS_RANKID": "5", "PMI_RANK": "5", "PALS_LOCAL_RANKID": "1"}, "5 1\n"),
    ],
)
def test_each_mpi_numbers_its_processes(
    tmp_path: Path, variables: dict[str, str], numbers: str
) -> None:
    assert run('find_rank; echo "$rank $local_rank"', tools=tmp_path, **variables) == (0, numbers)


def test_ibrun_is_looked_for_where_the_site_starts_jobs_by_it(tmp_path: Path) -> None:
    find = 'bring_launcher ibrun; echo "$node"'
    assert run(find, tools=tmp_path) == (1, "jobgen: error: there is no ibrun on n1\n")
    (tmp_path / "ibrun").write_text("#!/bin/sh\n")
    (tmp_path / "ibrun").chmod(0o755)
    assert run(find, tools=tmp_path) == (0, "n1\n")


def test_an_mpiexec_that_starts_through_srun_gets_all_cpus_of_a_node(tmp_path: Path) -> None:
    """From 23.11 on srun takes SLURM_CPUS_PER_TASK, which is a share of them, before SRUN_*."""
    job = {"name": "a", "scheduler": "slurm", "run": {"script": "a.py"}}
    job |= {"resources": {"nodes": 2, "gpus_per_node": 4, "cpus_per_node": 32, "walltime": "1h"}}
    script = render(plan_of(job | {"launch": {"mode": "direct", "launcher": "mpiexec"}}))
    launch = f"launch() {{{script.partition('launch() {')[2].partition(chr(10) + '}')[0]}\n}}"
    (tmp_path / "mpiexec").write_text("#!/bin/sh\necho Open MPI\n")
    (tmp_path / "mpiexec").chmod(0o755)
    show = "for it in ${!SLURM_@} ${!SRUN_@}; do echo $it=${!it}; done"
    program = f"{launch}\nstart_openmpi() {{ {show}; }}\nlaunch"
    given = {"SLURM_CPUS_ON_NODE": "32", "SLURM_CPUS_PER_TASK": "8", "SLURM_CPUS_PER_GPU": "8"}
    assert run(program, tools=tmp_path, **given) == (
        0,
        "SLURM_CPUS_ON_NODE=32\nSLURM_CPU_BIND=none\nSLURM_EXPORT_ENV=ALL\nSRUN_CPUS_PER_TASK=32\n",
    )


def test_a_job_whose_run_folder_is_gone_says_so_and_no_more(tmp_path: Path) -> None:
    end = "tmp_dir= stop='' word='' reason=''; conclude 0"
    told = "jobgen: FAILED: the run folder was removed: /r\n"
    assert run(end, tools=tmp_path) == (1, told)
