"""A job's output, from all its nodes and starts, as lines with their node and rank."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import product
from pathlib import Path

from jobgen.errors import SchedulerUnavailableError
from jobgen.jobs import run_folder
from jobgen.jobs.record import JobRecord
from jobgen.jobs.status import StatusReport
from jobgen.jobs.tail import Tail, fold_lines
from jobgen.jobs.watch import Watch
from jobgen.output import format_names
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

    @property
    def has_script(self) -> bool:
        """Whether the script's own output is wanted."""
        whole = self[:3] == (None, None, None) if self.script is None else self.script
        return whole and not self.stderr


ALL = Wanted()


def read_logs(job: JobRecord, wanted: Wanted = ALL) -> Iterator[LogLine]:
    """Yield the output so far: the script's, and the stdout of the processes."""
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


def name_output(job: JobRecord, wanted: Wanted) -> str:
    """Say which processes have printed: `ranks 0-1 on n1, n2`; empty if none has."""
    ending = ".err" if wanted.stderr else ".out"
    paths = [path for path in _list_files(job) if path.suffix == ending and path.stat().st_size]
    ranks = {int(re.sub(r"\D", "", path.name)) for path in paths}
    nodes = {path.parent.name for path in paths}
    roles = _list_names(job.run_dir / ROLES)
    of_roles = f" (of {', '.join(roles)})" if roles else ""
    ranks_of = f"rank{'s' * (len(ranks) > 1)} {format_ranges(sorted(ranks), most=4)}"
    return f"{ranks_of} on {format_names(sorted(nodes))}{of_roles}" if ranks else ""


def has_none_of(job: JobRecord, wanted: Wanted) -> bool:
    """Return whether a job has processes, and none of the rank, node or role that is asked for."""
    known = list(_list_files(job))
    return bool(known) and not any(_is_of(path, wanted) for path in known)


def _is_of(path: Path, wanted: Wanted) -> bool:
    node, role = path.parent.name, path.parts[-4]
    of_rank = wanted.rank is None or path.stem == f"rank-{wanted.rank}"
    of_node = wanted.node in (None, node, node.partition(".")[0])
    return of_rank and of_node and wanted.role in (None, role)


def _list_files(job: JobRecord) -> Iterator[Path]:
    """Yield the files of processes, of all tasks and roles."""
    for part, folder in product(job.parts, ("logs", f"{ROLES}/*/logs")):
        paths = part.run_dir.glob(f"{folder}/*/rank-*")
        yield from (path for path in paths if _RANK.fullmatch(path.name))


class _RunLogs:
    """The files of one run folder that are asked for: a job's, a task's or a role's."""

    def __init__(
        self, job: JobRecord, wanted: Wanted, task: int | None = None, role: str = ""
    ) -> None:
        self.job, self.task, self.role = job, task, role
        self._wanted, self._ending = wanted, ".err" if wanted.stderr else ".out"
        self._logs = job.run_dir / ROLES / role / "logs" if role else job.run_dir / "logs"
        self._plain: dict[tuple[str, str], Tail] = {}  # by node and name; the script has no node
        self._ranks: dict[tuple[int, str], Tail] = {}  # by rank and node

    @property
    def looks(self) -> int:
        """How often to look at files for new lines."""
        return 2 + 2 * (len(self._plain) + len(self._ranks))

    def lines(self, *, sure: bool) -> Iterator[LogLine]:
        """Yield what is new, as `_Logs` does."""
        self._find()
        for (node, _), tail in self._plain.items():
            for _, text in _read_lines([tail], sure=sure):
                if text.startswith(_OWN):  # such as the arguments of a task
                    text = mask_text(text)
                yield LogLine(text, (node,) if node else (), (), self.task, self.role)
        who = sorted(self._ranks)
        for indices, text in _read_lines([self._ranks[each] for each in who], sure=sure):
            nodes = dict.fromkeys(who[index][1] for index in indices)
            ranks = tuple(who[index][0] for index in indices)
            yield LogLine(text, tuple(nodes), ranks, self.task, self.role)

    def _find(self) -> None:
        if self._wanted.has_script and not self.role:
            for job_id in run_folder.list_chain(self.job):
                path = run_folder.find_output(self.job, job_id)
                self._plain.setdefault(("", path), Tail(Path(path)))
        for node in _list_names(self._logs):
            if self._wanted.node in (None, node, node.partition(".")[0]):
                for name in _list_names(self._logs / node):
                    self._take_up(node, name)

    def _take_up(self, node: str, name: str) -> None:
        path, wanted = self._logs / node / name, self._wanted.rank
        match = _RANK.fullmatch(name)
        if match and match[2] == self._ending:
            rank = int(match[1])
            if wanted in (None, rank) and (rank, node) not in self._ranks:
                self._ranks[rank, node] = Tail(path)
        elif name == "agent.log" and self._ending == ".err" and wanted is None:
            self._plain.setdefault((node, name), Tail(path))


class _Logs:
    """The files of a job that are asked for, as far as they are there."""

    def __init__(self, job: JobRecord, wanted: Wanted) -> None:
        self._job, self._wanted = job, wanted
        numbers = range(job.tasks) if job.tasks else [None]
        parts = zip(job.parts, numbers, strict=True)
        self._runs = [_RunLogs(part, wanted, task) for part, task in parts]

    @property
    def rest(self) -> float:
        """Return the seconds until the next look."""
        return max(_LOOK_SECONDS, sum(run.looks for run in self._runs) / _LOOKS_PER_SECOND)

    def lines(self, *, sure: bool) -> Iterator[LogLine]:
        """Yield the new lines; with `sure`, up to the end of the output."""
        known = {run.role for run in self._runs}
        for name in sorted({*_list_names(self._job.run_dir / ROLES)} - known):
            if self._wanted.role in (None, name):
                self._runs.append(_RunLogs(self._job, self._wanted, role=name))
        for run in self._runs:
            yield from run.lines(sure=sure)


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
