"""The CPU time of `jobgen list` and `jobgen status --json` with many recorded jobs.

    python benchmarks/status_cost.py [--check] [JOBS]

Records JOBS jobs, one in fifty of which has not ended, with a stand-in for squeue that counts its
calls. The time is that of jobgen without the scheduler's command, relative to `python -c 'import
click, yaml, jinja2'`, the least of both: see render_cost.py. --check: fail above the limit, or
after more than one query, five times in a row.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from render_cost import LIBRARIES, make_folder

from jobgen.jobs.record import JobRecord

MAIN = "from jobgen.cli.main import main; main()"
LIMIT = 0.0032  # of that import, for each job
TURNS = 5
TRIALS = 5
SQUEUE = """\
#!/bin/sh
echo "$*" >>calls
cat queue
"""


def record(folder: Path, number: int, *, ended: bool) -> JobRecord:
    """A job as it was submitted, and what its script has left."""
    argv = ("sbatch", "--parsable", "runs/gpt/scripts/job-01234567.sbatch")
    job = JobRecord(str(number), f"gpt-{number % 20}", "slurm", str(folder), 1.7e9 + number, argv)
    attempt = job.run_dir / "attempts" / "0"
    attempt.mkdir(parents=True)
    (job.run_dir / "job.json").write_text(json.dumps(asdict(job), indent=1))
    if ended:
        (attempt / "outcome").write_text("failed 1\n" if number % 5 else "done 0\n")
    else:
        line = {"kind": "step", "step": number, "time": time.time(), "loss": 2.5, "step_s": 1.0}
        (job.run_dir / "metrics.jsonl").write_text((json.dumps(line) + "\n") * 1000)
    return job


def measure(program: str, *words: str) -> float:
    """Seconds of CPU that a program takes, without those of the commands that it runs."""
    inner = (
        "import atexit, resource, sys\n"
        "def tell():\n"
        "    used = resource.getrusage(resource.RUSAGE_SELF)\n"
        "    print(used.ru_utime + used.ru_stime, file=sys.stderr)\n"
        f"atexit.register(tell)\n{program}\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": f".:{os.environ['PATH']}"}
    argv = [sys.executable, "-c", inner, *words]
    ended = subprocess.run(argv, env=environment, capture_output=True, text=True)
    if ended.returncode:
        sys.exit(ended.stderr)
    return float(ended.stderr.split()[-1])


def measure_commands(number: int, least: dict[str, float]) -> int:
    """Put the least seconds of each command, and of the unit, into `least`.

    Returns the most queries of one command.
    """
    most = 0
    with make_folder() as made:
        os.chdir(made)
        jobs = [record(Path(made), 1000 + n, ended=bool(n % 50)) for n in range(number)]
        running = [f"{job.id}|RUNNING|None|1700000000|1900000000\n" for job in jobs[::50]]
        Path("queue").write_text("".join(running))
        Path("squeue").write_text(SQUEUE)
        Path("squeue").chmod(0o755)
        every = [job.id for job in jobs]
        for words in (["list"], ["list", "--json"], ["status", "--json", *every]):
            Path("calls").write_text("")
            for _ in range(TURNS):  # in turns, as a machine is slower at times
                timed = {" ".join(words[:2]): (MAIN, *words), LIBRARIES: (LIBRARIES,)}
                for name, argv in timed.items():
                    least[name] = min(least.get(name, math.inf), measure(*argv))
            most = max(most, len(Path("calls").read_text().splitlines()) // TURNS)
        os.chdir(ROOT)
    return most


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("jobs", type=int, nargs="?", default=5000)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    least: dict[str, float] = {}
    for _ in range(TRIALS if options.check else 1):
        most = measure_commands(options.jobs, least)
        ratios = {name: least[name] / least[LIBRARIES] / options.jobs for name in least}
        del ratios[LIBRARIES]
        for name, ratio in ratios.items():
            print(
                f"jobgen {name}: {options.jobs} jobs in {least[name]:.2f} s, {ratio:.5f} x "
                f"`python -c '{LIBRARIES}'` for each (limit {LIMIT}), {most} query"
            )
        if max(ratios.values()) <= LIMIT and most == 1:
            return
    if options.check:
        sys.exit("over the limit, or more than one query")


if __name__ == "__main__":
    main()
