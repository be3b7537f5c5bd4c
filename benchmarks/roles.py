"""Does a job of several programs end soon and right, whatever fails?

A server on n1 and what needs it on n2 and n3, on a real Slurm or the emulated PBS of the tests.
Each run has one of twelve faults, at a random moment. A run is right if the job is over 15 s after
its fault was there to be seen (a lost node or the end of the walltime: soon after the scheduler can
tell), with the exit code that it should have and the role and node to blame in its output, and if
no node has a process of it left.

    python benchmarks/roles.py --kind slurm --runs 200 --results slurm.jsonl

goes on where an earlier call has ended; with --runs 0 it only prints the table. Needs root on
Linux, Slurm for --kind slurm, and ray for one of the faults.
"""

import argparse
import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]

from cluster_fixtures import Cluster, Pbs, Slurm
from jobs import BRISK, JOBGEN, PROGRAMS, Job, jobgen, submit

PYTHON = [sys.executable, "-u", str(PROGRAMS / "role.py")]
SERVE, ASK = (
    [*PYTHON, "serve", "$SERVER_PORT"],
    [*PYTHON, "ask", "http://$SERVER_ADDR:$SERVER_PORT/"],
)
MINE = r"role[.]py|ray_world[.]py|raylet|gcs_server|ray::|log_monitor|/attempts/[0-9]+/script"
LISTEN = "import socket, time; s = socket.create_server(('', {port})); time.sleep(60)"
PATIENCE = 300.0


class Fault(NamedTuple):
    """What a run is, and how it must end; `act` returns when the fault was there to be seen."""

    server: list[str]
    train: list[str]
    outcome: str  # a pattern
    said: str  # another
    act: Callable[["Bed", Job], float]
    within: float = 15.0
    more: Mapping[str, Any] = MappingProxyType({})  # of the spec
    roles: Mapping[str, dict[str, Any]] = MappingProxyType({})


