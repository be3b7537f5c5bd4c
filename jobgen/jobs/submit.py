"""Hand a script to its scheduler: at most once, and whatever it answers."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from jobgen import process, schedulers
from jobgen.errors import (
    AlreadySubmittedError,
    JobgenError,
    NoAnswerError,
    RecordError,
    RefusedError,
    SchedulerUnavailableError,
    UnsettledError,
)
from jobgen.jobs import pending, record, status
from jobgen.jobs.code import copy_code, name_copy, read_code, sync_environment
from jobgen.jobs.pending import Intent
from jobgen.jobs.record import RECORD, RUNS, JobRecord
from jobgen.jobs.submission import TOKEN, Submission

_AGAIN = "give --again for another job"
# A command that fails with such words may have been heard all the same.
_HEARD_PERHAPS = re.compile(
    r"timed?[ -]?out|zero bytes|reset by peer|broken pipe|end of file|endpoint|"
    r"(send|receive|shutdown) failure|unexpected message|killed",
    re.IGNORECASE,
)
# The machine has no room for another process, which was not started then.
_NOT_STARTED = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)
# With these it was heard and refused: they are the scheduler's own.
_REFUSED = re.compile(r"sbatch: (error|fatal): |qsub: |usage: ")
# With these it was not: the scheduler was not there to hear it.
_NOT_HEARD = re.compile(r"connect failure|cannot connect|connection refused", re.IGNORECASE)


def submit(submission: Submission, *, again: bool = False) -> tuple[JobRecord, str]:
    """Submit from the current folder, after `recover_submissions`; return the job and a warning.

    What is to be submitted is on the disk before, so that the job is found again whatever happens.
    Raises AlreadySubmittedError if the same is submitted and has not ended, unless `again`;
    RefusedError or SchedulerUnavailableError with the scheduler's words; UnsettledError if it
    cannot be known whether there is a job; and RecordError if nothing can be written. An error has
    the id of a job that exists all the same.
    """
    intent = _create_intent(submission)
    text = submission.text if submission.text.endswith("\n") else f"{submission.text}\n"
    text += f"{TOKEN}{intent.token}\n"
    try:
        for folder in submission.folders:
            os.makedirs(folder, exist_ok=True)
        pending.write_intent(intent, text)
        if not again:
            _refuse_another(intent)
        if submission.synced:
            sync_environment()
        if submission.snapshot is not None:
            copy_code(name_copy(submission.name, intent.token), submission.snapshot)
    except OSError as error:
        pending.remove_intent(intent)
        raise _explain_nothing(submission, error) from None
    except BaseException:
        pending.remove_intent(intent)
        raise
    try:
        if schedulers.is_local(submission.scheduler):
            return _start(intent, text)
        return _submit_all(intent, submission)
    except OSError as error:
        pending.remove_intent(intent)
        raise _explain_nothing(submission, error) from None
    except UnsettledError as error:
        raise _explain_unsettled(intent, error) from None
    except JobgenError as error:
        if not error.job_id:
            pending.remove_intent(intent)
        raise
    except BaseException:  # Control-C: the next command sees whether there is a job
        pending.release_intent(intent)
        raise


def search_jobs(scheduler: str, tokens: Iterable[str], *, since: float) -> Mapping[str, list[str]]:
    """Ask for the ids of the jobs of submissions; they are in the scheduler's order, by token.

    Raises RefusedError or SchedulerUnavailableError if it does not answer.
    """
    known: dict[str, list[str]] = {token: [] for token in tokens}
    for listed in schedulers.list_own_jobs(scheduler, process.run, since):
        for job_id, words in listed:
            for token, ids in known.items():
                if token in words and job_id not in ids:
                    ids.append(job_id)
        if all(known.values()):
            break
    return {token: sorted(ids, key=_get_number) for token, ids in known.items()}


def count_links(ids: Sequence[str], jobs: int) -> str:
    """Say that a chain is shorter than it should be."""
    return f"only {len(ids)} of the chain's {jobs} jobs are queued"


def _create_intent(submission: Submission) -> Intent:
    token, code = pending.create_token(), read_code()
    local = schedulers.is_local(submission.scheduler)
    job_id = _choose_id() if local else ""
    script = os.path.join(RUNS, submission.name, job_id, "script")
    job = JobRecord(
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
        commit=code.commit,
        changed=code.changed,
        rerun_of=submission.rerun_of,
    )
    source = submission.source
    return pending.create_intent(job, jobs=submission.jobs, source=source, diff=code.diff)


# The submissions of this process to this machine, in all its threads.
_numbers = itertools.count()


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


def _refuse_another(intent: Intent) -> None:
    """Raise if the same is submitted already.

    This one's intent is on the disk: of two at a time each sees the other, and none is submitted.
    """
    # Before records are read: an intent goes after its record.
    rivals = list(pending.list_rivals(intent))
    report = status.look(record.find_same(intent.job))
    if report.silences:
        raise SchedulerUnavailableError("\n".join(report.silences))
    for job, state, *_ in report.jobs:
        if state.name != "unknown" and not state.ended:
            raise AlreadySubmittedError(
                f"job {job.id} is of the same script and {state.name}: "
                f"{os.path.relpath(job.run_dir)}; {_AGAIN}"
            )
        if state.name == "unknown" and (left := _measure_wait(intent, job)) > 0:
            raise UnsettledError(
                f"job {job.id} is of the same script and was accepted a moment ago, but the "
                f"scheduler does not list it; nothing more is submitted for {left:.0f} s; {_AGAIN}"
            )
    for rival in rivals:
        if pending.find_submitter(rival) == "alive":
            who = "this process" if rival.pid == os.getpid() else f"process {rival.pid}"
            raise AlreadySubmittedError(f"{who} is submitting the same at this moment; {_AGAIN}")
        raise UnsettledError(
            f"it is not known yet whether the submission of {rival.when} has become a job, so "
            f"nothing more is submitted; {_AGAIN}"
        )


def _measure_wait(intent: Intent, job: JobRecord) -> float:
    """Return for how many seconds a job that is on record may still appear in the queue.

    Both files are the file server's: clocks of two login nodes may differ by minutes.
    """
    try:
        age = intent.path.stat().st_mtime - (job.run_dir / RECORD).stat().st_mtime
    except OSError:
        return 0.0
    return pending.LATE - age


def _start(intent: Intent, text: str) -> tuple[JobRecord, str]:
    """Run the script from the job's own folder, as bash reads it while it runs; record it first."""
    run_dir = intent.job.run_dir
    run_dir.mkdir()
    environment = {"JOBGEN_SUBMIT_ID": intent.job.id}
    held = process.Held(intent.job.argv, environment=environment, output=run_dir / "job.out")
    job = replace(intent.job, pid=held.pid, started=process.get_start(held.pid))
    try:
        pending.write_record(job, text, intent)
    except BaseException:
        held.forget()
        Path(run_dir, RECORD).unlink(missing_ok=True)
        raise
    held.release()
    with contextlib.suppress(OSError):  # then the next command does it
        pending.remove_intent(intent)
    return job, ""


