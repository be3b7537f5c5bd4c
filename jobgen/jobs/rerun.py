"""Rerun a job: as recorded, or only its failed tasks, or with other values."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import replace
from itertools import takewhile
from pathlib import Path

from jobgen.errors import AlreadySubmittedError, StaleError, UsageError
from jobgen.jobs.files import read_run_file
from jobgen.jobs.find import find_job
from jobgen.jobs.queries import SchedulerAnswer
from jobgen.jobs.record import RECORD, JobRecord, folder_name, read_record
from jobgen.jobs.recorded import resolve_recorded
from jobgen.jobs.run_folder import list_attempts, list_chain
from jobgen.jobs.states import examine, judge
from jobgen.jobs.status import look
from jobgen.jobs.submission import TOKEN, Submission, describe_script, prepare_plan, refuse_unset
from jobgen.output import offer_line
from jobgen.plan.plan import Dependency
from jobgen.rendering import header
from jobgen.rendering.check import RenderedScript
from jobgen.rendering.header import Header
from jobgen.rendering.render import render
from jobgen.spec.load import LoadedSpec, Overrides, load, write_overrides


def prepare_rerun(
    job: JobRecord, *, failed: bool = False, overrides: Overrides = (), again: bool = False
) -> list[Submission]:
    """Prepare the rerun of a job: its own script, unless `failed` or `overrides` ask for another.

    With `failed`, take only the tasks of an array that have ended and are not done, each with the
    number that it had. Leave out those that another rerun does or has done, unless `again`. Raises
    UsageError if there is nothing to rerun, or the record does not say what the job was, and
    StaleError if its script was edited, so that its spec renders another.
    """
    whole, words = find_whole(job), write_overrides(overrides)
    about, text = _read_script(whole)
    tasks = _list_failed(job, again=again) if failed else []
    if job.array:
        tasks = [int(re.findall(r"[0-9]+", job.id.partition(".")[0])[-1])]
    if words or (tasks and whole.tasks):
        _refuse_edited(whole, about, text)
    if tasks and whole.tasks:
        return _rerun_tasks(whole, tasks, about, words)
    if words:
        return [replace(_prepare(_load(whole, about, words), about), rerun_of=(job.id,))]
    return [_repeat(whole, about, text)]


def prepare_continuation(job: JobRecord, *, overrides: Overrides = ()) -> Submission:
    """Prepare the jobs by which a chain that has ended goes on in its run folder.

    A script that was edited goes on as it is. Raises UsageError if it has not ended, is done and
    without `overrides`, or cannot go on there, and StaleError if `overrides` ask for another than
    the edited one.
    """
    _refuse_tasks(job)
    about, text = _read_script(job)
    if words := write_overrides(overrides):
        _refuse_edited(job, about, text)
        ready = _prepare(_load(job, about, words), about)
    else:
        ready = _repeat(job, about, text)
        if ready.source:
            rendered, line = _render_again(job, about, text)
            ready = ready if line else _prepare(_load(job, about, ()), about, rendered=rendered)
    _check_place(job, ready)
    _check_undone(job, further=bool(words))
    whole = find_whole(job)
    goes_on = replace(
        whole,
        links=tuple(list_chain(job)[1:]),
        first_submitted=whole.first_submitted or whole.submitted,
        counted_from=len(list_attempts(job.run_folder)),
    )
    return replace(ready, continues=goes_on)


def _refuse_tasks(job: JobRecord) -> None:
    if job.array or job.tasks:
        line = offer_line("jobgen", "rerun", job.id, "--failed")
        hint = f"`{line}` begins what is not done again, in new run folders"
        raise UsageError(f"job {job.id}: no task of an array goes on in its run folder; {hint}")


def _check_place(job: JobRecord, ready: Submission) -> None:
    """Raise UsageError unless what is ready would go on in the job's run folder."""
    if ready.about.at_most is None or (ready.about.name, job.local) != (job.name, False):
        hint = "; --set on_walltime.then=resubmit makes it one" * (not job.local)
        raise UsageError(f"job {job.id}: only a chain of jobs goes on in its run folder{hint}")
    if job.folder != os.getcwd():
        line = offer_line("cd", job.folder)
        raise UsageError(f"job {job.id}: it goes on only from its own folder: {line}")


