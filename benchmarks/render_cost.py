"""What rendering costs: one script, cold, in units of an empty interpreter; and a thousand, warm.

    python benchmarks/render_cost.py            # prints both figures
    python benchmarks/render_cost.py --check    # and fails above the limits that README states

A cold figure is the median of paired ratios of CPU time (user and system), `jobgen render` over
`python -c pass` of the same environment, in turn, so that a machine's speed and its other work
cancel out. Run from a checkout, after `pip install .`.
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
COLD_LIMIT = 10.0  # empty interpreters
WARM_LIMIT = 1.5  # ms for each spec


def cpu_seconds(argv: list[str]) -> float:
    """User and system time of one process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Compiled modules and templates are kept, as they are for everybody who installs jobgen.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def cold(pairs: int) -> float:
    """CPU time of `jobgen render` over that of `python -c pass`."""
    render = [sys.executable, "-m", "jobgen", "render", str(EXAMPLE)]
    cpu_seconds(render)
    ratios = []
    for _ in range(pairs):
        empty = cpu_seconds([sys.executable, "-c", "pass"])
        ratios.append(cpu_seconds(render) / empty)
    return statistics.median(ratios)


def warm(specs: int) -> float:
    """Milliseconds of CPU time a spec where one command renders many, its start included."""
    with tempfile.TemporaryDirectory() as folder:
        text = EXAMPLE.read_text()
        paths = []
        for index in range(specs):
            path = Path(folder, f"job-{index}.yaml")
            path.write_text(text.replace("name: slurm-2x8", f"name: job-{index}"))
            paths.append(str(path))
        seconds = cpu_seconds(
            [sys.executable, "-m", "jobgen", "render", "--out-dir", f"{folder}/out", *paths]
        )
        return seconds * 1000 / specs


def main() -> None:
    """Measure, print, and with --check compare."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--check", action="store_true", help="fail above the limits")
    parser.add_argument("--pairs", type=int, default=15, help="cold pairs to measure")
    parser.add_argument("--specs", type=int, default=1000, help="specs of the warm run")
    args = parser.parse_args()
    ratio, milliseconds = cold(args.pairs), warm(args.specs)
    print(f"cold render: {ratio:.1f} x `python -c pass` (limit {COLD_LIMIT:g})")
    print(f"warm render: {milliseconds:.2f} ms a spec, of {args.specs} (limit {WARM_LIMIT:g})")
    if args.check and (ratio > COLD_LIMIT or milliseconds > WARM_LIMIT):
        sys.exit("over the limit")


if __name__ == "__main__":
    main()
