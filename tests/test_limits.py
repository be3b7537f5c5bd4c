"""Every rule of every shipped profile, broken: what jobgen says, and on whose word."""

import re
from pathlib import Path

import pytest
from support import complaint, jobgen, load, plan_of, working_in

from jobgen import limits
from jobgen.limits import Ground
from jobgen.plan import Plan, resolve

TODAY = "2026-09-01"  # when no profile of documentation is a year old
JOB = """\
name: a
resources: {nodes: 2, gpus_per_node: 4, walltime: 1h}
run: {module: m}
"""
POLARIS = "filesystems=[home, eagle]"
GADI = "resources.memory_per_node=90GB"


def refusal(site: str, *overrides: str) -> str:
    """Why a job cannot run there, the place of the fault left out."""
    told = complaint(JOB, *overrides, site=site, today=TODAY)
    return re.sub(r"(?m)^(--set [\w.]+|job.yaml)(:\d+:\d+)?: ", "", told)


def warnings(site: str, *overrides: str, today: str = TODAY) -> list[str]:
    """What jobgen warns of, of a job that it renders all the same."""
    account = "account=project_1" if site == "lumi-g" else "account=def-a_g"
    loaded = load(JOB, account, *overrides)
    notes = resolve(loaded, site=site, today=today).notes
    return [
        re.sub(r"^warning: (--set [\w.]+|job.yaml)(:\d+:\d+)?: ", "", note)
        for note in notes
        if note.startswith("warning: ")
    ]


QUEUES = "https://docs.alcf.anl.gov/polaris/running-jobs, as of 2026-08"
AURORA = "https://docs.alcf.anl.gov/aurora/running-jobs-aurora, as of 2026-08"
COPY = (
    "NCI's page Queue Limits (236881198), as the public Gadi PBS calculator copies it, as of 2026"
)
DERECHO = "https://ncar-hpc-docs.readthedocs.io/en/latest/pbs/charging, as of 2026-05"
FRONTIER = "https://docs.olcf.ornl.gov/systems/frontier_user_guide.html, as of 2026-07"
ROIHU = "https://docs.csc.fi/computing/running/batch-job-partitions, as of 2026-08"
CLARIDEN = "https://docs.cscs.ch/clusters/clariden, as of 2026-08"


