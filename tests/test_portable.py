"""One spec that names no cluster, on every site jobgen ships: what its scheduler is asked for.

The lines are as the site's documentation writes them (facts of each profile's sources), with one
agent a node in the place of one task a GPU.
"""

import re
import subprocess
from pathlib import Path

import pytest
from support import EXAMPLES, jobgen, load

from jobgen import site as sites
from jobgen.plan import Plan, resolve
from jobgen.render import render
from jobgen.software import Modules

PORTABLE = next(path for path in EXAMPLES if path.stem == "portable")
TODAY = "2026-09-01"

# What a site wants beside the example, and its lines but for the job's name, time and output.
SITES: dict[str, tuple[list[str], str]] = {
    "local": ([], ""),
    "slurm-generic": ([], "--nodes=2 --ntasks-per-node=1 --gpus-per-node=4"),
    "pbs-generic": ([], "-l select=2:ngpus=4:mpiprocs=1|-l place=scatter"),
    "nci-gadi": (
        [
            "account=ab12",
            "queue=gpuvolta",
            "resources.memory_per_node=380GB",
            "environment.venv=/g/data/ab12/venv",
            "run.args.data=/scratch/cd34/corpus.txt",
        ],
        "-P ab12|-q gpuvolta|-l ncpus=96|-l ngpus=8|-l mem=760gb"
        "|-l storage=gdata/ab12+scratch/cd34",
    ),
    "alcf-polaris": (
        ["account=a", "filesystems=[home, eagle]"],
        "-A a|-q debug|-l select=2:system=polaris|-l place=scatter|-l filesystems=home:eagle",
    ),
    "alcf-aurora": (
        ["account=a", "filesystems=[flare]", "resources.gpus_per_node=12"],
        "-A a|-q debug|-l select=2|-l place=scatter|-l filesystems=flare",
    ),
    "ncar-derecho": (
        ["account=a"],
        "-A a|-q main|-l select=2:ncpus=64:ngpus=4:mem=480gb:mpiprocs=4|-l place=scatter",
    ),
    "ncar-casper": (
        ["account=a", "resources.gpu_type=h100"],
        "-A a|-q casper|-l select=2:ncpus=64:ngpus=4:gpu_type=h100:mem=985gb:mpiprocs=4"
        "|-l place=scatter",
    ),
    "nersc-perlmutter": (
        ["account=a_g", "queue=regular"],
        "--account=a_g --qos=regular --nodes=2 --ntasks-per-node=4 --cpus-per-task=32 "
        "--gpus-per-node=4 --constraint=gpu",
    ),
    "olcf-frontier": (
        ["account=a", "resources.gpus_per_node=8"],
        "--account=a --partition=batch --nodes=2 --ntasks-per-node=8 --cpus-per-task=7 "
        "--gpus-per-node=8 --network=disable_rdzv_get",
    ),
    "lumi-g": (
        ["account=project_1", "queue=standard-g", "resources.gpus_per_node=8"],
        "--account=project_1 --partition=standard-g --nodes=2 --ntasks-per-node=1 "
        "--cpus-per-task=56 --gpus-per-node=8 --mem=480G",
    ),
    "csc-roihu": (
        ["account=project_1"],
        "--account=project_1 --partition=gpularge --nodes=2 --ntasks-per-node=1 "
        "--cpus-per-task=288 --gres=gpu:gh200:4",
    ),
    "cineca-leonardo": (
        ["account=a"],
        "--account=a --partition=boost_usr_prod --nodes=2 --ntasks-per-node=1 "
        "--cpus-per-task=32 --gres=gpu:4",
    ),
    "jsc-juwels-booster": (
        ["account=a", "queue=booster"],
        "--account=a --partition=booster --nodes=2 --ntasks-per-node=1 --cpus-per-task=96 "
        "--gres=gpu:4",
    ),
    "jsc-jupiter": (
        ["account=a"],
        "--account=a --partition=booster --nodes=2 --ntasks-per-node=1 --cpus-per-task=288 "
        "--gres=gpu:4",
    ),
    "cscs-clariden": (
        ["account=a", "queue=normal"],
        "--account=a --partition=normal --nodes=2 --ntasks-per-node=4 --cpus-per-task=72 "
        "--gpus-per-node=4",
    ),
    "bsc-mn5-acc": (
        ["account=a", "queue=acc_ehpc"],
        "--account=a --qos=acc_ehpc --nodes=2 --ntasks-per-node=1 --cpus-per-task=80 "
        "--gres=gpu:4 --partition=acc",
    ),
    "surf-snellius": (
        ["queue=gpu_a100"],
        "--partition=gpu_a100 --nodes=2 --ntasks-per-node=1 --cpus-per-task=72 "
        "--gpus-per-node=4 --mem=480G",
    ),
    "pawsey-setonix": (
        ["account=a-gpu", "queue=gpu", "resources.gpus_per_node=8"],
        "--account=a-gpu --partition=gpu --nodes=2 --ntasks-per-node=1 --gres=gpu:8",
    ),
    "isambard-ai": (
        [],
        "--partition=workq --nodes=2 --ntasks-per-node=4 --cpus-per-task=72 --gpus-per-node=4",
    ),
    "alliance-rorqual": (
        ["account=def-a"],
        "--account=def-a --nodes=2 --ntasks-per-node=4 --cpus-per-task=16 "
        "--gpus-per-node=h100:4 --mem=496G",
    ),
    "aws-parallelcluster": (
        ["resources.gpus_per_node=8"],
        "--nodes=2 --ntasks-per-node=1 --gpus-per-node=8 --exclusive --wait-all-nodes=1",
    ),
}
EVERY = pytest.mark.parametrize("site", SITES)


