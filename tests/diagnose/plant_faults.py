"""Plant faults in real jobs and keep what they leave: `python plant_faults.py [NAME...]`.

They run on a real Slurm, on the emulated PBS and on this machine, and are kept in `faults/` with
the cause that `jobgen diagnose` should name. Needs root and torch, and takes about half an hour for
all; NAME is a part of a fault's name.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))
sys.path.insert(0, str(Path(__file__).parent / "planted"))

import cluster_fixtures as clusters
import program
from fault_archive import PROGRAM, write_fault
from jobs import Job, jobgen, submit
from support import ROOT

AT_ONCE = 3


class Place(NamedTuple):
    """Where a fault is planted: the cluster (None: this machine) and the job's folder."""

    cluster: Any
    scheduler: str
    folder: Path

    @property
    def env(self) -> dict[str, str]:
        return dict(self.cluster.env if self.cluster else os.environ)

    def on(self, node: str, *command: str) -> None:
        """Run a command on a node; it may fail."""
        script = self.cluster.scripts / f"{self.cluster.kind}-on"
        clusters.run([str(script), node, *command], env=self.cluster.script_env, check=False)

    def state(self, job: Job) -> dict[str, Any]:
        done = jobgen("status", job.id, "--json", env=self.env, cwd=self.folder)
        return dict(json.loads(done.stdout)["jobs"][0])


Act = Callable[[Place, Job], None]


class Planted(NamedTuple):
    """A fault: the program's own, on some ranks; changes of the spec; or what a job suffers."""

    name: str
    about: str
    cause: str
    node: str = ""
    rank: str = ""
    fault: str = ""
    ranks: str = ""
    modes: tuple[str, ...] = ("slurm", "pbs-direct")
    changes: Mapping[str, Any] = MappingProxyType({})
    args: Mapping[str, Any] = MappingProxyType({})
    prepare: Callable[[Place], None] | None = None
    act: Act | None = None
    state: str = ""  # of the job when it is diagnosed; else its end
    alone: bool = False  # nothing else may run on the cluster
    seconds: float = 240
    program: Path = PROGRAM
    says: str = ""  # a pattern that the diagnosis must show


def plant(words: str, modes: str = "slurm pbs-direct", **more: Any) -> Planted:
    """A fault by the words of its record up to `ranks`, with bars between, and its modes."""
    return Planted(*words.split("|"), modes=tuple(modes.split()), **more)


def spec(fault: Planted, mode: str) -> dict[str, Any]:
    """Two nodes with two processes each, but for what the fault changes."""
    args = {"fault": fault.fault, "ranks": fault.ranks, **fault.args}
    launch: dict[str, Any] = {"processes_per_node": 2}
    if mode.endswith("direct"):
        launch["mode"] = "direct"
    base: dict[str, Any] = {
        "name": "train",
        "resources": {"nodes": 2, "cpus_per_node": 2, "walltime": "10m"},
        "launch": launch,
        "environment": {"venv": sys.prefix},
        "run": {"script": "train.py", "args": {k: v for k, v in args.items() if v != ""}},
    }
    for key, value in fault.changes.items():
        base[key] = {**base[key], **value} if isinstance(base.get(key), dict) else value
    if fault.program != PROGRAM:
        base["run"]["args"] = [fault.fault]
    if "command" in base["run"]:
        base["run"] = {"command": base["run"]["command"]}
    if "roles" in base:
        del base["run"], base["launch"]
    return base


# --- what is done to a job or its nodes ---------------------------------------------------------


def wait_for_steps(place: Place, job: Job) -> None:
    """Return when training goes on."""
    job.wait_for(
        lambda: any("step 1" in p.read_text() for p in job.run_dir.glob("logs/*/rank-*.out")), 200
    )


def cancel(place: Place, job: Job) -> None:
    wait_for_steps(place, job)
    jobgen("cancel", job.id, env=place.env, cwd=place.folder)


def cancel_waiting(place: Place, job: Job) -> None:
    time.sleep(2)
    jobgen("cancel", job.id, env=place.env, cwd=place.folder)


def power_off_second(place: Place, job: Job) -> None:
    wait_for_steps(place, job)
    place.cluster.fail(nodes_of(job)[1])


def unplug_second(place: Place, job: Job) -> None:
    wait_for_steps(place, job)
    place.cluster.fail(nodes_of(job)[1], link_only=True)


def kill_all_of_second(place: Place, job: Job) -> None:
    """As where a node's system ends all of a job: sockets are closed, no script says a word."""
    wait_for_steps(place, job)
    run_id = job.run_dir.name
    kill = (
        "for d in /proc/[0-9]*; do tr '\\0' '\\n' <$d/environ 2>/dev/null |"
        f" grep -qx 'JOBGEN_JOB_ID={run_id}' && kill -KILL ${{d#/proc/}}; done"
    )
    place.on(nodes_of(job)[1], "bash", "-c", f"{kill}; {kill}")


