"""All that is known of one run, from its folder, its scheduler and its site's profile."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from jobgen import header, links, process, schedulers
from jobgen.cost import cost_of
from jobgen.diagnose import Diagnosis, diagnose
from jobgen.errors import JobgenError, RefusedError
from jobgen.loaded import load
from jobgen.plan import Plan, resolve
from jobgen.report import efficiency
from jobgen.report.facts import Attempt, Charged, Place, Run, Training
from jobgen.report.folder import Folder
from jobgen.report.history import History
from jobgen.report.words import count, figure, span
from jobgen.runs import Job
from jobgen.schedulers import pbs_jobs, used
from jobgen.schedulers.base import State
from jobgen.schedulers.used import Used

_QUERY_SECONDS = 30
_PATHS = {"out"}  # settings of the trainer in which all runs differ


def gather(job: Job, state: State, *, now: float, found: Used | None, problem: str = "") -> Run:
    """One run, which stands as `state` says.

    `found` is what its scheduler says it used, `problem` why that is not known.
    """
    folder, history = Folder(job), History(job.run_dir)
    script, spec = folder.text("script"), folder.text("job.yaml")
    plan, why = _plan(str(folder.home), script) if script and spec else (None, "")
    attempts = folder.attempts(history.first_steps())
    training = history.training()
    ranks = history.ranks(training)
    preflight, allreduce, gpu_memory = folder.preflight()
    elapsed = list(_elapsed(attempts, state, now=now))
    waited = _waited(job, attempts, found)
    ran = (found.elapsed if found else None) or (sum(elapsed) if elapsed else None)
    cause = None
    if state.ended and state.name not in ("done", "cancelled"):
        try:
            cause = diagnose(job, state)
        except (OSError, ValueError) as error:
            folder.notes.append(f"the cause of the failure cannot be told: {error}")
    known = efficiency.Known(
        state=state,
        plan=plan,
        used=found,
        elapsed=ran,
        longest=max(elapsed, default=None),
        starts=len(attempts),
        training=training,
        ranks=ranks,
        gpu_memory=gpu_memory,
    )
    places = folder.places(attempts, plan)
    task = plan.array.tasks[_index(job)] if plan and plan.array and job.array else None
    words = (*task.arguments, *(f"{k}={v}" for k, v in task.variables.items())) if task else ()
    return Run(
        id=job.id,
        name=job.name,
        scheduler=job.scheduler,
        site=_site(script, plan),
        folder=os.path.relpath(job.run_dir),
        state=state.name,
        reason=state.reason,
        summary=_summary(state, cause, training, places, ran=ran, waited=waited),
        submitted=job.submitted,
        waited=waited,
        ran=ran,
        attempts=attempts,
        places=places,
        cause=cause,
        training=training,
        ranks=ranks,
        uses=efficiency.uses(known),
        preflight=preflight,
        allreduce=allreduce,
        charged=_charged(plan, attempts, ran),
        settings=_settings(script, words, history.config(), places),
        spec=spec,
        script=script,
        notes=tuple(note for note in (*folder.notes, *history.notes, why, problem) if note),
    )


def ask(jobs: list[Job]) -> tuple[dict[str, Used], str]:
    """What schedulers say of the use of all jobs, each asked once; and why they do not."""
    found: dict[str, Used] = {}
    problems = []
    for kind in dict.fromkeys(job.scheduler for job in jobs):
        if kind == schedulers.LOCAL:
            problems.append("on this machine nobody counts CPU time and memory")
            continue
        ids = {job.id: links.ids(job) for job in jobs if job.scheduler == kind}
        asked = [one for chain in ids.values() for one in chain]
        try:
            said = _slurm(asked) if kind == "slurm" else _pbs(asked)
        except JobgenError as error:
            said_so = " ".join(str(error).split())[:200]
            problems.append(f"CPU time and memory are not known: {said_so}")
            continue
        for job_id, chain in ids.items():
            for one in chain:
                if one in said:
                    before = found.get(job_id)
                    found[job_id] = before.and_then(said[one]) if before else said[one]
        if len(found) < len(ids):
            problems.append(f"{kind} knows nothing more of {count(len(ids) - len(found), 'job')}")
    return found, "; ".join(problems)


def _slurm(ids: list[str]) -> dict[str, Used]:
    try:
        return used.parse_sacct(process.run(used.sacct_argv(ids), timeout=_QUERY_SECONDS))
    except JobgenError:
        if len(ids) > 1:
            raise
        # Without accounting Slurm remembers a job for some minutes.
        said = process.run(used.scontrol_argv(ids[0]), timeout=_QUERY_SECONDS)
        return used.parse_scontrol(said)


def _pbs(ids: list[str]) -> dict[str, Used]:
    argv = pbs_jobs.argv(ids)
    answer = process.ask(argv, timeout=_QUERY_SECONDS)
    if answer.code and not answer.output.strip():  # else only some of them are not known any more
        raise RefusedError(answer.refusal(argv[0]))
    return used.parse_qstat(answer.output)


@cache  # the tasks of an array share it
def _plan(home: str, script: str) -> tuple[Plan | None, str]:
    """The plan that the script was rendered from, by the spec beside it; or why it is not known."""
    found = header.read(script)
    if found is None:
        return None, "the script's header is not jobgen's: what was asked for is not known"
    path = os.path.relpath(os.path.join(home, "job.yaml"))
    scheduler = None if found.site else found.scheduler
    try:
        loaded = load(path, found.overrides)
        plan = resolve(loaded, scheduler=scheduler, site=found.site, limits=False, task=found.task)
    except JobgenError as error:
        first = str(error).splitlines()[0]
        return None, f"what was asked for is not known, as job.yaml cannot be resolved: {first}"
    if plan.digest != found.digest:
        return plan, "job.yaml gives another script today: what was asked for may have been other"
    return plan, ""


def _site(script: str | None, plan: Plan | None) -> str | None:
    found = header.read(script) if script else None
    return (found.site if found else None) or (plan.site.title if plan else None)


def _elapsed(attempts: Iterable[Attempt], state: State, *, now: float) -> Iterator[float]:
    """Seconds of each attempt whose beginning and end are known; one that runs ends now."""
    for attempt in attempts:
        if attempt.began is not None and attempt.ended is not None:
            yield max(0.0, attempt.ended - attempt.began)
        elif attempt.began is not None and not state.ended and attempt.outcome is None:
            yield max(0.0, now - attempt.began)


def _waited(job: Job, attempts: tuple[Attempt, ...], found: Used | None) -> float | None:
    if found and found.submitted and found.started:
        return max(0.0, found.started - found.submitted)
    if attempts and attempts[0].began is not None and job.submitted:
        return max(0.0, attempts[0].began - job.submitted)
    return None


def _charged(plan: Plan | None, attempts: tuple[Attempt, ...], ran: float | None) -> Charged | None:
    """By the plan's own arithmetic, with the time that it ran in the place of the walltime."""
    if plan is None:
        return None
    one = plan._replace(array=None)
    used = one._replace(chain=None, walltime=None if ran is None else round(ran))
    nodes = next((len(one.nodes) for one in reversed(attempts) if one.nodes), None)
    if plan.fewest_nodes is not None and nodes is not None:
        used = used._replace(groups=(plan.groups[0]._replace(nodes=nodes),))
    cost = cost_of(used)
    if ran is None and cost.amount is None and cost.unit:
        cost = cost._replace(how="how long it ran is not known")
    return Charged(cost, cost_of(one))


