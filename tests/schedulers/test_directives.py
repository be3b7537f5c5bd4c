"""Each scheduler's syntax: directives out, ids in."""

import pytest
from support import edited, plan_of

from jobgen import schedulers
from jobgen.schedulers.base import Scheduler

SLURM, PBS = schedulers.SCHEDULERS["slurm"], schedulers.SCHEDULERS["pbs"]
SMALL = "{nodes: 2}"
LARGE = "{nodes: 2, gpus_per_node: 8, cpus_per_gpu: 8, memory_per_node: 1.5TB, walltime: 36h}"
UNEQUAL = "{gpus_per_node: [2, 8, 2], cpus_per_gpu: 8, memory_per_node: 400GB, walltime: 4h}"
PAID = "account: x\nqueue: y\n"


def directives(scheduler: str, resources: str, more: str = PAID, **target: str) -> str:
    """The directives for these resources, one a line, without #SBATCH or #PBS."""
    text = edited(("{nodes: 2}", resources), ("", more))
    plan = plan_of(text, **target or {"scheduler": scheduler})
    lines = schedulers.SCHEDULERS[scheduler].directives(plan)
    sign = {"slurm": "#SBATCH ", "pbs": "#PBS "}[scheduler]
    assert all(line.startswith(sign) for line in lines)
    return "".join(line.removeprefix(sign) + "\n" for line in lines)


def test_directives_of_slurm() -> None:
    assert (
        directives("slurm", LARGE)
        == """\
--job-name=a
--account=x
--partition=y
--nodes=2
--ntasks-per-node=1
--cpus-per-task=64
--gpus-per-node=8
--mem=1536G
--time=36:00:00
--output=%x-%j.out
--open-mode=append
"""
    )


def test_unequal_nodes_are_a_heterogeneous_job_of_slurm() -> None:
    assert (
        directives("slurm", UNEQUAL)
        == """\
--job-name=a
--account=x
--partition=y
--nodes=1
--ntasks-per-node=1
--cpus-per-task=64
--gpus-per-node=8
--mem=400G
--time=04:00:00
--output=%x-%j.out
--open-mode=append
hetjob
--partition=y
--nodes=2
--ntasks-per-node=1
--cpus-per-task=16
--gpus-per-node=2
--mem=400G
--time=04:00:00
"""
    )


def test_directives_of_pbs() -> None:
    assert (
        directives("pbs", LARGE)
        == """\
-N a
-A x
-q y
-l select=2:ncpus=64:ngpus=8:mem=1536gb:mpiprocs=1
-l place=scatter
-l walltime=36:00:00
-j oe
-k oed
"""
    )


def test_unequal_nodes_are_several_chunks_of_pbs() -> None:
    chunks = "1:ncpus=64:ngpus=8:mem=400gb:mpiprocs=1+2:ncpus=16:ngpus=2:mem=400gb:mpiprocs=1"
    assert f"-l select={chunks}\n" in directives("pbs", UNEQUAL)


def test_directives_of_gadi_are_totals_of_the_job() -> None:
    assert (
        directives("pbs", LARGE, site="nci-gadi")
        == """\
-N a
-P x
-q y
-l ncpus=128
-l ngpus=16
-l mem=3tb
-l walltime=36:00:00
-j oe
-k oed
"""
    )


def test_what_nobody_said_is_left_to_the_scheduler() -> None:
    on_slurm, on_pbs = directives("slurm", SMALL, more=""), directives("pbs", SMALL, more="")
    assert on_slurm.startswith("--job-name=a\n--nodes=2\n--ntasks-per-node=1\n--output=")
    assert on_pbs == "-N a\n-l select=2:mpiprocs=1\n-l place=scatter\n-j oe\n-k oed\n"
    on_gadi = directives("pbs", "{nodes: 2, memory_per_node: 8GB}", more="", site="nci-gadi")
    assert on_gadi == "-N a\n-l mem=16gb\n-j oe\n-k oed\n"


