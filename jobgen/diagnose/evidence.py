"""What a run folder shows about one attempt: who failed when, and the lines that were printed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, cached_property
from itertools import count
from pathlib import Path

from jobgen.diagnose.cause import Where
from jobgen.diagnose.ending import Innocent
from jobgen.diagnose.exceptions import drop_launcher
from jobgen.diagnose.reading import Line, drop, keep, list_after_last, read_lines, split_record
from jobgen.jobs import run_folder
from jobgen.jobs.files import get_mtime, read_if_left
from jobgen.jobs.record import JobRecord
from jobgen.records import NamedTuple
from jobgen.rendering import header

_BEGINS = re.compile(r"^jobgen: (?!DONE|STOPPED|ENDED).* on .*; logs are in /")
_ROLE_BEGINS = re.compile(r"jobgen: \S+ starts; its logs are in /")  # with the first, the start
# Whose end follows.
_QUOTES = re.compile(r"jobgen: FAILED .*\b(?:rank \d+ on \S+, )(?:by|see) (/.*)")
_FAILED_ROLE = re.compile(r"^jobgen: FAILED: (role ([a-z][a-z0-9_]*) .*)")
_STARTS = re.compile(r"jobgen: start \d+")  # before what a process prints in a later start
# How torchrun lists a process that has failed.
_LISTED = re.compile(r"(?m)^\s*rank *: *(\d{1,9})\b.*\n\s*exitcode *: *(-?\d{1,9})\b")
_PID = re.compile(r"jobgen: rank (\d+) is process (\d+)")
_RANKED = re.compile(r"-(\d{1,9})(\.[a-z.]+)?$")
_MOST_LINES = 200
_RAISES = re.compile(r"\[rank\d+\]: Traceback ")  # which torch prints as it ends a process
#: the file of an attempt for what srun or mpiexec itself says
LAUNCHER = "launcher.log"
_ENDED = re.compile(r"([0-9]{1,9}) ([0-9]{1,3}) \S+\s*")
# The script ends a process by SIGTERM because another has failed; so does torchrun's agent.
STOPPED_BY_OTHERS = -15


class Failure(NamedTuple):
    """A process that failed, or a node (then without a rank), by its own or its agent's word.

    `time` is in seconds since 1970, by the clock of the file server.
    """

    node: str
    rank: int | None
    time: float
    exit_code: int | None  # -9: ended by signal 9
    lines: tuple[Line, ...]  # its errors, then its output
    where: Where = "rank"  # whose lines they are
    quiet: float = 0.0  # for how long it wrote to its output after its last error, seconds


class Evidence:
    """The last attempt of a job, or of a role of it; read when asked for, and each file once."""

    def __init__(self, job: JobRecord, role: str = "") -> None:
        self.job, self.role = job, role
        self.run_dir = job.run_dir / "roles" / role if role else job.run_dir
        own = run_folder.list_starts(job, self.run_dir)
        self.attempt = Path(own[-1]) if own else None
        self.has_own_times = run_folder.read_traces(job).has_own_times
        self.agent = cache(self._read_agent)

    @cached_property
    def began(self) -> float:
        """When the attempt knew its nodes: what is older in the folder is of an earlier one."""
        return self.get_time(self._file("nodes"))

    def get_time(self, path: Path) -> float:
        """When a file was last written; of files of a copy, which tell no times, 1; 0 of none."""
        written = get_mtime(path)
        return written if self.has_own_times else min(written, 1.0)

    @cached_property
    def ended(self) -> float:
        """When the attempt ended by its own record; 0 where it has left none."""
        return self.get_time(self._file("outcome"))

    @cached_property
    def nodes(self) -> list[str]:
        """The attempt's nodes, in order."""
        return self._words("nodes")

    @cached_property
    def ranks(self) -> dict[int, str]:
        """The processes that have begun, each with its node."""
        logs = sorted(self.find_files("logs/*/rank-*.err").items())
        return {rank: path.parent.name for rank, path in logs}

    def find_files(self, *patterns: str) -> dict[int, Path]:
        """The files of this attempt, by the rank that is last in their names."""
        paths = (path for one in patterns for path in sorted(self.run_dir.glob(one)))
        own = [path for path in paths if self._is_fresh(path)]
        return {int(rank[1]): path for path in own if (rank := _RANKED.search(path.name))}

    @cached_property
    def logs(self) -> dict[int, list[Line]]:
        """What each of them printed last, errors first."""
        return {rank: self._read_log(node, rank) for rank, node in self.ranks.items()}

    @cached_property
    def plan(self) -> header.Header | None:
        """What the script has said of its plan."""
        return header.read_json(read_if_left(self.run_dir / "plan.json"))

    @cached_property
    def world(self) -> int:
        """How many processes there should be by the plan; without one, those that began."""
        plan = self.plan
        groups = plan.groups if plan and plan.mode != "body" and not self.role else ()
        planned = sum(group.nodes * group.processes for group in groups)
        return max(planned, len(self.ranks))

    def find_role(self) -> tuple[str, str]:
        """The role that the script has named as the first to fail, and its words; or nothing."""
        for line in reversed(self.output):
            if match := _FAILED_ROLE.match(line.text):
                return match[2], match[1]
        return "", ""

    @cached_property
    def output(self) -> list[Line]:
        """What the script itself, and the scheduler's daemons, printed in this attempt."""
        lines = self._read_output()
        # A job that was put back into the queue goes on in the same file.
        starts = _list_starts(lines)
        if len(starts) > 1 and self.nodes:
            lines = lines[starts[-1] :]
        named = filter(None, [_QUOTES.match(line.text) for line in lines])
        own = f"/{self.job.name}/{self.job.run_dir.name}/"  # the project may have been moved
        paths = (Path(self.job.run_dir, path[1].rpartition(own)[2]) for path in named)
        quoted = {line.text for path in paths for line in read_lines(path)}
        return drop(lines, quoted.__contains__) + list(read_lines(self._file(LAUNCHER)))

    def _read_output(self) -> list[Line]:
        """What the last job of the chain that has begun has printed."""
        chain = run_folder.list_chain(self.job)
        if (started := self._words("job")) and started[0] in chain:
            chain = chain[: chain.index(started[0]) + 1]
        outputs = (Path(run_folder.find_output(self.job, one)) for one in reversed(chain))
        return next(filter(None, map(list, map(read_lines, outputs))), [])

    def unended_nodes(self) -> list[str]:
        """Nodes whose part has left no outcome, though that of others has.

        One that has given a sign of life since another failed is not silent.
        """
        failed = self.get_time(self._file("failed"))
        unended = [node for node in self.nodes if not get_mtime(self._record(node, "ended"))]
        if len(unended) == len(self.nodes):
            return []
        signs = {node: self.get_time(self._record(node, "alive")) for node in unended}
        return [node for node in unended if not signs[node] > failed > 0]

    def ended_well(self, node: str) -> bool:
        """Whether all processes of a node have ended with exit code 0."""
        return read_if_left(self._record(node, "ended")).split() == ["0"]

    @cached_property
    def exit_codes(self) -> dict[int, int]:
        """Of the processes that have ended, as far as their launcher or their agent has told."""
        return {rank: code for node in self.nodes for rank, code in self._list_codes(node)}

    def has_left(self, rank: int) -> bool:
        """Whether a process has left with exit code 0.

        One that others of its node have lost had ended before them. An agent that lists those, and
        not this one, has seen that it did not fail.
        """
        node = self.ranks[rank]
        unlisted = any(_parse_listing(self.agent(node))) and not any(self._list_ended(node))
        return self.exit_codes.get(rank, 0 if unlisted else None) == 0

    def _read_agent(self, node: str) -> list[Line]:
        """What a node's agent printed, of this attempt; or its processes, started directly."""
        log = self._fresh(self.run_dir / "logs" / node / "agent.log")
        lines = [part for line in log for part in split_record(line)]
        starts = [at for at, line in enumerate(lines) if self._begins(line.text)]
        return lines[starts[0] :] if starts else lines

    def _begins(self, text: str) -> bool:
        """Whether this attempt begins with a line; scripts of earlier versions count from 0."""
        number = int(self.attempt.name) if self.attempt else 0
        return f" in start {number + 1};" in text or f" of start {number};" in text

    def last_words(self, node: str) -> tuple[Line, ...]:
        """The last lines of a node's agent."""
        return tuple(keep(self.agent(node), str.strip)[-_MOST_LINES:])

    def find_pid(self, rank: int) -> str:
        """The process id of a rank on its node; empty where its agent has not noted it."""
        notes = (_PID.fullmatch(line.text) for line in self.agent(self.ranks[rank]))
        return next((note[2] for note in notes if note and note[1] == str(rank)), "")

    @cached_property
    def stopped(self) -> list[Failure]:
        """The processes that began and are not known to have failed, by what they printed."""
        failed = {failure.rank for failure in self.failures}
        return [
            Failure(node, rank, self._ended(node), None, tuple(self.logs[rank]))
            for rank, node in self.ranks.items()
            if rank not in failed
        ]

    @cached_property
    def failures(self) -> list[Failure]:
        """The processes that failed by themselves, then the nodes, each by time."""
        ranks: dict[tuple[str, int], Failure] = {}
        for node in self.nodes:
            for rank, code in self._list_codes(node):
                if (node, rank) not in ranks and self._has_failed(node, rank, code):
                    ranks[node, rank] = self._show_process(node, rank, code)
        by_time = sorted(ranks.values(), key=lambda failure: failure.time)
        named = {failure.node for failure in by_time}
        return by_time + [failure for failure in self._list_nodes() if failure.node not in named]

    def _has_failed(self, node: str, rank: int, code: int) -> bool:
        return code not in (0, STOPPED_BY_OTHERS) or self._was_stopped_first(node, rank)

    def _was_stopped_first(self, node: str, rank: int) -> bool:
        """Whether the job failed because something else than itself stopped this process.

        torchrun's agent lists last the process that it saw end first.
        """
        if node == self.first_node:
            return _parse_listing(self.agent(node))[-1:] == [(rank, STOPPED_BY_OTHERS)]
        stopped = str(128 - STOPPED_BY_OTHERS)
        outcome = self._words("outcome")
        return self._first[1:] == [stopped, str(rank)] and outcome == ["failed", stopped]

    def _list_codes(self, node: str) -> list[tuple[int, int]]:
        """Rank and exit code of the processes of a node, as its agent lists and notes them."""
        return [*_parse_listing(self.agent(node)), *self._list_ended(node)]

    def _list_ended(self, node: str) -> Iterator[tuple[int, int]]:
        """Rank and exit code of each process that has ended; a damaged line is left out."""
        for ending in ("ranks", "ended"):
            for line in read_lines(self._record(node, ending)):
                if match := _ENDED.fullmatch(line.text):
                    yield int(match[1]), _convert_status(int(match[2]))

    def _show_process(self, node: str, rank: int, code: int) -> Failure:
        """By its agent, which knows its code, and its log, which tells when it last spoke.

        Of processes that were started directly, none has ended before the first on record.
        """
        lines = tuple(self.logs.get(rank, ()))
        spoke = max((self.get_time(line.file) for line in lines), default=self._ended(node))
        if len(self._first) == 3:
            recorded = self.get_time(self._file("failed"))
            spoke = recorded if self._first[2] == str(rank) else max(spoke, recorded + 0.001)
            if not lines:
                return Failure(node, rank, spoke, code, self.last_words(node), "agent")
        return Failure(node, rank, spoke, code, lines, quiet=self._measure_quiet(node, rank))

    def _list_nodes(self) -> Iterator[Failure]:
        """Nodes whose agent failed, the first to do so first."""
        first = self._first[:1]
        for index in sorted(range(len(self.nodes)), key=lambda index: [str(index)] != first):
            node = self.nodes[index]
            code = read_if_left(self._record(node, "ended")).split()
            if not code and len(self.nodes) == 1:  # nobody else has to know how it ended
                code = self._words("outcome")[1:]
            if len(code) == 1 and re.fullmatch(r"[1-9][0-9]{0,2}", code[0]):
                status = _convert_status(int(code[0]))
                yield Failure(node, None, self._ended(node), status, self.last_words(node), "agent")

    @cached_property
    def _first(self) -> list[str]:
        """The first failure on record: the node's number, the code, and the rank where known."""
        return self._words("failed")

    @property
    def first_node(self) -> str | None:
        """The node whose agent is on record as the first to fail, with no process of it."""
        if len(self._first) != 2:
            return None
        return dict(zip(map(str, count()), self.nodes, strict=False)).get(self._first[0])

    def _file(self, name: str) -> Path:
        return (self.attempt or self.run_dir / "attempts" / "none") / name

    def _words(self, name: str) -> list[str]:
        return read_if_left(self._file(name)).split()

    def _record(self, node: str, ending: str) -> Path:
        return self._file(f"node-{self.nodes.index(node)}.{ending}")

    def _ended(self, node: str) -> float:
        return (node in self.nodes and self.get_time(self._record(node, "ended"))) or self.began

    def _read_log(self, node: str, rank: int) -> list[Line]:
        lines = []
        for ending in ("err", "out"):
            fresh = list(self._fresh(self._log(node, rank, ending)))
            fresh = list_after_last(fresh, _STARTS.fullmatch)
            lines += [part for line in _select_end(fresh) for part in split_record(line)]
        return drop_launcher(lines)

    def collect_innocent(self, lived: set[int]) -> Innocent:
        """What the processes printed that has ended none; those in `lived` failed by no fault."""
        innocent = Innocent()
        # An agent that ends the other processes first notes it late.
        failed = self.get_time(self._file("failed")) if len(self._first) == 3 else 0.0
        ended = {failure.rank for failure in self.failures}
        for rank, node in self.ranks.items():
            quiet = self._measure_quiet(node, rank)
            wrote = self.get_time(self._log(node, rank, "err"))
            after = 0.0 if rank in ended else failed - wrote
            innocent.add(self.logs[rank], quiet=quiet, lived=rank in lived, after=after)
        return innocent

    def _measure_quiet(self, node: str, rank: int) -> float:
        """For how many seconds a process wrote to its output after its last error."""
        written = self.get_time(self._log(node, rank, "out"))
        return max(0.0, written - self.get_time(self._log(node, rank, "err")))

    def _log(self, node: str, rank: int, ending: str) -> Path:
        return self.run_dir / "logs" / node / f"rank-{rank}.{ending}"

    def _fresh(self, path: Path) -> Iterator[Line]:
        if self._is_fresh(path):
            yield from read_lines(path)

    def _is_fresh(self, path: Path) -> bool:
        """Whether there is a file, and it is of this attempt; nothing is older than the first."""
        first = self.attempt is not None and self.attempt.name == "0"
        return self.get_time(path) >= (1.0 if first else self.began)


def _list_starts(lines: list[Line]) -> list[int]:
    """Where the script says that a start begins: by its own line, or by that of the first role."""
    first = next((line.text for line in lines if _ROLE_BEGINS.match(line.text)), None)
    begins = (line.text == first or _BEGINS.match(line.text) for line in lines)
    return [at for at, begin in enumerate(begins) if begin]


def _select_end(lines: list[Line]) -> list[Line]:
    """The last lines, after those of an uncaught exception that has been followed by more."""
    begins = [at for at, line in enumerate(lines[:-_MOST_LINES]) if _RAISES.match(line.text)]
    before = lines[begins[-1] : begins[-1] + _MOST_LINES] if begins else []
    return list(dict.fromkeys([*before, *lines[-_MOST_LINES:]]))


def _convert_status(status: int) -> int:
    """A shell's exit status as Python has it: -9 for 137."""
    return 128 - status if 128 < status < 160 else status


def _parse_listing(lines: list[Line]) -> list[tuple[int, int]]:
    """Rank and exit code of the processes that torchrun lists as failed."""
    listed = _LISTED.findall("\n".join(line.text for line in lines))
    return [(int(rank), int(code)) for rank, code in listed]
