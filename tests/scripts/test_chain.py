"""Whether a chain goes on: the script decides at the end of a start."""

import subprocess
from pathlib import Path

from support import ROOT


def test_a_full_disk_is_no_loss_of_nodes(tmp_path: Path) -> None:
    """The nodes' last records are missing, as nothing can be written any more."""
    (tmp_path / "nodes").write_text("n1\nn2\n")
    (tmp_path / "node-0.started").touch()
    (tmp_path / "node-1.started").touch()
    (tmp_path / "lost").symlink_to("/dev/full")
    program = f"""
        has() {{ false; }}; say() {{ echo "$*"; }}
        . {ROOT}/templates/runtime/chain.sh
        AT_MOST=3 THEN=requeue NODES=(n1 n2) attempt=0 run_dir={tmp_path} attempt_dir={tmp_path}
        word='' lost='' stop='' warned='' status=1
        settle_chain
        echo "$word$status$reason"
    """
    ended = subprocess.run(["bash", "-c", program], capture_output=True, text=True)
    assert ended.stdout == f"1: nothing can be written to {tmp_path} any more\n"
