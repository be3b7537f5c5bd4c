"""What a job's script has left in its run folder: attempts, outcome, signs of life, its chain.

It says how a job stands if the scheduler cannot: a scheduler may have forgotten a job minutes after
its end, or may not know it on this machine.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from glob import glob, iglob
from pathlib import Path

from jobgen.jobs.files import (
    get_mtime,
    open_left,
    parse_object,
    read_end,
    read_if_left,
    read_left,
    write_run_file,
)
from jobgen.jobs.record import PLAN, JobRecord
from jobgen.records import NamedTuple
from jobgen.rendering import header
from jobgen.schedulers import SCHEDULERS
from jobgen.schedulers.base import State

# Nodes give a sign of life every 20 s; a file server, its caches and clocks may be minutes behind.
_ALIVE_SECONDS = 300
_LOOKS_SECONDS = 60  # how long the script looks for connections each second
SIGTERM_CODE = 143  # as bash counts it
NOTE = "state.json"
CANCEL = "cancelled"
# What the libraries print at a run's end, and W&B at its beginning too: `View run at https://...`,
# `View run NAME at: https://...`.
_TRACKED = re.compile(
    rb"View run\b[^\n]{0,200}?\bat:?(?:\x1b\[[0-9;]*m| )+(https?://[\x21\x23-\x7e]{1,400})"
)
# How NCCL names the network between nodes in its log: Socket, IB, AWS Libfabric, ...
_NETWORK = re.compile(r"\bUsing network (\S.*)|\bvia NET/([^/\n]+)/")
# The id of a job of Slurm or PBS that is no task of an array.
_STARTED = re.compile(r"[0-9]+(\.[A-Za-z0-9._-]+)?")
_OF_A_LOG = 64 * 1024  # bytes of its beginning, and of its end
_MOST_LOGS = 64


class Traces(NamedTuple):
    """What one job or task has left: the folders of its attempts, and the outcome of the last.

    `word` is empty before its end, else done, failed, cancelled (ended by a signal) or continued
    (another start goes on). Each property reads a file; what is missing or damaged counts as
    nothing.
    """

    job: JobRecord
    run_dir: str
    attempts: tuple[str, ...] = ()
    word: str = ""
    code: int = 0

    @property
    def over(self) -> bool:
        """Whether the last attempt has ended by itself, as its script says."""
        return self.word in ("done", "failed")

    @property
    def told_to_end(self) -> bool:
        """Whether a SIGTERM has ended it, by its own word or by its exit code."""
        return self.word == "cancelled" or (self.word, self.code) == ("failed", SIGTERM_CODE)

    @property
    def last(self) -> str:
        """The folder of the last attempt; empty before the first."""
        return self.attempts[-1] if self.attempts else ""

    @property
    def begun(self) -> float | None:
        """When the last attempt began: the script is copied there at its beginning."""
        return get_mtime(f"{self.last}/script") or None

    @property
    def ended(self) -> float:
        """When the outcome was written; 0 before."""
        return get_mtime(f"{self.last}/outcome")

    @property
    def limit(self) -> float | None:
        """When the walltime ends that the last attempt's script asks for."""
        begun = self.begun
        about = header.read(read_if_left(f"{self.last}/script")) if begun else None
        return begun + about.walltime if begun and about and about.walltime else None

    @property
    def has_own_times(self) -> bool:
        """Whether its files have the times at which the job wrote them: a copy has its own.

        The first of them come with the submission, or by plain sbatch or qsub with the first start.
        """
        first = ("script", PLAN, "attempts/0/script")
        written = filter(None, (get_mtime(self.job.whole_dir / name) for name in first))
        return min(written, default=0.0) < self.job.submitted + _ALIVE_SECONDS

    @property
    def last_sign(self) -> float:
        """When a node of the last attempt has last given a sign of life; 0 if none has."""
        signs = map(get_mtime, iglob(f"{self.last}/node-*.alive")) if self.last else ()
        return max(signs, default=0.0)

    @property
    def alive(self) -> bool:
        """Whether that was lately."""
        return time.time() - self.last_sign < _ALIVE_SECONDS

    @property
    def loss(self) -> str:
        """What the script says of nodes whose loss made it end the others; empty without one."""
        return read_loss(self.last)[1]

    @property
    def output(self) -> str:
        """The end of what the script itself has printed."""
        job_id = read_if_left(f"{self.last}/job").strip() or self.job.id  # the last of a chain
        try:
            return read_end(find_output(self.job, job_id), 4096)
        except OSError:
            return ""

    @property
    def apart(self) -> bool:
        """Whether all nodes have looked for connections of processes, and fewer than two had any.

        A program that met for less than the second between two looks, as a first try does, may
        have been missed: nothing is said of one that ended within a minute.
        """
        records = glob(f"{self.last}/met-*")
        try:
            ranks = {rank for path in records for rank in read_left(path).split()}
        except (OSError, ValueError):
            return False
        looked = self.begun and self.ended - self.begun > _LOOKS_SECONDS
        return bool(looked and len(ranks) < 2 and 0 < len(records) == len(read_nodes(self.job)))

    @property
    def cancelled(self) -> bool:
        """Whether jobgen has cancelled the job, or the array that it is a task of."""
        own = (self.job.run_dir / CANCEL).exists()
        return own or (self.job.array != "" and (self.job.whole_dir / CANCEL).exists())

    @property
    def open_chain(self) -> list[str]:
        """The ids of the chain that may be queued or running: of the last start, and later ones.

        If that start was ended so that the next one goes on, it is not among them, unless the next
        one has the same id.
        """
        ids = list_chain(self.job)
        last = read_if_left(f"{self.last}/job").strip().partition(".")[0]
        if not last:
            return ids
        index = next((i for i, id in enumerate(ids) if id.partition(".")[0] == last), 0)
        if self.word == "continued" and index + 1 < len(ids):
            index += 1
        return ids[index:]

    @property
    def awaited(self) -> str:
        """The id of the job that is to go on, if its files would be seen here had it begun."""
        long = self.word == "continued" and self.ended + _ALIVE_SECONDS < time.time()
        return self.open_chain[0] if long else ""

    @property
    def kept_state(self) -> State | None:
        """The state that `keep_state` has kept, unless the job has been started again since."""
        kept = parse_object(read_if_left(f"{self.run_dir}/{NOTE}"))
        if not kept or not {"state", "reason"} <= kept.keys():
            return None
        same = all(kept.get(key) == value for key, value in self._start_marks.items())
        return State(kept["state"], kept["reason"]) if same else None

    def keep_state(self, state: State) -> None:
        """Keep what the scheduler says of the job's end, which it may soon forget."""
        kept = {"state": state.name, "reason": state.reason, **self._start_marks}
        with contextlib.suppress(OSError):  # another user's job, or a full disk: asked for again
            write_run_file(Path(self.run_dir, NOTE), json.dumps(kept) + "\n", sync=False)

    @property
    def _start_marks(self) -> dict[str, float]:
        """What another start changes, or another job whose id the scheduler uses again."""
        return {"attempts": len(self.attempts), "submitted": self.job.submitted}


