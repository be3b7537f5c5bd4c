"""Jobs from Python: what the command line does with them, without printing or exiting."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from jobgen import runs
from jobgen.errors import UsageError

if TYPE_CHECKING:
    from jobgen.diagnose import Diagnosis
    from jobgen.logs import LogLine
    from jobgen.report.facts import Report
    from jobgen.schedulers.base import State
    from jobgen.status import Look
    from jobgen.submission import Submission


class Job(runs.Job):
    """A job that was submitted: its record, and what can be asked of it.

    Each method reads the run folder, or asks the scheduler, anew.
    """

    def task(self, index: int) -> Job:
        """One task of the array that it is, as a job."""
        return _job(super().task(index))

    def status(self) -> State:
        """How it stands.

        Raises SchedulerUnavailableError where only the scheduler can tell, and does not answer. Ask
        no more often than every 30 s, as sites want it.
        """
        from jobgen import status

        return status.state(self)

    def logs(
        self, *, rank: int | None = None, node: str | None = None, stderr: bool = False
    ) -> Iterator[LogLine]:
        """What it has printed so far; `str` of a line says whose it is. See `logs.read`."""
        from jobgen import logs

        return logs.read(self, rank=rank, node=node, stderr=stderr)

    def follow(
        self,
        *,
        rank: int | None = None,
        node: str | None = None,
        stderr: bool = False,
        script: bool | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> Generator[LogLine, None, State]:
        """The same as it grows, until the job's end; returns the last state. See `logs.follow`."""
        from jobgen import logs

        return logs.follow(self, rank=rank, node=node, stderr=stderr, script=script, pause=pause)

    def wait(self) -> State:
        """Return how it has ended, once it has; the scheduler is asked once a minute.

        It is `unknown` where nobody knows it any more.
        """
        from jobgen.watch import Watch

        *_, last = Watch([self]).until_over()
        return last.found[0].state

    def cancel(self) -> None:
        """End it; raises RefusedError where it has ended already."""
        cancel([self])

    def diagnose(self) -> Diagnosis:
        """What went wrong first, what shows it, and what to do."""
        from jobgen import status
        from jobgen.diagnose import diagnose

        return diagnose(self, status.state(self))

    def report(self) -> Report:
        """How the run went, in numbers and words, as far as it has come."""
        return report_of([self])


def find(word: str | None = None) -> Job:
    """The job of this id or name below ./runs, or of this run folder; else the latest.

    Raises UsageError where there is none.
    """
    return _job(runs.find(word))


def find_all(words: Sequence[str]) -> tuple[list[Job], list[str]]:
    """The jobs that words name, the latest where there are none; and why some name nothing."""
    found, problems = runs.find_all(words)
    return list(map(_job, found)), problems


def everything() -> tuple[list[Job], list[str]]:
    """All jobs below ./runs, the latest first, and what is wrong with records that are damaged."""
    found, problems = runs.everything()
    return list(map(_job, found)), problems


def look(jobs: Sequence[runs.Job]) -> Look:
    """How jobs stand, by one question to each of their schedulers; `.silences` say who is silent.

    To look again and again, as `jobgen wait` does, use `jobgen.Watch`.
    """
    from jobgen import status

    return status.look(jobs)


def cancel(jobs: Sequence[runs.Job]) -> None:
    """End jobs; raises RefusedError, with all reasons, where some cannot be. The others are."""
    from jobgen import status

    status.cancel(jobs)


def report_of(jobs: Iterable[runs.Job]) -> Report:
    """How runs went, side by side where they are several; the tasks of an array are a run each."""
    from jobgen.report import report

    return report(jobs, now=time.time())


def settle() -> list[str]:
    """Settle submissions below ./runs that were interrupted, and say what became of each.

    Every command about jobs begins with it, and `submit` does (docs/records.md).
    """
    from jobgen.settle import settle

    return [settled.message for settled in settle() if settled.message]


def prepare(
    path: str | os.PathLike[str],
    *,
    scheduler: str | None = None,
    site: str | None = None,
    overrides: Iterable[str] = (),
    limits: bool = True,
    after: Iterable[str] = (),
    stale_ok: bool = False,
) -> Submission:
    """What `submit` would submit, of a spec or a rendered script; nothing is written.

    A spec takes `scheduler`, `site`, `overrides` such as `resources.nodes=4`, and `limits`: whether
    what the site forbids is an error. A script has them already; with `stale_ok` it need not be
    what its spec renders. `after` are jobs to wait for, such as `12345` or `afterany:12345`.

    Raises SpecError, UsageError or StaleError.
    """
    from jobgen.check import is_script
    from jobgen.loaded import load
    from jobgen.plan import resolve
    from jobgen.submission import from_plan, from_script

    path, overrides, after = os.fspath(path), tuple(overrides), tuple(after)
    if not is_script(path):
        loaded = load(path, overrides, user=True, target=scheduler or site)
        plan = resolve(loaded, scheduler=scheduler, site=site, limits=limits)
        return from_plan(loaded, plan, after=after)
    if scheduler or site or overrides or not limits:
        raise UsageError("a rendered script has its scheduler, site and values already")
    return from_script(path, stale_ok=stale_ok, after=after)


def _warned(message: str) -> None:
    warnings.warn(message, stacklevel=3)


def submit(
    what: Submission | str | os.PathLike[str],
    *,
    again: bool = False,
    warn: Callable[[str], object] = _warned,
) -> Job:
    """Submit, from the current folder, what `prepare` makes, or a path as it stands.

    `warn` is called with each thing that there is to note, also of earlier submissions that were
    interrupted (docs/records.md). Raises AlreadySubmittedError where the same is submitted and has
    not ended, unless `again`; RefusedError or SchedulerUnavailableError with the scheduler's words,
    of which UnsettledError says that nobody knows yet whether there is a job; RecordError where
    nothing can be written; and, of a path, what `prepare` raises.
    """
    from jobgen.submission import Submission
    from jobgen.submit import submit

    ready = what if isinstance(what, Submission) else prepare(what)
    if ready.warning:
        warn(ready.warning)
    for message in settle():
        warn(message)
    job, warning = submit(ready, again=again)
    if warning:
        warn(warning)
    return _job(job)


def _job(record: runs.Job) -> Job:
    return Job(**vars(record))
