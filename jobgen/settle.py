"""Settle what a crash, a time-out or a lost connection has left open: is there a job or not."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

from jobgen import handover, intents, process, runs, schedulers
from jobgen.errors import JobgenError, RefusedError, SchedulerUnavailableError, UsageError
from jobgen.intents import Intent
from jobgen.runs import RECORD, Job


class Settled(NamedTuple):
    """What became of a submission; without a job, and not open, it is sure that there is none.

    `message` is for people, and empty where its process is at work. `intent` is None where
    somebody has put another file in the place of one.
    """

    intent: Intent | None
    job: Job | None
    open: bool
    message: str


def settle(name: str = "*") -> list[Settled]:
    """Look at all submissions below ./runs that have not come to their end, and settle them.

    The schedulers are only asked where there are such, each once. Nothing is raised where they do
    not answer, or a record cannot be written: then it stays open, and the message says why.
    """
    found, wanted = [], []
    for path in intents.pending(name):
        try:
            intent = intents.read(path)
        except UsageError as error:
            found.append(Settled(None, None, False, str(error)))
            continue
        if intent and intent.who() == "alive":
            found.append(Settled(intent, None, True, ""))
        elif intent:
            wanted.append(intent)
    answers = _ask([intent for intent in wanted if intent.job.scheduler != schedulers.LOCAL])
    for intent in wanted:
        try:
            if intent.job.scheduler == schedulers.LOCAL:
                found.append(_local(intent))
            else:
                found.append(_batch(intent, answers))
        except OSError as error:
            why = f"its record cannot be written: {error.filename or ''}: {error.strerror}"
            found.append(_open(intent, why))
    return found


def _ask(wanted: list[Intent]) -> dict[str, list[str] | JobgenError]:
    """By token the ids that a scheduler knows, or why it does not say."""
    answers: dict[str, list[str] | JobgenError] = {}
    asked: dict[str, list[Intent]] = {}
    for intent in wanted:
        if not _complete(intent) and intent.output.exists():
            asked.setdefault(intent.job.scheduler, []).append(intent)
            if time.time() >= intent.late:
                intent.withdraw()
    for scheduler, some in asked.items():
        tokens = [intent.token for intent in some]
        try:
            since = min(intent.job.submitted for intent in some)
            answers.update(handover.search(scheduler, tokens, since=since))
        except (RefusedError, SchedulerUnavailableError) as error:
            answers.update(dict.fromkeys(tokens, error))
    return answers


def _batch(intent: Intent, answers: dict[str, list[str] | JobgenError]) -> Settled:
    ids, settled = intent.ids(), time.time() >= intent.late
    if not _complete(intent):
        if intent.who() == "elsewhere" and not settled:
            where = f"process {intent.pid} on {intent.job.host}"
            return _open(
                intent, f"{where} may be at work; this is known at {intents.clock(intent.late)}"
            )
        if not intent.output.exists():
            return _none(intent, "it was interrupted before the scheduler was asked")
        if pid := intent.in_flight():
            return _open(intent, f"process {pid} still hands it over")
        answer = answers.get(intent.token, ids)
        if isinstance(answer, JobgenError) and not ids:
            return _open(intent, str(answer))
        if not isinstance(answer, JobgenError):
            ids += [job_id for job_id in answer if job_id not in ids]
        ids = ids or _by_attempts(intent)
    if not ids and not settled:
        return _open(
            intent, f"there is no job, but one may come until {intents.clock(intent.late)}"
        )
    if not ids:
        return _none(intent, "the scheduler knows no job of it, and none has begun")
    job = intent.record(ids)
    if len(ids) < intent.jobs and not settled:
        few = f"job {job.id}: {handover.only(ids, intent.jobs)}"
        return Settled(
            intent, job, True, f"{few}, and more may come until {intents.clock(intent.late)}"
        )
    intent.end()
    said = f"it is job {job.id}, and on record now"
    if len(ids) < intent.jobs:
        said += f"; {handover.only(ids, intent.jobs)}"
    return Settled(intent, job, False, f"{_what(intent)} was interrupted: {said}")


def _local(intent: Intent) -> Settled:
    record = intent.job.run_dir / RECORD
    if intent.who() == "elsewhere" and time.time() < intent.late:
        return _open(intent, f"process {intent.pid} on {intent.job.host} may be at work")
    if record.exists():
        job = runs.read(record)
        while job.pid and process.started(job.pid) == job.started and process.Held.waits(job.pid):
            time.sleep(0.01)  # it ends, or begins, as it notices that its parent has gone
        begun = bool(runs.attempts(job.run_dir)) or (job.run_dir / "job.out").stat().st_size
        if begun or process.started(job.pid) == job.started:
            intent.end()
            said = f"was interrupted: it is job {job.id}, and on record"
            return Settled(intent, job, False, f"{_what(intent)} {said}")
        record.unlink()
    return _none(intent, "it was interrupted before the job began")


def _by_attempts(intent: Intent) -> list[str]:
    """The id by what the job's script has left, where the scheduler has forgotten the job."""
    for script in Path(intent.job.folder, runs.RUNS, intent.job.name).glob("*/attempts/*/script"):
        try:
            if intent.token in script.read_text(errors="replace"):
                run_dir = script.parent.parent.parent.name
                return [run_dir.partition("_")[0]]
        except OSError:
            continue
    return []


def _complete(intent: Intent) -> bool:
    return len(intent.ids()) == intent.jobs


def _none(intent: Intent, why: str) -> Settled:
    intent.withdraw()
    intent.end()
    return Settled(intent, None, False, f"{_what(intent)} came to no job: {why}")


def _open(intent: Intent, why: str) -> Settled:
    return Settled(intent, None, True, f"{_what(intent)} is not settled: {why}")


def _what(intent: Intent) -> str:
    return f"the submission of {intent.job.name} at {intent.when}"
