"""What a node's part of the script sets up before the program, and what it leaves behind."""

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from support import ROOT, Program, complaint, edited, load, plan_of, run_node

from jobgen.plan.environment import _guess_vendor
from jobgen.plan.plan import Plan
from jobgen.plan.resolve import resolve

CACHES = (
    "TRITON_CACHE_DIR",
    "TORCHINDUCTOR_CACHE_DIR",
    "MIOPEN_USER_DB_PATH",
    "MIOPEN_CUSTOM_CACHE_DIR",
)


def run(environment: Mapping[str, object], *, scheduler: str = "slurm", **around: str) -> Program:
    """What a program finds in this environment, on a node that has some variables already."""
    job = {"name": "a", "resources": {"gpus_per_node": 1}, "run": {"command": ["PROGRAM"]}}
    return run_node({**job, "environment": environment}, scheduler=scheduler, around=around)


def failure(environment: Mapping[str, object], **around: str) -> str:
    """What jobgen says where the environment cannot be set up."""
    with pytest.raises(AssertionError) as caught:
        run(environment, **around)
    return "\n".join(re.findall("jobgen: (error: .*)", str(caught.value)))


# --- modules -------------------------------------------------------------------------------------


def modules(folder: Path, body: str) -> dict[str, str]:
    """The variables by which a shell has a `module` function, which also notes its calls."""
    return {"BASH_FUNC_module%%": f'() {{ echo "$*" >>{folder}/calls; {body}\n}}'}


LOAD = """
    if [[ $1 == load ]]; then LOADEDMODULES=${LOADEDMODULES:+$LOADEDMODULES:}$2; fi
"""


def test_modules_are_unloaded_then_found_then_loaded(tmp_path: Path) -> None:
    record = {"first": "force-purge", "use": ["$HERE/a b"], "load": ["cuda/12", "x@y"]}
    (tmp_path / "a b").mkdir()
    run({"modules": record}, HERE=str(tmp_path), **modules(tmp_path, LOAD))
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls == ["--force purge", f"use {tmp_path}/a b", "load cuda/12", "load x@y"]


@pytest.mark.parametrize(
    ("record", "body", "message"),
    [
        (["a"], "false", "error: module load failed on n1: a"),
        # As version 3.2 of Environment Modules does.
        (["a"], "echo \"ERROR:105: Unable to locate a modulefile for 'a'\" >&2; true", "a"),
        ({"first": "reset"}, "false", "error: module reset failed on n1"),
        ({"use": ["/no/such"]}, "true", "error: no folder of modules on n1: /no/such"),
    ],
    ids=["load", "load that returns 0", "reset", "use"],
)
def test_what_modules_cannot_do_is_said_with_its_node(
    tmp_path: Path, record: object, body: str, message: str
) -> None:
    assert failure({"modules": record}, **modules(tmp_path, body)).endswith(message)


@pytest.mark.parametrize("listed", ["a", "a/1.0", "b:a/1.0:c", "b:a"])
def test_a_module_may_be_there_already(tmp_path: Path, listed: str) -> None:
    run({"modules": ["a"]}, LOADEDMODULES=listed, **modules(tmp_path, "true"))


def test_a_module_may_be_there_by_another_name(tmp_path: Path) -> None:
    body = "if [[ $1 == is-loaded ]]; then [[ $2 == a ]]; fi"
    run({"modules": ["a"]}, LOADEDMODULES="b/1", LMOD_CMD="x", **modules(tmp_path, body))


def test_sticky_modules_that_stay_are_no_failure(tmp_path: Path) -> None:
    run({"modules": {"first": "purge"}}, **modules(tmp_path, "false"))
    assert (tmp_path / "calls").read_text() == "purge\n"


# --- conda ---------------------------------------------------------------------------------------

# A conda as its own scripts make it: a function that the hook defines, which names variables that
# are not set and returns what the last of its commands does.
CONDA = """\
#!/bin/sh
if [ "$1 $2 $3" = "shell.bash hook" ] || [ "$1 $2" = "shell.bash hook" ]; then
    cat <<'HOOK'
conda() {
    echo "$CONDA_NOT_SET"
    false
    if [[ $2 == /* || $2 == base ]]; then export CONDA_PREFIX=$2; else return 3; fi
}
HOOK
fi
"""


