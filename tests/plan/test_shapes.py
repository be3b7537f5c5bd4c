"""What the processes of a job get on a node if the spec does not ask."""

from pathlib import Path

import pytest
from golden import SITES
from support import EXAMPLES, complaint, jobgen, load

from jobgen.plan.resolve import resolve

PORTABLE = next(path for path in EXAMPLES if path.stem == "portable").read_text()
TODAY = "2026-11-22"


def notes_of(site: str, *overrides: str) -> list[str]:
    wanted = SITES.get(site, [])
    return [*resolve(load(PORTABLE, *wanted, *overrides), site=site, today=TODAY).notes]


def about_resources(site: str, *overrides: str) -> list[str]:
    return [note for note in notes_of(site, *overrides) if " resources: " in note]


def test_an_unknown_slurm_cluster_gives_one_cpu() -> None:
    (warning,) = about_resources("slurm-generic")
    assert warning == (
        "warning: job.yaml:8:3: resources: 1 CPU for 4 processes: Slurm gives each task one CPU "
        "unless a job asks for more; ask for cpus_per_gpu: 8"
    )
    assert about_resources("pbs-generic") == []  # its sites differ too much
    (of_tasks,) = about_resources("slurm-generic", "launch.mode=direct")
    assert "resources: 4 CPUs for 4 processes: " in of_tasks


@pytest.mark.parametrize(
    "asked",
    [
        "resources.cpus_per_gpu=8",
        "resources.cpus_per_node=32",
        "resources.exclusive=true",
        "resources.gpus_per_node=0",
        "directives=['#SBATCH --cpus-per-gpu=12']",
        "directives=['#SBATCH -c8']",
    ],
)
def test_a_job_that_asks_is_not_warned(asked: str) -> None:
    assert about_resources("slurm-generic", asked) == []


@pytest.mark.parametrize("option", ["--no-requeue", "--comment=-n", "--nodelist=a"])
def test_a_directive_that_asks_for_no_cpus_leaves_the_warning(option: str) -> None:
    (warning,) = about_resources("slurm-generic", f"directives=['#SBATCH {option}']")
    assert "1 CPU for 4 processes" in warning


