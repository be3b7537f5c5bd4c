"""How the processes of direct mode leave one record for their node."""

import subprocess
from pathlib import Path

import pytest
from support import ROOT

RUNTIME = ROOT / "templates" / "runtime"


def test_two_processes_that_end_at_once_both_end_well(tmp_path: Path) -> None:
    """Each finds the node's record complete, and one of them is too late to close it."""
    program = f"""
set -euo pipefail
. {RUNTIME}/direct.sh
cd {tmp_path}; attempt_dir=$PWD node=n1 node_rank=0 processes=(2)
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


@pytest.mark.parametrize("code", [0, 3])
def test_the_code_of_a_node_is_that_of_its_processes(code: int, tmp_path: Path) -> None:
    """`wait -n` says 127 where the last process ends after bash has looked for ended ones."""
    attempt = tmp_path / "script"
    attempt.write_text(f"exit {code}\n")
    program = f"""
set -euo pipefail
. {RUNTIME}/processes.sh
processes=(2)
wait() {{
    if [[ $1 == -n ]]; then builtin wait "${{started[@]}}" || :; return 127; fi
    builtin wait "$@"
}}
run_processes 0
"""
    done = subprocess.run(["bash", "-c", program, attempt], check=False, timeout=120)
    assert done.returncode == code
    assert (tmp_path / "failed").exists() == bool(code)