def _check_undone(job: JobRecord, *, further: bool) -> None:
    """Raise UsageError if a job of a chain is left, or it is done and is not to go `further`."""
    chain, (left, own) = list_chain(job), examine(job)
    answer = SchedulerAnswer(job.scheduler, {id: [folder_name(id)] for id in chain})
    states = answer.states
    going = [id for id in chain if folder_name(id) in states and not states[folder_name(id)].ended]
    if answer.silence:
        raise UsageError(f"jobgen cannot tell whether job {job.id} has ended: {answer.silence}")
    if going:
        hint = offer_line("jobgen", "cancel", job.id)
        raise UsageError(f"job {job.id}: {', '.join(going)} of its chain has not ended; {hint}")
    if not further and (own or judge(left, answer)[0]).name == "done":
        further_by = "to go further, --set another length, such as run.args.steps=N"
        why = "there is nothing left to do, because it is done"
        raise UsageError(f"job {job.id}: {why}; {further_by}")


def _rerun_tasks(
    whole: JobRecord, tasks: list[int], about: Header, words: tuple[str, ...]
) -> list[Submission]:
    loaded = _load(whole, about, words)
    array, rows = loaded.spec.array, list(loaded.spec.choices())
    if array is None or len(rows) != whole.tasks:
        raise UsageError(f"job {whole.id}: its spec has other tasks now, so none can be rerun")
    ids = tuple(whole.task(task).id for task in tasks)
    if len(tasks) == 1:
        return [replace(_prepare(loaded, about, task=tasks[0]), rerun_of=ids)]
    chosen = {
        "list": None if array.tasks else [rows[task] for task in tasks],
        "tasks": array.tasks and len(tasks),
        "numbers": [array.number(task) for task in tasks],
        "at_once": array.at_once,
        "together": array.together,
    }
    given = {key: value for key, value in chosen.items() if value is not None}
    loaded = _load(whole, about, (*words, *write_overrides({"array": given})))
    return [replace(_prepare(loaded, about), rerun_of=ids)]


def link_rerun(job: JobRecord, rerun: JobRecord) -> None:
    """Name the rerun in the record of the job that it reruns."""
    whole = find_whole(job)
    replace(whole, rerun_as=(*whole.rerun_as, rerun.id)).save()


def find_whole(job: JobRecord) -> JobRecord:
    """Return the job as recorded now; for a task, the array."""
    return read_record(job.whole_dir / RECORD)


def _list_failed(job: JobRecord, *, again: bool) -> list[int]:
    seen = look([job])
    if seen.silences:
        raise UsageError(f"jobgen cannot tell which tasks failed: {seen.silences[0]}")
    (one,) = seen.jobs
    states = enumerate(one.states)
    tasks = [task for task, state in states if state.ended and state.name != "done"]
    if not tasks:
        why = "no task has failed" if one.tasks else f"it is {one.state.name}"
        raise UsageError(f"job {job.id}: nothing to rerun, because {why}")
    whole = find_whole(job)
    redone = {} if again else _find_redone_beside(whole) | _find_redone(whole)
    left = [task for task in tasks if job.parts[task].id not in redone]
    if not left:
        others = ", ".join(dict.fromkeys(redone.values()))
        words = f"job {job.id}: nothing is left to rerun beside {others}"
        raise AlreadySubmittedError(f"{words}; give --again for another job")
    return left


def _find_redone_beside(job: JobRecord) -> dict[str, str]:
    """Return the IDs of what other reruns of what a job does again do, or have done well."""
    redone: dict[str, str] = {}
    for id in job.rerun_of[:1]:  # all of one job
        with suppress(UsageError):
            whole = find_whole(find_job(id))
            others = _find_redone_beside(whole) | _find_redone(whole, beside=job.id)
            pairs = zip(job.parts, _list_originals(whole, job), strict=True)
            redone = {part.id: others[one] for part, ids in pairs for one in ids if one in others}
    return redone


