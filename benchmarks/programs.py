"""How often a look into public training programs is right, and what it costs.

    python benchmarks/programs.py FOLDER

FOLDER holds clones of the repositories that `programs.tsv` names, each as `owner+name`; the table
has the remarks on each program for a job of two nodes with four processes each.
Without FOLDER only the cost is measured, on 1,000 lines of the trainer: of the look alone, and of a
whole `jobgen check` that looks beside one that has nothing to look into.
"""

import ast
import itertools
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
import timeit
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from jobgen.programs import SEVERAL, check_program

TABLE = Path(__file__).with_name("programs.tsv")


def read_table() -> list[tuple[str, set[str]]]:
    """Return the paths of the programs, and the rules that hold for each."""
    rows = []
    for line in TABLE.read_text().splitlines():
        if not line.startswith("#"):
            path, _, rules = line.partition("\t")
            rows.append((path, set(rules.split())))
    return rows


def compare(folder: Path) -> bool:
    """Print how many remarks are right and how many faults are missed; False if any."""
    counts: Counter[str] = Counter()
    for path, expected in read_table():
        if not (folder / path).is_file():
            counts["programs that are not in the folder"] += 1
            continue
        repository, _, program = path.partition("/")
        os.chdir(folder / repository)  # as a job is submitted, from the project's own folder
        remarks = {remark.rule for remark in check_program(program, SEVERAL)}
        counts["programs"] += 1
        counts["right"] += len(remarks & expected)
        counts["wrong"] += len(remarks - expected)
        counts["missed"] += len(expected - remarks)
        for rule in sorted(remarks ^ expected):
            print(f"{path}: {'wrong' if rule in remarks else 'missed'}: {rule}")
    print(", ".join(f"{key} {count}" for key, count in counts.items()))
    return not counts["wrong"] + counts["missed"]


SPEC = """\
name: gpt
scheduler: slurm
resources: {nodes: 2, gpus_per_node: 4, walltime: 1h}
run: {%s}
"""


def measure() -> tuple[float, float, float]:
    """Return the milliseconds for 1,000 lines: of a look, of Python's parser, and of a check.

    They are lines of the trainer, one file behind the other, up to a function's end. Of a check it
    is what it takes longer than with a program that is not Python's.
    """
    texts = [path.read_text() for path in sorted((ROOT / "jobgen" / "trainer").glob("*.py"))]
    text = "\n".join(text.replace("from __future__ import annotations", "") for text in texts)
    functions = re.split(r"(?m)^(?=(?:@|def |class )\w)", text)
    text = next(text for text in itertools.accumulate(functions) if text.count("\n") >= 1000)
    lines = text.count("\n")
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "train.py")
        program.write_text(text)
        times, checks = [], []
        for run in ("command: [train]", "script: train.py"):
            Path(folder, "job.yaml").write_text(SPEC % run)
            checks.append(min(time_check(folder) for _ in range(20)))
        for work in (lambda: check_program(str(program), SEVERAL), lambda: ast.parse(text)):
            timer = timeit.Timer(work, timer=time.process_time)
            times.append(min(timer.repeat(20, number=1)))
    each = 1000 * 1000 / lines
    return times[0] * each, times[1] * each, (checks[1] - checks[0]) * each


def time_check(folder: str) -> float:
    """Return the seconds of processor time that a `jobgen check` in a folder takes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "jobgen", "check"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> int:
    """Measure, compare where there is a folder, and return the exit code."""
    look, parser, more = measure()
    print(f"a look at 1,000 lines: {look:.1f} ms, {look / parser:.1f} times Python's parser")
    print(f"a check with it: {more:.1f} ms more than without, {more / parser:.1f} times the parser")
    return 0 if len(sys.argv) < 2 or compare(Path(sys.argv[1]).resolve()) else 1


if __name__ == "__main__":
    sys.exit(main())
