"""What a job prints, on all its nodes and in all its starts, as lines that say whose they are."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from jobgen import links, runs, schedulers, status
from jobgen.errors import SchedulerUnavailableError
from jobgen.fold import chunk, folded
from jobgen.runs import Job
from jobgen.schedulers.base import State
from jobgen.tail import OLDER, Tail
from jobgen.watch import LEAST_SECONDS, POLL_SECONDS

# A scheduler is restarted now and then: so many questions in a row may stay without an answer.
_PATIENCE = 10
# Files are looked at this often, and rarer where there are many: so many looks a second together.
_LOOK_SECONDS = 0.3
_LOOKS_PER_SECOND = 400
_RANK = re.compile(rf"(rank-([0-9]+)\.(?:out|err))({OLDER})?")


class LogLine(NamedTuple):
    """A line, and who printed it: processes, a node's agent (then no `ranks`), or the script.

    Of many processes that printed the same there is one line. `nodes` are theirs, each once; the
    script's are none. `task` is the index in an array.
    """

    text: str
    nodes: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    task: int | None = None

    def __str__(self) -> str:
        """The line for a person: `n1 rank 3 | text`, or `64 ranks, 0-63 | text`."""
        who = [] if self.task is None else [f"task {self.task}"]
        if len(self.ranks) > 1:
            who.append(f"{len(self.ranks)} ranks, {_spans(self.ranks)}")
        else:
            who += [*self.nodes, *(f"rank {rank}" for rank in self.ranks)]
        return f"{' '.join(who)} | {self.text}" if who else self.text


def read(
    job: Job, *, rank: int | None = None, node: str | None = None, stderr: bool = False
) -> Iterator[LogLine]:
    """What the job has printed so far: its script, and its processes on stdout.

    With `rank` or `node`, only that process or those of that node. With `stderr` it is what the
    processes printed there, and the agents of their nodes.
    """
    yield from _Logs(job, rank, node, stderr, rank is None and node is None).lines(sure=True)


def follow(
    job: Job,
    *,
    rank: int | None = None,
    node: str | None = None,
    stderr: bool = False,
    script: bool | None = None,
    pause: Callable[[float], None] = time.sleep,
) -> Generator[LogLine, None, State]:
    """The same as it grows, until the job's end; returns its last state.

    `script` says whether to follow the script's own output too; otherwise it is as for `read`.
    `pause` is called with the seconds to wait where there is nothing new. Raises
    SchedulerUnavailableError where only the scheduler can tell, and has not answered ten times.
    """
    if script is None:
        script = rank is None and node is None
    logs = _Logs(job, rank, node, stderr, script)
    interval = POLL_SECONDS if job.scheduler != schedulers.LOCAL else 0.5
    next_query = time.monotonic() + max(0.0, interval - max(0.0, time.time() - job.submitted))
    soonest, recorded, silences = 0.0, None, 0
    while True:
        previous, recorded = recorded, runs.outcome(job)
        state = None
        if recorded != previous:  # which is worth a question, unless it is its own answer
            done = recorded is not None and recorded[0] == "done"
            next_query = min(next_query, 0.0 if done else soonest)
        if time.monotonic() >= next_query:
            next_query = time.monotonic() + interval
            soonest = time.monotonic() + min(LEAST_SECONDS, interval)
            try:
                state, silences = status.state(job), 0
            except SchedulerUnavailableError:
                silences += 1
                if silences == _PATIENCE:
                    raise
        if state and state.ended:
            yield from logs.lines(sure=True)
            return state
        yield from logs.lines(sure=False)
        pause(logs.rest)


class _Folder:
    """The names in a folder, which is listed again only where it has changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._names: list[str] = []
        self._changed: int | None = None
        self._settled = False

    def names(self, *, sure: bool) -> list[str]:
        try:
            changed = os.stat(self._path).st_mtime_ns
            if sure or changed != self._changed or not self._settled:
                self._names = sorted(os.listdir(self._path))
                # What came within the same tick of the clock is found by looking twice.
                self._settled = changed == self._changed
                self._changed = changed
        except (FileNotFoundError, NotADirectoryError):
            return []
        return self._names


