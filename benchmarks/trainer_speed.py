"""How fast is the trainer, and how large, against a plain loop that does nothing but train?

The plain loop is `tests/helpers/plain_gpt.py`: GPT-2 in a loop as nanoGPT's, of the same size, on
batches made before; no data loading, metrics, checks or stops. It runs in processes of its own. The
two take turns of a few steps each, as a busy machine is slow for seconds at a time: a ratio is that
of a turn to the mean of its neighbours. While one has its turn the other is stopped (SIGSTOP), all
its threads, so that a turn is all that it does. Processor time, which other programs hardly change,
is that of all ranks.

Also shown: the memory of both, which shares of a step go to data and to metrics, and what
asynchronous checkpoints add: how much longer the steps after the beginning of one take than those
around them.

    python benchmarks/trainer_speed.py                  # one process
    python benchmarks/trainer_speed.py --processes 2    # two: DDP

Each process has one thread. For a GPU there is `trainer_gpu.py`. With --check, exit status 1 when
the trainer is slower than the plain loop (with several processes: than 99 % of it), needs 5 % more
memory, or when data, metrics or checkpoints take 1 %; all by processor time, but for waiting.
"""

import argparse
import json
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]

WARM = 3  # turns that do not count
TURN = 5  # steps
MODEL = "gpt-tiny"


class Seconds(NamedTuple):
    """What a turn, or a step, took: by the clock, and of processors."""

    wall: float
    cpu: float

    @classmethod
    def now(cls) -> "Seconds":
        """Return the time."""
        return cls(time.perf_counter(), time.process_time())

    def since(self, before: "Seconds") -> "Seconds":
        """Return the seconds between two times."""
        return Seconds(self.wall - before.wall, self.cpu - before.cpu)


def measure_peak() -> int:
    """Return the most memory this process has held, kB; a parent's does not count."""
    found = re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())
    assert found
    return int(found[1])


