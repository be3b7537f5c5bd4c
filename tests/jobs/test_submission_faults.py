"""`benchmarks/submission.py` in short: no job is lost and none is doubled, whatever happens."""

import os
import shutil
import subprocess
import sys

import pytest
from cluster_fixtures import why_not
from support import ROOT


@pytest.mark.slow
def test_no_fault_of_a_few_of_each_kind_loses_or_doubles_a_job() -> None:
    reason = why_not() or ("" if shutil.which("strace") else "needs strace")
    if reason:
        pytest.skip(reason)
    argv = [sys.executable, str(ROOT / "benchmarks/submission.py"), "--every", "80"]
    ended = subprocess.run(argv, capture_output=True, text=True, env=dict(os.environ))
    words = ended.stdout.splitlines()[-1].split()
    assert words[0] == "all", ended.stdout + ended.stderr
    assert int(words[1]) >= 90, ended.stdout
    assert words[2:6] == ["0", "0", "0", "0"], ended.stdout
    assert ended.returncode == 0
