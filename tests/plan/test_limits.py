"""Every rule of every shipped profile, broken: what jobgen says, and on whose word."""

import re
from pathlib import Path

import pytest
from support import complaint, jobgen, load, plan_of, working_in

from jobgen.plan import limits
from jobgen.plan.plan import Plan
from jobgen.plan.resolve import resolve
from jobgen.sites.profile import SiteSource

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
    return re.sub(
        r"(?m)^(--set ([\w.]+(:\d+:\d+)?: (?=[\w.\[\]]+: ))?|job.yaml(:\d+:\d+)?: )", "", told
    )


def warnings(site: str, *overrides: str, today: str = TODAY) -> list[str]:
    """What jobgen warns of, of a job that it renders all the same."""
    account = "account=project_1" if site == "lumi-g" else "account=def-a_g"
    loaded = load(JOB, account, *overrides)
    notes = resolve(loaded, site=site, today=today).notes
    return [
        re.sub(
            r"^warning: (--set ([\w.]+(:\d+:\d+)?: (?=[\w.\[\]]+: ))?|job.yaml(:\d+:\d+)?: )",
            "",
            note,
        )
        for note in notes
        if note.startswith("warning: ")
    ]


QUEUES = "https://docs.alcf.anl.gov/polaris/running-jobs, as of 2026-08-19"
COPY = (
    "NCI's page Queue Limits (236881198), as the public Gadi PBS calculator copies it, as of 2026"
)
FRONTIER = "https://docs.olcf.ornl.gov/systems/frontier_user_guide.html, as of 2026-07-22"
CLARIDEN = "https://docs.cscs.ch/clusters/clariden, as of 2026-08-20"


