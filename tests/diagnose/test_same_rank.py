"""What `jobgen diagnose` says is right, and the script names no other process, in all of `faults/`.

The script's function runs over what each job left, as at the end of the job. Most of the time goes
into diagnosing a thousand jobs, so it is done once for both.
"""

import re
from collections import Counter
from pathlib import Path

import pytest
from fault_archive import Fault, read_faults
from script_says import differ
from support import ROOT, load_program

pytestmark = pytest.mark.slow

# Older scripts kept the ends of processes elsewhere.
_OF_TODAY = re.compile(r"^jobgen: \S+ is node \d+ of start", re.MULTILINE)


def can_compare(fault: Fault) -> bool:
    """Whether the script of today would name a process; of a node that could not begin it has no
    log, and the scheduler's words tell."""
    own = (text for name, (_, text) in fault.files.items() if name.startswith(fault.job + "/"))
    failed = fault.state.name == "failed" and any(map(_OF_TODAY.search, own))
    return failed and {"run-folder", "launch-failed"}.isdisjoint(fault.causes)


def test_diagnose_is_right_and_the_script_names_the_rank_that_it_names(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    benchmark = load_program(ROOT / "benchmarks" / "diagnosis.py")
    compared, counts, faults = 0, Counter[str](), read_faults()
    for fault in faults:
        with subtests.test(fault.name):
            folder = tmp_path / fault.name
            folder.mkdir()
            found = fault.diagnose(folder)
            counts.update({*benchmark.judge(fault, found)} or {"right"})
            if can_compare(fault):
                compared += 1
                # Of a role that was not ready the script knows why before it looks for a process.
                assert found.cause == "role-not-ready" or differ(fault, found, folder) == ""
    told = f"{counts}; python benchmarks/diagnosis.py names them"
    assert not benchmark.is_poor(counts, len(faults)), told
    assert compared >= 100
