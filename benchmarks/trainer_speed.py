"""How fast is the trainer, against a plain loop that does nothing but train?

The plain loop has the trainer's model and its batches, made before, and no line for anything else:
no data loading, metrics, checkpoints, checks or stops. It runs in processes of its own. The two
take turns, one step each, as a busy machine is slow for seconds at a time: a ratio is that of two
neighbours, and the trainer's side is all that it does from one turn to the next.

Also shown: which shares of a step go to data and to metrics, and what asynchronous checkpoints add:
how much longer the steps after the beginning of one take than those around them.

    python benchmarks/trainer_speed.py                                    # CPU, one process
    python benchmarks/trainer_speed.py --processes 2                      # CPU, two: DDP
    python benchmarks/trainer_speed.py --device cuda --dtype bf16 --compile --model gpt2-124m \\
        --micro-batch 64 --steps 40

MFU is flops_per_unit (for gpt 6 N + 12 L C T a token, N without positions) times tokens a second,
as a share of the devices' peak for dense bf16, where that is known (metrics.py has the table).
With --check, exit status 1 when the trainer is slower than the plain loop, or when data or metrics
take 1 % of a step, or checkpoints 2 % of the run.
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
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
WARM = 5  # steps that do not count


def plain(flags: list[str]) -> None:
    """Be one rank of the plain loop: a step for each line of input; its seconds are printed."""
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
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    items = config.batch_units // task.units_per_item // size
    micro = next(n for n in range(min(items, config.micro_batch), 0, -1) if items % n == 0)
    parts = items // micro
    first = task.batch(range(micro), training=True)
    batches = [tuple(part.to(device) for part in first) for _ in range(parts)]
    short = torch.bfloat16 if config.dtype == "bf16" else torch.float32
    for _ in sys.stdin:
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
        print(time.perf_counter() - began, flush=True)
    os._exit(0)


def in_turns(flags: list[str]) -> None:
    """Be one rank of the trainer, which before each step lets one of the plain loop take its own.

    Rank 0 prints the seconds of both, of the plain loop first, a turn a line.
    """
    import torch

    from jobgen.trainer import __main__, loop
    from jobgen.trainer.step import Step, Stepper

    other = subprocess.Popen(
        [sys.executable, __file__, "--plain", *flags],
        env=os.environ | {"MASTER_PORT": os.environ["OTHER_PORT"]},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert other.stdin is not None
    assert other.stdout is not None
    ask, answer = other.stdin, other.stdout
    # Of each of the plain loop's turns: when it was asked, its own seconds, when it had answered.
    turns: list[tuple[float, float, float]] = []

    class InTurns(Stepper):
        def step(self, flags: Sequence[float]) -> Step:
            if self.world.device.type == "cuda":
                torch.cuda.synchronize()
            asked = time.perf_counter()
            print(file=ask, flush=True)
            turns.append((asked, float(answer.readline()), time.perf_counter()))
            return super().step(flags)

    loop.Stepper = InTurns  # type: ignore[misc]
    sys.argv[1:] = flags
    status = __main__.main()
    other.communicate()
    if os.environ["RANK"] == "0":
        for (_, seconds, began), (ended, _, _) in pairwise(turns[WARM:]):
            print("turn", seconds, ended - began)
    sys.stdout.flush()
    os._exit(status)


def start(program: list[str], processes: int) -> str:
    """Run the program on so many ranks; returns what rank 0 prints."""
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        ports = [free.getsockname()[1] for free in (one, other)]
    threads = max(1, (os.cpu_count() or 1) // processes)
    fixed = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": str(threads), "MASTER_ADDR": "127.0.0.1"}
    fixed |= {"MASTER_PORT": str(ports[0]), "OTHER_PORT": str(ports[1])}
    fixed |= {"WORLD_SIZE": str(processes), "LOCAL_WORLD_SIZE": str(processes)}
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


def train(flags: list[str], processes: int) -> list[dict[str, Any]]:
    """Run the trainer; returns the lines of its metrics, without the warm steps."""
    out = Path(flags[flags.index("--out") + 1])
    start(["-m", "jobgen.trainer", *flags], processes)
    lines = map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
    return [line for line in lines if line["kind"] != "step" or line["step"] > WARM]


def metrics_seconds(flags: list[str]) -> float:
    """Return what noting one step costs, seconds, when a line is due every tenth."""
    from jobgen.trainer.flags import parse_flags
    from jobgen.trainer.output.metrics import Log

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


def saving(lines: list[dict[str, Any]], save_every: int) -> list[float]:
    """Return what each checkpoint but the last added to the run, as a share of the steps for one.

    The steps from one that begins a checkpoint to the second after its end are compared with the
    median of as many around them.
    """
    ends = {line["step"]: line["time"] for line in lines if line["kind"] == "step"}
    gaps = {step: end - ends[step - 1] for step, end in ends.items() if step - 1 in ends}
    costs = []
    for save in [line for line in lines if line["kind"] == "save"][:-1]:
        first = save["step"]
        last = next(step for step, end in ends.items() if end > save["time"]) + 2
        busy = range(first, last + 1)
        near = [gap for step, gap in gaps.items() if step not in busy and abs(step - first) <= 30]
        usual = statistics.median(near)
        costs.append(sum(gaps[step] - usual for step in busy) / (usual * save_every))
    return costs


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--save-every", type=int, default=100, help="of the checkpoint's cost")
    parser.add_argument("--saves", type=int, default=10)
    parser.add_argument("--check", action="store_true")
    options, rest = parser.parse_known_args()
    rest += [] if "--device" in rest else ["--device", "cpu"]
    folder = Path(tempfile.mkdtemp(prefix="trainer-speed-"))
    common = [*rest, "--tokens", str(folder / "tokens"), "--val-every", "1000000"]
    common += ["--val-items", "1", "--sample-tokens", "0"]

    flags = [*common, "--steps", str(options.steps), "--save-every", "1000000"]
    said = start(
        [__file__, "--in-turns", *flags, "--out", str(folder / "turns")], options.processes
    )
    turns = [line.split()[1:] for line in said.splitlines() if line.startswith("turn ")]
    pairs = [(float(plain), float(own)) for plain, own in turns]
    ratio = statistics.median(plain / own for plain, own in pairs)
    plain_s, own_s = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(f"a step: {own_s * 1000:.1f} ms, of the plain loop {plain_s * 1000:.1f} ms")
    print(f"tokens a second: {ratio:.1%} of the plain loop's, the median of {len(pairs)} turns")

    steps_long = (options.saves + 1) * options.save_every
    flags = [*common, "--steps", str(steps_long), "--save-every", str(options.save_every)]
    flags += ["--log-every", "1", "--out", str(folder / "saves")]
    lines = train(flags, options.processes)
    facts = next(line for line in lines if line["kind"] == "start")
    steps = [line for line in lines if line["kind"] == "step"]
    waiting = statistics.median(step["data_s"] / step["step_s"] for step in steps)
    noting = metrics_seconds(common) / own_s
    costs = saving(lines, options.save_every)
    cost = statistics.mean(costs)
    print(f"waiting for data: {waiting:.2%} of a step")
    print(f"metrics: {noting:.2%} of a step")
    print(
        f"asynchronous checkpoints, every {options.save_every} steps: {cost:+.2%} of the run "
        f"(one by one {', '.join(f'{c:+.1%}' for c in costs)})"
    )
    speed = statistics.median(step["tokens_per_s"] for step in steps)
    if facts["peak_flops"]:
        peak = facts["peak_flops"] * options.processes
        mfu = speed * facts["flops_per_unit"] / peak
        print(f"{speed:,.0f} tokens/s: MFU {mfu:.1%} of {peak:.4g} operations per second")
    else:
        print(f"{speed:,.0f} tokens/s on {facts['device_name']}, whose peak is not known: no MFU")
    if options.check and (ratio < 1 or max(waiting, noting) >= 0.01 or cost >= 0.02):
        sys.exit(1)


if __name__ == "__main__":
    roles = {"--plain": plain, "--in-turns": in_turns}
    if sys.argv[1:2] and sys.argv[1] in roles:
        roles[sys.argv[1]](sys.argv[2:])
    main()