@pytest.mark.parametrize(
    ("site", "overrides", "message"),
    [
        # Gadi: the walltime depends on the CPUs of the whole job, 48 a node.
        (
            "nci-gadi",
            [GADI, "queue=gpuvolta", "resources.nodes=5", "resources.walltime=12h"],
            f"resources.walltime: 12h exceeds gpuvolta's 5h for 193-960 CPUs ({COPY}); "
            "use at most 5h; to go on in further jobs, add on_walltime: {then: resubmit}",
        ),
        (
            "nci-gadi",
            [GADI, "queue=gpuvolta", "resources.nodes=21"],
            f"resources.nodes: 21 nodes with 1,008 CPUs: more than gpuvolta's 960 CPUs ({COPY}); "
            "use at most 20 nodes",
        ),
        (
            "nci-gadi",
            [GADI, "queue=normal", "resources.nodes=2", "resources.gpus_per_node=4"],
            "resources.nodes: 2 nodes with 8 GPUs: more than normal's 0 GPUs "
            "(https://opus.nci.org.au/spaces/Help/pages/236880942/Job+Costs,"
            " as of 2026); use fewer GPUs, or write queue: gpuvolta or dgxa100",
        ),
        # Polaris: the queue follows from the nodes and the walltime, and the fault from both.
        (
            "alcf-polaris",
            [POLARIS, "resources.nodes=6", "resources.walltime=5h"],
            f"resources.walltime: 5h exceeds debug-scaling's 1h for 1-10 nodes ({QUEUES}); "
            "use at most 1h, or write queue: preemptable",
        ),
        (
            "alcf-polaris",
            [POLARIS, "queue=prod"],
            f"resources.nodes: 2 nodes: less than prod's least of 10 nodes ({QUEUES}); "
            "use at least 10 nodes, or write queue: debug or debug-scaling or capacity",
        ),
        (
            "alcf-polaris",
            [POLARIS, "queue=debug", "resources.walltime=1m"],
            f"resources.walltime: 1m is less than debug's 5m for 1-2 nodes ({QUEUES}); "
            "use at least 5m",
        ),
        (
            "alcf-polaris",
            [POLARIS, "queue=small"],
            f"queue: small takes no jobs itself ({QUEUES}); write queue: prod, which leads there",
        ),
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
            "filesystems[1]: 'grand' is not a file system of this site "
            "(https://docs.alcf.anl.gov/running-jobs, as of 2026-08); the choices are home, eagle",
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
            [POLARIS, "resources.gpus_per_node=8"],
            "resources.gpus_per_node: 8 GPUs, more than the 4 of a node "
            "(https://docs.alcf.anl.gov/polaris, as of 2026-08); use at most 4; "
            "for 16 in all, write nodes: 4, gpus_per_node: 4",
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
            "account: 'vp91' is not an account of this site "
            "(https://docs.lumi-supercomputer.eu/runjobs/scheduled-jobs/lumig-job, "
            "as of 2026-05); it must be project_ and a number",
        ),
        (
            "lumi-g",
            ["resources.memory_per_node=300GB"],
            "resources.memory_per_node: 300GB, more than 60GB for each GPU "
            "(https://docs.lumi-supercomputer.eu/runjobs/scheduled-jobs/lumig-job, "
            "as of 2026-05); use at most 240GB",
        ),
        # Clariden: a product.
        (
            "cscs-clariden",
            ["queue=debug"],
            "resources.walltime: 2 nodes for 1h are 120 node-minutes, more than debug's 90 "
            f"({CLARIDEN}); use at most 45m, or write queue: normal or low",
        ),
        (
            "alliance-rorqual",
            ["resources.walltime=8d"],
            "resources.walltime: 192h exceeds every queue's 168h (https://docs.alliancecan.ca/"
            "wiki/Rorqual/en, as of 2026-04); use at most 168h; "
            "to go on in further jobs, add on_walltime: {then: resubmit}",
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
        ("lumi-g", ["queue=dev-g", "resources.walltime=4h"], "exceeds dev-g's 3h", OLD),
        (
            "surf-snellius",
            ["queue=gpu_h100", "resources.gpus_per_node=2"],
            "2 GPUs, but a job on several nodes has all 4 of each",
            SCRIPTS,
        ),
        ("pawsey-setonix", ["account=vp91"], "it must be a project and -gpu", SCRIPTS),
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
    young, old = "2027-08-20", "2027-08-21"
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
    assert bool(SiteSource("", as_of, "docs").doubt(today)) == old


def plan_for(site: str, *overrides: str) -> Plan:
    return resolve(load(JOB, *overrides), site=site, today=TODAY)


def test_an_account_may_be_given_at_submission() -> None:
    (warning,) = [note for note in plan_for("cscs-clariden").notes if "account" in note]
    assert warning == (
        "warning: job.yaml:1:1: every job here needs an account (https://docs.cscs.ch/running/"
        "slurm, as of 2026-08); write account: NAME, or submit it with -A NAME "
        "(it may be given later)"
    )


def test_a_queue_that_the_profile_does_not_know_is_warned_of() -> None:
    (warning,) = warnings("cscs-clariden", "queue=norml")
    assert warning == (
        "queue: the profile of CSCS Alps, Clariden (Switzerland) has no queue 'norml'; "
        "did you mean normal? it has normal, debug, low, xfer (the list may be incomplete)"
    )


def test_a_qos_of_the_users_own_has_limits_of_its_own() -> None:
    own = ["queue=boost_usr_prod", "resources.walltime=25h"]
    assert warnings("cineca-leonardo", *own, "qos=special") == []
    assert len(warnings("cineca-leonardo", *own)) == 1


def test_a_qos_that_the_site_gives_with_a_queue_has_the_limits_of_that_queue() -> None:
    (warning,) = warnings("cineca-leonardo", "qos=boost_qos_dbg", "resources.walltime=4h")
    assert "4h exceeds boost_qos_dbg's 30m for 1-2 nodes" in warning
    assert "or write queue" not in warning
    own = ["queue=boost_usr_prod", "qos=boost_qos_bprod", "resources.walltime=4h"]
    (warning,) = warnings("cineca-leonardo", *own)
    assert "2 nodes: less than boost_qos_bprod's least of 65 nodes" in warning


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
        checked = jobgen("check", "job.sbatch")
        assert (checked.code, checked.out) == (0, "")
        assert checked.err.startswith("note: slingshot needs aws-ofi-nccl, or NCCL uses TCP")
        assert checked.err.endswith("\njob.sbatch: up to date\n")
        assert checked.err.count("\n") == 2


@pytest.mark.parametrize(
    ("facts", "spreads"),
    [
        ("node: {gpus: 4}", True),
        ("node: {gpus: 4, hosts: {'4': 4}}", True),
        ("node: {gpus: 4, hosts: {'4': 2, '2': 9}}", False),
    ],
)
def test_gpus_stand_on_as_many_nodes_as_the_site_has(
    tmp_path: Path, facts: str, spreads: bool
) -> None:
    with working_in(tmp_path):
        Path("job.yaml").write_text(JOB)
        Path(".jobgen/sites").mkdir(parents=True)
        Path(".jobgen/sites/lab.yaml").write_text(f"extends: slurm-generic\n{facts}\n")
        ended = jobgen("check", "--site", "lab", "--gpus-per-node", "8")
        assert "8 GPUs, more than the 4 of a node" in ended.err
        assert ("write nodes: 4, gpus_per_node: 4" in ended.err) == spreads


def test_a_job_without_gpus_is_spread_over_no_nodes(tmp_path: Path) -> None:
    with working_in(tmp_path):
        Path(".jobgen/sites").mkdir(parents=True)
        limits = "queues: {cpu: {limits: [{walltime: 5h}]}}\n"
        profile = f"extends: slurm-generic\nnode: {{cpus: 4, gpus: 4}}\n{limits}"
        Path(".jobgen/sites/lab.yaml").write_text(profile)
        own = "resources={cpus_per_node: 8, walltime: 1h}"
        told = refusal("lab", own)
    assert told == "resources.cpus_per_node: 8 CPUs, more than the 4 of a node; use at most 4"


def test_profiles_of_no_site_refuse_nothing() -> None:
    huge = {"name": "a", "run": {"module": "m"}, "resources": {"nodes": 9999, "walltime": "99d"}}
    for site in ("slurm-generic", "pbs-generic", "local"):
        assert plan_of(huge, site=site).notes == ()


def test_who_has_all_gpus_of_a_node_may_have_all_its_memory() -> None:
    """Rorqual has 498 GB a node: a little more than four GPUs' shares."""
    whole = "resources={nodes: 1, gpus_per_node: 4, memory_per_node: 498GB}"
    assert warnings("alliance-rorqual", whole) == []
    part = "resources={nodes: 1, gpus_per_node: 2, memory_per_node: 300GB}"
    assert "more than 124GB for each GPU" in refusal("alliance-rorqual", "account=def-a", part)
