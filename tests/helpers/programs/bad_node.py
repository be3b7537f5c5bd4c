"""A run of STEPS steps, in which all ranks meet by files; it goes on after what is saved.

The file BAD names nodes, each with how its processes fail: at-once, late, once (late, in the first
start), hangs, or vanishes (the shell around it is killed). A user's own error is that of `user`, on
any node; `user stays` is none, and the first start does not end. Ranks wait for one another; for
one that hangs no longer than until it does.
"""

import os
import signal
import sys
import time
from pathlib import Path

steps, bad = int(sys.argv[1]), Path(sys.argv[2])
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
run, node = Path(os.environ["JOBGEN_RUN_DIR"]), os.environ["JOBGEN_NODE"]
attempt = os.environ["JOBGEN_ATTEMPT"]
kinds = dict(line.split() for line in bad.read_text().splitlines())
kind = kinds.get(node) or kinds.get("user")
meeting = run / "meetings" / attempt
meeting.mkdir(parents=True, exist_ok=True)
saved = run / "checkpoints" / "step"
saved.parent.mkdir(exist_ok=True)
begun = int(saved.read_text() or 0) if saved.exists() else 0
print("begins after step", begun, "on", node, flush=True)


def wait_for_others(step: int) -> None:
    """Return when all ranks are at a step; where one hangs, say what gloo does."""
    (meeting / f"{step}-{rank}").touch()
    while not all((meeting / f"{step}-{other}").exists() for other in range(world)):
        if (meeting / "hangs").exists():
            raise RuntimeError("Timed out waiting 5000ms for recv operation to complete")
        time.sleep(0.02)


for step in range(begun + 1, steps + 1):
    late = kind == "late" or (kind == "once" and attempt == "0")
    if kind == "at-once" or (late and step == 25):
        raise RuntimeError("CUDA error: uncorrectable ECC error encountered")
    if kind == "vanishes":
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(600)
    if kind == "hangs" and step == 3:
        (meeting / "hangs").touch()
        time.sleep(600)
    if kind == "stays" and attempt == "0" and step == 15:
        time.sleep(600)
    if kind == "wrong" and step == 3:
        raise ValueError("shapes (3, 4) and (5,) do not go together")
    if kind == "crashes" and step == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    wait_for_others(step)
    time.sleep(0.1)
    if rank == 0 and step % 10 == 0:
        saved.write_text(str(step))
print("ends after step", steps, flush=True)
