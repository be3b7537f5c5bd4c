"""The first hour of the trainer on a GPU: is it right, and how fast is it?

    python benchmarks/trainer_gpu.py --minutes 8 --json gpu.json
    python benchmarks/trainer_gpu.py --small       # on a CPU: shows that it runs, no more

Each row is a process with a time limit: one that is late is killed, and the next one runs. The JSON
file is written after every row. First what must be right, on GPT-2 124M and 20 steps:

- bf16 and compiled learn as fp32 uncompiled does; fsdp as ddp
- killed and continued with --deterministic, the same bits; a checkpoint has the model's parameters

Then how fast: the default batch of 524,288 tokens, a plain loop beside it with as many samples, a
sweep of micro-batches, and a trace with the ten longest kernels. Tokens a second are medians over
steps after the first ones; MFU is as the trainer's documentation says. On an H200 all rows were
right, and the default batch had an MFU of 44.8 %.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))


class Scale(NamedTuple):
    """How much is run."""

    model: str
    context: int
    batch_tokens: int
    micro_batches: tuple[int, ...]  # of the sweep; the first is the default
    warm: int  # steps that do not count
    steps: int  # that count
    device: str
    row_s: float  # seconds for a row

    def list_flags(self, folder: Path, out: str) -> list[str]:
        """Return the trainer's flags for a run of 20 steps, each with a line."""
        return [
            *("--model", self.model, "--context", str(self.context), "--device", self.device),
            *("--tokens", str(folder / "tokens"), "--out", str(folder / out), "--steps", "20"),
            *("--batch-tokens", str(self.micro_batches[0] * self.context), "--log-every", "1"),
            *("--micro-batch", str(self.micro_batches[0]), "--val-every", "0"),
            *("--save-every", "1000000", "--schedule", "constant", "--warmup-steps", "2"),
        ]


LARGE = Scale("gpt2-124m", 1024, 524288, (32, 16, 64), 5, 25, "cuda", 90.0)
SMALL = Scale("gpt-tiny", 16, 256, (4, 8), 1, 3, "cpu", 60.0)


def prepare_tokens(folder: Path, scale: Scale) -> None:
    """Write a text drawn at random as tokens, with the size of GPT-2's vocabulary on a GPU."""
    import numpy as np

    from jobgen.trainer.flags import parse_flags
    from jobgen.trainer.text.preparation import prepare_text

    letters = np.random.default_rng(0).integers(97, 123, scale.context * 4096).astype("u1")
    (folder / "text").write_bytes(letters.tobytes())
    flags = ["--data", str(folder / "text"), "--tokens", str(folder / "tokens")]
    prepare_text(parse_flags([*flags, "--tokenizer", "byte"]), fetch=False)
    manifest = folder / "tokens" / "manifest.json"
    vocabulary = 50257 if scale is LARGE else 257
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"vocabulary": vocabulary}))


def train(flags: Sequence[str]) -> list[dict[str, Any]]:
    """Run the trainer in this process; returns its lines of steps."""
    from jobgen.trainer.distributed.world import leave
    from jobgen.trainer.flags import parse_flags
    from jobgen.trainer.run import run

    config = parse_flags(flags)
    try:
        run(config)
    finally:
        leave()
    lines = map(json.loads, (config.out / "metrics.jsonl").read_text().splitlines())
    return [line for line in lines if line["kind"] == "step"]


def list_losses(folder: Path, scale: Scale, out: str, *flags: str) -> list[float]:
    return [line["loss"] for line in train([*scale.list_flags(folder, out), *flags])]


def compare_losses(folder: Path, scale: Scale, name: str, *flags: str) -> dict[str, Any]:
    """Compare the losses of 20 steps with those in fp32, uncompiled, which come first."""
    losses = list_losses(folder, scale, name.replace(" ", "-"), *flags)
    reference = folder / "losses.json"
    if not reference.exists():
        reference.write_text(json.dumps(losses))
    pairs = zip(losses, json.loads(reference.read_text()), strict=True)
    worst = max(abs(one - other) / other for one, other in pairs)
    return {"right": worst < 0.02, "largest difference": round(worst, 6), "last loss": losses[-1]}


def check_fp32(folder: Path, scale: Scale) -> dict[str, Any]:
    return compare_losses(folder, scale, "fp32", "--dtype", "fp32", "--no-compile")


def check_bf16(folder: Path, scale: Scale) -> dict[str, Any]:
    return compare_losses(folder, scale, "bf16", "--dtype", "bf16", "--no-compile")


def check_compiled(folder: Path, scale: Scale) -> dict[str, Any]:
    return compare_losses(folder, scale, "compiled", "--dtype", "bf16", "--compile")


def check_fsdp(folder: Path, scale: Scale) -> dict[str, Any]:
    flags = ("--dtype", "fp32", "--no-compile", "--strategy", "fsdp")
    return compare_losses(folder, scale, "fsdp", *flags)


