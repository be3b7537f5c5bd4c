"""All that is known of one run, from its folder, its scheduler and its site's profile."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jobgen import process, schedulers
from jobgen.diagnose import Diagnosis, diagnose
from jobgen.errors import JobgenError
from jobgen.jobs.code import DIFF
from jobgen.jobs.record import JobRecord
from jobgen.jobs.run_folder import find_tracked, list_chain
from jobgen.jobs.table import list_origins
from jobgen.plan.cost import estimate_cost
from jobgen.plan.plan import Plan, TimeLimit
from jobgen.plan.resolve import resolve
from jobgen.rendering import header
from jobgen.report import efficiency
from jobgen.report.facts import Attempt, Charged, Place, RunFacts, Training
from jobgen.report.figures import format_count, format_number, format_span
from jobgen.report.folder import Folder
from jobgen.report.history import History
from jobgen.report.usage import gather_usage
from jobgen.schedulers.base import State
from jobgen.schedulers.usage import Used
from jobgen.spec.load import load
from jobgen.spec.secrets import mask_override, mask_text, mask_words

_QUERY_SECONDS = 30
_CLOCKS = 60.0  # seconds that the clocks of a login node and of a file server may differ
_PATHS = {"out"}  # settings of the trainer in which all runs differ


def gather(
    job: JobRecord, state: State, *, now: float, used: Used | None, problem: str = ""
) -> RunFacts:
    """One run, which stands as `state` says.

    `used` is what its scheduler says it used, `problem` why that is not known.
    """
    folder = Folder(job)
    script, spec = folder.text("script"), folder.text("job.yaml")
    planned = _read_plan(str(folder.home), script) if script and spec else (None, "", "")
    plan, metrics, why = planned
    metrics = metrics.replace("$JOBGEN_RUN_DIR", job.run_folder).replace(
        "$JOBGEN_JOB_ID", job.run_dir.name
    )
    since = job.submitted - _CLOCKS
    history = History(job.run_dir, Path(job.folder), given=metrics, since=since)
    attempts = folder.attempts(history.first_steps())
    training = history.training()
    ranks = history.ranks(training)
    preflight, allreduce, gpu_memory = folder.preflight()
    elapsed = list(_measure_attempts(attempts, state, now=now))
    waited = _measure_wait(job, attempts, used)
    ran = (used.elapsed if used else None) or (sum(elapsed) if elapsed else None)
    cause = None
    if state.ended and state.name not in ("done", "cancelled"):
        try:
            cause = diagnose(job, state, now=now)
        except (OSError, ValueError) as error:
            folder.notes.append(f"the cause of the failure cannot be told: {error}")
    usage = gather_usage(job.run_dir)
    known = efficiency.Known(
        state=state,
        plan=plan,
        used=used,
        elapsed=ran,
        longest=max(elapsed, default=None),
        starts=len(attempts),
        training=training,
        ranks=ranks,
        usage=usage,
        gpu_memory=gpu_memory,
    )
    places = folder.places(attempts, plan)
    task = plan.array.tasks[_get_index(job)] if plan and plan.array and job.array else None
    words = (*task.arguments, *(f"{k}={v}" for k, v in task.variables.items())) if task else ()
    return RunFacts(
        id=job.id,
        name=job.name,
        scheduler=job.scheduler,
        site=_name_site(script, plan),
        folder=os.path.relpath(job.run_dir),
        state=state.name,
        reason=state.reason,
        summary=_summarise_run(state, cause, training, places, ran=ran, waited=waited),
        submitted=job.submitted,
        waited=waited,
        ran=ran,
        attempts=attempts,
        places=places,
        cause=cause,
        training=training,
        ranks=ranks,
        usage=usage,
        uses=efficiency.measure_uses(known),
        preflight=preflight,
        allreduce=allreduce,
        charged=_compute_charge(plan, attempts, ran),
        settings=_collect_settings(script, words, history.config(), places),
        varied=_read_words(words) or _read_overrides(script),
        origins=tuple(list_origins(job)),
        tracked=find_tracked(job.run_dir),
        spec=_mask(spec),
        script=_mask(script),
        diff=_mask(folder.text(DIFF)) if job.changed else None,
        notes=tuple(note for note in (*folder.notes, *history.notes, why, problem) if note),
    )


def ask(jobs: list[JobRecord]) -> tuple[dict[str, Used], str]:
    """What schedulers say of the use of all jobs, each asked once; and why they do not."""
    usage: dict[str, Used] = {}
    problems = []
    for kind in dict.fromkeys(job.scheduler for job in jobs):
        if schedulers.is_local(kind):
            problems.append("no scheduler counts CPU time and memory on this machine")
            continue
        ids = {job.id: list_chain(job) for job in jobs if job.scheduler == kind}
        asked = [one for chain in ids.values() for one in chain]
        try:
            answers = schedulers.get_usage(kind).read(asked, _ask_scheduler)
        except JobgenError as error:
            message = " ".join(str(error).split())[:200]
            problems.append(f"what {kind} counts is not known: {message}")
            continue
        for job_id, chain in ids.items():
            for one in chain:
                if one in answers:
                    before = usage.get(job_id)
                    usage[job_id] = before.and_then(answers[one]) if before else answers[one]
        if len(usage) < len(ids):
            problems.append(
                f"{kind} knows nothing more of {format_count(len(ids) - len(usage), 'job')}"
            )
    return usage, "; ".join(problems)


def _ask_scheduler(argv: Sequence[str]) -> process.CommandResult:
    return process.ask(argv, timeout=_QUERY_SECONDS)


@cache  # the tasks of an array share it
def _read_plan(home: str, script: str) -> tuple[Plan | None, str, str]:
    """The plan of the script, by the spec beside it, where metrics are, and what is not known."""
    about = header.read(script)
    if about is None:
        return None, "", "the script's header is not jobgen's: what was asked for is not known"
    path = os.path.relpath(os.path.join(home, "job.yaml"))
    scheduler = None if about.site else about.scheduler
    if not os.path.isfile(path):  # it may be a pipe, which waits for somebody to write
        return None, "", "what was asked for is not known, as job.yaml is not there"
    try:
        loaded = load(path, about.overrides, alone=True)
        plan = resolve(loaded, scheduler=scheduler, site=about.site, limits=False, task=about.task)
        metrics = loaded.spec.report.metrics or ""
    except JobgenError as error:
        first = str(error).splitlines()[0]
        return None, "", f"what was asked for is not known, as job.yaml cannot be resolved: {first}"
    if plan.provenance.digest != about.digest:
        other = "job.yaml gives another script today: what was asked for may have been other"
        return plan, metrics, other
    return plan, metrics, ""


def _name_site(script: str | None, plan: Plan | None) -> str | None:
    about = header.read(script) if script else None
    return (about.site if about else None) or (plan.site.title if plan else None)


def _measure_attempts(attempts: Iterable[Attempt], state: State, *, now: float) -> Iterator[float]:
    """Seconds of each attempt whose beginning and end are known; one that runs ends now."""
    for attempt in attempts:
        if attempt.began is not None and attempt.ended is not None:
            yield max(0.0, attempt.ended - attempt.began)
        elif attempt.began is not None and not state.ended and attempt.outcome is None:
            yield max(0.0, now - attempt.began)


def _measure_wait(job: JobRecord, attempts: tuple[Attempt, ...], used: Used | None) -> float | None:
    if used and used.submitted and used.started:
        return max(0.0, used.started - used.submitted)
    if attempts and attempts[0].began is not None and job.submitted:
        return max(0.0, attempts[0].began - job.submitted)
    return None


def _compute_charge(
    plan: Plan | None, attempts: tuple[Attempt, ...], ran: float | None
) -> Charged | None:
    """By the plan's own arithmetic, with the time that it ran in the place of the walltime."""
    if plan is None:
        return None
    one = plan._replace(array=None)
    used = one._replace(walltime=TimeLimit(None if ran is None else round(ran)))
    nodes = next((len(one.nodes) for one in reversed(attempts) if one.nodes), None)
    if plan.nodes.fewest is not None and nodes is not None:
        used = used._replace(
            nodes=plan.nodes._replace(groups=(plan.nodes.groups[0]._replace(nodes=nodes),))
        )
    cost = estimate_cost(used)
    if ran is None and cost.amount is None and cost.unit:
        cost = cost._replace(how="how long it ran is not known")
    return Charged(cost, estimate_cost(one))


