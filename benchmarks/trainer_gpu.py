"""How fast is the trainer on this node's GPUs, and what does each of its choices bring?

    python benchmarks/trainer_gpu.py             # one GPU: under ten minutes
    python benchmarks/trainer_gpu.py --small     # on a CPU: shows that all of this runs, no more

GPT-2 of 124 million parameters, bf16, compiled, sequences of 1,024, on tokens drawn at random. One
table, and the same as JSON in `--json FILE`:

- the trainer, a plain loop with the same model (as nanoGPT's: fused AdamW, TF32, pinned batches),
  and Hugging Face's Trainer with its own GPT-2, in alternating turns, each in a process of its own;
- the trainer with its choices undone, one by one;
- where the node has several GPUs, one against all of them, with `ddp` and `fsdp`.

Tokens a second are medians over steps after the first ones; MFU is as the trainer's documentation
says; memory is the most that torch has allocated.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
TRAINER, PLAIN, HF = "trainer", "plain loop", "Hugging Face's Trainer"
# The trainer's choices undone: the flags that do it, or the name of a function below.
UNDONE: dict[str, tuple[str, ...]] = {
    "fp32 with TF32": ("--dtype", "fp32"),
    "not compiled": ("--no-compile",),
    "attention in torch's order": (),
    "residual stream in fp32": (),
    "batches not pinned": (),
    "waiting in each step": (),
    "garbage collected at any time": (),
    "sharded on one": ("--strategy", "fsdp"),
    "sharded, head and loss not compiled": ("--strategy", "fsdp"),
    "a checkpoint every 10 steps": ("--save-every", "10"),
    "the same, not pinned": ("--save-every", "10"),
}


class Scale(NamedTuple):
    """How much is run."""

    model: str
    context: int
    micro_batch: int
    accumulation: int
    steps: int
    warm: int  # steps that do not count
    rounds: int
    device: str
    vocabulary: int
    timeout: int  # seconds for a process

    @property
    def flags(self) -> list[str]:
        """The trainer's flags for it."""
        batch = self.context * self.micro_batch * self.accumulation
        return [
            *("--model", self.model, "--context", str(self.context), "--device", self.device),
            *("--batch-tokens", str(batch), "--micro-batch", str(self.micro_batch)),
            *("--steps", str(self.steps), "--log-every", "1", "--val-every", "0"),
            *("--save-every", "1000000", "--sample-tokens", "0"),
        ]


LARGE = Scale("gpt2-124m", 1024, 32, 2, 40, 15, 2, "cuda", 50257, 240)
SMALL = Scale("gpt-tiny", 16, 4, 2, 6, 2, 1, "cpu", 257, 240)


class Result(NamedTuple):
    """What one process has measured."""

    tokens_per_s: float
    step_s: float
    memory_gb: float
    mfu: float | None


def make_tokens(folder: Path, scale: Scale) -> None:
    """Write tokens drawn at random, as a folder that is prepared."""
    import numpy as np

    from jobgen.trainer.text.preparation import make_tokens
    from jobgen.trainer.text.source import Source

    numbers = np.random.default_rng(0).integers(0, 257, scale.context * 4096).astype("<u2")
    numbers.tofile(folder / "random.bin")
    make_tokens(Source(str(folder / "random.bin")), "byte", folder / "tokens")
    # So many as GPT-2 has make the model's head as large as GPT-2's; which ones occur is all the
    # same. No tokenizer need be fetched.
    manifest = json.loads((folder / "tokens" / "manifest.json").read_text())
    manifest["vocabulary"] = scale.vocabulary
    (folder / "tokens" / "manifest.json").write_text(json.dumps(manifest))