def kill_agent(place: Place, job: Job) -> None:
    wait_for_steps(place, job)
    place.on(nodes_of(job)[1], "pkill", "-KILL", "-f", "torch.distributed.run")


def preempt(place: Place, job: Job) -> None:
    """A job of a partition with more right to the nodes."""
    wait_for_steps(place, job)
    options = ["--partition=main", "--nodes=3", "--exclusive", "--wrap", "sleep 15"]
    place.cluster.run("sbatch", "--output=/dev/null", *options)


def hide_of_second(option: str) -> Callable[[Place], None]:
    """What n2 has not: the project's folder, or the right to write there."""

    def prepare(place: Place) -> None:
        if option == "empty":
            place.on("n2", "mount", "-t", "tmpfs", "tmpfs", str(place.folder))
        else:
            place.on("n2", "mount", "--bind", str(place.folder), str(place.folder))
            place.on("n2", "mount", "-o", "remount,bind,ro", str(place.folder))

    return prepare


def cover_spool(place: Place) -> None:
    """slurmd of n2 loses its files, and cannot start a step."""
    place.on("n2", "mount", "-t", "tmpfs", "none", "/tmp")


def suspend(place: Place, job: Job) -> None:
    wait_for_steps(place, job)
    place.cluster.run("scontrol", "suspend", job.id)
    time.sleep(5)


def requeue_and_hold(place: Place, job: Job) -> None:
    wait_for_steps(place, job)
    place.cluster.run("scontrol", "requeuehold", job.id)
    time.sleep(15)


def run_until_steps(place: Place, job: Job) -> None:
    wait_for_steps(place, job)


def wait_a_bit(place: Place, job: Job) -> None:
    time.sleep(4)


def nodes_of(job: Job) -> list[str]:
    attempts = sorted(job.run_dir.glob("attempts/*/nodes"))
    return attempts[-1].read_text().split()


# --- what is there before the job -----------------------------------------------------------------


def mount_full(place: Place) -> None:
    """A file system that is almost full, on every node."""
    (place.folder / "full").mkdir()
    if place.cluster:
        for node in place.cluster.nodes:
            place.on(
                node, "mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", f"{place.folder}/full"
            )


def put_beside(name: str, text: str) -> Callable[[Place], None]:
    """A file beside the spec, that n2 does not have."""

    def prepare(place: Place) -> None:
        shared = place.folder / "shared"
        shared.mkdir()
        (shared / name).write_text(text)
        place.on("n2", "mount", "-t", "tmpfs", "tmpfs", str(shared))

    return prepare


def hide_environment(place: Place) -> None:
    """A virtual environment that n2 does not have, and one without torch."""
    venv = place.folder / "venv"
    clusters.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], env=place.env)
    if place.folder.name.startswith("venv-of-one-node"):
        packages = next(Path(sys.prefix).glob("lib/python*/site-packages"))
        own = next(venv.glob("lib/python*/site-packages"))
        for path in packages.glob("*.pth"):
            (own / path.name).write_text(path.read_text())
        (own / "own.pth").write_text(f"{packages}\n")
        place.on("n2", "mount", "-t", "tmpfs", "tmpfs", str(venv))


def fail_first(place: Place) -> None:
    """A job that has failed, and the one to come waits for it."""
    content = {
        "name": "first",
        "resources": {"nodes": 1, "cpus_per_node": 1, "walltime": "5m"},
        "environment": {"venv": sys.prefix},
        "run": {"command": ["bash", "-c", "sleep 12; exit 5"]},
    }
    first = submit(content, scheduler=place.scheduler, cwd=place.folder, env=place.env)
    (place.folder / "first").write_text(first.id)


SHORT = {"resources": {"walltime": "2m"}}
N2 = "n2"

