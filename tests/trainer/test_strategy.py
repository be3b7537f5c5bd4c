"""Replicas and shards learn the same, on any number of processes.

Started directly, without torchrun: each process gets torchrun's variables. Runs of as many
processes share them.
"""

import json
import shutil
import socket
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the trainer needs torch")

from jobgen.trainer.checkpoint import Checkpoints, read_whole  # noqa: E402

from .conftest import Run  # noqa: E402

pytestmark = pytest.mark.torch

STEPS = ("--steps", "6", "--warmup-steps", "3", "--save-every", "3", "--log-every", "1")
SMALL = (*STEPS, "--batch-tokens", "768", "--micro-batch", "1", "--val-items", "20")


def ranks(size: int, runs: list[tuple[Path, tuple[str, ...]]]) -> None:
    """Run them, one after another, in processes of their own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1] % 20_000 + 10_000
    flags = [["--out", str(out), *given] for out, given in runs]
    program = [sys.executable, str(Path(__file__).with_name("several.py"))]
    shared = {"MASTER_ADDR": "127.0.0.1", "WORLD_SIZE": str(size)}
    shared |= {"LOCAL_WORLD_SIZE": str(size)}
    folder = runs[0][0].parent
    processes = [
        Run(
            [*program, str(port), json.dumps(flags)],
            folder / f"rank-{rank}-of-{size}",
            **shared,
            RANK=str(rank),
            LOCAL_RANK=str(rank),
        )
        for rank in range(size)
    ]
    try:
        ended = [process.wait(900) for process in processes]
    finally:
        for process in processes:
            process.end()
    outputs = [process.output for process in processes]
    assert ended == [0] * size, outputs
    for output in outputs:
        ended = [json.loads(line) for line in output.splitlines() if line.startswith('{"run"')]
        assert [line["problem"] for line in ended] == [None] * len(runs), output
        for line, (out, _) in zip(ended, runs, strict=True):
            (out / f"compiles-{line['rank']}").write_text(str(line["compiles"]))


def losses(out: Path) -> list[float]:
    """The losses of the steps, and of the validation at the end."""
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if line["kind"] in ("step", "val")]


def compiles(out: Path) -> list[int]:
    """How many pieces of code each rank has compiled."""
    return [int(path.read_text()) for path in sorted(out.glob("compiles-*"))]


def bits(out: Path) -> dict[str, bytes]:
    """Model and optimizer after the last step."""
    path, _ = Checkpoints(out).newest_whole()
    assert path is not None
    assert path.name == "step-00000006"
    return {
        f"{part}.{name}": tensor.numpy().tobytes()
        for part in ("model", "optimizer")
        for name, tensor in read_whole(path, part).items()
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs on 1, 4, 2, 5 and 3 processes."""
    at = tmp_path_factory.mktemp("spread")
    turns = [
        {"role": "user", "content": "how much is "},
        {"role": "assistant", "content": "it is "},
    ]
    with (at / "chats.jsonl").open("w") as stream:
        for n in range(300):
            chat = [turn | {"content": turn["content"] + "x" * (n % 11)} for turn in turns]
            stream.write(json.dumps({"messages": chat}) + "\n")
    chats = (*SMALL, "--data", str(at / "chats.jsonl"), "--tokenizer", "byte")
    ranks(1, [(at / "alone", SMALL), (at / "chats-1", chats)])
    ranks(
        4,
        [
            (at / "shards-4", (*SMALL, "--strategy", "fsdp")),
            (at / "shards-4-fp16", (*SMALL, "--strategy", "fsdp", "--dtype", "fp16")),
        ],
    )
    for name in ("replicas-2", "shards-3"):
        shutil.copytree(at / "shards-4" / "checkpoints", at / name / "checkpoints")
        shutil.rmtree(at / name / "checkpoints" / "step-00000006")
    level = (*SMALL, "--schedule", "constant")
    ranks(
        2,
        [
            (at / "replicas-2", SMALL),
            (at / "bf16", (*SMALL, "--dtype", "bf16")),
            (at / "chats-2", chats),
            (at / "level", level),
            (at / "compiled", (*level, "--compile")),
            (at / "compiled-halves", (*level, "--compile", "--steps", "3")),
            (at / "compiled-halves", (*level, "--compile")),
            (at / "compiled-shards", (*level, "--compile", "--strategy", "fsdp")),
        ],
    )
    # Some of five ranks have an item more than others, and run once more.
    ranks(5, [(at / "shards-5", (*SMALL, "--strategy", "fsdp")), (at / "replicas-5", SMALL)])
    ranks(
        3,
        [
            (at / "shards-3", (*SMALL, "--strategy", "fsdp")),
            (at / "chats-3", (*chats, "--strategy", "fsdp")),
        ],
    )
    return at


def test_compiled_replicas_and_shards_learn_the_same_and_continue_to_the_same_bits(
    folder: Path,
) -> None:
    expected = losses(folder / "level")
    assert losses(folder / "compiled") == pytest.approx(expected, abs=2e-5)
    assert losses(folder / "compiled-shards") == pytest.approx(expected, abs=2e-5)
    assert bits(folder / "compiled-halves") == bits(folder / "compiled")
    for name, most in (("compiled", 2), ("compiled-halves", 2), ("compiled-shards", 4)):
        # Once for training and once for validation: the whole model, or a layer and the head.
        assert compiles(folder / name) == [most, most], name
    assert compiles(folder / "level") == [0, 0]


@pytest.mark.parametrize("name", ["shards-4", "shards-5", "replicas-5"])
def test_replicas_and_shards_learn_the_same(name: str, folder: Path) -> None:
    assert losses(folder / name) == pytest.approx(losses(folder / "alone"), abs=1e-5)


@pytest.mark.parametrize("name", ["replicas-2", "shards-3"])
def test_what_four_shards_saved_others_continue(name: str, folder: Path) -> None:
    assert losses(folder / name) == pytest.approx(losses(folder / "shards-4")[3:], abs=1e-5)


@pytest.mark.parametrize("name", ["chats-2", "chats-3"])
def test_each_rank_counts_its_own_targets_and_the_mean_is_over_all(name: str, folder: Path) -> None:
    """Ranks have unequal numbers of targets: answers differ in length."""
    assert losses(folder / name) == pytest.approx(losses(folder / "chats-1"), abs=1e-5)


@pytest.mark.parametrize(("name", "most"), [("bf16", 0.02), ("shards-4-fp16", 0.02)])
def test_shorter_types_learn_almost_the_same(name: str, most: float, folder: Path) -> None:
    expected = losses(folder / "alone")
    assert losses(folder / name) == pytest.approx(expected, abs=most)
    assert losses(folder / name) != pytest.approx(expected, abs=1e-5)