def plain(flags: list[str]) -> None:
    """Be one rank of the plain loop: a turn for each line of input."""
    import plain_gpt
    import torch
    from torch.nn.parallel import DistributedDataParallel

    from jobgen.trainer import tasks
    from jobgen.trainer.flags import parse_flags

    size = int(os.environ["WORLD_SIZE"])
    task: Any = tasks.load_task(parse_flags(flags))  # rank 0 of the trainer has prepared the data
    shape = task.shape
    if size > 1:
        torch.distributed.init_process_group("gloo")
    torch.manual_seed(0)
    model = plain_gpt.PlainGPT(
        plain_gpt.Size(shape.layers, shape.heads, shape.width, shape.context, shape.vocabulary)
    )
    called = DistributedDataParallel(model, gradient_as_bucket_view=True) if size > 1 else model
    optimizer = plain_gpt.make_adamw(model, 1e-3)
    items = task.config.batch_units // task.units_per_item // size
    windows = task.batch(range(items), training=True).long()
    batches = [
        (part[:, :-1].contiguous(), part[:, 1:].contiguous())
        for part in windows.chunk(-(-items // task.config.micro_batch))
    ]
    for _ in sys.stdin:
        began = Seconds.now()
        for _ in range(TURN):
            loss = plain_gpt.take_step(called, optimizer, batches)
        float(loss)
        print(*Seconds.now().since(began), measure_peak(), flush=True)
        os.kill(os.getppid(), signal.SIGCONT)
        os.kill(os.getpid(), signal.SIGSTOP)
    os._exit(0)


def in_turns(flags: list[str]) -> None:
    """Be one rank of the trainer, which lets one of the plain loop take its turn after each of its.

    Prints, for each pair of turns, what both took and how much memory they have held.
    """
    from jobgen.trainer import __main__, run
    from jobgen.trainer.step import Stepper

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
    turns: list[tuple[Seconds, list[str], Seconds]] = []  # asked at, the answer, went on at

    class InTurns(Stepper):
        def step(self) -> Any:
            if self.done % TURN == 0:
                asked = Seconds.now()
                print(file=ask, flush=True)
                os.kill(other.pid, signal.SIGCONT)
                os.kill(os.getpid(), signal.SIGSTOP)
                turns.append((asked, answer.readline().split(), Seconds.now()))
            return super().step()

    run.Stepper = InTurns  # type: ignore[misc]
    sys.argv[1:] = flags
    status = __main__.main()
    os.kill(other.pid, signal.SIGCONT)
    other.communicate()
    for (_, others, began), (ended, _, _) in pairwise(turns[WARM:]):
        print("turn", *others, *ended.since(began), measure_peak())
    sys.stdout.flush()
    os._exit(status)


def step_by_step(flags: list[str]) -> None:
    """Be one rank of the trainer, which prints when each step began."""
    from jobgen.trainer import __main__, run
    from jobgen.trainer.step import Stepper

    begun: list[tuple[int, float, Seconds]] = []

    class Noted(Stepper):
        def step(self) -> Any:
            begun.append((self.done + 1, time.time(), Seconds.now()))
            return super().step()

    run.Stepper = Noted  # type: ignore[misc]
    sys.argv[1:] = flags
    status = __main__.main()
    for step, at, now in begun:
        print("begun", step, at, *now)
    sys.stdout.flush()
    os._exit(status)


def start(program: list[str], processes: int, word: str) -> list[list[list[float]]]:
    """Run the program on so many ranks.

    Returns the numbers of each line that begins with the word, line by line, of all ranks.
    """
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        ports = [free.getsockname()[1] for free in (one, other)]
    fixed = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1"}
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
    found = [
        [
            [float(each) for each in rest.split()]
            for rest in re.findall(f"^{word} (.*)$", output, re.M)
        ]
        for output in outputs
    ]
    return [list(line) for line in zip(*found, strict=True)]


def measure_noting(flags: list[str]) -> float:
    """Return what noting one step costs, seconds, when a line is due every tenth."""
    from jobgen.trainer.flags import parse_flags
    from jobgen.trainer.output.metrics import Log, StepNumbers

    folder = Path(tempfile.mkdtemp())
    config = parse_flags([*flags, "--out", str(folder), "--log-every", "10", "--steps", "100000"])
    log = Log(config, step=0, writes=True)
    log.say = lambda text: None  # type: ignore[method-assign]
    facts: dict[str, Any] = {"unit": "tokens", "units_per_item": 64, "world_size": 1}
    log.start(0, **facts, parameters=1, flops_per_unit=None, peak_flops=None)
    began = time.process_time()
    for step in range(1, 2001):
        log.step(StepNumbers(step, step, 1.0, loss=1.0, grad_norm=1.0, memory_gb=1.0), seconds=1.0)
    return (time.process_time() - began) / 2000


def compare_saves(
    begun: Sequence[tuple[int, float, Seconds]], saves: Sequence[dict[str, Any]], save_every: int
) -> list[Seconds]:
    """Return what each checkpoint but the last added, as a share of the steps for one.

    The steps from one that begins a checkpoint to the second after its end are compared with the
    median of as many around them.
    """
    took = {step: after.since(now) for (step, _, now), (_, _, after) in pairwise(begun)}
    costs = []
    for save in saves[:-1]:
        first = save["step"]
        last = next(step for step, at, _ in begun if at > save["time"]) + 1
        busy = range(first, last + 1)
        near = [took[step] for step in took if step not in busy and abs(step - first) <= 30]
        usual = Seconds(*(statistics.median(column) for column in zip(*near, strict=True)))
        wall, cpu = (
            sum(took[step][which] - usual[which] for step in busy) / (usual[which] * save_every)
            for which in (0, 1)
        )
        costs.append(Seconds(wall, cpu))
    return costs


def main() -> None:
    """Measure and print."""
    sys.stdout.reconfigure(line_buffering=True)
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--turns", type=int, default=100)
    parser.add_argument("--save-every", type=int, default=100, help="of the checkpoint's cost")
    parser.add_argument("--saves", type=int, default=10)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="trainer-speed-"))
    common = ["--device", "cpu", "--model", MODEL, "--tokens", str(folder / "tokens")]
    common += ["--val-every", "0"]
    # Made before, as the plain loop reads them too.
    prepare = [sys.executable, "-m", "jobgen.trainer", "prepare", *common]
    subprocess.run([*prepare, "--out", str(folder / "prepare")], cwd=ROOT, check=True)

    steps = (WARM + options.turns + 1) * TURN
    flags = [*common, "--steps", str(steps), "--save-every", "1000000"]
    flags += ["--out", str(folder / "turns")]
    said = start([__file__, "--in-turns", *flags], options.processes, "turn")
    # Wall and processor time of the plain loop, and of the trainer. Ranks take turns together.
    turns = [
        [line[0][0], sum(rank[1] for rank in line), line[0][3], sum(rank[4] for rank in line)]
        for line in said
    ]
    plain_ms, own_ms = (statistics.median(turn[at] for turn in turns) / TURN * 1e3 for at in (0, 2))
    print(f"a step: {own_ms:.1f} ms, of the plain loop {plain_ms:.1f} ms")
    medians = []
    for name, at in (("processor time", 1), ("the clock", 0)):
        ratios = [
            (turn[at] + following[at]) / 2 / turn[at + 2] for turn, following in pairwise(turns)
        ]
        low, middle, high = statistics.quantiles(ratios, n=4)
        medians.append(middle)
        print(
            f"tokens a second, by {name}: {middle:.1%} of the plain loop's, the median of "
            f"{len(ratios)} turns of {TURN} steps (quartiles {low:.1%}, {high:.1%})"
        )
    cpu = medians[0]
    held, others = (max(rank[at] for rank in said[-1]) for at in (5, 2))
    memory = held / others
    print(f"memory: {held / 1e6:.3f} GB, {memory:.1%} of the plain loop's")

    long = str((options.saves + 1) * options.save_every)
    flags = [*common, "--steps", long, "--save-every", str(options.save_every)]
    flags += ["--out", str(folder / "saves")]
    begun = [
        (int(line[0][0]), line[0][1], Seconds(line[0][2], sum(rank[3] for rank in line)))
        for line in start([__file__, "--step-by-step", *flags], options.processes, "begun")
    ]
    metrics = (folder / "saves" / "metrics.jsonl").read_text().splitlines()
    lines = [json.loads(line) for line in metrics]
    steps_told = [line for line in lines if line["kind"] == "step"]
    waiting = statistics.median(step["data_s"] / step["step_s"] for step in steps_told)
    noting = measure_noting(common) / (own_ms / 1000)
    print(f"waiting for data: {waiting:.2%} of a step")
    print(f"metrics: {noting:.2%} of a step")
    saves = [line for line in lines if line["kind"] == "save"]
    costs = compare_saves(begun, saves, options.save_every)
    cost = Seconds(*(statistics.median(column) for column in zip(*costs, strict=True)))
    for name, which in (("processor time", 1), ("the clock", 0)):
        print(
            f"asynchronous checkpoints, every {options.save_every} steps, by {name}: "
            f"{cost[which]:+.2%} of the run, the median of "
            f"{', '.join(f'{each[which]:+.1%}' for each in costs)}"
        )
    least = 1 if options.processes == 1 else 0.99
    dear = max(waiting, noting, cost.cpu) > 0.01
    if options.check and (cpu < least or memory > 1.05 or dear):
        sys.exit(1)


if __name__ == "__main__":
    roles = {"--plain": plain, "--in-turns": in_turns, "--step-by-step": step_by_step}
    if sys.argv[1:2] and sys.argv[1] in roles:
        try:
            roles[sys.argv[1]](sys.argv[2:])
        finally:
            os.kill(os.getppid(), signal.SIGCONT)  # so that none that waits for this one hangs
    main()
