"""The folders from which jobs were submitted: one file in the user's state directory.

Where a job was started by plain sbatch or qsub, its folder is noted when a command finds it there.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from jobgen.jobs.files import RUNS


def note_folder(folder: str = ".") -> None:
    """Add a folder, unless it is there; a home that cannot be written to has no list."""
    folder = os.path.abspath(folder)
    if "\n" in folder or folder in _read_lines():
        return
    with contextlib.suppress(OSError):
        file = _name_file()
        file.parent.mkdir(parents=True, exist_ok=True)
        with open(file, "a", encoding="utf-8") as opened:
            opened.write(f"{folder}\n")


def list_folders() -> list[str]:
    """Return the folders that still have runs, the current one first."""
    folders = dict.fromkeys([os.getcwd(), *_read_lines()])
    return [folder for folder in folders if os.path.isdir(os.path.join(folder, RUNS))]


def _read_lines() -> list[str]:
    try:
        return _name_file().read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return []


def _name_file() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return Path(state, "jobgen", "folders")