@pytest.mark.parametrize(
    ("site", "overrides", "message"),
    [
        # Gadi: the walltime depends on the CPUs of the whole job, 48 a node.
        (
            "nci-gadi",
            [GADI, "queue=gpuvolta", "resources.nodes=5", "resources.walltime=12h"],
            f"resources.walltime: 12h exceeds gpuvolta's 5h for 193-960 CPUs ({COPY}); "
            "use at most 4 nodes or 5h",
        ),
        (
            "nci-gadi",
            [GADI, "queue=gpuvolta", "resources.walltime=30h", "resources.nodes=4"],
            f"resources.walltime: 30h exceeds gpuvolta's 24h for 97-192 CPUs ({COPY}); "
            "use at most 2 nodes or 24h",
        ),
        (
            "nci-gadi",
            [GADI, "queue=gpuvolta", "resources.nodes=1", "resources.walltime=2d1h"],
            f"resources.walltime: 49h exceeds gpuvolta's 48h for 1-96 CPUs ({COPY}); "
            "use at most 48h",
        ),
        (
            "nci-gadi",
            [GADI, "queue=gpuvolta", "resources.nodes=21"],
            f"resources.nodes: 21 nodes with 1008 CPUs: more than gpuvolta's 960 CPUs ({COPY}); "
            "use at most 20 nodes",
        ),
        (
            "nci-gadi",
            [GADI, "queue=dgxa100", "resources.gpus_per_node=8", "resources.nodes=3"],
            f"resources.nodes: 3 nodes with 384 CPUs: more than dgxa100's 256 CPUs ({COPY}); "
            "use at most 2 nodes",
        ),
        (
            "nci-gadi",
            [GADI, "queue=dgxa100", "resources.gpus_per_node=8", "resources.walltime=6h"],
            f"resources.walltime: 6h exceeds dgxa100's 5h for 129-256 CPUs ({COPY}); "
            "use at most 1 node or 5h",
        ),
        (
            "nci-gadi",
            [GADI, "queue=gpuhopper"],
            f"resources.nodes: 2 nodes with 96 CPUs: more than gpuhopper's 48 CPUs ({COPY}); "
            "use at most 1 node",
        ),
        (
            "nci-gadi",
            [
                GADI,
                "queue=copyq",
                "resources={nodes: 1, cpus_per_node: 1, memory_per_node: 4GB, walltime: 11h}",
            ],
            f"resources.walltime: 11h exceeds copyq's 10h for 1 CPUs ({COPY}); use at most 10h",
        ),
        # Polaris: the queue follows from the nodes and the walltime, and the fault from both.
        (
            "alcf-polaris",
            [POLARIS, "resources.nodes=12", "resources.walltime=5h"],
            f"resources.walltime: 5h exceeds prod's 3h for 10-24 nodes ({QUEUES}); "
            "use at most 6h on 25 nodes or more, or 3h",
        ),
        (
            "alcf-polaris",
            [POLARIS, "resources.nodes=6", "resources.walltime=5h"],
            f"resources.walltime: 5h exceeds debug-scaling's 1h for 1-10 nodes ({QUEUES}); "
            "use at most 1h, or write queue: preemptable",
        ),
        (
            "alcf-polaris",
            [POLARIS, "resources.nodes=600"],
            f"resources.nodes: 600 nodes: more than prod's 496 nodes ({QUEUES}); "
            "use at most 496 nodes",
        ),
        (
            "alcf-polaris",
            [POLARIS, "queue=prod"],
            f"resources.nodes: 2 nodes: less than prod's least of 10 nodes ({QUEUES}); "
            "use at least 10 nodes",
        ),
        (
            "alcf-polaris",
            [POLARIS, "queue=debug", "resources.walltime=1m"],
            f"resources.walltime: 1m is less than debug's 5m for 1-2 nodes ({QUEUES}); "
            "use at least 5m",
        ),
        (
            "alcf-polaris",
            [POLARIS, "queue=preemptable", "resources.walltime=73h"],
            f"resources.walltime: 73h exceeds preemptable's 72h for 1-10 nodes ({QUEUES}); "
            "use at most 72h",
        ),
        (
            "alcf-polaris",
            [POLARIS, "queue=capacity", "resources.walltime=169h"],
            f"resources.walltime: 169h exceeds capacity's 168h for 1-4 nodes ({QUEUES}); "
            "use at most 168h",
        ),
        *[
            (
                "alcf-polaris",
                [POLARIS, f"queue={queue}"],
                f"queue: {queue} takes no jobs itself ({QUEUES}); "
                "write queue: prod, which leads there",
            )
            for queue in ("small", "medium", "large")
        ],
        (
            "alcf-polaris",
            [],
            "every job must name the file systems that it uses "
            "(https://docs.alcf.anl.gov/running-jobs, as of 2026-08); "
            "add filesystems: [home, eagle]",
        ),
        (
            "alcf-polaris",
            ["filesystems=[home, grand]"],
            "filesystems[1]: 'grand' is no file system of this site "
            "(https://docs.alcf.anl.gov/running-jobs, as of 2026-08); known are home, eagle",
        ),
        (
            "alcf-polaris",
            [POLARIS, "resources.walltime=null"],
            "resources: every job must say its walltime "
            "(https://docs.alcf.anl.gov/running-jobs, as of 2026-08); add walltime, such as 1h",
        ),
        (
            "alcf-polaris",
            [POLARIS, "resources.cpus_per_node=8"],
            "resources.cpus_per_node: 8 CPUs for 4 GPUs a node, but the CPUs follow from the nodes "
            "or GPUs here: do not ask (https://docs.alcf.anl.gov/polaris, as of 2026-08); "
            "leave cpus_per_node out",
        ),
        (
            "alcf-polaris",
            [POLARIS, "resources.memory_per_node=8GB"],
            "resources.memory_per_node: 8GB, but the memory follows from the nodes or GPUs here: "
            "do not ask (https://docs.alcf.anl.gov/polaris, as of 2026-08); "
            "leave memory_per_node out",
        ),
        (
            "alcf-polaris",
            [POLARIS, "resources.gpus_per_node=8"],
            "resources.gpus_per_node: 8 GPUs, more than the 4 of a node "
            "(https://docs.alcf.anl.gov/polaris, as of 2026-08); use at most 4",
        ),
        # Aurora: 12 tiles a node, all of them; 17 to 255 nodes have an hour.
        (
            "alcf-aurora",
            ["filesystems=[flare]"],
            "resources.gpus_per_node: 4 GPUs, but a job has all 12 of each "
            "(https://docs.alcf.anl.gov/aurora/data-science/frameworks/pytorch, as of 2026-08); "
            "write gpus_per_node: 12",
        ),
        (
            "alcf-aurora",
            [
                "filesystems=[flare]",
                "resources={nodes: 17, gpus_per_node: 12, walltime: 2h}",
            ],
            f"resources.walltime: 2h exceeds debug-scaling's 1h for 2-256 nodes ({AURORA}); "
            "use at most 1h",
        ),
        (
            "alcf-aurora",
            [
                "filesystems=[flare]",
                "resources={nodes: 300, gpus_per_node: 12, walltime: 13h}",
            ],
            f"resources.walltime: 13h exceeds prod's 12h for 256-1024 nodes ({AURORA}); "
            "use at most 18h on 1025 nodes or more, or 12h",
        ),
        # NCAR.
        (
            "ncar-derecho",
            ["resources.walltime=13h"],
            f"resources.walltime: 13h exceeds main's 12h for 1-82 nodes ({DERECHO}); "
            "use at most 12h, or write queue: preempt",
        ),
        (
            "ncar-derecho",
            ["queue=develop", "resources.nodes=3"],
            f"resources.nodes: 3 nodes with 12 GPUs: more than develop's 8 GPUs ({DERECHO}); "
            "use at most 2 nodes",
        ),
        (
            "ncar-derecho",
            ["queue=preempt", "resources.walltime=101h"],
            f"resources.walltime: 101h exceeds preempt's 100h ({DERECHO}); use at most 100h",
        ),
        (
            "ncar-derecho",
            ["resources.cpus_per_node=65"],
            "resources.cpus_per_node: 65 CPUs, more than the 64 of a node (https://ncar-hpc-docs."
            "readthedocs.io/en/latest/pbs/job-scripts, as of 2026-05); use at most 64",
        ),
        (
            "ncar-casper",
            [],
            "resources: every GPU job must name the type (https://ncar-hpc-docs.readthedocs.io/en/"
            "latest/compute-systems/casper/casper-node-types, as of 2026-05); add gpu_type, "
            "one of h100, a100_80gb, v100_8way, v100_4way, l40, gp100, cc80",
        ),
        (
            "ncar-casper",
            ["resources.gpu_type=k80"],
            "resources.gpu_type: 'k80' is no GPU of this site (https://ncar-hpc-docs.readthedocs."
            "io/en/latest/compute-systems/casper/casper-node-types, as of 2026-05); "
            "known are h100, a100_80gb, v100_8way, v100_4way, l40, gp100, cc80",
        ),
        (
            "ncar-casper",
            ["resources.gpu_type=h100", "resources.nodes=3"],
            "resources.gpus_per_node: 12 GPUs in all, more than the 8 that a job can have "
            "(https://ncar-hpc-docs.readthedocs.io/en/latest/compute-systems/casper/"
            "casper-node-types, as of 2026-05); use at most 8",
        ),
        (
            "ncar-casper",
            ["resources.gpu_type=v100_4way", "resources.walltime=25h"],
            f"resources.walltime: 25h exceeds casper's 24h for 0-32 GPUs ({DERECHO}); "
            "use at most 24h",
        ),
        (
            "ncar-casper",
            ["resources.gpu_type=v100_4way", "resources.nodes=9"],
            f"resources.nodes: 9 nodes with 36 GPUs: more than casper's 32 GPUs ({DERECHO}); "
            "use at most 8 nodes",
        ),
        # Frontier: a larger job may run longer.
        (
            "olcf-frontier",
            ["resources.walltime=3h"],
            f"resources.walltime: 3h exceeds batch's 2h for 1-91 nodes ({FRONTIER}); "
            "use at most 6h on 92 nodes or more, or 2h, or write queue: extended",
        ),
        (
            "olcf-frontier",
            ["queue=extended", "resources.nodes=65"],
            f"resources.nodes: 65 nodes: more than extended's 64 nodes ({FRONTIER}); "
            "use at most 64 nodes",
        ),
        (
            "olcf-frontier",
            ["resources.cpus_per_gpu=8"],
            "resources.cpus_per_gpu: 32 CPUs for 4 GPUs a node: more than 7 with each GPU "
            f"({FRONTIER}); leave cpus_per_gpu out",
        ),
        # LUMI.
        (
            "lumi-g",
            ["account=vp91"],
            "account: 'vp91' is no account of this site "
            "(https://docs.lumi-supercomputer.eu/runjobs/scheduled-jobs/partitions, "
            "as of 2026-05); it must be project_ and a number",
        ),
        (
            "lumi-g",
            ["resources.cpus_per_node=64"],
            "resources.cpus_per_node: 64 CPUs for 4 GPUs a node: more than 7 with each GPU "
            "(https://docs.lumi-supercomputer.eu/runjobs/scheduled-jobs/lumig-job, "
            "as of 2026-05); leave cpus_per_node out",
        ),
        (
            "lumi-g",
            ["resources.memory_per_node=300GB"],
            "resources.memory_per_node: 300GB, more than 60GB for each GPU "
            "(https://docs.lumi-supercomputer.eu/runjobs/scheduled-jobs/lumig-job, "
            "as of 2026-05); use at most 240GB",
        ),
        # Roihu.
        (
            "csc-roihu",
            ["queue=gputest"],
            f"resources.walltime: 1h exceeds gputest's 15m for 1-2 nodes ({ROIHU}); "
            "use at most 15m",
        ),
        (
            "csc-roihu",
            ["queue=gpumedium"],
            f"resources.nodes: 2 nodes with 8 GPUs: more than gpumedium's 4 GPUs ({ROIHU}); "
            "use at most 1 node",
        ),
        (
            "csc-roihu",
            ["resources.nodes=11"],
            f"resources.nodes: 11 nodes: more than gpularge's 10 nodes ({ROIHU}); "
            "use at most 10 nodes",
        ),
        (
            "csc-roihu",
            ["resources.cpus_per_gpu=71"],
            "resources.cpus_per_gpu: 284 CPUs for 4 GPUs a node: there are 72 with each GPU, "
            f"no other number ({ROIHU}); leave cpus_per_gpu out",
        ),
        # Clariden: a product.
        (
            "cscs-clariden",
            ["queue=debug"],
            "resources.walltime: 2 nodes for 1h are 120 node-minutes, more than debug's 90 "
            f"({CLARIDEN}); use at most 45m",
        ),
        (
            "cscs-clariden",
            ["queue=debug", "resources.nodes=5", "resources.walltime=1m"],
            f"resources.nodes: 5 nodes: more than debug's 4 nodes ({CLARIDEN}); "
            "use at most 4 nodes",
        ),
        (
            "cscs-clariden",
            ["queue=normal", "resources.walltime=13h"],
            f"resources.walltime: 13h exceeds normal's 12h ({CLARIDEN}); use at most 12h",
        ),
        (
            "cscs-clariden",
            ["queue=low", "resources.walltime=25h"],
            f"resources.walltime: 25h exceeds low's 24h ({CLARIDEN}); use at most 24h",
        ),
        (
            "isambard-ai",
            ["resources.walltime=25h"],
            "resources.walltime: 25h exceeds workq's 24h (https://docs.isambard.ac.uk/"
            "user-documentation/information/job-scheduling, as of 2026); use at most 24h",
        ),
        (
            "alliance-rorqual",
            ["account=vp91"],
            "account: 'vp91' is no account of this site (https://docs.alliancecan.ca/wiki/"
            "Rorqual/en, as of 2026-04); it must be def-, rrg- or aip- and a name",
        ),
        (
            "alliance-rorqual",
            ["resources.walltime=8d"],
            "resources.walltime: 192h exceeds every queue's 168h (https://docs.alliancecan.ca/"
            "wiki/Rorqual/en, as of 2026-04); use at most 168h",
        ),
        (
            "aws-parallelcluster",
            ["resources.gpus_per_node=9"],
            "resources.gpus_per_node: 9 GPUs, more than the 8 of a node "
            "(https://github.com/awslabs/awsome-distributed-training 3.test_cases/pytorch, "
            "as of 2026-06); use at most 8",
        ),
    ],
)
def test_what_is_impossible_is_refused(site: str, overrides: list[str], message: str) -> None:
    assert refusal(site, *overrides) == message