def find_output(job: JobRecord, job_id: str) -> str:
    """Return where the script of the job, or of that one of its chain, prints to."""
    if job.shares:  # in that file the tasks' scripts would be mixed
        return f"{job.run_folder}/job.out"
    scheduler, script = SCHEDULERS[job.scheduler], read_if_left(job.whole_dir / "script")
    return os.path.join(job.folder, scheduler.find_output(job.name, job_id, script))


def read_traces(job: JobRecord) -> Traces:
    """Return what the script has left; nothing of a folder that is missing or unreadable."""
    own = list_starts(job, job.run_folder)
    left = Traces(job, job.run_folder, tuple(own))
    if own and _read_number(own[-1]) < job.counted_from:
        return left._replace(word="continued")
    word, code = read_outcome(left.last)
    return left._replace(word=word, code=code)


def read_outcome(attempt: str) -> tuple[str, int]:
    """Return the word and the exit code of an attempt's end; no word without one, or a damaged."""
    try:
        word, code = read_if_left(f"{attempt}/outcome").split() if attempt else ("", 0)
        return word, int(code)
    except ValueError:
        return "", 0


def list_starts(job: JobRecord, run_folder: str | Path) -> list[str]:
    """Return the job's attempts there, but the last that ended at once as the one before had.

    Nor one that has not yet noted which job it is.

    PBS starts all jobs of a chain, also after one is done, has failed or was cancelled. Behind one
    that is done, a job of the chain does nothing, whether it has said so already or not.
    """
    starts = list_attempts(run_folder)
    while len(starts) > 1 and not os.path.exists(f"{starts[-1]}/nodes"):
        before, last = (read_if_left(f"{start}/outcome") for start in starts[-2:])
        same = last.startswith(("done", "failed", "cancelled")) and last == before
        unnamed = not os.path.exists(f"{starts[-1]}/job")  # it begins just now
        ended = same or unnamed or (not last and before.startswith("done"))
        if not ended or _read_number(starts[-1]) == job.counted_from:
            break
        starts = starts[:-1]
    return starts


