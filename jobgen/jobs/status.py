"""The state of jobs, from one query per scheduler and from what their scripts left."""

from __future__ import annotations

import os
import platform
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from glob import iglob
from itertools import islice
from typing import TypeVar

from jobgen import process
from jobgen.errors import RefusedError, SchedulerUnavailableError
from jobgen.jobs.files import RUNS, read_if_left
from jobgen.jobs.record import RECORD, JobRecord, folder_name, read_sound
from jobgen.jobs.run_folder import SIGTERM_CODE, Traces, read_outcome, read_traces
from jobgen.records import NamedTuple
from jobgen.schedulers import SCHEDULERS
from jobgen.schedulers.base import DEPENDENT, Queue, State, StateName

# Linux takes 128 KiB in one argument, as which Slurm has its short ids, and 2 MiB in all.
_MOST_IDS = 5_000
_Id = TypeVar("_Id")
# When all tasks of an array have ended, the first of these is the array's end.
_WORST: tuple[StateName, ...] = ("failed", "node lost", "timeout", "cancelled", "done")
_ORDER: tuple[StateName, ...] = ("done", "running", "stopping", "queued", *_WORST[:-1], "unknown")
_DEPENDENCY = re.compile(r"\b(after\w*):([^,?\s@]+)")
_DAY = 24 * 3600  # by so much no clocks and zones differ
# A job may run this much less than its walltime: it began before its script.
_SLACK_SECONDS = 30
_BY_SIGNAL = {137: ", by SIGKILL", SIGTERM_CODE: ", by SIGTERM"}
# What PBS prints as it ends a job because a node's daemon has died.
_NODE_DIED = r"node \d+ \(\S+\) requested job die"
# What a good end is told with where nodes have seen no connection between processes.
APART = "no two of its processes had a connection to each other: each may have worked alone"
# What the script prints at its walltime, or PBS as it ends a job there.
_AT_WALLTIME = r"ENDED by the (walltime|end of)|^=>> PBS: job killed: walltime"


class SchedulerAnswer:
    """What a scheduler says of jobs: their states, by the names of run folders.

    `silence` is why it does not answer; it is `mute` if a job that it does not list may exist all
    the same.
    """

    def __init__(self, name: str, wanted: Mapping[str, list[str]]) -> None:
        """Ask the scheduler called `name`, at once if the ids fit one command line.

        For each id, `wanted` has the run folders that it stands for.
        """
        self.states: dict[str, State] = {}
        self.silence, self.mute = "", False
        try:
            for ids in split_ids(wanted):
                self._ask(SCHEDULERS[name].queue, ids, wanted)
        except (SchedulerUnavailableError, RefusedError) as error:
            self.silence = str(error)

    def _ask(self, queue: Queue, ids: list[str], wanted: Mapping[str, list[str]]) -> None:
        argv = queue.make_query(ids)
        answered, stray = self._add(queue, argv, queue.read_states)
        if stray:  # of a job without a line it is not known whether it has one
            self.silence = f"{argv[0]} has printed no answer but {stray[:200]!r}"
        # Of a job alone that it does not know it says so, and fails.
        self.mute |= answered and len(ids) == 1 and not self.states.keys() & {*wanted[ids[0]], *ids}
        forgotten = [id for id in ids if not self.states.keys() >= {*wanted[id]}]
        if forgotten and (argv := queue.make_history_query(forgotten)):
            with suppress(SchedulerUnavailableError, RefusedError):  # many clusters keep none
                _, stray = self._add(queue, argv, queue.read_history)
                self.mute |= bool(stray)

    def _add(
        self, queue: Queue, argv: list[str], read: Callable[[str], tuple[dict[str, State], str]]
    ) -> tuple[bool, str]:
        """Add the states that a command prints; say if it knows some job, and a line without one.

        A line without its end may be half of one. A state that is known counts more.
        """
        answer = process.ask(argv, environment=queue.make_environment(os.environ))
        if answer.code and not queue.knows_none(answer.words):
            raise RefusedError(answer.refusal(argv[0]))
        whole, end, cut = answer.output.rpartition("\n")
        states, stray = read(whole + end)
        self.states = {folder_name(id): state for id, state in states.items()} | self.states
        return not answer.code, (stray or cut).strip()

    @property
    def doubt(self) -> str:
        """Why it is not known whether there is a job that it does not list; empty if it is."""
        if self.mute and not self.silence:
            return "the scheduler has printed nothing about it"
        return self.silence

    def list_known(self, left: Traces, *, ended: bool = False) -> list[State]:
        """Return the states of the jobs of its chain, or of the first alone if that has `ended`."""
        ids = left.open_chain[:1] if ended else left.open_chain
        known = [self.states[name] for name in map(folder_name, ids) if name in self.states]
        array = self.states.get(left.job.whole_dir.name) if left.job.array else None
        # A task that has not begun does not have its own entry.
        known = known or ([array] if array else [])
        # Of jobs that began long before there was this one, another has had its number.
        return [
            one for one in known if (one.start or left.job.submitted) + _DAY > left.job.submitted
        ]


