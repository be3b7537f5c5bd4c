"""A run that is killed ends as one that is not: a rank, an agent, all of it; see the benchmark."""

import sys
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import IO

import pytest

pytest.importorskip("torch", reason="the trainer needs torch")

from forked import Forked, start_python
from support import load_program

from .conftest import ROOT

pytestmark = pytest.mark.torch


def start_agent(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    stdout: IO[str],
    stderr: IO[str],
    start_new_session: bool,
) -> Forked:
    """Start an agent as the benchmark does, but with torch imported already."""
    assert stdout is stderr
    return start_python(argv, cwd=ROOT, env=env, stdout=stdout)


def test_three_kills_inside_checkpoints_change_no_bit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    benchmark = load_program(ROOT / "benchmarks" / "trainer_kill.py")
    monkeypatch.setattr(benchmark, "subprocess", SimpleNamespace(Popen=start_agent))
    monkeypatch.setattr(sys, "argv", ["trainer_kill.py", "--kills", "3"])
    benchmark.main()
    printed = capsys.readouterr().out
    assert "4 starts" in printed
    assert printed.count("inside a checkpoint") == 3