def _settings(
    script: str | None, task: Iterable[str], config: dict[str, Any], places: tuple[Place, ...]
) -> dict[str, str]:
    """What runs may differ in: overrides of the spec, a task's own words, and the trainer's."""
    found: dict[str, str] = {}
    said = header.read(script) if script else None
    for override in said.overrides if said else ():
        path, _, value = override.partition("=")
        found[path] = value
    own = {key: str(value) for key, value in config.items() if key not in _PATHS}
    words = list(task)
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if word.startswith("--") and not equals:
            following = words[at + 1] if at + 1 < len(words) else ""
            value = "true" if following.startswith("--") else following
        elif not equals:
            continue
        if name.lstrip("-").replace("-", "_") not in own:
            found[name.lstrip("-")] = value
    if places:
        found["nodes"] = str(len(places))
        found["ranks"] = str(sum(len(place.ranks) for place in places))
    return found | own


def _index(job: Job) -> int:
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


def _summary(
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
    if ran is not None and state.name != "queued":
        text += f" after {span(ran)}" if state.ended else f", for {span(ran)} so far"
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
        where = f" on {count(ranks, 'rank')}" if ranks else ""
        where += f" of {count(len(places), 'node')}" if places and where else ""
        parts = []
        first, last = training.losses.y[:1], training.loss
        if first and last is not None and first[0] != last:
            verb = "fell" if last < first[0] else "rose"
            parts.append(f"the loss {verb} from {figure(first[0])} to {figure(last)}")
        if training.speed is not None:
            parts.append(f"{figure(training.speed)} {training.unit}/s")
        done = f"{training.last_step:,}{of} {steps}{where}"
        sentences.append(": ".join(filter(None, [done, ", at ".join(parts)])) + ".")
    if waited is not None and waited >= 60:
        sentences.append(f"It waited {span(waited)} in the queue.")
    return " ".join(sentences)


def expanded(jobs: Iterable[Job]) -> list[Job]:
    """The tasks of arrays, each a run of its own; and the other jobs."""
    found = []
    for job in jobs:
        found += [job.task(index) for index in range(job.tasks)] if job.tasks else [job]
    return found
