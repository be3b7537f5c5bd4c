"""Does a program on jobgen.loop end with the same bits however it is killed?

The program of docs/guides/own-loop.md runs on one to four ranks. SIGKILL ends it at random moments,
and it is started again; before some starts its newest checkpoint is truncated or has a bit
flipped; after some kills the power is cut as well: what was not synced is not on the disk. At the
end its last checkpoint must be, to the last bit, that of a run that nothing disturbed, and so must
its losses.

    python benchmarks/loop_kills.py --kills 200 --damaged 50 --power-cuts 50

Exit status 1 if it is not, or if a start did not find the newest whole checkpoint. Needs Linux.
"""

import argparse
import json
import os
import random
import re
import shutil
import socket
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]

from forked import start_python
from pages import read_page

STEPS, SAVE_EVERY, PATIENCE = 2000, 5, 120.0
MODULES = ("jobgen.loop", "torch._dynamo", "torch.nn.parallel")
# Runs train.py, and writes down what is on the disk: inode, size, and the names in a folder.
RECORDER = """\
import os, runpy
usual = os.fsync
def fsync(handle):
    usual(handle)
    about, path = os.fstat(handle), os.readlink(f"/proc/self/fd/{handle}")
    names = os.listdir(path) if os.path.isdir(path) else []
    with open(os.environ["SYNCED"], "a") as log:
        print(about.st_ino, about.st_size, *names, file=log)
os.fsync = fsync
runpy.run_path("train.py", run_name="__main__")
"""


class Run:
    """A run folder, and the processes of its newest start."""

    def __init__(self, place: Path, ranks: int, steps: int) -> None:
        self.place, self.ranks, self.steps = place, ranks, steps
        self.checkpoints, self.log = place / "out" / "checkpoints", place / "log"
        self.checkpoints.mkdir(parents=True)
        (place / "train.py").write_text(
            read_page(ROOT / "docs" / "guides" / "own-loop.md").files["train.py"]
        )
        (place / "recorder.py").write_text(RECORDER)

    def start(self) -> None:
        """Start all ranks."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.began = time.time()
        argv = [sys.executable, "recorder.py", "--steps", str(self.steps)]
        argv += ["--batch", "12", "--save-every", str(SAVE_EVERY)]
        self.processes = []
        for rank in range(self.ranks):
            own = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": self.ranks, "MASTER_PORT": port}
            env = {**os.environ, **{name: str(value) for name, value in own.items()}}
            env |= {"MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
            env |= {"JOBGEN_RUN_DIR": str(self.place / "out"), "SYNCED": str(self.place / "synced")}
            with self.log.open("a") as stream:
                self.processes.append(
                    start_python(argv, cwd=self.place, env=env, stdout=stream, modules=MODULES)
                )

    def list_checkpoints(self) -> list[Path]:
        return sorted(self.checkpoints.glob("step-*.pt"))

    def wait_for_save(self) -> bool:
        """Return whether a checkpoint was written since the start, before the run ended."""
        end = time.monotonic() + PATIENCE
        while not any(read_mtime(path) >= self.began for path in self.list_checkpoints()):
            if all(process.poll() is not None for process in self.processes):
                return False
            check(time.monotonic() < end, f"no progress in {PATIENCE:g} s; see {self.log}")
            time.sleep(0.002)
        return True

    def wait_for_write(self) -> None:
        """Return while a checkpoint is being written, or when the run has ended."""
        while not (self.checkpoints / ".new").exists():
            if all(process.poll() is not None for process in self.processes):
                return

    def kill(self) -> None:
        """End all ranks with SIGKILL, whatever they are doing."""
        for process in self.processes:
            if process.poll() is None:
                os.kill(process.pid, 9)
        for process in self.processes:
            process.wait(PATIENCE)

    def finish(self) -> None:
        """Wait for the ranks' own end."""
        for process in self.processes:
            check(process.wait(PATIENCE) == 0, f"a rank failed; see {self.log}")

    def cut_power(self, chance: random.Random) -> int:
        """Take from the disk what was not synced; returns how many files that has changed."""
        lines = [line.split() for line in (self.place / "synced").read_text().splitlines()]
        synced = {(int(inode), int(size)) for inode, size, *_ in lines}
        named = next((names for _, _, *names in reversed(lines) if names), [])
        changed = 0
        for path in [*self.list_checkpoints(), *self.checkpoints.glob(".new")]:
            about = path.stat()
            if (about.st_ino, about.st_size) not in synced:
                os.truncate(path, chance.randrange(about.st_size + 1))
                changed += 1
            elif path.name not in named and path.name != ".new" and chance.random() < 0.5:
                path.rename(self.checkpoints / ".new")  # the folder's entry was not written yet
                changed += 1
        return changed

    def read_losses(self) -> dict[int, float]:
        """Return the loss of each step; of a step that was taken twice, the last one."""
        lines = (self.place / "out" / "metrics.jsonl").read_text().splitlines()
        whole = [json.loads(line) for line in lines if re.fullmatch(r"\{.*\}", line)]
        return {line["step"]: line["loss"] for line in whole}