class _Run:
    """The files of one run folder: a job's, or those of a task of an array."""

    def __init__(self, job: Job, task: int | None) -> None:
        self.job, self.task = job, task
        self.folders: dict[str, _Folder] = {"": _Folder(job.run_dir / "logs")}
        self.plain: dict[tuple[str, str], Tail] = {}  # by node and name; the script has no node
        self.ranks: dict[tuple[int, str], Tail] = {}  # by rank and node


class _Logs:
    """The files of a job that are asked for, as far as they are there."""

    def __init__(
        self, job: Job, rank: int | None, node: str | None, stderr: bool, script: bool
    ) -> None:
        self._rank, self._node, self._script = rank, node, script and not stderr
        self._ending = ".err" if stderr else ".out"
        many = [_Run(job.task(index), index) for index in range(job.tasks)]
        self._runs = many or [_Run(job, None)]

    @property
    def rest(self) -> float:
        """Seconds until the next look."""
        count = sum(1 + len(run.folders) + len(run.plain) + len(run.ranks) for run in self._runs)
        return max(_LOOK_SECONDS, count / _LOOKS_PER_SECOND)

    def lines(self, *, sure: bool) -> Iterator[LogLine]:
        """What is new since the last time; where it is `sure`, to the end of what will come."""
        for run in self._runs:
            self._find(run, sure=sure)
            for (node, _), tail in run.plain.items():
                for text in _rest(tail, sure=sure):
                    yield LogLine(_text(text), (node,) if node else (), (), run.task)
            yield from self._of_ranks(run, sure=sure)

    def _of_ranks(self, run: _Run, *, sure: bool) -> Iterator[LogLine]:
        who = sorted(run.ranks)
        tails = [run.ranks[each] for each in who]
        for tail in tails:
            tail.look(sure=sure)
        last: Sequence[bool] = (False, True) if sure else (False,)
        for end in last:
            if end:
                for tail in tails:
                    tail.finish()
            for indices, text in folded(tails):
                nodes = dict.fromkeys(who[index][1] for index in indices)
                ranks = tuple(who[index][0] for index in indices)
                yield LogLine(_text(text), tuple(nodes), ranks, run.task)

    def _find(self, run: _Run, *, sure: bool) -> None:
        """Take up the files that are there since the last time."""
        if self._script:
            output_file = schedulers.get(run.job.scheduler).output_file
            for job_id in links.ids(run.job):
                name = output_file(run.job.name, job_id)
                if ("", name) not in run.plain:
                    run.plain["", name] = Tail(Path(run.job.folder, name))
        logs = run.job.run_dir / "logs"
        for node in run.folders[""].names(sure=sure):
            if self._node not in (None, node, node.partition(".")[0]):
                continue
            folder = run.folders.setdefault(node, _Folder(logs / node))
            rotated: dict[str, bool] = {}
            for name in folder.names(sure=sure):
                if (found := _RANK.fullmatch(name)) and found[1].endswith(self._ending):
                    rotated[found[1]] = rotated.get(found[1], False) or bool(found[3])
                elif name == "agent.log" and self._ending == ".err" and self._rank is None:
                    run.plain.setdefault((node, name), Tail(logs / node / name))
            for name, older in rotated.items():
                rank = int(name[5 : -len(self._ending)])
                if self._rank in (None, rank) and (rank, node) not in run.ranks:
                    run.ranks[rank, node] = Tail(logs / node / name, rotated=older)


def _rest(tail: Tail, *, sure: bool) -> Iterator[bytes]:
    tail.look(sure=sure)
    limit = chunk(1)
    tail.fill(limit)
    while tail.lines:
        yield tail.lines.popleft()
        tail.fill(limit)
    if sure:
        tail.finish()
        yield from tail.lines
        tail.lines.clear()


def _text(line: bytes) -> str:
    """What can be printed of a line; what could not stands as U+FFFD."""
    text = line.decode(errors="replace")
    return text if text.isprintable() else text.translate(_HARMLESS)


# Control characters but for tabs and escapes, as of colours.
_HARMLESS = {code: "\ufffd" for code in (*range(32), 127) if code not in (9, 27)}


def _spans(numbers: Sequence[int]) -> str:
    """`0-3,5`, of the first four."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    words = [str(a) if a == b else f"{a}-{b}" for a, b in spans[:4]]
    return ",".join(words) + ",..." * (len(spans) > 4)