def _submit_all(intent: Intent, submission: Submission) -> tuple[JobRecord, str]:
    """Hand over the job, and those that follow it in its chain; record each."""
    argv = list(intent.job.argv)
    try:
        job_id, warning = _hand_over(intent, argv, known=[])
    except RefusedError as error:
        scheduler = schedulers.get_batch_scheduler(submission.scheduler)
        hint = scheduler.hint(str(error)) if submission.tasks else ""
        if names := submission.list_variables():
            hint += f"\nset here, and read by {argv[0]}: {', '.join(names)}"
        raise RefusedError(f"{error}{hint}") from None
    ids, warnings = [job_id], [*filter(None, [warning])]
    try:
        job = pending.record_job(intent, ids)
        if submission.jobs > 1:
            try:
                warnings += _submit_links(intent, ids, submission.head)
            finally:
                job = pending.record_job(intent, ids)
        pending.remove_intent(intent)
    except UnsettledError as error:
        error.job_id = job_id
        raise
    except OSError as error:
        pending.release_intent(intent)
        words = f"{error.filename or 'its record'}: {error.strerror}"
        trouble = RecordError(
            f"job {job_id} is submitted, but not on record yet: {words}; jobgen will find it"
        )
        trouble.job_id = job_id
        raise trouble from None
    return job, "\n".join(warnings)