@pytest.mark.parametrize(("name", "prefix"), [("base", "base"), ("$HERE/envs/a", "/envs/a")])
def test_conda_is_activated_though_it_is_not_written_for_strict_mode(
    tmp_path: Path, name: str, prefix: str
) -> None:
    (tmp_path / "conda").write_text(CONDA)
    (tmp_path / "conda").chmod(0o755)
    path = {"BASH_FUNC_module%%": '() { PATH="$HERE:$PATH"; LOADEDMODULES=$2; }'}
    environment = {"modules": ["miniforge"], "conda": name}
    found = run(environment, HERE=str(tmp_path), **path).environment
    assert found["CONDA_PREFIX"].endswith(prefix)
    said = failure({**environment, "conda": "none"}, HERE=str(tmp_path), **path)
    assert said == "error: conda activate failed on n1: none"


def test_a_conda_older_than_its_hook_is_activated_by_its_script(tmp_path: Path) -> None:
    (tmp_path / "conda").write_text("#!/bin/sh\necho 'invalid choice: shell.bash' >&2; exit 2\n")
    (tmp_path / "conda").chmod(0o755)
    (tmp_path / "activate").write_text('[[ $1 != none ]] && export CONDA_PREFIX="/envs/$1"\n')
    path = {"BASH_FUNC_module%%": '() { PATH="$HERE:$PATH"; LOADEDMODULES=$2; }'}
    found = run({"modules": ["old"], "conda": "a"}, HERE=str(tmp_path), **path).environment
    assert found["CONDA_PREFIX"] == "/envs/a"
    said = failure({"modules": ["old"], "conda": "none"}, HERE=str(tmp_path), **path)
    assert said == "error: conda activate failed on n1: none"


# --- caches --------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheduler", ["local", "slurm", "pbs"])
def test_caches_are_the_nodes_own_and_go_with_the_job(tmp_path: Path, scheduler: str) -> None:
    found = run({}, scheduler=scheduler, TMPDIR=str(tmp_path)).environment
    folders = {os.path.dirname(found[name]) for name in CACHES}
    assert len(folders) == 1
    assert folders.pop().startswith(f"{tmp_path}/jobgen-")
    assert os.listdir(tmp_path) == []


def test_caches_that_somebody_has_placed_stay_there(tmp_path: Path) -> None:
    own = {"TRITON_CACHE_DIR": "/own/triton"}
    setup = "export TORCHINDUCTOR_CACHE_DIR=/set/up"
    found = run({"variables": own, "setup": setup}, TMPDIR=str(tmp_path)).environment
    assert [found[name] for name in CACHES[:2]] == ["/own/triton", "/set/up"]
    assert all(found[name].startswith(str(tmp_path)) for name in CACHES[2:])


def test_a_home_of_triton_is_where_its_cache_is() -> None:
    plan = plan_of(
        {
            "name": "a",
            "resources": {},
            "run": {"module": "m"},
            "environment": {"variables": {"TRITON_HOME": "/x"}},
        },
        scheduler="slurm",
    )
    assert "TRITON_CACHE_DIR" not in plan.environment.caches


def test_a_job_without_gpus_needs_no_caches_of_their_compilers() -> None:
    job = {"name": "a", "resources": {}, "run": {"command": ["PROGRAM"]}}
    found = run_node(job, scheduler="slurm").environment
    assert {*CACHES, "TORCH_NCCL_DUMP_ON_TIMEOUT"} & {*found} == set()


def test_a_folder_for_temporary_files_that_is_not_there_is_replaced() -> None:
    found = run({}, TMPDIR="/no/such").environment
    assert found["TMPDIR"] == "/tmp"
    assert found["TRITON_CACHE_DIR"].startswith("/tmp/jobgen-")


@pytest.mark.parametrize(
    ("gpu", "vendor"),
    [
        *[(name, "nvidia") for name in ("A100-40", "GH200", "V100-32", "H100", "GB200", "L40")],
        *[
            ("MI250X", "amd"),
            ("MI300A", "amd"),
            ("PVC", "intel"),
            (None, None),
            ("a new one", None),
        ],
    ],
)
def test_who_makes_a_gpu(gpu: str | None, vendor: str | None) -> None:
    assert _guess_vendor(gpu) == vendor


