"""The CPU time that a script takes to read the names of many nodes.

    python benchmarks/node_lists.py [--check] [NODES]

Runs functions of rendered scripts, for Slurm with a stand-in for scontrol and for PBS with a node
file, on names such as x1000c0s0b0n0 (of a Cray), and one check of all nodes' records by the
supervisor. The time is also relative to `python -c pass`, and other work on the machine only adds
to it. --check: fail if one of them is above the limit, three times in a row.
"""

import argparse
import itertools
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from render_cost import measure_seconds

from jobgen.plan.resolve import resolve
from jobgen.rendering.render import render
from jobgen.spec import load

TRIALS = 3
LIMIT = 100.0  # empty interpreters: a second, where one takes 10 ms
SPEC = """\
name: many
resources: {{nodes: {nodes}, gpus_per_node: 4, cpus_per_gpu: 8}}
launch: {{mode: {mode}, launcher: {launcher}}}
run: {{command: [program]}}
"""


def names(count: int) -> list[str]:
    """The first `count` nodes of a machine of Cray's."""
    cabinets = itertools.count(1000)
    every = (
        f"x{cabinet}c{chassis}s{slot}b{board}n{node}"
        for cabinet in cabinets
        for chassis, slot, board, node in itertools.product(range(8), range(8), range(2), range(2))
    )
    return list(itertools.islice(every, count))


def measure(program: str, folder: Path, **variables: str) -> tuple[float, str]:
    """How many seconds of CPU bash takes for it, with what it starts, and what it prints."""
    environment = {**os.environ, **variables, "PATH": f"{folder}:{os.environ['PATH']}"}
    prefix = f'set -euo pipefail\ndie() {{ echo "$*" >&2; exit 1; }}\nattempt_dir={folder}\n'
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = subprocess.run(
        ["bash"], input=prefix + program, env=environment, capture_output=True, text=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if ended.returncode:
        sys.exit(ended.stderr)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, ended.stdout


def measure_all(nodes: int, folder: Path) -> Iterator[tuple[str, float]]:
    """What is measured, and seconds of CPU."""
    listing = folder / "listing"
    listing.write_text("".join(f"{host}\n" for host in names(nodes)))
    (folder / "scontrol").write_text(f"#!/bin/sh\nexec cat {listing}\n")
    (folder / "scontrol").chmod(0o755)
    # A line for each of four processes, those of a node not together.
    (folder / "nodefile").write_text(listing.read_text() * 4)
    for scheduler, launcher, mode in (
        ("slurm", "srun", "torchrun"),
        ("pbs", "pbsdsh", "torchrun"),
        ("pbs", "mpiexec", "direct"),
    ):
        spec = folder / "job.yaml"
        spec.write_text(SPEC.format(nodes=nodes, mode=mode, launcher=launcher))
        script = render(resolve(load.load(str(spec)), scheduler=scheduler))
        program = script.removesuffix('main "$@"\n')
        program += "job_number=1 this_script=x run_dir=$attempt_dir job_id=1 attempt=0\n"
        program += "find_nodes\ntell_nodes\n"
        if launcher == "mpiexec":
            program += "mpiexec() { :; }\nexec() { :; }\nstart_hydra\n"
        variables = {
            "SLURM_JOB_NODELIST": "x[1000-1039]c[0-7]s[0-7]b[0-1]n[0-1]",
            "PBS_NODEFILE": str(folder / "nodefile"),
        }
        seconds, printed = measure(program + 'echo "${#names[@]}"\n', folder, **variables)
        assert printed.split()[-1] == str(nodes)
        assert (folder / "nodes").read_text() == listing.read_text()
        yield f"{scheduler}, {launcher}, {mode}: {nodes} names", seconds
    for index in range(nodes):
        (folder / f"node-{index}.alive").write_text("1\n")
    looks = "launchers=($$) lost=''\n" + "turn=0; find_lost\n" * 3 + 'echo "lost: $lost"\n'
    seconds, printed = measure(program + looks, folder, **variables)
    assert printed.endswith("lost: \n"), printed
    yield f"a look at the records of {nodes} nodes", seconds / 3


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("nodes", type=int, nargs="?", default=10_000)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    for _ in range(TRIALS if options.check else 1):
        empty, slowest = min(measure_seconds(["-c", "pass"]) for _ in range(5)), 0.0
        with tempfile.TemporaryDirectory() as folder:
            for what, seconds in measure_all(options.nodes, Path(folder)):
                ratio = seconds / empty
                print(f"{what}: {seconds:.2f} s, {ratio:.0f} x `python -c pass` (limit {LIMIT:g})")
                slowest = max(slowest, ratio)
        if slowest <= LIMIT:
            return
    if options.check:
        sys.exit("over the limit")


main()
