"""What a spec says that is right in form and can hardly be meant; `check` and `submit` say it."""

import pytest
from support import edited, jobgen, load, working_in

from jobgen.plan.resolve import resolve
from jobgen.plan.review import review

BASE = """\
name: gpt
scheduler: slurm
resources: {nodes: 2, gpus_per_node: 4, cpus_per_node: 16, memory_per_node: 64GB, walltime: 1h}
run: {script: train.py}
"""

DOUBTFUL = {
    "more processes than GPUs": (
        ("", "launch: {processes_per_node: 8}\n"),
        "launch.processes_per_node: 8 processes share 4 GPUs on a node; NCCL takes one each; write"
        " processes_per_node: 4, unless they use gloo or MPS",
    ),
    "fewer processes than GPUs": (
        ("", "launch: {processes_per_node: 2}\n"),
        "2 processes leave 2 of 4 GPUs on a node idle; write processes_per_node: 4, unless each",
    ),
    "a sweep over what all tasks share": (
        ("", "array: {values: {nodes: [1, 2]}}\n"),
        "nodes is an argument of the program here: its tasks get --nodes; all tasks have the job's",
    ),
    "more processes than CPUs": (
        ("cpus_per_node: 16", "cpus_per_node: 2"),
        "4 processes share 2 CPUs on a node; write cpus_per_node: 4 or more",
    ),
    "more threads than CPUs": (
        ("", "environment: {variables: {OMP_NUM_THREADS: '16'}}\n"),
        "4 processes with 16 threads share 16 CPUs on a node; write 4, or leave it out",
    ),
    "more threads than the CPUs of a GPU": (
        (
            "cpus_per_node: 16, memory_per_node: 64GB, walltime: 1h}",
            "cpus_per_gpu: 4, walltime: 1h}\nenvironment: {variables: {OMP_NUM_THREADS: 64}}",
        ),
        "4 processes with 64 threads share 16 CPUs on a node; write 4, or leave it out",
    ),
    "conda without its own lines": (
        ("", "environment: {setup: conda activate torch}\n"),
        "conda's own lines stand before it; write environment.conda: torch",
    ),
    "an address in the setup": (
        ("", "environment: {setup: 'export MASTER_ADDR=$(hostname)'}\n"),
        "environment.setup: MASTER_ADDR is set by the job, after its setup; remove it",
    ),
    "MB for GB": (
        ("64GB", "180MB"),
        "resources.memory_per_node: 180 MiB are less than 1 GiB a process; check the unit: MB, GB",
    ),
    "one visible GPU": (
        ("", "environment: {variables: {CUDA_VISIBLE_DEVICES: '0'}}\n"),
        "shows 1 of the 4 GPUs that the job asks for on a node; leave it out, or write"
        " gpus_per_node: 1",
    ),
    "one visible GPU by the setup": (
        ("", "environment: {setup: 'export CUDA_VISIBLE_DEVICES=0'}\n"),
        "environment.setup: CUDA_VISIBLE_DEVICES shows 1 of the 4 GPUs",
    ),
    "a rendezvous in the setup": (
        ("", "environment: {setup: 'export MASTER_PORT=29500'}\n"),
        "environment.setup: MASTER_PORT is set by the job, after its setup; remove it",
    ),
    "NCCL on the loopback interface": (
        ("", "environment: {variables: {NCCL_SOCKET_IFNAME: lo}}\n"),
        "NCCL_SOCKET_IFNAME=lo is the loopback interface, which cannot reach other nodes",
    ),
    "numbers of devices": (
        ("nodes: 2, gpus_per_node: 4", "gpus_per_node: [0, 1, 2, 3]"),
        "asks for 4 nodes, with 0, 1, 2, 3 GPUs; for 4 GPUs on each node write gpus_per_node: 4",
    ),
    "the loopback interface": (
        ("", "launch: {interface: lo}\n"),
        "is the loopback interface, which cannot reach other nodes",
    ),
    "results that the next start does not find": (
        ("train.py}", "train.py, args: {out: /tmp/results}}\non_walltime: {then: requeue}"),
        "/tmp/results is on each node's own disk, and the job's next start may be elsewhere",
    ),
    "tasks that write into one place": (
        ("train.py}", "train.py, args: {out-dir: results}}\narray: {values: {lr: [1, 2]}}"),
        "all 2 tasks write to --out-dir results; write {value: $JOBGEN_RUN_DIR/results, expand: ",
    ),
    "tasks that are charged for whole nodes": (
        (
            "scheduler: slurm\nresources: {nodes: 2, gpus_per_node: 4, cpus_per_node: 16,"
            " memory_per_node: 64GB,",
            "site: cscs-clariden\naccount: a\narray: {tasks: 32}\nresources: {gpus_per_node: 1,",
        ),
        "array: 32 tasks of 1 GPU are charged as 128 GPUs, as each job has whole nodes; write"
        " together: 4",
    ),
    "pip where there is no internet": (
        ("scheduler: slurm", "site: jsc-juwels-booster\nenvironment: {setup: pip install wandb}"),
        "pip install: compute nodes of jsc-juwels-booster have no internet; run it on the login",
    ),
    "W&B where there is no internet": (
        (
            "scheduler: slurm",
            "site: jsc-juwels-booster\nenvironment: {variables: {WANDB_PROJECT: gpt}}",
        ),
        "W&B: compute nodes of jsc-juwels-booster have no internet; write WANDB_MODE: offline",
    ),
    "a venv outside of the container": (
        ("", "environment: {container: {image: a.sif, runtime: apptainer}, venv: /opt/venv}\n"),
        "/opt/venv is not seen inside the container; write binds: [/opt], or leave the venv out",
    ),
    "docker without variables": (
        ("{script: train.py}", "{command: [docker, run, image, python, train.py]}"),
        "docker takes no variables in, so the processes do not find each other",
    ),
    "lines that YAML has joined": (
        ("", "environment:\n  setup: >\n    module load cuda\n    export A=1\n"),
        "is one line, in which 'export A=' is an argument of the command before it",
    ),
    "a dash of a word processor": (
        ("{script: train.py}", "{script: train.py, args: ['\u2013\u2013lr', '1']}"),
        "holds '\u2013' (U+2013)",
    ),
}


