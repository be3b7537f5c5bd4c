"""Gather the facts about one run from its folder, its scheduler and its site's profile."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from jobgen.diagnose import find_failure
from jobgen.jobs.code import DIFF, describe_code
from jobgen.jobs.record import JobRecord
from jobgen.jobs.run_folder import find_tracked
from jobgen.jobs.table import list_origins
from jobgen.report.efficiency import Efficiency
from jobgen.report.facts import Attempt, Ledger, RunFacts
from jobgen.report.folder import Folder
from jobgen.report.gpu_use import Samples, gather_usage, measure_energy, read_samples
from jobgen.report.history import History
from jobgen.report.ledger import keep_ledger
from jobgen.report.request import (
    collect_settings,
    compute_charge,
    read_asked,
    read_task,
)
from jobgen.report.summary import summarise_run
from jobgen.schedulers.base import State
from jobgen.schedulers.usage import Used
from jobgen.spec.secrets import mask_text

_CLOCKS = 60.0  # seconds that the clocks of a login node and of a file server may differ


def gather(job: JobRecord, state: State, *, now: float, used: Used, problem: str = "") -> RunFacts:
    """Return the facts of one run in this state.

    `used` is what its scheduler counted, and `problem` why that is not known.
    """
    folder = Folder(job)
    script, spec = folder.text("script"), folder.text("job.yaml")
    asked = read_asked(str(folder.home), script, has_spec=bool(spec))
    plan, task = asked.plan, read_task(job, asked, script)
    attempts = folder.attempts(over=state.ended)
    history = _read_history(job, asked.metrics, attempts)
    training = history.training()
    preflight, allreduce, gpu_memory = folder.preflight()
    elapsed = list(_measure_attempts(attempts, now=None if state.ended else now))
    ran = used.elapsed or sum(elapsed) or None
    cause = find_failure(job, state, now=now)
    samples = read_samples(program.run_dir for program in _list_programs(job))
    diff = folder.text(DIFF) if job.changed else ""
    places = folder.list_places(attempts, plan)
    until = history.last if state.ended else now
    submitted = _find_submission(job)
    ledger = keep_ledger(attempts, history.lines, job.run_dir, submitted=submitted, until=until)
    run = RunFacts(
        id=job.id,
        name=job.name,
        scheduler=job.scheduler,
        site=asked.site,
        folder=os.path.relpath(job.run_dir),
        state=state.name,
        reason=state.reason,
        summary="",
        submitted=submitted,
        waited=_measure_wait(submitted, attempts, used),
        ran=ran,
        attempts=attempts,
        ledger=ledger and _add_energy(ledger, samples, used),
        places=places,
        cause=cause,
        training=training,
        ranks=history.ranks(),
        usage=gather_usage(samples),
        uses=(),
        preflight=preflight,
        allreduce=allreduce,
        charged=compute_charge(plan, attempts, ran),
        settings=collect_settings(asked.given | task, history.config(), places, describe_code(job)),
        varied=task if job.array else task or asked.given,
        origins=tuple(list_origins(job)),
        tracked=find_tracked(str(history.run_dir)),
        # A page may be passed on.
        spec=mask_text(spec) or None,
        script=mask_text(script) or None,
        diff=mask_text(diff) or None,
        notes=tuple(filter(None, (*folder.notes, *history.notes, asked.problem, problem))),
    )
    longest = max(elapsed, default=None)
    efficiency = Efficiency(run, asked, used, longest=longest, gpu_memory=gpu_memory)
    return run._replace(summary=summarise_run(run, state), uses=efficiency.list_uses())


def _list_programs(job: JobRecord) -> list[JobRecord]:
    """Return its roles, the last of which shows how training went; or the job itself."""
    return [*job.roles.values()] or [job]


def _find_submission(job: JobRecord) -> float:
    """Return when the job was first submitted."""
    return job.first_submitted or job.submitted


def _read_history(job: JobRecord, metrics: str, attempts: Iterable[Attempt]) -> History:
    main = _list_programs(job)[-1]
    metrics = metrics.replace("$JOBGEN_RUN_DIR", main.run_folder)
    metrics = metrics.replace("$JOBGEN_JOB_ID", job.run_dir.name)
    since = _find_submission(job) - _CLOCKS
    starts = [one.began for one in attempts if one.began is not None]
    return History(main.run_dir, Path(job.folder), given=metrics, since=since, starts=starts)


def _add_energy(ledger: Ledger, samples: Samples, used: Used) -> Ledger:
    """Return the ledger with the energy of the nodes, or else of the GPUs."""
    if used.energy:
        return ledger._replace(kwh=used.energy / 3.6e6, kwh_by=f"the nodes, by {used.source}")
    kwh = measure_energy(samples)
    return ledger._replace(kwh=kwh, kwh_by="" if kwh is None else "the GPUs, by their samples")


def _measure_attempts(attempts: Iterable[Attempt], *, now: float | None) -> Iterator[float]:
    """Yield the seconds of each attempt with a known start and end; a running one ends now."""
    for attempt in attempts:
        ended = attempt.ended or now
        if attempt.began is not None and ended is not None:
            yield max(0.0, ended - attempt.began)


def _measure_wait(submitted: float, attempts: tuple[Attempt, ...], used: Used) -> float | None:
    if used.submitted and used.started:
        return max(0.0, used.started - used.submitted)
    if attempts and attempts[0].began is not None and submitted:
        return max(0.0, attempts[0].began - submitted)
    return None