def check_resume(folder: Path, scale: Scale) -> dict[str, Any]:
    """Train 20 steps at once, and 10 and 10; the second half must be the same to the bit."""
    import torch

    from jobgen.trainer.checkpoint import Checkpoints, read_whole

    flags = ("--deterministic", "--save-every", "10", "--no-async-save")
    whole = list_losses(folder, scale, "whole", *flags)
    list_losses(folder, scale, "halves", *flags, "--steps", "10")
    halves = list_losses(folder, scale, "halves", *flags)
    ends = [Checkpoints(folder / name).all()[-1] for name in ("whole", "halves")]
    one, other = (read_whole(end) for end in ends)
    same = all(torch.equal(one[name], other[name]) for name in one)
    return {"right": same and whole == halves, "same parameters": same}


def check_checkpoint(folder: Path, scale: Scale) -> dict[str, Any]:
    """Compare what was saved with the model's parameters."""
    import torch

    from jobgen.trainer import run as module
    from jobgen.trainer.checkpoint import Checkpoints, read_whole

    kept: list[Any] = []

    class Kept(module.Stepper):
        def collect_tensors(self) -> dict[str, Any]:
            kept[:] = [{n: t.detach().cpu().clone() for n, t in self.model.state_dict().items()}]
            return super().collect_tensors()

    module.Stepper = Kept  # type: ignore[misc]
    list_losses(folder, scale, "saved")
    saved = read_whole(Checkpoints(folder / "saved").all()[-1])
    return {"right": all(torch.equal(saved[name], each) for name, each in kept[0].items())}


def measure(folder: Path, scale: Scale, out: str, *flags: str) -> dict[str, Any]:
    """Return speed, memory and MFU of the trainer with the default batch."""
    steps = str(scale.warm + scale.steps)
    given = ["--batch-tokens", str(scale.batch_tokens), "--steps", steps, *flags]
    lines = train([*scale.list_flags(folder, out), *given])[scale.warm :]
    return summarise(
        [line["step_s"] for line in lines],
        scale.batch_tokens,
        memory_gb=max(line["mem_gb"] for line in lines),
        mfu=lines[-1]["mfu"] and statistics.median(line["mfu"] for line in lines),
    )


def summarise(seconds: Sequence[float], tokens: int, **more: Any) -> dict[str, Any]:
    step_s = statistics.median(seconds)
    spread = [round(1000 * each, 2) for each in (min(seconds), max(seconds))]
    return {"tokens_per_s": tokens / step_s, "step_s": step_s, "samples": len(seconds)} | {
        "step_ms_range": spread,
        **more,
    }


def measure_default(folder: Path, scale: Scale) -> dict[str, Any]:
    return measure(folder, scale, "default")


def measure_micro_batch(folder: Path, scale: Scale, size: str) -> dict[str, Any]:
    return measure(folder, scale, f"micro-{size}", "--micro-batch", size)


def measure_plain(folder: Path, scale: Scale) -> dict[str, Any]:
    """Return the speed of a plain loop with the trainer's model; every step reads the loss."""
    import torch

    from jobgen.trainer import tasks
    from jobgen.trainer.flags import parse_flags
    from jobgen.trainer.output.metrics import measure_memory

    cuda, size = scale.device == "cuda", scale.micro_batches[0]
    task: Any = tasks.load_task(parse_flags(scale.list_flags(folder, "plain")))
    torch.set_float32_matmul_precision("high")
    model = task.build().to(scale.device)
    compiled = torch.compile(model) if cuda else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, weight_decay=0.1, fused=True)
    often, generator = scale.batch_tokens // scale.context // size, torch.Generator()
    seconds = []
    for _ in range(scale.warm + scale.steps):
        began = time.perf_counter()
        for _ in range(often):
            items = torch.randint(task.train_items, (size,), generator=generator).tolist()
            windows = task.batch(items, training=True).long()
            inputs, targets = windows[:, :-1].contiguous(), windows[:, 1:].contiguous()
            if cuda:
                inputs, targets = (
                    each.pin_memory().cuda(non_blocking=True) for each in (inputs, targets)
                )
            with torch.autocast(scale.device, torch.bfloat16, enabled=cuda):
                loss = compiled(inputs, targets) / (targets.numel() * often)
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        float(loss)
        seconds.append(time.perf_counter() - began)
    memory = measure_memory(torch.device(scale.device))
    return summarise(seconds[scale.warm :], scale.batch_tokens, memory_gb=memory)


def trace_kernels(folder: Path, scale: Scale) -> dict[str, Any]:
    """Return the ten longest kernels of a run of 20 steps: name, calls, milliseconds."""
    import torch

    with torch.profiler.profile() as profile:
        train(scale.list_flags(folder, "trace"))
    key = "self_device_time_total" if scale.device == "cuda" else "self_cpu_time_total"
    events = sorted(profile.key_averages(), key=lambda event: -getattr(event, key))[:10]
    return {"kernels": [[e.key[:80], e.count, round(getattr(e, key) / 1000, 2)] for e in events]}