def measure_trainer(folder: Path, scale: Scale, more: Sequence[str]) -> Result:
    """Run the trainer in this process; a rank other than 0 measures nothing."""
    from jobgen.trainer.distributed.world import leave
    from jobgen.trainer.flags import parse_flags
    from jobgen.trainer.loop import run

    out = folder / f"run-{time.monotonic_ns() if 'RANK' not in os.environ else os.environ['RUN']}"
    tokens = ("--tokens", str(folder / "tokens"), "--out", str(out))
    try:
        run(parse_flags([*scale.flags, *tokens, *more]))
    finally:
        leave()
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if line["kind"] == "step" and line["step"] > scale.warm]
    return Result(
        statistics.median(line["tokens_per_s"] for line in steps),
        statistics.median(line["step_s"] for line in steps),
        max(line["mem_gb"] for line in steps),
        statistics.median(line["mfu"] for line in steps) if steps[0]["mfu"] else None,
    )


def measure_steps(
    scale: Scale, batches: Iterator[Any], step: Callable[[Any], Any], task: Any, model: Any
) -> Result:
    """Time a loop's steps; every tenth reads the loss, as loops do."""
    import torch

    from jobgen.trainer.distributed.device import name_device
    from jobgen.trainer.output.metrics import look_up_peak, measure_memory

    device = torch.device(scale.device)
    seconds, began, last = [], time.perf_counter(), 0
    for number in range(1, scale.steps + 1):
        loss = step(batches)
        if number % 10 == 0 or number <= scale.warm or number == scale.steps:
            float(loss)
            if number > scale.warm:
                seconds.append((time.perf_counter() - began) / (number - last))
            began, last = time.perf_counter(), number
    step_s = statistics.median(seconds)
    speed = scale.context * scale.micro_batch * scale.accumulation / step_s
    peak = look_up_peak(name_device(device))
    flops = task.flops_per_unit(model)
    return Result(speed, step_s, measure_memory(device), speed * flops / peak if peak else None)


def measure_plain(folder: Path, scale: Scale) -> Result:
    """Run a plain loop with the trainer's model."""
    import torch

    from jobgen.trainer import tasks
    from jobgen.trainer.distributed.strategy import fill_in
    from jobgen.trainer.flags import parse_flags

    cuda = scale.device == "cuda"
    config = parse_flags([*scale.flags, "--tokens", str(folder / "tokens")])
    task = tasks.load_task(config)
    torch.set_float32_matmul_precision("high")
    with torch.device("meta"):
        model = task.build()
    fill_in(task, model, torch.device(scale.device))
    compiled = torch.compile(model) if cuda else model
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True
    )

    def draw_batches() -> Iterator[Any]:
        chance = torch.Generator().manual_seed(0)
        while True:
            items = torch.randint(task.train_items, (scale.micro_batch,), generator=chance)
            windows = task.batch(items.tolist(), training=True).long()
            parts = windows[:, :-1].contiguous(), windows[:, 1:].contiguous()
            if cuda:
                parts = tuple(part.pin_memory().cuda(non_blocking=True) for part in parts)
            yield parts

    def step(batches: Iterator[Any]) -> Any:
        for _ in range(scale.accumulation):
            inputs, targets = next(batches)
            with torch.autocast(scale.device, torch.bfloat16, enabled=cuda):
                loss = compiled(inputs, targets) / (targets.numel() * scale.accumulation)
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return measure_steps(scale, draw_batches(), step, task, model)


