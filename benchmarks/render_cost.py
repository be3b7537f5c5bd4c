"""What rendering costs: one script, cold, beside the libraries it needs; and a thousand, warm.

    python benchmarks/render_cost.py            # prints both figures
    python benchmarks/render_cost.py --check    # and fails above the limits, five times in a row

Both are ratios of CPU time (user and system) to `python -c 'import click, yaml, jinja2'`: of one
command, and of a spec among a thousand. All are measured in turns, and the least of each counts,
also of the tries before: other work on the machine, and a host that is slow to hand out memory,
only add. An import needs about the memory of a render. An empty interpreter, with a fifth of it,
did not become slower with it. Run from a checkout, after `pip install .`.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

EXAMPLE = Path(__file__).parent.parent / "examples" / "slurm-2x8.yaml"
COLD_LIMIT = 1.12  # imports of the libraries, for one command
WARM_LIMIT = 0.0156  # of them, for each spec of one command that renders many
LIBRARIES = "import click, yaml, jinja2"
TRIALS = 5


def cpu_seconds(argv: list[str]) -> float:
    """User and system time of one process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Compiled modules and templates are kept, as in an installation.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure_pairs(pairs: int) -> Iterator[tuple[float, float]]:
    """Yield the CPU times of `jobgen render` and of importing its libraries, in turns."""
    render = [sys.executable, "-m", "jobgen", "render", str(EXAMPLE)]
    cpu_seconds(render)
    for _ in range(pairs):
        yield cpu_seconds(render), cpu_seconds([sys.executable, "-c", LIBRARIES])


def make_folder() -> tempfile.TemporaryDirectory[str]:
    """A folder in memory, where that can be: the disk is not what is measured."""
    memory = "/dev/shm"
    return tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None)


def measure_warm(specs: int) -> float:
    """CPU time a spec where one command renders many, its start included."""
    with make_folder() as folder:
        text = EXAMPLE.read_text()
        paths = []
        for index in range(specs):
            path = Path(folder, f"job-{index}.yaml")
            path.write_text(text.replace("name: slurm-2x8", f"name: job-{index}"))
            paths.append(str(path))
        argv = [sys.executable, "-m", "jobgen", "render", "--out-dir", f"{folder}/out", *paths]
        return cpu_seconds(argv) / specs


def main() -> None:
    """Measure, print, and with --check compare."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--check", action="store_true", help="fail above the limits")
    parser.add_argument("--pairs", type=int, default=15, help="cold pairs to measure")
    parser.add_argument("--specs", type=int, default=1000, help="specs of the warm run")
    args = parser.parse_args()
    pairs: list[tuple[float, float]] = []
    warms: list[float] = []
    for _ in range(TRIALS if args.check else 1):
        pairs += measure_pairs(args.pairs)
        warms.append(measure_warm(args.specs))
        render, libraries = map(min, zip(*pairs, strict=True))
        cold, warm = render / libraries, min(warms) / libraries
        print(f"cold render: {cold:.2f} x `python -c '{LIBRARIES}'` (limit {COLD_LIMIT:g})")
        print(
            f"warm render: {warm:.4f} of it a spec, of {args.specs} (limit {WARM_LIMIT:g}), "
            f"{min(warms) * 1000:.2f} ms here"
        )
        if cold <= COLD_LIMIT and warm <= WARM_LIMIT:
            return
    if args.check:
        sys.exit("over the limit")


if __name__ == "__main__":
    main()
