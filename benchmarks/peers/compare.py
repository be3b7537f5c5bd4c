"""The same two-node job by jobgen and its peers: what rendering costs, and who starts where.

    python benchmarks/peers/compare.py          # makes the venvs, prints the table
    python benchmarks/peers/compare.py --run    # and runs each job on a Slurm here, as root

Each tool has a venv of its own, with its version pinned; its job is in `TOOL_job.py`. A cold figure
is the median of paired ratios of CPU time, a process that renders once over `python -c pass` of the
same venv, in turn; a warm one is milliseconds of CPU time a render in a process that renders many.
Run it with the Python of an environment that has jobgen, PyTorch and pytest. docs/compared.md has
its table.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# leptonai: the newest, which pip would take, lacks a module that NeMo-Run 0.11.1 imports.
PEERS = {
    "submitit": ("submitit==1.5.4",),
    "torchx": ("torchx==0.7.0",),
    "nemo_run": ("nemo-run==0.11.1", "leptonai==0.27.3"),
}
NODES, PROCESSES = 2, 2


class Row(NamedTuple):
    """What was measured of a tool."""

    tool: str
    packages: int
    cold: float
    warm: float
    started: str


def main() -> None:
    """Make the venvs, measure, run, print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], allow_abbrev=False)
    parser.add_argument("--venvs", type=Path, default=ROOT / "build" / "peers")
    parser.add_argument("--pairs", type=int, default=7, help="cold pairs of each tool")
    parser.add_argument("--renders", type=int, default=50, help="warm renders of each tool")
    parser.add_argument("--run", action="store_true", help="run the jobs on a Slurm here")
    args = parser.parse_args()
    pythons = {"jobgen": sys.executable}
    pythons |= {tool: make_venv(args.venvs / tool, PEERS[tool]) for tool in PEERS}
    started = run_jobs(pythons) if args.run else {}
    with tempfile.TemporaryDirectory() as folder:
        rows = [
            Row(
                tool,
                count_packages(tool, python),
                measure_cold(tool, python, Path(folder), args.pairs),
                measure_warm(tool, python, Path(folder), args.renders),
                started.get(tool, "not run"),
            )
            for tool, python in pythons.items()
        ]
    print_table(rows)


def make_venv(place: Path, requirements: Sequence[str]) -> str:
    """Return the Python of a venv with these packages, which is made if it is not there."""
    python = place / "bin" / "python"
    if not (place / "made").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", place], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", *requirements]
        subprocess.run(install, check=True, stderr=subprocess.DEVNULL)
        (place / "made").touch()
    return str(python)


def count_packages(tool: str, python: str) -> int:
    """How many packages the tool brings; the environment of jobgen has others beside its own."""
    if tool == "jobgen":
        return 5  # jobgen, click, Jinja2 with MarkupSafe, PyYAML
    listing = [python, "-m", "pip", "list", "--format=json"]
    packages = json.loads(subprocess.run(listing, check=True, capture_output=True).stdout)
    return len([one for one in packages if one["name"] not in ("pip", "setuptools")])


def make_environment(folder: Path, path: str = "") -> dict[str, str]:
    """The tools' variables; submitit asks for an srun on PATH even to write a script."""
    commands = folder / "bin"
    commands.mkdir(exist_ok=True)
    for name in ("srun", "sinfo"):
        (commands / name).write_text("#!/bin/sh\nexit 0\n")
        (commands / name).chmod(0o755)
    path = path or f"{commands}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "NEMORUN_HOME": str(folder / "nemo-home")}


def start(tool: str, python: str, *words: str, env: Mapping[str, str], cwd: Path) -> str:
    """Run a tool's job file; what it prints."""
    argv = [python, str(HERE / f"{tool}_job.py"), *words]
    done = subprocess.run(argv, env=dict(env), cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(argv)}:\n{done.stdout}{done.stderr}")
    return done.stdout


def measure_cold(tool: str, python: str, folder: Path, pairs: int) -> float:
    """CPU time of a process that renders once, over that of `python -c pass`."""
    env = make_environment(folder)
    start(tool, python, "render", str(folder / "script"), env=env, cwd=folder)
    ratios = []
    for _ in range(pairs):
        before = count_cpu_seconds()
        subprocess.run([python, "-c", "pass"], check=True)
        between = count_cpu_seconds()
        start(tool, python, "render", str(folder / "script"), env=env, cwd=folder)
        ratios.append((count_cpu_seconds() - between) / (between - before))
    return statistics.median(ratios)


def measure_warm(tool: str, python: str, folder: Path, renders: int) -> float:
    """Milliseconds of CPU time a render, where a process renders many."""
    words = ("render", str(folder / "script"), str(renders))
    return float(start(tool, python, *words, env=make_environment(folder), cwd=folder))


def count_cpu_seconds() -> float:
    """User and system time of the children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run_jobs(pythons: Mapping[str, str]) -> dict[str, str]:
    """Submit each tool's job to a Slurm of three nodes, and read who has left word."""
    sys.path.insert(0, str(ROOT / "tests" / "helpers"))
    from cluster_fixtures import Slurm

    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # munge and Slurm look at who else may write there
        slurm = Slurm(Path(folder, "slurm"))
        slurm.up()
        try:
            return {tool: run_job(tool, pythons[tool], slurm, Path(folder)) for tool in pythons}
        finally:
            slurm.down()


def run_job(tool: str, python: str, slurm: Any, folder: Path) -> str:
    """Submit one job; nodes and processes that have started, and the size of their world."""
    # NeMo-Run writes its own folder wherever a script says /nemo_run: our paths do without.
    home = folder / tool.replace("_", "-")
    words = home / "words"
    words.mkdir(parents=True)
    # torchrun and its Python are those of this environment, for the tools that start it.
    path = f"{Path(sys.executable).parent}:{slurm.env['PATH']}"
    env = make_environment(home, path) | {"PYTHONPATH": str(HERE)}  # for submitit's pickle
    job = start(tool, python, "submit", str(words), env=env, cwd=home).split()[-1]
    end = time.monotonic() + 180
    while not slurm.ended(job) and time.monotonic() < end:
        time.sleep(1)
    left = [json.loads(path.read_text()) for path in words.glob("*.json")]
    nodes, ranks = {word["node"] for word in left}, {word["rank"] for word in left}
    worlds = sorted({word["world"] for word in left})
    told = f"{len(nodes)} of {NODES} nodes, {len(ranks)} of {NODES * PROCESSES} ranks"
    return f"{told}, world of {' and '.join(worlds)}, {slurm.state(job)}"


def print_table(rows: Sequence[Row]) -> None:
    """Print the table of docs/compared.md."""
    versions = {"jobgen": "this commit"}
    for tool, wanted in PEERS.items():
        versions[tool] = wanted[0].partition("==")[2]
    today = datetime.date.today()
    print(f"{today}, Python {re.sub(' .*', '', sys.version)}, {os.cpu_count()} cores\n")
    print("| | version | packages | cold, `python -c pass` = 1 | warm, ms | started |")
    print("| --- | --- | --- | --- | --- | --- |")
    for row in rows:
        figures = f"{row.packages} | {row.cold:.1f} | {row.warm:.2f} | {row.started}"
        print(f"| {row.tool.replace('_', '-')} | {versions[row.tool]} | {figures} |")


if __name__ == "__main__":
    main()