def _hand_over(intent: Intent, argv: Sequence[str], *, known: list[str]) -> tuple[str, str]:
    """Run the command that submits; return the job's id, and a warning if it was hard to get.

    `known` are the ids of the jobs that were submitted before of the same intent. Raises
    RefusedError or SchedulerUnavailableError if there is certainly no job, UnsettledError if that
    cannot be known, and OSError if its answer could not be kept, and it was not run.
    """
    heard, failure = True, ""
    pending.begin_answer(intent)
    try:
        process.run_into(argv, output=intent.output, errors=intent.errors)
    except NoAnswerError as error:
        failure = str(error)
    except RefusedError as error:
        failure = str(error)
        perhaps = _HEARD_PERHAPS.search(failure) or not _REFUSED.search(failure)
        heard = bool(perhaps)
    except OSError as error:
        if error.errno in _NOT_STARTED:
            raise
        failure = f"{argv[0]}: {error.strerror}"  # it may run, though this process cannot tell
    try:
        ids = pending.read_ids(intent)
        printed = record.read_left(intent.output).rpartition("#\n")[2]
    except OSError as error:
        ids, printed = [], f"nothing that can be read: {error.strerror}"
    answered = ids[:-1] == known and len(ids) > len(known)
    if answered and not failure:
        return ids[-1], ""
    if _NOT_HEARD.search(failure):
        raise SchedulerUnavailableError(failure)
    if not failure:
        failure = f"{argv[0]} printed no job id but {printed[:200]!r}"
    try:
        since = intent.job.submitted
        seen = search_jobs(intent.job.scheduler, [intent.token], since=since)[intent.token]
    except (RefusedError, SchedulerUnavailableError) as error:
        if answered:
            return ids[-1], f"{failure}; but it has printed the id of a job"
        raise UnsettledError(f"{failure}; whether there is a job is not known: {error}") from None
    if new := [job_id for job_id in seen if job_id not in known]:
        with contextlib.suppress(OSError):
            pending.rewrite_answers(intent, [*known, new[0]])
        return new[0], f"{failure}; but the job exists"
    if answered:
        return ids[-1], f"{failure}; but it has printed the id of a job"
    if heard:
        raise UnsettledError(f"{failure}; there is no job yet, but one may still come of it")
    raise RefusedError(failure)


def _submit_links(intent: Intent, ids: list[str], head: str) -> list[str]:
    """Submit the jobs of a chain that follow the first of `ids`; add theirs, return warnings.

    Raises UnsettledError as `_hand_over` does.
    """
    warnings = []
    script = str(intent.script.relative_to(intent.job.folder))
    scheduler = schedulers.get_chain_scheduler(intent.job.scheduler)
    while len(ids) < intent.jobs:
        argv = scheduler.next_argv(script, text=head, after=ids[-1], first=ids[0])
        try:
            following, warning = _hand_over(intent, argv, known=ids)
        except UnsettledError as error:
            raise UnsettledError(f"{count_links(ids, intent.jobs)}: {error}") from None
        except (RefusedError, SchedulerUnavailableError, OSError) as error:
            warnings.append(f"{count_links(ids, intent.jobs)}: {error}")
            break
        ids.append(following)
        warnings += filter(None, [warning])
    return warnings


def _explain_unsettled(intent: Intent, error: UnsettledError) -> UnsettledError:
    pending.release_intent(intent)
    more = UnsettledError(
        f"{error}\nthe next 'jobgen submit' or 'jobgen list' finds the job; from "
        f"{pending.format_clock(intent.late)} on it can also say that there is none; before that, "
        f"--again submits another job"
    )
    more.job_id = error.job_id
    return more


def _explain_nothing(submission: Submission, error: OSError) -> RecordError:
    where = error.filename or f"{RUNS}/{submission.name}"
    return RecordError(f"{where}: {error.strerror}; nothing was submitted")


def _get_number(job_id: str) -> int:
    return int(re.split(r"\D", job_id, maxsplit=1)[0])
