"""Checkpoints that are whole or not there.

<run folder>/checkpoints/
  step-00000500/    *.distcp .metadata   tensors, by torch.distributed.checkpoint: each rank's part
                    state.json           all else; manifest.json: size and SHA-256 of every file
  latest            the name of the newest, as text

A checkpoint is written to a hidden folder, synced to disk, then renamed: a crash at any moment
leaves the ones before it as they were. Digests are checked before anything is loaded, because torch
loads a file with a flipped bit without a word. Any number of ranks, and any strategy, can load what
any other has saved.
"""

import errno
import inspect
import json
import os
import pickle
import re
import shutil
import time
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.distributed.checkpoint import staging
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta, TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from .config import TrainerError
from .data.feed import map_tensors
from .distributed.world import World
from .output.files import digest, replace_text, sync

_MANIFEST = "manifest.json"
# All that the description of a checkpoint of tensors is made of, beside torch's dtypes. One that is
# not of tensors is left out: torch would run the code in it.
_DESCRIBING = {
    *(("pathlib", name) for name in ("Path", "PosixPath")),
    *(("torch", "Size"), ("torch.serialization", "_get_layout")),
    ("torch.distributed.checkpoint.filesystem", "_StorageInfo"),
    *(
        ("torch.distributed.checkpoint.metadata", name)
        for name in (
            *("Metadata", "MetadataIndex", "StorageMeta", "TensorProperties"),
            *("TensorStorageMetadata", "ChunkStorageMetadata", "_MEM_FORMAT_ENCODING"),
        )
    ),
}
# What PyTorch's writer of archives says of a disk without room, which it does not ask about.
_NO_ROOM = re.compile(r"No space left|Disk quota exceeded|unexpected pos|iostream error")
_LAST_WAIT = 20.0  # seconds that a run which fails has for a checkpoint it had begun


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
        """Return the step of the newest checkpoint, whole or not; 0 when there is none."""
        return max(map(_read_step, self.all()), default=0)

    def newest_whole(self, world: World | None = None) -> tuple[Path | None, list[str]]:
        """Return the newest checkpoint whose files are as written, and why newer ones are not.

        With a world, all its ranks must call it, and share the work. Raises TrainerError when
        there are checkpoints and none is whole: to start from nothing is for the user to decide.
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
            text = f"no checkpoint is whole; to start anew, remove {self.folder}"
            raise TrainerError("\n  ".join([text, *skipped]))
        return None, []

    def tidy(self, newest: Path | None) -> None:
        """Remove what a kill left half written, and point `latest` at this one."""
        for leftover in self.folder.glob(".tmp-*"):
            shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
        if newest:
            replace_text(self.folder / "latest", newest.name + "\n")


class _Describer(pickle.Unpickler):
    """Reads what torch has written of a checkpoint, and runs nothing that somebody else has."""

    def find_class(self, module: str, name: str) -> Any:
        """Return what a pickle names, if that describes tensors."""
        if (module, name) in _DESCRIBING:
            return super().find_class(module, name)
        if module == "torch" and isinstance(kind := getattr(torch, name, None), torch.dtype):
            return kind
        raise TrainerError(
            f"the checkpoint's .metadata names {module}.{name}, which no checkpoint of this "
            "trainer has; nothing of it was loaded"
        )


class _TensorReader(FileSystemReader):
    """torch's own, which would run whatever code is in the checkpoint's description."""

    def read_metadata(self, *_: Any, **__: Any) -> Metadata:
        """Return the description of all tensors."""
        with open(Path(self.path, ".metadata"), "rb") as file:
            metadata: Metadata = _Describer(file).load()
        about = getattr(metadata, "storage_meta", None) or StorageMeta()  # of an older torch: none
        about.load_id = self.load_id
        metadata.storage_meta = about
        return metadata


class Writer:
    """Writes checkpoints while training goes on, one at a time; every rank has one."""

    def __init__(
        self, checkpoints: Checkpoints, world: World, *, keep: int, keep_every: int
    ) -> None:
        self.checkpoints, self.world = checkpoints, world
        self.keep, self.keep_every = keep, keep_every
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._pending: Future[Saved] | None = None
        self._copy = _choose_copier(world.device)
        # The manifest has a digest of each file: checksums of its parts add time, and nothing else.
        if hasattr(torch.serialization, "set_crc32_options"):
            torch.serialization.set_crc32_options(False)

    def start(self, step: int, tensors: dict[str, Any], state: Mapping[str, Any]) -> Saved | None:
        """Copy the tensors and begin to write them; all ranks must call it at the same step.

        Waits for the checkpoint before, if that is still being written, and returns its outcome.
        """
        began = time.monotonic()
        before = self.wait()
        copies = self._copy(tensors)
        begun = Saved(step, began, time.monotonic() - began, None)
        self._pending = self._thread.submit(self._write, copies, state, begun)
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
        """Let a checkpoint that is still being written be completed, when the run fails."""
        if self._pending:
            with suppress(Exception):  # What the run fails of is what to tell.
                self._pending.result(_LAST_WAIT)

    def _write(self, tensors: dict[str, Any], state: Mapping[str, Any], begun: Saved) -> Saved:
        """Write this rank's part; with those of all, rank 0 makes the folder a checkpoint."""
        folder = self.checkpoints.folder / f".tmp-step-{begun.step:08d}"
        own: dict[str, Any] = {}
        problem = None
        try:
            into, group = FileSystemWriter(folder), self.world.background
            save(tensors, storage_writer=into, planner=_make_planner(), process_group=group)
            own = {path.name: _describe(path) for path in folder.glob(f"__{self.world.rank}_*")}
        except (Exception, CheckpointException) as error:
            problem = _explain(error)
        everyone = self.world.gather((own, problem))
        problem = next((problem for _, problem in everyone if problem), None)
        if self.world.main:
            try:
                if problem is None:
                    files = {name: about for own, _ in everyone for name, about in own.items()}
                    self._publish(folder, begun.step, state, files)
            except OSError as error:
                problem = str(error)
            if problem is not None:
                shutil.rmtree(folder, ignore_errors=True)
        seconds = time.monotonic() - begun.seconds
        return begun._replace(seconds=seconds, problem=self.world.tell(problem))

    def _publish(self, folder: Path, step: int, state: Any, files: dict[str, Any]) -> None:
        _write(folder / "state.json", state)
        files |= {name: _describe(folder / name) for name in (".metadata", "state.json")}
        _write(folder / _MANIFEST, {"version": 2, "step": step, "files": files})
        sync(folder)
        target = self.checkpoints.folder / f"step-{step:08d}"
        # Only a checkpoint that was refused at the start can be in the way.
        _remove(target)
        os.rename(folder, target)
        sync(target.parent)
        try:  # It is there: what fails now is no loss.
            # Later ones were refused too; counted, they would push out the good ones.
            for old in [path for path in self.checkpoints.all() if path <= target][: -self.keep]:
                if not self.keep_every or _read_step(old) % self.keep_every:
                    _remove(old)
            replace_text(target.parent / "latest", target.name + "\n")
        except OSError as error:
            print(f"warning: after writing {target}: {error}", flush=True)


