"""Checkpoints that are complete or do not exist.

<run folder>/checkpoints/
  step-00000500/    rank-00000.pt ...   tensors: each rank's shards, or all of them by rank 0
                    state.json          all else; manifest.json: size and SHA-256 of every file

A checkpoint is written to a hidden folder, synced to disk, then renamed: a crash at any moment
leaves the ones before it as they were. Digests are checked before anything is loaded, because torch
loads a file with a flipped bit without a word. Any number of ranks, and any strategy, can load what
any other has saved. Files are loaded as tensors alone, so a stranger's runs no code.
"""

import json
import os
import re
import shutil
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from ..loop import sync
from .config import TrainerError
from .distributed.strategy import get_first_row, get_local
from .distributed.world import World
from .output.files import digest

_MANIFEST = "manifest.json"
# What torch says about a disk without room, where it does not pass on the system's words.
_NO_ROOM = re.compile(r"unexpected pos|iostream error")
_LAST_WAIT = 20.0  # seconds that a run which fails has for a checkpoint it had begun

# Of a file: by name, the first row of a tensor that it holds, the whole tensor's shape, the rows.
Pieces = dict[str, tuple[int, list[int], Tensor]]


class Saved(NamedTuple):
    """How writing a checkpoint ended."""

    step: int
    seconds: float  # from the start to its being on disk
    blocked: float  # of them, those in which training waited
    problem: str | None


class Checkpoints:
    """The checkpoints of one run folder."""

    def __init__(self, run_folder: Path) -> None:
        self.folder = run_folder / "checkpoints"

    def all(self) -> list[Path]:
        """Return the checkpoints, oldest first."""
        return sorted(self.folder.glob("step-" + "[0-9]" * 8))

    def newest_step(self) -> int:
        """Return the step of the newest checkpoint, complete or not; 0 without any."""
        return max((int(path.name.removeprefix("step-")) for path in self.all()), default=0)

    def newest_whole(self, world: World | None = None) -> tuple[Path | None, list[str]]:
        """Return the newest intact checkpoint, and why newer ones are not intact.

        With a world, all its ranks must call it, and share the work. Raises TrainerError if there
        are checkpoints and none is whole: the user has to decide to start from nothing.
        """
        skipped: list[str] = []
        # Rank 0 lists for all, so that none is misled by a file system that lags behind.
        for path in reversed(world.first(self.all) if world else self.all()):
            share, of = (world.rank, world.size) if world else (0, 1)
            damage = find_damage(path, share=share, of=of)
            problem = next(filter(None, world.gather(damage) if world else [damage]), None)
            if problem is None:
                return path, skipped
            skipped.append(f"{path}: {problem}")
        if skipped:
            text = f"no checkpoint is complete; to start over, remove {self.folder}"
            raise TrainerError("\n  ".join([text, *skipped]))
        return None, []

    def tidy(self) -> None:
        """Remove files that a kill left half written."""
        for leftover in self.folder.glob(".tmp-*"):
            shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()


class Writer:
    """Writes checkpoints while training goes on, one at a time; every rank has one."""

    def __init__(self, checkpoints: Checkpoints, world: World, *, keep: int) -> None:
        self.checkpoints, self.world, self.keep = checkpoints, world, keep
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._pending: Future[Saved] | None = None

    def start(
        self, step: int, tensors: Mapping[str, Tensor], state: Mapping[str, Any]
    ) -> Saved | None:
        """Copy the tensors and begin to write them; all ranks must call it at the same step.

        Waits for the checkpoint before, if that is still being written, and returns its outcome.
        """
        began = time.monotonic()
        before = self.wait()
        pieces = copy_own(tensors, self.world)
        begun = Saved(step, began, time.monotonic() - began, None)
        self._pending = self._thread.submit(self._write, pieces, state, begun)
        return before

    def poll(self) -> Saved | None:
        """Return the outcome of a checkpoint that has since been completed, once."""
        return self.wait() if self._pending and self._pending.done() else None

    def wait(self) -> Saved | None:
        """Return the outcome of the checkpoint that is being written, once it is on disk."""
        pending, self._pending = self._pending, None
        if pending is None:
            return None
        began = time.monotonic()
        saved = pending.result()
        return saved._replace(blocked=saved.blocked + time.monotonic() - began)

    def close(self) -> None:
        """Let a checkpoint that is still being written be completed when the run fails."""
        if self._pending:
            with suppress(Exception):  # The run's own error is the one to report.
                self._pending.result(_LAST_WAIT)

    def _write_own(self, pieces: Pieces, folder: Path) -> tuple[dict[str, Any], str | None]:
        """Write this rank's pieces; return what is said of the file, and what went wrong."""
        files: dict[str, Any] = {}
        try:
            if pieces:
                folder.mkdir(parents=True, exist_ok=True)
                path = folder / f"rank-{self.world.rank:05d}.pt"
                torch.save(pieces, path)
                sync(path)
                files[path.name] = _describe(path)
        except (OSError, RuntimeError) as error:
            return {}, f"rank {self.world.rank}: {_explain(error)}"
        return files, None

    def _write(self, pieces: Pieces, state: Mapping[str, Any], begun: Saved) -> Saved:
        """Write this rank's file; with those of all, rank 0 makes the folder a checkpoint."""
        folder = self.checkpoints.folder / f".tmp-step-{begun.step:08d}"
        everyone = self.world.gather(self._write_own(pieces, folder), self.world.background)
        problem = next((problem for _, problem in everyone if problem), None)
        if self.world.main:
            try:
                if problem is None:
                    files = {name: about for own, _ in everyone for name, about in own.items()}
                    self._publish(folder, begun.step, state, files)
            except OSError as error:
                problem = _explain(error)
            if problem is not None:
                shutil.rmtree(folder, ignore_errors=True)
        problem = self.world.gather(problem, self.world.background)[0]
        return begun._replace(seconds=time.monotonic() - begun.seconds, problem=problem)

    def _publish(self, folder: Path, step: int, state: Any, files: dict[str, Any]) -> None:
        _write_json(folder / "state.json", state)
        files["state.json"] = _describe(folder / "state.json")
        _write_json(folder / _MANIFEST, {"version": 3, "step": step, "files": files})
        sync(folder)
        target = self.checkpoints.folder / f"step-{step:08d}"
        # Only a checkpoint that was refused at the start can be in the way.
        _remove(target)
        os.rename(folder, target)
        sync(target.parent)
        try:  # It is on disk: what fails now does not undo that.
            # Later ones were refused too; counted, they would push out the good ones.
            for old in [path for path in self.checkpoints.all() if path <= target][: -self.keep]:
                _remove(old)
        except OSError as error:
            print(f"warning: after writing {target}: {error}", flush=True)


