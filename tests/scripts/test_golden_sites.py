"""The script of examples/portable.yaml for each shipped site: as committed, as its site has it."""

import re

import pytest
from golden import FOLDER, SITES, cut, golden, rendered
from support import shellcheck

from jobgen.sites import search

# What the documentation of a site has its users write, line by line without the `#PBS` or
# `#SBATCH`; what must not be among the lines; and what the rest of the script must have.
DOCUMENTED: dict[str, tuple[list[str], str, list[str]]] = {
    "local": ([], ".", []),
    "slurm-generic": (
        ["--nodes=2", "--gpus-per-node=4"],
        "--account|--partition|--qos|--mem",
        ["srun --kill-on-bad-exit=1 "],
    ),
    "pbs-generic": (
        ["-l select=2:ngpus=4:mpiprocs=1", "-l place=scatter", "-k oed"],
        "-[APq] ",
        [r"awk '!seen\[\$1\]\+\+"],
    ),
    # No select, but totals; 12 CPUs a GPU; the file systems of every path; -P.
    "nci-gadi": (
        [
            "-P ab12",
            "-q gpuvolta",
            "-l ncpus=96",
            "-l ngpus=8",
            "-l mem=760gb",
            "-l walltime=01:00:00",
            "-l storage=gdata/ab12+scratch/cd34",
        ],
        "select|place|-A ",
        ["pbsdsh -n "],
    ),
    # Whole nodes of the system, the file systems by name, a queue that jobs may name.
    "alcf-polaris": (
        [
            "-A a",
            "-q debug",
            "-l select=2:system=polaris",
            "-l place=scatter",
            "-l walltime=01:00:00",
            "-l filesystems=home:eagle",
        ],
        r"ngpus|ncpus|mem=|-q (small|medium|large)\b",
        [
            "module use /soft/modulefiles",
            "load_module conda",
            "NCCL_NET=\"?'?AWS Libfabric",
            "https_proxy=http://proxy.alcf.anl.gov:3128",
        ],
    ),
    # Tiles are the devices; names in the domain of the fast network; no word of CUDA or NCCL_NET.
    "alcf-aurora": (
        ["-A a", "-l select=2", "-l place=scatter", "-l filesystems=flare", "-l walltime=01:00:00"],
        r"ngpus|ncpus|mem=|system=",
        [
            r"\.hsn\.cm\.aurora\.alcf\.anl\.gov",
            "load_module frameworks",
            "CCL_PROCESS_LAUNCHER=pmix",
            "ZE_FLAT_DEVICE_HIERARCHY=FLAT",
            "getent",
        ],
    ),
    "ncar-derecho": (
        ["-A a", "-q main", "-l walltime=01:00:00"],
        "gpu_type|filesystems|storage",
        [
            r"(?m)^#PBS -l select=2:ncpus=64(:mpiprocs=\d)?:ngpus=4:mem=480gb",
            "load_module cuda",
            "NCCL_SOCKET_IFNAME=hsn",
            "NCCL_IB_DISABLE=1",
        ],
    ),
    # The type of GPU is a resource of the chunk; as one of the job it is refused.
    "ncar-casper": (
        ["-A a", "-q casper", "-l walltime=01:00:00"],
        r"-l gpu_type=",
        [r"(?m)^#PBS -l select=2:ncpus=64(:mpiprocs=\d)?:ngpus=4:gpu_type=h100:mem=985gb"],
    ),
    # QoS and not partitions; projects that end in _g for GPUs.
    "nersc-perlmutter": (
        ["--account=a", "--constraint=gpu", "--qos=regular", "--nodes=2", "--gpus-per-node=4"],
        "--partition|--mem",
        [],
    ),
    "olcf-frontier": (
        [
            "--account=a",
            "--partition=batch",
            "--nodes=2",
            "--time=01:00:00",
            "--network=disable_rdzv_get",
        ],
        "--qos|--mem",
        [
            "NCCL_SOCKET_IFNAME=hsn0,hsn1,hsn2,hsn3",
            "NCCL_NET=OFI",
            r"load_module rocm/7[\s\S]*load_module rccl-net-plugin",
            "getent ahostsv4",
        ],
    ),
    # 8 GCDs a node with the 56 cores and 480 GB that jobs can have.
    "lumi-g": (
        [
            "--account=project_1",
            "--partition=standard-g",
            "--nodes=2",
            "--gpus-per-node=8",
            "--mem=480G",
        ],
        "--cpus-per-task=(8|64)$|--qos",
        [],
    ),
    # CPUs and memory are fixed by the GPUs.
    "csc-roihu": (
        ["--account=project_1", "--partition=gpularge", "--nodes=2", "--gres=gpu:gh200:4"],
        "--mem|--gpus-per-node",
        ["--cpus-per-task=288", "load_module python-pytorch"],
    ),
    "cineca-leonardo": (
        ["--account=a", "--partition=boost_usr_prod", "--nodes=2", "--gres=gpu:4"],
        "--gpus-per-node",
        [],
    ),
    # Names on InfiniBand end in i; CPUs are hardware threads, 24 a GPU.
    "jsc-juwels-booster": (
        ["--account=a", "--partition=booster", "--nodes=2", "--gres=gpu:4"],
        "--gpus-per-node|--mem",
        [
            r"%%\.\*\}\"i\)",
            "NCCL_SOCKET_IFNAME=ib0",
            "GLOO_SOCKET_IFNAME=ib0",
            "NCCL_IB_TIMEOUT=60",
        ],
    ),
    "jsc-jupiter": (
        ["--account=a", "--partition=booster", "--nodes=2", "--gres=gpu:4"],
        "--gpus-per-node|--mem",
        ["getent ahostsv4", "NCCL_SOCKET_IFNAME=ib0"],
    ),
    "cscs-clariden": (
        ["--account=a", "--partition=normal", "--nodes=2", "--time=01:00:00"],
        "--environment|--mem",
        ["MPICH_GPU_SUPPORT_ENABLED=0"],
    ),
    # The memory must not be asked for; 20 CPUs a GPU.
    "bsc-mn5-acc": (
        ["--account=a", "--qos=acc_ehpc", "--partition=acc", "--nodes=2", "--gres=gpu:4"],
        "--mem|--gpus-per-node",
        [],
    ),
    "surf-snellius": (
        ["--partition=gpu_a100", "--nodes=2", "--gpus-per-node=4"],
        "--account",
        [],
    ),
    # Nodes and GPUs alone: 8 cores and their memory come with each GCD.
    "pawsey-setonix": (
        ["--account=a-gpu", "--partition=gpu", "--nodes=2", "--gres=gpu:8"],
        "--cpus-per-task|--mem|--gpus-per-node",
        [],
    ),
    # srun alone starts jobs.
    "isambard-ai": (
        ["--nodes=2", "--gpus-per-node=4", "--time=01:00:00"],
        "--mem",
        ["load_module brics/nccl", "srun "],
    ),
    # Jobs are routed by size: no partition; the type of GPU is required; StdEnv stays loaded.
    "alliance-rorqual": (
        ["--account=def-a", "--nodes=2", "--gpus-per-node=h100:4"],
        "--partition|--qos",
        [],
    ),
    "aws-parallelcluster": (
        ["--nodes=2", "--gpus-per-node=8", "--exclusive", "--wait-all-nodes=1"],
        "--account|--mem",
        ["FI_EFA_USE_HUGE_PAGE=0"],
    ),
}
# What no script of a site may have, where its documentation says why not.
NEVER = {
    "alcf-aurora": "NCCL_NET|CUDA_VISIBLE_DEVICES=",
    "jsc-jupiter": r"%%\.\*\}\"i\)",
    "isambard-ai": "mpirun|mpiexec",
    "alliance-rorqual": "module purge",
    "aws-parallelcluster": "FI_EFA_USE_DEVICE_RDMA|RDMAV_",
}


def test_there_is_a_script_for_each_site_and_no_other() -> None:
    assert sorted(path.name for path in FOLDER.iterdir()) == sorted(
        golden(site).name for site in search.list_names()
    )
    assert set(DOCUMENTED) <= set(search.list_names())


def test_committed_scripts_are_what_the_command_renders(subtests: pytest.Subtests) -> None:
    message = "python tests/helpers/golden.py renders them again; read the diff"
    for site in SITES:
        with subtests.test(site):
            assert golden(site).read_text() == cut(rendered(site)), message


def test_they_ask_as_the_sites_documentation_does(subtests: pytest.Subtests) -> None:
    for site, (must, must_not, elsewhere) in DOCUMENTED.items():
        script = rendered(site)
        lines = re.findall(r"^#(?:PBS|SBATCH) (.*)", script, re.MULTILINE)
        with subtests.test(site):
            assert [line for line in must if line not in lines] == []
            assert [line for line in lines if re.search(must_not, line)] == []
            assert [pattern for pattern in elsewhere if not re.search(pattern, script)] == []
            assert site not in NEVER or not re.search(NEVER[site], script)


@pytest.mark.slow
def test_shellcheck_has_nothing_to_say() -> None:
    assert shellcheck(*map(golden, SITES)) == ""