def find_damage(path: Path, *, share: int = 0, of: int = 1) -> str | None:
    """Return what differs from the checkpoint's manifest, or None when it is whole.

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
    """Return what was saved beside the tensors."""
    state: dict[str, Any] = json.loads((path / "state.json").read_text())
    return state


def read_into(path: Path, tensors: dict[str, Any], world: World) -> None:
    """Fill the tensors from the checkpoint, each rank its part; all ranks must call it."""
    reader = _TensorReader(path)
    reader.read_metadata()  # torch would bury what is wrong with it under a trace of its own
    load(tensors, storage_reader=reader, process_group=world.background)


def read_whole(path: Path, part: str = "model") -> dict[str, Tensor]:
    """Return the checkpoint's tensors of one part (model or optimizer), whole, on the CPU.

    Needs no process group, whatever the number of ranks that saved.
    """
    reader = _TensorReader(path)
    tensors = {
        name: torch.empty(about.size, dtype=about.properties.dtype)
        for name, about in reader.read_metadata().state_dict_metadata.items()
        if name.startswith(f"{part}.") and isinstance(about, TensorStorageMetadata)
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # It warns that there is no process group, as is meant.
        load(dict(tensors), storage_reader=reader, no_dist=True)
    return {name.removeprefix(f"{part}."): tensor for name, tensor in tensors.items()}


def _make_planner() -> DefaultSavePlanner:
    """Return what plans who writes what; where torch can, as the last time if that is the same."""
    kept = "enable_plan_caching"
    known = kept in inspect.signature(DefaultSavePlanner).parameters
    return DefaultSavePlanner(**{kept: True} if known else {})


def _choose_copier(device: torch.device) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return what copies tensors to the CPU: from a GPU by way of pinned memory, which it keeps."""
    if device.type == "cpu":
        return partial(map_tensors, Tensor.clone)
    if not hasattr(staging, "DefaultStager"):  # an older torch
        return staging.BlockingAsyncStager().stage
    options = staging.StagingOptions(
        use_pinned_memory=True,
        use_shared_memory=False,
        use_async_staging=False,
        use_non_blocking_copy=True,
    )
    return cast(Callable[[Any], dict[str, Any]], staging.DefaultStager(options).stage)


def _read_step(path: Path) -> int:
    return int(path.name.removeprefix("step-"))


def _describe(path: Path) -> dict[str, Any]:
    return {"bytes": path.stat().st_size, "sha256": digest(path)}


def _write(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n")
    sync(path)


def _explain(error: BaseException) -> str:
    """Return one line: of what torch raises, each rank's own error is at the end of a traceback."""
    for rank, (own, _) in getattr(error, "failures", {}).items():
        return f"rank {rank}: {_name_cause(own)}"
    return _name_cause(error)


def _name_cause(error: BaseException) -> str:
    words = f"{type(error).__name__}: {error}"
    if _NO_ROOM.search(words) and os.strerror(errno.ENOSPC) not in words:
        return f"the disk is full ({words})"
    return words


def _remove(path: Path) -> None:
    """Remove a folder; out of sight first, so that half of it is never taken for a checkpoint."""
    if path.exists():
        hidden = path.with_name(f".tmp-{path.name}-removed")
        os.rename(path, hidden)
        shutil.rmtree(hidden)