FAULTS = [
    # The program.
    plant(
        "raise|the last rank raises|exception|n2|3|raise|3",
        "slurm slurm-direct pbs pbs-direct local",
    ),
    plant("raise-first|rank 0 raises|exception|n1|0|raise|0"),
    plant(
        "raise-beside-a-message|rank 2 raises; the others wrap what they meet into a ValueError"
        "|exception|n2|2|nested|2",
        "slurm pbs",
    ),
    plant("shape|tensors that do not go together|exception|n1|1|shape|1"),
    plant("assert|an assertion|exception|n2|2|assert|2", "local-direct"),
    plant(
        "harmless-warnings|warnings of a lost connection, of memory and of a full disk, and"
        " then a TypeError|exception|n2|2|sure-of-itself|2",
        "slurm-direct pbs",
    ),
    plant("worker|a worker of the data loader raises|exception|n2|3|worker|3", "slurm local"),
    plant("segv|a forbidden memory access|exit -11|n1|1|segv|1"),
    plant("abort|a library aborts|exit -6|n2|2|abort|2", "pbs slurm-direct"),
    plant("kill|a process is killed|exit -9|n2|3|kill|3", "pbs slurm-direct local"),
    plant("exit-7|a process leaves with 7 and says nothing|exit 7|n2|2|exit-7|2"),
    plant("sys-exit-3|a process leaves with 3|exit 3|n2|3|sys-exit-3|3", "slurm-direct pbs"),
    plant("message|a process leaves with a message|exit 1|n2|2|message|2", "slurm local-direct"),
    plant(
        "leave|a rank leaves with 0 in mid-training|left-early|n1|0|leave|0",
        "slurm slurm-direct pbs local",
        args={"steps": 40},
    ),
    plant(
        "leave-at-once|a rank leaves with 0 in mid-training, at once"
        "|left-early|n2|3|leave-at-once|3",
        "pbs-direct slurm",
        args={"steps": 40},
    ),
    plant(
        "skip|a rank takes part in another collective|collective-timeout|n2?|2?|skip|2",
        args={"timeout": 15},
    ),
    plant(
        "hang-and-time-out|a rank hangs, the others time out"
        "|collective-timeout|n2?|2?|hang-and-time-out|2",
        "pbs slurm-direct",
        args={"timeout": 15},
    ),
    plant(
        "hang-to-the-walltime|a rank hangs until the walltime|hang|||hang|2",
        args={"timeout": 1000},
        changes={"resources": {"walltime": "3m"}},
        seconds=400,
    ),
    plant("nan|the loss is no number|not-a-number|n1|0|nan|0"),
    plant("argument|an argument that the program does not know|bad-argument", args={"stepz": 3}),
    # Files and packages.
    plant("package|a package that nobody has|import|||package|0,1,2,3", "slurm local"),
    plant(
        "module-of-one-node|a module that n2 does not have|import|n2||module-of-one-node|0,1,2,3",
        args={"folder": "shared"},
        prepare=put_beside("planted_module.py", ""),
    ),
    plant("file|a file that is not there|file-missing|n1|1|file|1", "slurm-direct pbs"),
    plant(
        "file-of-one-node|a file that n2 does not have|file-missing|n2||file-of-one-node|0,1,2,3",
        "slurm pbs",
        args={"folder": "shared"},
        prepare=put_beside("tokens.bin", "1"),
    ),
    plant(
        "save|torch.save on a full file system|no-space|n2|2|save|2",
        args={"folder": "."},
        prepare=mount_full,
    ),
    plant(
        "write|a write to a full file system|no-space|n1|1|write|1",
        "slurm-direct pbs",
        args={"folder": "."},
        prepare=mount_full,
    ),
    plant(
        "damaged|a checkpoint cut short|damaged-file|n2|2|damaged|2",
        "slurm local",
        args={"folder": "."},
    ),
    plant(
        "state-dict|a checkpoint of another model|shape-mismatch|n1|0|state-dict|0",
        "slurm-direct local",
    ),
    plant("read-only|a file that may not be written|permission|n2|2|read-only|2", "pbs"),
    plant(
        "files|too many open files|too-many-files|n2|2|files|2",
        changes={"environment": {"setup": "ulimit -n 512"}},
    ),
    plant("lookup|a name that no server knows|name-resolution|n2|2|lookup|2"),
    plant("internet|a download without internet|no-internet|n1|0|internet|0", "slurm pbs"),
    plant(
        "port-of-its-own|each rank opens the same port|port-in-use|||port-of-its-own|0,1,2,3",
        "pbs-direct slurm",
    ),
    # Memory and devices.
    plant(
        "memory|a process is refused memory|out-of-memory-host|n2|2|memory|2", "slurm-direct pbs"
    ),
    plant(
        "cuda-device|a torch for CPUs is given a GPU|gpu-missing|||cuda-device|0,1,2,3", "slurm pbs"
    ),
    plant(
        "cuda-tensor|a torch for CPUs is given a GPU|gpu-missing|||cuda-tensor|0,1,2,3",
        "slurm-direct",
    ),
    plant(
        "accelerator|a torch for CPUs is asked for its accelerator"
        "|gpu-missing|||accelerator|0,1,2,3",
        "pbs slurm",
    ),
    # The environment.
    plant(
        "setup|a command of setup fails on n2|setup|n2",
        changes={"environment": {"setup": "[[ $(uname -n) != n2 ]] || source /opt/site/nccl.sh"}},
    ),
    plant(
        "venv-of-one-node|a virtual environment that n2 does not have|environment-missing|n2",
        prepare=hide_environment,
        changes={"environment": {"venv": "venv"}},
    ),
    plant(
        "no-torch|a virtual environment without torch|environment-missing",
        "slurm slurm-direct pbs",
        prepare=hide_environment,
        changes={"environment": {"venv": "venv"}},
    ),
    plant(
        "no-command|a command that is not there|command-missing",
        changes={"run": {"command": ["trainit", "--steps", "3"]}},
    ),
    plant(
        "module|a module that cannot be loaded|module-missing",
        changes={"environment": {"modules": ["cuda/99.9"]}},
    ),
    plant(
        "preflight|a node without the GPUs that were asked for|gpu-missing||-",
        changes={
            "preflight": True,
            "resources": {"gpus_per_node": 1, "cpus_per_gpu": 2, "cpus_per_node": None},
            "launch": {"processes_per_node": 1},
        },
    ),
    # The scheduler, and the nodes.
    plant("cancel|the job is cancelled|cancelled|-|-", act=cancel, args={"steps": 2000}),
    plant(
        "walltime|the walltime is over|walltime|-|-",
        "slurm-direct pbs",
        args={"steps": 4000},
        changes=SHORT,
        seconds=300,
    ),
    plant(
        "held|the job is held|held|-|-",
        changes={"directives": ["#{} {}"]},
        act=wait_a_bit,
        state="queued",
    ),
    plant(
        "cancel-held|a held job is cancelled|cancelled|-|-",
        changes={"directives": ["#{} {}"]},
        act=cancel_waiting,
    ),
    plant("healthy|it ends well|healthy|-|-"),
    plant(
        "running|it runs|healthy|-|-", args={"steps": 4000}, act=run_until_steps, state="running"
    ),
    plant(
        "dependency|the job before it has failed|dependency|-|-",
        prepare=fail_first,
        changes={"after": ["FIRST"]},
        act=wait_a_bit,
        seconds=90,
    ),
    plant(
        "no-progress|a chain whose first start saves nothing|chain-ended|-|-",
        args={"steps": 4000},
        changes={
            "resources": {"walltime": "90s"},
            "on_walltime": {"notice": "30s", "then": "resubmit", "at_most": 3},
        },
        seconds=400,
    ),
    plant(
        "array|a task of an array fails|exit 5",
        "slurm pbs",
        changes={
            "array": {"list": [{"code": 0}, {"code": 5}]},
            "resources": {"nodes": 1},
            "launch": {"processes_per_node": 1},
            "run": {"command": ["bash", "-c", 'echo "code is $2"; exit ${2#--code=}', "task"]},
        },
    ),
    plant(
        "suspended|the job is suspended|suspended|-|-",
        "slurm",
        args={"steps": 4000},
        act=suspend,
        state="*",
        alone=True,
    ),
    plant(
        "requeue-hold|the job is put back and held|held|-|-",
        "slurm",
        args={"steps": 4000},
        act=requeue_and_hold,
        state="*",
    ),
    plant(
        "agent-killed|the agent of n2 is killed|killed|n2|-",
        "slurm pbs",
        args={"steps": 2000},
        act=kill_agent,
        alone=True,
    ),
    plant(
        "node-killed|all of the job on n2 is killed, its sockets are closed"
        "|node-lost or killed or exit -9|n2|-",
        "slurm pbs pbs-direct",
        args={"steps": 2000},
        act=kill_all_of_second,
        alone=True,
    ),
    plant(
        "node-off|n2 loses its power|node-lost|n2|-",
        "slurm pbs",
        args={"steps": 4000},
        act=power_off_second,
        alone=True,
        seconds=400,
    ),
    plant(
        "node-unplugged|n2 loses its network|node-lost|n2|-",
        "pbs-direct slurm",
        args={"steps": 4000},
        act=unplug_second,
        alone=True,
        seconds=400,
    ),
]


