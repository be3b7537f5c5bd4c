"""The example of a user's own script: it trains, is killed, and continues."""

import os
import signal
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the example needs torch")

from .conftest import ROOT, Run, Start  # noqa: E402

pytestmark = pytest.mark.torch

SCRIPT = ROOT / "examples" / "tutorial_multinode.py"
EPOCHS = 60


def losses(run: Run) -> dict[int, float]:
    lines = [line.split() for line in run.output.splitlines() if line.startswith("epoch ")]
    return {int(words[1]): float(words[3]) for words in lines}


def test_it_continues_after_a_kill_and_ends_where_it_would_have(
    start: Start, tmp_path: Path
) -> None:
    def run(name: str) -> Run:
        flags = ("--epochs", EPOCHS, "--samples", 1024, "--save-every", 10)
        flags += ("--snapshot", tmp_path / name / "s.pt")
        return start(tmp_path / name, *flags, processes=2, program=(str(SCRIPT),))

    whole = run("whole")
    assert whole.wait() == 0, whole.output
    assert losses(whole)[0] > 10
    assert losses(whole)[EPOCHS - 1] < 0.02  # the noise in the data is 0.01

    killed = run("killed")
    killed.wait_for(lambda: max(losses(killed), default=0) >= 12)
    os.kill(killed.pid_of(0), signal.SIGKILL)
    assert killed.wait() != 0
    again = run("killed")
    assert again.wait() == 0, again.output

    first = min(losses(again))
    assert first >= 10
    assert f"continuing with epoch {first} from " in again.output
    assert losses(again) == {e: loss for e, loss in losses(whole).items() if e >= first}
    saved, expected = (
        torch.load(tmp_path / name / "s.pt", weights_only=True) for name in ("killed", "whole")
    )
    assert saved["next_epoch"] == expected["next_epoch"] == EPOCHS
    assert torch.equal(saved["model"]["weight"], expected["model"]["weight"])
    state = (saved["optimizer"]["state"][0], expected["optimizer"]["state"][0])
    assert torch.equal(state[0]["exp_avg"], state[1]["exp_avg"])
