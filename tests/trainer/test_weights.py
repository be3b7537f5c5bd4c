"""Weights that others have made, models built in pieces, and a run measured again."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the trainer needs torch")
pytest.importorskip("transformers", reason="the task needs the extra hf")
pytest.importorskip("safetensors")

import transformers  # noqa: E402

from jobgen.trainer import commands, tasks  # noqa: E402
from jobgen.trainer.config import TrainerError  # noqa: E402
from jobgen.trainer.distributed.strategy import fill_in  # noqa: E402
from jobgen.trainer.distributed.world import leave  # noqa: E402
from jobgen.trainer.flags import parse_flags  # noqa: E402
from jobgen.trainer.weights import start_from  # noqa: E402

from .conftest import TEXT  # noqa: E402

pytestmark = pytest.mark.torch

FLAGS = ("--device", "cpu", "--context", "16", "--batch-tokens", "64", "--steps", "2")
FLAGS += ("--sample-tokens", "0", "--tokenizer", "byte", "--val-items", "3")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A run of two steps, exported."""
    folder = tmp_path_factory.mktemp("weights")
    (folder / "text").write_text(TEXT)
    out = folder / "run"
    try:
        commands.train(parse_flags([*FLAGS, "--data", str(folder / "text"), "--out", str(out)]))
    finally:
        leave()
    commands.export(parse_flags(["--out", str(out)], recorded=True))
    return out


@pytest.mark.parametrize("place", ["", "export", "export/huggingface"])
def test_a_run_starts_from_the_weights_of_another(place: str, run: Path, tmp_path: Path) -> None:
    config = parse_flags(["--out", str(run)], recorded=True)
    task: Any = tasks.load_task(config)
    with torch.device("meta"):
        model = task.build()
    fill_in(task, model, torch.device("cpu"))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    start_from(model, task, run / place)
    trained = commands.read_whole(commands.Checkpoints(run).newest_whole()[0])
    rows = task.shape.vocabulary  # those beyond it are never used
    for name, tensor in model.state_dict().items():
        assert not torch.equal(tensor, before[name])
        assert torch.equal(tensor[:rows], trained[name][:rows]), name


def test_weights_of_another_model_are_refused(run: Path, tmp_path: Path) -> None:
    config = parse_flags(["--out", str(run), "--norm", "rms"], recorded=True)
    task = tasks.load_task(config)
    with torch.device("meta"):
        model = task.build()
    for flags, problem in (
        ((run,), "has h.0.attn.c_attn.bias, .* too much"),
        ((tmp_path,), "neither a run folder with a checkpoint, nor a folder with"),
    ):
        with pytest.raises(TrainerError, match=problem):
            start_from(model, task, *flags)


def test_eval_measures_what_the_run_has_measured(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import json

    try:
        commands.evaluate(parse_flags(["--out", str(run)], recorded=True))
    finally:
        leave()
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    (loss,) = [line["loss"] for line in lines if line["kind"] == "val"]
    assert f"step-00000002: validation loss {loss:.6f} over 2 items, 32 tokens" in (
        capsys.readouterr().out
    )


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A small model with a head of its own, and tables of constants that are no weights."""
    place = str(tmp_path_factory.mktemp("llama"))
    form = transformers.LlamaConfig(
        vocab_size=300,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        tie_word_embeddings=False,
        max_position_embeddings=64,
    )
    torch.manual_seed(1)
    transformers.LlamaForCausalLM(form).save_pretrained(place)
    return place


@pytest.mark.parametrize("weights", ["pretrained", "random"])
def test_a_model_of_the_hub_is_built_piece_by_piece(
    weights: str, llama: str, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = [*FLAGS, "--out", str(run), "--task", "hf-causal-lm", "--model", llama]
    task: Any = tasks.load_task(parse_flags([*flags, "--weights", weights]))
    assert task.in_pieces
    with torch.device("meta"):
        model = task.build()
    assert all(weight.is_meta for weight in model.parameters())
    fill_in(task, model, torch.device("cpu"))
    whole = transformers.LlamaForCausalLM.from_pretrained(llama)
    inputs = torch.arange(24).view(2, 12)
    if weights == "pretrained":
        with torch.no_grad():
            assert torch.equal(model(inputs), whole(inputs).logits)
        return
    for name, tensor in model.state_dict().items():
        drawn, usual = float(tensor.std()), float(whole.state_dict()[name].std())
        assert drawn == pytest.approx(usual, rel=0.2), name
        assert torch.equal(tensor, task.initial_weight(name, tensor.shape)), "the same again"


def test_documents_of_a_model_of_the_hub_are_kept_apart_too(llama: str, run: Path) -> None:
    flags = [*FLAGS, "--out", str(run), "--task", "hf-causal-lm", "--model", llama]
    task: Any = tasks.load_task(parse_flags([*flags, "--mask-documents"]))
    with torch.device("meta"):
        model = task.build()
    fill_in(task, model, torch.device("cpu"))
    window = torch.tensor([[1, 2, 3, 256, 4, 5, 6, 7, 256, 8, 9, 10]])
    inputs, targets, documents = task.split_windows(window)
    assert documents.tolist() == [[0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2]]
    with torch.no_grad():
        together = model(inputs, None, documents)[0]
        alone = torch.cat([model(part)[0] for part in inputs.split([4, 5, 2], dim=1)])
        assert torch.allclose(together, alone, atol=1e-5)
        loss = model(inputs, targets, documents)
    expected = torch.nn.functional.cross_entropy(alone, targets[0], reduction="sum")
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
