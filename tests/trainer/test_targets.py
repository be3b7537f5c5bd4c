"""Prompts that are masked, against Hugging Face's own loss and its way to accumulate."""

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the trainer needs torch")

from jobgen.trainer import commands, tasks  # noqa: E402
from jobgen.trainer.data.order import list_items  # noqa: E402
from jobgen.trainer.distributed.world import leave  # noqa: E402
from jobgen.trainer.flags import parse_flags  # noqa: E402
from jobgen.trainer.optimizer import compute_learning_rate  # noqa: E402

pytestmark = pytest.mark.torch

STEPS, ITEMS, MICRO = 6, 8, 2


def write_chats(path: Path) -> None:
    """Prompts and completions of unequal lengths, so that micro-batches have unequal targets."""
    with path.open("w") as stream:
        for number in range(300):
            words = " ".join(["word"] * (number % 7 + 1))
            row = {
                "prompt": f"how many? {words}",
                "completion": f" {number % 7 + 1}" * (number % 3),
            }
            stream.write(json.dumps(row) + "\n")


@pytest.mark.parametrize("kind", ["hf", "gpt"])
def test_masked_losses_are_those_of_hugging_faces_trainer(
    kind: str, tiny_model: str, tmp_path: Path
) -> None:
    """Its Trainer sums each micro-batch's loss and divides by the targets of the whole step."""
    transformers = pytest.importorskip("transformers")
    write_chats(tmp_path / "chats.jsonl")
    flags = ["--data", str(tmp_path / "chats.jsonl"), "--out", str(tmp_path / "run")]
    flags += ["--context", "16", "--batch-tokens", str(16 * ITEMS), "--micro-batch", str(MICRO)]
    flags += ["--steps", str(STEPS), "--log-every", "1", "--lr", "1e-3", "--weight-decay", "0"]
    flags += ["--sample-tokens", "0", "--device", "cpu", "--val-items", "5"]
    if kind == "hf":
        flags += ["--task", "hf-causal-lm", "--model", tiny_model]
    else:
        flags += ["--tokenizer", "byte"]
    config = parse_flags(flags)
    try:
        commands.train(config)
    finally:
        leave()
    lines = [json.loads(x) for x in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]

    task: Any = tasks.load_task(config)
    if kind == "hf":
        model = transformers.AutoModelForCausalLM.from_pretrained(tiny_model)
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
    else:  # the same weights in transformers' GPT-2
        from jobgen.trainer.text.gpt2 import convert_to_gpt2, describe_as_gpt2

        with torch.device("meta"):
            own = task.build()
        weights = {n: task.initial_weight(n, p.shape) for n, p in own.named_parameters()}
        form = transformers.GPT2Config(**describe_as_gpt2(task.shape, end=256))
        model = transformers.GPT2LMHeadModel(form)
        model.load_state_dict(convert_to_gpt2(task.shape, weights), strict=False)
        model.tie_weights()
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.95), weight_decay=0.0)

    def sum_losses(items: list[int], training: bool, count: int) -> torch.Tensor:
        windows = task.batch(items, training=training).long()
        inputs = torch.where(windows < 0, ~windows, windows)[:, :-1]
        labels = torch.where(windows < 0, -100, windows)[:, 1:].contiguous()
        counted = torch.tensor(count)
        output = model(inputs, labels=labels, shift_labels=labels, num_items_in_batch=counted)
        return output.loss

    losses = []
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = compute_learning_rate(step, config)
        positions = range(step * ITEMS, step * ITEMS + ITEMS)
        items = list_items(positions, parts=task.parts(), seed=0)
        windows = task.batch(items, training=True)
        count = int((windows[:, 1:] >= 0).sum())
        assert 0 < count < ITEMS * 16
        loss = 0.0
        for first in range(0, ITEMS, MICRO):
            part = sum_losses(items[first : first + MICRO], True, count)
            part.backward()
            loss += float(part.detach())
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss)
    assert [x["loss"] for x in lines if x["kind"] == "step"] == pytest.approx(losses, abs=1e-6)
    (val,) = [line["loss"] for line in lines if line["kind"] == "val"]
    kept = list(range(task.val_items))
    with torch.no_grad():
        count = task.count_units(kept, training=False)
        assert val == pytest.approx(float(sum_losses(kept, False, count)), abs=1e-6)
