"""The benchmark for GPUs runs to its end on a CPU, so that it does where there is a GPU."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the trainer needs torch")

from .conftest import ROOT

pytestmark = pytest.mark.torch


def test_the_small_mode_measures_every_row(tmp_path: Path) -> None:
    argv = [sys.executable, str(ROOT / "benchmarks" / "trainer_gpu.py"), "--small"]
    done = subprocess.run(
        [*argv, "--json", str(tmp_path / "rows.json")],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {row["name"]: row for row in json.loads((tmp_path / "rows.json").read_text())["lines"]}
    assert len(rows) == 16
    without = {name for name, row in rows.items() if "missing" in row}
    with_hf = importlib.util.find_spec("transformers") and importlib.util.find_spec("accelerate")
    assert without == (set() if with_hf else {"Hugging Face's Trainer"}), rows
    for name in rows.keys() - without:
        assert rows[name]["tokens_per_s"] > 0
        assert f"\n{name} " in done.stdout
