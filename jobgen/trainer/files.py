"""Writing files so that a reader, or the next start after a crash, never sees half of one."""

import hashlib
import os
from pathlib import Path


def sync(path: Path) -> None:
    """Return when the file's or folder's content is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def replace_text(path: Path, text: str) -> None:
    """Give the file this content in one move: it holds all of the old or all of the new."""
    temporary = path.with_name(f".tmp-{path.name}-{os.getpid()}")
    with temporary.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(temporary, path)
    sync(path.parent)


def digest(path: Path) -> str:
    """Return the SHA-256 of the file's content, as hexadecimal digits."""
    content = hashlib.sha256()
    with path.open("rb") as stream:
        while piece := stream.read(1 << 20):
            content.update(piece)
    return content.hexdigest()