def measure_hf(folder: Path, scale: Scale) -> Result:
    """Run Hugging Face's Trainer with its own GPT-2 of the same shape."""
    import torch
    import transformers

    from jobgen.trainer import tasks
    from jobgen.trainer.distributed.device import name_device
    from jobgen.trainer.flags import parse_flags
    from jobgen.trainer.output.metrics import look_up_peak, measure_memory

    task = tasks.load_task(parse_flags([*scale.flags, "--tokens", str(folder / "tokens")]))
    shape, cuda = task.shape, scale.device == "cuda"
    form = transformers.GPT2Config(
        n_layer=shape.layers,
        n_head=shape.heads,
        n_embd=shape.width,
        n_positions=shape.context,
        vocab_size=shape.rows,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        use_cache=False,
    )
    items = task.batch(range(256), training=True).long()[:, :-1]
    rows = [{"input_ids": row, "labels": row} for row in items]
    ends: list[float] = []

    class Clock(transformers.TrainerCallback):
        def on_step_end(self, *args: Any, **more: Any) -> None:
            if cuda:
                torch.cuda.synchronize()
            ends.append(time.perf_counter())

    settings = transformers.TrainingArguments(
        output_dir=str(folder / "hf"),
        max_steps=scale.steps,
        per_device_train_batch_size=scale.micro_batch,
        gradient_accumulation_steps=scale.accumulation,
        bf16=cuda,
        tf32=True if cuda else None,
        torch_compile=cuda,
        use_cpu=not cuda,
        optim="adamw_torch_fused",
        logging_steps=10,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )
    model = transformers.GPT2LMHeadModel(form)
    transformers.Trainer(model, settings, train_dataset=rows * 64, callbacks=[Clock()]).train()
    step_s = statistics.median(b - a for a, b in pairwise(ends[scale.warm :]))
    speed = scale.context * scale.micro_batch * scale.accumulation / step_s
    device = torch.device(scale.device)
    peak = look_up_peak(name_device(device))
    used = (
        sum(weight.numel() for weight in model.parameters()) - model.transformer.wpe.weight.numel()
    )
    flops = 6 * used + 12 * shape.layers * shape.width * shape.context
    return Result(speed, step_s, measure_memory(device), speed * flops / peak if peak else None)


@contextmanager
def undo(name: str) -> Iterator[None]:
    """Undo one of the trainer's choices that no flag undoes."""
    from torch.distributed.checkpoint.staging import BlockingAsyncStager

    from jobgen.trainer.step import Stepper

    usual = Stepper.step

    def step_and_wait(self: Any, requests: Sequence[float]) -> Any:
        usual(self, requests)
        return self.read_numbers()

    replaced: dict[str, list[tuple[str, Any]]] = {
        "attention in torch's order": [("loop.prefer_attention", lambda device: nullcontext())],
        "residual stream in fp32": [("text.transformer.cast_to_autocast", lambda x: x)],
        "batches not pinned": [("data.feed.pin_batch", lambda batch: batch)],
        "waiting in each step": [("step.Stepper.step", step_and_wait)],
        "garbage collected at any time": [("loop.gc.disable", lambda: None)],
        "sharded, head and loss not compiled": [
            ("tasks.gpt.Text.compiled_parts", lambda self, model: ())
        ],
        "the same, not pinned": [
            ("checkpoint._choose_copier", lambda device: BlockingAsyncStager().stage)
        ],
    }
    with ExitStack() as stack:
        for place, function in replaced.get(name, []):
            stack.enter_context(patch(f"jobgen.trainer.{place}", function))
        yield


def work(names: Sequence[str], folder: Path, scale: Scale, more: Sequence[str]) -> None:
    """Measure these in turn, in this process; print a line of JSON for each."""
    for name in names:
        try:
            if name == PLAIN:
                result = measure_plain(folder, scale)
            elif name == HF:
                result = measure_hf(folder, scale)
            else:
                with undo(name):
                    result = measure_trainer(folder, scale, [*UNDONE.get(name, ()), *more])
            line: dict[str, Any] = {"name": name} | result._asdict()
        except ImportError as error:
            line = {"name": name, "missing": str(error).splitlines()[0]}
        print(f"RESULT {json.dumps(line)}", flush=True)


