"""What rendering costs: one script, cold, beside the libraries it needs; and each of many, warm.

    python benchmarks/render_cost.py            # prints the figures
    python benchmarks/render_cost.py --check    # and fails above the limits

Both are ratios to `python -c 'import click, yaml, jinja2'`: of one command, and of each further
spec of a command that renders a hundred. The limits are on instructions, which are the same on
every try; the CPU time of one command, the median of pairs in turns, stands beside them. The kernel
starts both processes, so a ratio of times is nearer to one. Run from a checkout, after `pip install
.`; needs valgrind.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
from pathlib import Path

from instructions import (
    LIBRARIES,
    count_instructions,
    count_libraries,
    make_environment,
    make_folder,
)

EXAMPLE = Path(__file__).parent.parent / "examples" / "slurm-2x8.yaml"
COLD_LIMIT = 1.18  # imports of the libraries, for one command
WARM_LIMIT = 0.0115  # of them, for each further spec of one command that renders many
RENDER = ["-m", "jobgen", "render"]
SPECS = 100


def measure_seconds(argv: list[str]) -> float:
    """User and system time of one process of Python."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    own = make_environment()
    subprocess.run([sys.executable, *argv], check=True, stdout=subprocess.DEVNULL, env=own)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure_times(pairs: int) -> float:
    """Return how long one render takes, in imports of the libraries: the median of pairs."""
    render, libraries = [*RENDER, str(EXAMPLE)], ["-c", LIBRARIES]
    measure_seconds(render)
    return statistics.median(
        measure_seconds(render) / measure_seconds(libraries) for _ in range(pairs)
    )


def count_warm() -> float:
    """Return the instructions for each further spec where one command renders many."""
    with make_folder() as folder:
        text = EXAMPLE.read_text()
        paths = []
        for index in range(SPECS + 1):
            path = Path(folder, f"job-{index}.yaml")
            path.write_text(text.replace("name: slurm-2x8", f"name: job-{index}"))
            paths.append(str(path))
        many = count_instructions([*RENDER, "--out-dir", f"{folder}/many", *paths])
        one = count_instructions([*RENDER, "--out-dir", f"{folder}/one", paths[0]])
    return (many - one) / SPECS


def main() -> None:
    """Measure, print, and with --check compare."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--check", action="store_true", help="fail above the limits")
    parser.add_argument("--pairs", type=int, default=15, help="pairs of times to measure")
    args = parser.parse_args()
    times = measure_times(args.pairs)
    libraries = count_libraries()
    cold = count_instructions([*RENDER, str(EXAMPLE)]) / libraries
    warm = count_warm() / libraries
    print(f"cold render: {cold:.3f} x `python -c '{LIBRARIES}'` (limit {COLD_LIMIT:g})")
    print(f"             {times:.2f} x in CPU time, of {args.pairs} pairs")
    print(f"warm render: {warm:.5f} x for each further spec, of {SPECS} (limit {WARM_LIMIT:g})")
    if args.check and (cold > COLD_LIMIT or warm > WARM_LIMIT):
        sys.exit("over the limit")


if __name__ == "__main__":
    main()
