"""Find jobs by ID, name or run folder."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from glob import escape, glob

from jobgen.errors import UsageError
from jobgen.jobs.by_hand import adopt_jobs
from jobgen.jobs.files import RUNS
from jobgen.jobs.record import RECORD, JobRecord, folder_name, read_record
from jobgen.jobs.run_folder import list_chain
from jobgen.output import offer_line

NO_JOB = "no job was submitted from this folder; `jobgen list --all` lists those of other folders"
_ID = r"\d+(?:-\d{6}-\d+)?"  # as of Slurm and PBS, or of a local job


def find_job(word: str | None = None) -> JobRecord:
    """Find a job by its run folder, its id below ./runs, or its name or that name's folder.

    Of several it is the latest, and so it is without a word. An array's task is named by the array
    and its number, as in 12_3 or sweep_3; an id may be that of a later job of a chain.
    Raises UsageError if nothing matches, or the record is damaged.
    """
    adopt_jobs()
    return _find_one(word)


def _find_one(word: str | None) -> JobRecord:
    if problem := _find_obstacle(RUNS):
        raise UsageError(problem)
    if word is None:
        if job := _read_latest("*/*"):
            return job
        raise UsageError(NO_JOB)
    name = os.path.normpath(word).removeprefix(f"{RUNS}/")  # the folder of its runs names it too
    if job := _find_by_id(word) or _find_by_name(name) or _find_task(word.rstrip("/")):
        return job
    usual = f"give an ID, a name or a run folder, such as {', '.join(list_words()[-3:])}"
    hint = find_meant(word) or usual.removesuffix(", such as ")
    raise UsageError(f"no job {word!r} below ./{RUNS}; {hint}")


def find_meant(word: str) -> str:
    """Say how to name a job if a spec, or another form of ID, was given; empty if unknown."""
    if match := re.fullmatch(r"(?:(?:jobs?|pods?)[/:=]|#)(.+)|(\d+)\+\d+", word):
        return f"give only the ID: {match[1] or match[2]}"
    if re.fullmatch(r"\d+(,\d+)+", word):
        return f"give each ID as a word: {word.replace(',', ' ')}"
    if meant := _find_other(word):
        return meant
    if not os.path.isfile(word):
        return ""
    if not word.endswith((".yaml", ".yml")):
        return "give the ID of a job that jobgen submitted, not a file"
    with open(word, encoding="utf-8", errors="replace") as spec:
        name = re.search(r"^name: *['\"]?([\w.-]+)", spec.read(10_000), re.MULTILINE)
    if name and _find_by_name(name[1]):
        return f"to find its jobs, give the name in it: {name[1]}"
    return f"`{offer_line('jobgen', 'submit', word)}` starts one"


def _find_other(word: str) -> str:
    """Say which job is meant by its age, by a file of its output, or by a task that it lacks."""
    if word in ("last", "latest", "newest") and (job := _read_latest("*/*")):
        return f"the latest is {job.name}; give its ID: {job.id}"
    output = rf"[A-Za-z][\w.-]*?(?:-|\.[oe])({_ID})(?:_\d+)?(?:\.out|\.err|\.log)?"
    if (match := re.fullmatch(output, word)) and _find_by_id(match[1]):
        return f"that names its output; give its ID: {match[1]}"
    if not (task := _split_task(word)):
        return ""
    job, _ = task
    return describe_tasks(job) + f"; give its ID: {folder_name(job.id)}" * (not job.tasks)


def describe_tasks(job: JobRecord) -> str:
    """Say which tasks a job has."""
    if job.tasks:
        return f"{job.id} has tasks 0 to {job.tasks - 1}"
    return f"{folder_name(job.id)} is not an array"


def find_jobs(words: Sequence[str]) -> tuple[list[JobRecord], list[str]]:
    """Find jobs by id, name or run folder (default: the latest), as `find_job` does.

    Also returns one message for each word that matches nothing. Of many words the records are read
    together.
    """
    jobs, problems = [], []
    known: dict[str, JobRecord] = {}
    if words[20:]:
        known = {folder_name(job.id): job for job in reversed(list_jobs()[0])}
    else:
        adopt_jobs()  # as list_jobs does
    for word in words or (None,):
        try:
            jobs.append(known.get(folder_name(word or "")) or _find_one(word))
        except UsageError as error:
            problems.append(str(error))
    return jobs, problems


def list_jobs(folders: Iterable[str] = (".",)) -> tuple[list[JobRecord], list[str]]:
    """Return all jobs below ./runs, the latest first, and a message for each damaged record.

    With `folders`, those below the `runs` of each.
    """
    records: list[str] = []
    problems: list[str] = []
    for folder in folders:
        problems += filter(None, [_find_obstacle(os.path.join(folder, RUNS))])
        adopt_jobs(folder)
        records += glob(f"{escape(folder)}/{RUNS}/*/*/{RECORD}")
    jobs, damages = _read_all(records)
    return jobs, problems + sorted(map(str, damages))


def _find_obstacle(runs: str) -> str:
    """Say why a folder of runs that is there cannot be read; empty if it can, or is missing."""
    try:
        os.scandir(runs).close()  # which reads none of its thousands of names
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"cannot read {os.path.normpath(runs)}/: {error.strerror}"
    return ""


def _read_all(records: Iterable[str]) -> tuple[list[JobRecord], list[UsageError]]:
    """Return the jobs of records, the latest first, and messages about damaged ones."""
    jobs, damages = [], []
    for record in records:
        try:
            jobs.append(read_record(record))
        except UsageError as error:
            damages.append(error)
    return sorted(jobs, key=lambda job: job.submitted, reverse=True), damages


def list_words() -> list[str]:
    """Return the words that name jobs below ./runs: their IDs, then their names; each sorted."""
    paths = [record.split(os.sep) for record in glob(f"{RUNS}/*/*/{RECORD}")]
    return sorted(path[-2] for path in paths) + sorted({path[-3] for path in paths})


def _find_by_id(word: str) -> JobRecord | None:
    direct = os.path.join(word, RECORD)
    if os.path.isfile(direct):
        return read_record(direct)
    return _read_latest(f"*/{escape(folder_name(word))}") or _find_in_chain(word)


def _find_in_chain(word: str) -> JobRecord | None:
    """Return the job of whose chain a later one has this ID, by which the scheduler shows it."""
    if not re.fullmatch(r"\d+(\.\S+)?", word):
        return None
    jobs, _ = _read_all(glob(f"{RUNS}/*/*/{RECORD}"))
    wanted = folder_name(word)
    return next((job for job in jobs if wanted in map(folder_name, list_chain(job))), None)


def _find_task(word: str) -> JobRecord | None:
    array, index = _split_task(word) or (None, 0)
    return array.task(index) if array and index < array.tasks else None


def _split_task(word: str) -> tuple[JobRecord, int] | None:
    """Return the job and the number in `12_3`, `12[3].server` or `sweep_3`."""
    match = re.fullmatch(r"(.+)(?:_(\d+)|\[(\d+)\](?:\..*)?)", word)
    job = match and (_find_by_id(match[1]) or _find_by_name(match[1]))
    return (job, int(match[2] or match[3])) if match and job else None


def _find_by_name(name: str) -> JobRecord | None:
    return _read_latest(f"{escape(name)}/*")


def _read_latest(pattern: str) -> JobRecord | None:
    """Return the job submitted last; raise UsageError if all of several records are damaged."""
    if not re.fullmatch(r"[^/]+/[^/]+", pattern):
        return None
    jobs, damages = _read_all(glob(f"{RUNS}/{pattern}/{RECORD}"))
    if damages and not jobs:
        raise damages[-1]
    return next(iter(jobs), None)
