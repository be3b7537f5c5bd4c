"""Checkpoints that are whole or not there.

    <run folder>/checkpoints/
      step-00000500/    model.pt optimizer.pt state.json manifest.json
      latest            the name of the newest, as text

A checkpoint is written to a hidden folder, synced to disk, then renamed: a crash at any moment
leaves the ones before it as they were. `manifest.json` holds the size and SHA-256 of every file,
checked before anything is loaded, because torch loads a file with a flipped bit without a word.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from .config import TrainerError
from .files import replace_text, sync

_MANIFEST = "manifest.json"


class Checkpoints:
    """The checkpoints of one run folder. Only one process may write; any may read."""

    def __init__(self, run_folder: Path) -> None:
        self.folder = run_folder / "checkpoints"

    def save(
        self, step: int, *, parts: Mapping[str, object], state: Mapping[str, object], keep: int
    ) -> Path:
        """Write the checkpoint of this step, point `latest` at it, drop all but the last `keep`.

        Each of `parts` becomes a file of tensors, `state` becomes `state.json`.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        target = self.folder / f"step-{step:08d}"
        for leftover in self.folder.glob(".tmp-step-*"):
            shutil.rmtree(leftover)
        temporary = self.folder / f".tmp-{target.name}"
        temporary.mkdir()
        for name, part in parts.items():
            torch.save(part, temporary / f"{name}.pt")
        (temporary / "state.json").write_text(json.dumps(state, indent=1) + "\n")
        files = {
            path.name: {"bytes": path.stat().st_size, "sha256": _digest(path)}
            for path in sorted(temporary.iterdir())
        }
        manifest = {"version": 1, "step": step, "files": files}
        (temporary / _MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
        for path in temporary.iterdir():
            sync(path)
        sync(temporary)
        # Only a checkpoint that was refused at the start can be in the way.
        _remove(target)
        os.rename(temporary, target)
        sync(self.folder)
        replace_text(self.folder / "latest", target.name + "\n")
        # Later ones were refused too; counted, they would push out the good ones.
        for old in [path for path in self._all() if path.name <= target.name][:-keep]:
            _remove(old)
        return target

    def newest_whole(self) -> tuple[Path | None, list[str]]:
        """Return the newest checkpoint whose files are as written, and why newer ones are not.

        Raises TrainerError when there are checkpoints and none is whole: to start from nothing
        is then for the user to decide.
        """
        skipped: list[str] = []
        for path in reversed(self._all()):
            damage = self.damage(path)
            if damage is None:
                return path, skipped
            skipped.append(f"{path}: {damage}")
        if skipped:
            listed = "\n  ".join(skipped)
            raise TrainerError(
                f"no checkpoint is whole; to start anew, remove {self.folder}\n  {listed}"
            )
        return None, skipped

    def newest_step(self) -> int:
        """Return the step of the newest checkpoint, whole or not; 0 when there is none."""
        return max((int(path.name.removeprefix("step-")) for path in self._all()), default=0)

    @staticmethod
    def damage(path: Path) -> str | None:
        """Return what differs from the checkpoint's manifest, or None when it is whole."""
        try:
            manifest = json.loads((path / _MANIFEST).read_text())
            if path.name != f"step-{manifest['step']:08d}":
                return f"{_MANIFEST} is of step {manifest['step']}"
            for name, expected in manifest["files"].items():
                size = (path / name).stat().st_size
                if size != expected["bytes"]:
                    return f"{name} has {size} bytes instead of {expected['bytes']}"
                if _digest(path / name) != expected["sha256"]:
                    return f"{name} has changed since it was written"
        except OSError as error:
            return f"{Path(error.filename or path).name}: {error.strerror}"
        except (ValueError, KeyError, TypeError, AttributeError):
            return f"{_MANIFEST} cannot be read"
        return None

    def _all(self) -> list[Path]:
        return sorted(self.folder.glob("step-" + "[0-9]" * 8))


def read_state(path: Path) -> dict[str, Any]:
    """Return what was saved as `state`."""
    state: dict[str, Any] = json.loads((path / "state.json").read_text())
    return state


def read_part(path: Path, name: str) -> Any:
    """Return one of the saved parts, its tensors on the CPU; runs no code from the file."""
    return torch.load(path / f"{name}.pt", map_location="cpu", weights_only=True)


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while piece := stream.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def _remove(path: Path) -> None:
    """Remove a folder; out of sight first, so that half of it is never taken for a checkpoint."""
    if path.exists():
        hidden = path.with_name(f".tmp-{path.name}-removed")
        os.rename(path, hidden)
        shutil.rmtree(hidden)