def _collect_settings(
    script: str | None, task: Iterable[str], config: dict[str, Any], places: tuple[Place, ...]
) -> dict[str, str]:
    """What runs may differ in: overrides of the spec, a task's own words, and the trainer's."""
    settings = _read_overrides(script, whole=True)
    own = {key: str(value) for key, value in config.items() if key not in _PATHS}
    for name, value in _read_words(task).items():
        if name.replace("-", "_") not in own:
            settings[name] = value
    if places:
        settings["nodes"] = str(len(places))
        settings["ranks"] = str(sum(len(place.ranks) for place in places))
    return settings | own


def _read_overrides(script: str | None, *, whole: bool = False) -> dict[str, str]:
    """What `--set` gave the script's spec, by the last words of its paths, or the `whole` ones."""
    about = header.read(script) if script else None
    overrides = about.overrides if about else ()
    pairs = [mask_override(override).partition("=") for override in overrides]
    return {path if whole else path.rpartition(".")[2]: value for path, _, value in pairs}


def _read_words(task: Iterable[str]) -> dict[str, str]:
    """A task's own words, `--lr 3e-3` or `SEED=1`, as names and values."""
    values: dict[str, str] = {}
    words = mask_words(task)
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if word.startswith("--") and not equals:
            following = words[at + 1] if at + 1 < len(words) else ""
            values[name.lstrip("-")] = "true" if following.startswith("--") else following
        elif equals:
            values[name.lstrip("-")] = value
    return values