def plan_for(site: str, *overrides: str) -> Plan:
    """The example's plan on a site, with what the site wants."""
    loaded = load(PORTABLE.read_text(), *SITES[site][0], *overrides)
    return resolve(loaded, site=site, today=TODAY)


def script_for(site: str, *overrides: str) -> str:
    return render(plan_for(site, *overrides))


def test_every_profile_is_here() -> None:
    assert sorted(SITES) == sites.names()


@EVERY
def test_the_scheduler_is_asked_in_the_words_of_the_site(site: str) -> None:
    lines = re.findall("^#(?:PBS|SBATCH) (.*)", script_for(site), re.MULTILINE)
    same = r"-N .*|-l walltime=01:00:00|-[jk] oed?|--(job-name|time|output|open-mode)=.*"
    own = [line for line in lines if not re.fullmatch(same, line)]
    expected = SITES[site][1]
    assert own == expected.split("|" if "|" in expected else " ") if expected else own == []


@EVERY
def test_bash_and_shellcheck_have_nothing_to_say(site: str, tmp_path: Path) -> None:
    script = tmp_path / "script.sh"
    script.write_text(script_for(site))
    for argv in (["bash", "-n"], ["shellcheck", "--severity=info"]):
        ended = subprocess.run([*argv, str(script)], capture_output=True, text=True)
        assert (ended.returncode, ended.stdout + ended.stderr) == (0, "")


@EVERY
def test_srun_asks_for_what_sbatch_asked(site: str) -> None:
    """Setonix gives CPUs with the GPUs; srun must name them all the same."""
    text = script_for(site)
    for srun in re.findall("^srun .*", text, re.MULTILINE):
        assert re.findall(r"--(?:gres|gpus-per-node)=\S+", srun) == re.findall(
            r"^#SBATCH (--(?:gres|gpus-per-node)=\S+)", text, re.MULTILINE
        )
        assert site in ("slurm-generic", "aws-parallelcluster") or re.search(
            r"--cpus-per-task=\d+ ", srun
        )


@pytest.mark.parametrize("site", [site for site in SITES if "-generic" not in site])
def test_the_text_depends_on_no_date(site: str) -> None:
    loaded = load(PORTABLE.read_text(), *SITES[site][0])
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
    assert plan_for("alcf-polaris", *size).queue == queue


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
    assert (plan.environment.modules, plan.interface) == (Modules(load=("a",)), "hsn0")
    assert plan_for("jsc-jupiter").interface == "ib0"


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
    plan = plan_for(site, "launch.mode=torchrun")
    (found,) = [text for text in plan.notes if text.startswith("note: ")]
    assert note in found
    assert not any(text.startswith("note: ") for text in plan_for(site).notes)


@pytest.mark.parametrize("site", ["nci-gadi", "lumi-g", "csc-roihu", "aws-parallelcluster"])
def test_a_site_of_torchrun_agents_is_not(site: str) -> None:
    assert not any(text.startswith("note: ") for text in plan_for(site).notes)


def test_notes_go_to_stderr_and_the_script_to_stdout() -> None:
    ended = jobgen("render", PORTABLE, "--site", "ncar-derecho", "--set", "launch.mode=torchrun")
    assert ended.code == 0
    assert ended.out.startswith("#!/bin/bash\n")
    assert [line.split(":")[0] for line in ended.err.splitlines()] == ["warning", "note"]


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