SCRIPTS = "this is from users' scripts, so it may be wrong"
OLD = "this is more than 12 months old, so it may have changed"


@pytest.mark.parametrize(
    ("site", "overrides", "message", "doubt"),
    [
        ("nersc-perlmutter", ["queue=debug"], "1h exceeds debug's 30m for 1-8 nodes", SCRIPTS),
        ("nersc-perlmutter", ["queue=shared"], "more than shared's 2 GPUs", SCRIPTS),
        (
            "nersc-perlmutter",
            ["queue=regular", "resources.nodes=1793"],
            "more than regular's 1792 nodes",
            SCRIPTS,
        ),
        ("nersc-perlmutter", ["account=m1"], "an account whose GPU hours end in _g", SCRIPTS),
        ("nersc-perlmutter", ["resources.cpus_per_gpu=33"], "more than 32 with each GPU", SCRIPTS),
        ("lumi-g", ["queue=dev-g", "resources.walltime=4h"], "exceeds dev-g's 3h", OLD),
        ("lumi-g", ["queue=small-g", "resources.nodes=5"], "more than small-g's 4 nodes", OLD),
        ("lumi-g", ["queue=standard-g", "resources.walltime=49h"], "standard-g's 48h", OLD),
        ("lumi-g", ["queue=bench", "resources.walltime=7h"], "exceeds bench's 6h", OLD),
        ("cineca-leonardo", ["resources.walltime=25h"], "boost_usr_prod's 24h", SCRIPTS),
        (
            "jsc-juwels-booster",
            ["queue=develbooster", "resources.walltime=3h"],
            "develbooster's 2h",
            SCRIPTS,
        ),
        ("jsc-juwels-booster", ["queue=largebooster"], "least of 385 nodes", SCRIPTS),
        (
            "jsc-juwels-booster",
            ["queue=booster", "resources.nodes=385"],
            "more than booster's 384 nodes",
            SCRIPTS,
        ),
        ("jsc-jupiter", ["resources.walltime=13h"], "exceeds booster's 12h", SCRIPTS),
        ("bsc-mn5-acc", ["resources.memory_per_node=8GB"], "memory follows", SCRIPTS),
        ("bsc-mn5-acc", ["resources.cpus_per_gpu=10"], "are 20 with each GPU", SCRIPTS),
        (
            "bsc-mn5-acc",
            ["queue=acc_ehpc", "resources.nodes=101"],
            "101 nodes with 8080 CPUs: more than acc_ehpc's 8000 CPUs",
            SCRIPTS,
        ),
        (
            "bsc-mn5-acc",
            ["queue=acc_debug", "resources.walltime=3h"],
            "acc_debug's 2h for 1-640 CPUs",
            SCRIPTS,
        ),
        ("bsc-mn5-acc", ["queue=acc_interactive"], "acc_interactive's 40 CPUs", SCRIPTS),
        ("surf-snellius", ["queue=gpu_a100", "resources.walltime=6d"], "gpu_a100's 120h", SCRIPTS),
        (
            "surf-snellius",
            ["queue=gpu_h100", "resources.gpus_per_node=2"],
            "2 GPUs, but a job on several nodes has all 4 of each",
            SCRIPTS,
        ),
        (
            "surf-snellius",
            ["queue=gpu_h100", "resources.gpus_per_node=0"],
            "less than gpu_h100's least of 1 GPU",
            SCRIPTS,
        ),
        ("pawsey-setonix", ["queue=gpu-dev", "resources.walltime=5h"], "gpu-dev's 4h", SCRIPTS),
        ("pawsey-setonix", ["queue=gpu", "resources.walltime=25h"], "gpu's 24h", SCRIPTS),
        (
            "pawsey-setonix",
            ["queue=gpu-highmem", "resources.nodes=39"],
            "more than gpu-highmem's 38 nodes",
            SCRIPTS,
        ),
        ("pawsey-setonix", ["account=vp91"], "it must be a project and -gpu", SCRIPTS),
        ("pawsey-setonix", ["resources.cpus_per_gpu=8"], "the CPUs follow", SCRIPTS),
    ],
)
def test_what_may_be_impossible_is_only_warned_of(
    site: str, overrides: list[str], message: str, doubt: str
) -> None:
    (found,) = [warning for warning in warnings(site, *overrides) if message in warning]
    assert found.endswith(f" ({doubt})")
    assert "as of 20" in found


