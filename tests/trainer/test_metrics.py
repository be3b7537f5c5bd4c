"""The metrics file over restarts."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from late import import_late

from jobgen.trainer import tasks
from jobgen.trainer.config import Config
from jobgen.trainer.flags import parse_flags

if TYPE_CHECKING:
    import torch

    from jobgen.trainer.output.metrics import Log, StepNumbers, find_slow, look_up_peak

__all__ = ["import_late"]

FACTS = {
    "parameters": 1,
    "unit": "tokens",
    "units_per_item": 64,
    "world_size": 4,
    "flops_per_unit": 1000.0,
    "peak_flops": 3.84e6,
}


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    monkeypatch.delenv("JOBGEN_ATTEMPT", raising=False)
    return parse_flags(["--out", str(tmp_path), "--log-every", "2", "--steps", "7"])


@contextmanager
def started(config: Config, *, step: int, writes: bool = True) -> Iterator[Log]:
    log = Log(config, step=step, writes=writes)
    log.start(step, **FACTS)
    yield log


def lines(config: Config) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (config.out / "metrics.jsonl").read_text().splitlines()]


def take_steps(log: Log, first: int, last: int) -> None:
    for step in range(first, last + 1):
        seconds = 0.5 if step % 2 else 1.5
        log.step(show(step, 1 / step, waited=0.0 if step % 2 else 0.3), seconds=seconds)


def show(step: int, loss: float, waited: float = 0.0) -> StepNumbers:
    """What a step of 24 items has shown."""
    return StepNumbers(
        step=step,
        position=24 * step,
        loss=loss,
        learning_rate=0.1,
        grad_norm=1.0,
        memory_gb=2.5,
        waited=waited,
    )


def test_a_number_that_is_not_one_is_null_as_json_has_no_word_for_it(config: Config) -> None:
    with started(config, step=0) as log:
        log.step(show(2, float("nan")), seconds=1.0)
        log.write("val", 2, loss=float("inf"), val_s=1.0)
    text = (config.out / "metrics.jsonl").read_text()
    assert [line["loss"] for line in lines(config)[1:]] == [None, None]
    assert "NaN" not in text
    assert "Infinity" not in text


def test_a_line_says_how_it_went_since_the_line_before(config: Config) -> None:
    with started(config, step=0) as log:
        take_steps(log, 1, 7)
    assert [line["step"] for line in lines(config)] == [0, 2, 4, 6, 7]
    first = lines(config)[1]
    assert first["kind"] == "step"
    assert (first["loss"], first["lr"], first["grad_norm"]) == (0.5, 0.1, 1.0)
    assert (first["step_s"], first["tokens_per_s"], first["tokens"]) == (1.0, 1536.0, 3072)
    assert (first["mfu"], first["data_s"], first["mem_gb"]) == (pytest.approx(0.1), 0.15, 2.5)
    assert (first["step_min_s"], first["step_max_s"]) == (0.5, 1.5)
    assert first["attempt"] == 0
    assert first["time"] > 1.7e9


def test_after_a_restart_each_step_is_there_once(config: Config) -> None:
    with started(config, step=0) as log:
        take_steps(log, 1, 6)
    with (config.out / "metrics.jsonl").open("a") as stream:
        stream.write('{"kind": "step", "attempt": 0, "st')
    with started(config, step=4) as log:
        take_steps(log, 5, 7)
    assert [(line["kind"], line["attempt"], line["step"]) for line in lines(config)] == [
        ("start", 0, 0),
        ("step", 0, 2),
        ("step", 0, 4),
        ("start", 1, 4),
        ("step", 1, 6),
        ("step", 1, 7),
    ]


def test_the_job_counts_the_attempts_when_there_is_one(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JOBGEN_ATTEMPT", "4")
    with started(config, step=0):
        pass
    assert lines(config)[0]["attempt"] == 4


def test_a_line_counts_the_seconds_in_which_checkpoints_held_training_up(config: Config) -> None:
    with started(config, step=0) as log:
        take_steps(log, 1, 3)
        log.write("save", 3, save_s=9.0, ckpt_s=0.25)
        take_steps(log, 4, 7)
    assert [line["ckpt_s"] for line in lines(config) if line["kind"] == "step"] == [0, 0.25, 0, 0]


def test_samples_are_called_samples_and_an_unknown_device_has_no_mfu(config: Config) -> None:
    log = Log(config, step=0, writes=True)
    log.start(0, **FACTS | {"unit": "samples", "peak_flops": None})
    take_steps(log, 1, 2)
    last = lines(config)[-1]
    assert (last["samples"], last["samples_per_s"], last["mfu"]) == (3072, 1536.0, None)
    assert "tokens" not in last


@pytest.mark.parametrize(
    ("name", "peak"),
    [
        ("NVIDIA A100-SXM4-40GB", 312e12),
        ("NVIDIA H100 80GB HBM3", 989e12),
        ("NVIDIA H100 PCIe", 756e12),
        ("NVIDIA H200", 989e12),
        ("NVIDIA GH200 480GB", 989e12),
        ("NVIDIA A10", 125e12),
        ("NVIDIA A10G", None),
        ("NVIDIA A30", 165e12),
        ("NVIDIA A40", 149.7e12),
        ("NVIDIA RTX A4000", None),
        ("NVIDIA L4", 121e12),
        ("NVIDIA L40", 181e12),
        ("NVIDIA L40S", 362e12),
        ("Tesla V100-SXM2-32GB", 125e12),
        ("Tesla V100-PCIE-16GB", 112e12),
        ("Tesla T4", 65e12),
        ("Tesla P100-SXM2-16GB", 21.2e12),
        ("NVIDIA GeForce RTX 4090", None),
        ("x86_64", None),
    ],
)
def test_a_peak_is_known_or_not_guessed(name: str, peak: float | None) -> None:
    assert look_up_peak(name) == peak


@pytest.mark.parametrize(
    ("model", "tokens_per_s", "mfu"),
    # GPT-2 124M at 140 ms for 524,288 tokens on eight H100 is 40.5 % by this formula.
    [("gpt2-124m", 524288 / 0.140 / 8, 0.405)],
)
def test_mfu_is_six_n_and_attention_in_full(
    model: str, tokens_per_s: float, mfu: float, tmp_path: Path
) -> None:
    (tmp_path / "text").write_text("text " * 4000)
    flags = ["--out", str(tmp_path), "--model", model, "--data", str(tmp_path / "text")]
    tasks.prepare_data(parse_flags([*flags, "--tokenizer", "byte"]), fetch=False)
    manifest = tmp_path / "tokens" / "manifest.json"
    content = json.loads(manifest.read_text()) | {"vocabulary": 50257}  # GPT-2's
    manifest.write_text(json.dumps(content))
    task = tasks.load_task(parse_flags(flags))
    with torch.device("meta"):
        built = task.build()
    assert sum(parameter.numel() for parameter in built.parameters()) == 124_475_904
    flops = task.flops_per_unit(built)
    assert flops is not None
    assert tokens_per_s * flops / 989e12 == pytest.approx(mfu, abs=0.001)


def test_a_rank_is_slow_if_it_takes_five_times_as_long_as_the_others() -> None:
    assert find_slow([1.0, 1.2, 8.0, 0.9], 4) == (2, 2.0, 0.25)
    assert find_slow([1.0, 8.0], 4) == (1, 2.0, 0.25)
    assert find_slow([1.0, 1.2, 4.0, 0.9], 4) is None
    assert find_slow([0.01, 0.3], 10) is None, "a few hundredths of a second a step"
    assert find_slow([8.0], 4) is None
    assert find_slow([], 4) is None


def test_other_ranks_write_and_say_nothing(
    config: Config, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = dataclasses.replace(config, out=config.out / "absent")
    with started(elsewhere, step=0, writes=False) as log:
        take_steps(log, 1, 7)
        log.write("val", 7, loss=1.0, val_s=1.0)
    assert not elsewhere.out.exists()
    assert capsys.readouterr().out == ""