def test_the_warning_is_printed_by_check_and_render(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(PORTABLE.replace("name:", "scheduler: slurm\nname:", 1))
    for command in ("render", "check"):
        said = jobgen(command, tmp_path / "job.yaml")
        assert "resources: 1 CPU for 4 processes" in said.err, command


def test_too_little_memory_names_the_line_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The default of 256 MB a core is what kills a job of 4 processes on 48 cores."""
    folder = tmp_path / ".jobgen" / "sites"
    folder.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    (folder / "lab.yaml").write_text(
        "scheduler: slurm\nnode: {gpus: 4, cpus: 48, memory: 498GB, cpus_per_gpu: 12,"
        " default_memory_per_cpu: 256MB}\n"
    )
    (warning,) = about_resources("lab")
    assert warning == (
        "warning: job.yaml:8:3: resources: 12GB of memory for 4 processes: a job that asks for none"
        " gets 256MB with each of its 48 CPUs; ask for memory_per_node: 498GB"
    )
    assert about_resources("lab", "resources.memory_per_node=200GB") == []
    for asked, said in (
        ("memory_per_node=4GB", "4GB of memory for 4 processes; ask for memory_per_node: 498GB"),
        ("cpus_per_gpu=1", "4 CPUs for 4 processes; ask for cpus_per_gpu: 12"),
        ("cpus_per_node=4", "4 CPUs for 4 processes; ask for cpus_per_node: 48"),
    ):
        (warning, *_) = about_resources("lab", f"resources.{asked}")
        assert warning.endswith(said)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ("default_cpus: 2", "2 CPUs for 4 processes: what a task gets that asks for none"),
        ("default_cpus_per_gpu: 1", "4 CPUs for 4 processes: the site's share of 4 GPUs"),
        (
            "default_cpus_per_gpu: 8, default_memory_per_gpu: 4GB",
            "16GB of memory for 4 processes: the site's share of 4 GPUs",
        ),
        (
            "default_cpus_per_gpu: 8, default_memory: 400MB",
            "400MB of memory for 4 processes: what a job gets that asks for none",
        ),
    ],
)
def test_each_default_of_a_site_is_known(
    facts: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ".jobgen" / "sites"
    folder.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    (folder / "lab.yaml").write_text(f"scheduler: slurm\nnode: {{gpus: 4, {facts}}}\n")
    assert any(words in warning for warning in about_resources("lab"))


def test_fewer_gpus_than_a_node_to_itself_is_a_note_about_the_bill() -> None:
    for site, gpus in (("alcf-aurora", 12), ("tacc-stampede3", 4), ("tacc-horizon", 2)):
        (note,) = [
            note
            for note in notes_of(site, "resources.nodes=1", "resources.gpus_per_node=1")
            if "to itself" in note
        ]
        assert f"it uses 1 of the {gpus} GPUs of a node" in note


def test_a_site_with_shares_asks_for_them() -> None:
    """Narval: 12 CPUs and 124 GB with each of four GPUs, and no warning."""
    plan = resolve(load(PORTABLE, "account=def-a"), site="alliance-narval", today=TODAY)
    (group,) = plan.nodes.groups
    assert (group.cpus, group.memory) == (48, 4 * 124 * 1024**2)
    assert about_resources("alliance-narval") == []


def test_a_type_that_the_job_does_not_name_is_said() -> None:
    loaded = load(PORTABLE, "account=aip-a")
    (note,) = [
        note
        for note in resolve(loaded, site="alliance-killarney", today=TODAY).notes
        if "gpu_type" in note
    ]
    assert note == (
        "note: resources.gpu_type: the job gets h100, as it names no type; this site also has l40s"
    )


def test_several_queues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On Slurm the first that is free starts the job: what fits one of them fits."""
    folder = tmp_path / ".jobgen" / "sites"
    folder.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    (folder / "lab.yaml").write_text(
        "scheduler: slurm\nqueues:\n  gpu: {limits: [{walltime: 1h}]}\n"
        "  gpu-long: {partition: long, limits: [{walltime: 48h}]}\n"
        "  big: {qos: big, limits: [{walltime: 48h}]}\n"
    )
    for written in ("[gpu, gpu-long]", "gpu,gpu-long"):
        ended = jobgen("render", "--set", f"queue={written}", "--site", "lab", write_job(tmp_path))
        assert "#SBATCH --partition=gpu,long\n" in ended.out, ended.err
    long = ["resources.walltime=24h", "queue=[gpu, gpu-long]"]
    assert resolve(load(PORTABLE, *long), site="lab", today=TODAY).requests.queue == "gpu,gpu-long"
    said = complaint(PORTABLE, "resources.walltime=50h", "queue=[gpu, gpu-long]", site="lab")
    assert "exceeds gpu's 1h" in said
    assert "exceeds gpu-long's 48h" in said
    assert "big goes with the QoS big, so it cannot be one of several; write one partition" in (
        complaint(PORTABLE, "queue=[gpu, big]", site="lab")
    )


def write_job(folder: Path) -> Path:
    path = folder / "job.yaml"
    path.write_text(PORTABLE)
    return path


def test_pbs_and_a_qos_take_one_queue() -> None:
    refusal = complaint(PORTABLE, "queue=[a, b]", site="pbs-generic")
    assert refusal.endswith("queue: names 2 queues, and PBS takes one; write one queue")
    several = complaint(PORTABLE, "account=a", "queue=[debug, regular]", site="nersc-perlmutter")
    assert "names several QoS of this site, and a job has one" in several


def test_why_a_queue_is_the_cheapest() -> None:
    one = ["account=a", "resources.nodes=1", "resources.gpus_per_node=1"]
    plan = resolve(load(PORTABLE, *one), site="nersc-perlmutter", today=TODAY)
    assert plan.defaults.why_queue == (
        "jobgen's choice, the cheapest that takes the job (0.25 node-hours an hour, regular 1)"
    )
    whole = resolve(load(PORTABLE, "account=a"), site="ncar-derecho", today=TODAY)
    assert whole.requests.queue == "main"  # the price is the same in both


def test_a_job_without_a_walltime_hears_how_long_it_has() -> None:
    warnings = about_resources("jean-zay", "resources.walltime=null")
    (warning,) = [one for one in warnings if "walltime" in one]
    assert "a job that asks for no walltime gets 10m here" in warning
    assert warning.endswith("add walltime, such as 4h")


@pytest.mark.parametrize(
    ("site", "known"), [("c3se-alvis", False), ("it4i-karolina", False), ("alcf-polaris", True)]
)
def test_a_site_without_a_limit_on_walltime_says_so(site: str, known: bool, tmp_path: Path) -> None:
    wanted = [word for value in SITES[site] for word in ("--set", value)]
    said = jobgen("explain", write_job(tmp_path), "--site", site, *wanted)
    assert said.code == 0, said.err
    assert ("longest walltime: not known" in said.out) != known


def test_cpus_for_each_gpu_are_those_of_a_nodes_gpus() -> None:
    """More GPUs than a node has are refused by themselves, without advice on CPUs."""
    base = "name: a\nsite: nci-gadi\naccount: vp91\nqueue: gpuvolta\nrun: {module: m}\n"
    resources = "resources: {gpus_per_node: 8, cpus_per_gpu: 12, walltime: 1h}\n"
    told = complaint(base + resources, today="2026-09-01")
    assert "8 GPUs, more than the 4 of a node" in told
    assert "CPUs" not in told