def take_kinds() -> list[Planted]:
    """The programs of each kind in `planted/`, which know what is true of them."""
    faults = []
    for path in sorted(PROGRAM.parent.glob("*.py")):
        if path == PROGRAM:
            continue
        program.PLANTED.clear()
        importlib.import_module(path.stem)
        faults += [
            Planted(
                name,
                name.replace("-", " "),
                truth.causes,
                rank="" if truth.any_rank else truth.ranks,
                fault=name,
                modes=(truth.mode,),
                changes=truth.changes,
                prepare=write_commands if "run" in truth.changes else None,
                program=path,
                says=truth.says,
            )
            for name, truth in program.PLANTED.items()
        ]
    return faults


def write_commands(place: Place) -> None:
    """Programs that cannot be started."""
    (place.folder / "train.sh").write_text("#!/bin/bash\necho never\n")
    (place.folder / "crlf.sh").write_bytes(b"#!/bin/bash\r\necho never\r\n")
    (place.folder / "crlf.sh").chmod(0o755)


def serve(command: str) -> dict[str, Any]:
    """A server as a role of one node."""
    run = {"command": ["bash", "-c", f"echo ready; {command}"]}
    return {"nodes": 1, "run": run, "ready": {"log": "ready", "within": "1m"}}


UNKNOWN_ANSWER = """
import json
for _ in range(3): print("asked", flush=True)
json.loads('{"error": {"code": 400}}')["choices"]
"""
KILLED_SERVER = """
import os, socket, time
server = socket.create_server(("", int(os.environ["SERVER_PORT"])))
link = server.accept()[0]
time.sleep(4)
os.kill(os.getpid(), 9)
"""
ASKING = """
import os, socket, time
time.sleep(3)
link = socket.create_connection((os.environ["SERVER_ADDR"], int(os.environ["SERVER_PORT"])))
if not link.recv(1):
    raise ConnectionResetError(104, "Connection reset by peer")
"""
ODD_SEEDS = """
import sys
seed = int(sys.argv[-1].removeprefix("--seed="))
if seed % 2:
    raise ValueError(f"seed {seed} has no split")
"""
CUT_CHECKPOINT = """
import os, pathlib, pickle, time
folder = pathlib.Path(os.environ["JOBGEN_RUN_DIR"])
saved = folder / "checkpoints" / "last.pkl"
if saved.exists():
    pickle.loads(saved.read_bytes())
while not (folder / "STOP").exists():
    time.sleep(0.5)
saved.parent.mkdir(exist_ok=True)
saved.touch()
time.sleep(600)
"""
LOW = {"queue": "low"}
ALL_NODES = {"resources": {"nodes": 3}}
FAULTS += [
    # What a scheduler does, as others have met it.
    plant(
        "preempted|a job with more right takes its nodes|preempted|-|-",
        "slurm slurm-direct",
        args={"steps": 4000},
        changes=LOW,
        act=preempt,
        alone=True,
        says="[Pp]reempt",
    ),
    plant(
        "node-off-requeued|n2 loses its power, and Slurm puts the job back|node-lost|n2|-",
        "slurm-direct",
        args={"steps": 4000},
        changes=ALL_NODES,
        act=power_off_second,
        state="queued",
        alone=True,
        seconds=200,
        says="start 1",
    ),
    plant(
        "task-launch|slurmd of n2 cannot start a step|launch-failed|n2|-",
        "slurm slurm-direct",
        prepare=cover_spool,
        changes=ALL_NODES,
        alone=True,
        says="Task launch",
    ),
    plant(
        "project-missing|n2 does not mount the project's folder|run-folder or launch-failed|n2?|-",
        "pbs slurm",
        prepare=hide_of_second("empty"),
        changes=ALL_NODES,
        alone=True,
    ),
    plant(
        "project-read-only|n2 may not write to the project's folder|run-folder|n2?|-",
        "pbs pbs-direct slurm",
        prepare=hide_of_second("read-only"),
        changes=ALL_NODES,
        alone=True,
        says="Read-only",
    ),
    plant(
        "array-two|two tasks of an array fail|exit 5",
        "slurm",
        changes={
            "array": {"list": [{"code": 5}, {"code": 0}, {"code": 6}]},
            "resources": {"nodes": 1},
            "launch": {"processes_per_node": 1},
            "run": {"command": ["bash", "-c", 'echo "code is $2"; exit ${2#--code=}', "task"]},
        },
        says=r"task 2: rank 0 on n\d: it left with exit code 6",
    ),
    # Jobs of several programs, of several tasks on a node, and of several starts.
    plant(
        "role-server-fails|a server ends while another role trains|exit 3|n1",
        changes={
            "roles": {
                "server": serve("sleep 6; echo 'index.bin: cannot be read' >&2; exit 3"),
                "train": {"nodes": 1, "run": {"command": ["sleep", "60"]}},
            }
        },
        says="cannot be read",
    ),
    plant(
        "role-trainer-raises|a trainer gets an answer of its server that it does not know"
        "|exception|n2",
        changes={
            "roles": {
                "server": serve("sleep 100"),
                "train": {"nodes": 1, "run": {"command": ["python", "-c", UNKNOWN_ANSWER]}},
            }
        },
        says="KeyError.*choices|'choices'",
    ),
    plant(
        "role-server-killed|a server is killed, and what asks it loses its connection"
        "|exit -9 or killed|n1",
        changes={
            "roles": {
                "server": serve("exec python -c '" + KILLED_SERVER + "'"),
                "train": {"nodes": 1, "run": {"command": ["python", "-c", ASKING]}},
            }
        },
        says="SIGKILL",
    ),
    plant(
        "packed|one of two tasks on a node fails|exit 5",
        "slurm pbs",
        changes={
            "array": {"list": [{"code": 0}, {"code": 5}, {"code": 0}, {"code": 0}], "together": 2},
            "resources": {"nodes": 1, "cpus_per_node": 1},
            "launch": {"processes_per_node": 1},
            "run": {"command": ["bash", "-c", 'echo "code is $2"; exit ${2#--code=}', "task"]},
        },
    ),
    plant(
        "packed-raises|two of four tasks on two nodes raise|exception",
        "slurm pbs",
        changes={
            "array": {"values": {"seed": [0, 1, 2, 3]}, "together": 2},
            "resources": {"nodes": 1, "cpus_per_node": 1},
            "launch": {"processes_per_node": 1},
            "run": {"command": ["python", "-c", ODD_SEEDS]},
        },
        says="seed 1 has no split",
    ),
    plant(
        "chain-of-a-cut-checkpoint|the second start of a chain finds what the first has saved"
        " cut short|damaged-file or exception",
        changes={
            "resources": {"nodes": 1, "walltime": "90s"},
            "on_walltime": {"notice": "40s", "then": "resubmit", "at_most": 3},
            "launch": {"processes_per_node": 1},
            "run": {"command": ["python", "-c", CUT_CHECKPOINT]},
        },
        says="Ran out of input|EOFError",
        seconds=400,
    ),
]


