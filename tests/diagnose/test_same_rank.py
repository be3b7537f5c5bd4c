"""The script names no other process than `jobgen diagnose`, in any job of `faults/`.

Its function runs over what each job left, as at the end of the job.
"""

import re
from pathlib import Path

import pytest
from fault_archive import read_faults
from script_says import differ

pytestmark = pytest.mark.slow

# Older scripts kept the ends of processes elsewhere.
_OF_TODAY = re.compile(r"^jobgen: \S+ is node \d+ of start", re.MULTILINE)


def test_the_script_names_the_rank_that_diagnose_names(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    compared = 0
    for fault in read_faults():
        own = (text for name, (_, text) in fault.files.items() if name.startswith(fault.job + "/"))
        if fault.state.name != "failed" or not any(map(_OF_TODAY.search, own)):
            continue
        if {"run-folder", "launch-failed"} & {*fault.causes}:
            continue  # a node that could not begin has no log; the scheduler's words tell
        compared += 1
        with subtests.test(fault.name):
            folder = tmp_path / fault.name
            folder.mkdir()
            found = fault.diagnose(folder)
            # Of a role that was not ready the script knows why before it looks for a process.
            assert found.cause == "role-not-ready" or differ(fault, found, folder) == ""
    assert compared >= 100