def test_a_limit_a_year_old_is_a_warning_and_the_script_is_the_same() -> None:
    too_long = ["account=project_1", "resources.walltime=13h", "queue=normal"]
    young, old = "2027-08-01", "2027-08-02"
    assert "exceeds normal's 12h" in complaint(JOB, *too_long, site="cscs-clariden", today=young)
    assert any(OLD in warning for warning in warnings("cscs-clariden", *too_long, today=old))


@pytest.mark.parametrize(
    ("as_of", "today", "old"),
    [
        ("2026", "2027-01-01", False),
        ("2026", "2027-01-02", True),
        ("2026-08", "2027-08-01", False),
        ("2026-08", "2027-08-02", True),
        ("2026-08-19", "2027-08-19", False),
        ("2026-08-19", "2027-08-20", True),
    ],
)
def test_a_date_in_part_counts_from_its_first_day(as_of: str, today: str, old: bool) -> None:
    assert bool(Ground("", as_of, "docs").doubt(today)) == old


def plan_for(site: str, *overrides: str) -> Plan:
    return resolve(load(JOB, *overrides), site=site, today=TODAY)


def test_an_account_may_be_given_at_submission() -> None:
    (warning,) = [note for note in plan_for("cscs-clariden").notes if "account" in note]
    assert warning == (
        "warning: job.yaml:1:1: every job here needs an account (https://docs.cscs.ch/running/"
        "slurm, as of 2026-08); write account: NAME, or give it to the command that submits "
        "(it may be given later)"
    )


