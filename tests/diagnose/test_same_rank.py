"""The script names no other process than `jobgen diagnose`, in any job of `faults/`.

Its function runs over what each job left, as at the end of the job.
"""

import re
import subprocess
from pathlib import Path

import pytest
from fault_archive import Fault, read_faults
from support import ROOT

from jobgen.diagnose import Diagnosis

pytestmark = pytest.mark.slow

CORE = ROOT / "templates" / "runtime" / "core.sh"
# Older scripts kept the ends of processes elsewhere.
_OF_TODAY = re.compile(r"^jobgen: \S+ is node \d+ of start", re.MULTILINE)
FIND = r"""
eval "$(sed -nE '/^(has_lost_peer|find_first_error)\(\)/,/^\}/p' "$1")"
run_dir=$2 attempt_dir=$2/attempts/$3 attempt=$3 job_id=1 reason=''
mapfile -t NODES <"$attempt_dir/nodes"
find_first_error
echo "$reason"
"""


def ask_script(folder: Path) -> tuple[str, int | None]:
    """The node and the rank that the script's function finds."""
    attempt = max(map(int, (path.name for path in folder.glob("attempts/[0-9]*"))))
    words = ["bash", "-c", FIND, "bash", str(CORE), str(folder), str(attempt)]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    named = re.match(r": (?:rank (\d+) on )?([\w.-]+), by ", said)
    return (named[2], int(named[1]) if named[1] else None) if named else ("", None)


def differ(fault: Fault, found: Diagnosis, folder: Path) -> str:
    """What the two say, if they do not agree on whose failure it is."""
    role = f"roles/{found.role}" if found.role else ""
    node, rank = ask_script(folder / fault.job / role)
    ranks, nodes = {*found.ranks, found.rank}, {*found.nodes, found.node}
    agree = node in nodes | {""} and rank in ranks | {None}
    # The script names who failed first. Where another had made it fail (it could not write what
    # this one then missed), the headline says who, and in the same words that this one failed.
    agree = agree or f"; then rank {rank} on {node} failed: " in found.headline
    return "" if agree else f"the script: rank {rank} on {node}; diagnose: {found.who}"


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
            assert differ(fault, fault.diagnose(folder), folder) == ""
    assert compared >= 100
