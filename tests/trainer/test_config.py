"""The flags: what they accept, and that asking for help costs nothing."""

import subprocess
import sys

import pytest

from jobgen.trainer.config import UsageError, parse_flags

from .conftest import ROOT


def test_a_model_brings_the_batch_and_rate_that_suit_it_and_flags_override_them() -> None:
    assert parse_flags([]).batch_tokens == 24 * 64
    config = parse_flags(["--model", "gpt-small", "--context", "128"])
    assert (config.context, config.batch_tokens, config.lr) == (128, 16384, 1e-3)


def test_the_run_folder_is_the_jobs_when_there_is_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JOBGEN_RUN_DIR", raising=False)
    assert str(parse_flags([]).out) == "runs/trainer"
    monkeypatch.setenv("JOBGEN_RUN_DIR", "/scratch/run 1")
    assert str(parse_flags([]).out) == "/scratch/run 1"
    assert str(parse_flags(["--out", "here"]).out) == "here"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--stepz", "3"], "unrecognized arguments: --stepz 3"),
        (["--step", "3"], "unrecognized arguments: --step 3"),
        (["--steps", "0"], "--steps: 0 is less than 1"),
        (["--steps", "many"], "--steps: invalid integer value: 'many'"),
        (["--lr", "nan"], "--lr: nan is not a positive number"),
        (["--lr", "0"], "--lr: 0 is not a positive number"),
        (["--model", "gpt-9"], "--model: invalid choice: 'gpt-9'"),
        (["--batch-tokens", "1500"], "1500 is not a whole number of sequences of 64; 1472 would"),
    ],
)
def test_a_wrong_flag_is_refused_with_what_is_wrong(flags: list[str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_flags(flags)
    assert message in str(caught.value)


@pytest.mark.parametrize(("flag", "status"), [("--help", 0), ("--stepz", 2)])
def test_help_and_a_wrong_flag_need_no_torch(flag: str, status: int) -> None:
    without_torch = (
        "import runpy, sys; sys.modules['torch'] = None; sys.argv[1:] = [sys.argv[1]];"
        "runpy.run_module('jobgen.trainer', run_name='__main__')"
    )
    argv = [sys.executable, "-c", without_torch, flag]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    assert "--batch-tokens" in done.stdout if status == 0 else "--stepz" in done.stderr


def test_without_torch_the_trainer_says_which_python_lacks_it() -> None:
    without_torch = (
        "import runpy, sys; sys.modules['torch'] = None; sys.argv[1:] = [];"
        "runpy.run_module('jobgen.trainer', run_name='__main__')"
    )
    argv = [sys.executable, "-c", without_torch]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "torch" in done.stderr
    assert sys.executable in done.stderr
    assert "Traceback" not in done.stderr
