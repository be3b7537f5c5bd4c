"""A run, or several side by side: results, speed, cost, and what to request next time.

gather (run folder, scheduler, profile) -> Report -> page, text. A report has only what is recorded;
what is not known is shown as that.
"""

from __future__ import annotations

from collections.abc import Iterable

from jobgen import __version__
from jobgen.jobs.record import JobRecord
from jobgen.jobs.status import look
from jobgen.output import format_names
from jobgen.report.accounting import NOT_COUNTED, read_accounting
from jobgen.report.compare import compare
from jobgen.report.facts import Report
from jobgen.report.gather import gather
from jobgen.report.ledger import sum_ledgers
from jobgen.report.summary import summarise_runs


def report(jobs: Iterable[JobRecord], *, now: float) -> Report:
    """Return the report of `jobs` at the moment `now`; each task of an array is a run."""
    # Two words may be one run, such as an array and a task of it.
    asked = list({part.run_folder: part for job in jobs for part in job.parts}.values())
    usage, problem = read_accounting(asked)
    runs = tuple(
        gather(job, state, now=now, used=usage.get(job.id, NOT_COUNTED), problem=problem)
        for job, state, *_ in look(asked).jobs
    )
    if len(runs) == 1:
        return Report(runs[0].title, runs[0].summary, __version__, runs, None, runs[0].ledger)
    comparison = compare(runs)
    names = list(dict.fromkeys(run.name for run in runs))
    title = f"{format_names(names)}: {len(runs)} runs"
    summary, ledger = summarise_runs(runs, comparison), sum_ledgers(run.ledger for run in runs)
    return Report(title, summary, __version__, runs, comparison, ledger)
