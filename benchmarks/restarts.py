"""How often runs with a bad node get to their end: by verdicts, and by retrying blindly.

On a real Slurm and the emulated PBS, of four nodes each (root on Linux; see tests/clusters). A run
wants three nodes; one of the four, by a seed, is bad: its processes die at once or after 20 s,
vanish, hang, or are slow, which preflight finds. A run with `on_failure` has the fourth as its
spare. The blind retry submits the same job without it again, three times at most, as a loop around
sbatch does. Four chains run at a time. Each that goes otherwise than it should is printed.

    python benchmarks/restarts.py [--chains 10] [--user-errors 10] [slurm] [pbs]
"""

from __future__ import annotations

import random
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]

from cluster_fixtures import Cluster, Pbs, Slurm
from jobs import PROGRAMS, Job, spec, submit

KINDS = ("at-once", "late", "vanishes", "hangs", "slow")
RETRIES = 3
#: Python reads this at its start; preflight is a program that bash hands to python3 by its input
SLOW = """\
import os, sys, timeit
if sys.argv[0] == "-" and os.environ.get("JOBGEN_NODE") in open({bad!r}).read().split():
    true = timeit.repeat
    timeit.repeat = lambda *words, **more: [50 * one for one in true(*words, **more)]
"""
SUBMITTING = threading.Lock()
FOUR = {"slurm": ["--nodes", "4"], "pbs": ["--nodes", "16:0,16:0,16:0,16:0"]}


def start(cluster: Cluster, cwd: Path, bad: str, **changes: Any) -> Job:
    """Submit a run of 30 steps on three nodes, of which `bad` names one."""
    file = cwd / "bad"
    file.write_text(bad)
    pace = "0.8" if bad.endswith("late\n") else "0.1"
    content = spec(
        resources={"nodes": 3, "cpus_per_node": 1, "walltime": "5m"},
        launch={"mode": "direct", "processes_per_node": 1},
        run={"script": str(PROGRAMS / "bad_node.py"), "args": ["30", str(file), pace, "10"]},
    )
    if bad.endswith("slow\n"):
        (cwd / "sitecustomize.py").write_text(SLOW.format(bad=str(file)))
        variables = {"PYTHONPATH": str(cwd)}
        content |= {"preflight": True, "environment": {"venv": sys.prefix, "variables": variables}}
    options = ["--again"] if (cwd / "runs").exists() else []
    with SUBMITTING:
        return submit(content | changes, *options, scheduler=cluster.kind, cwd=cwd, env=cluster.env)


def wait(job: Job) -> bool:
    """Return whether the run was done, once it has ended; none goes on after a verdict of stop."""
    end = time.monotonic() + 240
    while time.monotonic() < end:
        files = sorted(
            job.run_dir.glob("attempts/*/outcome"), key=lambda path: path.stat().st_mtime
        )
        if files and (word := files[-1].read_text().split()[0]) != "continued":
            return word == "done"
        time.sleep(0.2)
    return False


def list_bad(job: Job) -> list[str]:
    """Return the nodes that verdicts have blamed."""
    path = job.run_dir / "bad-nodes"
    return [line.split("\t")[0] for line in path.read_text().splitlines()] if path.exists() else []


def run_with_verdicts(cluster: Cluster, bad: str) -> tuple[bool, list[str], float]:
    """Return whether it was done, whom it blamed, and how long training stood still at most."""
    resources = {"nodes": 3, "spare_nodes": 1, "cpus_per_node": 1, "walltime": "5m"}
    with tempfile.TemporaryDirectory(dir=cluster.run_folder) as folder:
        job = start(cluster, Path(folder), bad, resources=resources, on_failure="restart")
        done, blamed = wait(job), list_bad(job)
        ends = sorted(job.run_dir.glob("attempts/*/outcome"))
        starts = sorted(job.run_dir.glob("attempts/*/node-0.started"))
        pause = 0.0
        for number in range(1, len(starts)):
            failed = job.run_dir / f"attempts/{number - 1}/failed"
            before = failed if failed.exists() else ends[number - 1]
            pause = max(pause, starts[number].stat().st_mtime - before.stat().st_mtime)
        by_user = bad.startswith("user")
        if done == by_user or {*blamed} - {bad.split()[0]}:
            files = sorted(job.run_dir.glob("attempts/*/verdict"))
            said = "".join(f"\n    {file.read_text().strip()}" for file in files)
            print(f"{cluster.kind}: {bad.strip()}: done {done}, blamed {blamed}{said}", flush=True)
        return done, blamed, pause


def retry_blindly(cluster: Cluster, bad: str) -> bool:
    """Return whether one of the jobs was done."""
    with tempfile.TemporaryDirectory(dir=cluster.run_folder) as folder:
        return any(wait(start(cluster, Path(folder), bad)) for _ in range(1 + RETRIES))


def measure(cluster: Cluster, chains: int, errors: int) -> bool:
    """Print what becomes of the runs on a cluster; return whether all is as it should be."""
    counts: Counter[str] = Counter()
    longest = 0.0
    nodes = [random.Random(seed).randint(1, 4) for seed in range(chains)]
    planted = [f"n{node} {KINDS[seed % len(KINDS)]}\n" for seed, node in enumerate(nodes)]
    wrong = [f"user {('wrong', 'crashes')[seed % 2]}\n" for seed in range(errors)]
    with ThreadPoolExecutor(4) as pool:
        blind = [pool.submit(retry_blindly, cluster, bad) for bad in planted]
        judged = [pool.submit(run_with_verdicts, cluster, bad) for bad in planted + wrong]
        for bad, one in zip(planted + wrong, judged, strict=True):
            done, blamed, pause = one.result()
            longest = max(longest, pause)
            counts["done in error" if bad in wrong else "done"] += done
            counts["innocent"] += bool({*blamed} - {bad.split()[0]})
        counts["blind"] = sum(one.result() for one in blind)
    print(
        f"{cluster.kind}: of {chains} runs {counts['done']} done by verdicts, {counts['blind']} by "
        f"blind retry; {longest:.1f} s at most from a failure to the next start; of these and "
        f"{errors} errors of users {counts['innocent']} blame an innocent node",
        flush=True,
    )
    return counts["done"] >= 2 * counts["blind"] and not counts["innocent"] and longest <= 60


def main() -> int:
    """Measure on the clusters that are asked for, or both."""
    words = sys.argv[1:]
    chains, errors = (
        int(words[words.index(option) + 1]) if option in words else 10
        for option in ("--chains", "--user-errors")
    )
    wanted = [word for word in words if word in FOUR] or [*FOUR]
    well = True
    for kind, brand in (("slurm", Slurm), ("pbs", Pbs)):
        if kind in wanted:
            with tempfile.TemporaryDirectory(prefix="jobgen-restarts-") as folder:
                cluster = brand(Path(folder), FOUR[kind])
                cluster.nodes = ("n1", "n2", "n3", "n4")
                cluster.up()
                try:
                    well &= measure(cluster, chains, errors)
                finally:
                    cluster.down()
    return int(not well)


if __name__ == "__main__":
    sys.exit(main())
