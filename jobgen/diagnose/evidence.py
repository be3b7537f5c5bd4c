"""What a run folder tells of one attempt: who failed when, and the lines that were printed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from jobgen import runs
from jobgen.runs import Job

# Of a longer file the beginning and the end are read: a program may print gigabytes.
_HEAD = 64 * 1024
_TAIL = 192 * 1024
_FRAME = re.compile(r'File "(.+)", line (\d+)(?:, in (.+))?')
_TRACEBACK = "Traceback (most recent call last):"
_LINKS = ("During handling of the above", "The above exception was the direct")
_PREFIX = re.compile(r"^\[rank\d+\]:\s?")


class Line(NamedTuple):
    """One line of a file; numbers count from 1."""

    file: Path
    number: int
    text: str


class Failure(NamedTuple):
    """A process that failed, or a node (then without a rank), by its own or its agent's word.

    `time` is in seconds since 1970; what has only a file's time has that of the file server.
    """

    node: str
    rank: int | None
    time: float
    exit_code: int | None
    lines: tuple[Line, ...]  # the message first, where there is one

    @property
    def raised(self) -> tuple[Line, ...]:
        """The messages of Python's exceptions, the first of a chain first."""
        return tuple(_exceptions(self.lines))

    @property
    def place(self) -> str:
        """Where in the program's own code the first exception came from; empty if unknown."""
        place, raised = "", set(self.raised)
        for line in self.lines:
            frame = _FRAME.search(line.text)
            if frame and not re.search(r"/(site|dist)-packages/|/lib/python3|<frozen", frame[1]):
                place = f"{frame[1]}:{frame[2]}" + (f", in {frame[3]}" if frame[3] else "")
            elif place and line in raised:
                break
        return place


