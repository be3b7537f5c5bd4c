"""Lines of a file that another machine is writing, whatever becomes of the file meanwhile."""

from __future__ import annotations

import errno
import os
import re
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path

# A longer line is passed on in pieces: a program may never end one.
LONGEST = 64 * 1024
# What a terminal would show of a line that writes over itself, at most this often, in seconds.
_PROGRESS = 10.0
# So many bytes before the place that was reached tell whether a file is still the same.
_MARK = 256
# What logrotate and Python's handlers append to the names of older files: a number, or a date.
OLDER = r"(?:\.([0-9]{1,4})|[.-][0-9][0-9.T_-]{5,})"
_OLDER = re.compile(OLDER)


@dataclass
class _Place:
    """How far a file has been read, and what stands just before."""

    offset: int = 0
    mark: bytes = b""


class Tail:
    """A file that grows, and those that it was rotated into. Nothing is read before `look`.

    `lines` are those that have been read and not been taken yet, without their ends.
    """

    def __init__(self, path: Path, *, rotated: bool = False) -> None:
        """Follow `path`; `rotated` where there are older ones of that name already."""
        self.path = path
        self.lines: deque[bytes] = deque()
        self._partial = b""
        self._shown = time.monotonic()
        # Inodes of what had the name at the last look (0: it had gone), and was read last.
        self._inode: int | None = 0 if rotated else None
        self._reading: int | None = None
        self._places: dict[int, _Place] = {}  # by inode
        self._unread: deque[tuple[Path, int, int]] = deque()  # path, inode and size

    def look(self, *, sure: bool = False) -> None:
        """See what there is to read: `fill` reads that, and not what is written meanwhile.

        With `sure` the file server is asked, where else the client may believe what it knows.
        """
        found = _stat(self.path, sure=sure)
        before, self._unread = self._inode, deque()
        if found is None and before is None:
            return
        known = self._places.get(before or 0, _Place())
        self._inode = found.st_ino if found else 0
        other = before is not None and self._inode != before
        cut = found is not None and not other and found.st_size < known.offset
        # Older files matter where this one is new, or gone, or may have been written to at the end.
        if other or cut or not found or (sure and len(self._places) > 1):
            whole = self._look_at_older(known, before)
            if (other or cut) and before and not whole:
                self._miss()
        if found:
            if other and self._is_new(found):
                self._places[found.st_ino] = _Place()
            self._plan(self.path, found)
        if b"\r" in self._partial and time.monotonic() - self._shown > _PROGRESS:
            self.finish()

    def fill(self, limit: int) -> None:
        """Read on by `limit` bytes, and by more where they hold no line.

        Where that adds no `lines` it is the end of what `look` has seen.
        """
        held = len(self.lines)
        while self._unread and len(self.lines) == held:
            path, inode, size = self._unread[0]
            if inode != self._reading:
                self.finish()
                self._reading = inode
            place = self._places[inode]
            data = _read(path, inode, place, min(limit, size - place.offset))
            if data is None:  # it was cut, and has grown again
                self._places[inode] = _Place()
                self._miss()
                continue
            place.offset += len(data)
            place.mark = (place.mark + data)[-_MARK:]
            self._add(data)
            if not data or place.offset >= size:
                self._unread.popleft()

    def finish(self) -> None:
        """What has been read of a line is a line."""
        if self._partial:
            self._take(self._partial)
            self._partial = b""

    def _is_new(self, found: os.stat_result) -> bool:
        """Whether the file that has the name now is none that was read: inodes are used again."""
        place = self._places.get(found.st_ino)
        return place is None or _read(self.path, found.st_ino, place, 0) is None

    def _plan(self, path: Path, found: os.stat_result) -> None:
        place = self._places.setdefault(found.st_ino, _Place())
        if found.st_size < place.offset:
            place.offset, place.mark = 0, b""
        if found.st_size > place.offset:
            self._unread.append((path, found.st_ino, found.st_size))

    def _look_at_older(self, known: _Place, before: int | None) -> bool:
        """Plan to read on in older files; returns whether the rest of the last one is there."""
        found, name = [], self.path.name
        try:
            with os.scandir(self.path.parent) as entries:
                for entry in entries:
                    older = _OLDER.fullmatch(entry.name, len(name))
                    if older and entry.name.startswith(name):
                        stat = entry.stat()
                        number = int(older[1] or 0)  # of two that ended at once, `.2` is older
                        found.append((stat.st_mtime_ns, -number, Path(entry.path), stat))
        except OSError as error:
            if not _gone(error):
                raise
        whole = False
        for _, _, path, stat in sorted(found, key=lambda each: each[:2]):
            # A copy, made before the file was cut, goes on where that has been read to.
            copy = stat.st_ino not in self._places and known.offset and stat.st_size >= known.offset
            if copy and _read(path, stat.st_ino, known, 0) is not None:
                self._places[stat.st_ino] = _Place(known.offset, known.mark)
                whole = True
            whole = whole or stat.st_ino == before
            self._plan(path, stat)
        return whole

    def _miss(self) -> None:
        self.finish()
        text = f"jobgen: {self.path.name} was cut or replaced here; lines may be missing"
        self.lines.append(text.encode())

    def _add(self, data: bytes) -> None:
        whole, newline, self._partial = (self._partial + data).rpartition(b"\n")
        if newline:
            for line in whole.split(b"\n"):
                self._take(line)
        if b"\r" in self._partial:  # of what overwrites itself the last is kept
            kept = self._partial.rstrip(b"\r").rpartition(b"\r")[2]
            self._partial = kept + b"\r" * self._partial.endswith(b"\r")
        while len(self._partial) > LONGEST:
            cut = LONGEST
            while cut > LONGEST - 4 and self._partial[cut] & 0xC0 == 0x80:  # inside a character
                cut -= 1
            self._take(self._partial[:cut])
            self._partial = self._partial[cut:]

    def _take(self, line: bytes) -> None:
        if b"\r" in line:
            line = line.rstrip(b"\r").rpartition(b"\r")[2]
        self.lines.append(line)
        self._shown = time.monotonic()


def _stat(path: Path, *, sure: bool) -> os.stat_result | None:
    try:
        if not sure:
            return os.stat(path)
        with path.open("rb") as file:  # close-to-open consistency: nfs(5)
            return os.fstat(file.fileno())
    except OSError as error:
        if _gone(error):
            return None
        raise


def _read(path: Path, inode: int, place: _Place, count: int) -> bytes | None:
    """What stands behind a place; None where the bytes before it are others now."""
    try:
        with path.open("rb", buffering=0) as file:
            if os.fstat(file.fileno()).st_ino != inode:  # the next look will see to it
                return b""
            file.seek(place.offset - len(place.mark))
            data = file.read(len(place.mark) + count)
    except OSError as error:
        if _gone(error):
            return b""
        raise
    return data[len(place.mark) :] if data.startswith(place.mark) else None


def _gone(error: OSError) -> bool:
    return error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ESTALE)