@pytest.mark.parametrize(("change", "words"), DOUBTFUL.values(), ids=DOUBTFUL)
def test_what_can_hardly_be_meant_is_said(change: tuple[str, str], words: str) -> None:
    loaded = load(edited(change, text=BASE))
    (doubt,) = review(loaded, resolve(loaded))
    assert words in str(doubt)
    assert str(doubt).startswith("job.yaml:")


RIGHT = {
    "the base": ("", ""),
    "one process a GPU": ("", "launch: {processes_per_node: 4}\n"),
    "threads that fit": ("", "environment: {variables: {OMP_NUM_THREADS: '4'}}\n"),
    "all GPUs": ("", "environment: {variables: {CUDA_VISIBLE_DEVICES: '0,1,2,3'}}\n"),
    "unequal nodes": ("nodes: 2, gpus_per_node: 4", "gpus_per_node: [8, 2]"),
    "setup of several lines": (
        "",
        "environment:\n  setup: |\n    module load cuda\n    export A=1\n",
    ),
    "conda with its own lines": (
        "",
        "environment:\n  setup: |\n    . ~/conda/etc/profile.d/conda.sh\n    conda activate a\n",
    ),
    "setup of one line with &&": ("", "environment: {setup: 'cd /x && module load cuda'}\n"),
    "results on scratch": (
        "train.py}",
        "train.py, args: {out: /scratch/results}}\non_walltime: {then: requeue}",
    ),
    "tasks with folders of their own": (
        "train.py}",
        "train.py, args: {out: {value: $JOBGEN_RUN_DIR/out, expand: true}}}\n"
        "array: {values: {lr: [1, 2]}}",
    ),
    "W&B offline": (
        "scheduler: slurm",
        "site: jsc-juwels-booster\n"
        "environment: {variables: {WANDB_PROJECT: gpt, WANDB_MODE: offline}}",
    ),
    "a venv under a bind": (
        "",
        "environment: {container: {image: a.sif, runtime: apptainer, binds: [/opt]},"
        " venv: /opt/venv}\n",
    ),
}


@pytest.mark.parametrize("change", RIGHT.values(), ids=RIGHT)
def test_nothing_is_said_of_what_is_meant(change: tuple[str, str]) -> None:
    loaded = load(edited(change, text=BASE))
    assert review(loaded, resolve(loaded)) == []


def test_check_and_submit_say_it_with_its_place(tmp_path: object) -> None:
    with working_in(str(tmp_path)):
        with open("job.yaml", "w") as file:
            file.write(BASE.replace("64GB", "64MB"))
        with open("train.py", "w") as file:
            file.write("from accelerate import Accelerator\nAccelerator()\n")
        for command in (["check"], ["submit", "--dry-run"]):
            code, _, err = jobgen(*command)
            assert code == 0
            assert "warning: job.yaml:3:" in err, err