def read_step(path: Path) -> int:
    return int(path.name[5:13])


def read_mtime(path: Path) -> float:
    """Return when a file was written; 0 if the run has removed it since it was listed."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def damage(path: Path, chance: random.Random) -> None:
    """Truncate the file, or flip one of its bits."""
    content = bytearray(path.read_bytes())
    if chance.random() < 0.5:
        del content[chance.randrange(len(content)) :]
    else:
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


def disturb(run: Run, plan: list[str], chance: random.Random) -> Counter[str]:
    """Kill the run as the plan says, always after a save, and start it again; let it end."""
    counts: Counter[str] = Counter()
    run.start()
    for what in plan:
        if not run.wait_for_save():
            break
        while what == "damaged" and len(run.list_checkpoints()) < 2:
            time.sleep(0.002)  # there must be one to fall back to
        if what == "power cut":
            run.wait_for_write()
            time.sleep(chance.random() * 0.005)
        else:
            time.sleep(chance.random() * 0.05)
        run.kill()
        counts["kills"] += 1
        if what == "power cut":
            counts["power cuts"] += 1
            counts["files that these changed"] += run.cut_power(chance)
        whole = run.list_checkpoints()
        if what == "damaged":
            damage(whole.pop(), chance)
            counts["damaged"] += 1
        before = run.log.stat().st_size
        run.start()
        run.wait_for_save()
        said = run.log.read_text()[before:]
        check(said.count("is damaged") == (what == "damaged"), f"{what}, but {said}; see {run.log}")
        first = int(re.findall(r"step (\d+) ", said)[0]) if "step " in said else run.steps
        newest = read_step(whole[-1])
        if newest < run.steps:
            check(newest < first <= newest + 5, f"{first} after {newest}; see {run.log}")
    run.finish()
    check(counts["kills"] == len(plan), f"the run ended after {counts['kills']} kills")
    return counts


def check(holds: bool, otherwise: str) -> None:
    if not holds:
        sys.exit(f"FAILED: {otherwise}")


def main() -> None:
    """Disturb runs on one to four ranks, and compare them with runs that nothing disturbs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--damaged", type=int, default=50, help="of the kills")
    parser.add_argument("--power-cuts", type=int, default=50, help="of the kills")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 3, 4])
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    plan = ["damaged"] * options.damaged + ["power cut"] * options.power_cuts
    plan += ["kill"] * (options.kills - len(plan))
    chance.shuffle(plan)
    folder = Path(tempfile.mkdtemp(prefix="loop-kills-"))
    began, total = time.monotonic(), Counter[str]()
    for number, ranks in enumerate(options.ranks):
        calm, run = (Run(folder / f"{name}-{ranks}", ranks, options.steps) for name in "cd")
        calm.start()
        calm.finish()
        counts = disturb(run, plan[number :: len(options.ranks)], chance)
        expected, found = (each.list_checkpoints()[-1].name for each in (calm, run))
        print(
            f"{ranks} ranks: {dict(counts)}; undisturbed {expected}, disturbed {found}", flush=True
        )
        check(expected == found, f"they differ; see {folder}")
        check(calm.read_losses() == run.read_losses(), f"their losses differ; see {folder}")
        total += counts
    print(f"the same bits after {dict(total)}, {time.monotonic() - began:.0f} s")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
