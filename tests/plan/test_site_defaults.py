"""One spec that names no cluster, on every site jobgen ships: what its scheduler is asked for.

The lines are as the site's documentation writes them (facts of each profile's sources), with one
agent a node in the place of one task a GPU.
"""

import re
from pathlib import Path

import pytest
from golden import SITES
from support import EXAMPLES, jobgen, load

from jobgen.errors import JobgenError
from jobgen.plan.plan import Plan
from jobgen.plan.resolve import resolve
from jobgen.rendering.render import render
from jobgen.sites import search as sites
from jobgen.spec.model import Modules

PORTABLE = next(path for path in EXAMPLES if path.stem == "portable")
TODAY = "2026-09-01"


def plan_for(site: str, *overrides: str) -> Plan:
    """The example's plan on a site, with what the site wants."""
    loaded = load(PORTABLE.read_text(), *SITES[site], *overrides)
    return resolve(loaded, site=site, today=TODAY)


def script_for(site: str, *overrides: str) -> str:
    return render(plan_for(site, *overrides))


def test_every_profile_is_here() -> None:
    assert sorted(SITES) == sites.list_names()


def test_srun_asks_for_what_sbatch_asked(subtests: pytest.Subtests) -> None:
    """Setonix gives CPUs with the GPUs; srun must name them all the same."""
    asks = r"(--(?:gres|gpus-per-node|gpus)=\S+)"
    for site in SITES:
        text = script_for(site)
        for srun in re.findall("^srun .*", text, re.MULTILINE):
            with subtests.test(site):
                asked = re.findall(rf"^#SBATCH {asks}", text, re.MULTILINE)
                assert re.findall(asks, srun) == asked
                known = any(group.cpus for group in plan_for(site).nodes.groups)
                assert bool(re.search(r"--cpus-per-task=\d+ ", srun)) == known


def test_the_text_depends_on_no_date(subtests: pytest.Subtests) -> None:
    for site, wanted in SITES.items():
        loaded = load(PORTABLE.read_text(), *wanted)
        with subtests.test(site):
            texts = {render(resolve(loaded, site=site, today=day)) for day in (TODAY, "2040-01-01")}
            assert len(texts) == 1


@pytest.mark.parametrize(
    ("nodes", "walltime", "queue"),
    [
        (1, "1h", "debug"),
        (2, "2h", "capacity"),
        (3, "1h", "debug-scaling"),
        (10, "1h", "debug-scaling"),
        (10, "3h", "prod"),
        (30, "6h", "prod"),
    ],
)
def test_polaris_decides_the_queue_by_size_and_walltime(
    nodes: int, walltime: str, queue: str
) -> None:
    size = [f"resources.nodes={nodes}", f"resources.walltime={walltime}"]
    assert plan_for("alcf-polaris", *size).requests.queue == queue


@pytest.mark.parametrize(
    ("overrides", "listed"),
    [
        ([], "gdata/ab12+scratch/cd34"),
        (["filesystems=[scratch/ef56]"], "scratch/ef56"),
        (["environment.setup=. /scratch/ab12/env.sh"], "gdata/ab12+scratch/ab12+scratch/cd34"),
        (["run.args.data=/my/scratch/cd34/x"], "gdata/ab12"),
        (['directives=["#PBS -l storage=gdata/zz9"]'], "gdata/zz9"),
    ],
)
def test_gadi_is_told_the_file_systems_that_paths_lie_on(overrides: list[str], listed: str) -> None:
    found = re.findall("^#PBS -l storage=(.*)", script_for("nci-gadi", *overrides), re.MULTILINE)
    assert found == [listed]


def test_a_file_system_that_the_spec_leaves_out_is_named() -> None:
    left = plan_for("nci-gadi", "filesystems=[scratch/ef56]")
    assert any("leaves out gdata/ab12, scratch/cd34" in note for note in left.notes)
    assert not any("leaves out" in note for note in plan_for("nci-gadi").notes)


def test_variables_of_the_network_are_for_several_nodes_where_the_site_says_so() -> None:
    one = plan_for("olcf-frontier", "resources.nodes=1").environment.variables
    two = plan_for("olcf-frontier").environment.variables
    assert (one["NCCL_NET"], two["NCCL_NET"]) == ("Socket", "OFI")
    assert "NCCL_SOCKET_IFNAME" not in one
    assert two["NCCL_SOCKET_IFNAME"] == "hsn0,hsn1,hsn2,hsn3"
    assert 'LD_LIBRARY_PATH="${CRAY_LD_LIBRARY_PATH}:${LD_LIBRARY_PATH}"' in script_for(
        "olcf-frontier"
    )


def test_what_the_spec_says_wins_over_the_site() -> None:
    own = ["environment={variables: {NCCL_NET: IB}, modules: [a]}", "launch={interface: hsn0}"]
    plan = plan_for("olcf-frontier", *own)
    assert plan.environment.variables["NCCL_NET"] == "IB"
    assert "NCCL_SOCKET_IFNAME" not in plan.environment.variables
    assert (plan.environment.modules, plan.launch.interface) == (Modules(load=("a",)), "hsn0")
    assert plan_for("jsc-jupiter").launch.interface == "ib0"


