"""A run, or several side by side: results, speed, cost, and what to request next time.

gather (run folder, scheduler, profile) -> Report -> page, text. A report has only what is recorded;
what is not known is shown as that.
"""

from __future__ import annotations

from collections.abc import Iterable

from jobgen import __version__
from jobgen.jobs.record import JobRecord
from jobgen.jobs.status import look
from jobgen.report.accounting import NOT_COUNTED, read_accounting
from jobgen.report.compare import compare
from jobgen.report.facts import Report, RunFacts
from jobgen.report.gather import gather
from jobgen.report.ledger import sum_ledgers
from jobgen.report.summary import summarise_runs


def report(jobs: Iterable[JobRecord], *, now: float) -> Report:
    """Return the report of `jobs` at the moment `now`; each task of an array is a run.

    Of several, one whose files jobgen stumbles over is left out, and the summary says so.
    """
    asked = [part for job in jobs for part in job.parts]
    usage, problem = read_accounting(asked)
    gathered, left_out = [], [""]
    for job, state, *_ in look(asked).jobs:
        used = usage.get(job.id, NOT_COUNTED)
        try:
            gathered.append(gather(job, state, now=now, used=used, problem=problem))
        except Exception as error:
            if len(left_out) == len(asked):  # there is no other
                raise
            left_out.append(f"{job.name} {job.id} is left out, because of {error!r}.")
    return _sum_up(tuple(gathered), " ".join(left_out))


def _sum_up(runs: tuple[RunFacts, ...], left_out: str) -> Report:
    if len(runs) == 1:
        summary = runs[0].summary + left_out
        return Report(runs[0].title, summary, __version__, runs, None, runs[0].ledger)
    comparison = compare(runs)
    names = list(dict.fromkeys(run.name for run in runs))
    title = f"{', '.join(names[:3])}{' ...' if len(names) > 3 else ''}: {len(runs)} runs"
    summary, ledger = summarise_runs(runs, comparison), sum_ledgers(run.ledger for run in runs)
    return Report(title, summary + left_out, __version__, runs, comparison, ledger)
