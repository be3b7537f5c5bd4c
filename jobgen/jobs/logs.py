"""What a job prints, on all its nodes and in all its starts, as lines that say whose they are."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path

from jobgen.errors import SchedulerUnavailableError
from jobgen.jobs import run_folder
from jobgen.jobs.record import JobRecord
from jobgen.jobs.status import StatusReport
from jobgen.jobs.tail import Tail, fold_lines
from jobgen.jobs.watch import Watch
from jobgen.records import NamedTuple
from jobgen.schedulers.base import State
from jobgen.spec.secrets import mask_text
from jobgen.spec.units import format_ranges

# A scheduler is restarted now and then: this many queries in a row may stay unanswered.
_PATIENCE = 10
# How often files are looked at, and how many looks a second all of them together may take.
_LOOK_SECONDS = 0.3
_LOOKS_PER_SECOND = 400
_OWN = "jobgen: "  # how the script begins what it says itself
ROLES = "roles"  # the folder that has one for each of several programs
_RANK = re.compile(r"rank-([0-9]+)(\.out|\.err)")


class LogLine(NamedTuple):
    """A line, and who printed it: processes, a node's agent (then no `ranks`), or the script.

    It is as they printed it: `output.make_printable` is for terminals, which obey some characters.
    Of many processes that printed the same there is one line. `nodes` are theirs, each once; the
    script's are none. `task` is the index in an array, `role` the name of one of several programs.
    """

    text: str
    nodes: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    task: int | None = None
    role: str = ""

    def __str__(self) -> str:
        """The line for a person: `n1 rank 3 | text`, or `64 ranks, 0-63 | text`."""
        who = [] if self.task is None else [f"task {self.task}"]
        who += [self.role] if self.role else []
        if len(self.ranks) > 1:
            who.append(f"{len(self.ranks)} ranks, {format_ranges(self.ranks, most=4)}")
        else:
            who += [*self.nodes, *(f"rank {rank}" for rank in self.ranks)]
        return f"{' '.join(who)} | {self.text}" if who else self.text


class Wanted(NamedTuple):
    """Which output is asked for: all, or that of one rank, node or role.

    With `stderr` it is what the processes printed there, and the agents of their nodes. `script`
    says whether the script's own output is, too; by default where all is asked for.
    """

    rank: int | None = None
    node: str | None = None
    role: str | None = None
    stderr: bool = False
    script: bool | None = None


ALL = Wanted()


def read_logs(job: JobRecord, wanted: Wanted = ALL) -> Iterator[LogLine]:
    """Yield what the job has printed so far: its script, and its processes on stdout."""
    yield from _Logs(job, wanted).lines(sure=True)


def follow_logs(
    job: JobRecord,
    wanted: Wanted = ALL,
    *,
    pause: Callable[[float], None] = time.sleep,
    notice: Callable[[StatusReport], object] | None = None,
) -> Generator[LogLine, None, State]:
    """Yield the same as it grows, until the job's end; return its last state.

    `pause` is called with the seconds to wait if there is nothing new, `notice` with each report of
    how the job stands. A job that is unknown twice is over. Raises SchedulerUnavailableError if
    only the scheduler can tell, and has not answered ten times.
    """
    logs = _Logs(job, wanted)
    watch = Watch([job])
    while True:
        report = watch.look()
        if notice:
            notice(report)
        if watch.over(0):
            yield from logs.lines(sure=True)
            return report.jobs[0].state
        yield from logs.lines(sure=False)
        if watch.silent >= _PATIENCE:
            raise SchedulerUnavailableError("\n".join(report.silences))
        pause(logs.rest)


class _RunLogs:
    """The files of one run folder: a job's, or those of a task of an array or of a role."""

    def __init__(self, job: JobRecord, task: int | None, role: str = "") -> None:
        self.job, self.task, self.role = job, task, role
        self.logs = job.run_dir / ROLES / role / "logs" if role else job.run_dir / "logs"
        self.plain: dict[tuple[str, str], Tail] = {}  # by node and name; the script has no node
        self.ranks: dict[tuple[int, str], Tail] = {}  # by rank and node


class _Logs:
    """The files of a job that are asked for, as far as they are there."""

    def __init__(self, job: JobRecord, wanted: Wanted) -> None:
        self._rank, self._node, self._role = wanted[:3]
        whole = wanted[:3] == (None, None, None) if wanted.script is None else wanted.script
        self._script = whole and not wanted.stderr
        self._ending = ".err" if wanted.stderr else ".out"
        numbers = range(job.tasks) if job.tasks else [None]
        self._runs = [_RunLogs(*each) for each in zip(job.parts, numbers, strict=True)]
        self._roles = job.run_dir / ROLES

    @property
    def rest(self) -> float:
        """Seconds until the next look."""
        count = sum(2 + 2 * (len(run.plain) + len(run.ranks)) for run in self._runs)
        return max(_LOOK_SECONDS, count / _LOOKS_PER_SECOND)

    def lines(self, *, sure: bool) -> Iterator[LogLine]:
        """Yield what is new since the last time; with `sure`, to the end of what will come."""
        known = {run.role for run in self._runs}
        for name in sorted({*_list_names(self._roles)} - known):
            if self._role in (None, name):
                self._runs.append(_RunLogs(self._runs[0].job, None, name))
        for run in self._runs:
            self._find(run)
            for (node, _), tail in run.plain.items():
                for _, text in _read_lines([tail], sure=sure):
                    if text.startswith(_OWN):  # such as the arguments of a task
                        text = mask_text(text)
                    yield LogLine(text, (node,) if node else (), (), run.task, run.role)
            who = sorted(run.ranks)
            for indices, text in _read_lines([run.ranks[each] for each in who], sure=sure):
                nodes = dict.fromkeys(who[index][1] for index in indices)
                ranks = tuple(who[index][0] for index in indices)
                yield LogLine(text, tuple(nodes), ranks, run.task, run.role)

    def _find(self, run: _RunLogs) -> None:
        if self._script and not run.role:
            for job_id in run_folder.list_chain(run.job):
                path = run_folder.find_output(run.job, job_id)
                if ("", path) not in run.plain:
                    run.plain["", path] = Tail(Path(path))
        for node in _list_names(run.logs):
            if self._node in (None, node, node.partition(".")[0]):
                for name in _list_names(run.logs / node):
                    self._take_up(run, node, name)

    def _take_up(self, run: _RunLogs, node: str, name: str) -> None:
        path = run.logs / node / name
        match = _RANK.fullmatch(name)
        if match and match[2] == self._ending:
            rank = int(match[1])
            if self._rank in (None, rank) and (rank, node) not in run.ranks:
                run.ranks[rank, node] = Tail(path)
        elif name == "agent.log" and self._ending == ".err" and self._rank is None:
            run.plain.setdefault((node, name), Tail(path))


def _list_names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _read_lines(tails: Sequence[Tail], *, sure: bool) -> Iterator[tuple[tuple[int, ...], str]]:
    """Yield the new lines of tails, each with the indices of those that have it."""
    for tail in tails:
        tail.look(sure=sure)
    for ending in (False, True)[: 1 + sure]:
        for tail in tails if ending else ():
            tail.finish()
        for indices, line in fold_lines(tails):
            yield indices, line.decode(errors="replace")
