"""Whole runs, in real processes under torchrun on this machine."""

import json
import math
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the trainer needs torch")

from jobgen.trainer.checkpoint import Checkpoints, read_state, read_whole  # noqa: E402
from jobgen.trainer.flags import parse_flags  # noqa: E402
from jobgen.trainer.optimizer import compute_learning_rate  # noqa: E402

from .conftest import Run, Start  # noqa: E402

pytestmark = pytest.mark.torch

# 25 sequences are 25, or 8 + 8 + 9: what is the same for both does not hang on even shares.
FORTY_STEPS = ("--steps", 40, "--context", 16, "--batch-tokens", 25 * 16, "--log-every", 1)
FORTY_STEPS += ("--save-every", 10, "--val-every", 15, "--warmup-steps", 20)
# Until here losses on other ranks differ by 4e-7 at most. Three steps later the gradient's norm
# leaps from 0.8 to 2.7, near the highest learning rate, and makes 2e-6 of them, later 9e-5.
CALM = 15
ENDLESS = ("--steps", 1_000_000, "--log-every", 1, "--batch-tokens", 4 * 64)


@pytest.fixture(scope="module")
def whole(start: Start, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of 40 steps on three ranks that nothing disturbs."""
    run = start(tmp_path_factory.mktemp("whole") / "run", *FORTY_STEPS, processes=3)
    assert run.wait() == 0, run.output
    return run


def test_it_learns_and_says_so(whole: Run) -> None:
    losses = dict(whole.losses())
    assert sorted(losses) == list(range(1, 41))
    assert losses[1] > math.log(103) - 0.3  # knows nothing: about a guess among all characters
    # The frequencies of the characters alone would give 3.26.
    assert whole.metrics("val")[-1]["loss"] < 2.9
    assert whole.status()["state"] == "completed"
    assert (whole.out / "DONE").exists()
    for rank in range(3):
        assert f"rank {rank} of 3 on {socket.gethostname()}, local rank {rank}" in whole.output


def test_a_step_is_recorded_with_its_units(whole: Run) -> None:
    step = whole.metrics("step")[-1]
    assert step["tokens"] == 40 * 25 * 16
    assert step["tokens_per_s"] == pytest.approx(25 * 16 / step["step_s"])
    assert step["lr"] == compute_learning_rate(
        39, parse_flags(["--steps", "40", "--warmup-steps", "20"])
    )
    assert 0 < step["grad_norm"] < 10
    assert 0 < step["step_s"] < 600
    assert abs(time.time() - step["time"]) < 600
    started = whole.metrics("start")[0]
    assert (started["world_size"], started["device"]) == (3, "cpu")


def test_killed_and_started_again_it_ends_with_the_same_bits(
    whole: Run, start: Start, tmp_path: Path
) -> None:
    killed = start(tmp_path / "run", *FORTY_STEPS, processes=3)
    killed.wait_for(lambda: len(killed.losses()) >= 25)
    os.kill(killed.pid_of(0), signal.SIGKILL)
    assert killed.wait() != 0
    # Whoever wrote it last: a run that is killed can go on from its newest checkpoint.
    assert killed.status()["state"] in ("running", "failed")
    assert (killed.status()["step"], killed.status()["resumable"]) == (20, True)

    again = start(tmp_path / "run", *FORTY_STEPS, processes=3)
    assert again.wait() == 0, again.output
    assert "continuing after step 20" in again.output
    assert again.losses() == whole.losses()
    assert {line["attempt"] for line in again.metrics("step")} == {0, 1}
    assert weights(again) == weights(whole)


def weights(run: Run) -> dict[str, bytes]:
    """The bits of model and optimizer in the newest checkpoint."""
    path, _ = Checkpoints(run.out).newest_whole()
    assert path is not None
    return {
        f"{part}.{name}": tensor.numpy().tobytes()
        for part in ("model", "optimizer")
        for name, tensor in read_whole(path, part).items()
    }


def test_one_process_without_torchrun_learns_the_same(
    whole: Run, start: Start, tmp_path: Path
) -> None:
    alone = start(tmp_path / "run", *FORTY_STEPS, "--micro-batch", 7, processes=None)
    assert alone.wait() == 0, alone.output
    assert_same_losses(alone, whole)


def assert_same_losses(run: Run, other: Run) -> None:
    assert len(run.losses()) == len(other.losses()) == 40
    for (step, loss), (_, expected) in list(zip(run.losses(), other.losses(), strict=True))[:CALM]:
        assert loss == pytest.approx(expected, abs=1e-5), f"step {step}"
    (own, expected) = (at.metrics("val")[0] for at in (run, other))
    assert own["step"] == expected["step"] == CALM
    assert own["loss"] == pytest.approx(expected["loss"], abs=1e-5)


@pytest.mark.parametrize("who", ["the agent", "rank 1 alone"])
def test_a_signal_stops_all_ranks_at_one_step_with_a_checkpoint(
    who: str, start: Start, tmp_path: Path
) -> None:
    run = start(tmp_path / "run", *ENDLESS, processes=2)
    run.wait_for(lambda: len(run.losses()) >= 3)
    if who == "the agent":
        run.process.send_signal(signal.SIGTERM)
        run.wait()  # torchrun's own status is 1 however well its workers ended
    else:
        os.kill(run.pid_of(1), signal.SIGUSR1)
        assert run.wait() == 0, run.output
    status = run.status()
    assert status["state"] == "stopped"
    assert status["reason"] == "a signal"
    assert status["resumable"] is True
    assert (run.out / "STOPPED").exists()
    assert not (run.out / "DONE").exists()
    assert run.losses()[-1][0] == status["step"]
    newest = max(path.name for path in (run.out / "checkpoints").glob("step-*"))
    assert newest == f"step-{status['step']:08d}"


def test_the_stop_file_stops_a_job_once(start: Start, tmp_path: Path) -> None:
    """The file lies in the job's folder, wherever the run's is; the next start goes on."""
    job = tmp_path / "job"
    run = start(tmp_path / "run", *ENDLESS, processes=None, JOBGEN_RUN_DIR=str(job))
    run.wait_for(lambda: len(run.losses()) >= 2)
    (job / "STOP").touch()
    assert run.wait() == 0, run.output
    assert "STOP file" in (json.loads((job / "status.json").read_text()))["reason"]
    assert (job / "STOPPED").exists()
    stopped_at = run.losses()[-1][0]

    flags = (*ENDLESS[2:], "--steps", stopped_at + 5)
    again = start(tmp_path / "run", *flags, processes=None, JOBGEN_RUN_DIR=str(job))
    assert again.wait() == 0, again.output
    assert (job / "DONE").exists()
    assert not (job / "STOPPED").exists()
    assert [step for step, _ in again.losses()] == list(range(1, stopped_at + 6))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 40 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=40m", "none", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        if os.environ.get("CI") == "true":
            pytest.fail("cannot mount")
        pytest.skip("only root can mount")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_a_full_disk_costs_checkpoints_and_lines_but_not_the_run(
    small_disk: Path, start: Start, tmp_path: Path
) -> None:
    (tmp_path / "run").symlink_to(small_disk)
    run = start(tmp_path / "run", *ENDLESS, "--save-every", 10, "--keep", 1, processes=2)
    run.wait_for(lambda: run.metrics("save"))

    def filled_and_said() -> bool:
        with suppress(OSError), (small_disk / "ballast").open("ab", buffering=0) as ballast:
            while True:
                ballast.write(bytes(4096))
        warnings = ("no checkpoint of step", "lines of metrics are lost: [Errno 28]")
        return all(f"warning: {warning}" in run.output for warning in warnings)

    run.wait_for(filled_and_said)
    (small_disk / "ballast").unlink()
    before = len(run.metrics("save"))
    run.wait_for(lambda: len(run.metrics("save")) > before)
    (tmp_path / "run" / "STOP").touch()
    assert run.wait() == 0, run.output
    assert run.status()["state"] == "stopped"
    path, skipped = Checkpoints(run.out).newest_whole()
    assert path is not None
    assert (read_state(path)["step"], skipped) == (run.status()["step"], [])


BROKEN_ON_RANK_1 = """
import os, sys
from jobgen.trainer import __main__, step

usual = step.compute_learning_rate

def breaks(number, config):
    if os.environ["RANK"] == "1" and number == 3:
        {fault}
    return usual(number, config)

step.compute_learning_rate = breaks
sys.exit(__main__.main())
"""


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("raise ValueError('disk of rank 1 is gone')", "ValueError: disk of rank 1 is gone"),
        ("sys.exit(3)", "SystemExit: 3"),
    ],
)
def test_an_error_on_one_rank_is_reported_as_that_ranks(
    fault: str, message: str, start: Start, tmp_path: Path
) -> None:
    (tmp_path / "broken.py").write_text(BROKEN_ON_RANK_1.format(fault=fault))
    error_file = tmp_path / "error.json"
    run = start(
        tmp_path / "run",
        *ENDLESS,
        processes=2,
        program=(str(tmp_path / "broken.py"), "--out", str(tmp_path / "run")),
        agent=("--nnodes=1", "--rdzv-endpoint=127.0.0.1:0", f"--log-dir={tmp_path / 'logs'}"),
        TORCHELASTIC_ERROR_FILE=str(error_file),
    )
    assert run.wait() == 1, run.output
    told = json.loads(error_file.read_text())["message"]
    assert told["message"] == message
    assert "in breaks" in told["extraInfo"]["py_callstack"]
    seconds = {
        path.parent.name: int(json.loads(path.read_text())["message"]["extraInfo"]["timestamp"])
        for path in (tmp_path / "logs").glob("*/attempt_0/*/error.json")
    }
    # Files know the time to the second only: the peer's must not seem as old as the cause.
    assert seconds["1"] < seconds.get("0", math.inf)
    assert run.status()["state"] == "failed"
    assert str(run.status()["reason"]).startswith("rank 1 on ")
    assert message in str(run.status()["reason"])


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--lr", "1e12", "--warmup-steps", "0"), "the loss is"),
        (("--device", "cuda"), "--device cuda: no GPU is visible"),
        (("--data", "absent.txt"), "--data absent.txt: No such file"),
        (("--context", "999999", "--batch-tokens", "999999"), "fewer than one sequence of 999999"),
    ],
)
def test_a_failure_is_said_clearly(
    flags: tuple[str, ...], said: str, start: Start, tmp_path: Path
) -> None:
    run = start(tmp_path / "run", *ENDLESS, *flags, processes=None, CUDA_VISIBLE_DEVICES="")
    assert run.wait() == 1, run.output
    assert said in run.output
    assert said in str(run.status()["reason"])
    assert run.status()["state"] == "failed"


def test_another_model_or_text_does_not_continue_this_run(
    whole: Run, start: Start, tmp_path: Path
) -> None:
    (tmp_path / "text").write_text("another text, quite short. " * 100)
    settings = (whole.out / "config.json").read_text()  # by which sample reads the run
    for flags, said in (
        (("--model", "gpt-small"), "was made with --model gpt-tiny; this run has --model"),
        (
            ("--data", str(tmp_path / "text")),
            "holds the tokens of pydoc_data.topics, not of --data",
        ),
    ):
        run = start(whole.out, "--steps", 60, *flags, processes=None)
        assert run.wait() == 1, run.output
        assert said in run.output
        assert "Traceback" not in run.output
    assert (whole.out / "checkpoints/step-00000040").exists()
    assert (whole.out / "config.json").read_text() == settings


@pytest.mark.skipif(shutil.which("c++") is None, reason="Inductor writes C++")
def test_two_ranks_that_inductor_compiles_learn_the_same_and_go_on(
    start: Start, tmp_path: Path
) -> None:
    """Training, validation and a second start; other tests compile without C++."""
    flags = ("--context", 16, "--batch-tokens", 64, "--tokens", tmp_path / "tokens")
    flags += ("--log-every", 1, "--save-every", 3, "--val-every", 3, "--val-items", 5)
    flags += ("--warmup-steps", 2, "--schedule", "constant")
    plain = start(tmp_path / "plain", *flags, "--steps", 6, processes=2)
    assert plain.wait() == 0, plain.output
    for steps in (3, 6):
        compiled = start(
            tmp_path / "compiled",
            *(*flags, "--steps", steps, "--compile"),
            processes=2,
            TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "cache"),
            ATEN_CPU_CAPABILITY="default",  # no vectors: less C++ to compile
        )
        assert compiled.wait() == 0, compiled.output
    assert "continuing after step 3" in compiled.output
    for kind in ("step", "val"):
        losses = [line["loss"] for line in compiled.metrics(kind)]
        expected = [line["loss"] for line in plain.metrics(kind)]
        assert losses == pytest.approx(expected, abs=1e-5)
    assert {line["compiled"] for line in compiled.metrics("start")} == {True}
