"""Hand a script to its scheduler."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from jobgen import handover, intents, process, runs, schedulers, status
from jobgen.errors import (
    AlreadySubmittedError,
    JobgenError,
    RecordError,
    RefusedError,
    SchedulerUnavailableError,
    UnsettledError,
)
from jobgen.intents import Intent
from jobgen.runs import RECORD, RUNS, Job
from jobgen.submission import Submission

_AGAIN = "give --again for another job"


def submit(submission: Submission, *, again: bool = False) -> tuple[Job, str]:
    """Submit from the current folder, where `settle` has been called; the job, and a warning.

    What is to be submitted is on the disk before, so that the job is found again whatever happens.
    Raises AlreadySubmittedError where the same is submitted and has not ended, unless `again`;
    RefusedError or SchedulerUnavailableError with the scheduler's words; UnsettledError where
    nobody knows whether there is a job; and RecordError where nothing can be written. An error has
    the id of a job that is there all the same.
    """
    intent = _intent(submission)
    text = submission.text if submission.text.endswith("\n") else f"{submission.text}\n"
    text += f"# submitted by jobgen as {intent.token}\n"
    try:
        for folder in submission.folders:
            os.makedirs(folder, exist_ok=True)
        intent.begin(text)
        if not again:
            _refuse_another(intent)
    except OSError as error:
        intent.end()
        raise _nothing(submission, error) from None
    except BaseException:
        intent.end()
        raise
    try:
        if submission.scheduler == schedulers.LOCAL:
            return _start(intent, text)
        return _hand_over(intent, submission, text)
    except OSError as error:
        intent.end()
        raise _nothing(submission, error) from None
    except UnsettledError as error:
        raise _unsettled(intent, error) from None
    except JobgenError as error:
        if not error.job_id:
            intent.end()
        raise
    except BaseException:  # Control-C: whether there is a job is for the next command to see
        intent.leave()
        raise


def _intent(submission: Submission) -> Intent:
    token = intents.new_token()
    local = submission.scheduler == schedulers.LOCAL
    job_id = _free_id(submission.name) if local else ""
    script = os.path.join(RUNS, submission.name, job_id, "script")
    job = Job(
        id=job_id,
        name=submission.name,
        scheduler=submission.scheduler,
        folder=os.getcwd(),
        submitted=time.time(),
        argv=tuple(submission.argv(script if local else submission.file(token))),
        tasks=submission.tasks,
        token=token,
        digest=submission.digest,
        host=os.uname().nodename,
    )
    return intents.intend(job, jobs=submission.jobs, source=submission.source)


def _free_id(name: str) -> str:
    """An id for a local job, of the time and a number."""
    number = os.getpid()
    while True:
        job_id = f"{time.strftime('%Y%m%d-%H%M%S')}-{number}"
        if not Path(RUNS, name, job_id).exists():
            return job_id
        number += 1  # this process has submitted this second already


def _unsettled(intent: Intent, error: UnsettledError) -> UnsettledError:
    intent.leave()
    more = UnsettledError(
        f"{error}\nthe next 'jobgen submit' or 'jobgen list' finds the job, or says that there is "
        f"none, from {intents.clock(intent.late)} on for sure; before, --again submits another job"
    )
    more.job_id = error.job_id
    return more


def _nothing(submission: Submission, error: OSError) -> RecordError:
    where = error.filename or f"{RUNS}/{submission.name}"
    return RecordError(f"{where}: {error.strerror}; nothing was submitted")


def _hand_over(intent: Intent, submission: Submission, text: str) -> tuple[Job, str]:
    argv = list(intent.job.argv)
    try:
        job_id, warning = handover.hand_over(intent, argv, known=[])
    except RefusedError as error:
        hint = schedulers.batch(submission.scheduler).hint(str(error)) if submission.tasks else ""
        raise RefusedError(f"{error}{hint}") from None
    ids, warnings = [job_id], [*_overridden(submission), *filter(None, [warning])]
    try:
        job = intent.record(ids)
        if submission.jobs > 1:
            try:
                warnings += handover.queue_links(intent, ids, text)
            finally:
                job = intent.record(ids)
        intent.end()
    except UnsettledError as error:
        error.job_id = job_id
        raise
    except OSError as error:
        intent.leave()
        words = f"{error.filename or 'its record'}: {error.strerror}"
        trouble = RecordError(
            f"job {job_id} is submitted, but not on record yet: {words}; jobgen will find it"
        )
        trouble.job_id = job_id
        raise trouble from None
    return job, "\n".join(warnings)


def _start(intent: Intent, text: str) -> tuple[Job, str]:
    """Run the script from the job's own folder, for bash reads as it goes: once it is on record."""
    run_dir = intent.job.run_dir
    run_dir.mkdir()
    environment = {"JOBGEN_SUBMIT_ID": intent.job.id}
    held = process.Held(intent.job.argv, environment=environment, output=run_dir / "job.out")
    job = replace(intent.job, pid=held.pid, started=process.started(held.pid))
    try:
        intent.keep(job, text)
    except BaseException:
        held.forget()
        Path(run_dir, RECORD).unlink(missing_ok=True)
        raise
    held.release()
    with contextlib.suppress(OSError):  # then the next command does it
        intent.end()
    return job, ""


def _refuse_another(intent: Intent) -> None:
    """Raise where the same is submitted already.

    This one's intent is on the disk: of two at a time each sees the other, and none is submitted.
    """
    # Before records are read: an intent goes after its record.
    others = list(intents.others(intent))
    seen = status.look(list(runs.same(intent.job)))
    if seen.silences:
        raise SchedulerUnavailableError("\n".join(seen.silences))
    for job, state, *_ in seen.found:
        if state.name != "unknown" and not state.ended:
            raise AlreadySubmittedError(
                f"job {job.id} is of the same script and {state.name}: "
                f"{os.path.relpath(job.run_dir)}; {_AGAIN}"
            )
    for other in others:
        if other.who() == "alive":
            raise AlreadySubmittedError(
                f"process {other.pid} is submitting the same at this moment; {_AGAIN}"
            )
        raise UnsettledError(
            f"whether the submission of {other.when} has come to a job is not known, so nothing "
            f"more is submitted; {_AGAIN}"
        )


def _overridden(submission: Submission) -> Iterator[str]:
    """What the scheduler takes from the variables here, and not from the script."""
    scheduler = schedulers.batch(submission.scheduler)
    for name, option in scheduler.overriding(submission.text, os.environ).items():
        value = os.environ[name]
        yield f"warning: {name}={value} is set here and wins over {option} of the script"