def test_a_queue_that_the_profile_does_not_know_is_warned_of() -> None:
    (warning,) = warnings("cscs-clariden", "queue=norml")
    assert warning == (
        "queue: the profile of CSCS Alps, Clariden (Switzerland) knows no queue 'norml'; "
        "it knows normal, debug, low, xfer (the list may be incomplete)"
    )


def test_a_qos_of_the_users_own_has_limits_of_its_own() -> None:
    own = 'directives=["#SBATCH --qos=boost_qos_lprod"]'
    assert warnings("cineca-leonardo", "resources.walltime=25h", own) == []


def test_no_limits_renders_what_was_refused_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits.time, "strftime", lambda _: TODAY)
    with working_in(tmp_path):
        Path("job.yaml").write_text(JOB)
        asked = ["render", "--site", "cscs-clariden", "--set", "queue=debug"]
        assert jobgen(*asked).code == 3
        script = jobgen(*asked, "--no-limits").out
        assert "# limits of the site: not checked, by --no-limits\n" in script
        assert "--site cscs-clariden --no-limits --set queue=debug\n" in script
        assert "#SBATCH --time=01:00:00\n" in script  # and nothing is clamped
        assert jobgen(*asked, "--no-limits", "-o", "job.sbatch").code == 0
        assert jobgen("check", "job.sbatch") == (0, "", "")


def test_profiles_of_no_site_refuse_nothing() -> None:
    huge = {"name": "a", "run": {"module": "m"}, "resources": {"nodes": 9999, "walltime": "99d"}}
    for site in ("slurm-generic", "pbs-generic", "local"):
        assert plan_of(huge, site=site).notes == ()
