"""The trainer computes what others do: a plain loop as nanoGPT's, and Hugging Face's Trainer.

How many processes there are, which share each has, and where a run was interrupted make no
difference either: test_strategy.py and test_runs.py.
"""

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the trainer needs torch")

import plain_gpt  # noqa: E402

from jobgen.trainer import commands, tasks  # noqa: E402
from jobgen.trainer.config import Config  # noqa: E402
from jobgen.trainer.data.order import list_items  # noqa: E402
from jobgen.trainer.distributed.world import leave  # noqa: E402
from jobgen.trainer.flags import parse_flags  # noqa: E402

from .conftest import TEXT  # noqa: E402

pytestmark = pytest.mark.torch

STEPS, ITEMS, MICRO, WARMUP, LR = 30, 12, 4, 5, 1e-3


def train(out: Path, *flags: str) -> tuple[Config, list[float], float]:
    """Train in this process; returns the losses of all steps, and that of the validation."""
    given = ["--out", str(out), "--device", "cpu", "--steps", str(STEPS), "--log-every", "1"]
    given += ["--lr", str(LR), "--micro-batch", str(MICRO)]
    given += ["--sample-tokens", "0", "--save-every", "1000", "--val-every", str(STEPS)]
    config = parse_flags([*given, *flags])
    try:
        commands.train(config)
    finally:
        leave()
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    (val,) = [line["loss"] for line in lines if line["kind"] == "val"]
    return config, [line["loss"] for line in lines if line["kind"] == "step"], val


def list_windows(task: Any, step: int) -> torch.Tensor:
    """Return the windows of a step, in their order."""
    positions = range(step * ITEMS, step * ITEMS + ITEMS)
    items = list_items(positions, parts=task.parts(), seed=0)
    return task.batch(items, training=True).long()


def cut(windows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return windows[:, :-1], windows[:, 1:]


def test_losses_are_those_of_a_plain_gpt_in_a_plain_loop(tmp_path: Path) -> None:
    flags = ["--context", "32", "--batch-tokens", str(ITEMS * 32), "--val-items", "8"]
    flags += ["--warmup-steps", str(WARMUP)]
    config, losses, val = train(tmp_path / "run", *flags)

    task: Any = tasks.load_task(config)
    with torch.device("meta"):
        own = task.build()
    weights = {name: task.initial_weight(name, p.shape) for name, p in own.named_parameters()}
    shape = task.shape
    model = plain_gpt.PlainGPT(
        plain_gpt.Size(shape.layers, shape.heads, shape.width, shape.context, shape.vocabulary)
    )
    plain_gpt.load_gpt2_weights(model, weights)
    optimizer = plain_gpt.make_adamw(model, LR)
    expected = []
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = plain_gpt.compute_rate(step, steps=STEPS, lr=LR, warmup=WARMUP)
        batches = [cut(part) for part in list_windows(task, step).split(MICRO)]
        expected.append(float(plain_gpt.take_step(model, optimizer, batches)))
    assert losses == pytest.approx(expected, rel=1e-6)
    assert losses[-1] < losses[0] - 1, "it has learnt, or equal losses would show little"
    items = [cut(task.batch([item], training=False).long()) for item in range(task.val_items)]
    assert val == pytest.approx(plain_gpt.measure_loss(model, items), rel=1e-6)


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> str:
    transformers = pytest.importorskip("transformers", reason="the task needs the extra hf")
    form = transformers.LlamaConfig(
        vocab_size=320,
        hidden_size=48,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=64,
    )
    place = str(tmp_path_factory.mktemp("llama"))
    torch.manual_seed(3)
    transformers.LlamaForCausalLM(form).save_pretrained(place)
    return place


@pytest.mark.filterwarnings("default")  # of libraries, about each other
def test_losses_are_those_of_hugging_faces_trainer(llama: str, tmp_path: Path) -> None:
    """The same model, items and order, with accumulation; its own optimizer and clipping."""
    pytest.importorskip("accelerate", reason="Hugging Face's Trainer needs it")
    import transformers

    (tmp_path / "text").write_text(TEXT * 4)
    flags = ["--task", "hf-causal-lm", "--model", llama, "--tokenizer", "byte", "--context", "32"]
    flags += ["--data", str(tmp_path / "text"), "--batch-tokens", str(ITEMS * 32)]
    flags += ["--weight-decay", "0", "--schedule", "constant", "--val-items", "4"]
    flags += ["--warmup-steps", "0"]
    config, losses, _ = train(tmp_path / "run", *flags)

    task: Any = tasks.load_task(config)
    windows = [window for step in range(STEPS) for window in list_windows(task, step)]
    rows = [{"input_ids": window, "labels": window} for window in windows]

    class InOrder(transformers.Trainer):
        def _get_train_sampler(self, *args: Any) -> Any:
            return torch.utils.data.SequentialSampler(self.train_dataset)

    class Noted(transformers.TrainerCallback):
        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            if "loss" in logs:
                expected.append(logs["loss"])

    expected: list[float] = []
    settings = transformers.TrainingArguments(
        output_dir=str(tmp_path / "hf"),
        max_steps=STEPS,
        per_device_train_batch_size=MICRO,
        gradient_accumulation_steps=ITEMS // MICRO,
        learning_rate=LR,
        lr_scheduler_type="constant",
        adam_beta2=0.95,
        max_grad_norm=1.0,
        use_cpu=True,
        optim="adamw_torch_fused",
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )
    model = transformers.AutoModelForCausalLM.from_pretrained(llama, dtype=torch.float32)
    InOrder(model, settings, train_dataset=rows, callbacks=[Noted()]).train()
    assert len(expected) == STEPS
    assert losses == pytest.approx(expected, rel=1e-6)
