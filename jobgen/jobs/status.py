"""The state of jobs, from one query per scheduler and from what their scripts left."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from glob import escape, iglob

from jobgen.errors import SchedulerUnavailableError
from jobgen.jobs.dependencies import name_others
from jobgen.jobs.queries import SchedulerAnswer
from jobgen.jobs.record import RECORD, JobRecord, folder_name, read_record, read_sound
from jobgen.jobs.states import Look, examine, judge
from jobgen.records import NamedTuple
from jobgen.schedulers.base import State, StateName

# When all tasks of an array have ended, the first of these is the array's end.
_WORST: tuple[StateName, ...] = ("failed", "node lost", "timeout", "cancelled", "done")
_ORDER: tuple[StateName, ...] = ("done", "running", "stopping", "queued", *_WORST[:-1], "unknown")
_NOT_RUN = "it did not run, or its run folder was removed"


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
    def forgotten(self) -> bool:
        """Whether nothing is known of a job, and its scheduler, if it has answered, denies it."""
        return self.state.name == "unknown" and not (self.listed or self.job.local)

    @property
    def states(self) -> tuple[State, ...]:
        """Those of its tasks; for another job, its own."""
        return self.tasks or (self.state,)

    @property
    def starts(self) -> int:
        """The number of its last start, as its script counts them; 0 before the first."""
        return int(os.path.basename(self.attempts[-1])) + 1 if self.attempts else 0


class StatusReport(NamedTuple):
    """The states of jobs, in order, and which schedulers did not answer, and why."""

    jobs: tuple[JobStatus, ...]
    silences: tuple[str, ...]


def read_state(job: JobRecord) -> State:
    """Return the job's state: by its script's own record, else by the scheduler's word.

    Raises SchedulerUnavailableError if only that can tell it, and the scheduler does not answer.
    """
    report = look([job])
    state = report.jobs[0].state
    if report.silences and state.name == "unknown":
        raise SchedulerUnavailableError(report.silences[0])
    return state


def look(jobs: Sequence[JobRecord]) -> StatusReport:
    """Return the state of jobs; ask schedulers once, about those without a recorded end."""
    statuses, silences = [], set[str]()
    looks = [(job, list(map(examine, job.parts))) for job in jobs]
    answers = _ask_all(looks)
    for job, parts in looks:
        answer = answers[job.scheduler]
        states = [_find_state(part, answer, alone=len(jobs) == 1) for part in parts]
        if not answer.doubt:
            states = _settle_unbegun(job, parts, states)
        left = [part.left for part in parts if part.own is None]
        unlisted = [one for one in left if not answer.find_state(one)]
        listed = answer.mute or len(unlisted) < len(left)
        state = _sum_up(job, parts, states, answer)
        statuses.append(state._replace(listed=listed))
        if any(one.word != "failed" for one in unlisted):  # which is known without an answer
            silences.add(answer.silence)
    return StatusReport(tuple(statuses), tuple(sorted(filter(None, silences))))


def list_namesakes(job: JobRecord) -> list[str]:
    """Return the IDs of the other jobs of its name, below the same runs, that have not ended."""
    records = iglob(f"{escape(str(job.run_dir.parent))}/*/{RECORD}")
    others = [other for other in read_sound(records) if other.id != (job.array or job.id)]
    return [one.job.id for one in look(others).jobs if not (one.state.ended or one.forgotten)]


def look_again(last: StatusReport) -> StatusReport:
    """Return the jobs' state from their own records; everything else is from the last query."""
    statuses = []
    for seen in last.jobs:
        parts = list(map(examine, seen.job.parts))
        states = [part.own or state for part, state in zip(parts, seen.states, strict=True)]
        statuses.append(_sum_up(seen.job, parts, states))
    return last._replace(jobs=tuple(statuses))


def _sum_up(
    job: JobRecord,
    parts: Sequence[Look],
    states: Sequence[State],
    answer: SchedulerAnswer | None = None,
) -> JobStatus:
    begun = any(part.left.attempts for part in parts)
    if not job.tasks:
        state = name_others(job, states[0], answer, begun=begun)
        return JobStatus(job, state, parts[0].left.attempts)
    whole = examine(job).own if job.local else None
    # Part of an array may have been asked for by hand.
    asked = [state for state in states if job.argv or state.reason != _NOT_RUN]
    state = name_others(job, _combine(asked, whole), answer, begun=begun)
    return JobStatus(job, state, tasks=tuple(states))


def _settle_unbegun(job: JobRecord, parts: Sequence[Look], states: list[State]) -> list[State]:
    """Return the states of tasks: those that never began are over if all that began have ended."""
    settled = list(map(_settle_part, parts, states))
    if job.array and settled != states:  # that hangs on the others
        (whole,) = look([read_record(job.whole_dir / RECORD)]).jobs
        return [dict(zip((part.id for part in whole.job.parts), whole.tasks, strict=True))[job.id]]
    if not job.tasks:
        return states
    begun = any(state.ended for state in states)
    return settled if begun and all(state.ended for state in settled) else states


def _settle_part(part: Look, state: State) -> State:
    unbegun = state.name == "unknown" and not part.left.attempts
    return State("cancelled", _NOT_RUN) if unbegun else state


def _ask_all(looks: Iterable[tuple[JobRecord, list[Look]]]) -> dict[str, SchedulerAnswer]:
    """Ask each scheduler about its jobs whose own record shows no end; answers are by its name."""
    wanted: dict[str, dict[str, list[str]]] = {}
    for job, parts in looks:
        ids = wanted.setdefault(job.scheduler, {})
        for left in (part.left for part in parts if part.own is None):
            for id in left.open_chain:
                ids.setdefault(job.id if job.tasks else id, []).append(folder_name(id))
    return {name: SchedulerAnswer(name, ids) for name, ids in wanted.items()}


def _find_state(part: Look, answer: SchedulerAnswer, *, alone: bool) -> State:
    """Return the state of a job or task, by the scheduler's answer if its own record lacks it.

    Its end is kept; of a job that is looked at `alone`, the scheduler is asked more.
    """
    if not (part.own or part.left.over or answer.find_state(part.left)):
        # It may have ended between the look into its folder and the scheduler's answer.
        part = examine(part.left.job)
        answer = answer.cover(part.left)
    if part.own:
        return part.own
    state, certain = judge(part.left, answer)
    if alone and (certain or not part.left.job.array):
        state = answer.ask_more(part.left, state)
    if certain:
        part.left.keep_state(state)
    return state


def _combine(states: Sequence[State], whole: State | None) -> State:
    """Return the state of an array by its tasks'; by that of its own process if it has one."""
    count = Counter(state.name for state in states)
    start = min((state.start for state in states if state.start is not None), default=None)
    if whole:
        return whole if whole.name == "queued" else State(whole.name, _format_count(count), start)
    waits = next((state.reason for state in states if state.name == "queued"), "")
    if [*count] == ["queued"]:
        return State("queued", waits, start)
    going_on = count.keys() & {"running", "stopping", "queued"}
    worst = next(name for name in ("unknown", *_WORST) if name in {*count, "done"})
    reason = _format_count(count)
    if waits and going_on == {"queued"}:
        reason += f"; {waits}"
    return State("running" if going_on else worst, reason, start)


def _format_count(count: Counter[StateName]) -> str:
    """Count the tasks in each state: `3 done, 1 failed, 2 queued`."""
    return ", ".join(f"{count[name]} {name}" for name in _ORDER if name in count)
