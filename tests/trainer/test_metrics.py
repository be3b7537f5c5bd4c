"""The metrics file over restarts."""

import dataclasses
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from jobgen.trainer.config import Config
from jobgen.trainer.flags import parse_flags
from jobgen.trainer.metrics import Log

FACTS = {"parameters": 1, "unit": "tokens", "world_size": 1}


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    monkeypatch.delenv("JOBGEN_ATTEMPT", raising=False)
    return parse_flags(["--out", str(tmp_path), "--log-every", "2", "--steps", "7"])


@contextmanager
def started(config: Config, *, step: int, writes: bool = True) -> Iterator[Log]:
    with closing(Log(config, step=step, writes=writes)) as log:
        log.start(step, **FACTS)
        yield log


def lines(config: Config) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (config.out / "metrics.jsonl").read_text().splitlines()]


def take_steps(log: Log, first: int, last: int) -> None:
    for step in range(first, last + 1):
        seconds = 0.5 if step % 2 else 1.5
        log.step(step, loss=1 / step, lr=0.1, grad_norm=1.0, seconds=seconds, tokens=step * 1536)


def test_a_line_says_how_it_went_since_the_line_before(config: Config) -> None:
    with started(config, step=0) as log:
        take_steps(log, 1, 7)
    assert [line["step"] for line in lines(config)] == [0, 2, 4, 6, 7]
    first = lines(config)[1]
    assert first["kind"] == "step"
    assert (first["loss"], first["lr"], first["grad_norm"]) == (0.5, 0.1, 1.0)
    assert (first["step_s"], first["tokens_per_s"], first["tokens"]) == (1.0, 1536.0, 3072)
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


def test_other_ranks_write_and_say_nothing(
    config: Config, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = dataclasses.replace(config, out=config.out / "absent")
    with started(elsewhere, step=0, writes=False) as log:
        take_steps(log, 1, 7)
        log.validation(7, 1.0, seconds=1.0)
    assert not elsewhere.out.exists()
    assert capsys.readouterr().out == ""
