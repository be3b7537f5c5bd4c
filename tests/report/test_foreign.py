"""Metrics of programs of one's own: read from what trainers, loggers and TensorBoard write."""

import csv
import json
import os
import struct
from pathlib import Path

import pytest
from report_runs import BEGAN, make, spec

from jobgen.report import report
from jobgen.report.events import read_events
from jobgen.report.facts import RunFacts, Training

NOW = BEGAN + 86400


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))


def run_of(folder: Path, *, metrics: str | None = None) -> tuple[RunFacts, Path]:
    """A run without metrics of the trainer, and its run folder; write there, and `again`."""
    content = spec(4, run={"script": "train.py"})
    if metrics:
        content |= {"report": {"metrics": metrics}}
    job = make(folder, "4.pbs", ranks=4, lines="", content=content)
    (job.run_dir / "metrics.jsonl").unlink()
    return report([job], now=NOW).runs[0], job.run_dir


def again(run_dir: Path) -> RunFacts:
    from jobgen.jobs.record import read_record

    return report([read_record(run_dir / "job.json")], now=NOW).runs[0]


def check(training: Training | None, source: str) -> None:
    """The loss falls from 4 to 2 in four lines of ten steps, and two validations follow it."""
    assert training is not None
    assert training.source.endswith(source)
    assert training.losses.x == (10, 20, 30, 40)
    assert training.losses.y == pytest.approx((4.0, 3.0, 2.5, 2.0))
    assert training.validations.x == (20, 40)
    assert training.validations.y == pytest.approx((3.1, 2.2))
    assert training.rates.y == pytest.approx((1e-3, 9e-4, 8e-4, 7e-4))
    assert training.gradients.y == pytest.approx((0.9, 0.8, 0.7, 0.6))


LOSSES = ((10, 4.0, 1e-3, 0.9), (20, 3.0, 9e-4, 0.8), (30, 2.5, 8e-4, 0.7), (40, 2.0, 7e-4, 0.6))
VALIDATIONS = {20: 3.1, 40: 2.2}


def test_without_metrics_the_page_says_where_they_may_be(tmp_path: Path) -> None:
    run, _ = run_of(tmp_path)
    assert run.training is None
    assert any("report: {metrics: PATH}" in note for note in run.notes)


def test_the_state_of_hugging_faces_trainer(tmp_path: Path) -> None:
    _, run_dir = run_of(tmp_path)
    history: list[dict[str, float]] = []
    for step, loss, rate, norm in LOSSES:
        entry = {"epoch": step / 40, "grad_norm": norm, "learning_rate": rate, "loss": loss}
        history.append(entry | {"step": step})
        if step in VALIDATIONS:
            history.append(
                {"epoch": 1, "eval_loss": VALIDATIONS[step], "eval_runtime": 3, "step": step}
            )
    history.append({"train_runtime": 60.0, "train_loss": 2.9, "step": 40})
    early, late = run_dir / "out/checkpoint-20", run_dir / "out/checkpoint-40"
    for number, folder in enumerate((late, early)):
        folder.mkdir(parents=True)
        entries = history if folder is late else history[:3]
        (folder / "trainer_state.json").write_text(json.dumps({"log_history": entries}))
        os.utime(folder / "trainer_state.json", (NOW - number, NOW - number))
    check(again(run_dir).training, "out/checkpoint-40/trainer_state.json")


def test_the_csv_of_lightning(tmp_path: Path) -> None:
    _, run_dir = run_of(tmp_path)
    folder = run_dir / "lightning_logs/version_0"
    folder.mkdir(parents=True)
    with (folder / "metrics.csv").open("w", newline="") as file:
        columns = ["epoch", "grad_norm", "lr-AdamW", "step", "train_loss", "val_loss"]
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        for step, loss, rate, norm in LOSSES:
            writer.writerow({"step": step, "train_loss": loss, "grad_norm": norm})
            writer.writerow({"step": step, "lr-AdamW": rate})
            if step in VALIDATIONS:
                writer.writerow({"epoch": 0, "step": step, "val_loss": VALIDATIONS[step]})
    check(again(run_dir).training, "version_0/metrics.csv")


