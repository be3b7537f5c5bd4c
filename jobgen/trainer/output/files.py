"""Writing files so that a reader, or the next start after a crash, never sees half of one."""

import fcntl
import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...loop import sync
from ..config import BusyError


def replace_text(path: Path, text: str) -> None:
    """Give the file this content in one move: it holds all of the old or all of the new."""
    temporary = path.with_name(f".tmp-{path.name}-{os.getpid()}")
    try:
        temporary.write_text(text, encoding="utf-8")
        sync(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)  # left only by a full disk
    sync(path.parent)


def digest(path: Path) -> str:
    """Return the SHA-256 of the file's content, as hexadecimal digits."""
    content = hashlib.sha256()
    with path.open("rb") as stream:
        while piece := stream.read(1 << 20):
            content.update(piece)
    return content.hexdigest()


@contextmanager
def lock(path: Path, *, patience: float) -> Iterator[None]:
    """Hold a lock file; BusyError if another process holds it for so many seconds.

    The system releases the lock when the process ends, however it does. On a file system without
    locks, every process gets it.
    """
    end = time.monotonic() + patience
    with path.open("a") as stream:
        while True:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= end:
                    raise BusyError(
                        f"{path.parent}: another run writes here; wait, or choose another --out"
                    ) from None
                time.sleep(0.5)
            except OSError:
                break
        yield
