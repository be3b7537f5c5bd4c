"""How jobs stand, and how to end them: one query to a scheduler for all of its jobs."""

from __future__ import annotations

import os
import platform
import re
import signal
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from glob import iglob
from typing import NamedTuple

from jobgen import process, schedulers
from jobgen.errors import RefusedError, SchedulerUnavailableError, UsageError
from jobgen.jobs import record, run_folder
from jobgen.jobs.record import JobRecord
from jobgen.jobs.run_folder import Traces, list_open_chain
from jobgen.schedulers.base import DEPENDENT, BatchScheduler, State, StateName, folder_name

# Linux takes 128 KiB in one argument, and 2 MiB in all.
_MOST_IDS = 120_000  # characters
# When all tasks of an array have ended, the first of these is the array's end.
_WORST: tuple[StateName, ...] = ("failed", "node lost", "timeout", "cancelled", "done")
_DEPENDENCY = re.compile(r"\b(after\w*):([^,?\s@]+)")
_ORDER: tuple[StateName, ...] = ("done", "running", "stopping", "queued", *_WORST[:-1], "unknown")


class SchedulerAnswer(NamedTuple):
    """The states that a scheduler tells, by the names of run folders, or why it does not answer."""

    states: dict[str, State]
    silence: str = ""


class JobStatus(NamedTuple):
    """How a job stands, how often it has been started, and the tasks of an array."""

    job: JobRecord
    state: State
    starts: int = 0
    tasks: tuple[State, ...] = ()


class StatusReport(NamedTuple):
    """How some jobs stand, in their order, and which schedulers have not answered, and why."""

    jobs: tuple[JobStatus, ...]
    silences: tuple[str, ...]


def read_state(job: JobRecord) -> State:
    """Return the job's state: by its script's own record, else by the scheduler's word.

    Raises SchedulerUnavailableError if it does not answer.
    """
    report = look([job])
    if report.silences:
        raise SchedulerUnavailableError(report.silences[0])
    return report.jobs[0].state


def look(jobs: Sequence[JobRecord], *, before: StatusReport | None = None) -> StatusReport:
    """Return how jobs stand; schedulers are asked once, for those whose own record shows no end.

    With `before`, an earlier report of the same jobs, no scheduler is asked: what only a scheduler
    can tell is taken from there.
    """
    parts = [_split(job) for job in jobs]
    own = [[_judge_own(job, left) for job, left in part] for part in parts]
    answers: dict[str, SchedulerAnswer] = {}
    if before is None:
        answers = {name: _ask(name, ids) for name, ids in _collect_open(jobs, parts, own).items()}
    statuses = []
    for number, (job, part, known) in enumerate(zip(jobs, parts, own, strict=True)):
        states = []
        for index, ((one, left), state) in enumerate(zip(part, known, strict=True)):
            if state is None and before is not None:
                last = before.jobs[number]
                state = last.tasks[index] if job.tasks else last.state
            states.append(state or _judge_answer(one, left, answers[job.scheduler]))
        state = _name_others(job, _combine(job, states) if job.tasks else states[0])
        if job.tasks:
            statuses.append(JobStatus(job, state, 0, tuple(states)))
        else:
            statuses.append(JobStatus(job, state, part[0][1].attempts))
    # Without an answer a failure is still known.
    needed = {
        job.scheduler
        for part, known in zip(parts, own, strict=True)
        for (job, left), state in zip(part, known, strict=True)
        if state is None and left.word != "failed"
    }
    silences = (each.silence for name, each in answers.items() if each.silence and name in needed)
    return StatusReport(tuple(statuses), tuple(silences))


def read_marks(jobs: Sequence[JobRecord]) -> list[tuple[int, str]]:
    """Return what changes as soon as a job's script begins or ends, for each job and task."""
    return [(left.attempts, left.word) for job in jobs for _, left in _split(job)]


def list_dependencies(job: JobRecord) -> list[tuple[str, str]]:
    """Return the jobs that `job` comes after: of each the kind, such as `afterok`, and the id."""
    if schedulers.is_local(job.scheduler):
        return []
    waits = " ".join(job.argv)  # these are in the place of the script's, and have them too
    if not _DEPENDENCY.search(waits):
        try:
            text = record.read_left(f"{job.run_folder}/script")
        except OSError:
            return []
        waits = schedulers.get_batch_scheduler(job.scheduler).dependencies(text)
    return [(kind, id) for kind, ids in _DEPENDENCY.findall(waits) for id in ids.split(":")]


def find_other(job: JobRecord, job_id: str) -> JobRecord | None:
    """Return the record of another job that was submitted from the same folder."""
    for path in iglob(f"{job.folder}/{record.RUNS}/*/{folder_name(job_id)}/{record.RECORD}"):
        with suppress(UsageError):
            return record.read_record(path)
    return None