class Evidence:
    """The last attempt of a job, read when it is asked for."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.run_dir = job.run_dir
        own = runs.attempts(job.run_dir)[job.first_attempt :]
        self.attempt = own[-1] if own else None

    @cached_property
    def began(self) -> float:
        """When the attempt knew its nodes: what is older in the folder is of an earlier one."""
        try:
            return (self.attempt / "nodes").stat().st_mtime if self.attempt else 0
        except OSError:
            return 0

    @cached_property
    def nodes(self) -> list[str]:
        """The attempt's nodes, in order."""
        return _words(self.attempt / "nodes") if self.attempt else []

    def script(self) -> list[Line]:
        """What the script itself, and the scheduler's daemons, printed."""
        from jobgen import schedulers

        name = schedulers.get(self.job.scheduler).output_file(self.job.name, self.job.id)
        return list(read(Path(self.job.folder, name)))

    def agent(self, node: str) -> list[Line]:
        """What a node's agent printed, of this attempt."""
        lines = list(self._fresh(self.run_dir / "logs" / node / "agent.log"))
        starts = [at for at, line in enumerate(lines) if "the rendezvous is at" in line.text]
        return lines[starts[-1] :] if starts else lines

    def failures(self) -> list[Failure]:
        """The processes that failed by themselves, then the nodes, each by time."""
        ranks = {(failure.node, failure.rank): failure for failure in self._recorded()}
        for node in self.nodes:
            for rank, code in _table(self.agent(node)):
                if (node, rank) not in ranks and code != -15:
                    ranks[node, rank] = self._silent(node, rank, code)
        by_time = sorted(ranks.values(), key=lambda failure: failure.time)
        told = {failure.node for failure in by_time}
        return by_time + [failure for failure in self._nodes() if failure.node not in told]

    def _recorded(self) -> Iterator[Failure]:
        """Those with an error file, which torchelastic's `record` writes for an exception."""
        for path in sorted(self.run_dir.glob("errors/*.json")):
            match = re.fullmatch(r"(.+)-(\d+)(\.restart-\d+)?\.json", path.name)
            try:
                if not match or path.stat().st_mtime < self.began:
                    continue
                content = json.loads(path.read_text(encoding="utf-8"))["message"]
                if isinstance(content, str):
                    content = {"message": content, "extraInfo": {}}
                extra = content["extraInfo"]
                stack = str(extra.get("py_callstack", "")).splitlines()
                time = float(extra.get("timestamp", path.stat().st_mtime))
            except (OSError, ValueError, KeyError, TypeError, AttributeError):
                continue
            node, rank = match[1], int(match[2])
            texts = [content["message"].splitlines()[0] if content["message"] else "", *stack]
            found = [Line(path, 1, text) for text in texts]
            log = self._said(node, rank)
            # The same traceback as the program printed it has line numbers to look at.
            yield Failure(
                node, rank, time, None, tuple(log if _has(log, texts[0]) else found + log)
            )

    def _silent(self, node: str, rank: int, code: int) -> Failure:
        """One that left no error file: its agent knows its code, its log when it last spoke."""
        lines = self._said(node, rank)
        times = [line.file.stat().st_mtime for line in lines] or [self._ended(node)]
        return Failure(node, rank, max(times), code, tuple(lines))

    def _nodes(self) -> Iterator[Failure]:
        """Nodes whose agent failed, the first to do so first."""
        if self.attempt is None:
            return
        first = _words(self.attempt / "failed")
        order = sorted(range(len(self.nodes)), key=lambda index: [str(index)] != first[:1])
        for index in order:
            code = _words(self.attempt / f"node-{index}.ended")
            if code and code[0] != "0":
                node = self.nodes[index]
                lines = [line for line in self.agent(node) if line.text.strip()]
                yield Failure(node, None, self._ended(node), int(code[0]), tuple(lines[-200:]))

    def _ended(self, node: str) -> float:
        try:
            assert self.attempt is not None
            ended = self.attempt / f"node-{self.nodes.index(node)}.ended"
            return ended.stat().st_mtime
        except (OSError, ValueError):
            return self.began

    def _said(self, node: str, rank: int) -> list[Line]:
        """What a process printed last, errors first; without torch's mark of the rank."""
        logs = self.run_dir / "logs" / node
        lines = []
        for ending in ("err", "out"):
            lines += list(self._fresh(logs / f"rank-{rank}.{ending}"))[-200:]
        return [line._replace(text=_PREFIX.sub("", line.text)) for line in lines]

    def _fresh(self, path: Path) -> Iterator[Line]:
        try:
            if path.stat().st_mtime >= self.began:
                yield from read(path)
        except OSError:
            return


def read(path: Path) -> Iterator[Line]:
    """The lines of a file; of a long one its beginning and its end. None where there is none."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
            yield from _lines(path, head, 1)
            size = path.stat().st_size
            number = 1 + head.count(b"\n")
            while file.tell() < size - _TAIL:
                number += file.read(min(1 << 20, size - _TAIL - file.tell())).count(b"\n")
            yield from _lines(path, file.read(), number)
    except OSError:
        return


def _lines(path: Path, text: bytes, number: int) -> Iterator[Line]:
    for line in text.split(b"\n"):
        yield Line(path, number, line.decode(errors="replace"))
        number += 1


def _exceptions(lines: Iterable[Line]) -> Iterator[Line]:
    """The lines after a traceback's frames, up to an empty one."""
    frames = message = False
    for line in lines:
        text = line.text
        if text.startswith(_TRACEBACK):
            frames, message = True, False
        elif frames and text[:1].strip():
            frames, message = False, True
            yield line
        elif message and text.strip() and not text.startswith(_LINKS):
            yield line
        else:
            message = False


def _table(lines: list[Line]) -> Iterator[tuple[int, int]]:
    """Rank and exit code of the processes that torchrun lists as failed."""
    rank = None
    for line in lines:
        key, _, value = line.text.partition(":")
        number = re.match(r"\s*(-?\d+)", value)
        if key.strip() == "rank" and number:
            rank = int(number[1])
        elif key.strip() == "exitcode" and number and rank is not None:
            yield rank, int(number[1])
            rank = None


def _has(lines: list[Line], text: str) -> bool:
    return bool(text) and any(text in line.text for line in lines)


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []
