"""The ways to spread a model over processes learn the same; exact sums, the same bits.

Started directly, without torchrun: each process gets torchrun's variables. Runs of as many
processes share them.
"""

import json
import shutil
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the trainer needs torch")

from jobgen.trainer.checkpoint import Checkpoints, read_whole  # noqa: E402
from jobgen.trainer.config import TrainerError  # noqa: E402
from jobgen.trainer.distributed.strategy import build_model  # noqa: E402
from jobgen.trainer.flags import parse_flags  # noqa: E402

from .conftest import Run  # noqa: E402

pytestmark = pytest.mark.torch

STEPS = ("--steps", "6", "--warmup-steps", "3", "--save-every", "3", "--log-every", "1")
SMALL = (*STEPS, "--batch-tokens", "768", "--micro-batch", "1", "--val-items", "20")
EXACT = (*SMALL, "--reduce", "exact")


def ranks(
    size: int, runs: list[tuple[Path, tuple[str, ...]]], *, per_node: int | None = None
) -> None:
    """Run them, one after another, in processes of their own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1] % 20_000 + 10_000
    flags = [["--out", str(out), "--sample-tokens", "5", *given] for out, given in runs]
    program = [sys.executable, str(Path(__file__).with_name("several.py"))]
    shared = {"MASTER_ADDR": "127.0.0.1", "WORLD_SIZE": str(size)}
    shared |= {"LOCAL_WORLD_SIZE": str(per_node or size)}
    folder = runs[0][0].parent
    processes = [
        Run(
            [*program, str(port), json.dumps(flags)],
            folder / f"rank-{rank}-of-{size}",
            **shared,
            RANK=str(rank),
            LOCAL_RANK=str(rank % (per_node or size)),
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
    """Runs on 1, 4, 2 and 3 processes."""
    at = tmp_path_factory.mktemp("spread")
    ranks(1, [(at / "exact-1", EXACT)])
    ranks(
        4,
        [
            (at / "shards-4", (*SMALL, "--strategy", "fsdp")),
            (at / "hybrid-2x2", (*SMALL, "--strategy", "hybrid")),
            (at / "exact-4", EXACT),
        ],
        per_node=2,
    )
    for name in ("replicas-2", "shards-3"):
        shutil.copytree(at / "shards-4" / "checkpoints", at / name / "checkpoints")
        shutil.rmtree(at / name / "checkpoints" / "step-00000006")
    level = (*SMALL, "--schedule", "constant")
    ranks(
        2,
        [
            (at / "replicas-2", SMALL),
            (at / "shards-10-2", (*SMALL, "--strategy", "fsdp", "--shares", "10:2")),
            (at / "recompute-bf16", (*SMALL, "--recompute", "all", "--dtype", "bf16")),
            (at / "selective", (*SMALL, "--recompute", "selective")),
            (at / "exact-2", EXACT),
            (at / "exact-10-2", (*EXACT, "--shares", "10:2")),
            (at / "level", level),
            (at / "compiled", (*level, "--compile")),
            (at / "compiled-halves", (*level, "--compile", "--steps", "3")),
            (at / "compiled-halves", (*level, "--compile")),
            (at / "compiled-shards", (*level, "--compile", "--strategy", "fsdp")),
        ],
    )
    ranks(
        3,
        [
            (at / "shards-3", (*SMALL, "--strategy", "fsdp")),
            (at / "exact-3", EXACT),
            (at / "exact-2-4-6", (*EXACT, "--shares", "2:4:6")),
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


def test_exact_sums_give_the_same_bits_on_any_number_of_processes_and_any_shares(
    folder: Path,
) -> None:
    expected = bits(folder / "exact-1")
    for name in ("exact-2", "exact-3", "exact-4", "exact-10-2", "exact-2-4-6"):
        assert bits(folder / name) == expected, name
        assert losses(folder / name) == losses(folder / "exact-1"), name
    # Not so with usual sums, or the test would show nothing.
    assert bits(folder / "shards-4") != expected


@pytest.mark.parametrize("name", ["shards-4", "hybrid-2x2", "shards-10-2"])
def test_replicas_and_shards_learn_the_same(name: str, folder: Path) -> None:
    assert losses(folder / name) == pytest.approx(losses(folder / "exact-1"), abs=1e-5)


@pytest.mark.parametrize("name", ["replicas-2", "shards-3"])
def test_what_four_shards_saved_others_continue(name: str, folder: Path) -> None:
    assert losses(folder / name) == pytest.approx(losses(folder / "shards-4")[3:], abs=1e-5)


def test_layers_that_are_recomputed_learn_the_same(folder: Path) -> None:
    assert losses(folder / "selective") == pytest.approx(losses(folder / "exact-1"), abs=1e-5)


def test_shorter_types_learn_almost_the_same(folder: Path) -> None:
    expected = losses(folder / "exact-1")
    assert losses(folder / "recompute-bf16") == pytest.approx(expected, abs=0.02)
    assert losses(folder / "recompute-bf16") != pytest.approx(expected, abs=1e-5)


def test_exact_sums_of_shards_are_refused() -> None:
    config = parse_flags(["--reduce", "exact", "--strategy", "fsdp"])
    none: Any = None
    with pytest.raises(TrainerError, match="--reduce exact needs the whole model"):
        build_model(none, config, none, arithmetic=none, deal=none)
