"""What `--reduce exact` gives, and what it costs.

One run each on 1, 2, 3 and 4 processes and for two unequal splits, with both ways to add gradients
up, the same micro-batches and one thread a process: the digests of the weights, and the seconds of
a step. Runs that are compared in time alternate, as a busy machine is slow by turns.

    python benchmarks/trainer_exact.py

Exit status 1 when digests of exact runs differ, or a step takes more than 1.7 times a usual one.
"""

import hashlib
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from jobgen.trainer.checkpoint import Checkpoints, read_whole

ROOT = Path(__file__).resolve().parents[1]
MOST = 1.7
ROUNDS = 3
FLAGS = ("--steps", "24", "--log-every", "1", "--save-every", "1000", "--val-every", "1000")
FLAGS += ("--val-items", "8", "--sample-tokens", "0", "--device", "cpu", "--keep", "1")
FLAGS += ("--micro-batch", "2", "--batch-tokens", str(12 * 2 * 64), "--warmup-steps", "5")
WORLDS = {"1": 1, "2": 2, "3": 3, "4": 4, "10:2": 2, "2:4:6": 3}


def train(out: Path, world: str, reduce: str) -> tuple[str, float]:
    """Run; return a digest of the weights and the median seconds of a step."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ranks = WORLDS[world]
    shares = ("--shares", world) if ":" in world else ()
    fixed = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1"}
    fixed |= {"MASTER_PORT": str(port), "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks)}
    program = [sys.executable, "-m", "jobgen.trainer", "--out", str(out), "--reduce", reduce]
    processes = [
        subprocess.Popen(
            [*program, *FLAGS, *shares],
            env=os.environ | fixed | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.DEVNULL,
        )
        for rank in range(ranks)
    ]
    if any([process.wait() for process in processes]):
        sys.exit(f"a run on {world} failed")
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    path, _ = Checkpoints(out).newest_whole()
    assert path is not None
    digest = hashlib.sha256()
    for name, tensor in sorted(read_whole(path).items()):
        digest.update(name.encode())
        digest.update(tensor.numpy().tobytes())
    shutil.rmtree(out)
    steps = [line["step_s"] for line in lines if line["kind"] == "step"]
    return digest.hexdigest()[:12], statistics.median(steps[4:])


def main() -> None:
    """Run all, print a table."""
    folder = Path(tempfile.mkdtemp(prefix="trainer-exact-"))
    print("world   weights, fast  weights, exact  step, fast  exact   ratio")
    found, worst = set(), 0.0
    for world in WORLDS:
        digests: dict[str, str] = {}
        seconds: dict[str, list[float]] = {"fast": [], "exact": []}
        for _ in range(ROUNDS):
            for reduce in seconds:
                digests[reduce], took = train(folder / "run", world, reduce)
                seconds[reduce].append(took)
        pairs = zip(seconds["exact"], seconds["fast"], strict=True)
        ratio = statistics.median(exact / fast for exact, fast in pairs)
        fast, exact = (min(seconds[reduce]) * 1000 for reduce in ("fast", "exact"))
        print(
            f"{world:6}  {digests['fast']}   {digests['exact']}   {fast:7.1f} ms {exact:7.1f} "
            f"{ratio:6.2f}",
            flush=True,
        )
        found.add(digests["exact"])
        worst = max(worst, ratio)
    folder.rmdir()
    print(f"{len(found)} different weights with exact sums; at most {worst:.2f} times a step")
    if len(found) > 1 or worst > MOST:
        sys.exit(1)


if __name__ == "__main__":
    main()
