"""What plain jobs get at the sites: no plain fault of a profile, and no refusal without need."""

import re

import pytest
from golden import SITES
from support import EXAMPLES, load

from jobgen.errors import SpecError
from jobgen.plan.plan import Plan
from jobgen.plan.resolve import resolve
from jobgen.schedulers import SCHEDULERS
from jobgen.sites import search

PORTABLE = next(path for path in EXAMPLES if path.stem == "portable").read_text()
# Why the site-free example, two nodes with four GPUs each, is refused by a site: what jobgen cannot
# know, or that there are no such nodes for one job.
REFUSED = {
    "alcf-aurora": "every job must name the file systems",
    "alcf-polaris": "every job must name the file systems",
    "alcf-sophia": "every job must name the file systems",
    "bsc-mn5-acc": "a GPU job has to name its queue",  # of those that its project has
    "imperial-hx1": "2 nodes with 8 GPUs: more than hx's 4 GPUs",
    "mit-engaging": "2 nodes with 8 GPUs: more than mit_normal_gpu's 2 GPUs",
    "tacc-horizon": "4 GPUs, more than the 2 of a node",
    "tacc-vista": "4 GPUs, more than the 1 of a node",
    "uppmax-bianca": "4 GPUs, more than the 2 of a node",
    "uq-bunya": "2 nodes with 8 GPUs: more than gpu_cuda's 4 GPUs",
}


def plan_job(site: str, *, nodes: int = 2, gpus: int = 4, time: str = "1h") -> Plan:
    """A plain job at a site, with the account and the like that it asks for."""
    sizes = ("resources.nodes=", "resources.gpus_per_node=", "environment.", "run.")
    own = [value for value in SITES[site] if not value.startswith(sizes)]
    size = f"resources={{nodes: {nodes}, gpus_per_node: {gpus}, walltime: {time}}}"
    return resolve(load(PORTABLE, size, *own), site=site, today="2026-11-23")


def list_directives(plan: Plan) -> str:
    """Its directives, one a line."""
    return "\n".join(SCHEDULERS[plan.scheduler].directives(plan))


@pytest.mark.parametrize("site", SITES)
def test_the_site_free_example_is_refused_only_for_what_jobgen_cannot_know(site: str) -> None:
    if site not in REFUSED:
        resolve(load(PORTABLE), site=site, today="2026-11-23")
        return
    with pytest.raises(SpecError) as refused:
        resolve(load(PORTABLE), site=site, today="2026-11-23")
    problem = refused.value.problems[0]
    assert problem.message.startswith(REFUSED[site])
    assert problem.hint


def test_a_network_that_is_not_known_is_said_to_a_job_on_several_nodes() -> None:
    profiles = {site: search.load(site) for site in SITES}
    assert len([site for site, profile in profiles.items() if profile.verified]) >= 71
    unknown = [site for site, one in profiles.items() if one.verified and one.network is None]
    for site in unknown:
        try:
            notes = plan_job(site, gpus=1).notes
        except SpecError:  # a job has whole nodes there
            notes = plan_job(site).notes
        assert [note for note in notes if "the network of this site is not known" in note], site


@pytest.mark.parametrize(
    ("site", "size", "has", "has_not"),
    [
        ("alliance-narval", {}, ["--mem=496G", "--cpus-per-task=12"], []),
        ("alliance-fir", {}, ["--mem=1124G", "--cpus-per-task=12"], []),
        ("alliance-nibi", {}, ["--mem=1000G"], []),
        ("ncsa-delta", {"nodes": 1}, ["--mem=240G", "--cpus-per-task=64"], []),
        ("cineca-leonardo", {"nodes": 64}, ["boost_usr_prod"], ["--qos"]),
        ("cineca-leonardo", {"nodes": 65}, ["--qos=boost_qos_bprod"], []),
        ("cineca-leonardo", {"nodes": 256}, ["--qos=boost_qos_bprod"], []),
        ("nersc-perlmutter", {"nodes": 1, "gpus": 1}, ["--qos=shared"], []),
        ("ncar-derecho", {"nodes": 1, "gpus": 1}, ["-q develop"], []),
        ("abci3", {"nodes": 1, "gpus": 1}, ["-q rt_HG"], []),
        ("nci-gadi", {"nodes": 1, "gpus": 1}, ["-q gpuvolta"], []),
        ("gatech-phoenix", {}, ["--qos=inferno", "--cpus-per-task=32"], []),
        ("c3se-alvis", {}, ["--cpus-per-task=64", "--gpus-per-node=A100:4"], []),
        ("alcf-sophia", {}, ["-q by-node", "select=2"], []),
        ("metacentrum", {"gpus": 2}, ["place=scatter:group=cluster"], []),
        ("olcf-frontier", {"gpus": 8}, ["--network=disable_rdzv_get"], []),
    ],
)
def test_what_a_job_asks_for(
    site: str, size: dict[str, int], has: list[str], has_not: list[str]
) -> None:
    directives = list_directives(plan_job(site, **size))  # type: ignore[arg-type]
    assert [word for word in has if word not in directives] == []
    assert [word for word in has_not if word in directives] == []


@pytest.mark.parametrize("site", ["jsc-jupiter", "jsc-juwels-booster"])
@pytest.mark.parametrize(("gpus", "named"), [(4, "0,1,2,3"), (2, "0,1"), (1, "0")])
def test_a_task_is_told_all_gpus_of_its_node(site: str, gpus: int, named: str) -> None:
    """psslurm shows a step's single task one GPU; the agent needs those of all its processes."""
    variables = plan_job(site, gpus=gpus).environment.variables
    assert variables.get("CUDA_VISIBLE_DEVICES") == named


@pytest.mark.parametrize(
    ("site", "size", "said"),
    [
        ("cineca-leonardo", {"nodes": 257}, "more than boost_qos_bprod's 256 nodes"),
        ("deltaai", {"time": "49h"}, "49h exceeds ghx4's 48h"),
        ("alliance-narval", {"time": "169h"}, "169h exceeds every queue's 168h"),
    ],
)
def test_what_a_queue_does_not_take_is_said(site: str, size: dict[str, object], said: str) -> None:
    try:
        words = plan_job(site, **size).notes  # type: ignore[arg-type]
    except SpecError as error:
        words = [problem.message for problem in error.problems]
    assert [text for text in words if said in text], words


def test_deltaai_keeps_to_the_variables_of_its_module() -> None:
    plan = plan_job("deltaai")
    own = {name for name in plan.environment.variables if re.match("(NCCL|FI)_", name)}
    assert own == {"NCCL_PROTO"}