class JobStatus(NamedTuple):
    """How a job stands, the folders of its attempts, and the tasks of an array.

    If the scheduler has `listed` it, or has not denied it, there is such a job, even if its state
    is unknown.
    """

    job: JobRecord
    state: State
    attempts: tuple[str, ...] = ()  # none of an array
    tasks: tuple[State, ...] = ()
    listed: bool = False

    @property
    def states(self) -> tuple[State, ...]:
        """Those of its tasks; for another job, its own."""
        return self.tasks or (self.state,)

    @property
    def starts(self) -> int:
        """The number of its starts."""
        return len(self.attempts)


class StatusReport(NamedTuple):
    """The states of jobs, in order, and which schedulers did not answer, and why."""

    jobs: tuple[JobStatus, ...]
    silences: tuple[str, ...]


class _Part(NamedTuple):
    """A job or a task: what it has left, and its state if that shows it."""

    left: Traces
    own: State | None


def read_state(job: JobRecord) -> State:
    """Return the job's state: by its script's own record, else by the scheduler's word.

    Raises SchedulerUnavailableError if it does not answer.
    """
    report = look([job])
    if report.silences:
        raise SchedulerUnavailableError(report.silences[0])
    return report.jobs[0].state


def look(jobs: Sequence[JobRecord]) -> StatusReport:
    """Return the state of jobs; ask schedulers once, about those without a recorded end."""
    statuses, silences = [], set[str]()
    looks = [(job, list(map(_examine, job.parts))) for job in jobs]
    answers = _ask_all(looks)
    for job, parts in looks:
        answer = answers[job.scheduler]
        states = [_find_state(part, answer, alone=len(jobs) == 1) for part in parts]
        left = [part.left for part in parts if part.own is None]
        unlisted = [one for one in left if not answer.list_known(one)]
        listed = answer.mute or len(unlisted) < len(left)
        statuses.append(_sum_up(job, parts, states, listed=listed))
        if any(one.word != "failed" for one in unlisted):  # which is known without an answer
            silences.add(answer.silence)
    return StatusReport(tuple(statuses), tuple(sorted(filter(None, silences))))


def look_again(last: StatusReport) -> StatusReport:
    """Return the jobs' state from their own records; everything else is from the last query."""
    statuses = []
    for seen in last.jobs:
        parts = list(map(_examine, seen.job.parts))
        states = [part.own or state for part, state in zip(parts, seen.states, strict=True)]
        statuses.append(_sum_up(seen.job, parts, states, listed=False))
    return last._replace(jobs=tuple(statuses))


def _sum_up(
    job: JobRecord, parts: Sequence[_Part], states: Sequence[State], *, listed: bool
) -> JobStatus:
    begun = any(part.left.attempts for part in parts)
    if not job.tasks:
        state = _name_others(job, states[0], begun=begun)
        return JobStatus(job, state, parts[0].left.attempts, (), listed)
    whole = _examine(job).own if job.local else None
    state = _name_others(job, _combine(states, whole), begun=begun)
    return JobStatus(job, state, (), tuple(states), listed)


def _ask_all(looks: Iterable[tuple[JobRecord, list[_Part]]]) -> dict[str, SchedulerAnswer]:
    """Ask each scheduler about its jobs whose own record shows no end; answers are by its name."""
    wanted: dict[str, dict[str, list[str]]] = {}
    for job, parts in looks:
        ids = wanted.setdefault(job.scheduler, {})
        for left in (part.left for part in parts if part.own is None):
            for id in left.open_chain:
                ids.setdefault(job.id if job.tasks else id, []).append(folder_name(id))
    return {name: SchedulerAnswer(name, ids) for name, ids in wanted.items()}


def _find_state(part: _Part, answer: SchedulerAnswer, *, alone: bool) -> State:
    """Return the state of a job or task, by the scheduler's answer if its own record lacks it.

    Its end is kept; of a job that is looked at `alone`, the scheduler is asked more.
    """
    if not part.own and not answer.list_known(part.left):
        # It may have ended between the look into its folder and the scheduler's answer.
        part = _examine(part.left.job)
    if part.own:
        return part.own
    state, certain = _judge(part.left, answer)
    if alone and (certain or not part.left.job.array):
        state = _ask_more(part.left, state, answer)
    if certain:
        part.left.keep_state(state)
    return state


