"""How the processes of direct mode leave one record for their node."""

import subprocess
from pathlib import Path

from support import ROOT

RUNTIME = ROOT / "templates" / "runtime"


def test_two_processes_that_end_at_once_both_end_well(tmp_path: Path) -> None:
    """Each finds the node's record complete, and one of them is too late to close it."""
    program = f"""
set -euo pipefail
. {RUNTIME}/direct.sh
cd {tmp_path}; attempt_dir=$PWD node=n1 node_rank=0 PROCESSES=(2)
wc() {{
    until [[ -e node-0.ended || $(command wc -l <node-0.ranks) == 2 ]]; do :; done
    sleep 0.2
    echo 2
}}
for rank in 0 1; do
    (end_process 0) &
    started+=($!)
done
for process in "${{started[@]}}"; do wait "$process"; done
"""
    subprocess.run(["bash", "-c", program], check=True, timeout=120)
    assert sorted((tmp_path / "node-0.ended").read_text().splitlines()) == ["0 0 n1", "1 0 n1"]
    assert not (tmp_path / "node-0.ranks").exists()
