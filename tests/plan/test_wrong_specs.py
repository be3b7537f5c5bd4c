"""Specs that read well and cannot mean what they say: each is told of before it is in a queue."""

from pathlib import Path

import pytest
from support import edited, jobgen, working_in

SLURM = """\
name: gpt
scheduler: slurm
resources: {nodes: 2, gpus_per_node: 4, cpus_per_gpu: 8, walltime: 2h}
run: {script: train.py}
"""
SCRIPT = "{script: train.py}"
# What is written in a spec instead of what, or at its end, and what is said of it; in the first
# part the spec is refused, in the second a warning is printed with the way out.
REFUSED = {
    "torchrun": ((SCRIPT, "{command: [torchrun, train.py]}"), "torchrun would start separate"),
    "a module": ((SCRIPT, "{module: torch.distributed.run}"), "would start separate groups"),
    "in bash -c": ((SCRIPT, "{command: [bash, -c, torchrun a.py]}"), "torchrun would start"),
    "behind uv": ((SCRIPT, "{command: uv run torchrun train.py}"), "torchrun would start"),
    "mpirun": ((SCRIPT, "{command: mpirun python a.py}"), "mpirun would start it again"),
    "srun": ((SCRIPT, "{command: srun python a.py}"), "srun would start it again"),
    "sbatch": ((SCRIPT, "{command: sbatch job.sh}"), "sbatch would submit another job"),
    "MASTER_PORT": (("", "environment: {variables: {MASTER_PORT: 1}}\n"), "would not arrive"),
    "PATH": (("", "environment: {variables: {PATH: /x:$PATH}}\n"), "find no command; write {val"),
    "a quote": (("", "environment: {setup: 'echo \"hi'}\n"), "unexpected EOF while looking"),
    "if": (("", "environment: {setup: 'if true; then a'}\n"), "syntax error"),
    "notice": (
        ("", "on_walltime: {notice: 3h}\n"),
        "the walltime must be longer than the notice (",
    ),
    "another queue's GPUs": (
        (
            "scheduler: slurm\nresources: {",
            "site: nci-gadi\naccount: a\nqueue: gpuvolta\nresources: {gpu_type: a100, ",
        ),
        "gpuvolta has v100, and no a100",
    ),
    "a place inside": (
        ("", "environment: {container: {image: a.sif, runtime: apptainer, binds: ['/d:ro']}}\n"),
        "names no folder inside the container: a target begins with /; write /d:/d:ro",
    ),
    "an image of another runtime": (
        ("", "environment: {container: {image: a.sif, runtime: pyxis}}\n"),
        "is an image of Apptainer, which pyxis cannot read; write runtime: apptainer",
    ),
    "an image as enroot writes it": (
        ("", "environment: {container: {image: 'docker://a.io#b/c:1', runtime: apptainer}}\n"),
        "as enroot has it, which apptainer cannot read; write docker://a.io/b/c:1",
    ),
    "a body in Python": ((SCRIPT, "{body: a.py}"), "bash runs a body; write script: a.py"),
    "a shell script with an agent": (
        (SCRIPT, "{script: run.sh}"),
        "torchrun in it starts the processes, as jobgen does; write script: train.py; or body: run",
    ),
    "a shell script with srun": ((SCRIPT, "{script: srun.sh}"), "write body: srun.sh, which bash"),
    "a shell script without": ((SCRIPT, "{script: a.sh}"), "Python file; write command: [bash, a"),
    "an array as directive": (("", "directives: ['#SBATCH --array=0-3']\n"), "write array: {tasks"),
    "a script in quotes of typography": (
        (SCRIPT, "{script: “a.py”}"),
        "write script: a.py, in plain",
    ),
}
WARNED = {
    "a shell script": (
        (SCRIPT, "{command: bash run.sh}"),
        "warning: run.sh:1: torchrun starts its",
    ),
    "a body on the first node": (
        (SCRIPT, "{body: body.sh}"),
        "warning: body.sh:1: torchrun starts on the first of 2 nodes alone",
    ),
    "one CPU": (("cpus_per_gpu: 8, ", ""), "1 CPU for 4 processes"),
    "torchrun in setup": (
        ("", "environment: {setup: torchrun a.py}\n"),
        "would start on every node",
    ),
    "torchrun behind another": (
        ("", "environment: {setup: python a.py && torchrun b.py}\n"),
        "before the job's program; remove it, and write run: {script: b.py}",
    ),
    "exit": (("", "environment: {setup: '[[ -e /x ]] || exit 0'}\n"), "before the program starts"),
    "a quote of typography": ((SCRIPT, "{script: a.py, args: [“b”]}"), "holds '“b”', with a quote"),
    "a secret": (
        ("", f"environment: {{variables: {{WANDB_API_KEY: {'0123abcd' * 5}}}}}\n"),
        "write environment.from_shell: [WANDB_API_KEY]",
    ),
}


def check(text: str, folder: Path) -> tuple[int, str]:
    (folder / "job.yaml").write_text(text)
    (folder / "run.sh").write_text("torchrun --nproc-per-node 2 train.py --lr $LR\n")
    (folder / "srun.sh").write_text("# torchrun\nsrun \\\n  torchrun train.py\n")
    (folder / "body.sh").write_text("torchrun --nnodes 2 --nproc-per-node 2 train.py\n")
    with working_in(folder):
        done = jobgen("check")
    return done.code, done.err


@pytest.mark.parametrize(("change", "words"), REFUSED.values(), ids=REFUSED)
def test_it_is_refused(change: tuple[str, str], words: str, tmp_path: Path) -> None:
    code, said = check(edited(change, text=SLURM), tmp_path)
    assert (code, words in said) == (3, True), said


@pytest.mark.parametrize(("change", "words"), WARNED.values(), ids=WARNED)
def test_it_is_warned_of(change: tuple[str, str], words: str, tmp_path: Path) -> None:
    code, said = check(edited(change, text=SLURM), tmp_path)
    assert (code, words in said) == (0, True), said


def test_a_script_that_is_not_here_is_not_submitted(tmp_path: Path) -> None:
    with working_in(tmp_path):
        text = SLURM.replace("slurm", "local").replace("train.py", "/Users/me/train.py")
        (tmp_path / "job.yaml").write_text(text)
        done = jobgen("submit", "--dry-run")
    assert done.code == 3
    assert "/Users/me/train.py" in done.err


def test_a_refusal_hides_no_warning(tmp_path: Path) -> None:
    late = "on_walltime: {notice: 3h}\nlaunch: {processes_per_node: 6}\n"
    text = SLURM.replace("cpus_per_gpu", "cpus_per_node").replace(": 8,", ": 2,") + late
    few, shared = "6 processes share 2 CPUs", "6 processes share 4 GPUs"
    with working_in(tmp_path):
        (tmp_path / "job.yaml").write_text(text)
        (tmp_path / "train.py").write_text("")
        checked, rendered = jobgen("check"), jobgen("render")
    assert checked.code == rendered.code == 3
    for part in ("the walltime must be longer", few, shared):
        assert part in checked.err
    assert "the walltime must be longer" in rendered.err