def test_directives_of_the_user_come_last_and_as_they_are() -> None:
    more = 'directives: ["#SBATCH -C a100  # all", "#PBS -m  e"]\n'
    assert directives("slurm", SMALL, more).endswith("--open-mode=append\n-C a100  # all\n")
    assert directives("pbs", SMALL, more).endswith("-k oed\n-m  e\n")


def test_local_has_no_directives() -> None:
    local = schedulers.SCHEDULERS["local"]
    text = edited(("", f'{PAID}directives: ["#PBS -m e"]\n'))
    assert local.directives(plan_of(text)) == []
    assert local.output_folders("#PBS -o logs/\n") == []


@pytest.mark.parametrize(
    ("resources", "steps", "lists"),
    [
        (
            SMALL,
            ["--nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=$SLURM_CPUS_ON_NODE"],
            ["$SLURM_JOB_NODELIST"],
        ),
        (
            LARGE,
            ["--nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=64 --gpus-per-node=8"],
            ["$SLURM_JOB_NODELIST"],
        ),
        (
            UNEQUAL,
            [
                "--het-group=0 --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=64 "
                "--gpus-per-node=8",
                "--het-group=1 --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=16 "
                "--gpus-per-node=2",
            ],
            ["$SLURM_JOB_NODELIST_HET_GROUP_0", "$SLURM_JOB_NODELIST_HET_GROUP_1"],
        ),
    ],
)
def test_srun_is_told_everything_once_more(
    resources: str, steps: list[str], lists: list[str]
) -> None:
    launch = SLURM.launch(plan_of(edited(("{nodes: 2}", resources)), scheduler="slurm"))
    assert [" ".join(options) for options in launch.steps] == steps
    assert launch.node_lists == tuple(lists)


@pytest.mark.parametrize(
    ("scheduler", "output", "job_id"),
    [
        (SLURM, "4242\n", "4242"),
        (SLURM, "4242;cluster\n", "4242"),
        (SLURM, "Submitted batch job 4242\n", None),  # not what --parsable prints
        (SLURM, "sbatch: warning\n4242\n", None),
        (SLURM, "", None),
        (PBS, "4242.gadi-pbs\n", "4242.gadi-pbs"),
        (PBS, "4242\n", "4242"),
        (PBS, "4242[].pbs.example.org\n", "4242[].pbs.example.org"),
        (PBS, "qsub: waiting\n", None),
        (PBS, "", None),
    ],
)
def test_job_id(scheduler: Scheduler, output: str, job_id: str | None) -> None:
    assert scheduler.parse_job_id(output) == job_id


@pytest.mark.parametrize(
    ("scheduler", "directive", "folders"),
    [
        (SLURM, "#SBATCH --output=logs/%j.out", ["logs"]),
        (SLURM, "#SBATCH --output logs/%j.out", ["logs"]),
        (SLURM, "#SBATCH -o logs/a/%j.out", ["logs/a"]),
        (SLURM, "#SBATCH -ologs/%j.out", ["logs"]),
        (SLURM, "#SBATCH --error='my logs/%j.err'  # errors", ["my logs"]),
        (SLURM, "#SBATCH -N 2 --output=a/x -e b/x", ["a", "b"]),
        (SLURM, "#SBATCH --output=/scratch/x/%j.out", ["/scratch/x"]),
        (SLURM, "#SBATCH --output=%x-%j.out", []),
        (SLURM, "#SBATCH -N 2  # not -o logs/x", []),
        (SLURM, "#SBATCH --output=logs/%j/out", []),  # only Slurm knows it
        (SLURM, "#SBATCH --output='logs/x", []),  # which sbatch refuses
        (SLURM, "# SBATCH --output=logs/x", []),
        (SLURM, "echo '#SBATCH --output=logs/x'", []),
        (SLURM, "#SBATCH --open-mode=append", []),
        (PBS, "#PBS -o logs/out.txt", ["logs"]),
        (PBS, "#PBS -o logs/", ["logs/"]),
        (PBS, "#PBS -e login1:/home/x/logs/err", ["/home/x/logs"]),
        (PBS, "#PBS -ologs/out.txt", ["logs"]),
        (PBS, "#PBS -j oe -o logs/out.txt", ["logs"]),
        (PBS, "#PBS -o logs/^array_index^/out", []),
        (PBS, "#PBS -o out.txt", []),
        (PBS, "#PBS -k oed", []),
    ],
)
def test_output_folders(scheduler: Scheduler, directive: str, folders: list[str]) -> None:
    assert scheduler.output_folders(f"#!/bin/bash\n{directive}\necho\n") == folders