def _name_others(job: JobRecord, state: State) -> State:
    """Of a job that waits for others: which they are, and how they stand by their own records."""
    if state.name != "queued" or not state.reason.startswith(DEPENDENT):
        return state
    words = []
    for _, job_id in list_dependencies(job):
        other = find_other(job, job_id)
        if other is None:
            words.append(f"job {job_id}")
            continue
        outcome = run_folder.read_outcome(other)
        begun = "running" if run_folder.read_traces(other).attempts else "not begun"
        words.append(f"{other.name} {other.id} ({outcome[0] if outcome else begun})")
    return state._replace(reason=f"it waits for {', '.join(words)}") if words else state


def _split(job: JobRecord) -> list[tuple[JobRecord, Traces]]:
    """Return the tasks of an array, or the job itself, with what each has left."""
    if not job.tasks:
        return [(job, run_folder.read_traces(job))]
    return [(task, run_folder.read_traces(task)) for task in map(job.task, range(job.tasks))]


def _collect_open(
    jobs: Sequence[JobRecord],
    parts: list[list[tuple[JobRecord, Traces]]],
    own: list[list[State | None]],
) -> dict[str, dict[str, list[str]]]:
    """Return by scheduler the ids to ask for, each with the run folders that it stands for."""
    wanted: dict[str, dict[str, list[str]]] = {}
    for job, part, known in zip(jobs, parts, own, strict=True):
        for (one, left), state in zip(part, known, strict=True):
            if state is None:
                ids = wanted.setdefault(job.scheduler, {})
                for id in list_open_chain(one, left):
                    ids.setdefault(job.id if job.tasks else id, []).append(folder_name(id))
    return wanted


def _judge_own(job: JobRecord, left: Traces) -> State | None:
    """Judge by the job's own record, and a local one by its process; None if that does not tell.

    A failure may be the scheduler's doing, such as a preemption, or followed by another start: that
    is asked for once.
    """
    if schedulers.is_local(job.scheduler):
        return _judge_local(job, left)
    done = left.word == "done"
    return run_folder.judge_done(left) if done else run_folder.read_state(job, left)


def _judge_local(job: JobRecord, left: Traces) -> State:
    alive = process.is_running(job.pid, job.started)
    if alive and run_folder.is_told_to_end(left) and not job.array:
        return State("stopping")
    if ended := run_folder.judge_outcome(job, left):
        return ended
    if left.word == "cancelled":
        return State("cancelled")
    if not alive and job.host not in ("", platform.node()):
        return run_folder.judge_folder(job, left, f"it was started on {job.host}", gone=False)
    if not alive:
        if job.array and not left.attempts:
            return State("cancelled", "it had not begun")
        if run_folder.is_cancelled(job):  # before its script could note it, or it would not end
            return State("cancelled")
        return State("failed", "its supervising script was killed")
    if os.path.exists(f"{left.run_dir}/waits"):
        return State("queued", DEPENDENT)
    if job.array and not left.attempts:
        return State("queued", "it waits for another task")
    return State("running", "", *run_folder.read_times(left))


def _judge_answer(job: JobRecord, left: Traces, answer: SchedulerAnswer) -> State:
    """Judge by what the scheduler tells of it, or of the jobs of its chain that have not ended."""
    own = run_folder.judge_outcome(job, left)
    names = [folder_name(id) for id in list_open_chain(job, left)]
    if own:  # the jobs after this one do not go on
        names = names[:1]
    known = [answer.states[name] for name in names if name in answer.states]
    if not known and (array := answer.states.get(folder_name(job.array))):
        known = [array]  # it has not begun, and has no entry of its own
    for state in known:
        if not state.ended and state.name != "unknown":
            before = left.word and (state.start or 0) <= run_folder.get_end(left)
            if before and state.name != "queued" and (own or left.word == "cancelled"):
                return own or state._replace(name="stopping")
            return state
    if not known or known[-1].name == "unknown":
        if own is None:
            why = answer.silence or "the scheduler does not know it any more"
            return run_folder.judge_folder(job, left, why, gone=not answer.silence)
        if not answer.silence:
            run_folder.keep_state(job, left, own)
        return own
    state = known[-1]
    if own and (state.name == "done" or schedulers.get_queue(job.scheduler).is_plain(state)):
        state = own
    elif left.word == "cancelled" and job.links:
        state = State("cancelled")  # the later jobs of the chain only repeat it
    elif left.word == "continued" and state.name == "done":
        state = State("failed", "it has stopped before it was done, and no job goes on")
    run_folder.keep_state(job, left, state)
    return state


