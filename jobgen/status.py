"""How jobs stand, and how to end them: one query to a scheduler for all of its jobs."""

from __future__ import annotations

import os
import platform
import signal
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from jobgen import links, process, schedulers, traces
from jobgen.errors import RefusedError, SchedulerUnavailableError
from jobgen.runs import Job
from jobgen.schedulers.base import BatchScheduler, State, StateName, folder_name
from jobgen.traces import Traces

# Linux takes 128 KiB in one argument, and 2 MiB in all.
_MOST_IDS = 120_000  # characters
# When all tasks of an array have ended, the first of these is the array's end.
_WORST: tuple[StateName, ...] = ("failed", "node lost", "timeout", "cancelled", "done")
# What says no more than the script does.
_PLAIN_FAILURES = ("FAILED", "Exit_status")
_ORDER: tuple[StateName, ...] = ("done", "running", "stopping", "queued", *_WORST[:-1], "unknown")


class Told(NamedTuple):
    """What a scheduler has said: states by the names of run folders, or why it has said nothing."""

    states: dict[str, State]
    silence: str = ""


class Standing(NamedTuple):
    """How a job stands, how often it has been started, and its tasks where it is an array."""

    job: Job
    state: State
    starts: int = 0
    tasks: tuple[State, ...] = ()


class Look(NamedTuple):
    """How some jobs stand, in their order, and which schedulers have not answered, and why."""

    found: tuple[Standing, ...]
    silences: tuple[str, ...]


def state(job: Job) -> State:
    """The job's state: by its script's own record, else by the scheduler's word.

    Raises SchedulerUnavailableError where it does not answer.
    """
    seen = look([job])
    if seen.silences:
        raise SchedulerUnavailableError(seen.silences[0])
    return seen.found[0].state


def look(jobs: Sequence[Job], *, before: Look | None = None) -> Look:
    """How jobs stand. Those whose own record does not tell their end are asked for, all at once.

    With `before`, what was seen of the same jobs, nobody is asked: what only a scheduler can tell
    is as it was.
    """
    parts = [_parts(job) for job in jobs]
    own = [[_own(job, left) for job, left in part] for part in parts]
    told: dict[str, Told] = {}
    if before is None:
        told = {name: _ask(name, wanted) for name, wanted in _open(jobs, parts, own).items()}
    found = []
    for number, (job, part, known) in enumerate(zip(jobs, parts, own, strict=True)):
        states = []
        for index, ((one, left), state) in enumerate(zip(part, known, strict=True)):
            if state is None and before is not None:
                last = before.found[number]
                state = last.tasks[index] if job.tasks else last.state
            states.append(state or _by_scheduler(one, left, told[job.scheduler]))
        if job.tasks:
            found.append(Standing(job, _together(job, states), 0, tuple(states)))
        else:
            found.append(Standing(job, states[0], part[0][1].attempts))
    # Without an answer a failure is still known.
    needed = {
        job.scheduler
        for part, known in zip(parts, own, strict=True)
        for (job, left), state in zip(part, known, strict=True)
        if state is None and left.word != "failed"
    }
    silences = (each.silence for name, each in told.items() if each.silence and name in needed)
    return Look(tuple(found), tuple(silences))


def marks(jobs: Sequence[Job]) -> list[tuple[int, str]]:
    """What changes as soon as a job's script begins or ends, for each job and task."""
    return [(left.attempts, left.word) for job in jobs for _, left in _parts(job)]


def _parts(job: Job) -> list[tuple[Job, Traces]]:
    """The tasks of an array, or the job itself, with what each has left."""
    if not job.tasks:
        return [(job, traces.read(job))]
    return [(task, traces.read(task)) for task in map(job.task, range(job.tasks))]


def _open(
    jobs: Sequence[Job], parts: list[list[tuple[Job, Traces]]], own: list[list[State | None]]
) -> dict[str, dict[str, list[str]]]:
    """By scheduler the ids to ask for, each with the names of what it is to tell about."""
    wanted: dict[str, dict[str, list[str]]] = {}
    for job, part, known in zip(jobs, parts, own, strict=True):
        for (one, _), state in zip(part, known, strict=True):
            if state is None:
                ids = wanted.setdefault(job.scheduler, {})
                for id in links.left(one):
                    ids.setdefault(job.id if job.tasks else id, []).append(folder_name(id))
    return wanted


def _own(job: Job, left: Traces) -> State | None:
    """By the job's own record, and for a local one by its process; None where it does not tell.

    A failure may be the scheduler's doing, such as a preemption, or followed by another start: that
    is asked for once.
    """
    if job.scheduler == schedulers.LOCAL:
        return _local(job, left)
    return State("done") if left.word == "done" else traces.noted(job, left)


def _local(job: Job, left: Traces) -> State:
    alive = job.pid is not None and process.started(job.pid) == job.started
    if alive and traces.told_to_end(left) and not job.array:
        return State("stopping")
    if ended := traces.final(job, left):
        return ended
    if left.word == "cancelled":
        return State("cancelled")
    if not alive and job.host not in ("", platform.node()):
        return traces.by_folder(job, left, f"it was started on {job.host}", gone=False)
    if not alive:
        if job.array and not left.attempts:
            return State("cancelled", "it had not begun")
        return State("failed", "its supervising script was killed")
    if os.path.exists(f"{left.run_dir}/waits"):
        return State("queued", "it waits for another job")
    if job.array and not left.attempts:
        return State("queued", "it waits for another task")
    return State("running", "", *traces.running(left))


