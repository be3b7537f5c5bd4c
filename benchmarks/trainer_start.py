"""How long from the start to the first step, over what `import torch` takes?

The tiny model on two processes, under torchrun and started directly: a first start, which makes
tokens of a text and draws weights, and a second, which reads the weights from a checkpoint. Each is
measured beside `python -c "import torch"`, in turn, as a busy machine is slow by turns.

    python benchmarks/trainer_start.py

Exit status 1 when the median of a row is more than 10 s over the import.
"""

import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROUNDS = 3
MOST = 10.0
RANKS = 2
FLAGS = ("--device", "cpu", "--log-every", "1", "--val-items", "2")


def start(out: Path, launcher: str, steps: int) -> float:
    """Start the trainer for some steps; the seconds until the first of them was done."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    trainer = ["-m", "jobgen.trainer", "--out", str(out), "--steps", str(steps), *FLAGS]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    agent = ["-m", "torch.distributed.run", f"--nproc-per-node={RANKS}", "--master-port", port]
    commands = [(agent, {})] if launcher == "torchrun" else []
    for rank in map(str, range(RANKS) if launcher == "direct" else ()):
        sizes = {"WORLD_SIZE": str(RANKS), "LOCAL_WORLD_SIZE": str(RANKS)}
        commands.append(([], sizes | {"RANK": rank, "LOCAL_RANK": rank}))
    began = time.time()
    processes = [
        subprocess.Popen(
            [sys.executable, *before, *trainer], env=environment | more, stdout=subprocess.DEVNULL
        )
        for before, more in commands
    ]
    if any([process.wait() for process in processes]):
        sys.exit(f"a start by {launcher} failed")
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    first = next(x for x in lines if x["kind"] == "step" and x["time"] > began)
    return float(first["time"] - began)


def main() -> None:
    """Measure and print."""
    folder = Path(tempfile.mkdtemp(prefix="trainer-start-"))
    rows: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for _ in range(ROUNDS):
        for launcher in ("torchrun", "direct"):
            for number, name in enumerate(("from nothing", "from a checkpoint"), 1):
                began = time.perf_counter()
                subprocess.run([sys.executable, "-c", "import torch"], check=True)
                torch_s = time.perf_counter() - began
                own_s = start(folder / launcher, launcher, number)
                rows.setdefault((launcher, name), []).append((own_s, torch_s))
            shutil.rmtree(folder / launcher)
    folder.rmdir()
    worst = 0.0
    for (launcher, name), pairs in rows.items():
        over = statistics.median(own - torch for own, torch in pairs)
        ratio = statistics.median(own / torch for own, torch in pairs)
        worst = max(worst, over)
        print(f"{launcher:9} {name:18} {over:5.1f} s over `import torch`, {ratio:.1f} times it")
    if worst > MOST:
        sys.exit(1)


if __name__ == "__main__":
    main()