def test_modules_of_the_site_are_for_a_spec_that_names_no_environment() -> None:
    def environment(*overrides: str) -> tuple[object, ...]:
        found = plan_for("alcf-polaris", *overrides).environment
        return found.modules, found.conda, found.venv

    sites = Modules(None, ("/soft/modulefiles",), ("conda",))
    assert environment() == (sites, "base", None)
    assert environment("environment={venv: v}") == (sites, None, "v")
    assert environment("environment={modules: [a]}") == (Modules(load=("a",)), None, None)


@pytest.mark.parametrize(
    ("site", "note"),
    [
        ("ncar-derecho", "by mpiexec, this script one torchrun agent on each node (https://ncar"),
        ("olcf-frontier", "the site advises against torchrun (up to 10 times slower)"),
        ("nersc-perlmutter", "by srun, this script one torchrun agent on each node"),
    ],
)
def test_a_site_that_starts_jobs_in_another_way_is_named(site: str, note: str) -> None:
    def launch_notes(*overrides: str) -> list[str]:
        notes = plan_for(site, *overrides).notes
        return [text for text in notes if "torchrun agent on each node" in text]

    (told,) = launch_notes("launch.mode=torchrun")
    assert note in told
    assert not launch_notes()


@pytest.mark.parametrize("site", ["nci-gadi", "lumi-g", "csc-roihu", "aws-parallelcluster"])
def test_a_site_of_torchrun_agents_is_not(site: str) -> None:
    assert not any("one torchrun agent" in text for text in plan_for(site).notes)


def test_notes_go_to_stderr_and_the_script_to_stdout() -> None:
    ended = jobgen("render", PORTABLE, "--site", "ncar-derecho", "--set", "launch.mode=torchrun")
    assert ended.code == 0
    assert ended.out.startswith("#!/bin/bash\n")
    assert [line.split(":")[0] for line in ended.err.splitlines()] == ["warning", "note", "note"]


def test_what_a_scheduler_has_no_word_for_is_left_out_and_said() -> None:
    text = ["filesystems=[home]", "resources.gpu_type=a100"]
    plan = resolve(load(PORTABLE.read_text(), *text), site="pbs-generic")
    assert plan.left_out == ("resources.gpu_type", "filesystems")
    slurm = resolve(load(PORTABLE.read_text(), *text), site="slurm-generic")
    assert slurm.left_out == ("filesystems",)
    assert "#SBATCH --gpus-per-node=a100:4" in render(slurm)


def test_submit_notes_what_render_notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    target = ("--site", "alcf-polaris", "--no-limits", "--set", "launch.mode=torchrun")
    rendered = jobgen("render", PORTABLE, *target)
    shown = jobgen("submit", PORTABLE, *target, "--dry-run")
    assert (rendered.code, shown.code) == (0, 0)
    assert shown.err == rendered.err != ""
    assert shown.out.endswith(rendered.out)


def test_a_type_of_gpu_may_be_written_in_any_case() -> None:
    """Mahuika's own pages have a100:1 and A100:1; jobgen asks as the site's table does."""
    plan = plan_for("reannz-mahuika", "resources.gpu_type=A100")
    assert plan.requests.gpu_type == "a100"


def test_taccs_ibrun_starts_what_mpiexec_would() -> None:
    script = script_for("tacc-lonestar6")
    assert "    bring_launcher ibrun\n" in script
    assert '    exec ibrun -n 2 /bin/bash -l "$this_script" run_node\n' in script
    assert "exec mpiexec" not in script


def test_a_queue_may_be_named_with_its_server() -> None:
    """As Casper's and MetaCentrum's pages do; its limits hold all the same."""
    plan = plan_for("alcf-polaris", "queue=preemptable@polaris-pbs-01")
    assert "#PBS -q preemptable@polaris-pbs-01\n" in render(plan)
    assert "-r y" in plan.defaults.directives
    with pytest.raises(JobgenError, match="exceeds debug@polaris-pbs-01's 1h"):
        plan_for("alcf-polaris", "queue=debug@polaris-pbs-01", "resources.walltime=3h")


def test_short_jobs_on_aspire_go_where_a_class_takes_them() -> None:
    """Classes for more than 4 GPUs begin after two hours in `normal`, at once in `ai`."""
    assert plan_for("nscc-aspire2a").requests.queue == "ai"
    assert plan_for("nscc-aspire2a", "resources.walltime=3h").requests.queue == "normal"
    assert plan_for("nscc-aspire2a", "resources.nodes=1").requests.queue == "normal"


@pytest.mark.parametrize(
    ("site", "size", "queue"),
    [
        ("csc-roihu", (2, 2), "gpumedium"),  # four GPUs a job, on up to four nodes
        ("csc-roihu", (2, 4), "gpularge"),
        ("archer2-gpu", (1, 2), "gpu-shd"),  # two GPUs at most on a shared node
        ("archer2-gpu", (1, 4), "gpu-exc"),
        ("alcf-sophia", (1, 4), "by-gpu"),
        ("alcf-sophia", (2, 8), "by-node"),
    ],
)
def test_the_size_of_a_job_decides_the_queue(site: str, size: tuple[int, int], queue: str) -> None:
    nodes, gpus = size
    plan = plan_for(site, f"resources.nodes={nodes}", f"resources.gpus_per_node={gpus}")
    assert plan.requests.queue == queue
