"""Lines of files that other machines are writing, and of many such files as one sequence."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from jobgen.jobs.files import open_left

# A longer line is passed on in pieces: a program may never end one.
LONGEST = 64 * 1024
# What a terminal would show of a line that writes over itself, at most this often, in seconds.
_PROGRESS = 10.0
# Bytes that are held of all files together, and the least and most that are read of one at a time.
_HELD = 2 << 20
_LEAST, _MOST = 4 << 10, 256 << 10


class Tail:
    """A file that grows. Nothing is read before `look`.

    `lines` are those that have been read and not been taken yet, without their ends.
    """

    def __init__(self, path: Path) -> None:
        """Follow `path`, from its beginning."""
        self.path = path
        self.lines: deque[bytes] = deque()
        self._partial = b""
        self._shown = time.monotonic()
        self._offset = self._size = 0
        self._file = (0, 0)  # device and number of the one that is read
        self._told = False  # that it cannot be read

    def look(self, *, sure: bool = False) -> None:
        """See what there is to read: `fill` reads that, and not what is written meanwhile.

        With `sure` the file server is asked; otherwise the client may believe what it knows. A file
        that is shorter than before, or that has come in its place, is read from its beginning.
        """
        about = self._examine(sure=sure)
        if about is None:
            self._size = self._offset
        else:
            file = (about.st_dev, about.st_ino)
            if self._offset and (file != self._file or about.st_size < self._offset):
                self.finish()
                self._say(f"{self.path.name} was cut or replaced here; lines may be missing")
                self._offset = 0
            self._file, self._size = file, about.st_size
        if b"\r" in self._partial and time.monotonic() - self._shown > _PROGRESS:
            self.finish()

    def _examine(self, *, sure: bool) -> os.stat_result | None:
        try:
            about = None if sure else os.stat(self.path)
            if about is not None and stat.S_ISREG(about.st_mode):
                return about
            with open_left(self.path) as file:  # close-to-open consistency: nfs(5)
                return os.fstat(file.fileno())
        except OSError as error:
            if not self._told and not _is_gone(error):
                self._say(f"{self.path.name} cannot be read: {error.strerror}")
                self._told = True
            return None

    def _say(self, words: str) -> None:
        self.lines.append(f"jobgen: {words}".encode())

    def fill(self, limit: int) -> None:
        """Read on by `limit` bytes, and by more if they hold no line.

        If that adds no `lines` it is the end of what `look` has seen.
        """
        held = len(self.lines)
        while self._offset < self._size and len(self.lines) == held:
            count = min(limit, self._size - self._offset)
            data = _read_bytes(self.path, self._offset, count, file=self._file)
            if not data:
                return
            self._offset += len(data)
            self._add(data)

    def finish(self) -> None:
        """What has been read of a line is a line."""
        if self._partial:
            self._take(self._partial)
            self._partial = b""

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


def fold_lines(tails: Sequence[Tail]) -> Iterator[tuple[tuple[int, ...], bytes]]:
    """Return all lines of the tails, each with the indices of those that have it.

    Each tail's lines keep their order. Those of one stay together up to a line that others are
    about to say too; that one waits for them.
    """
    limit = min(_MOST, max(_LEAST, _HELD // max(1, len(tails))))  # bytes to read at a time
    return _Fold(tails, limit).lines()


class _Fold:
    """Several tails, of which equal lines are taken together."""

    def __init__(self, tails: Sequence[Tail], limit: int) -> None:
        self._tails, self._limit = tails, limit
        self._held = Counter(line for tail in tails for line in tail.lines)
        self._heads: dict[bytes, list[int]] = {}  # the next line of each
        self._ready: list[bytes] = []  # of these, those that no other is about to say
        self._last = [2 * len(tail.lines) for tail in tails]  # lines that each gave at a read

    def lines(self) -> Iterator[tuple[tuple[int, ...], bytes]]:
        self._fill()
        for index in reversed(range(len(self._tails))):
            self._advance(index)
        while self._heads:
            line = self._ready.pop() if self._ready else next(iter(self._heads))
            if line not in self._heads:
                continue
            here = sorted(self._heads.pop(line))
            self._held[line] -= len(here)
            if not self._held[line]:
                del self._held[line]
            yield tuple(here), line
            for index in reversed(here):
                self._tails[index].lines.popleft()
                self._advance(index)

    def _fill(self) -> None:
        """Read on in all tails that run low together, so that equal lines are held together."""
        for index, tail in enumerate(self._tails):
            held = len(tail.lines)
            if held <= self._last[index] // 2:
                tail.fill(self._limit)
                self._last[index] = len(tail.lines) - held
                self._held.update(islice(tail.lines, held, None))

    def _advance(self, index: int) -> None:
        """Note the next line of a tail."""
        lines = self._tails[index].lines
        if not lines and self._last[index]:
            self._fill()
        if lines:
            here = self._heads.setdefault(lines[0], [])
            here.append(index)
            if len(here) == self._held[lines[0]]:
                self._ready.append(lines[0])


def _read_bytes(path: Path, offset: int, count: int, *, file: tuple[int, int]) -> bytes:
    """Read that of a file as long as `path` names it: another may take its place at any moment."""
    try:
        with path.open("rb", buffering=0) as opened:
            about = os.fstat(opened.fileno())
            opened.seek(offset)
            return opened.read(count) if (about.st_dev, about.st_ino) == file else b""
    except OSError as error:
        if _is_gone(error):
            return b""
        raise


def _is_gone(error: OSError) -> bool:
    return error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ESTALE)