# --- what is inherited ---------------------------------------------------------------------------


def test_variables_of_torchrun_around_the_job_do_not_reach_it() -> None:
    strays = {
        "PET_NNODES": "7",
        "TORCH_ELASTIC_WORKER_IDENTICAL": "1",
        "TORCHELASTIC_HEALTH_CHECK_PORT": "1",
        "OMP_NUM_THREADS": "99",
    }
    found = run({"variables": {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "5"}}, **strays).environment
    assert found["OMP_NUM_THREADS"] == "8"
    assert found["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] == "5"
    assert not (strays.keys() - {"OMP_NUM_THREADS"}) & found.keys()


# --- staging -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "environment",
    [
        {"venv": "$NOPE/v"},
        {"conda": "${NOPE}/c"},
        {"stage": "$NOPE/e.tar"},
        {"modules": {"use": ["/m/$NOPE"]}},
        {"container": {"image": "$NOPE/x.sif", "runtime": "apptainer"}},
        {"container": {"image": "/", "binds": ["$NOPE/a:/a"], "runtime": "apptainer"}},
        {"variables": {"A": {"value": "$NOPE/a", "expand": True}}},
        # To what it adds may be empty, but not what it adds.
        {"variables": {"A": {"value": "$A:$NOPE/lib", "expand": True}}},
        {"variables": {"A": {"value": "$JOBGEN_TASK", "expand": True}}},
    ],
    ids=str,
)
def test_a_variable_that_is_not_set_ends_the_job_by_its_name(
    tmp_path: Path, environment: Mapping[str, object]
) -> None:
    """Never another path without a word, though scripts of environments use unset variables."""
    for command in ("conda", "apptainer"):
        (tmp_path / command).write_text("#!/bin/sh\n")
        (tmp_path / command).chmod(0o755)
    around = {"PATH": f"{tmp_path}:{os.environ['PATH']}", **modules(tmp_path, "true")}
    name = "JOBGEN_TASK" if "JOBGEN_TASK" in str(environment) else "NOPE"
    with pytest.raises(AssertionError, match=rf"line \d+: {name}: parameter (null or )?not set"):
        run(environment, **around)


def test_a_variable_may_add_to_itself_and_name_what_the_job_is_given() -> None:
    given = {name: {"value": f"${name}:/a", "expand": True} for name in ("PYTHONPATH", "HOME")}
    given["OUT"] = {"value": "$JOBGEN_RUN_DIR/$LR-$JOBGEN_TASK", "expand": True}
    array = {"zip": {"environment.variables.LR": [1, 2]}}
    job = {"name": "a", "resources": {}, "run": {"command": ["PROGRAM"]}, "array": array}
    job["environment"] = {"variables": given}
    found = run_node(job, scheduler="slurm", task=1).environment
    assert (found["PYTHONPATH"], found["HOME"]) == (":/a", "/home/of user:/a")
    assert re.search(r"/runs/a/\S+/2-1$", found["OUT"])


@pytest.mark.parametrize("folder", ["$NOPE", "$HERE"])
def test_a_script_of_ones_own_is_told_no_path_without_its_variable(
    tmp_path: Path, folder: str
) -> None:
    (tmp_path / "x.sh").touch()
    args = [{"value": "$NOPE/a", "expand": True}]
    job = {"name": "a", "resources": {}, "run": {"body": f"{folder}/x.sh", "args": args}}
    with pytest.raises(AssertionError, match="NOPE: unbound variable"):
        run_node(job, scheduler="slurm", around={"HERE": str(tmp_path)})


def archive(folder: Path, *, activate: str, unpack: str = "") -> Path:
    """An archive as conda-pack and venv-pack make it: the environment's files at its top."""
    bin_folder = folder / "env" / "bin"
    bin_folder.mkdir(parents=True)
    (bin_folder / "activate").write_text(activate)
    (bin_folder / "python3").write_text('#!/bin/sh\nexec "$BASE/python3" "$@"\n')
    if unpack:
        (bin_folder / "conda-unpack").write_text(f"#!/bin/sh\n{unpack}\n")
    for path in bin_folder.iterdir():
        path.chmod(0o755)
    subprocess.run(["tar", "-czf", folder / "env.tar.gz", "-C", folder / "env", "."], check=True)
    return folder / "env.tar.gz"


