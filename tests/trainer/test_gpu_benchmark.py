"""The benchmark for GPUs runs to its end on a CPU, so that it does on a GPU."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the trainer needs torch")

from support import load_program

from .conftest import ROOT

pytestmark = pytest.mark.torch

BENCHMARK = ROOT / "benchmarks" / "trainer_gpu.py"


def test_a_row_that_hangs_is_killed_and_the_next_ones_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The JSON file has all rows so far, whatever happens then."""
    benchmark = load_program(BENCHMARK)
    monkeypatch.setattr(benchmark, "list_rows", lambda scale, extra: ["hang", "checkpoint", "bf16"])
    file = tmp_path / "rows.json"
    monkeypatch.setattr(
        sys,
        "argv",
        [str(BENCHMARK), "--small", "--json", str(file), "--row-seconds", "600", "--minutes", "30"],
    )
    usual = benchmark.run_row

    def run_row(row: str, folder: Path, scale: object, *, seconds: float) -> dict[str, object]:
        line: dict[str, object] = usual(row, folder, scale, seconds=3 if row == "hang" else seconds)
        rows = json.loads(file.read_text())["rows"] if file.exists() else []
        assert len(rows) == ["hang", "checkpoint", "bf16"].index(row), "written after each row"
        return line

    monkeypatch.setattr(benchmark, "run_row", run_row)
    assert benchmark.main() == 1, "a row did not run"
    hang, checkpoint, bf16 = json.loads(file.read_text())["rows"]
    assert hang["timeout"] == 3
    assert "seconds" in checkpoint
    assert checkpoint.get("right", True)
    assert bf16["row"] == "bf16"


def test_without_a_gpu_it_says_so() -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is one")
    argv = [sys.executable, str(BENCHMARK), "--json", "/dev/null"]
    ended = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "no GPU is visible; --small runs on a CPU" in ended.stderr
