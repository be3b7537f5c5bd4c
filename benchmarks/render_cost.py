"""What rendering costs: one script, cold, beside the libraries it needs; and a thousand, warm.

    python benchmarks/render_cost.py            # prints both figures
    python benchmarks/render_cost.py --check    # and fails above the limits, three times in a row

Both are ratios of CPU time (user and system), measured in turns, so that a machine's speed cancels
out: of one command to `python -c 'import click, yaml, jinja2'`, and of a spec among a thousand to
`python -c pass`. Other work on the machine only adds to them, so a check measures again before it
fails. Run from a checkout, after `pip install .`.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

EXAMPLE = Path(__file__).parent.parent / "examples" / "slurm-2x8.yaml"
COLD_LIMIT = 1.12  # imports of the libraries, for one command
WARM_LIMIT = 0.145  # empty interpreters, for each spec of one command that renders many
LIBRARIES = "import click, yaml, jinja2"
TRIALS = 3


def cpu_seconds(argv: list[str]) -> float:
    """User and system time of one process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Compiled modules and templates are kept, as in an installation.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure_python(program: str = "pass") -> float:
    """CPU time of an interpreter that runs a short program."""
    return cpu_seconds([sys.executable, "-c", program])


def measure_cold(pairs: int) -> float:
    """CPU time of `jobgen render` over that of importing its libraries."""
    render = [sys.executable, "-m", "jobgen", "render", str(EXAMPLE)]
    cpu_seconds(render)
    return statistics.median(cpu_seconds(render) / measure_python(LIBRARIES) for _ in range(pairs))


def measure_warm(specs: int) -> tuple[float, float]:
    """CPU time a spec where one command renders many, its start included: as a ratio, and in ms."""
    empty = [measure_python() for _ in range(10)]
    memory = "/dev/shm"  # the disk is not what is measured
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        text = EXAMPLE.read_text()
        paths = []
        for index in range(specs):
            path = Path(folder, f"job-{index}.yaml")
            path.write_text(text.replace("name: slurm-2x8", f"name: job-{index}"))
            paths.append(str(path))
        seconds = cpu_seconds(
            [sys.executable, "-m", "jobgen", "render", "--out-dir", f"{folder}/out", *paths]
        )
    empty += [measure_python() for _ in range(10)]
    return seconds / specs / statistics.median(empty), seconds * 1000 / specs


def main() -> None:
    """Measure, print, and with --check compare."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--check", action="store_true", help="fail above the limits")
    parser.add_argument("--pairs", type=int, default=15, help="cold pairs to measure")
    parser.add_argument("--specs", type=int, default=1000, help="specs of the warm run")
    args = parser.parse_args()
    for _ in range(TRIALS if args.check else 1):
        cold, (warm, milliseconds) = measure_cold(args.pairs), measure_warm(args.specs)
        print(f"cold render: {cold:.2f} x `python -c '{LIBRARIES}'` (limit {COLD_LIMIT:g})")
        print(
            f"warm render: {warm:.3f} x `python -c pass` a spec, of {args.specs} "
            f"(limit {WARM_LIMIT:g}), {milliseconds:.2f} ms here"
        )
        if cold <= COLD_LIMIT and warm <= WARM_LIMIT:
            return
    if args.check:
        sys.exit("over the limit")


if __name__ == "__main__":
    main()
