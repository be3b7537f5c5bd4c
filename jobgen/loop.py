"""Stop in time, save durably, continue: for a train.py with its own loop; you may copy this file.

loop = join()                         # its rank, local_rank, size and device
step, state = loop.load()             # 0 and None at the first start
...                                   # then, after each step, on all ranks:
    if (stop := loop.should_stop()) or step % 100 == 0 or step == STEPS:
        loop.save({"model": model.state_dict(), "optimizer": ...}, step)
loop.leave(done=step == STEPS)
"""

import io
import json
import os
import signal
import time
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist


class Loop:
    """One process of the run; every rank must call every method, in the same order."""

    def __init__(self, folder: Path | None = None) -> None:
        """Join the process group that RANK, WORLD_SIZE and the like describe, or start alone."""
        if "RANK" not in os.environ and os.environ.get("SLURM_STEP_NUM_TASKS", "1") != "1":
            raise RuntimeError("Slurm started several tasks, but RANK is not set: use torchrun")
        self.rank, self.local_rank = (int(os.environ.get(x, 0)) for x in ("RANK", "LOCAL_RANK"))
        self.size, self.device = int(os.environ.get("WORLD_SIZE", 1)), torch.device("cpu")
        if torch.cuda.is_available():
            self.device = torch.device("cuda", self.local_rank % torch.cuda.device_count())
            torch.cuda.set_device(self.device)
        if not dist.is_initialized():
            alone: Any = {"store": dist.HashStore(), "rank": 0, "world_size": 1}  # type: ignore
            backend = "nccl" if self.device.type == "cuda" else "gloo"
            dist.init_process_group(backend, **(alone if self.size == 1 else {}))
        self._words = dist.new_group(backend="gloo")  # on CPUs: nothing there waits for a GPU
        self.signals: list[int] = []
        signal.signal(signal.SIGTERM, lambda number, frame: self.signals.append(number))
        self._calls, self._left, self._looked = 1, 0, 0.0  # not yet: setup is not a step's time
        self._thread, self._stopping, self.save_s = ThreadPoolExecutor(1), False, 0.0
        self._writing: Future[Any] = self._thread.submit(int)  # nothing yet
        self.folder = folder or Path(os.environ.get("JOBGEN_RUN_DIR") or "out")
        self.checkpoints = self.folder / "checkpoints"
        if self.rank == 0:
            self.checkpoints.mkdir(parents=True, exist_ok=True)
            (self.folder / "STOPPED").unlink(missing_ok=True)

    def leave(self, *, done: bool) -> None:
        """End once the last save is on disk; unless `done`, STOPPED marks a run to continue."""
        self._writing.result()
        if self.rank == 0:
            (self.folder / "STOP").unlink(missing_ok=True)  # it is answered
            if not done:
                (self.folder / "STOPPED").touch()
        dist.destroy_process_group()

    def seconds_left(self) -> float:
        """Return the seconds until the scheduler ends the job; infinity if unknown."""
        ends = (os.environ.get(name, "") for name in ("JOBGEN_END", "SLURM_JOB_END_TIME"))
        return next((int(end) - time.time() for end in ends if end.isdigit()), float("inf"))

    def should_stop(self) -> bool:
        """Return whether to save and end now: for the file STOP, the walltime, a rank's SIGTERM.

        Rank 0 looks about once a second; calls in between neither communicate nor wait.
        """
        self._left -= 1
        if self._stopping or self._left > 0:
            return self._stopping
        since, self._looked = (now := time.monotonic()) - (self._looked or now - 1), now
        words = torch.tensor([len(self.signals), 0.0])  # stop; calls until all look again
        if self.rank == 0:
            late = self.seconds_left() < 2 * since + 2 * self.save_s + 5
            words += torch.tensor([late or (self.folder / "STOP").exists(), self._calls // since])
        dist.all_reduce(words, group=self._words)
        self._stopping, self._calls = bool(words[0]), max(1, int(words[1]))
        self._left = self._calls
        return self._stopping

    def load(self) -> tuple[int, Any]:
        """Return step and state of the newest complete checkpoint; 0 and None without any."""
        newest: list[Path | None] = [None]
        if self.rank == 0:
            for path in sorted(self.checkpoints.glob("step-*.pt"), reverse=True):
                if sha256(path.read_bytes()).hexdigest()[:16] == path.stem[14:]:
                    newest = [path]
                    break
                print(f"warning: {path} is damaged; skipping it", flush=True)
        dist.broadcast_object_list(newest, group=self._words)
        if newest[0] is None:
            if any(self.checkpoints.glob("step-*.pt")):
                raise RuntimeError(f"{self.checkpoints}: every checkpoint is damaged")
            return 0, None
        state = torch.load(newest[0], map_location="cpu", weights_only=True)
        return int(newest[0].name[5:13]), state

    def save(self, state: Any, step: int, *, keep: int = 2, background: bool = False) -> None:
        """Write rank 0's state (tensors, numbers, text, lists, dicts), completely or not at all.

        Keeps the newest `keep`. In the background, the next call or `leave` raises any error.
        """
        self._writing.result()
        if self.rank == 0:
            torch.save(state, content := io.BytesIO())
            self._writing = self._thread.submit(self._write, content.getvalue(), step, keep)
            if not background:
                self._writing.result()

    def _write(self, content: bytes, step: int, keep: int) -> None:
        began, hidden = time.monotonic(), self.checkpoints / ".new"
        hidden.write_bytes(content)
        sync(hidden)
        digest = sha256(content).hexdigest()[:16]
        hidden.rename(self.checkpoints / f"step-{step:08d}-{digest}.pt")
        sync(self.checkpoints)
        files = sorted(self.checkpoints.glob("step-*.pt"))  # newer ones are damaged
        for old in [path for path in files if int(path.name[5:13]) <= step][:-keep]:
            old.unlink()
        self.save_s = max(self.save_s, time.monotonic() - began)

    def progress(self) -> None:
        """Record that this program has saved elsewhere, so that a chain of jobs continues."""
        if self.rank == 0:
            (self.folder / "PROGRESS").touch()

    def log(self, step: int, **numbers: Any) -> None:
        """Print numbers and append them to metrics.jsonl; tensors are averaged over all ranks."""
        for name, value in numbers.items():
            if isinstance(value, torch.Tensor):
                mean = value.detach().double() / self.size
                dist.all_reduce(mean)
                numbers[name] = mean.item()
        if self.rank == 0:
            print(f"step {step} ", *(f" {name} {x:.4g}" for name, x in numbers.items()), flush=True)
            with (self.folder / "metrics.jsonl").open("a") as file:
                file.write(json.dumps({"step": step, "time": time.time(), **numbers}) + "\n")


def sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)


join = Loop
