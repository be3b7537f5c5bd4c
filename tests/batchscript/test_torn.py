"""A script that is torn, as by a slip of the hand, is read or refused, and never a traceback."""

import contextlib
import random

import pytest
from support import ROOT
from torn_scripts import tear

from jobgen.batchscript.convert import import_script
from jobgen.batchscript.lint import check
from jobgen.batchscript.reader import Script
from jobgen.errors import JobgenError

PLACES = ("tests/batchscript/of_others/*", "tests/batchscript/faulty/*")
PLACES += ("examples/*.sbatch", "examples/*.pbs")


def read(text: str) -> None:
    """Import and lint a script, however jobgen refuses it."""
    for use in (import_script, check):
        with contextlib.suppress(JobgenError):
            use(Script("a.sbatch", text))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_no_torn_script_gives_a_traceback(seed: int) -> None:
    texts = [path.read_bytes().decode() for place in PLACES for path in sorted(ROOT.glob(place))]
    rng = random.Random(seed)
    for _ in range(100):
        text = tear(rng.choice(texts), rng)
        try:
            read(text)
        except Exception as error:
            raise AssertionError(text) from error


@pytest.mark.parametrize(
    "line",
    [
        "perf stat -e cycles mpirun -np 8 ./a",
        "perf stat python a.py",
        "xvfb-run -a srun ./a",
        "script -c mpirun ./a",
        "A=1 && python train.py",
        "A=1 | python train.py",
        "A=1 &&\npython train.py",
        "srun",
        "mpirun -np",
        "singularity exec",
        "env -u",
        "torchrun",
        "bash -c",
        "uv run",
        "cd &&",
        "A= = 1\necho $A",
        "A = 1 =",
    ],
)
@pytest.mark.parametrize("nodes", [1, 2])
def test_words_that_are_not_there_end_in_no_traceback(nodes: int, line: str) -> None:
    for sign in ("SBATCH --nodes=", "PBS -l nodes="):
        read(f"#!/bin/bash\n#{sign}{nodes}\n{line}\n")