class Bed:
    """A cluster, and the number of its last job."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster, self.folder, self.chance, self.last = cluster, folder, random.Random(), 0

    def start(self, fault: Fault, name: str) -> Job:
        """Submit a run."""
        ready = {"http": "/", "within": "60s"}
        roles: dict[str, dict[str, Any]] = {
            "server": {"nodes": 1, "run": {"command": fault.server}, "ready": ready},
            "train": {"nodes": 2, "run": {"command": fault.train}},
        }
        for role, changes in fault.roles.items():
            roles[role] |= changes
        resources = {"nodes": 3, "cpus_per_node": 2, "walltime": "10m"}
        spec = {"name": "roles", "resources": resources, "roles": roles}
        spec["environment"] = {"venv": sys.prefix}
        place = {"scheduler": self.cluster.kind, "cwd": self.folder / name, "env": self.cluster.env}
        command = BRISK if "lost" in fault.said else JOBGEN
        job = submit(spec | dict(fault.more), command=command, **place)
        self.last = int(job.id.partition(".")[0])
        return job

    def wait(self, seen: Callable[[], object]) -> None:
        """Return when it is so, or never will be."""
        end = time.time() + PATIENCE
        while not seen() and time.time() < end:
            time.sleep(0.1)

    def find_left(self) -> list[str]:
        """The processes of jobs on the nodes that are up."""
        return [line for lines in self.cluster.processes(MINE).values() for line in lines]


def printed(role: str, words: str, *, last: bool = False) -> Callable[[Bed, Job], float]:
    """When a process of a role has printed its last words: the first one, or the last."""

    def act(bed: Bed, job: Job) -> float:
        def list_times() -> list[float]:
            files = [*job.run_dir.glob(f"roles/{role}/logs/*/rank-*.err")]
            return [file.stat().st_mtime for file in files if words in file.read_text()]

        bed.wait(lambda: len(list_times()) > last or job.outcome())
        return (max if last else min)(list_times(), default=time.time())

    return act


def wait_for_train(bed: Bed, job: Job) -> None:
    """Return once both processes of the trainer run, and a moment more."""
    bed.wait(
        lambda: len([*job.run_dir.glob("roles/train/logs/*/rank-*.out")]) == 2 or job.outcome()
    )
    time.sleep(bed.chance.uniform(0, 2))


def never_ready(bed: Bed) -> Fault:
    within = bed.chance.randint(2, 5)

    def act(bed: Bed, job: Job) -> float:
        script = job.run_dir / "roles/server/attempts/0/script"
        bed.wait(script.exists)
        return script.stat().st_mtime + within

    ready = {"ready": {"http": "/", "within": f"{within}s"}}
    said = rf"FAILED: role server was not ready within {within} s by its http n1:2[0-9]+ /: "
    said += "rank 0 on n1, by "
    return Fault([*SERVE, "--slow", "100"], ASK, "failed 143", said, act, roles={"server": ready})


def dies(bed: Bed, slow: float, after: float) -> Fault:
    code = bed.chance.randint(2, 99)
    words = [*SERVE, "--slow", f"{slow}", "--dies-after", f"{after:.2f}", "--code", str(code)]
    said = rf"FAILED: role server with exit code {code}: rank 0 on n1, by "
    act = printed("server", "the server gives up")
    return Fault(words, [*ASK, "--for", "100"], f"failed {code}", said, act)


def dies_before(bed: Bed) -> Fault:
    return dies(bed, 30, bed.chance.uniform(0.1, 2))


def dies_while(bed: Bed) -> Fault:
    slow = bed.chance.uniform(0.5, 1.5)
    return dies(bed, slow, slow + bed.chance.uniform(0.1, 1.2))


def dies_after(bed: Bed) -> Fault:
    return dies(bed, 0, bed.chance.uniform(4, 7))


def main_fails(bed: Bed) -> Fault:
    code, stays = bed.chance.randint(1, 99), f"{bed.chance.uniform(0, 2):.2f}"
    said = rf"FAILED: role train with exit code {code}: rank [01] on n[23], by "
    act = printed("train", "the asking ends")
    return Fault(SERVE, [*ASK, "--for", stays, "--code", str(code)], f"failed {code}", said, act)


def main_ends(bed: Bed) -> Fault:
    ask = [*ASK, "--for", f"{bed.chance.uniform(0, 2):.2f}"]
    return Fault(SERVE, ask, "done 0", "DONE", printed("train", "the asking ends", last=True))


def deaf(bed: Bed) -> Fault:
    return main_ends(bed)._replace(server=[*SERVE, "--deaf"])


def node_lost(bed: Bed) -> Fault:
    role, nodes = bed.chance.choice([("server", 2), ("train", 2)])
    node = "n2" if role == "server" else bed.chance.choice(["n2", "n3"])

    def act(bed: Bed, job: Job) -> float:
        wanted = 1 if role == "server" else 2
        bed.wait(lambda: len([*job.run_dir.glob("roles/train/logs/*/rank-*.out")]) == wanted)
        time.sleep(bed.chance.uniform(0, 2))
        bed.cluster.fail(node)
        return time.time()

    roles = {"server": {"nodes": nodes}, "train": {"nodes": 1}} if role == "server" else {}
    said = rf"FAILED: role {role}: {node} is lost"
    ask = [*ASK, "--for", "300"]
    return Fault(SERVE, ask, "failed 1", said, act, within=150, roles=roles)


def cancelled(bed: Bed) -> Fault:
    def act(bed: Bed, job: Job) -> float:
        bed.wait(lambda: (job.run_dir / "roles/server/attempts/0/job.out").exists())
        time.sleep(bed.chance.uniform(0, 4))
        jobgen("cancel", job.id, env=bed.cluster.env, cwd=job.run_dir.parents[2])
        return time.time()

    return Fault(SERVE, [*ASK, "--for", "100"], "cancelled 143", "ENDED by SIGTERM", act)


def walltime(bed: Bed) -> Fault:
    seconds = 60 if bed.cluster.kind == "slurm" else bed.chance.randint(12, 20)

    def act(bed: Bed, job: Job) -> float:
        script = job.run_dir / "attempts/0/script"
        bed.wait(script.exists)
        return script.stat().st_mtime + seconds

    more = {"resources": {"nodes": 3, "cpus_per_node": 2, "walltime": f"{seconds}s"}}
    within = 75 if bed.cluster.kind == "slurm" else 15  # Slurm looks every 30 s or so
    ask = [*ASK, "--for", "300"]
    return Fault(SERVE, ask, "cancelled 143", "ENDED by SIGTERM", act, within=within, more=more)


def port_taken(bed: Bed) -> Fault:
    tried = bed.cluster.kind == "slurm"  # whether a number goes to what is asked before
    port = 20000 + (bed.last + 1 + tried) % 250 * 40
    on = str(bed.cluster.scripts / f"{bed.cluster.kind}-on")
    words = [on, "n1", sys.executable, "-c", LISTEN.format(port=port)]
    subprocess.Popen(words, env=bed.cluster.script_env, stdin=subprocess.DEVNULL)
    time.sleep(1)

    def act(bed: Bed, job: Job) -> float:
        bed.wait(lambda: (job.run_dir / "roles/server/attempts/0/job.out").exists())
        return time.time()

    said = rf"(?s)FAILED: role server with exit code 1.*port {port} on n1 is in use by another"
    return Fault(SERVE, ASK, "failed 1", said, act)


def ray_worker_lost(bed: Bed) -> Fault:
    def act(bed: Bed, job: Job) -> float:
        logs = "roles/train/logs/n2/rank-0.out"
        bed.wait(lambda: (job.run_dir / logs).exists() and (job.run_dir / logs).stat().st_size)
        time.sleep(bed.chance.uniform(0, 3))
        init = (bed.cluster.run_folder / "hosts/n3/init.pid").read_text().split()[0]
        space = os.readlink(f"/proc/{init}/ns/pid")
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]
                if command.endswith(b"/raylet") and os.readlink(f"/proc/{pid}/ns/pid") == space:
                    os.kill(int(pid), signal.SIGKILL)
        return time.time()

    world = [sys.executable, str(PROGRAMS / "ray_world.py"), "4", "--until", "/no/such"]
    said = "FAILED: role train with exit code 1: rank 1 on n3, by "
    return Fault(SERVE, world, "failed 1", said, act, roles={"train": {"launch": {"mode": "ray"}}})


FAULTS = [
    *(main_ends, never_ready, dies_before, dies_while, dies_after, main_fails),
    *(deaf, cancelled, port_taken, ray_worker_lost, walltime, node_lost),
]


def run(bed: Bed, number: int) -> dict[str, Any]:
    """One run, and what was wrong with it."""
    make = FAULTS[number % len(FAULTS)]
    fault = make(bed)
    job = bed.start(fault, f"run-{number}")
    seen = fault.act(bed, job)
    # Slurm does not let go of a job while it does not know that one of its nodes is gone.
    going = ("PENDING", "RUNNING", "R", "Q", "E") if make is node_lost else ()
    bed.wait(lambda: bed.cluster.state(job.id) not in going if going else bed.cluster.ended(job.id))
    if make is node_lost:
        bed.wait(lambda: re.fullmatch(fault.outcome, job.outcome() or ""))
    over = time.time() - seen
    end = time.time() + 5
    while (left := bed.find_left()) and time.time() < end:
        time.sleep(0.2)
    outputs = [
        *job.run_dir.parents[2].glob("roles-*.out"),
        *job.run_dir.parents[2].glob("roles.o*"),
    ]
    text = "".join(file.read_text(errors="replace") for file in outputs)
    wrong = []
    if over > fault.within:
        wrong.append("late")
    if not re.fullmatch(fault.outcome, job.outcome() or ""):
        wrong.append(f"outcome {job.outcome()}")
    if not re.search(fault.said, text):
        wrong.append(f"blames {re.findall('jobgen: (?:FAILED|ENDED|DONE).*', text)}")
    if left:
        wrong.append(f"left {left[:3]}")
    if make is node_lost:
        bed.cluster.run("scancel" if bed.cluster.kind == "slurm" else "true", job.id)  # requeued
        for node in bed.cluster.nodes:
            bed.cluster.heal(node)
        time.sleep(10)
    return {"fault": make.__name__, "seconds": round(over, 1), "wrong": wrong, "job": job.id}


def print_table(results: list[dict[str, Any]]) -> None:
    """A line for each fault."""
    print(f"{'fault':<16} {'runs':>5} {'right':>6} {'median s':>9} {'longest s':>10}")
    for make in FAULTS:
        own = [one for one in results if one["fault"] == make.__name__]
        times = sorted(one["seconds"] for one in own)
        if own:
            right = sum(not one["wrong"] for one in own)
            median, longest = times[len(own) // 2], times[-1]
            print(f"{make.__name__:<16} {len(own):>5} {right:>6} {median:>9} {longest:>10}")
    print(f"{'all':<16} {len(results):>5} {sum(not one['wrong'] for one in results):>6}")
    for index, one in enumerate(results):
        if one["wrong"]:
            print(f"run {index}, {one['fault']}, job {one['job']}: {'; '.join(one['wrong'])}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kind", choices=["slurm", "pbs"], required=True)
    parser.add_argument("--runs", type=int, default=24)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    told = parser.parse_args()
    lines = told.results.read_text().splitlines() if told.results.exists() else []
    results = [json.loads(line) for line in lines]
    folder = Path(tempfile.mkdtemp(prefix="jobgen-roles-"))
    options = [word for path in (folder, ROOT, Path(sys.prefix)) for word in ("--share", str(path))]
    kind = {"slurm": Slurm, "pbs": Pbs}[told.kind]
    if told.kind == "slurm":
        options.insert(0, "--private-tmp")
    if len(results) < told.runs:
        cluster = kind(Path(tempfile.gettempdir()) / f"jobgen-roles-{os.getpid()}", options)
        cluster.up()
        try:
            bed = Bed(cluster, folder)
            for number in range(len(results), told.runs):
                bed.chance.seed(told.seed * 10_000 + number)
                results.append(run(bed, number))
                with told.results.open("a") as file:
                    file.write(json.dumps(results[-1]) + "\n")
        finally:
            cluster.down()
    print_table(results)
    sys.exit(any(one["wrong"] for one in results))


if __name__ == "__main__":
    main()
