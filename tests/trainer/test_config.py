"""Flags: what they accept, and that asking for help costs nothing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from jobgen.trainer.config import FlagError
from jobgen.trainer.flags import parse_flags

from .conftest import ROOT, TOY


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
        (["--stepz", "3"], "unrecognized arguments: --stepz 3; did you mean --steps?"),
        (["--batch-tokenz=3"], "did you mean --batch-tokens?"),
        (["--lr", "1e-3", "--min-lr", "1e-2"], "--min-lr 0.01 is above --lr 0.001"),
        (["--step", "3"], "unrecognized arguments: --step 3"),
        (["--steps", "0"], "--steps: 0 is not a positive whole number"),
        (["--steps", "many"], "--steps: many is not a positive whole number"),
        (["--lr", "nan"], "--lr: nan is not a positive number"),
        (["--lr", "0"], "--lr: 0 is not a positive number"),
        (
            ["--model", "gpt-tini"],
            "--model: the task does not have 'gpt-tini'; did you mean gpt-tiny?",
        ),
        (["--batch-samples", "8"], "--batch-samples: this task wants --batch-tokens"),
        (["--dtype", "fp8"], "--dtype: 'fp8' is not one of auto, fp32, bf16, fp16"),
        (["--task", "gtp"], "--task gtp: neither gpt nor an existing file"),
        (["--task", "absent.py"], "--task absent.py: neither gpt nor an existing file"),
        (["--batch-tokens", "1500"], "1500 is not a whole number of sequences of 64; 1472 would"),
    ],
)
def test_a_wrong_flag_is_refused_with_what_is_wrong(flags: list[str], message: str) -> None:
    with pytest.raises(FlagError) as caught:
        parse_flags(flags)
    assert message in str(caught.value)


def test_what_is_recorded_gives_the_same_settings_again(tmp_path: Path) -> None:
    flags = ["--no-async-save", "--lr", "0.1", "--tokens", "here"]
    config = parse_flags(["--out", str(tmp_path), *flags])
    (tmp_path / "config.json").write_text(json.dumps(config.as_json()))
    assert parse_flags(["--out", str(tmp_path)], recorded=True) == config
    again = parse_flags(["--out", str(tmp_path), "--seed", "3"], recorded=True)
    assert (again.lr, again.tokens, again.async_save, again.seed) == (0.1, Path("here"), False, 3)
    with pytest.raises(FlagError, match="this folder has no run"):
        parse_flags(["--out", str(tmp_path / "absent")], recorded=True)


def test_a_task_from_a_file_brings_its_defaults(tmp_path: Path) -> None:
    task = tmp_path / "mine.py"
    task.write_text("MODELS: dict = {'one': {'batch_samples': 3}, 'two': {'lr': 5}}\n")
    assert parse_flags(["--task", str(task)]).batch_samples == 3
    assert parse_flags(["--task", str(task), "--model", "two"]).lr == 5


def test_sizes_of_gpt2_bring_a_schedule_that_suits_them_and_short_runs_a_short_warmup() -> None:
    config = parse_flags(["--model", "gpt2-124m", "--steps", "20000"])
    assert (config.batch_tokens, config.save_every, config.warmup_steps) == (524288, 1000, 700)
    assert parse_flags(["--model", "gpt2-124m", "--steps", "500"]).warmup_steps == 50
    assert parse_flags(["--steps", "500", "--warmup-steps", "400"]).warmup_steps == 400


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


@pytest.mark.torch
@pytest.mark.parametrize(("version", "status"), [("2.5.1+cu121", 1), ("2.6.0", 0)])
def test_an_older_torch_is_refused_with_a_line(version: str, status: int) -> None:
    """The version is faked: .ci/run trains with the oldest one itself."""
    pytest.importorskip("torch", reason="the trainer needs torch")
    program = (
        f"import sys, torch; torch.__version__ = {version!r}; from jobgen.trainer import __main__;"
        f"sys.argv[1:] = ['prepare', '--task', {TOY!r}]; sys.exit(__main__.main())"
    )
    argv = [sys.executable, "-c", program]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    assert ("torch 2.5.1+cu121 is too old: the trainer needs 2.6" in done.stderr) == bool(status)
    assert "Traceback" not in done.stderr