def start(
    names: Sequence[str], folder: Path, scale: Scale, *, ranks: int = 1, more: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Measure these in a process of their own, or several ranks; returns what rank 0 prints."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = [sys.executable, __file__, "--work", json.dumps(list(names)), "--in", str(folder)]
    program += ["--small"] if scale is SMALL else []
    program += ["--flags", json.dumps(list(more))]
    environment = dict(os.environ)
    if scale.device == "cpu":
        environment["OMP_NUM_THREADS"] = "1"
    processes = []
    for rank in range(ranks):
        own = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks)}
        own |= {"LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1"}
        own |= {"MASTER_PORT": str(port), "RUN": str(port)}
        processes.append(
            subprocess.Popen(
                program,
                env=environment | (own if ranks > 1 else {}),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    outputs = [process.communicate(timeout=scale.timeout * len(names))[0] for process in processes]
    if any(process.returncode for process in processes):
        return [{"name": name, "missing": f"failed: {outputs[0][-300:]!r}"} for name in names]
    lines = [line for line in outputs[0].splitlines() if line.startswith("RESULT ")]
    return [json.loads(line.removeprefix("RESULT ")) for line in lines]


def show(line: dict[str, Any], first: float | None) -> None:
    """Print a row of the table; `first` are the tokens a second of its first row."""
    if "missing" in line:
        print(f"{line['name']:42} {line['missing']}", flush=True)
        return
    mfu = f"{line['mfu']:6.1%}" if line["mfu"] else "      "
    share = f"{line['tokens_per_s'] / first:7.1%}" if first else ""
    print(
        f"{line['name']:42} {line['tokens_per_s']:12,.0f} {line['step_s'] * 1000:9.1f} {mfu} "
        f"{line['memory_gb']:8.2f} {share}",
        flush=True,
    )


def gather_medians(turns: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return one line of several turns of the same contender."""
    measured = [turn for turn in turns if "missing" not in turn]
    if not measured:
        return turns[0]
    line = {"name": measured[0]["name"], "turns": [turn["tokens_per_s"] for turn in measured]}
    for key in ("tokens_per_s", "step_s", "memory_gb", "mfu"):
        values = [turn[key] for turn in measured if turn[key] is not None]
        line[key] = statistics.median(values) if values else None
    return line


def main() -> int:
    """Measure, print a table, write JSON; exit status 1 when the trainer itself does not run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--small", action="store_true", help="on a CPU, a few steps of all")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--work", type=json.loads, help=argparse.SUPPRESS)
    parser.add_argument("--in", dest="folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--flags", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    scale = SMALL if options.small else LARGE
    if options.work:
        work(options.work, options.folder, scale, options.flags)
        return 0

    import torch

    if scale is LARGE and not torch.cuda.is_available():
        print("no GPU is visible; --small runs on a CPU", file=sys.stderr)
        return 1
    device = torch.cuda.get_device_name() if scale is LARGE else "CPU: these are no measurements"
    print(f"{scale.model} on {device}, torch {torch.__version__}")
    print(f"{'':42} {'tokens/s':>12} {'step, ms':>9} {'MFU':>6} {'GB':>8}")
    with tempfile.TemporaryDirectory(prefix="trainer-gpu-") as name:
        folder = Path(name)
        make_tokens(folder, scale)
        lines = list(measure_all(folder, scale, torch.cuda.device_count()))
    if options.json:
        about = {"device": device, "torch": torch.__version__, "scale": scale._asdict()}
        options.json.write_text(json.dumps(about | {"lines": lines}, indent=1) + "\n")
    return 1 if "missing" in lines[0] else 0


def measure_all(folder: Path, scale: Scale, gpus: int) -> Iterator[dict[str, Any]]:
    """Measure everything; yields, and prints, a line for each row."""
    contenders = [TRAINER, PLAIN, HF]
    if scale is SMALL:  # Starting torch takes longer than what is shown: all in one process.
        names = [*contenders, *UNDONE]
        turns = {line["name"]: [line] for line in start(names, folder, scale)}
    else:
        turns = {name: [] for name in contenders}
        for _ in range(scale.rounds):
            for name in contenders:
                turns[name] += start([name], folder, scale)
    own = gather_medians(turns[TRAINER])
    first = own.get("tokens_per_s")
    for name in contenders:
        line = gather_medians(turns[name])
        show(line, first)
        yield line
    for name in UNDONE:
        (line,) = turns.get(name) or start([name], folder, scale)
        show(line, first)
        yield line
    ranks = 2 if scale is SMALL else gpus
    for strategy in ("ddp", "fsdp") if ranks > 1 else ():
        more = ["--strategy", strategy]
        batch = scale.context * scale.micro_batch * scale.accumulation * ranks
        more += ["--batch-tokens", str(batch)]
        (line,) = start([TRAINER], folder, scale, ranks=ranks, more=more)
        line["name"] = f"{ranks} ranks, {strategy}"
        show(line, first * ranks if first else None)
        yield line


if __name__ == "__main__":
    sys.exit(main())
