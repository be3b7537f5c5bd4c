"""The hand-over of a submission to its scheduler: its commands, their answers, and which jobs are.

It is `submit` that hands over. `recover` reads what the commands have answered, and asks for jobs.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Mapping, Sequence
from functools import partial

from jobgen import process
from jobgen.errors import (
    JobgenError,
    NoAnswerError,
    RecordError,
    RefusedError,
    SchedulerUnavailableError,
    UnsettledError,
)
from jobgen.jobs import journal
from jobgen.jobs.files import append_run_file, read_left, write_run_file
from jobgen.jobs.journal import Intent
from jobgen.jobs.queries import SchedulerAnswer
from jobgen.jobs.record import JobRecord, folder_name
from jobgen.jobs.submission import Submission
from jobgen.schedulers import SCHEDULERS

_MARK = "#\n"  # before each answer of a scheduler's command
# A command that fails with such words may have been heard all the same.
_HEARD_PERHAPS = re.compile(
    r"timed?[ -]?out|zero bytes|reset by peer|broken pipe|end of file|endpoint|"
    r"(send|receive|shutdown|communication) failure|unexpected message|killed|"
    r"protocol authentication|unspecified error",
    re.IGNORECASE,
)
# The machine has no room for another process, which was not started then.
_NOT_STARTED = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)


class HandOver:
    """The hand-over of a job, and of those that follow it in its chain, to its scheduler."""

    def __init__(self, intent: Intent, submission: Submission) -> None:
        self.intent, self.submission = intent, submission
        self.scheduler = submission.scheduler
        self.ids: list[str] = []  # of the jobs that there are
        self.warnings: list[str] = []

    def submit(self) -> JobRecord:
        """Hand over all, and record what has become jobs."""
        try:
            try:
                while len(self.ids) < self.intent.jobs:
                    self._hand_over(self._make_command())
            except (RefusedError, SchedulerUnavailableError, OSError) as error:
                self._give_up(error)
            finally:
                if self.ids:
                    job = journal.record_job(self.intent, self.ids)
        except OSError as error:
            if not self.ids:
                raise
            words = f"{error.filename or 'its record'}: {error.strerror}"
            trouble = RecordError(
                f"job {self.ids[0]} is submitted, but not on record yet: {words}; "
                "jobgen will find it"
            )
            trouble.job_id = self.ids[0]
            raise trouble from None
        return job

    def _make_command(self) -> list[str]:
        """Return the command that submits the next one."""
        if not self.ids:
            return list(self.intent.job.argv)
        script = os.path.relpath(self.intent.script, self.intent.job.folder)
        head, before = self.submission.head, self.ids[-1]
        first = self.intent.job.id or self.ids[0]
        return self.scheduler.next_argv(script, text=head, after=before, first=first)

    def _give_up(self, error: JobgenError | OSError) -> None:
        """Raise what an error means; one that has only made the chain shorter is a warning."""
        if isinstance(error, RefusedError) and not self.ids:
            raise RefusedError(f"{error}{self._advise(str(error))}") from None
        if not self.ids:
            raise error
        words = f"{count_links(self.ids, self.intent.jobs)}: {error}"
        if isinstance(error, UnsettledError):
            error.args, error.job_id = (words,), self.ids[0]
            raise error
        self.warnings.append(words)

    def _advise(self, refusal: str) -> str:
        """Return what to do about a refusal, each on its own line."""
        hint = self.scheduler.hint(refusal) if self.submission.about.tasks else ""
        hint += self._list_known(refusal)
        if names := self.submission.list_variables():
            command = self.submission.argv()[0]
            hint += f"\nset here, and read by {command}: {', '.join(names)}"
        return hint

    def _list_known(self, refusal: str) -> str:
        """Name the cluster's queues, or the user's accounts, if the refused one is not of them."""
        scheduler = self.scheduler
        with contextlib.suppress(JobgenError):
            if scheduler.unknown_queue in refusal:
                queues = scheduler.cluster.ask_facts(process.run).queues
                return f"\nthe queues of this cluster: {', '.join(queues)}"
            if scheduler.unknown_account in refusal:
                accounts = scheduler.cluster.list_accounts(process.run)
                return f"\nthe accounts that you may charge: {', '.join(accounts) or 'none'}"
        return ""

    def _hand_over(self, argv: Sequence[str]) -> None:
        """Run a command that submits; add the job's id, and a warning if it was hard to get.

        Raises RefusedError or SchedulerUnavailableError if there is certainly no job,
        UnsettledError if that cannot be known, and OSError if its answer could not be kept, and it
        was not run.
        """
        failure, heard = self._run(argv)
        try:
            printed = read_left(self.intent.output)
        except OSError as error:
            printed = f"nothing that can be read: {error.strerror}"
        ids = _parse_answers(self.intent, printed)
        if ids[:-1] == self.ids and len(ids) > len(self.ids):
            remark = "but it printed a job ID"
        else:
            words = printed.rpartition(_MARK)[2][:200]
            failure = failure or f"{argv[0]} printed no job id but {words!r}"
            ids, remark = self._search(failure, heard=heard), "but the job exists"
        self.ids.append(ids[-1])
        if failure:
            self.warnings.append(f"{failure}; {remark}")

    def _search(self, failure: str, *, heard: bool) -> list[str]:
        """Ask for a job that may be there, whatever the words of a failure are.

        Returns the ids of all jobs so far. Raises as `_hand_over`.
        """
        try:
            seen = search_jobs([self.intent])[self.intent.token]
        except (RefusedError, SchedulerUnavailableError) as error:
            more = f"it is not known whether there is a job: {error}"
            raise UnsettledError(f"{failure}; {more}") from None
        if new := [job_id for job_id in seen if job_id not in self.ids]:
            ids = [*self.ids, new[0]]
            answer = SchedulerAnswer(self.scheduler.name, {new[0]: [folder_name(new[0])]})
            if not heard and any(state.hopeless for state in answer.states.values()):
                raise RefusedError(failure)  # Slurm lists what it has refused, as failed
            with contextlib.suppress(OSError):
                answers = "".join(f"{_MARK}{job_id}\n" for job_id in ids)
                write_run_file(self.intent.output, answers)
            return ids
        if heard:
            raise UnsettledError(f"{failure}; there is no job yet, but one may still appear")
        if process.NOT_HEARD.search(failure):
            raise SchedulerUnavailableError(failure)
        raise RefusedError(failure)

    def _run(self, argv: Sequence[str]) -> tuple[str, bool]:
        """Run it; return how it failed, if it did, and whether a job may still come of it.

        The files for the answer are on the disk before. So their absence proves that the command
        was not run, but for a power cut on a file server that does not keep its word. Each answer
        stands below its own mark.
        """
        output, errors = self.intent.output, self.intent.errors
        append_run_file(errors, "")
        append_run_file(output, _MARK)
        try:
            process.run_into(argv, output=output, errors=errors)
        except NoAnswerError as error:
            return str(error), True
        except RefusedError as error:
            failure = str(error)
            perhaps = _HEARD_PERHAPS.search(failure) or not self.scheduler.refuses(failure)
            return failure, bool(perhaps)
        except OSError as error:
            if error.errno in _NOT_STARTED:
                raise
            # It may run, though this process cannot tell.
            return f"{argv[0]}: {error.strerror}", True
        return "", True


def count_links(ids: Sequence[str], jobs: int) -> str:
    """Say that a chain is shorter than it should be."""
    return f"only {len(ids)} of the chain's {jobs} jobs are queued"


def read_ids(intent: Intent) -> list[str]:
    """Return the ids that the scheduler's commands have printed so far."""
    try:
        return _parse_answers(intent, read_left(intent.output))
    except FileNotFoundError:
        return []


