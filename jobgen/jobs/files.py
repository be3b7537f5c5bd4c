"""Reading and writing files of run folders.

A cloned repository or a shared folder may hold what a stranger has made: nothing below `runs` is
read or written through a link, and no pipe or device is waited for.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

RUNS = "runs"
# A record is a few kilobytes, and an intent has a spec with it.
_MOST_BYTES = 8 << 20


def read_run_file(path: str | Path) -> bytes:
    """Return the content of a file below `runs`; raise OSError if it is not the user's own."""
    folder, name = os.path.split(path)
    with _enter(folder, make=False) as number:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=number)
        try:
            about = os.fstat(file)
            if not stat.S_ISREG(about.st_mode):
                raise OSError(0, "not a file")
            if about.st_uid != os.geteuid():
                raise OSError(0, "it belongs to another user")
            return _read_all(file, about.st_size)
        finally:
            os.close(file)


def open_left(path: str | Path) -> BinaryIO:
    """Open a file that a job has left; raise OSError unless it is one.

    A pipe keeps who opens it waiting, and a device may have no end.
    """
    return open(_open_plain(path)[0], "rb")


def read_left(path: str | Path) -> str:
    """Return the text of a small file that a job has left; of a large one its beginning."""
    number, size = _open_plain(path)
    try:
        return _read_all(number, size).decode("utf-8", "replace")
    finally:
        os.close(number)


def read_if_left(path: str | Path) -> str:
    """Return the text of such a file; empty if there is none, or it cannot be read."""
    try:
        return read_left(path)
    except (OSError, ValueError):  # a damaged list of nodes gives no name of a file
        return ""


def parse_object(text: str | bytes) -> dict[str, Any] | None:
    """Return the JSON object that a text is; None if it is something else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def read_end(path: str | Path, most: int) -> str:
    """Return the last `most` bytes of a file that a job has left, as text."""
    with open_left(path) as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - most))
        return file.read().decode(errors="replace")


def get_mtime(path: str | Path) -> float:
    """When a file was last written, by its server: seconds since 1970; 0 if there is no file."""
    try:
        return os.stat(path).st_mtime
    except (OSError, ValueError):  # a damaged list of nodes gives no name of a file
        return 0.0


def append_run_file(path: Path, text: str) -> None:
    """Add to a file below `runs`, which is made if it is missing; all is on the disk then.

    A link in its place, or on the way to it, is an OSError.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
    with _enter(str(path.parent), make=True) as number:
        with open(os.open(path.name, flags, 0o666, dir_fd=number), "a") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.fsync(number)


def write_run_file(
    path: Path, content: str | bytes, *, sync: bool = True, private: bool = False
) -> None:
    """Replace a file below `runs` as a whole, on the disk with its name, and make its folders.

    A link in its place is replaced, and one on the way to it is an OSError. What is `private` is
    for its owner alone; all else as the user's umask has it.
    """
    data = content if isinstance(content, bytes) else content.encode("utf-8")
    temporary = f".{path.name}.{os.urandom(6).hex()}"
    with _enter(str(path.parent), make=True) as number:
        try:
            mode = 0o600 if private else 0o666
            file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode, dir_fd=number)
            with open(file, "wb") as opened:
                opened.write(data)
                if sync:
                    opened.flush()
                    os.fsync(file)
            os.replace(temporary, path.name, src_dir_fd=number, dst_dir_fd=number)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=number)
            raise OSError(error.errno, error.strerror, str(path)) from None
        if sync:
            os.fsync(number)


def sync_folders(folders: Iterable[Path]) -> None:
    """Have the names in folders on the disk, or with the file server, when this returns."""
    for folder in folders:
        number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def _open_plain(path: str | Path) -> tuple[int, int]:
    """Open what must be a file; return its number and its size in bytes."""
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    about = os.fstat(number)
    if not stat.S_ISREG(about.st_mode):
        os.close(number)
        raise OSError(errno.EINVAL, "not a file", str(path))
    return number, about.st_size


def _read_all(number: int, size: int) -> bytes:
    """Read a small file, or the beginning of a large one, without Python's buffers.

    They cost as much again, and there are thousands of such files.
    """
    parts, left = [], min(size, _MOST_BYTES)
    while left and (part := os.read(number, left)):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


@contextlib.contextmanager
def _enter(folder: str, *, make: bool) -> Iterator[int]:
    """Open a folder below `runs`, without going through a link there; with `make`, make it.

    What is made is on the disk, with its name, before anything is put into it.
    """
    parts = os.path.abspath(folder).split(os.sep)
    last = len(parts) - 1 - parts[::-1].index(RUNS) if RUNS in parts else len(parts) - 1
    first = last if make else last + 1
    above = os.sep.join(parts[:first]) or os.sep
    if make:
        os.makedirs(above, exist_ok=True)
    number = os.open(above, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for depth, part in enumerate(parts[first:], first):
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, dir_fd=number)
                    os.fsync(number)
            follow = 0 if depth == last else os.O_NOFOLLOW  # `runs` itself may lie elsewhere
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | follow, dir_fd=number)
            os.close(number)
            number = inner
        yield number
    except OSError as error:
        raise OSError(error.errno, error.strerror, folder) from None
    finally:
        os.close(number)