def copy_own(tensors: Mapping[str, Tensor], world: World) -> Pieces:
    """Return copies, on the CPU, of what this rank writes: its shards; whole tensors by rank 0."""
    pieces: Pieces = {}
    for name, tensor in tensors.items():
        if isinstance(tensor, DTensor) or world.main:
            local = get_local(tensor).detach().to("cpu", copy=True)
            pieces[name] = get_first_row(tensor), list(tensor.shape), local
    return pieces


def find_damage(path: Path, *, share: int = 0, of: int = 1) -> str | None:
    """Return what differs from the checkpoint's manifest, or None if nothing does.

    Looks at one share of the files.
    """
    try:
        manifest = json.loads((path / _MANIFEST).read_text())
        if path.name != f"step-{manifest['step']:08d}":
            return f"{_MANIFEST} is of step {manifest['step']}"
        for name, expected in sorted(manifest["files"].items())[share::of]:
            size = (path / name).stat().st_size
            if size != expected["bytes"]:
                return f"{name} has {size} bytes instead of {expected['bytes']}"
            if _describe(path / name) != expected:
                return f"{name} has changed since it was written"
    except OSError as error:
        return f"{Path(error.filename or path).name}: {error.strerror}"
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"{_MANIFEST} cannot be read"
    return None


def read_state(path: Path) -> dict[str, Any]:
    """Return the saved state other than tensors."""
    state: dict[str, Any] = json.loads((path / "state.json").read_text())
    return state


def read_into(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Fill this rank's rows of the tensors from the checkpoint, whichever rank wrote them.

    Raises TrainerError if the checkpoint does not have the same tensors.
    """
    files = _open_files(path)
    saved = set().union(*files)
    if saved != tensors.keys():
        other = sorted(saved ^ tensors.keys())[:3]
        raise TrainerError(f"{path} belongs to another model: they differ in {', '.join(other)}")
    for name, tensor in tensors.items():
        local, first = get_local(tensor), get_first_row(tensor)
        for start, shape, rows in (file[name] for file in files if name in file):
            if shape != list(tensor.shape):
                raise TrainerError(f"{path}: {name} is {shape}, in this model {tensor.shape}")
            if not shape:
                local.copy_(rows)
                continue
            begin, end = max(start, first), min(start + len(rows), first + len(local))
            if begin < end:
                local[begin - first : end - first] = rows[begin - start : end - start]


def read_whole(path: Path, part: str = "model") -> dict[str, Tensor]:
    """Return the checkpoint's whole tensors of one part (model or optimizer), on the CPU."""
    tensors: dict[str, Tensor] = {}
    for file in _open_files(path):
        for name, (start, shape, rows) in file.items():
            if not name.startswith(f"{part}."):
                continue
            whole = tensors.setdefault(
                name.removeprefix(f"{part}."), torch.empty(shape, dtype=rows.dtype)
            )
            (whole[start : start + len(rows)] if shape else whole).copy_(rows)
    return tensors


def _open_files(path: Path) -> list[Pieces]:
    """Return what each file holds; nothing is read before it is used."""
    return [
        torch.load(file, map_location="cpu", mmap=True, weights_only=True)
        for file in sorted(path.glob("rank-*.pt"))
    ]


def _describe(path: Path) -> dict[str, Any]:
    return {"bytes": path.stat().st_size, "sha256": digest(path)}


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n")
    sync(path)


def _explain(error: BaseException) -> str:
    words = f"{type(error).__name__}: {error}"
    return f"the disk is full ({words})" if _NO_ROOM.search(words) else words


def _remove(path: Path) -> None:
    """Remove a folder; out of sight first, so that half of it is never taken for a checkpoint."""
    if path.exists():
        hidden = path.with_name(f".tmp-{path.name}-removed")
        os.rename(path, hidden)
        shutil.rmtree(hidden)
