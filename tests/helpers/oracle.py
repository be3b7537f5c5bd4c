"""Run a batch script and the job that import makes of it, and compare what their programs saw.

Every command that a job may start is a stand-in that writes down its words, its folder and its
environment, a line for each process; no other program is on the PATH but bash and its like.
"""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from jobgen.batchscript.convert import import_script
from jobgen.batchscript.reader import Script
from jobgen.plan.resolve import resolve
from jobgen.rendering.render import render
from jobgen.spec.load import load

STAND_IN = Path(__file__).parent / "programs" / "stand_in.py"
TOOLS = (
    "echo bash sh env cat cp mv ln rm mkdir mktemp touch chmod ls sed awk grep sort uniq head "
    "tail tr cut wc date sleep seq basename dirname realpath readlink id uname hostname "
    "getconf nproc stat tee setsid timeout find xargs printf rmdir true false kill od sync "
    "df expr"
)
STARTERS = "python python3 torchrun accelerate srun mpirun mpiexec scontrol getent nvidia-smi conda"
FUNCTIONS = {
    "BASH_FUNC_module%%": """() {
    case $1 in load | add) shift ;; is-loaded) [[ :$LOADEDMODULES: == *":$2:"* ]]; return ;; esac
    for word; do export LOADEDMODULES="$LOADEDMODULES:$word"; done
}""",
    "BASH_FUNC_ml%%": '() { module "$@"; }',
    "BASH_FUNC_conda%%": '() { if [ "$1" = activate ]; then export ORACLE_CONDA="$2"; fi; }',
}


def make_path(folder: Path, more: str = "") -> Path:
    """Return a folder of stand-ins, also for `more`, and of the tools that a script may use."""
    path = folder / "bin"
    path.mkdir()
    for name in TOOLS.split(" "):
        if found := shutil.which(name):
            (path / name).symlink_to(found)
    for name in (*STARTERS.split(), *more.split()):
        (path / name).write_text(f"#!{sys.executable} -IS\n{STAND_IN.read_text()}")
        (path / name).chmod(0o755)
    return path


def make_environment(script: Script, path: Path, record: Path, code: int) -> dict[str, str]:
    """Return what Slurm and the stand-ins tell a job."""
    home = record.parent / "home"
    home.mkdir(exist_ok=True)
    return {
        **FUNCTIONS,
        **script.given,
        "PATH": str(path),
        "HOME": str(home),
        "USER": "me",
        "SCRATCH": "/scratch/me",
        "SLURM_JOB_ID": "4711",
        "SLURM_JOB_NODELIST": f"n[1-{script.given.get('SLURM_NNODES', '1')}]",
        "SLURM_SUBMIT_DIR": str(record.parent / "work"),
        "SLURM_CPUS_ON_NODE": "8",
        "SLURM_JOB_CPUS_PER_NODE": "8",
        "ORACLE_RECORD": str(record),
        "ORACLE_CODE": str(code),
    }


def run(command: list[str], folder: Path, environment: dict[str, str]) -> tuple[int, list[Any]]:
    """Run a job; return its exit code and what its programs saw, in the order of their ranks."""
    return run_and_read(command, folder, environment)[:2]


def run_and_read(
    command: list[str], folder: Path, environment: dict[str, str]
) -> tuple[int, list[Any], str]:
    """Run a job as `run` does; return what it printed, too."""
    record = Path(environment["ORACLE_RECORD"])
    record.write_text("")
    ended = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60
    )
    lines = map(ast.literal_eval, record.read_text().splitlines())
    # jobgen's log says which Python runs an agent.
    seen = [line for line in lines if line["argv"][1:] != ["-V"]]
    return ended.returncode, sorted(seen, key=json.dumps), ended.stderr + ended.stdout


def check_bash(imported: Any) -> None:
    """Every text that import writes for bash can be read by it."""
    environment = yaml.safe_load(imported.yaml).get("environment", {})
    for text in (imported.body, environment.get("setup", "")):
        ended = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True)
        assert not ended.stderr, ended.stderr


def _drop_own_values(text: str, theirs: list[Any], ours: list[Any]) -> None:
    """Leave out what a plain variable of the script is beside in the imported job: exported."""
    plain = set(re.findall(r"(?m)(?:^|[;{)] *|let )(\w+)\+?=", text))
    plain |= {*" ".join(re.findall(r"\bread -r ([\w ]+)", text)).split()}
    exported = {name for line in theirs for name in line["env"]}
    for line in ours:
        line["env"] = {
            name: value
            for name, value in line["env"].items()
            if name in exported or name not in plain
        }


def compare(text: str, folder: Path, *, code: int = 0) -> tuple[str, Any, Any]:
    """Return clean or body, and what the script and the imported job have done."""
    path, work = make_path(folder), folder / "work"
    work.mkdir()
    for name in ("train.py", "prep.py", "my data.txt", "a.npy", "b.npy", "worker.sh"):
        (work / name).write_text("python inner.py\n" if name.endswith(".sh") else "")
    (work / "old.sbatch").write_text(text)
    script = Script("old.sbatch", text)
    imported = import_script(script)
    check_bash(imported)
    environment = make_environment(script, path, folder / "record", code)
    shell = text.partition("\n")[0].removeprefix("#!").split() or ["/bin/bash"]
    theirs = run([*shell, "old.sbatch"], work, environment)
    for made in ("out", "log.txt"):
        target = work / made
        if target.is_dir():
            shutil.rmtree(target)
        target.unlink(missing_ok=True)
    if imported.body:
        (work / imported.body_file).write_text(imported.body)
    (work / "job.yaml").write_text(imported.yaml)
    before = os.getcwd()
    os.chdir(work)
    try:
        rendered = render(resolve(load("job.yaml")))
    finally:
        os.chdir(before)
    (work / "job.sbatch").write_text(rendered)
    given = Script("job.sbatch", rendered).given
    # What the directives of the imported job tell its programs may have another form.
    ours = run(["bash", "job.sbatch"], work, {**environment, **given})
    _drop_own_values(text, theirs[1], ours[1])
    return "body" if imported.body else "clean", theirs, ours