def _by_scheduler(job: Job, left: Traces, told: Told) -> State:
    """By what the scheduler has said of it, or of the jobs of its chain that have not ended."""
    own = traces.final(job, left)
    names = [folder_name(id) for id in links.left(job)]
    if own:  # the jobs after this one do not go on
        names = names[:1]
    known = [told.states[name] for name in names if name in told.states]
    if not known and (array := told.states.get(folder_name(job.array))):
        known = [array]  # it has not begun, and has no entry of its own
    for found in known:
        if not found.ended and found.name != "unknown":
            before = left.word and (found.start or 0) <= traces.ended_at(left)
            if before and found.name != "queued" and (own or left.word == "cancelled"):
                return own or found._replace(name="stopping")
            return found
    if not known or known[-1].name == "unknown":
        if own is None:
            why = told.silence or "the scheduler does not know it any more"
            return traces.by_folder(job, left, why, gone=not told.silence)
        if not told.silence:
            traces.note(job, left, own)
        return own
    found = known[-1]
    if own and (found.name == "done" or found.reason.startswith(_PLAIN_FAILURES)):
        found = own
    elif left.word == "cancelled" and job.links:
        found = State("cancelled")  # the jobs after the one that was, too, have only said so
    elif left.word == "continued" and found.name == "done":
        found = State("failed", "it has stopped before it was done, and no job goes on")
    traces.note(job, left, found)
    return found


def _ask(name: str, wanted: dict[str, list[str]]) -> Told:
    """What the scheduler called `name` says of these jobs; it is asked once, where that can be."""
    queue = schedulers.queue(name)
    environment = queue.environment(os.environ)
    states: dict[str, State] = {}
    for ids in _portions(wanted):
        argv = queue.argv(ids)
        try:
            answer = process.ask(argv, environment=environment)
            if answer.code and not queue.knows_none(answer.words):
                return Told(states, answer.refusal(argv[0]))
            if answer.output.strip():
                states |= queue.states(answer.output)
        except SchedulerUnavailableError as error:
            return Told(states, str(error))
        except ValueError:
            return Told(states, f"{argv[0]} has printed no answer but {answer.output[:200]!r}")
        forgotten = [id for id in ids if not states.keys() >= {*wanted[id]}]
        if forgotten and (history := queue.history_argv(forgotten)):
            try:
                answer = process.ask(history, environment=environment)
                states = queue.history(answer.output) | states
            except (SchedulerUnavailableError, ValueError):
                continue  # many clusters keep no history
    return Told(states)


def _portions(ids: Iterable[str]) -> Iterator[list[str]]:
    some: list[str] = []
    length = 0
    for id in ids:
        if length + len(id) + 1 > _MOST_IDS:
            yield some
            some, length = [], 0
        some.append(id)
        length += len(id) + 1
    yield some


def _together(job: Job, states: Sequence[State]) -> State:
    """The state of an array, by its tasks'; of a local one by its own process."""
    count = Counter(state.name for state in states)
    start = min((state.start for state in states if state.start is not None), default=None)
    if job.scheduler == schedulers.LOCAL:
        found = _local(job, traces.read(job))
        return found if found.name == "queued" else State(found.name, _told(count), start)
    if len(count) == 1 and "queued" in count:
        return State("queued", states[0].reason, start)
    going_on = count.keys() & {"running", "stopping", "queued"}
    worst = next(name for name in ("unknown", *_WORST) if name in {*count, "done"})
    return State("running" if going_on else worst, _told(count), start)


def _told(count: Counter[StateName]) -> str:
    """How many tasks stand how: `3 done, 1 failed, 2 queued`."""
    return ", ".join(f"{count[name]} {name}" for name in _ORDER if name in count)


def cancel(jobs: Sequence[Job]) -> None:
    """End jobs. Local ones are told to stop, and killed after 60 s.

    Raises RefusedError, with all reasons, where some cannot be ended; the others are.
    """
    refusals = []
    plain: dict[str, list[str]] = {}
    for job in jobs:
        try:
            if job.scheduler == schedulers.LOCAL:
                _stop(job)
            elif len(ids := links.left(job)) > 1:
                _cancel_all(ids, schedulers.batch(job.scheduler))
            else:
                plain.setdefault(job.scheduler, []).extend(ids)
        except RefusedError as error:
            refusals.append(str(error))
    for name, wanted in plain.items():
        for some in _portions(wanted):
            try:
                process.run(schedulers.batch(name).cancel_argv(some))
            except RefusedError as error:
                refusals.append(str(error))
    if refusals:
        raise RefusedError("\n".join(refusals))


def _stop(job: Job) -> None:
    if job.array:
        raise RefusedError(f"a task of a local array does not end alone; cancel {job.array}")
    if job.pid is None or process.started(job.pid) != job.started:
        raise RefusedError(f"job {job.id} has ended already")
    os.kill(job.pid, signal.SIGTERM)
    give_up = time.monotonic() + 60
    while process.started(job.pid) == job.started:
        if time.monotonic() > give_up:
            os.killpg(job.pid, signal.SIGKILL)
            break
        time.sleep(0.1)


def _cancel_all(ids: list[str], scheduler: BatchScheduler) -> None:
    """End jobs, the last first, so that none starts because the one before it has ended.

    Those that have ended already do not matter, as long as there is one that has not.
    """
    refusals = []
    for job_id in reversed(ids):
        try:
            process.run(scheduler.cancel_argv([job_id]))
        except RefusedError as error:
            refusals.append(error)
    if len(refusals) == len(ids):
        raise refusals[-1]
