"""The Python interface to jobs: the commands' functions, without printing or exiting."""

from __future__ import annotations

import os
import re
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jobgen.capabilities import name_this_machine
from jobgen.errors import UsageError
from jobgen.jobs import record

if TYPE_CHECKING:
    from jobgen.diagnose import Diagnosis
    from jobgen.jobs.logs import LogLine
    from jobgen.jobs.status import StatusReport
    from jobgen.jobs.submission import Submission
    from jobgen.report.facts import Report
    from jobgen.schedulers.base import State
    from jobgen.spec.load import Overrides, Source


class Job(record.JobRecord):
    """A submitted job: its record, and methods that query or change it.

    Each method call reads the run folder or asks the scheduler again.
    """

    def task(self, index: int) -> Job:
        """Return one task of the array, as a job; raise UsageError if it has no such task."""
        from jobgen.jobs.find import describe_tasks

        if index not in range(self.tasks):
            raise UsageError(f"job {self.id}: no task {index}; {describe_tasks(self)}")
        return _build_job(super().task(index))

    def status(self) -> State:
        """Return the job's state.

        Raises SchedulerUnavailableError if only the scheduler knows it and does not answer. Leave
        at least 30 s between calls, as sites ask of scripts.
        """
        from jobgen.jobs import status

        return status.read_state(self)

    def logs(
        self,
        *,
        rank: int | None = None,
        node: str | None = None,
        role: str | None = None,
        stderr: bool = False,
    ) -> Iterator[LogLine]:
        """Yield the output so far; `str` of a line names its node and rank. See `read_logs`."""
        from jobgen.jobs.logs import Wanted, read_logs

        return read_logs(self, Wanted(rank, node, role, stderr))

    def follow(
        self,
        *,
        rank: int | None = None,
        node: str | None = None,
        role: str | None = None,
        stderr: bool = False,
        script: bool | None = None,
        pause: Callable[[float], None] = time.sleep,
        notice: Callable[[StatusReport], object] | None = None,
    ) -> Generator[LogLine, None, State]:
        """Yield the output until the job ends, and return the last state (`follow_logs`)."""
        from jobgen.jobs.logs import Wanted, follow_logs

        wanted = Wanted(rank, node, role, stderr, script)
        return follow_logs(self, wanted, pause=pause, notice=notice)

    def wait(self) -> State:
        """Wait for the job to end and return its state; ask the scheduler once a minute.

        The state is `unknown` if neither the scheduler nor the run folder knows it.
        """
        from jobgen.jobs.watch import Watch

        *_, last = Watch([self]).until_over()
        return last.jobs[0].state

    def result(self) -> Any:
        """Wait, and return the result of `submit_function`'s function on rank 0.

        Raises the function's exception, with its traceback in the job as the cause; JobFailedError
        if the job left neither, or for sys.exit() and the like, which is the cause; and UsageError
        for an array, where each task has its own result, and for a job that calls no function.
        """
        from jobgen.jobs.function import check_call, read_result

        check_call(self)
        return read_result(self, self.wait().described)

    def cancel(self) -> None:
        """Cancel the job; raise RefusedError if it has already ended."""
        cancel([self])

    def rerun(
        self,
        *,
        failed: bool = False,
        go_on: bool = False,
        overrides: Overrides = (),
        again: bool = False,
        warn: Callable[[str], object] | None = None,
    ) -> list[Job]:
        """Submit the recorded job again, from the current folder; see `prepare_rerun`.

        With `go_on`, submit the jobs by which its chain goes on (`prepare_continuation`).
        """
        from jobgen.jobs.code import describe_code
        from jobgen.jobs.rerun import link_rerun, prepare_continuation, prepare_rerun

        jobs, warn, before = [], warn or _warn, describe_code(self)
        if go_on:
            prepared = [prepare_continuation(self, overrides=overrides)]
        else:
            prepared = prepare_rerun(self, failed=failed, overrides=overrides, again=again)
        for ready in prepared:
            jobs.append(submit(ready, again=again, warn=warn))
            if not go_on:
                link_rerun(self, jobs[-1])
        now = describe_code(jobs[0])
        if before and now not in ("", before):
            warn(f"the code has changed since job {self.id}: {before} -> {now}")
        return jobs

    def diagnose(self) -> Diagnosis:
        """Return the root cause, the evidence, and what to do."""
        from jobgen.diagnose import diagnose
        from jobgen.jobs import status

        return diagnose(self, status.read_state(self), now=time.time())

    def report(self) -> Report:
        """Return how the run went so far, in numbers and words."""
        return make_report([self])


def find(word: str | None = None) -> Job:
    """Find a job by its ID or name below ./runs, or by its run folder (default: the latest).

    Raises UsageError if nothing matches.
    """
    from jobgen.jobs.find import find_job

    return _build_job(find_job(word))


def find_all(words: Sequence[str]) -> tuple[list[Job], list[str]]:
    """Find jobs as `find` does (default: the latest).

    Also returns one message for each word that matches nothing.
    """
    from jobgen.jobs.find import find_jobs

    jobs, problems = find_jobs(words)
    return list(map(_build_job, jobs)), problems


def list_jobs(*, elsewhere: bool = False) -> tuple[list[Job], list[str]]:
    """Return all jobs below ./runs, the latest first, and a message for each damaged record.

    With `elsewhere`, also those that were submitted from other folders.
    """
    from jobgen.jobs import find
    from jobgen.jobs.folders import list_folders

    jobs, damaged = find.list_jobs(list_folders() if elsewhere else ["."])
    return list(map(_build_job, jobs)), damaged