# A shell finds where the file lies that it reads; python3 of the node is kept for the one inside.
ACTIVATE = """
BASE=$(dirname "$(command -v python3)") PATH=$(dirname "${BASH_SOURCE[0]}"):$PATH ACTIVATED=yes
export BASE PATH ACTIVATED
"""


def test_a_packed_environment_is_unpacked_on_the_node_and_goes_with_the_job(tmp_path: Path) -> None:
    file = archive(tmp_path, activate=ACTIVATE, unpack='echo "$0" >"$HERE/unpacked"')
    (tmp_path / "tmp").mkdir()
    found = run({"stage": "$HERE/env.tar.gz"}, HERE=str(tmp_path), TMPDIR=str(tmp_path / "tmp"))
    assert found.environment["ACTIVATED"] == "yes"
    assert (tmp_path / "unpacked").read_text().startswith(f"{tmp_path}/tmp/jobgen-")
    assert os.listdir(tmp_path / "tmp") == []
    assert file.exists()


@pytest.mark.parametrize(
    ("activate", "unpack", "message"),
    [
        ("export PATH", "", "error: pack it with conda-pack or venv-pack, it leads to /"),
        (ACTIVATE, "exit 3", "error: conda-unpack failed on n1: "),
    ],
    ids=["a venv that was only moved", "conda-unpack"],
)
def test_a_packed_environment_of_no_use_is_refused(
    tmp_path: Path, activate: str, unpack: str, message: str
) -> None:
    file = archive(tmp_path, activate=activate, unpack=unpack)
    said = failure({"stage": str(file)}, TMPDIR=str(tmp_path))
    assert said.startswith(message)
    assert sorted(os.listdir(tmp_path)) == ["env", "env.tar.gz"]


