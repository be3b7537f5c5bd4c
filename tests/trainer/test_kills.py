"""A run that is killed ends as one that is not: a rank, an agent, all of it; see the benchmark."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="the trainer needs torch")

from .conftest import ROOT

pytestmark = pytest.mark.torch


def test_three_kills_inside_checkpoints_change_no_bit() -> None:
    script = ROOT / "benchmarks" / "trainer_kill.py"
    done = subprocess.run(
        [sys.executable, str(script), "--kills", "3"],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 starts" in done.stdout
    assert done.stdout.count("inside a checkpoint") == 3