def get_status(jobs: Sequence[record.JobRecord]) -> StatusReport:
    """Return the status of jobs with one query per scheduler; `.silences` names silent ones.

    To ask repeatedly, as `jobgen wait` does, use `jobgen.Watch`.
    """
    from jobgen.jobs import status

    return status.look(jobs)


def cancel(jobs: Sequence[record.JobRecord]) -> list[Job]:
    """Cancel jobs and return them; raise RefusedError, with all reasons, if some cannot end."""
    from jobgen.jobs.cancel import cancel

    return list(map(_build_job, cancel(jobs)))


def make_report(jobs: Iterable[record.JobRecord]) -> Report:
    """Return a report that compares the runs; each task of an array is a run."""
    from jobgen.report import report

    return report(jobs, now=time.time())


def prepare(
    source: Source,
    *,
    scheduler: str | None = None,
    site: str | None = None,
    overrides: Overrides = (),
    limits: bool = True,
    after: Iterable[str] = (),
    stale_ok: bool = False,
) -> Submission:
    """Prepare the submission of a spec or a rendered script; write nothing.

    `source` is a file, a spec's text, or its keys and values (`jobgen.load`). For a spec, you may
    set `scheduler`, `site`, `overrides` such as `resources.nodes=4` or {"resources.nodes": 4}, and
    `limits`: whether it is an error to exceed the site's limits. A script already has them; with
    `stale_ok` it may differ from what its spec renders. `after` names jobs to wait for, such as
    `12345`, `afterany:12345` or `afterany:NAME`.

    Raises SpecError, UsageError or StaleError.
    """
    from jobgen.jobs.awaited import find_awaited
    from jobgen.jobs.submission import list_stale, prepare_plan, prepare_script
    from jobgen.plan.resolve import resolve
    from jobgen.programs import list_doubts
    from jobgen.rendering.check import is_script
    from jobgen.spec.load import load

    awaited = list(map(find_awaited, after))
    after = tuple(word for word, _ in awaited)
    notes = [line for _, lines in awaited for line in lines]
    path = "" if isinstance(source, Mapping) else os.fspath(source)
    remarks: list[str] = []
    if is_script(path):
        submission = prepare_script(path, stale_ok=stale_ok, after=after)
        if scheduler or site or overrides or not limits:
            raise UsageError("a rendered script already has its scheduler, site and values")
    else:
        loaded = load(source, overrides, user=True, target=scheduler or site)
        plan = resolve(loaded, scheduler=scheduler, site=site, limits=limits)
        submission = prepare_plan(loaded, plan, after=after)
        remarks = [*list_stale(loaded), *list_doubts(loaded, plan)]
    warning = "\n".join(filter(None, [*notes, submission.warning, *remarks]))
    return replace(submission, warning=warning)


def _warn(message: str) -> None:
    warnings.warn(re.sub("(?m)^warning: ", "", message), stacklevel=3)


def submit(
    what: Submission | Source,
    *,
    again: bool = False,
    warn: Callable[[str], object] = _warn,
    tell: Callable[[str], object] | None = None,
) -> Job:
    """Submit the result of `prepare`, or a spec or script, from the current folder.

    `warn` gets each note, including those about interrupted earlier submissions
    (docs/concepts/records.md); `tell` gets the scheduler's advance information, such as the
    expected start. Raises AlreadySubmittedError if the same job was submitted and has not ended,
    unless `again`; RefusedError or SchedulerUnavailableError with the scheduler's words;
    UnsettledError if it is not yet known whether a job exists; RecordError if nothing can be
    written; and, for a spec or script, what `prepare` raises.
    """
    from jobgen.jobs.awaited import settle_waits
    from jobgen.jobs.folders import note_folder
    from jobgen.jobs.recover import recover_submissions
    from jobgen.jobs.submission import Submission
    from jobgen.jobs.submit import submit

    ready = what if isinstance(what, Submission) else prepare(what)
    for message in (*ready.list_warnings(), *recover_submissions()):
        warn(message)
    note_folder()
    job, warning = submit(settle_waits(ready, warn), again=again, tell=tell)
    if warning:
        warn(warning)
    return _build_job(job)


def submit_function(
    function: Callable[..., Any],
    args: Sequence[Any] = (),
    spec: Source | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    warn: Callable[[str], object] = _warn,
) -> Job:
    """Submit a job that calls a function of a module in each of its processes; see `Job.result`.

    `spec` is as for `prepare`, but needs no `run`; without a spec, the job runs on this machine.
    The arguments and the result are pickled. Raises what `submit` raises, and UsageError for a
    function that a job cannot import by its name: the program's own has to stand above
    `if __name__ == "__main__":`, below which it submits.
    """
    from jobgen.jobs.function import prepare_calls

    spec = spec or {"scheduler": name_this_machine()}
    return submit(prepare_calls(function, [(args, kwargs or {})], spec), warn=warn)


def map_function(
    function: Callable[..., Any],
    values: Iterable[Any],
    spec: Source | None = None,
    *,
    warn: Callable[[str], object] = _warn,
) -> list[Job]:
    """Submit an array that calls a function with each value; return its tasks in order.

    See `submit_function`; a value is the function's one argument.
    """
    from jobgen.jobs.function import Call, prepare_calls

    calls: list[Call] = [((value,), {}) for value in values]
    spec = spec or {"scheduler": name_this_machine()}
    job = submit(prepare_calls(function, calls, spec), warn=warn)
    return [job.task(index) for index in range(job.tasks)] or [job]


def _build_job(known: record.JobRecord) -> Job:
    return Job(**vars(known))
