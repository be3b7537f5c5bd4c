"""A run, or several side by side: what came out, how fast, at what cost, and what to change.

gather (run folder, scheduler, profile) -> Report -> page, text, picture. Nothing but what is
recorded is told; what is not known is said to be so.
"""

from __future__ import annotations

from collections.abc import Iterable

from jobgen import __version__
from jobgen.report.compare import compare
from jobgen.report.facts import Report, Run
from jobgen.report.gather import ask, expanded, gather
from jobgen.report.words import count, figure
from jobgen.runs import Job
from jobgen.status import look


def report(jobs: Iterable[Job], *, now: float) -> Report:
    """The report of `jobs` at the moment `now`; the tasks of an array are a run each."""
    asked = expanded(jobs)
    found, problem = ask(asked)
    runs = tuple(
        gather(job, state, now=now, found=found.get(job.id), problem=problem)
        for job, state, *_ in look(asked).found
    )
    if len(runs) == 1:
        return Report(runs[0].title, runs[0].summary, __version__, runs, None)
    comparison = compare(runs)
    names = list(dict.fromkeys(run.name for run in runs))
    title = f"{', '.join(names[:3])}{' ...' if len(names) > 3 else ''}: {len(runs)} runs"
    return Report(title, _compared(runs), __version__, runs, comparison)


def _compared(runs: tuple[Run, ...]) -> str:
    done = sum(run.state == "done" for run in runs)
    text = f"{done} of {count(len(runs), 'run')} ended well."
    for what, key in (("validation loss", "validation"), ("loss", "loss")):
        known = [
            (value, run.title)
            for run in runs
            if run.training and (value := getattr(run.training, key)) is not None
        ]
        if len(known) > 1:
            value, who = min(known)
            text += f" The least {what} has {who}: {figure(value)}."
            break
    speeds = [(run.training.speed, run.title, run.training.unit) for run in runs if run.training]
    fastest = [(speed, title, unit) for speed, title, unit in speeds if speed is not None]
    if len(fastest) > 1:
        speed, title, unit = max(fastest)
        text += f" The fastest is {title}: {figure(speed)} {unit}/s."
    return text
