"""Bash is the judge: what import makes of a script runs what the script ran.

The original and the imported job run with stand-ins for every program, and the words, folders,
environments and exit codes of all their processes are the same. The scripts are built from pieces
of ordinary bash before, and ways to launch after.
"""

from pathlib import Path

import pytest
from oracle import compare
from ordinary_bash import LAUNCHES, PIECES, build

#: plain ones: they become clean specs
CLEAN = {(piece, "python") for piece in ("literals", "quotes", "exports", "modules")}
CLEAN |= {(piece, "python") for piece in ("guard",)}
CLEAN |= {(piece, "srun torchrun") for piece in ("literals", "appended", "conda", "arithmetic")}
KEPT = ("loop", "twice", "evaluated", "input", "pipe", "list")
KEPT += ("agents", "inner shell", "inner lines", "inner agents", "inner torchrun")
CLEAN |= {("nothing", launch) for launch in LAUNCHES if launch not in KEPT}
#: every piece before a launch in turn, and every launch after some pieces
ALL = list(LAUNCHES)
PAIRS = (
    CLEAN
    | {(piece, ALL[index % len(ALL)]) for index, piece in enumerate(PIECES)}
    | {(piece, launch) for launch in LAUNCHES for piece in ("nothing", "exports")}
)
#: launches of which one that fails does not end the script, or whose torch is tried before
UNFAILING = ("loop", "twice", "torchrun", "srun torchrun", "mpirun torchrun")
PAIRS -= {("nested quotes", "evaluated")}  # eval takes its apostrophe for an open quote
PAIRS -= {("folders", "input")}  # which has no input there

#: of which the quick tests run these
FEW = {pair for index, pair in enumerate(sorted(PAIRS)) if index % 25 == 0}


def check(piece: str, launch: str, folder: Path) -> None:
    code = 3 if piece == "nothing" and launch not in UNFAILING else 0
    kind, theirs, ours = compare(build(piece, launch), folder, code=code)
    assert theirs[0] == code
    assert theirs[1], "the script has run nothing"
    assert ours == theirs
    assert kind == "clean" or (piece, launch) not in CLEAN


@pytest.mark.slow
@pytest.mark.parametrize(("piece", "launch"), sorted(PAIRS - FEW))
def test_the_imported_job_runs_what_the_script_ran(piece: str, launch: str, tmp_path: Path) -> None:
    check(piece, launch, tmp_path)


@pytest.mark.parametrize(("piece", "launch"), sorted(FEW))
def test_the_imported_job_runs_the_same(piece: str, launch: str, tmp_path: Path) -> None:
    check(piece, launch, tmp_path)