# --- what two reviewers met on a real Slurm and a real OpenPBS ----------------------------------


def on_second(*command: str) -> Act:
    """Run a command on n2 while the job trains."""

    def act(place: Place, job: Job) -> None:
        wait_for_steps(place, job)
        place.on(N2, *command)

    return act


def as_operator(*command: str, seconds: float = 0) -> Act:
    """A command of an operator, with the job's id at its end."""

    def act(place: Place, job: Job) -> None:
        wait_for_steps(place, job)
        if place.scheduler == "pbs":
            place.cluster.script("set", "operators=true", "history=true")
        place.cluster.run(*command[:-1], command[-1].format(id=job.id))
        time.sleep(seconds)

    return act


def bring_back_second(place: Place, job: Job) -> None:
    """n2 is off for some seconds, and comes back without the job."""
    place.cluster.script("set", "history=true")
    power_off_second(place, job)
    time.sleep(12)
    place.cluster.heal(N2)


def power_off_first(place: Place, job: Job) -> None:
    wait_for_steps(place, job)
    place.cluster.fail(nodes_of(job)[0])
    time.sleep(20)


def wait_until_idle(place: Place, job: Job) -> None:
    wait_for_steps(place, job)
    time.sleep(110)


def refuse_prolog(place: Place) -> None:
    """A prolog of the site that n2 fails."""
    script = place.cluster.run_folder / "prolog"
    script.write_text("#!/bin/bash\n[[ $(uname -n) != n2 ]]\n")
    script.chmod(0o755)
    conf = place.cluster.run_folder / "etc/slurm/slurm.conf"
    conf.write_text(f"{conf.read_text()}Prolog={script}\nPrologFlags=Alloc\n")
    place.cluster.run("scontrol", "reconfigure")


