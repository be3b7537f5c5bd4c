"""`jobgen diagnose` is right of every job in `faults/`, as `benchmarks/diagnosis.py` counts it."""

from pathlib import Path

import pytest
from fault_archive import read_faults
from support import ROOT, load_program

diagnosis = load_program(ROOT / "benchmarks" / "diagnosis.py")


def test_each_recorded_fault_is_told_right(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for fault in read_faults():
        (tmp_path / fault.name).mkdir()
        with subtests.test(fault.name):
            found = fault.diagnose(tmp_path / fault.name)
            assert diagnosis.judge(fault, found) == [], found.as_text()
