"""Files that travel to another machine with a job: packed there, unpacked here, all or none.

They travel as one line of JSON, so that a broken connection leaves a line that is none.
"""

from __future__ import annotations

import base64
import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from jobgen.errors import UsageError
from jobgen.output import write_file

MOST_BYTES = 32 << 20


def pack_files(paths: Iterable[str], texts: Mapping[str, str]) -> str:
    """Return files below the current folder as one line; of a folder, everything in it.

    A link counts as what it leads to. `texts` are sent in the place of what the files hold. Raises
    UsageError for what lies outside, is not there, or is too large.
    """
    files: dict[str, Path] = {}
    for path in map(os.path.relpath, paths):
        if path.startswith(".."):
            raise UsageError(f"{path}: outside of this folder; jobgen will not send it")
        if not os.path.exists(path):
            raise UsageError(f"{path}: does not exist, so it cannot be sent")
        files |= {str(file): file for file in _walk(Path(path))}
    sizes = {path: file.stat().st_size for path, file in files.items()}
    if sum(sizes.values()) > MOST_BYTES:
        largest = max(sizes, key=sizes.__getitem__)
        size = f"{sum(sizes.values()) >> 20} MiB, and {largest} alone has {sizes[largest] >> 20}"
        hint = f"more than the {MOST_BYTES >> 20} MiB that are sent; list under send what the job "
        hint += "needs, and copy data by hand"
        raise UsageError(f"the files to send have {size}; {hint}")
    return json.dumps([_pack(path, file, texts.get(path)) for path, file in files.items()])


def _walk(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if name not in (".git", "__pycache__"))
        yield from (Path(folder, name) for name in sorted(names) if Path(folder, name).is_file())


def _pack(path: str, file: Path, text: str | None) -> dict[str, Any]:
    about, data = file.stat(), file.read_bytes() if text is None else text.encode()
    runs = bool(about.st_mode & stat.S_IXUSR)
    content = base64.b64encode(data).decode()
    return {"path": path, "time": about.st_mtime, "runs": runs, "content": content}


def unpack_files(line: str, folder: str) -> None:
    """Write packed files below `folder`, which is made; folders and equal files are left alone.

    Raises UsageError if the line is not whole, or a file here is another and newer: nothing is
    written then.
    """
    changed = {
        path: each
        for path, each in _read_packed(line, folder).items()
        if not path.is_file() or path.read_bytes() != each["content"]
    }
    # A second's grace: some file systems keep no more of a time.
    newer = [
        f"{each['path']}: newer on {os.uname().nodename}; copy it from there, or touch the one here"
        " to send it; nothing was sent"
        for path, each in changed.items()
        if path.is_file() and path.stat().st_mtime > each["time"] + 1
    ]
    if newer:
        raise UsageError("\n".join(newer))
    os.makedirs(folder, exist_ok=True)
    for path, each in changed.items():
        _write(path, each)


def _read_packed(line: str, folder: str) -> dict[Path, dict[str, Any]]:
    try:
        sent = [each | {"content": base64.b64decode(each["content"])} for each in json.loads(line)]
    except (ValueError, TypeError, KeyError):
        raise UsageError("the files have not arrived whole; nothing was written") from None
    for each in sent:
        if os.path.isabs(each["path"]) or ".." in Path(each["path"]).parts:
            raise UsageError(f"{each['path']}: outside of the folder")
    return {Path(folder, each["path"]): each for each in sent}


def _write(path: Path, each: dict[str, Any]) -> None:
    """Write a packed file, with the mode of the file there, and the time of the one sent."""
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else None
    write_file(path, each["content"])
    if mode is None and each["runs"]:
        mode = stat.S_IMODE(path.stat().st_mode)
        mode |= mode >> 2 & 0o111  # for whom it can read
    if mode is not None:
        path.chmod(mode)
    os.utime(path, (each["time"], each["time"]))