@pytest.mark.parametrize(
    ("often", "rarely"),
    [
        ("train_loss_step", "train_loss_epoch"),  # Lightning's
        ("train/loss", "train/train_loss"),  # the mean of all, at the end
        ("train_loss_epoch", "train_loss_step"),  # a line for each 50th step of short epochs
        ("loss", "training_loss"),
        ("val_loss", "test_loss"),
    ],
)
def test_a_curve_is_of_one_column(tmp_path: Path, often: str, rarely: str) -> None:
    """Of the one with the most numbers, also where the other has a number for the same step."""
    _, run_dir = run_of(tmp_path)
    is_loss = often != "val_loss"
    lines: list[dict[str, float]] = [] if is_loss else [{"step": 1, "loss": 2.0}]
    for step in range(1, 41):
        lines.append({"step": step, often: 2 / step, "lr": 0.1})
        if step % 10 == 0:
            lines.append({"step": step, rarely: 2.5 / step, "epoch": step / 10})
            lines.append({"step": step, "learning_rate": 0.1})
    (run_dir / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    run = again(run_dir)
    assert run.training
    curve = run.training.losses if is_loss else run.training.validations
    assert curve.y == tuple(2 / step for step in range(1, 41))
    words = "the loss" if is_loss else "the validation loss"
    assert f"{words} is {often}; left out: {rarely}" in run.notes
    same = [{"step": step, "loss": 1.0, "train_loss": 1.0} for step in range(1, 41)]
    (run_dir / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in same))
    assert not any("left out" in note for note in again(run_dir).notes)


def test_json_lines_of_ones_own_at_a_path_that_the_spec_names(tmp_path: Path) -> None:
    place = tmp_path / "out" / "4" / "train.jsonl"
    place.parent.mkdir(parents=True)
    lines = []
    for step, loss, rate, norm in LOSSES:
        line = {
            "step": step,
            "train/loss": loss,
            "lr": rate,
            "grad_norm": norm,
            "time": BEGAN + step,
        }
        line |= {"tokens/s": 1, "tokens_per_sec": 1000 + step}
        line |= {"val/loss": VALIDATIONS[step]} if step in VALIDATIONS else {}
        lines.append(json.dumps(line))
    place.write_text("\n".join(["not json", *lines]) + "\n")
    run, _ = run_of(tmp_path, metrics="out/$JOBGEN_JOB_ID/train.jsonl")
    check(run.training, "out/4/train.jsonl")
    assert run.training is not None
    assert (run.training.unit, run.training.speed) == ("tokens", 1025)
    assert run.training.step_times is not None
    assert run.training.step_times.median == 1.0


@pytest.mark.parametrize("every", [1, 5])
@pytest.mark.parametrize("repeated", [0, 10])
def test_the_time_between_two_starts_is_no_step(tmp_path: Path, every: int, repeated: int) -> None:
    """Whether the later start goes on where the other ended, or does some steps again."""
    job = make(tmp_path, "4.pbs", ranks=4, lines="", outcomes=("continued 0",) * 2 + ("done 0",))
    text = ""
    for start in range(3):
        for number in range(start * 20 - repeated * (start > 0), start * 20 + 20, every):
            moment = BEGAN + 3600 * start + 100 + 2 * (number - start * 20)
            text += json.dumps({"step": number, "loss": 1 / (number + 1), "time": moment}) + "\n"
    (job.run_dir / "metrics.jsonl").write_text(text)
    run = report([job], now=NOW).runs[0]
    assert run.ledger
    assert run.training
    assert run.training.step_times
    assert (run.training.step_times.least, run.training.step_times.most) == (2, 2)
    assert "first step" not in run.ledger.seconds
    # Between the lines of each start, of which the next one repeats some.
    lines = 20 // every - 1
    again = repeated // every
    useful = lines - again + lines + (lines + again)
    assert run.ledger.seconds["productive"] == 2 * every * useful


