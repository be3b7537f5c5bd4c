"""A run, or several side by side: what came out, how fast, at what cost, and what to change.

gather (run folder, scheduler, profile) -> Report -> page, text. Nothing but what is
recorded is told; what is not known is said to be so.
"""

from __future__ import annotations

from collections.abc import Iterable

from jobgen import __version__
from jobgen.jobs.record import JobRecord
from jobgen.jobs.status import look
from jobgen.report.compare import compare
from jobgen.report.facts import Comparison, Report, RunFacts
from jobgen.report.figures import format_count, format_number
from jobgen.report.gather import ask, expand_arrays, gather


def report(jobs: Iterable[JobRecord], *, now: float) -> Report:
    """The report of `jobs` at the moment `now`; the tasks of an array are a run each."""
    asked = expand_arrays(jobs)
    usage, problem = ask(asked)
    runs = tuple(
        gather(job, state, now=now, used=usage.get(job.id), problem=problem)
        for job, state, *_ in look(asked).jobs
    )
    if len(runs) == 1:
        return Report(runs[0].title, runs[0].summary, __version__, runs, None)
    comparison = compare(runs)
    names = list(dict.fromkeys(run.name for run in runs))
    title = f"{', '.join(names[:3])}{' ...' if len(names) > 3 else ''}: {len(runs)} runs"
    return Report(title, _summarise(runs, comparison), __version__, runs, comparison)


def _summarise(runs: tuple[RunFacts, ...], comparison: Comparison) -> str:
    done = sum(run.state == "done" for run in runs)
    text = f"{done} of {format_count(len(runs), 'run')} ended well."
    best = comparison.rows[0]
    value = best.validation if comparison.measure == "validation loss" else best.loss
    if value is not None and len([row for row in comparison.rows if row.loss is not None]) > 1:
        text += f" Best by {comparison.measure}: {best.title}, {format_number(value)}."
    speeds = [(row.speed, row.title) for row in comparison.rows if row.speed is not None]
    if len(speeds) > 1:
        speed, title = max(speeds)
        units = {run.training.unit for run in runs if run.training}
        unit = f" {units.pop()}/s" if len(units) == 1 else " a second"
        text += f" Fastest: {title}, {format_number(speed)}{unit}."
    return text