def hang(folder: Path, scale: Scale) -> dict[str, Any]:
    """Never end: a row for the test of this program."""
    time.sleep(10_000)
    return {}


ROWS: dict[str, Callable[..., dict[str, Any]]] = {
    "fp32, uncompiled": check_fp32,
    "bf16": check_bf16,
    "bf16, compiled": check_compiled,
    "fsdp": check_fsdp,
    "killed and continued": check_resume,
    "checkpoint": check_checkpoint,
    "the default batch": measure_default,
    "plain loop": measure_plain,
    "micro-batch": measure_micro_batch,
    "trace": trace_kernels,
    "hang": hang,
}


def run_row(row: str, folder: Path, scale: Scale, *, seconds: float) -> dict[str, Any]:
    """Run a row in its own process and session; kill all of it when the seconds are over."""
    began = time.monotonic()
    argv = [sys.executable, __file__, "--row", row, "--in", str(folder)]
    argv += ["--small"] if scale is SMALL else []
    with (folder / "output").open("w+") as output:
        process = subprocess.Popen(argv, stdout=output, stderr=output, start_new_session=True)
        try:
            process.wait(seconds)
            state = {} if process.returncode == 0 else {"failed": process.returncode}
        except subprocess.TimeoutExpired:
            state = {"timeout": round(seconds)}
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(0)
        lines = output.read().splitlines()
    results = [line.removeprefix("RESULT ") for line in lines if line.startswith("RESULT ")]
    line = {"row": row, "seconds": round(time.monotonic() - began, 1)} | state
    if results:
        return line | json.loads(results[-1])
    return line | {"said": lines[-8:]}


def describe_machine() -> dict[str, Any]:
    """Return what a figure depends on: device, versions, clocks and power."""
    import torch

    about: dict[str, Any] = {"torch": torch.__version__, "time": time.strftime("%Y-%m-%d %H:%M")}
    if torch.cuda.is_available():
        about |= {"device": torch.cuda.get_device_name(), "cuda": torch.version.cuda}
        about["cudnn"] = torch.backends.cudnn.version()
    with suppress(OSError, subprocess.SubprocessError):
        query = "clocks.sm,clocks.max.sm,clocks.mem,power.draw,power.limit,temperature.gpu"
        ask = ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"]
        about["clocks"] = subprocess.run(ask, capture_output=True, text=True, timeout=10).stdout
    return about


def list_rows(scale: Scale, extra: Sequence[str]) -> Iterator[str]:
    """Yield the rows, those that must be right first."""
    names = [name for name in ROWS if name not in ("hang", "micro-batch", "trace")]
    yield from names[:1]
    yield from extra
    yield from names[1:]
    yield from (f"micro-batch {size}" for size in scale.micro_batches[1:])
    yield "trace"


def main() -> int:
    """Run the rows; exit status 1 when one that must be right is not, or did not run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=8.0, help="rows that are left do not run")
    parser.add_argument("--small", action="store_true", help="on a CPU, a few steps of all")
    parser.add_argument("--json", type=Path, metavar="FILE", default=Path("trainer-gpu.json"))
    parser.add_argument("--row-seconds", type=float, help="for each row")
    parser.add_argument("--extra", nargs="*", default=[], help="more rows, such as: hang")
    parser.add_argument("--row", help=argparse.SUPPRESS)
    parser.add_argument("--in", dest="folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    scale = SMALL if options.small else LARGE
    if options.row:
        name, _, size = options.row.partition(" ") if "micro" in options.row else (options.row,) * 3
        more = (size,) if name == "micro-batch" else ()
        print("RESULT", json.dumps(ROWS[name](options.folder, scale, *more)), flush=True)
        return 0
    end = time.monotonic() + 60 * options.minutes
    report: dict[str, Any] = {"before": describe_machine(), "scale": scale._asdict(), "rows": []}
    if scale is LARGE and "device" not in report["before"]:
        print("no GPU is visible; --small runs on a CPU", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="trainer-gpu-") as name:
        folder = Path(name)
        prepare_tokens(folder, scale)
        for row in list_rows(scale, options.extra):
            left = end - time.monotonic()
            line: dict[str, Any] = {"row": row, "left out": "no time is left"}
            if left > 5:
                limit = min(options.row_seconds or scale.row_s, left)
                line = run_row(row, folder, scale, seconds=limit)
            report["rows"].append(line)
            report["after"] = describe_machine()
            options.json.write_text(json.dumps(report, indent=1) + "\n")
            print(json.dumps(line), flush=True)
    wrong = [line for line in report["rows"] if line.get("right") is False or "said" in line]
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
