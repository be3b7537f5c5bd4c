"""Whether an imported job starts what the script started, over public scripts: bash is the judge.

python benchmarks/sandbox.py FOLDER [N]    # N: of how many scripts; FOLDER as for corpus.py

Each script runs once, and so does the job of a clean spec that import makes of it, with stand-ins
for every program (tests/helpers/oracle.py). The words and folders of all processes are compared.
Other people's scripts run in namespaces of their own alone: without a network, without any other
process, and in a root that is in memory, where /usr and this clone can only be read.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers"), str(ROOT / "benchmarks")]

import oracle
from corpus import read_facts, read_script

from jobgen.batchscript.convert import import_script
from jobgen.batchscript.reader import Script
from jobgen.errors import JobgenError
from jobgen.plan.resolve import resolve
from jobgen.rendering.render import render
from jobgen.spec.load import load

# What makes the root: the mounts of `unshare --mount` are this process's own.
BOX = """
set -e
mount -t tmpfs none "$BOX" && cd "$BOX"
mkdir -p usr proc dev etc tmp root home texts ".$ROOT"
for folder in /usr "$ROOT" "$PREFIX" "$BASE"; do
    mkdir -p ".$folder"
    mount --rbind "$folder" ".$folder"
    mount -o remount,bind,ro ".$folder"