def _find_redone(job: JobRecord, *, beside: str = "") -> dict[str, str]:
    """Return the IDs of what a job's reruns do, or have done well, each with the rerun's."""
    redone: dict[str, str] = {}
    for id in filter(beside.__ne__, job.rerun_as):
        with suppress(UsageError):  # its run folder may be gone
            rerun = find_job(id)
            further, (seen,) = _find_redone(rerun), look([rerun]).jobs
            done = _list_originals(job, rerun)
            for part, ids, state in zip(rerun.parts, done, seen.states, strict=True):
                if not state.ended or state.name == "done" or part.id in further:
                    redone |= dict.fromkeys(ids, rerun.id)
    return redone


def _list_originals(job: JobRecord, rerun: JobRecord) -> list[tuple[str, ...]]:
    """Return what each part of a rerun does again of a job: all of an array, or some tasks."""
    if rerun.rerun_of == (job.id,) and rerun.tasks == job.tasks:
        return [(part.id,) for part in job.parts]
    return [part.rerun_of for part in rerun.parts]


def _repeat(job: JobRecord, about: Header, text: str) -> Submission:
    try:
        source, loaded = _read(job, "job.yaml"), _load(job, about, ())
    except UsageError:  # it was submitted without jobgen
        return describe_script(text, about, rerun_of=(job.id,))
    refuse_unset(loaded)
    snapshot = loaded.spec.snapshot
    return describe_script(text, about, source=source, snapshot=snapshot, rerun_of=(job.id,))


def _prepare(
    loaded: LoadedSpec, about: Header, *, task: int | None = None, rendered: str = ""
) -> Submission:
    plan = resolve_recorded(loaded, about, limits=about.limits, task=task)
    return prepare_plan(loaded, plan, rendered=rendered)


def _load(job: JobRecord, about: Header, words: tuple[str, ...]) -> LoadedSpec:
    """Return the recorded spec, complete in itself, with the overrides of then and now."""
    try:
        text = _read(job, "job.yaml")
    except UsageError as error:  # it was submitted without jobgen
        line = offer_line("cp", Path(about.spec), os.path.relpath(job.run_dir / "job.yaml"))
        hint = f"copy the spec there from which its script was rendered: {line}"
        raise UsageError(f"{error}; {hint}") from None
    loaded = load(text + "\n", (*about.overrides, *words), alone=True)
    return loaded._replace(file="job.yaml")


def _refuse_edited(job: JobRecord, about: Header, text: str) -> None:
    """Raise StaleError where its spec would render another script than the one that ran."""
    if line := _render_again(job, about, text)[1]:
        ran = os.path.relpath(job.run_dir / "script")
        hint = (
            f"to submit it as it ran: {offer_line('jobgen', 'rerun', job.id)}; for another, write "
        )
        hint += f"the change into {about.spec} and submit that"
        why = f"is not what its spec renders: its line {line} differs"
        raise StaleError(f"job {job.id}: {ran}, which ran, {why}; {hint}")


def _render_again(job: JobRecord, about: Header, text: str) -> tuple[str, int]:
    """Return what a script's recorded spec renders, and its first line that is not so, or 0."""
    plan = resolve_recorded(_load(job, about, ()), about)
    if not plan.can.batch:  # where the script itself waits, the spec need not say for what
        waits = re.findall(r"^    wait_for (\w+) (\S+)$", text, re.MULTILINE)
        after = tuple(Dependency(kind, (id,)) for kind, id in waits)
        plan = plan._replace(requests=plan.requests._replace(after=after))
    own = plan.provenance._replace(source=about.spec, digest=about.digest, limits=about.limits)
    rendered = render(plan._replace(provenance=own))
    script = RenderedScript(Path("script"), text, about)
    if not script.contrast(rendered, "", same=True)[0]:
        return rendered, 0
    pairs = zip(text.splitlines(), rendered.splitlines(), strict=False)
    return rendered, 1 + len([*takewhile(lambda pair: pair[0] == pair[1], pairs)])


def _read_script(job: JobRecord) -> tuple[Header, str]:
    """Return the script that ran, as it was before it was submitted."""
    text = re.sub(rf"^{TOKEN}.*\n?\Z", "", _read(job, "script"), flags=re.MULTILINE)
    if about := header.read(text):
        return about, text
    raise UsageError(f"job {job.id}: its script was not rendered by jobgen")


def _read(job: JobRecord, name: str) -> str:
    try:
        return read_run_file(job.run_dir / name).decode()
    except (OSError, ValueError):
        raise UsageError(f"job {job.id}: its run folder has no {name}") from None