def list_dependencies(job: JobRecord) -> list[tuple[str, str]]:
    """Return the jobs that `job` depends on, each with its kind, such as `afterok`, and its ID."""
    waits = " ".join(job.argv)  # these are in the place of the script's, and have them too
    if not _DEPENDENCY.search(waits):
        text = read_if_left(f"{job.run_folder}/script")
        waits = SCHEDULERS[job.scheduler].dependencies(text)
    return [(kind, id) for kind, ids in _DEPENDENCY.findall(waits) for id in ids.split(":")]


def _name_others(job: JobRecord, state: State, *, begun: bool) -> State:
    """Add which jobs a job waits for and how they stand, or which it needed to end well."""
    if state.name == "queued" and state.reason.startswith(DEPENDENT):
        others = ", ".join(words for _, words, _ in _list_others(job))
        return state._replace(reason=f"it waits for {others}") if others else state
    if begun or state.name not in ("cancelled", "unknown"):
        return state
    needed = [
        f"it needed {words}" for kind, words, bad in _list_others(job) if bad and kind == "afterok"
    ]
    return state._replace(reason="; ".join(filter(None, [state.reason, *needed[:1]])))


def _list_others(job: JobRecord) -> Iterator[tuple[str, str, bool]]:
    """Yield the kind of each dependency, its job in words, and whether that has failed."""
    for kind, job_id in list_dependencies(job):
        records = iglob(f"{job.folder}/{RUNS}/*/{folder_name(job_id)}/{RECORD}")
        other = next(read_sound(records), None)
        if other is None:
            yield kind, f"job {job_id}", False
        else:
            word = _describe_end(other)
            bad = word not in ("done", "running", "not begun")
            yield kind, f"{other.name} {other.id} ({word})", bad


def _describe_end(job: JobRecord) -> str:
    if outcome := read_outcome(job):
        return outcome[0]
    return "running" if read_traces(job).attempts else "not begun"


# --- What the script has left ------------------------------------------------------------


def _examine(job: JobRecord) -> _Part:
    """Judge by the job's own record, and a local one by its process.

    A failure may be the scheduler's doing, such as a preemption, or followed by another start: that
    is asked for once.
    """
    left = read_traces(job)
    if job.local:
        return _Part(left, _judge_local(left))
    return _Part(left, _judge_done(left) if left.word == "done" else left.kept_state)


def _judge_local(left: Traces) -> State:
    job = left.job
    if left.told_to_end and job.alive and not job.array:
        return State("stopping")
    if ended := _judge_outcome(left):
        return ended
    if left.word == "cancelled":
        return State("cancelled")
    return _judge_living(left) if job.alive else _judge_dead(left)


def _judge_living(left: Traces) -> State:
    if os.path.exists(f"{left.run_dir}/waits"):
        return State("queued", DEPENDENT)
    if left.job.array and not left.attempts:
        return State("queued", "it waits for another task")
    return State("running", "", left.begun, left.limit)


def _judge_dead(left: Traces) -> State:
    """Judge a local job without a process here and without an outcome."""
    job = left.job
    if job.host not in ("", platform.node()):
        return _guess(left, f"it was started on {job.host}", gone=False)
    if job.array and not left.attempts:
        return State("cancelled", "it had not begun")
    if left.cancelled:  # before its script could note it, or it would not end
        return State("cancelled")
    return State("failed", "its supervising script was killed")


def _judge_done(left: Traces) -> State:
    if os.path.exists(f"{left.run_dir}/STOPPED"):
        return State("done", "it stopped early, as requested")
    return State("done", APART if left.apart else "")


def _judge_outcome(left: Traces) -> State | None:
    """Return how the job ended if its script alone can tell; None if it runs or was told to end."""
    if left.word == "done":
        return _judge_done(left)
    if left.word != "failed":
        return None
    nodes, words = left.lost_nodes
    if nodes:
        name: StateName = "failed" if ": not started: " in words else "node lost"
        return State(name, words or f"no sign of life from {nodes}")
    if left.code == SIGTERM_CODE and re.search(_AT_WALLTIME, left.output, re.M):
        return State("timeout", "its script has ended it at its walltime")
    return State("failed", f"exit code {left.code}{_BY_SIGNAL.get(left.code, '')}")


