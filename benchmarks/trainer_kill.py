"""Does a run end with the same bits however often, and wherever, it is killed?

A small run on three ranks under two agents is killed with SIGKILL at random moments, a third of
them inside a checkpoint, and started again. Killed is, in turn, a rank, an agent or all of the job;
after each kill what is left of the job is ended too, as job scripts do. In the end the weights and
the optimizer must be, to the last bit, those of a run that nothing disturbed to the same step.

    python benchmarks/trainer_kill.py --kills 100

Exit status 1 when they are not, or when a start did not find a whole checkpoint. Needs Linux.
"""

import argparse
import hashlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from jobgen.trainer.checkpoint import Checkpoints, read_state, read_whole

ROOT = Path(__file__).resolve().parents[1]
SAVE_EVERY = 10
FLAGS = (
    "--steps",
    "100000",
    "--task",
    "gpt",
    "--model",
    "gpt-tiny",
    "--context",
    "16",
    "--batch-tokens",
    "96",
)
FLAGS += ("--val-every", "1000000", "--val-items", "3", "--log-every", "50")
FLAGS += ("--save-every", str(SAVE_EVERY), "--keep", "3", "--device", "cpu")
NODES = ((0, 2), (1, 1))  # number of the node, and its ranks
PATIENCE = 120.0  # seconds for a start to show progress


class Job:
    """A start of the run: an agent for each node."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.log = out / "output"
        out.mkdir(parents=True, exist_ok=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        environment |= {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
        self.agents = []
        for node, ranks in NODES:
            agent = [sys.executable, "-m", "torch.distributed.run", f"--nnodes={len(NODES)}"]
            agent += [f"--nproc-per-node={ranks}", "--rdzv-backend=c10d", f"--rdzv-id={port}"]
            agent += [f"--rdzv-endpoint=127.0.0.1:{port}", f"--rdzv-conf=is_host={int(not node)}"]
            agent += ["--local-addr=127.0.0.1", "-m", "jobgen.trainer", "--out", str(out)]
            with self.log.open("a") as stream:
                self.agents.append(
                    subprocess.Popen(
                        [*agent, *FLAGS],
                        env=environment,
                        stdout=stream,
                        stderr=stream,
                        start_new_session=True,
                    )
                )

    def ranks(self) -> list[int]:
        """The process ids of the trainer's ranks that live."""
        return [pid for agent in self.agents for pid in children(agent.pid)]

    def running(self) -> bool:
        return any(agent.poll() is None for agent in self.agents)

    def kill(self, what: str, chance: random.Random) -> None:
        """Kill what is named; all the rest after it, as it has no way to go on."""
        ranks = self.ranks()
        if what == "a rank" and ranks:
            signal_to(chance.choice(ranks))
        elif what == "an agent":
            signal_to(chance.choice(self.agents).pid)
        if what != "the job":
            time.sleep(chance.random())  # the others go on, or fail of it, for a while
        for pid in [*(agent.pid for agent in self.agents), *ranks, *self.ranks()]:
            signal_to(pid)
        for agent in self.agents:
            agent.wait()
        while any(Path(f"/proc/{pid}/cmdline").exists() and alive(pid) for pid in ranks):
            time.sleep(0.01)


def children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def signal_to(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def wait_for_moment(job: Job, *, inside_checkpoint: bool, chance: random.Random) -> str:
    """Return where the job is, at a random moment after it has begun to train."""
    checkpoints = Checkpoints(job.out)
    first = checkpoints.newest_step()
    end = time.monotonic() + PATIENCE
    # Begun means: it has saved once since its start, so that each start gets somewhere.
    while checkpoints.newest_step() <= first and job.running():
        check(time.monotonic() < end, f"no progress in {PATIENCE:g} s; see {job.log}")
        time.sleep(0.005)
    if inside_checkpoint:
        while job.running() and time.monotonic() < end:
            if any(checkpoints.folder.glob(".tmp-step-*")):
                time.sleep(chance.random() * 0.03)
                return "inside a checkpoint"
            time.sleep(0.0005)
    time.sleep(chance.random() * 0.5)
    return "inside a checkpoint" if any(checkpoints.folder.glob(".tmp-step-*")) else "between"


def bits(path: Path) -> str:
    """A digest of the checkpoint's model and optimizer."""
    digest = hashlib.sha256()
    for part in ("model", "optimizer"):
        for name, tensor in sorted(read_whole(path, part).items()):
            digest.update(name.encode())
            digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()


def run_to(job: Job, step: int) -> None:
    """Return when the job has a checkpoint of this step, or a later one."""
    checkpoints = Checkpoints(job.out)
    newest, moved = 0, time.monotonic()
    while newest < step:
        check(job.running(), f"it ended; see {job.log}")
        check(time.monotonic() - moved < PATIENCE, f"no progress in {PATIENCE:g} s; see {job.log}")
        if checkpoints.newest_step() > newest:
            newest, moved = checkpoints.newest_step(), time.monotonic()
        time.sleep(0.005)


def check(holds: bool, otherwise: str) -> None:
    if not holds:
        sys.exit(f"FAILED: {otherwise}")


def main() -> None:
    """Kill, start again, compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    folder = Path(tempfile.mkdtemp(prefix="trainer-kill-"))
    began = time.monotonic()
    counts: dict[str, int] = {}
    starts = 1
    job = Job(folder / "killed")
    for number in range(options.kills):
        where = wait_for_moment(job, inside_checkpoint=number // 3 % 3 == 0, chance=chance)
        check(job.running(), f"it ended before kill {number + 1}; see {job.log}")
        what = ("a rank", "an agent", "the job")[number % 3]
        job.kill(what, chance)
        counts[f"{what}, {where}"] = counts.get(f"{what}, {where}", 0) + 1
        job = Job(folder / "killed")
        starts += 1
    done = Checkpoints(folder / "killed").newest_step()
    print(f"{options.kills} kills by step {done}, {time.monotonic() - began:.0f} s")
    for what, count in sorted(counts.items()):
        print(f"  {count:4d}  {what}")
    # One more stretch that nothing disturbs; what it saves is compared.
    run_to(job, done + 3 * SAVE_EVERY)
    job.kill("the job", chance)
    killed, skipped = Checkpoints(job.out).newest_whole()
    check(killed is not None and not skipped, f"damaged checkpoints: {skipped}")
    assert killed is not None
    whole = Job(folder / "whole")
    run_to(whole, read_state(killed)["step"])
    whole.kill("the job", chance)
    expected = whole.out / "checkpoints" / killed.name
    refused = job.log.read_text().count("\nskipped ")
    print(f"{starts} starts, {refused} checkpoints refused as damaged")
    print(f"{killed.name}: {bits(killed)[:16]} after the kills, {bits(expected)[:16]} undisturbed")
    check(bits(killed) == bits(expected), f"they differ; see {folder}")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