def put_old_program(place: Place) -> None:
    """n2 has an older train.py."""
    old = place.folder / "old.py"
    old.write_text(PROGRAM.read_text().replace('"--folder"', '"--dir"'))
    place.on(N2, "mount", "--bind", str(old), f"{place.folder}/train.py")


def put_old_python(place: Place) -> None:
    """A venv that is of another Python on n2."""
    venv = place.folder / "venv"
    clusters.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], env=place.env)
    packages = next(Path(sys.prefix).glob("lib/python*/site-packages"))
    own = next(venv.glob("lib/python*/site-packages"))
    for path in packages.glob("*.pth"):
        (own / path.name).write_text(path.read_text())
    (own / "own.pth").write_text(f"{packages}\n")
    old = Path(os.environ["OLD_PYTHON"])
    shutil.copytree(venv, place.folder / "venv-old", symlinks=True)
    for path in (place.folder / "venv-old" / "bin").glob("python*"):
        path.unlink()
        path.symlink_to(old)
    place.on(N2, "mount", "--bind", f"{place.folder}/venv-old/bin", f"{venv}/bin")


def take_ports(place: Place) -> None:
    """All ports that the job may take are taken on n1."""
    hold = (
        "import socket, time\n"
        "kept = [socket.create_server(('', port)) for port in range(20000, 20400)]\n"
        "time.sleep(300)"
    )
    command = f'setsid -f {sys.executable} -c "$0" >/dev/null 2>&1'
    place.on("n1", "bash", "-c", command, hold)


def put_own_mpiexec(place: Place) -> None:
    """An mpiexec of the site's, which is of no known MPI."""
    (place.folder / "bin").mkdir()
    own = place.folder / "bin" / "mpiexec"
    own.write_text("#!/bin/bash\necho 'usage: mpiexec [-n N] program' >&2\nexit 2\n")
    own.chmod(0o755)


def hide_home(place: Place) -> None:
    place.cluster.script("set", 'home="/run/home"')  # /run is each node's own
    for node in ("n1", "n3"):
        place.on(node, "mkdir", "/run/home")