def test_what_is_older_than_the_job_is_of_another_run(tmp_path: Path) -> None:
    (tmp_path / "metrics.csv").write_text("step,loss\n1,3.0\n2,2.0\n")
    os.utime(tmp_path / "metrics.csv", (BEGAN - 7200, BEGAN - 7200))
    run, _ = run_of(tmp_path, metrics="metrics.csv")
    assert run.training is None
    assert any("no metrics at metrics.csv" in note for note in run.notes)


def varint(number: int) -> bytes:
    """As protocol buffers have it."""
    digits = []
    while True:
        number, low = number >> 7, number & 127
        digits.append(low | (128 if number else 0))
        if not number:
            return bytes(digits)


def event(step: int, **values: float) -> bytes:
    """A record of an event file: the simple form of scalars."""
    summary = b""
    for tag, value in values.items():
        name = tag.replace("__", "/").encode()
        body = b"\x0a" + varint(len(name)) + name + b"\x15" + struct.pack("<f", value)
        summary += b"\x0a" + varint(len(body)) + body
    data = b"\x09" + struct.pack("<d", BEGAN + step) + b"\x10" + varint(step)
    data += b"\x2a" + varint(len(summary)) + summary
    return struct.pack("<Q", len(data)) + bytes(4) + data + bytes(4)


def test_event_files(tmp_path: Path) -> None:
    _, run_dir = run_of(tmp_path)
    folder = run_dir / "tensorboard"
    folder.mkdir()
    records = b""
    for step, loss, rate, norm in LOSSES:
        records += event(step, train__loss=loss, train__lr=rate, grad_norm=norm)
        if step in VALIDATIONS:
            records += event(step, val__loss=VALIDATIONS[step])
    (folder / "events.out.tfevents.1790000000.n1.7.0").write_bytes(records + records[:20])
    check(again(run_dir).training, "events.out.tfevents.1790000000.n1.7.0")


@pytest.mark.slow
def test_event_files_as_tensorboard_writes_them(tmp_path: Path) -> None:
    tensorboard = pytest.importorskip("tensorboard.summary.writer.event_file_writer")
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.compat.proto.tensor_pb2 import TensorProto

    writer = tensorboard.EventFileWriter(str(tmp_path))
    for step in (1, 300):
        values = [
            Summary.Value(tag="loss", simple_value=2.5),
            Summary.Value(tag="note", tensor=TensorProto(dtype=7, string_val=[b"text"])),
        ]
        writer.add_event(Event(wall_time=5.0, step=step, summary=Summary(value=values)))
    writer.close()
    (path,) = tmp_path.glob("*tfevents*")
    scalars = [tuple(scalar) for scalar in read_events(path)]
    assert scalars == [(5.0, 1, "loss", 2.5), (5.0, 300, "loss", 2.5)]


def test_what_is_damaged_is_passed_over(tmp_path: Path) -> None:
    for number, data in enumerate(
        (b"", b"\xff" * 40, struct.pack("<Q", 5) + b"12345", os.urandom(99))
    ):
        path = tmp_path / f"events.out.tfevents.{number}"
        path.write_bytes(data)
        assert list(read_events(path)) == []
    _, run_dir = run_of(tmp_path)
    for name, text in {
        "trainer_state.json": "{",
        "metrics.csv": "step,loss\n1,nan\nx",
        "a/trainer_state.json": '{"log_history": 3}',
        "b/trainer_state.json": "[" * 5000,
    }.items():
        (run_dir / name).parent.mkdir(exist_ok=True)
        (run_dir / name).write_text(text)
    training = again(run_dir).training
    assert training is None or training.loss is None