def _ask(name: str, wanted: dict[str, list[str]]) -> SchedulerAnswer:
    """Ask the scheduler called `name` about these jobs, at once if they fit one command line."""
    queue = schedulers.get_queue(name)
    environment = queue.environment(os.environ)
    states: dict[str, State] = {}
    for ids in _split_ids(wanted):
        argv = queue.argv(ids)
        try:
            answer = process.ask(argv, environment=environment)
            if answer.code and not queue.knows_none(answer.words):
                return SchedulerAnswer(states, answer.refusal(argv[0]))
            if answer.output.strip():
                states |= queue.states(answer.output)
        except SchedulerUnavailableError as error:
            return SchedulerAnswer(states, str(error))
        except ValueError:
            return SchedulerAnswer(
                states, f"{argv[0]} has printed no answer but {answer.output[:200]!r}"
            )
        forgotten = [id for id in ids if not states.keys() >= {*wanted[id]}]
        if forgotten and (history := queue.history_argv(forgotten)):
            try:
                answer = process.ask(history, environment=environment)
                states = queue.history(answer.output) | states
            except (SchedulerUnavailableError, ValueError):
                continue  # many clusters keep no history
    return SchedulerAnswer(states)


def _split_ids(ids: Iterable[str]) -> Iterator[list[str]]:
    some: list[str] = []
    length = 0
    for id in ids:
        if length + len(id) + 1 > _MOST_IDS:
            yield some
            some, length = [], 0
        some.append(id)
        length += len(id) + 1
    yield some


def _combine(job: JobRecord, states: Sequence[State]) -> State:
    """Return the state of an array by its tasks'; of a local one by its own process."""
    count = Counter(state.name for state in states)
    start = min((state.start for state in states if state.start is not None), default=None)
    if schedulers.is_local(job.scheduler):
        state = _judge_local(job, run_folder.read_traces(job))
        return state if state.name == "queued" else State(state.name, _format_count(count), start)
    if len(count) == 1 and "queued" in count:
        return State("queued", states[0].reason, start)
    going_on = count.keys() & {"running", "stopping", "queued"}
    worst = next(name for name in ("unknown", *_WORST) if name in {*count, "done"})
    return State("running" if going_on else worst, _format_count(count), start)


def _format_count(count: Counter[StateName]) -> str:
    """Return how many tasks stand how: `3 done, 1 failed, 2 queued`."""
    return ", ".join(f"{count[name]} {name}" for name in _ORDER if name in count)


def cancel(jobs: Sequence[JobRecord]) -> list[JobRecord]:
    """End jobs, and return them. Local ones are told to stop, and killed after 60 s.

    Raises RefusedError, with all reasons, if some cannot be ended; the others are.
    """
    ended: list[JobRecord] = []
    refusals = []
    plain: dict[str, list[JobRecord]] = {}
    for job in jobs:
        try:
            if schedulers.is_local(job.scheduler):
                _stop(job)
                ended.append(job)
            elif len(ids := list_open_chain(job, run_folder.read_traces(job))) > 1:
                _cancel_all(ids, schedulers.get_batch_scheduler(job.scheduler))
                ended.append(job)
            else:
                plain.setdefault(job.scheduler, []).append(job)
        except RefusedError as error:
            refusals.append(str(error))
    for name, some in plain.items():
        wanted = [list_open_chain(job, run_folder.read_traces(job))[0] for job in some]
        for ids in _split_ids(wanted):
            try:
                process.run(schedulers.get_batch_scheduler(name).cancel_argv(ids))
                ended += [job for job, id in zip(some, wanted, strict=True) if id in ids]
            except RefusedError as error:
                refusals.append(str(error))
    for job in ended:
        run_folder.note_cancel(job)
    if refusals:
        refusal = RefusedError("\n".join(refusals))
        refusal.cancelled = tuple(job.id for job in ended)
        raise refusal
    return ended


def _stop(job: JobRecord) -> None:
    """End a local job; of one whose script was killed, what that has left behind."""
    if job.array:
        raise RefusedError(f"a task of a local array does not end alone; cancel {job.array}")
    tasks = [job.task(index) for index in range(job.tasks)]
    marks = {f"JOBGEN_RUN_DIR={one.run_folder}" for one in (job, *tasks)}
    if job.pid is not None and process.is_running(job.pid, job.started):
        _send_signal([job.pid], signal.SIGTERM)
    elif not (left := process.list_marked(marks)):
        raise RefusedError(f"job {job.id} has ended already")
    else:
        _send_signal(left, signal.SIGTERM)
    give_up = time.monotonic() + 60
    while process.is_running(job.pid, job.started) or process.list_marked(marks):
        if time.monotonic() > give_up:
            if job.pid is not None and process.is_running(job.pid, job.started):
                _send_signal([-job.pid], signal.SIGKILL)
            _send_signal(process.list_marked(marks), signal.SIGKILL)
            break
        time.sleep(0.1)


def _send_signal(pids: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to processes, or to groups by negative numbers, as far as they are there."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _cancel_all(ids: list[str], scheduler: BatchScheduler) -> None:
    """End jobs, the last first, so that none starts because the one before it has ended.

    Those that have ended already do not matter, as long as one has not.
    """
    refusals = []
    for job_id in reversed(ids):
        try:
            process.run(scheduler.cancel_argv([job_id]))
        except RefusedError as error:
            refusals.append(error)
    if len(refusals) == len(ids):
        raise refusals[-1]