IGNITE = """
import ignite.distributed as idist
def main(local_rank):
    idist.barrier()
    print(idist.get_rank(), idist.get_world_size(), flush=True)
with idist.Parallel(backend="gloo") as parallel:
    parallel.run(main)
"""
LONG = {"steps": 4000}
FAULTS += [
    plant(
        "ignite|a program of PyTorch Ignite, which compares Slurm's ranks with torchrun's"
        "|healthy|-|-",
        "slurm",
        changes={"run": {"command": ["python", "-c", IGNITE]}},
        says="it ended well",
    ),
    plant(
        "agent-hangs-up|the agent of n2 gets a SIGHUP, as when a terminal goes"
        "|exit -1 or killed or exit 1 or exception|n2|-",
        "slurm",
        args=LONG,
        act=on_second("pkill", "-HUP", "-f", "torch.distributed.run"),
        says="SIGHUP|signal: 1",
        alone=True,
    ),
    plant(
        "prolog-fails|the site's prolog fails on n2|launch-failed or not-started|n2|-",
        "slurm",
        prepare=refuse_prolog,
        act=wait_a_bit,
        state="queued",
        says="[Pp]rolog",
        alone=True,
        seconds=60,
    ),
    plant(
        "slow-rank|a rank takes five times as long as the others|healthy|-|-|slow|2",
        "slurm-direct pbs",
        args={"steps": 12},
        says="rank 2 on n2 is slow",
    ),
    plant(
        "slurmd-killed|slurmd of n2 is killed, and Slurm puts the job back|node-lost|n2|-",
        "slurm",
        args=LONG,
        changes=ALL_NODES,
        act=on_second("pkill", "-KILL", "-x", "slurmd"),
        state="queued",
        alone=True,
        seconds=120,
        says="start 1",
    ),
    plant(
        "step-killed|an operator kills the job's step|killed or exit -9 or cancelled|-|-",
        "slurm",
        args=LONG,
        act=as_operator("scancel", "--signal=KILL", "{id}.0"),
        says="SIGKILL|signal 9",
        alone=True,
    ),
    plant(
        "sigterm-ignored|rank 1 raises, and the others ignore SIGTERM"
        "|exception|n1|1|raise-and-stay|1",
        "slurm",
        says="planted on rank 1",
    ),
    plant(
        "old-program-of-one-node|n2 has an older version of the program"
        "|bad-argument or exception|n2",
        "slurm",
        prepare=put_old_program,
        args={"folder": "."},
        says="--folder",
    ),
    plant(
        "ports-taken|the job's ports are taken on its first node|port-in-use or rendezvous|n1?",
        "slurm",
        prepare=take_ports,
        alone=True,
    ),
    plant(
        "requeued|an operator puts the job back, and it ends well|healthy|-|-",
        "slurm",
        args={"steps": 30},
        act=as_operator("scontrol", "requeue", "{id}"),
    ),
    plant(
        "rerun|an operator puts the job back, and it ends well|healthy|-|-",
        "pbs",
        args={"steps": 30},
        act=as_operator("qrerun", "{id}"),
        alone=True,
    ),
    plant(
        "suspended|the job is suspended|suspended|-|-",
        "pbs",
        args=LONG,
        act=as_operator("qsig", "-s", "suspend", "{id}", seconds=5),
        state="*",
        alone=True,
    ),
    plant(
        "deleted-by-force|root deletes the job by force|cancelled|-|-",
        "pbs",
        args=LONG,
        act=as_operator("qdel", "-W", "force", "{id}"),
        alone=True,
    ),
    plant(
        "node-comes-back|n2 is off for some seconds, and PBS ends the job|node-lost|n2|-",
        "pbs",
        args=LONG,
        act=bring_back_second,
        alone=True,
    ),
    plant(
        "first-node-off-requeued|the first node is gone, and PBS puts the job back; no file"
        " tells which it was|node-lost or healthy|n1?|-",
        "pbs",
        args=LONG,
        changes=ALL_NODES,
        act=power_off_first,
        state="queued",
        alone=True,
        seconds=120,
        says="start 1",
    ),
    plant(
        "stopped-and-idle|a rank is stopped, and all others wait; that all nodes are idle,"
        " only they could tell|hang or healthy|||stop|2",
        "pbs",
        args={"timeout": 1000},
        act=wait_until_idle,
        state="running",
        says="quiet for|it runs; it has last written",
        alone=True,
    ),
    plant(
        "clock-ahead|the clock of n2 is an hour ahead, and rank 0 raises|exception|n1|0|raise|0",
        "pbs",
        changes={
            "environment": {
                "setup": "[[ $(uname -n) != n2 ]] || export LD_PRELOAD=$FAKETIME_LIBRARY"
                " FAKETIME=+3600s",
                "variables": {"FAKETIME_LIBRARY": os.environ.get("FAKETIME_LIBRARY", "")},
            }
        },
        says="planted on rank 0",
    ),
    plant(
        "mpiexec-of-the-site|mpiexec is a wrapper of the site|launcher",
        "pbs",
        changes={
            "launch": {"launcher": "mpiexec"},
            "environment": {"setup": "export PATH=$PWD/bin:$PATH"},
        },
        prepare=put_own_mpiexec,
        says="none of Open MPI",
    ),
    plant(
        "python-of-one-node|behind the venv is Python 3.8 on n2|environment-missing or import|n2",
        "pbs slurm",
        prepare=put_old_python,
        changes={"environment": {"venv": "venv"}},
        says=r"3\.8",
    ),
    plant(
        "home-missing|n2 has no home folder; the error has OpenPBS's number, not the emulator's"
        "|run-folder or launch-failed|n2?|-",
        "pbs",
        prepare=hide_home,
        changes=ALL_NODES,
        alone=True,
    ),
]


def content_of(fault: Planted, mode: str, place: Place) -> dict[str, Any]:
    content = spec(fault, mode)
    hold = {"slurm": "#SBATCH --hold", "pbs": "#PBS -h"}.get(place.scheduler)
    if "directives" in content:
        content["directives"] = [hold]
    if content.get("after") == ["FIRST"]:
        content["after"] = [(place.folder / "first").read_text()]
    content["resources"] = {k: v for k, v in content["resources"].items() if v is not None}
    return content


