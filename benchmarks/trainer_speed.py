"""How fast is the trainer, against a plain loop that does nothing but train?

The plain loop has the trainer's model and its batches, made before, and no line for anything else:
no data loading, metrics, checkpoints, checks or stops. Runs of both alternate, and ratios are those
of neighbours, as a busy machine is slow by turns. Also shown: which shares of a step go to data and
to metrics, and what asynchronous checkpoints add to a run.

    python benchmarks/trainer_speed.py                                    # CPU, one process
    python benchmarks/trainer_speed.py --processes 2                      # CPU, two: DDP
    python benchmarks/trainer_speed.py --device cuda --dtype bf16 --compile --model gpt2-124m \\
        --micro-batch 64 --steps 40

MFU is flops_per_unit (for gpt 6 N + 12 L C T a token, N without positions) times tokens a second,
as a share of the devices' peak for dense bf16, where that is known (metrics.py has the table).
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
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WARM = 5  # steps that do not count


def plain(flags: list[str]) -> None:
    """Be one rank of the plain loop; rank 0 prints the median seconds of a step."""
    import torch
    from torch.nn.parallel import DistributedDataParallel

    from jobgen.trainer import tasks
    from jobgen.trainer.flags import parse_flags

    config = parse_flags(flags)
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    cuda = config.device == "cuda"
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    if rank == 0:
        tasks.prepare(config, fetch=False)
    if size > 1:
        torch.distributed.init_process_group("nccl" if cuda else "gloo")
        torch.distributed.barrier()
    task = tasks.load(config)
    torch.manual_seed(0)
    model = task.build().to(device)
    if config.compile:
        model.forward = torch.compile(model.forward, dynamic=False)
    called = model
    if size > 1:
        called = DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=cuda)
    items = config.batch_units // task.units_per_item // size
    micro = next(n for n in range(min(items, config.micro_batch), 0, -1) if items % n == 0)
    parts = items // micro
    first = task.batch(range(micro), training=True)
    batches = [tuple(part.to(device) for part in first) for _ in range(parts)]
    short = torch.bfloat16 if config.dtype == "bf16" else torch.float32
    seconds = []
    for _ in range(config.steps):
        began = time.perf_counter()
        for number, batch in enumerate(batches):
            if size > 1:
                called.require_backward_grad_sync = number == parts - 1
            with torch.autocast(device.type, short, enabled=short != torch.float32):
                loss = task.loss(called, batch) / config.batch_units
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if cuda:
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
    if rank == 0:
        print(statistics.median(seconds[WARM:]))
    sys.stdout.flush()
    os._exit(0)


def start(program: list[str], processes: int) -> str:
    """Run the program on so many ranks; returns what rank 0 prints."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    threads = max(1, (os.cpu_count() or 1) // processes)
    fixed = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": str(threads), "MASTER_ADDR": "127.0.0.1"}
    fixed |= {"MASTER_PORT": str(port), "WORLD_SIZE": str(processes)}
    fixed |= {"LOCAL_WORLD_SIZE": str(processes)}
    ranks = [
        subprocess.Popen(
            [sys.executable, *program],
            env=os.environ | fixed | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(processes)
    ]
    outputs = [rank.communicate()[0] for rank in ranks]
    if any(rank.returncode for rank in ranks):
        sys.exit(f"failed: {' '.join(program)}\n{outputs[0]}")
    return outputs[0]


def train(flags: list[str], processes: int) -> tuple[list[dict[str, float]], dict[str, float]]:
    """Run the trainer; returns its steps after the warm ones, and the facts of its start."""
    out = Path(flags[flags.index("--out") + 1])
    start(["-m", "jobgen.trainer", *flags], processes)
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if line["kind"] == "step" and line["step"] > WARM]
    return steps, next(line for line in lines if line["kind"] == "start")


def metrics_seconds(flags: list[str]) -> float:
    """Return what noting one step costs, seconds, when a line is due every tenth."""
    from jobgen.trainer.flags import parse_flags
    from jobgen.trainer.metrics import Log

    folder = Path(tempfile.mkdtemp())
    config = parse_flags([*flags, "--out", str(folder), "--log-every", "10", "--steps", "100000"])
    log = Log(config, step=0, writes=True)
    log.say = lambda text, passing=False: None  # type: ignore[method-assign]
    facts = {"unit": "tokens", "world_size": 1, "parameters": 1}
    log.start(0, **facts, flops_per_unit=None, peak_flops=None)
    began = time.perf_counter()
    for step in range(1, 2001):
        numbers = {"loss": 1.0, "lr": 1.0, "grad_norm": 1.0, "mem_gb": 1.0}
        log.step(step, numbers, seconds=1.0, waited=0.0, units=step)
    return (time.perf_counter() - began) / 2000


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--save-every", type=int, default=100, help="of the checkpoint's cost")
    options, rest = parser.parse_known_args()
    rest += [] if "--device" in rest else ["--device", "cpu"]
    folder = Path(tempfile.mkdtemp(prefix="trainer-speed-"))
    common = [*rest, "--tokens", str(folder / "tokens"), "--val-every", "1000000"]
    common += ["--val-items", "1", "--sample-tokens", "0"]
    short = [*common, "--steps", str(options.steps), "--log-every", "1"]

    ratios, shares, facts, speed = [], [], {}, 0.0
    for number in range(options.rounds):
        out = ["--out", str(folder / f"run-{number}"), "--save-every", "1000000"]
        steps, facts = train([*short, *out], options.processes)
        own = statistics.median(step["step_s"] for step in steps)
        reference = float(
            start([__file__, "--plain", *short, *out], options.processes).splitlines()[-1]
        )
        ratios.append(reference / own)
        shares.append(statistics.median(step["data_s"] / step["step_s"] for step in steps))
        speed = max(speed, statistics.median(step["tokens_per_s"] for step in steps))
        print(f"a step: {own * 1000:.1f} ms, plain {reference * 1000:.1f} ms", flush=True)
    print(f"speed of the plain loop's: {statistics.median(ratios):.1%}")
    print(f"waiting for data: {statistics.median(shares):.2%} of a step")
    print(f"metrics: {metrics_seconds(common) / own:.2%} of a step")
    if facts["peak_flops"]:
        peak = facts["peak_flops"] * options.processes
        mfu = speed * facts["flops_per_unit"] / peak
        print(f"{speed:,.0f} tokens/s: MFU {mfu:.1%} of {peak:.4g} operations per second")
    else:
        print(f"{speed:,.0f} tokens/s on {facts['device_name']}, whose peak is not known: no MFU")

    # Both runs write the last checkpoint; one of them, two before it.
    steps_long = 3 * options.save_every
    costs = []
    for number in range(options.rounds):
        seconds = []
        for save_every in (options.save_every, 10**6):
            out = ["--out", str(folder / f"save-{number}-{save_every}")]
            flags = [*common, *out, "--steps", str(steps_long), "--save-every", str(save_every)]
            steps, _ = train(flags, options.processes)
            seconds.append(steps[-1]["time"] - steps[0]["time"])
        costs.append(seconds[0] / seconds[1] - 1)
    print(
        f"asynchronous checkpoints, every {options.save_every} steps: "
        f"{statistics.median(costs):+.2%} of the run ({', '.join(f'{c:+.2%}' for c in costs)})"
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--plain"]:
        plain(sys.argv[2:])
    main()