def test_commands() -> None:
    assert SLURM.submit_argv("f") == ["sbatch", "--parsable", "f"]
    assert SLURM.cancel_argv(["7", "8"]) == ["scancel", "7", "8"]
    assert PBS.submit_argv("f") == ["qsub", "f"]
    assert PBS.cancel_argv(["7.pbs"]) == ["qdel", "7.pbs"]


def test_where_the_output_of_the_script_goes() -> None:
    assert SLURM.output_file("a", "7") == "a-7.out"
    assert PBS.output_file("a", "7.pbs") == "a.o7"
    assert schedulers.SCHEDULERS["local"].output_file("a", "7") == "runs/a/7/job.out"


def test_that_slurm_may_signal_a_minute_early_is_said() -> None:
    text = edited(("{nodes: 2}", "{nodes: 2, walltime: 2h}"), ("", "on_walltime: {notice: 1m}\n"))
    lines = SLURM.directives(plan_of(text, scheduler="slurm"))
    (notice,) = (line for line in lines if line == "#SBATCH --signal=B:USR1@60")
    assert "or up to 60 s earlier" in notice.reason


@pytest.mark.parametrize(
    ("scheduler", "directive", "job_id", "path"),
    [
        (SLURM, "#SBATCH --output=%x-%j.out", "7", "a-7.out"),
        (SLURM, "#SBATCH --output=mine-%j.log", "7", "mine-7.log"),
        (SLURM, "#SBATCH -o logs/%x.txt\n#SBATCH --error=e", "7", "logs/a.txt"),
        (SLURM, "#SBATCH --output=one\n#SBATCH --output two", "7", "two"),
        (SLURM, "#SBATCH --output=%A/%a", "7_3", "7/3"),
        (SLURM, "#SBATCH --output=%j", "7_3", "a-7_3.out"),  # which is not known
        (SLURM, "#SBATCH --output=%N-%j", "7", "a-7.out"),
        (SLURM, "#SBATCH --error=e", "7", "a-7.out"),
        (PBS, "#PBS -o mine.log", "7.pbs", "mine.log"),
        (PBS, "#PBS -o login:/home/me/mine.log", "7.pbs", "/home/me/mine.log"),
        (PBS, "#PBS -o out^array_index^", "7[3].pbs", "out3"),
        (PBS, "#PBS -o logs/", "7.pbs", "a.o7"),
        (PBS, "#PBS -o $HOME/a", "7.pbs", "a.o7"),
        (PBS, "#PBS -j oe", "7.pbs", "a.o7"),
    ],
)
def test_the_output_is_where_a_directive_sends_it(
    scheduler: Scheduler, directive: str, job_id: str, path: str
) -> None:
    assert scheduler.find_output("a", job_id, f"#!/bin/bash\n{directive}\necho\n") == path


def test_when_a_job_starts_is_said_if_it_has_to_wait() -> None:
    words = "sbatch: Job 7 to start at {} using 2 processors on nodes n1 in partition main"
    assert SLURM.read_test(words.format("2001-01-01T00:00:00")) == ""
    late = SLURM.read_test(words.format("2999-01-01T00:00:00"))
    assert late.startswith("expected to start at 2999-01-01T00:00:00 using 2 processors")
    assert SLURM.read_test("sbatch: a remark") == "sbatch: a remark"