def _parse_answers(intent: Intent, printed: str) -> list[str]:
    """Return the ids in what the scheduler's commands have printed, up to what is not an answer.

    An answer is one id on a line that has its end: half of it may be another job's.
    """
    parse = SCHEDULERS[intent.job.scheduler].parse_job_id
    ids: list[str] = []
    for answer in filter(None, printed.split(_MARK)):
        lines = [line for line in answer.split("\n") if line.strip()]
        job_id = parse(lines[0]) if len(lines) == 1 and answer.endswith("\n") else None
        if not job_id or job_id in ids:
            break
        ids.append(job_id)
    return ids[: intent.jobs]


def search_jobs(intents: Sequence[Intent]) -> Mapping[str, list[str]]:
    """Ask for the ids of jobs of one scheduler; they are in its order, by the intents' tokens.

    Raises RefusedError or SchedulerUnavailableError if it does not answer.
    """
    known: dict[str, set[str]] = {intent.token: set() for intent in intents}
    queue = SCHEDULERS[intents[0].job.scheduler].queue
    since = min(intent.job.submitted for intent in intents)
    # The user's filters, such as SQUEUE_PARTITION, would hide a job (src/squeue/opts.c).
    ask = partial(process.run, environment=queue.make_environment(os.environ))
    for listed in queue.list_own_jobs(ask, since):
        for token, ids in known.items():
            ids.update(job_id for job_id, words in listed if token in words)
        if all(known.values()):
            break
    return {
        token: sorted(ids, key=lambda id: int(re.split(r"\D", id, maxsplit=1)[0]))
        for token, ids in known.items()
    }