def _mask(text: str | None) -> str | None:
    """What was submitted as the page may show it, which is meant to be passed on."""
    return None if text is None else mask_text(text)


def _get_index(job: JobRecord) -> int:
    return int(job.run_dir.name.rpartition("_")[2])


_BEGINNINGS = {
    "queued": "It waits in the queue",
    "running": "It runs",
    "stopping": "It is stopping",
    "done": "It ended well",
    "failed": "It failed",
    "cancelled": "It was cancelled",
    "timeout": "It was ended at its walltime",
    "node lost": "It lost a node",
    "unknown": "How it stands is not known",
}


def _summarise_run(
    state: State,
    cause: Diagnosis | None,
    training: Training | None,
    places: tuple[Place, ...],
    *,
    ran: float | None,
    waited: float | None,
) -> str:
    """One or two sentences, from what is known."""
    text = _BEGINNINGS[state.name]
    if state.name == "done" and state.reason:
        text = "It was asked to stop, and did"
    if ran is not None and state.name != "queued":
        text += f" after {format_span(ran)}" if state.ended else f", for {format_span(ran)} so far"
    if cause and cause.cause not in ("unknown", "healthy"):
        who = "" if cause.rank is None else f"rank {cause.rank} on "
        text += f": {who}{cause.node}: {cause.title}" if cause.node else f": {cause.title}"
    elif state.reason and state.name not in ("done", "cancelled"):
        text += f": {state.reason.splitlines()[0]}"
    sentences = [text.rstrip(".") + "."]
    if training:
        of = f" of {training.all_steps:,}" if training.all_steps else ""
        steps = "step" if training.last_step == 1 and not of else "steps"
        ranks = training.ranks or sum(len(place.ranks) for place in places)
        where = f" on {format_count(ranks, 'rank')}" if ranks else ""
        where += f" of {format_count(len(places), 'node')}" if places and where else ""
        parts = []
        first, last = training.losses.y[:1], training.loss
        if first and last is not None and first[0] != last:
            verb = "fell" if last < first[0] else "rose"
            parts.append(f"the loss {verb} from {format_number(first[0])} to {format_number(last)}")
        if training.speed is not None:
            parts.append(f"{format_number(training.speed)} {training.unit}/s")
        done = f"{training.last_step:,}{of} {steps}{where}"
        sentences.append(": ".join(filter(None, [done, ", at ".join(parts)])) + ".")
    if waited is not None and waited >= 60:
        sentences.append(f"It waited {format_span(waited)} in the queue.")
    return " ".join(sentences)


def expand_arrays(jobs: Iterable[JobRecord]) -> list[JobRecord]:
    """The tasks of arrays, each a run of its own; and the other jobs."""
    runs = []
    for job in jobs:
        runs += [job.task(index) for index in range(job.tasks)] if job.tasks else [job]
    return runs