done
mount --bind "$TEXTS" texts
for name in bin sbin lib lib64; do [ -e "/$name" ] && ln -s "usr/$name" "$name"; done
cp -r /etc/passwd /etc/group /etc/alternatives etc
for name in null zero urandom; do touch "dev/$name" && mount --bind "/dev/$name" "dev/$name"; done
ln -s /proc/self/fd dev/fd
mount -t proc proc proc
exec chroot . /usr/bin/env -i PATH=/usr/bin:/bin HOME=/home PYTHONDONTWRITEBYTECODE=1 "$@"
"""
# What a script finds on its cluster, and not here: folders, files to source, programs.
FOUND = {
    "BASH_FUNC_cd%%": '() { [[ ! $1 || $1 == - ]] || mkdir -p -- "$1"; builtin cd "$@"; }',
    "BASH_FUNC_source%%": """() {
    if [[ $1 == activate ]]; then conda activate "$2"; return; fi
    if [[ ! -e $1 ]]; then
        mkdir -p -- "$(dirname -- "$1")" && : > "$1"
        if [[ $1 == */activate ]]; then echo "VIRTUAL_ENV=$(realpath "${1%/bin/*}")" > "$1"; fi
    fi
    builtin source "$@"
}""",
    "BASH_FUNC_.%%": '() { source "$@"; }',
    "BASH_FUNC_command_not_found_handle%%": '() { "$PYTHON" -IS "$STAND_IN" "$@"; }',
    "PYTHON": sys.executable,
    "STAND_IN": str(oracle.STAND_IN),
}
SET = """
LD_LIBRARY_PATH LOADEDMODULES PYTHONPATH SLURM_TMPDIR SLURM_JOB_ACCOUNT SLURM_JOB_PARTITION
PBS_NCPUS PBS_NGPUS PBS_JOBFS PBS_QUEUE CUDA_VISIBLE_DEVICES HOSTNAME WORK LUSTRE
"""
NOT_HERE = r"no such file in (\S+): (\S+)"
MORE = "pbsdsh deepspeed pip git wget curl singularity apptainer sbatch qsub ssh rsync tar unzip"
VERDICTS = ("refused", "kept", "same", "starts nothing", "differs, and says so")
IDLE = "ip ss ps top killall pkill lscpu lspci printenv which taskset free squeue"


def read_texts(folder: Path, rows: list[dict[str, str]]) -> Iterator[tuple[str, bytes]]:
    """Yield the scripts that the folder has: where each is, and its text."""
    for row in rows:
        if (text := read_script(row, folder)) is not None:
            yield f"{row['repository']}/{row['path']}", text


def surround(script: Script, folder: Path) -> dict[str, str]:
    """Return the environment of a job of either scheduler; of an array, that of its first task."""
    given = oracle.make_environment(script, folder / "bin", folder / "record", 0)
    first = re.match("[0-9]+", script.value("--array") or script.value("-J") or "")
    if script.scheduler == "pbs":
        nodes = folder / "nodes"
        lines = [f"n{index + 1}\n" * script.request.tasks for index in range(script.request.nodes)]
        nodes.write_text("".join(lines))
        given |= {"PBS_JOBID": "4711.s", "PBS_NODEFILE": str(nodes), "PBS_ENVIRONMENT": "PBS_BATCH"}
        given |= {"PBS_O_WORKDIR": str(folder / "work"), "PBS_JOBNAME": "job"}
    number = {"pbs": "PBS_ARRAY_INDEX"}.get(script.scheduler or "", "SLURM_ARRAY_TASK_ID")
    return (
        dict.fromkeys(SET.split(), "x")
        | FOUND
        | given
        | ({number: first[0], "SLURM_ARRAY_JOB_ID": "1"} if first else {})
    )


def stand_in(name: str, folder: Path) -> bool:
    """Put a stand-in where a job wants a file; whether there was none."""
    path = folder / os.path.expanduser(name)
    if path.exists():
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to("/home/job/bin/sbatch")
    return True


def start(command: list[str], script: Script, folder: Path) -> Counter[str]:
    """Run a job until it finds all files that it names; return its programs' words and folders."""
    environment = surround(script, folder)
    where = folder / ("home" if script.starts_at_home else "work")
    for _ in range(6):
        _, seen, printed = oracle.run_and_read(command, where, environment)
        wanted = re.findall(r": ([^\s:]+): No such file", printed)
        wanted += [os.path.join(*pair) for pair in re.findall(NOT_HERE, printed)]
        folders = re.findall(r"no folder of modules on \S+: (\S+)", printed)
        for path in folders:
            os.makedirs(path, exist_ok=True)
        made = [stand_in(path, folder / "work") for path in wanted]
        if not folders and not any(made):
            break
    words = (_simplify(line["argv"]) for line in seen)
    places = (line["cwd"] for line in seen)
    pairs = zip(words, places, strict=True)
    return Counter(json.dumps(pair) for pair in pairs if pair[0][1:] != ["--version"])


def _simplify(argv: list[str]) -> list[str]:
    """Return words without the program's folder, and without line ends that a shell reads."""
    name, *words = argv
    return [name.rpartition("/")[2], *(re.sub(r"[\\;\s]+", " ", word).strip() for word in words)]


def compare(name: str, text: str, folder: Path) -> str:
    """Return what became of a script, and of the processes of a clean spec."""
    script = Script(name, text)
    try:
        imported = import_script(script)
    except JobgenError:
        return "refused"
    if imported.body:
        return "kept"
    (folder / "work").mkdir(parents=True)
    path = oracle.make_path(folder, MORE)
    for idle in IDLE.split():
        (path / idle).symlink_to("/bin/true")
    os.chdir(folder / "work")
    Path(name).write_text(text, errors="surrogateescape")
    theirs = start(["/bin/bash", str(folder / "work" / name)], script, folder)
    for words, _ in map(json.loads, theirs):  # programs that are on no PATH here
        stand_in(words[0].rpartition("/")[2], path)
    Path("job.yaml").write_text(imported.yaml)
    rendered = render(resolve(load("job.yaml")))
    Path("job.script").write_text(rendered)
    ours = start(
        ["/bin/bash", str(folder / "work" / "job.script")], Script("job.script", rendered), folder
    )
    if ours == theirs:
        return "same" if theirs else "starts nothing"
    said = any(left.kind != "kept" for left in imported.left)
    return (
        "differs, and says so"
        if said
        else f"differs: {[*(theirs - ours)][:1]} {[*(ours - theirs)][:1]}"
    )


def compare_in_box(name: str, text: bytes) -> str:
    """Compare in namespaces of their own, and return the verdict."""
    with TemporaryDirectory() as box, TemporaryDirectory() as folder:
        Path(folder, name).write_bytes(text)
        own = {"BOX": box, "TEXTS": folder, "ROOT": str(ROOT), "PREFIX": sys.prefix}
        own["BASE"] = sys.base_prefix
        command = ["unshare", "-Urmnpi", "--fork", "--kill-child", "bash", "-c", BOX, "bash"]
        command += [sys.executable, __file__]
        ran = subprocess.run(command, env=os.environ | own, capture_output=True, text=True)
    return ran.stdout.strip() or f"failed: {ran.stderr.strip()[-60:]}"


def main() -> None:
    """Compare the scripts, and print how many jobs start the same."""
    rows = read_facts()
    random.Random(0).shuffle(rows)
    most = int(sys.argv[2]) if sys.argv[2:] else len(rows)
    counts: Counter[str] = Counter()
    for place, text in islice(read_texts(Path(sys.argv[1]), rows), most):
        verdict = compare_in_box(Path(place).name, text)
        counts[verdict.partition(":")[0]] += 1
        if verdict not in VERDICTS:
            print(f"{place}: {verdict}", flush=True)
    print(", ".join(f"{number} {verdict}" for verdict, number in counts.most_common()))


if __name__ == "__main__":
    if sys.argv[1:]:
        main()
    else:
        (given,) = Path("/texts").iterdir()
        script = given.read_bytes().decode("utf-8-sig", "surrogateescape")
        print(compare(given.name, script, Path("/home/job")))
