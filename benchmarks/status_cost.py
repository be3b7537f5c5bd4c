"""What `jobgen list` and `jobgen status --json` cost with many recorded jobs.

    python benchmarks/status_cost.py [--check] [JOBS]

Records JOBS jobs, one in fifty of which has not ended, with a stand-in for squeue that counts its
calls. The cost is the instructions of jobgen, without the scheduler's command, for each further
job, relative to `python -c 'import click, yaml, jinja2'`; it needs valgrind. --check: fail above
the limit, or after more than one query.
"""

import argparse
import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from instructions import LIBRARIES, count_instructions, count_libraries, make_folder

from jobgen.jobs.record import JobRecord

COMMANDS = (["list"], ["list", "--json"], ["status", "--json"])
LIMIT = 0.0034  # of that import, for each job
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


def count_commands(number: int) -> tuple[list[int], int]:
    """Return the instructions of each command with that many jobs, and the most queries of one."""
    counts, most = [], 0
    with make_folder() as made:
        os.chdir(made)
        jobs = [record(Path(made), 1000 + n, ended=bool(n % 50)) for n in range(number)]
        running = [f"{job.id}|RUNNING|None|1700000000|1900000000\n" for job in jobs[::50]]
        Path("queue").write_text("".join(running))
        Path("squeue").write_text(SQUEUE)
        Path("squeue").chmod(0o755)
        for words in COMMANDS:
            Path("calls").write_text("")
            named = [job.id for job in jobs] if words[0] == "status" else []
            counts.append(count_instructions(["-m", "jobgen", *words, *named]))
            most = max(most, len(Path("calls").read_text().splitlines()))
        os.chdir(ROOT)
    return counts, most


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("jobs", type=int, nargs="?", default=500)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    os.environ.update(PYTHONPATH=str(ROOT), PATH=f".:{os.environ['PATH']}")
    libraries = count_libraries()
    # With two, as of one job alone status tells more.
    (few, _), (many, most) = count_commands(2), count_commands(options.jobs + 2)
    worst = 0.0
    for words, first, all_of_them in zip(COMMANDS, few, many, strict=True):
        ratio = (all_of_them - first) / options.jobs / libraries
        worst = max(worst, ratio)
        print(
            f"jobgen {' '.join(words)}: {ratio:.5f} x `python -c '{LIBRARIES}'` for each further "
            f"job, of {options.jobs} (limit {LIMIT}), {most} query"
        )
    if options.check and (worst > LIMIT or most != 1):
        sys.exit("over the limit, or more than one query")


if __name__ == "__main__":
    main()
