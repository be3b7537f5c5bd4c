"""Input that is made to exhaust ends in a clear error, within 5 s of CPU and 300 MB."""

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from support import ROOT

pytestmark = pytest.mark.slow

SPEC = "name: a\nscheduler: slurm\nresources: {nodes: 2}\nrun: {module: m}\n"
HEAD = "#!/bin/bash\n#SBATCH --nodes=2\n"


def share(levels: int) -> str:
    """Mappings that each hold the one before twice."""
    lines = [f"x{n}: &x{n} {{a: *x{n - 1}, b: *x{n - 1}}}\n" for n in range(1, levels)]
    return "x0: &x0 {a: b}\n" + "".join(lines)


def repeat(before: str, keys: str) -> str:
    """A wide list that many keys hold."""
    names = "".join(f"    {keys}{n}: *wide\n" for n in range(20_000))
    return f"{before}    {keys}: &wide [{'a, ' * 20_000}]\n{names}"


ARGS = SPEC.replace("{module: m}", "\n  module: m\n  args:\n")
SPECS = {
    "extends": ("render", {"base.yaml": SPEC, "job.yaml": f"extends: base.yaml\n{share(28)}"}),
    "project": ("render", {".jobgen.yaml": SPEC, "job.yaml": share(28)}),
    "aliases": ("render", {"job.yaml": SPEC + share(28)}),
    "arguments": ("render", {"job.yaml": repeat(ARGS, "k")}),
    "array": ("render", {"job.yaml": repeat(f"{SPEC}array:\n  values:\n", "run.args.k")}),
    "unknown keys": ("render", {"job.yaml": SPEC + "".join(f"k{n}: a\n" for n in range(90_000))}),
    "gpus": (
        "render",
        {"job.yaml": SPEC.replace("{nodes: 2}", "{nodes: 100000, gpus_per_node: 100000}")},
    ),
    "expression": (
        "render",
        {
            "job.yaml": f"{SPEC.replace('scheduler: slurm', 'site: mine')}account: {'a' * 60}b\n",
            ".jobgen/sites/mine.yaml": "scheduler: slurm\naccount: {pattern: (a+)+}\n",
        },
    ),
}
# The last of each is as long as a script may be.
SCRIPTS = {
    "arithmetic": ["a ((\n" * 20_000, "(" * 19_000, ("((" * 9_000 + "\n") * 14],
    "if": ["if a; then\n" * 20_000, "if a; then\n" * 30 + "srun a\n" * 2_900],
    "loops": ["for i in a; do\n" * 30_000, "while a; do b; done\n" * 1_400],
    "functions": ["f() {\n" * 100_000, "f() { a b; }\n" * 2_900],
    "line": ["#SBATCH --comment=" + "a" * 1_000_000, ("#SBATCH " + "--x " * 4_900 + "\n") * 14],
    "options": ["#SBATCH " + "--x " * 250_000, "#SBATCH --nodes=2\n" * 13_000],
    "documents": [
        "".join(f"cat <<E{n}\nE{n}\n" for n in range(30_000)),
        "".join(f"cat <<E{n}\nE{n}\n" for n in range(2_900)),
    ],
    "pipes": ["a|" * 300_000, ("a|" * 9_000 + "a\n") * 14],
    "launches": ["srun a\n" * 100_000, "srun torchrun --nnodes=2 a\n" * 2_900],
    "words": ["srun " + "a " * 400_000, ("srun " + "a " * 9_000 + "\n") * 14],
    "doubling": ["A=aaaaaaaa\n" + "A=$A$A$A$A$A\n" * 60 + "srun $A\n"],
    "size": ["a\n" * 1_000_000, ('echo "' + "$A" * 9_000 + '"\n') * 14],
}
# A process begins with the peak memory of the one that it was forked from, and tests are large.
MEASURE = """
import resource, subprocess, sys
ended = subprocess.run(sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(f"\\n{ended.returncode} {used.ru_utime + used.ru_stime} {used.ru_maxrss / 1024}")
"""


class Spent(NamedTuple):
    """What a command has printed, how it ended, and what that took."""

    text: str
    code: int
    seconds: float
    megabytes: float


@pytest.fixture
def spend(tmp_path: Path) -> Callable[..., Spent]:
    """Run jobgen on files, as a process that is ended before it harms this machine."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (10, 10))
        resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))

    def spend(words: str, files: dict[str, str]) -> Spent:
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        ended = subprocess.run(
            [sys.executable, "-c", MEASURE, sys.executable, "-m", "jobgen", *words.split()],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            preexec_fn=limit,
            text=True,
            check=True,
        )
        text, _, last = ended.stdout.rstrip("\n").rpartition("\n")
        code, seconds, megabytes = last.split()
        return Spent(text, int(code), float(seconds), float(megabytes))

    return spend


def find_excess(spent: Spent) -> str:
    """What is wrong with how a command ended; empty if it is within bounds."""
    if spent.code < 0 or "Traceback" in spent.text:
        return f"ended with {spent.code}: {spent.text[-500:]}"
    if spent.seconds > 5 or spent.megabytes > 300:
        return f"took {spent.seconds:.1f} s and {spent.megabytes:.0f} MB"
    return ""


@pytest.mark.parametrize("name", SPECS)
def test_a_spec_or_profile_is_refused_in_time(spend: Callable[..., Spent], name: str) -> None:
    words, files = SPECS[name]
    spent = spend(words, files)
    assert find_excess(spent) == ""
    assert spent.code == 3


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_is_read_or_refused_in_time(spend: Callable[..., Spent], name: str) -> None:
    for text in SCRIPTS[name]:
        for command in ("lint", "import"):
            spent = spend(f"{command} a.sbatch", {"a.sbatch": HEAD + text})
            assert find_excess(spent) == "", (command, len(text))
            assert spent.code in (0, 2, 3, 8, 9)


def test_the_plan_of_the_most_nodes_is_printed_as_json(spend: Callable[..., Spent]) -> None:
    resources = "{nodes: 100000, gpus_per_node: 8, walltime: 1h}"
    spent = spend("explain --json", {"job.yaml": SPEC.replace("{nodes: 2}", resources)})
    assert spent.code == 0, spent.text[-500:]
    assert spent.megabytes <= 300
