"""Find out whether a job exists after a crash, a time-out or a lost connection.

A submission leaves, in this order:

  an intent and its script      there is no job yet
  an empty file for the answer  the scheduler may have been asked: its list of jobs tells, or what a
                                job has left; that there is none is certain once it is late
  ids in that file              these are jobs; of a chain more may come until then
  the record of the job         as much as the ids, which are there as long
  nothing but the record        it is settled, here or by the submission itself
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from jobgen import process
from jobgen.errors import RefusedError, SchedulerUnavailableError, UsageError
from jobgen.jobs import journal
from jobgen.jobs.files import RUNS, read_if_left
from jobgen.jobs.hand_over import count_links, read_ids, search_jobs
from jobgen.jobs.journal import Intent, find_submitter, format_clock
from jobgen.jobs.record import RECORD, read_record
from jobgen.jobs.run_folder import list_attempts


def recover_submissions() -> list[str]:
    """Recover interrupted submissions below ./runs; return one sentence about each.

    Every command about jobs begins with it, and `submit` does (docs/concepts/records.md). The
    schedulers are asked only if there are such, each once. Nothing is raised if they do not answer,
    or a record cannot be written: then the sentence says why it stays open.
    """
    messages, interrupted = [], []
    for path in journal.list_intents():
        try:
            intent = journal.read_intent(path)
            if intent and find_submitter(intent) != "alive":
                interrupted.append(_Case(intent))
        except UsageError as error:
            messages.append(str(error))
        except OSError as error:
            messages.append(f"{path}: {error.filename or ''}: {error.strerror}")
    _ask_for(interrupted)
    return [*messages, *map(_settle, interrupted)]


class _Case:
    """An interrupted submission as found on disk."""

    def __init__(self, intent: Intent) -> None:
        """Look at its files. The file server's clock measures ages."""
        self.intent = intent
        self.ids = [] if intent.job.local else read_ids(intent)  # as far as they are known
        self.late = journal.read_clock(intent.path.parent) >= intent.late  # no job can come of it
        # The command was certainly not run. Of a machine that was restarted since, a missing file
        # proves nothing.
        self.unasked = not intent.output.exists() and intent.boot == journal.read_boot_id()
        self.silence = ""  # why its scheduler does not tell

    @property
    def open(self) -> bool:
        """Whether its scheduler may know more of its jobs."""
        return not (self.intent.job.local or self.complete or self.unasked)

    @property
    def complete(self) -> bool:
        """Whether all its jobs are known."""
        return len(self.ids) == self.intent.jobs


def _ask_for(cases: list[_Case]) -> None:
    """Ask each scheduler once for the IDs that it knows."""
    asked: dict[str, list[_Case]] = {}
    for case in cases:
        if case.open:
            asked.setdefault(case.intent.job.scheduler, []).append(case)
            if case.late:
                with contextlib.suppress(OSError):
                    journal.withdraw_script(case.intent)
    for some in asked.values():
        try:
            known = search_jobs([case.intent for case in some])
        except (RefusedError, SchedulerUnavailableError) as error:
            for case in some:
                case.silence = str(error)
        else:
            for case in some:
                case.ids += [id for id in known[case.intent.token] if id not in case.ids]


def _settle(case: _Case) -> str:
    try:
        return _settle_local(case) if case.intent.job.local else _settle_batch(case)
    except OSError as error:
        why = f"its record cannot be written: {error.filename or ''}: {error.strerror}"
        return _leave_open(case.intent, why)
    except RefusedError as error:
        return _drop(case.intent, str(error))


def _settle_batch(case: _Case) -> str:
    intent = case.intent
    if case.unasked:
        return _drop(intent, "it was interrupted before the scheduler was asked")
    if obstacle := "" if case.complete else _find_obstacle(case):
        return _leave_open(intent, obstacle)
    case.ids = case.ids or _find_by_attempts(intent)
    if case.ids:
        return _record(case)
    if not case.late:
        clock = format_clock(intent.late)
        return _leave_open(intent, f"there is no job, but one may come until {clock}")
    return _drop(intent, "the scheduler knows no job of it, and none has begun")


def _find_obstacle(case: _Case) -> str:
    """Return why it cannot be settled yet; empty if it can."""
    intent = case.intent
    if find_submitter(intent) == "elsewhere" and not case.late:
        where = f"process {intent.pid} on {intent.job.host}"
        return f"{where} may be at work; this is known at {format_clock(intent.late)}"
    if pid := journal.find_command(intent):
        return f"process {pid} still hands it over"
    return "" if case.ids else case.silence


def _record(case: _Case) -> str:
    intent, ids = case.intent, case.ids
    few = count_links(ids, intent.jobs) if len(ids) < intent.jobs else ""
    job = journal.record_job(intent, ids)
    if few and not case.late:
        return f"job {job.id}: {few}; more may come until {format_clock(intent.late)}"
    journal.remove_intent(intent)
    message = f"{_describe(intent)} was interrupted: it is job {job.id}, and on record now"
    return f"{message}; {few}" if few else message


def _settle_local(case: _Case) -> str:
    intent = case.intent
    record = intent.job.run_dir / RECORD
    if find_submitter(intent) == "elsewhere" and not case.late:
        return _leave_open(intent, f"process {intent.pid} on {intent.job.host} may be at work")
    if record.exists():
        job = read_record(record)
        # It ends, or begins, as it notices that its parent has gone.
        while job.alive and process.Held.waits(job.pid):
            time.sleep(0.01)
        begun = bool(list_attempts(job.run_folder)) or (job.run_dir / "job.out").stat().st_size
        if begun or job.alive:
            journal.remove_intent(intent)
            return f"{_describe(intent)} was interrupted: it is job {job.id}, and on record"
        record.unlink()
    return _drop(intent, "it was interrupted before the job began")


def _find_by_attempts(intent: Intent) -> list[str]:
    """Find the id by what the job's script has left, if the scheduler has forgotten the job."""
    for script in Path(intent.job.folder, RUNS, intent.job.name).glob("*/attempts/*/script"):
        if intent.token in read_if_left(script):
            return [script.parent.parent.parent.name.partition("_")[0]]
    return []


def _drop(intent: Intent, why: str) -> str:
    journal.withdraw_script(intent)
    journal.remove_intent(intent)
    return f"no job resulted from {_describe(intent)}: {why}"


def _leave_open(intent: Intent, why: str) -> str:
    return f"{_describe(intent)} is not settled: {why}"


def _describe(intent: Intent) -> str:
    return f"the submission of {intent.job.name!r} at {intent.when}"
