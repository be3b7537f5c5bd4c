"""Every task trains, stops, and continues to the same bits; also one of the user's own."""

import json
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the trainer needs torch")
pytestmark = pytest.mark.torch

from jobgen.trainer import commands, run, tasks  # noqa: E402
from jobgen.trainer.checkpoint import Checkpoints, read_whole  # noqa: E402
from jobgen.trainer.config import BusyError, FlagError, TrainerError  # noqa: E402
from jobgen.trainer.distributed.world import leave  # noqa: E402
from jobgen.trainer.flags import parse_flags  # noqa: E402
from jobgen.trainer.output.files import lock  # noqa: E402

from .conftest import ROOT, TEXT, TOY, Start  # noqa: E402

OWN_TASK = '''
"""The parity of two bits: what a user's own task may look like."""

import torch
from torch import nn
from torch.nn import functional

from jobgen.trainer.tasks import Task

DEFAULTS = {"batch_samples": 4, "lr": 0.05, "weight_decay": 0.0}


class Parity(Task):
    unit, units_per_item, train_items, val_items = "samples", 1, 4, 4

    def build(self):
        return nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))

    def batch(self, items, *, training):
        bits = torch.tensor([[item & 1, item >> 1] for item in items])
        return bits.float(), bits.sum(1) % 2

    def loss(self, model, batch):
        bits, parity = batch
        return functional.cross_entropy(model(bits), parity, reduction="sum")


def load(config):
    return Parity()
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the tasks need: a text, a task of one's own."""
    folder = tmp_path_factory.mktemp("tasks")
    (folder / "own.py").write_text(OWN_TASK)
    (folder / "text.txt").write_text(TEXT)
    (folder / "numbers.txt").write_text(" ".join(map(str, range(2000))))
    with (folder / "chats.jsonl").open("w") as stream:
        for number in range(400):
            row = {"prompt": f"{number % 9} and one is", "completion": f" {number % 9 + 1}"}
            stream.write(json.dumps(row) + "\n")
    for name in ("text", "numbers"):
        flags = ["--data", str(folder / f"{name}.txt"), "--tokenizer", "byte"]
        commands.prepare(parse_flags([*flags, "--tokens", str(folder / name)]))
    return folder


@pytest.fixture
def flags_of(folder: Path) -> Callable[[str], list[str]]:
    """The flags of a task, by a short name for it."""

    def flags(name: str) -> list[str]:
        text = ["--data", str(folder / "text.txt"), "--context", "16", "--batch-tokens", "64"]
        if name == "digits":
            pytest.importorskip("sklearn", reason="its images come with scikit-learn")
        return {
            "gpt": ["--task", "gpt", *text],
            "bytes": ["--tokenizer", "byte", *text],
            "completions": ["--tokenizer", "byte", "--data", f"{folder}/chats.jsonl", *text[2:]],
            "fp16": ["--dtype", "fp16", *text],
            "toy": ["--task", TOY],
            "digits": ["--task", str(ROOT / "examples/digits_task.py"), "--model", "cnn"],
            "own": ["--task", str(folder / "own.py")],
        }[name]

    return flags


def train(out: Path, *flags: str) -> None:
    """Train in this process."""
    try:
        device = () if "--dry-run" in flags else ("--device", "cpu")
        commands.train(parse_flags(["--out", str(out), *device, *flags]))
    finally:
        leave()


def newest(out: Path) -> Path:
    path, skipped = Checkpoints(out).newest_whole()
    assert path is not None
    assert not skipped
    return path


def losses(out: Path) -> dict[int, float]:
    lines = map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
    return {line["step"]: line["loss"] for line in lines if line["kind"] == "step"}


NAMES = ["gpt", "bytes", "completions", "fp16", "toy", "digits", "own"]


@pytest.mark.parametrize("name", NAMES)
def test_a_task_trains_and_continues_to_the_same_bits(
    name: str, flags_of: Callable[[str], list[str]], tmp_path: Path
) -> None:
    flags = [*flags_of(name), "--log-every", "1", "--save-every", "12", "--warmup-steps", "2"]
    train(tmp_path / "whole", *flags, "--steps", "24")
    loss = losses(tmp_path / "whole")
    assert min(loss[step] for step in range(20, 25)) < 0.9 * loss[1]

    train(tmp_path / "halves", *flags, "--steps", "24")
    last = newest(tmp_path / "halves")
    last.rename(tmp_path / last.name)
    train(tmp_path / "halves", *flags, "--steps", "24")
    again = read_whole(newest(tmp_path / "halves"))
    for part, tensor in read_whole(newest(tmp_path / "whole")).items():
        assert torch.equal(tensor, again[part]), part
    assert losses(tmp_path / "halves") == loss


@pytest.mark.parametrize("how", ["a task without items for it", "--val-every 0"])
def test_a_run_without_validation_completes(
    how: str,
    flags_of: Callable[[str], list[str]],
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    flags = [*flags_of("bytes"), "--val-every", "0"]
    if how.startswith("a task"):
        own = (folder / "own.py").read_text()
        assert 'val_items = "samples", 1, 4, 4' in own
        own = own.replace('val_items = "samples", 1, 4, 4', 'val_items = "samples", 1, 4, 0')
        (tmp_path / "none.py").write_text(own)
        flags = ["--task", str(tmp_path / "none.py")]
    train(tmp_path / "run", *flags, "--steps", "4", "--log-every", "1")
    assert (tmp_path / "run" / "DONE").exists()
    lines = map(json.loads, (tmp_path / "run" / "metrics.jsonl").read_text().splitlines())
    assert "val" not in {line["kind"] for line in lines}
    said = "note: too few items to keep any for validation" in capsys.readouterr().out
    assert said == how.startswith("a task"), "where it was not asked for"


def count_compiles() -> int:
    return int(torch._dynamo.utils.counters["stats"]["unique_graphs"])


@pytest.mark.filterwarnings("default")  # of the compiler, about itself
def test_a_compiled_run_is_compiled_once_for_training_and_once_for_validation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a compiler that captures as Inductor's does, and writes no C++: that takes a minute."""
    usual = torch.compile
    monkeypatch.setattr(torch, "compile", lambda f, **how: usual(f, backend="aot_eager", **how))
    flags = ["--context", "16", "--batch-tokens", "64", "--tokens", str(tmp_path / "tokens")]
    flags += ["--log-every", "1", "--save-every", "4", "--val-every", "2", "--val-items", "9"]
    flags += ["--schedule", "constant"]
    train(tmp_path / "plain", *flags, "--steps", "8")
    for steps in ("4", "8"):
        torch._dynamo.reset()
        before = count_compiles()
        train(tmp_path / "compiled", *flags, "--steps", steps, "--compile")
        # Not the items that are left in a validation.
        assert count_compiles() - before == 2
    expected = losses(tmp_path / "plain")
    assert losses(tmp_path / "compiled") == pytest.approx(expected, abs=1e-5)


def test_two_runs_do_not_share_a_folder(
    flags_of: Callable[[str], list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(tmp_path, *flags_of("toy"), "--steps", "2")
    status = (tmp_path / "status.json").read_text()
    monkeypatch.setattr(run, "_PATIENCE", 0)
    with (
        lock(tmp_path / ".lock", patience=0),
        pytest.raises(BusyError, match="another run writes here"),
    ):
        train(tmp_path, *flags_of("toy"), "--steps", "4")
    assert (tmp_path / "status.json").read_text() == status, "it is the other run's"
    train(tmp_path, *flags_of("toy"), "--steps", "4")
    assert [*losses(tmp_path)] == [2, 4]


def test_where_preparing_fails_all_processes_end_and_name_the_cause(
    start: Start, tmp_path: Path
) -> None:
    run = start(tmp_path / "run", "--data", "absent.txt", processes=2)
    assert run.wait() == 1, run.output
    assert "--data absent.txt: No such file" in str(run.status()["reason"])
    assert run.output.count("jobgen.trainer: error: --data absent.txt") == 1


@pytest.fixture
def trained(flags_of: Callable[[str], list[str]], tmp_path: Path) -> Callable[[str], Path]:
    """Train a few steps of a task; returns the run folder."""

    def trained(name: str) -> Path:
        train(tmp_path / "run", *flags_of(name), "--steps", "2")
        return tmp_path / "run"

    return trained


def do(command: str, out: Path, *flags: str) -> None:
    getattr(commands, command)(parse_flags(["--out", str(out), *flags], recorded=True))


def test_sample_continues_a_prompt_with_the_trained_model(
    trained: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    out = trained("gpt")
    capsys.readouterr()
    do("sample", out, "--prompt", "the quick", "--sample-tokens", "30")
    first = capsys.readouterr().out
    assert first.startswith("the quick")
    assert len(first) == len("the quick") + 30 + 1
    do("sample", out, "--prompt", "the quick", "--sample-tokens", "30")
    assert capsys.readouterr().out == first
    do("sample", out, "--prompt", "the quick", "--sample-tokens", "30", "--seed", "1")
    assert capsys.readouterr().out != first
    with pytest.raises(TrainerError, match="the character 'Q' is not in the text"):
        do("sample", out, "--prompt", "Quick")


FAILING_SAMPLE = f"""
import runpy

toy = runpy.run_path({TOY!r})
DEFAULTS = toy["DEFAULTS"]

class Failing(toy["Toy"]):
    def sample(self, model):
        raise RuntimeError("a sample that fails")

def load(config):
    return Failing()
"""


def test_what_is_done_stays_done_whatever_a_sample_would_do(tmp_path: Path) -> None:
    """A sample is made on request: no run fails of it after its last step."""
    (tmp_path / "slow.py").write_text(FAILING_SAMPLE)
    train(tmp_path / "run", "--task", str(tmp_path / "slow.py"), "--steps", "3")
    assert json.loads((tmp_path / "run" / "status.json").read_text())["state"] == "completed"
    assert (tmp_path / "run" / "DONE").exists()
    with pytest.raises(RuntimeError, match="a sample that fails"):
        do("sample", tmp_path / "run")


def test_prepare_is_training_without_the_training(
    flags_of: Callable[[str], list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--out", str(tmp_path), "--tokens", str(tmp_path / "shared"), *flags_of("gpt")]
    commands.prepare(parse_flags(flags))
    assert "tokens of" in capsys.readouterr().out
    before = (tmp_path / "shared" / "manifest.json").stat().st_mtime_ns
    commands.prepare(parse_flags(flags))
    assert "; the files are whole" in capsys.readouterr().out
    train(tmp_path / "run", "--steps", "1", *flags[2:])
    assert (tmp_path / "shared" / "manifest.json").stat().st_mtime_ns == before
    assert not (tmp_path / "run" / "tokens").exists()
    commands.prepare(parse_flags(["--task", TOY]))
    assert "has nothing to prepare" in capsys.readouterr().out


def test_a_dry_run_says_what_a_run_would_take(
    flags_of: Callable[[str], list[str]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    flags = [*flags_of("gpt"), "--strategy", "fsdp", "--batch-tokens", "128", "--steps", "9"]
    train(tmp_path, *flags, "--dry-run")
    lines = capsys.readouterr().out
    model = tasks.load_task(parse_flags(["--out", str(tmp_path), *flags])).build()
    parameters = sum(parameter.numel() for parameter in model.parameters())
    assert f"gpt gpt-tiny: {parameters:,} parameters" in lines
    assert "128 tokens = 8 items of 16; 1 micro-batches of 4 on each of 2 ranks" in lines
    assert "9 steps, 1,152 tokens" in lines
    assert f"{16 * parameters / 2 / 1e9:.2f} parameters, gradients and optimizer" in lines
    if not torch.cuda.is_available():
        assert "a rank in bf16 (assuming GPUs, though none is visible here" in lines
    train(tmp_path, *flags, "--dry-run", "--device", "cpu")
    assert "a rank in fp32 (default on cpu)" in capsys.readouterr().out
    assert not (tmp_path / "checkpoints").exists()


def test_a_batch_in_the_wrong_unit_is_refused(folder: Path, tmp_path: Path) -> None:
    own = folder / "own.py"
    with pytest.raises(FlagError, match="--batch-tokens: this task wants --batch-samples"):
        parse_flags(["--task", str(own), "--batch-tokens", "64"])
    bare = tmp_path / "bare.py"
    bare.write_text(OWN_TASK.replace("DEFAULTS", "ASIDE"))
    with pytest.raises(TrainerError, match="counts samples, 1 an item; give a multiple of them as"):
        train(tmp_path, "--task", str(bare), "--batch-tokens", "64", "--steps", "1")


def test_the_task_of_the_documentation_trains(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "reference" / "trainer.md").read_text()
    (tmp_path / "mine.py").write_text(text.partition("```python\n")[2].partition("```")[0])
    flags = ("--task", str(tmp_path / "mine.py"), "--steps", "40", "--log-every", "1")
    train(tmp_path / "run", *flags, "--lr", "0.1")
    found = losses(tmp_path / "run")
    assert found[40] < 0.5 * found[1]


def test_the_commands_are_started_by_name(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def started(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["trainer", *arguments])
        main: Any = runpy.run_module("jobgen.trainer.__main__", run_name="trainer")["main"]
        return int(main())

    text = str(folder / "text.txt")
    assert started("prepare", "--out", str(tmp_path), "--data", text) == 0
    assert (tmp_path / "tokens" / "manifest.json").exists()
    assert started("smaple", "--out", str(tmp_path)) == 2
    assert "'smaple' is not a command; use train, prepare, sample" in capfd.readouterr().err
    assert started("sample", "--out", str(tmp_path)) == 2
    assert "this folder has no run" in capfd.readouterr().err