def record(fault: Planted, mode: str, place: Place) -> None:
    """Plant it, wait, and keep what it leaves."""
    place.folder.mkdir(parents=True)
    shutil.copy(fault.program, place.folder / "train.py")
    shutil.copy(program.__file__, place.folder)
    if fault.program.with_suffix(".txt").exists():
        shutil.copy(fault.program.with_suffix(".txt"), place.folder / "train.txt")
    if fault.prepare:
        fault.prepare(place)
    content = content_of(fault, mode, place)
    job = submit(content, scheduler=place.scheduler, cwd=place.folder, env=place.env)
    if fault.act:
        fault.act(place, job)
    end = time.monotonic() + fault.seconds
    ended = {"done", "failed", "cancelled", "timeout", "node lost"}
    wanted = {fault.state} if fault.state else ended
    while (state := place.state(job))["state"] not in wanted and fault.state != "*":
        if fault.name == "dependency" and time.monotonic() > end - 60:
            break
        if time.monotonic() > end:
            raise AssertionError(f"it is {state['state']} ({state['reason']})")
        time.sleep(1)
    now = time.time()
    launched = content.get("launch", {}).get("mode", "torchrun")
    # Two agents on one machine number their processes as they come.
    node = "" if mode == "local" else {"n1": "node0", "n2": "node1"}.get(fault.node, fault.node)
    fields = {
        "planted": f"{fault.about} ({place.scheduler}, {launched})",
        "job": str(job.run_dir.relative_to(place.folder)),
        "cause": fault.cause,
        "node": node if place.scheduler == "local" else fault.node,
        "rank": fault.rank,
        "says": fault.says,
        "state": " / ".join(filter(None, [state["state"], " ".join(state["reason"].split())])),
        "now": f"{now:.3f}",
    }
    home = "/home/ada"
    paths = {
        sys.prefix: f"{home}/venv",
        sys.base_prefix: "/usr",
        str(ROOT): f"{home}/jobgen",
        str(place.folder.parent): "/scratch/ada",
        **{base: f"{home}/venv" for base in extra_prefixes()},
    }
    fields = {key: value for key, value in fields.items() if value}
    write_fault(f"{fault.name}-{mode}", fields, folder=place.folder, paths=paths)
    if fault.state:
        jobgen("cancel", job.id, env=place.env, cwd=place.folder)


def extra_prefixes() -> list[str]:
    """Folders of packages that a .pth file adds: they are this machine's own."""
    import torch

    return [str(Path(torch.__file__).parents[4])]


def main(wanted: list[str]) -> int:
    """Plant all, or those whose names have one of these words in them."""
    todo = [
        (fault, mode)
        for fault in [*FAULTS, *take_kinds()]
        for mode in fault.modes
        if not wanted or any(re.search(word, f"{fault.name}-{mode}") for word in wanted)
    ]
    failed = []
    base = Path(tempfile.mkdtemp(prefix="jobgen-planted-"))
    base.chmod(0o755)
    for scheduler in ("slurm", "pbs", "local"):
        mine = [(fault, mode) for fault, mode in todo if mode.startswith(scheduler)]
        if not mine:
            continue
        folder = base / scheduler
        folder.mkdir()
        kinds: dict[str, Any] = {"slurm": clusters.Slurm, "pbs": clusters.Pbs}
        options = {
            "slurm": ["--loopback-name"],
            "pbs": [
                w
                for p in (base, ROOT, Path(sys.prefix), *extra_prefixes())
                for w in ("--share", str(p))
            ],
        }
        running = (
            clusters.running(kinds[scheduler], options=options[scheduler])
            if scheduler in kinds
            else iter([None])
        )
        cluster = next(running)

        def one(item: tuple[Planted, str]) -> None:
            fault, mode = item
            place = Place(cluster, scheduler, folder / f"{fault.name}-{mode}")  # noqa: B023
            begin = time.monotonic()
            try:
                record(fault, mode, place)
                print(f"{place.folder.name}: {time.monotonic() - begin:.0f} s", flush=True)
            except BaseException:
                failed.append(place.folder.name)
                print(f"{place.folder.name}: FAILED\n{traceback.format_exc()[-1500:]}", flush=True)

        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(one, [item for item in mine if not item[0].alone]))
        for item in mine:
            if item[0].alone:
                one(item)
                if cluster:
                    for node in cluster.nodes:
                        clusters.run(
                            [str(cluster.scripts / f"{cluster.kind}-heal"), node],
                            env=cluster.script_env,
                            check=False,
                        )
                    time.sleep(5)
        list(running)
    print(f"{len(todo) - len(failed)} of {len(todo)} recorded; not: {failed}")
    return bool(failed)


if __name__ == "__main__":
    threading.excepthook = lambda arguments: traceback.print_exception(arguments.exc_value)
    sys.exit(main(sys.argv[1:]))
