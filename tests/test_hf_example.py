"""examples/hf_causal_lm.py: it trains, stops, goes on, and computes attention without a mask."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the example needs torch")

from cluster_fixtures import skip_without  # noqa: E402
from forked import start_python  # noqa: E402
from support import ROOT, load_program  # noqa: E402

skip_without("transformers", "accelerate")  # transformers' Trainer needs the other

pytestmark = pytest.mark.torch

MODULES = ("torch._dynamo", "transformers.models.llama.modeling_llama", "transformers.trainer")
MODULES += ("jobgen.loop", "transformers.integrations.sdpa_attention")


def run_ranks(folder: Path, *flags: str, ranks: int = 2) -> str:
    """Run the example on several ranks; returns what they print."""
    own = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "PYTHONPATH": str(ROOT)}
    own |= {"MASTER_PORT": str(20000 + os.getpid() % 9000), "JOBGEN_RUN_DIR": str(folder)}
    argv = [sys.executable, str(ROOT / "examples" / "hf_causal_lm.py"), *flags]
    folder.mkdir(exist_ok=True)
    processes = []
    for rank in range(ranks):
        env = {**os.environ, **own, "RANK": str(rank), "LOCAL_RANK": str(rank)}
        with (folder / "log").open("a") as log:
            process = start_python(argv, cwd=folder, env=env, stdout=log, modules=MODULES)
            processes.append(process)
    codes = [process.wait(900) for process in processes]
    text = (folder / "log").read_text()
    assert codes == [0] * ranks, text
    return text


def read_losses(folder: Path) -> dict[int, float]:
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return {line["step"]: line["loss"] for line in lines}


def test_it_stops_when_asked_goes_on_and_writes_the_model(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "STOP").touch()
    assert "rank 1 of 2 on cpu" in run_ranks(run, "--steps", "30")
    assert (run / "STOPPED").exists()
    assert not (run / "STOP").exists()
    assert (run / "checkpoints" / "checkpoint-1").is_dir()
    run_ranks(run, "--steps", "30")
    losses = read_losses(run)
    assert list(losses) == [5, 10, 15, 20, 25, 30]
    assert losses[30] < 0.9 * losses[5]
    assert not (run / "STOPPED").exists()
    assert (run / "model" / "model.safetensors").exists()


def test_adapters_alone_are_trained(tmp_path: Path) -> None:
    pytest.importorskip("peft", reason="LoRA is peft's")
    run_ranks(tmp_path / "run", "--steps", "10", "--lora", "4", ranks=1)
    assert (tmp_path / "run" / "model" / "adapter_model.safetensors").exists()


def test_compiled_every_layer_computes_causal_attention_without_a_mask() -> None:
    """transformers alone makes a mask of (batch, 1, time, time) then, which flash does not take."""
    example = load_program(ROOT / "examples" / "hf_causal_lm.py")
    tokens = torch.arange(24).view(2, 12)
    model, _ = example.load_model("tiny")
    model.config.use_cache = False
    calls: list[tuple[Any, Any]] = []

    def look(graph: Any, _: Any) -> Any:
        for node in graph.graph.nodes:
            if "scaled_dot_product_attention" in str(node.target):
                calls.append((node.kwargs.get("attn_mask"), node.kwargs.get("is_causal")))
        return graph

    compiled = torch.compile(model, backend=look)
    logits = compiled(input_ids=tokens).logits
    assert calls == [(None, True)] * 2
    model.set_attn_implementation("sdpa")
    torch._dynamo.reset()
    assert torch.allclose(logits, model(input_ids=tokens).logits, atol=1e-6)
