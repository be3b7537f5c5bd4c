"""Jobs from Python: what the command line does with them, without printing or exiting."""

from __future__ import annotations

import os
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
    """A job that was submitted: its record, and what can be asked of it.

    Each call of a method reads the run folder or asks the scheduler again.
    """

    def task(self, index: int) -> Job:
        """Return one task of the array, as a job."""
        return _build_job(super().task(index))

    def status(self) -> State:
        """Return how it stands.

        Raises SchedulerUnavailableError if only the scheduler can tell, and does not answer. Ask no
        more often than every 30 s, as sites ask of scripts.
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
        """Yield what it has printed so far; `str` of a line says whose it is. See `read_logs`."""
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
        """Yield the same as it grows, to the job's end; return the last state (`follow_logs`)."""
        from jobgen.jobs.logs import Wanted, follow_logs

        wanted = Wanted(rank, node, role, stderr, script)
        return follow_logs(self, wanted, pause=pause, notice=notice)

    def wait(self) -> State:
        """Wait for its end and return its state; the scheduler is asked once a minute.

        It is `unknown` if neither the scheduler nor the run folder can tell.
        """
        from jobgen.jobs.watch import Watch

        *_, last = Watch([self]).until_over()
        return last.jobs[0].state

    def result(self) -> Any:
        """Wait, and return what the function of `submit_function` has returned on rank 0.

        Raises what it has raised, with the traceback there as its cause, and JobFailedError if the
        job has left neither. Of an array each task has its own: UsageError.
        """
        from jobgen.jobs.function import read_result

        if self.tasks:
            hint = "ask its tasks, such as job.task(0).result()"
            raise UsageError(f"job {self.id} is an array; {hint}")
        return read_result(self, self.wait().described)

    def cancel(self) -> None:
        """End it; raises RefusedError if it has ended already."""
        cancel([self])

    def rerun(
        self,
        *,
        failed: bool = False,
        overrides: Overrides = (),
        again: bool = False,
        warn: Callable[[str], object] | None = None,
    ) -> list[Job]:
        """Submit it again as it is on record, from the current folder; see `prepare_rerun`."""
        from jobgen.jobs.rerun import link_rerun, prepare_rerun

        jobs = []
        for ready in prepare_rerun(self, failed=failed, overrides=overrides):
            jobs.append(submit(ready, again=again, warn=warn or _warn))
            link_rerun(self, jobs[-1])
        return jobs

    def diagnose(self) -> Diagnosis:
        """Return what went wrong first, what shows it, and what to do."""
        from jobgen.diagnose import diagnose
        from jobgen.jobs import status

        return diagnose(self, status.read_state(self), now=time.time())

    def report(self) -> Report:
        """Return how the run went so far, in numbers and words."""
        return make_report([self])


def find(word: str | None = None) -> Job:
    """Find a job by its id or name below ./runs, or by its run folder (default: the latest).

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
    """Return the status of jobs, by one query to each scheduler; `.silences` name silent ones.

    To ask repeatedly, as `jobgen wait` does, use `jobgen.Watch`.
    """
    from jobgen.jobs import status

    return status.look(jobs)


def cancel(jobs: Sequence[record.JobRecord]) -> list[Job]:
    """End jobs and return them; raise RefusedError, with all reasons, if some cannot be ended."""
    from jobgen.jobs.cancel import cancel

    return list(map(_build_job, cancel(jobs)))


def make_report(jobs: Iterable[record.JobRecord]) -> Report:
    """Return the report of runs, side by side; each task of an array is a run."""
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
    """Return what `submit` would submit, of a spec or a rendered script; write nothing.

    `source` is a file, or a spec's text, or its keys and values (`jobgen.load`). A spec takes
    `scheduler`, `site`, `overrides` such as `resources.nodes=4` or {"resources.nodes": 4}, and
    `limits`: whether what the site forbids is an error. A script has them already; with `stale_ok`
    it need not be what its spec renders. `after` are jobs to wait for, such as `12345` or
    `afterany:12345`.

    Raises SpecError, UsageError or StaleError.
    """
    from jobgen.jobs.submission import prepare_plan, prepare_script
    from jobgen.plan.resolve import resolve
    from jobgen.programs import list_doubts
    from jobgen.rendering.check import is_script
    from jobgen.spec.load import load

    after = tuple(after)
    path = "" if isinstance(source, Mapping) else os.fspath(source)
    if not is_script(path):
        loaded = load(source, overrides, user=True, target=scheduler or site)
        plan = resolve(loaded, scheduler=scheduler, site=site, limits=limits)
        submission = prepare_plan(loaded, plan, after=after)
        remarks = [submission.warning, *list_doubts(loaded, plan)]
        return replace(submission, warning="\n".join(filter(None, remarks)))
    if scheduler or site or overrides or not limits:
        raise UsageError("a rendered script already has its scheduler, site and values")
    return prepare_script(path, stale_ok=stale_ok, after=after)


def _warn(message: str) -> None:
    warnings.warn(message, stacklevel=3)


def submit(
    what: Submission | Source,
    *,
    again: bool = False,
    warn: Callable[[str], object] = _warn,
    tell: Callable[[str], object] | None = None,
) -> Job:
    """Submit, from the current folder, what `prepare` makes, or a spec or script as it stands.

    `warn` is called with each note, also about earlier submissions that were interrupted
    (docs/concepts/records.md), and `tell` with what the scheduler said before, such as when it
    expects to start the job. Raises AlreadySubmittedError if the same is submitted and has not
    ended, unless `again`; RefusedError or SchedulerUnavailableError with the scheduler's words;
    UnsettledError if it is not known yet whether there is a job; RecordError if nothing can be
    written; and, of a spec or script, what `prepare` raises.
    """
    from jobgen.jobs.folders import note_folder
    from jobgen.jobs.recover import recover_submissions
    from jobgen.jobs.submission import Submission
    from jobgen.jobs.submit import submit

    ready = what if isinstance(what, Submission) else prepare(what)
    for message in (*ready.list_warnings(), *recover_submissions()):
        warn(message)
    note_folder()
    job, warning = submit(ready, again=again, tell=tell)
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

    `spec` is as for `prepare`, and needs no `run`; without it the job runs on this machine. The
    arguments and the result are pickled. Raises as `submit`, and UsageError for a function that a
    job cannot import by its name.
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
    """Submit an array that calls a function with each value; return its tasks, in their order.

    See `submit_function`; a value is the function's one argument.
    """
    from jobgen.jobs.function import Call, prepare_calls

    calls: list[Call] = [((value,), {}) for value in values]
    spec = spec or {"scheduler": name_this_machine()}
    job = submit(prepare_calls(function, calls, spec), warn=warn)
    return [job.task(index) for index in range(job.tasks)] or [job]


def _build_job(known: record.JobRecord) -> Job:
    return Job(**vars(known))
