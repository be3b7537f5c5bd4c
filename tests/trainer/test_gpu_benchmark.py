"""The benchmark for GPUs runs to its end on a CPU, so that it does where there is a GPU."""

import importlib.util
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from forked import start_python
from support import load_program

pytest.importorskip("torch", reason="the trainer needs torch")

from .conftest import ROOT

pytestmark = pytest.mark.torch


class Worker:
    """A process of the benchmark, but with torch imported already; its output is one text."""

    def __init__(
        self, argv: Sequence[str], *, env: Mapping[str, str], stdout: int, stderr: int, text: bool
    ) -> None:
        self._output = tempfile.TemporaryFile("w+")  # noqa: SIM115
        known = {"PYTHONPATH": str(ROOT), "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
        self._process = start_python(argv, cwd=ROOT, env={**env, **known}, stdout=self._output)
        self.returncode: int | None = None

    def communicate(self, timeout: float) -> tuple[str, None]:
        """Return what it has printed once it has ended."""
        self.returncode = self._process.wait(timeout)
        with self._output as file:
            file.seek(0)
            return file.read(), None


def test_the_small_mode_measures_every_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = ROOT / "benchmarks" / "trainer_gpu.py"
    benchmark = load_program(path)
    used = SimpleNamespace(Popen=Worker, PIPE=-1, STDOUT=-2)
    monkeypatch.setattr(benchmark, "subprocess", used)
    argv = [str(path), "--small", "--json", str(tmp_path / "rows.json")]
    monkeypatch.setattr(sys, "argv", argv)
    assert benchmark.main() == 0
    printed = capsys.readouterr().out
    rows = {row["name"]: row for row in json.loads((tmp_path / "rows.json").read_text())["lines"]}
    assert len(rows) == 16
    without = {name for name, row in rows.items() if "missing" in row}
    with_hf = importlib.util.find_spec("transformers") and importlib.util.find_spec("accelerate")
    assert without == (set() if with_hf else {"Hugging Face's Trainer"}), rows
    for name in rows.keys() - without:
        assert rows[name]["tokens_per_s"] > 0
        assert f"\n{name} " in printed