def _read_number(attempt: str) -> int:
    return int(os.path.basename(attempt))


def read_loss(attempt: str) -> tuple[list[str], str]:
    """Return the nodes whose loss ended this start, and what its script says of it; or nothing."""
    first, _, words = read_if_left(f"{attempt}/failed").partition("\n")
    word, *nodes = first.split() or [""]
    if word != "lost" or not nodes:
        return [], ""
    return nodes, words.strip() or f"no sign of life from {', '.join(nodes)}"


def list_attempts(run_folder: str | Path) -> list[str]:
    """Return the folders of the attempts in a run folder, in order."""
    try:
        names = os.listdir(f"{run_folder}/attempts")
    except OSError:
        return []
    numbers = sorted((name for name in names if name.isdecimal()), key=int)
    return [f"{run_folder}/attempts/{number}" for number in numbers]


def read_nodes(job: JobRecord) -> list[str]:
    """Return the short names of the nodes of the last attempt, in the order of their ranks."""
    lines = read_if_left(f"{read_traces(job).last}/nodes").splitlines()
    return [line.strip().partition(".")[0] for line in lines if line.strip()]


def read_port(attempt: str, role: str) -> int | None:
    """Return the port that a role has in this start, as its script exports it; None without one."""
    match = re.search(rf" {role.upper()}_PORT=([0-9]{{1,5}})\b", read_if_left(f"{attempt}/role"))
    return int(match[1]) if match else None


def name_node(nodes: list[str], word: str) -> str:
    """Return the node that a word stands for: by its number among these, or else by its name."""
    return {str(number): name for number, name in enumerate(nodes)}.get(word, word)


def list_chain(job: JobRecord) -> list[str]:
    """Return the ids of all jobs of the chain that are known, in order; most jobs have just one.

    The jobs of a chain go on where the one before has ended, all in the first one's run folder. One
    that was submitted by hand is known once it has started there.
    """
    ids = [job.shares or job.id, *job.links]
    while True:  # a job of Slurm notes the one that it has submitted
        text = read_if_left(f"{job.run_folder}/attempts/after-{ids[-1]}")
        following = text.strip().partition(";")[0]
        if not re.fullmatch(r"[0-9]+", following) or following in ids:
            break  # the last, or it is damaged
        ids.append(following)
    known = {id.partition(".")[0] for id in ids}
    return ids + [id for id in _list_started(job) if id.partition(".")[0] not in known]


def _list_started(job: JobRecord) -> list[str]:
    """Return the ids of the jobs that have made its starts behind the first; of a task, none."""
    if job.array or job.shares:
        return []
    starts = list_attempts(job.run_folder)[1:]
    started = (read_if_left(f"{start}/job").strip() for start in starts)
    return [*dict.fromkeys(filter(_STARTED.fullmatch, started))]


def note_cancel(job: JobRecord) -> None:
    """Keep that the job was cancelled: one that has not begun may leave no other trace."""
    with contextlib.suppress(OSError):  # another user's job, or a full disk
        write_run_file(job.run_dir / CANCEL, "", sync=False)


def find_tracked(run_folder: str) -> tuple[str, ...]:
    """Return the addresses of the W&B or MLflow runs that the job's processes have named."""
    addresses: dict[str, None] = {}
    if not os.path.isdir(f"{run_folder}/logs"):  # as for many of thousands of jobs
        return ()
    logs = Path(run_folder).glob("logs/*/rank-*")
    # The first ranks, whose names are the shortest, first: it is they who track.
    for path in sorted(logs, key=lambda log: (len(log.name), log.name))[:_MOST_LOGS]:
        with contextlib.suppress(OSError), open_left(path) as file:
            text = file.read(_OF_A_LOG)
            file.seek(max(len(text), os.fstat(file.fileno()).st_size - _OF_A_LOG))
            for address in _TRACKED.findall(text + file.read()):
                addresses.setdefault(address.rstrip(b".,;)'").decode("ascii"))
    return tuple(addresses)


def read_network(run_dir: Path) -> tuple[str | None, str | None]:
    """Return the network that NCCL chose in preflight, and a warning if the site has a faster."""
    text = read_if_left(run_dir / "preflight" / "nccl")
    plan = header.read_json(read_if_left(run_dir / "plan.json"))
    chosen = ["".join(names).strip() for names in _NETWORK.findall(text)][-1:]
    if chosen != ["Socket"] or plan is None or plan.fabric is None:
        return chosen[0] if chosen else None, None
    slow = f"NCCL uses TCP sockets between the nodes and not the site's {plan.fabric}"
    return chosen[0], f"{slow}; `jobgen sites show` says what it needs"
