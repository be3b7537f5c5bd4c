"""Settle what a crash, a time-out or a lost connection has left open: is there a job or not."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from jobgen import process
from jobgen.errors import JobgenError, RefusedError, SchedulerUnavailableError, UsageError
from jobgen.jobs import journal
from jobgen.jobs.journal import Intent, find_submitter, format_clock
from jobgen.jobs.record import RECORD, RUNS, JobRecord, read_left, read_record
from jobgen.jobs.run_folder import list_attempts
from jobgen.jobs.submit import count_links, read_ids, search_jobs
from jobgen.records import NamedTuple

Answers = dict[str, list[str] | JobgenError]


class Recovery(NamedTuple):
    """What became of a submission; without a job, and not `open`, there certainly is none.

    `message` is for people, and empty while its process is at work. `intent` is None if the file
    is not the record of one.
    """

    intent: Intent | None
    job: JobRecord | None
    open: bool
    message: str


def recover_submissions() -> list[Recovery]:
    """Look at all submissions below ./runs that have not come to their end, and settle them.

    The schedulers are asked only if there are such, each once. Nothing is raised if they do not
    answer, or a record cannot be written: then it stays open, and the message says why.
    """
    recoveries, interrupted = [], []
    for path in journal.list_intents():
        try:
            intent = journal.read_intent(path)
            if intent and find_submitter(intent) == "alive":
                recoveries.append(Recovery(intent, None, True, ""))
            elif intent:
                interrupted.append(_Case.examine(intent))
        except UsageError as error:
            recoveries.append(Recovery(None, None, False, str(error)))
        except OSError as error:
            message = f"{path}: {error.filename or ''}: {error.strerror}"
            recoveries.append(Recovery(None, None, False, message))
    journal.sweep_litter()
    answers = _ask_for(interrupted)
    for case in interrupted:
        intent = case.intent
        try:
            if intent.job.local:
                recoveries.append(_settle_local(case))
            else:
                recoveries.append(_settle_batch(case, answers))
        except OSError as error:
            why = f"its record cannot be written: {error.filename or ''}: {error.strerror}"
            recoveries.append(_leave_open(intent, why))
    return recoveries


class _Case(NamedTuple):
    """An interrupted submission as it lies on the disk."""

    intent: Intent
    ids: list[str]  # that the scheduler's command has printed
    late: bool  # no job can come of it any more
    unasked: bool  # the scheduler's command was certainly not run

    @classmethod
    def examine(cls, intent: Intent) -> _Case:
        """Look at its files. Ages are by the file server's clock."""
        late = journal.read_clock(intent) >= intent.late
        # Of a machine that was restarted since, a missing file proves nothing.
        unasked = not intent.output.exists() and intent.boot == journal.read_boot_id()
        batch = not intent.job.local
        return cls(intent, read_ids(intent) if batch else [], late, unasked)

    @property
    def complete(self) -> bool:
        """Whether all jobs of it are known."""
        return len(self.ids) == self.intent.jobs


def _ask_for(cases: list[_Case]) -> Answers:
    """Return by token the ids that a scheduler knows, or why it does not answer."""
    answers: Answers = {}
    asked: dict[str, list[Intent]] = {}
    for case in cases:
        intent = case.intent
        local = intent.job.local
        if not local and not case.complete and not case.unasked:
            asked.setdefault(intent.job.scheduler, []).append(intent)
            if case.late:
                with contextlib.suppress(OSError):
                    journal.withdraw_script(intent)
    for scheduler, some in asked.items():
        tokens = [intent.token for intent in some]
        try:
            since = min(intent.job.submitted for intent in some)
            answers.update(search_jobs(scheduler, tokens, since=since))
        except (RefusedError, SchedulerUnavailableError) as error:
            answers.update(dict.fromkeys(tokens, error))
    return answers


def _settle_batch(case: _Case, answers: Answers) -> Recovery:
    intent, ids = case.intent, case.ids
    deadline = format_clock(intent.late)
    if not case.complete:
        if find_submitter(intent) == "elsewhere" and not case.late:
            where = f"process {intent.pid} on {intent.job.host}"
            return _leave_open(intent, f"{where} may be at work; this is known at {deadline}")
        if case.unasked:
            return _drop(intent, "it was interrupted before the scheduler was asked")
        if pid := journal.find_command(intent):
            return _leave_open(intent, f"process {pid} still hands it over")
        answer = answers.get(intent.token, ids)
        if isinstance(answer, JobgenError):
            if not ids:
                return _leave_open(intent, str(answer))
        else:
            ids = [*ids, *(job_id for job_id in answer if job_id not in ids)]
        ids = ids or _find_by_attempts(intent)
    if ids:
        return _record(case, ids)
    if not case.late:
        return _leave_open(intent, f"there is no job, but one may come until {deadline}")
    return _drop(intent, "the scheduler knows no job of it, and none has begun")


def _record(case: _Case, ids: list[str]) -> Recovery:
    """Put the job on record whose chain has these ids."""
    intent = case.intent
    few = count_links(ids, intent.jobs) if len(ids) < intent.jobs else ""
    job = journal.record_job(intent, ids)
    if few and not case.late:
        more = f"more may come until {format_clock(intent.late)}"
        return Recovery(intent, job, True, f"job {job.id}: {few}; {more}")
    journal.remove_intent(intent)
    message = f"{_describe(intent)} was interrupted: it is job {job.id}, and on record now"
    return Recovery(intent, job, False, f"{message}; {few}" if few else message)


def _settle_local(case: _Case) -> Recovery:
    intent = case.intent
    record = intent.job.run_dir / RECORD
    if find_submitter(intent) == "elsewhere" and not case.late:
        return _leave_open(intent, f"process {intent.pid} on {intent.job.host} may be at work")
    if record.exists():
        job = read_record(record)
        # It ends, or begins, as it notices that its parent has gone.
        while job.alive and process.Held.waits(job.pid):
            time.sleep(0.01)
        begun = bool(list_attempts(job.run_dir)) or (job.run_dir / "job.out").stat().st_size
        if begun or job.alive:
            journal.remove_intent(intent)
            message = f"{_describe(intent)} was interrupted: it is job {job.id}, and on record"
            return Recovery(intent, job, False, message)
        record.unlink()
    return _drop(intent, "it was interrupted before the job began")


def _find_by_attempts(intent: Intent) -> list[str]:
    """Find the id by what the job's script has left, if the scheduler has forgotten the job."""
    for script in Path(intent.job.folder, RUNS, intent.job.name).glob("*/attempts/*/script"):
        try:
            if intent.token in read_left(script):
                run_dir = script.parent.parent.parent.name
                return [run_dir.partition("_")[0]]
        except OSError:
            continue
    return []


def _drop(intent: Intent, why: str) -> Recovery:
    journal.withdraw_script(intent)
    journal.remove_intent(intent)
    return Recovery(intent, None, False, f"no job resulted from {_describe(intent)}: {why}")


def _leave_open(intent: Intent, why: str) -> Recovery:
    return Recovery(intent, None, True, f"{_describe(intent)} is not settled: {why}")


def _describe(intent: Intent) -> str:
    return f"the submission of {intent.job.name!r} at {intent.when}"
