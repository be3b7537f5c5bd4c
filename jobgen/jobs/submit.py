"""Hand a script to its scheduler: at most once, and whatever it answers."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from jobgen import process
from jobgen.errors import (
    AlreadySubmittedError,
    SchedulerUnavailableError,
    UnsettledError,
)
from jobgen.jobs import journal, status
from jobgen.jobs.by_hand import adopt_jobs
from jobgen.jobs.code import copy_code, name_copy, read_code, sync_environment
from jobgen.jobs.files import RUNS, get_mtime, write_run_file
from jobgen.jobs.hand_over import HandOver
from jobgen.jobs.journal import Intent
from jobgen.jobs.record import RECORD, JobRecord, find_same
from jobgen.jobs.status import JobStatus
from jobgen.jobs.submission import TOKEN, Submission
from jobgen.schedulers import SCHEDULERS

_TEST_SECONDS = 20  # a scheduler that is slower is not worth a wait: the submission asks it again
_AGAIN = "give --again for another job"
# The submissions of this process to this machine, in all its threads.
_numbers = itertools.count()


def submit(
    submission: Submission, *, again: bool = False, tell: Callable[[str], object] | None = None
) -> tuple[JobRecord, str]:
    """Submit from the current folder, after `recover_submissions`; return the job and a warning.

    `tell` is called with what the scheduler said before, such as when it expects to start the job.
    What is to be submitted is on the disk before, so that the job is found again whatever happens.
    Raises AlreadySubmittedError if the same is submitted and has not ended, unless `again`;
    RefusedError or SchedulerUnavailableError with the scheduler's words; UnsettledError if it
    cannot be known whether there is a job; and RecordError if nothing can be written. An error has
    the id of a job that exists all the same.
    """
    intent = _create_intent(submission)
    text = submission.text if submission.text.endswith("\n") else f"{submission.text}\n"
    text += f"{TOKEN}{intent.token}\n"
    with journal.keep_intent(intent, text, folders=submission.folders):
        if not again:
            _refuse_another(intent)
        if submission.synced:
            sync_environment()
        if submission.snapshot not in (None, False):
            named = submission.snapshot if isinstance(submission.snapshot, tuple) else ()
            copy_code(name_copy(intent.job.name, intent.token), named)
        if submission.continues:
            write_run_file(intent.job.run_dir / "counted-from", f"{intent.job.counted_from}\n")
        if not intent.job.local:
            doubt, remark = _ask_first(intent)
            hand_over = HandOver(intent, submission)
            job = hand_over.submit()
            if remark and tell:
                tell(remark)
            return job, "\n".join(filter(None, [doubt, *hand_over.warnings]))
        return _start_here(intent), ""


def _create_intent(submission: Submission) -> Intent:
    code, about, token = read_code(), submission.about, journal.create_token()
    job_id = script = ""
    if not submission.scheduler.can.batch:
        job_id = _choose_id()
        script = f"{RUNS}/{about.name}/{job_id}/script"
    job = submission.continues or JobRecord(
        id=job_id,
        name=about.name,
        scheduler=about.scheduler,
        folder=os.getcwd(),
        submitted=0,
        argv=(),
        tasks=about.tasks,
        together=about.together,
        rerun_of=submission.rerun_of,
    )
    job = replace(
        job,
        submitted=time.time(),
        argv=tuple(submission.argv(token, script=script)),
        token=token,
        digest=submission.digest,
        host=os.uname().nodename,
        commit=code.commit,
        changed=code.changed,
    )
    return journal.create_intent(job, jobs=about.jobs, source=submission.source, diff=code.diff)


def _choose_id() -> str:
    """Return an id for a local job, of the time and a number, from which its port follows.

    The number is this process's own, and another for each of its submissions. A step of 1 would
    meet the next process, and one of 7919 the tasks of an array.
    """
    while True:
        number = os.getpid() + 101 * next(_numbers)
        job_id = f"{time.strftime('%Y%m%d-%H%M%S')}-{number}"
        if not any(Path(RUNS).glob(f"*/{job_id}")):
            return job_id


def _start_here(intent: Intent) -> JobRecord:
    # bash reads the script while it runs: from the job's own folder.
    intent.job.run_dir.mkdir()
    output, environment = intent.job.run_dir / "job.out", {"JOBGEN_SUBMIT_ID": intent.job.id}
    with process.Held(intent.job.argv, environment=environment, output=output) as held:
        job = replace(intent.job, pid=held.pid, started=process.get_start(held.pid))
        return journal.record_job(replace(intent, job=job), [job.id])


def _refuse_another(intent: Intent) -> None:
    """Raise if the same is submitted already.

    This one's intent is on the disk: of two at a time each sees the other, and none is submitted.
    """
    # Before records are read: an intent goes after its record.
    rivals = list(journal.list_rivals(intent))
    adopt_jobs()
    report = status.look(find_same(intent.job))
    if report.silences:
        raise SchedulerUnavailableError("\n".join(report.silences))
    for each in report.jobs:
        _refuse_same(intent, each)
    for rival in rivals:
        if journal.find_submitter(rival) == "alive":
            who = "this process" if rival.pid == os.getpid() else f"process {rival.pid}"
            raise AlreadySubmittedError(f"{who} is submitting the same at this moment; {_AGAIN}")
    if rivals:
        raise UnsettledError(
            f"it is not known yet whether the submission of {rivals[0].when} has become a job, so "
            f"nothing more is submitted; {_AGAIN}"
        )


def _refuse_same(intent: Intent, known: JobStatus) -> None:
    """Raise if a job of the same script is there, or may be."""
    job, state = known.job, known.state
    if known.listed if state.name == "unknown" else not state.ended:
        raise AlreadySubmittedError(
            f"job {job.id} has the same script and is {state.name}: "
            f"{os.path.relpath(job.run_dir)}; {_AGAIN}"
        )
    # Both times are the file server's: clocks of two login nodes may differ by minutes.
    left = get_mtime(job.run_dir / RECORD) + journal.LATE - intent.written
    if state.name == "unknown" and left > 0:
        raise UnsettledError(
            f"job {job.id} has the same script and was accepted a moment ago, but the "
            f"scheduler does not list it; nothing more is submitted for {left:.0f} s; {_AGAIN}"
        )


def _ask_first(intent: Intent) -> tuple[str, str]:
    """Return why the scheduler would not run a job that it has not got yet, or what else it says.

    Nothing is handed over, so whoever is interrupted here has no job; and whatever comes back, the
    submission itself decides.
    """
    scheduler = SCHEDULERS[intent.job.scheduler]
    argv = scheduler.test_argv(intent.job.argv)
    if not argv:
        return "", ""
    try:
        answer = process.ask(argv, timeout=_TEST_SECONDS)
    except (SchedulerUnavailableError, OSError):
        return "", ""
    command = " ".join(argv[:2])
    if scheduler.parse_job_id(answer.output):  # of a wrapper that does not know the option
        intent.output.touch()  # so that the next command asks for the job
        raise UnsettledError(
            f"{command} has printed {answer.output.strip()!r}, as if it had submitted the job; "
            "whether there is one is not known"
        )
    if answer.code:
        return f"warning: {command} says that this job will not run: {answer.words[:2000]}", ""
    remark = scheduler.read_test("\n".join(filter(None, [answer.words, answer.output.strip()])))
    return "", f"{command} says: {remark[:2000]}" if remark else ""