def test_an_archive_that_cannot_be_unpacked_is_said_with_the_room_there_is(tmp_path: Path) -> None:
    whole = archive(tmp_path, activate=ACTIVATE).read_bytes()
    (tmp_path / "half.tar.gz").write_bytes(whole[: len(whole) // 2])
    said = failure({"stage": str(tmp_path / "half.tar.gz")})
    assert re.match(
        r"error: cannot unpack on n1, with +\S+ left for /tmp/jobgen-\S+: /\S+half", said
    )
    empty = tmp_path / "empty.tar"
    subprocess.run(["tar", "-cf", empty, "-C", tmp_path, "--files-from=/dev/null"], check=True)
    assert failure({"stage": str(empty)}) == f"error: no bin/activate is at the top of {empty}"
    assert failure({"stage": "/no/x.tgz"}) == "error: no packed environment on n1: /no/x.tgz"


# --- containers ----------------------------------------------------------------------------------


def container_plan(site: str = "slurm-generic", *overrides: str, **container: object) -> Plan:
    """The plan of a job in a container."""
    job = {
        "name": "a",
        "resources": {"nodes": 2, "gpus_per_node": 4},
        "environment": {"container": {"image": "a.sif", **container}},
        "run": {"module": "m"},
    }
    loaded = load(yaml.safe_dump(job), *overrides)
    return resolve(loaded, site=site, limits=False)


def words(plan: Plan) -> str:
    """What opens the container, apart from what every node binds."""
    found = plan.environment.container
    assert found is not None
    return " ".join([*found.words, *found.more])


@pytest.mark.parametrize(
    ("site", "container", "expected"),
    [
        ("nci-gadi", {}, "singularity exec --pwd $PWD --nv a.sif"),
        ("lumi-g", {}, "singularity exec --pwd $PWD --rocm a.sif"),
        ("alcf-aurora", {}, "apptainer exec --pwd $PWD a.sif"),
        (
            "alcf-polaris",
            {"binds": ["~/data", "$X:/x:ro"], "options": ["--no-home"]},
            "apptainer exec --pwd $PWD --nv --bind /opt:/opt --bind /var/run/palsd/:/var/run/palsd/"
            " --bind $HOME/data:$HOME/data --bind $X:/x:ro --no-home a.sif",
        ),
        (
            "nersc-perlmutter",
            {"image": "nvcr.io/nvidia/pytorch:26.01-py3"},
            "podman-hpc run --rm --interactive --env-host --network=host --ipc=host --pid=host"
            " --workdir $PWD --gpu nvcr.io/nvidia/pytorch:26.01-py3",
        ),
        (
            "lumi-g",
            {"runtime": "podman-hpc"},
            "podman-hpc run --rm --interactive --env-host --network=host --ipc=host --pid=host"
            " --workdir $PWD --device=/dev/kfd --device=/dev/dri a.sif",
        ),
    ],
)
def test_a_container_is_entered_as_its_runtime_and_the_sites_gpus_want_it(
    site: str, container: dict[str, object], expected: str
) -> None:
    overrides = ("queue=gpuvolta",) if site == "nci-gadi" else ()
    assert words(container_plan(site, *overrides, **container)) == expected


def test_srun_enters_the_containers_that_are_its_own() -> None:
    found = container_plan("aws-parallelcluster", image="x.sqsh", binds=["~/a:/a"]).environment
    assert found.step_options == (
        "--container-image=$PWD/x.sqsh",
        "--container-mounts=$PWD:$PWD,/tmp:/tmp,$HOME/a:/a",
    )
    assert (found.image_file, found.container) == ("$PWD/x.sqsh", None)
    named = container_plan("aws-parallelcluster", image="nvcr.io#nvidia/pytorch:26.01-py3")
    assert named.environment.image_file is None
    edf = container_plan("cscs-clariden", image="~/env.toml").environment
    assert edf.step_options == ("--environment=$HOME/env.toml",)
    assert container_plan("cscs-clariden", image="ubuntu").environment.image_file is None


def test_only_the_node_knows_gpus_that_no_site_does() -> None:
    found = container_plan(runtime="apptainer").environment.container
    assert found is not None
    assert (found.nvidia, found.amd) == (("--nv",), ("--rocm",))
    plan = container_plan("slurm-generic", "resources.gpus_per_node=0", runtime="apptainer")
    assert plan.environment.container is not None
    assert plan.environment.container.nvidia == ()


def test_a_container_has_the_modules_of_its_runtime_and_no_others_of_the_site() -> None:
    plan = container_plan("olcf-frontier")
    assert plan.environment.modules is not None
    assert plan.environment.modules.load[0] == "olcf-container-tools"
    own = container_plan("olcf-frontier", "environment.modules=[mine]").environment.modules
    assert own is not None
    assert own.load == (*plan.environment.modules.load, "mine")
    polaris = container_plan("alcf-polaris").environment
    assert polaris.conda is None
    assert container_plan("cscs-clariden", image="x").environment.modules is None


@pytest.mark.parametrize(
    ("site", "container", "more", "message"),
    [
        ("slurm-generic", "{image: a}", "", "environment.container: has no runtime, and the site"),
        ("pbs-generic", "{image: a, runtime: pyxis}", "", "pyxis is for srun, Slurm's launcher"),
        ("slurm-generic", "{image: a, runtime: edf}", ", modules: [x]", "before a module could be"),
        ("cscs-clariden", "{image: a, binds: [/a]}", "", "have no effect with edf, this site's"),
    ],
)
def test_containers_that_cannot_be(site: str, container: str, more: str, message: str) -> None:
    text = edited(("", f"environment: {{container: {container}{more}}}\n"))
    assert message in complaint(text.replace("scheduler: local\n", ""), site=site, limits=False)


# --- GPUs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        (None, "3,2,1,0"),
        ("4,5,6,7", "7,6,5,4"),
        ("GPU-8932f937,GPU-f1c2,MIG-0a,GPU-77", "GPU-77,MIG-0a,GPU-f1c2,GPU-8932f937"),
    ],
)
def test_gpus_are_taken_in_the_sites_order_by_number_or_uuid(given: str | None, taken: str) -> None:
    script = (ROOT / "examples" / "portable.pbs").read_text()
    lines = re.findall(r"^    (?:IFS=, read|export CUDA_VISIBLE).*$", script, re.MULTILINE)
    command = "\n".join(["set -eu", *lines, 'echo "$CUDA_VISIBLE_DEVICES"'])
    around = {} if given is None else {"CUDA_VISIBLE_DEVICES": given}
    ended = subprocess.run(["bash", "-c", command], env=around, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, f"{taken}\n", "")