def _judge_cancelled(left: Traces) -> State:
    """Tell by the time whether it was its walltime that ended a job by a signal."""
    ran, limit = left.ended - (left.begun or 0.0), left.walltime
    late = limit is not None and ran + _SLACK_SECONDS >= limit
    return State("timeout", "it ended at its walltime") if late else State("cancelled")


def _guess(left: Traces, why: str, *, gone: bool) -> State:
    """Guess how a job stands that the scheduler does not know (`gone`) or does not answer for."""
    if left.word == "cancelled":
        return _judge_cancelled(left)
    if left.word == "continued":
        return State("unknown", f"it was going to be restarted; {why}")
    if left.alive:
        reason = f"according to its nodes' signs of life; {why}"
        return State("running", reason, left.begun, left.limit)
    if gone and left.cancelled:  # its script may have been killed before it could note it
        return State("cancelled", "" if left.attempts else "it had not begun")
    if not left.attempts:
        return State("unknown", f"it has not begun here; {why}")
    if not gone:
        return State("unknown", f"it began, but left no outcome; {why}")
    ended = "it left no outcome: it was killed, or its first node was lost"
    return State("failed", f"{ended}; {why}")


# --- What the scheduler says -------------------------------------------------------------


def _judge(left: Traces, answer: SchedulerAnswer) -> tuple[State, bool]:
    """Judge by what the scheduler says, and what the script has left; say if that is the end."""
    own = _judge_outcome(left)
    known = answer.list_known(left, ended=own is not None)
    going = [one for one in known if not one.ended and one.name != "unknown"]
    if going:
        return _judge_going(left, going[0], own), False
    if known and known[-1].name != "unknown":
        return _judge_end(left, known[-1], own), True
    if own:
        return own, not answer.silence
    if known and not left.alive:
        return known[-1], False
    if answer.doubt:
        return _guess(left, answer.doubt, gone=False), False
    return _guess(left, "the scheduler no longer knows it", gone=not known), False


def _judge_going(left: Traces, state: State, own: State | None) -> State:
    """Return how a job stands that the scheduler says goes on: it ends if its script has failed."""
    before = (state.start or 0) <= left.ended  # its start, the outcome
    if state.name == "queued" or not before or left.word not in ("failed", "cancelled"):
        return state
    return own or state._replace(name="stopping")


def _judge_end(left: Traces, state: State, own: State | None) -> State:
    """Return how a job ended: by its script's own word, unless the scheduler says more."""
    if lost := re.search(_NODE_DIED, left.output):
        return State("node lost", lost[0])
    plain = SCHEDULERS[left.job.scheduler].queue.is_plain
    if own and (state.name == "done" or plain(state)):
        return own
    if left.word == "cancelled" and left.job.links:
        return State("cancelled")  # the later jobs of the chain only repeat it
    if left.word == "continued" and state.name == "done":
        return State("failed", "it stopped before it was done, and no job continues it")
    return state


def _ask_more(left: Traces, state: State, answer: SchedulerAnswer) -> State:
    """Return the same, or what another of the scheduler's commands knows of a single job."""
    known = answer.list_known(left, ended=True)
    if known and state.name in ("failed", "queued"):
        with suppress(SchedulerUnavailableError, RefusedError):
            more = SCHEDULERS[left.job.scheduler].queue.ask_more(left.job.id, known[0], process.run)
            return more if more != known[0] else state
    return state


def split_ids(ids: Iterable[_Id]) -> Iterator[list[_Id]]:
    """Yield ids, or what has one, in lists that fit one command line."""
    rest = iter(ids)
    while some := list(islice(rest, _MOST_IDS)):
        yield some


# --- The tasks of an array ---------------------------------------------------------------


def _combine(states: Sequence[State], whole: State | None) -> State:
    """Return the state of an array by its tasks'; by that of its own process if it has one."""
    count = Counter(state.name for state in states)
    start = min((state.start for state in states if state.start is not None), default=None)
    if whole:
        return whole if whole.name == "queued" else State(whole.name, _format_count(count), start)
    if [*count] == ["queued"]:
        return State("queued", states[0].reason, start)
    going_on = count.keys() & {"running", "stopping", "queued"}
    worst = next(name for name in ("unknown", *_WORST) if name in {*count, "done"})
    return State("running" if going_on else worst, _format_count(count), start)


def _format_count(count: Counter[StateName]) -> str:
    """Count the tasks in each state: `3 done, 1 failed, 2 queued`."""
    return ", ".join(f"{count[name]} {name}" for name in _ORDER if name in count)
