"""The record of a job in its run folder, `runs/NAME/ID/` below the folder of submission.

A record is one JSON file, replaced as a whole: home folders are NFS or Lustre, where locks and
databases are not to be trusted. A file that is damaged, or something else, is not a record. A
cloned repository or a shared folder may hold what a stranger has made: a record counts only in the
folder of its own name and id, and as the user's own file.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, asdict, dataclass, fields, replace
from pathlib import Path
from types import NoneType
from typing import Any

from jobgen import process
from jobgen.capabilities import get_capabilities
from jobgen.errors import UsageError
from jobgen.jobs.files import RUNS, read_if_left, read_run_file, write_run_file
from jobgen.rendering import header
from jobgen.schedulers.registry import PACKAGES

RECORD = "job.json"
PLAN = "plan.json"  # what the header of the script says to programs
_ID = r"[0-9]+[0-9_-]{0,60}(\[[0-9]*\])?(\.[A-Za-z0-9._-]+)?"
# What texts of a record look like, so that none leads out of its run folder.
_FORMS = {
    "id": f"({_ID})?",  # empty in an intent
    "shares": f"({_ID})?",
    "links": _ID,
    "commit": "([0-9a-f]{40,64})?",
    "rerun_of": _ID,
    "rerun_as": _ID,
    "name": r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}",
    "token": r"([0-9]+-[0-9]+-[0-9a-f]+)?",
    "folder": r"/[^\0]*",
}
_PATTERNS = [(name, re.compile(form)) for name, form in _FORMS.items()]
_MOST = {
    "submitted": 1e11,
    "first_submitted": 1e11,
    "tasks": 10_000,  # as in a spec
    "together": 10_000,
    "counted_from": 10**6,
    "changed": 10**7,
    "pid": 2**22,
    "started": 2**63,
}
# By the annotation of a field: the types that JSON may have there, and what they are called.
_KINDS: dict[str, tuple[Any, str]] = {
    "str": (str, "a text"),
    "int": (int, "a whole number"),
    "float": ((int, float), "a number"),
    "int | None": ((int, NoneType), "a whole number or null"),
    "tuple[str, ...]": (list, "a list"),
}


def folder_name(job_id: str) -> str:
    """Return the name of a run folder: the id without PBS's server and brackets, as in `12_3`."""
    number, _, member = job_id.partition(".")[0].rstrip("]").partition("[")
    return f"{number}_{member}" if member else number


@dataclass(frozen=True)
class JobRecord:
    """One submission.

    `pid` and `started` (clock ticks since boot) tell a local job's process, on the machine `host`.
    `token` is the submission's own name and `digest` that of what was submitted (see `journal`);
    both are empty in records of earlier versions.
    """

    id: str
    name: str
    scheduler: str
    folder: str  # where it was submitted, absolute
    submitted: float  # seconds since 1970
    argv: tuple[str, ...]
    pid: int | None = None
    started: int | None = None
    first_submitted: float = 0.0  # of a chain that has gone on; 0 of others
    counted_from: int = 0  # the number of the attempt from which a chain's starts count
    links: tuple[str, ...] = ()  # further jobs, each to go on where the one before has ended
    tasks: int = 0  # of the array that it is
    together: int = 1  # of these in one job of the scheduler's
    shares: str = ""  # the id of the job that a task of the array has together with others
    array: str = ""  # the id of the array that it is a task of
    token: str = ""
    digest: str = ""
    host: str = ""  # where it was submitted
    commit: str = ""  # that git had checked out there
    changed: int = 0  # files that differed from it
    rerun_of: tuple[str, ...] = ()  # the job, or the tasks of an array, that it does again
    rerun_as: tuple[str, ...] = ()  # the jobs that do it again

    @property
    def run_dir(self) -> Path:
        """The run folder, as the script names it."""
        return Path(self.run_folder)

    @property
    def run_folder(self) -> str:
        """The path of the run folder; for thousands of jobs a text is quicker than a Path."""
        return f"{self.folder}/{RUNS}/{self.name}/{folder_name(self.id)}"

    @property
    def whole_dir(self) -> Path:
        """The run folder of its array if it is a task, or its own."""
        return self.run_dir.with_name(folder_name(self.array)) if self.array else self.run_dir

    @property
    def local(self) -> bool:
        """Whether it is a process on one machine, without a queue."""
        return not get_capabilities(self.scheduler).batch

    @property
    def alive(self) -> bool:
        """Whether the process of a local job runs on this machine."""
        return process.is_running(self.pid, self.started)

    @property
    def parts(self) -> list[JobRecord]:
        """The tasks of an array, each as a job; for another job, itself."""
        return [self.task(index) for index in range(self.tasks)] or [self]

    @property
    def roles(self) -> dict[str, JobRecord]:
        """Its programs that have begun, each as a job, as the file has them; none of a single one.

        The last of the file ends the job.
        """
        if not os.path.isdir(f"{self.run_folder}/roles"):  # as for nearly all of thousands of jobs
            return {}
        whole = replace(self, shares=self.shares or self.id, links=(), counted_from=0)
        number = folder_name(self.id)
        names = self._list_roles()
        return {name: replace(whole, id=f"{number}/roles/{name}") for name in names}

    def _list_roles(self) -> list[str]:
        """The names of programs that have begun, in the order of the plan."""
        begun = sorted(path.parts[-4] for path in self.run_dir.glob("roles/*/attempts/0/script"))
        about = header.read_json(read_if_left(f"{self.run_folder}/{PLAN}"))
        order = {name: place for place, name in enumerate(about.roles if about else ())}
        return sorted(begun, key=lambda name: order.get(name, len(order)))

    def task(self, index: int) -> JobRecord:
        """Return one task of the array, as a job."""
        one = replace(self, id=_name_task(self.id, index), array=self.id)
        if self.together > 1:
            only = self.tasks <= self.together  # job, and so no array to the scheduler
            shares = self.id if only else _name_task(self.id, index // self.together)
            one = replace(one, together=1, shares=shares)
        if len(self.rerun_of) == self.tasks:
            one = replace(one, rerun_of=self.rerun_of[index : index + 1])
        # Which of its tasks another job does again, that job's record says.
        return replace(one, links=(), tasks=0, rerun_as=())

    def save(self) -> None:
        """Write the record into the run folder, which is made if it is missing."""
        write_run_file(self.run_dir / RECORD, json.dumps(asdict(self), indent=1) + "\n")


def _name_task(array: str, index: int) -> str:
    number, dot, server = array.partition(".")
    member = number.replace("[]", f"[{index}]") if "[]" in number else f"{number}_{index}"
    return f"{member}{dot}{server}"


def read_record(path: str | Path) -> JobRecord:
    """Return the job whose record is the file at `path`; raise UsageError if it is not one.

    Its folder is where the record lies, so that a project may be moved. Keys that are not known
    belong to a later version, and are left out.
    """
    path = os.path.abspath(path)
    try:
        job = parse_record(json.loads(read_run_file(path)))
        if path != f"{job.run_folder}/{RECORD}":
            where = path.split(os.sep)
            job = replace(job, folder=os.sep.join(where[:-4]))
            place = [RUNS, job.name, folder_name(job.id)]
            if where[-4:-1] != place:
                raise ValueError(f"it is of {'/'.join(place)}, and read only there")
        return job
    except OSError as error:
        raise UsageError(f"{os.path.relpath(path)}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # JSON's and Unicode's are ValueErrors too
        raise UsageError(f"{os.path.relpath(path)}: not the record of a job: {error}") from None


def find_same(job: JobRecord) -> list[JobRecord]:
    """Return the other recorded jobs with the same script, the latest first."""
    others = read_sound(Path(job.folder, RUNS, job.name).glob(f"*/{RECORD}"))
    same = [other for other in others if other.digest == job.digest and other.token != job.token]
    return sorted(same, key=lambda other: other.submitted, reverse=True)


def list_reruns(job: JobRecord) -> tuple[str, ...]:
    """Return the IDs of the jobs that do a job again; of a task, those that do it among others."""
    if not job.array:
        return job.rerun_as
    wholes = read_sound([job.whole_dir / RECORD])
    names = [folder_name(id) for whole in wholes for id in whole.rerun_as]
    paths = (path for name in names for path in Path(job.folder, RUNS).glob(f"*/{name}/{RECORD}"))
    return tuple(one.id for one in read_sound(paths) if {job.id, job.array} & {*one.rerun_of})


def read_sound(paths: Iterable[str | Path]) -> Iterator[JobRecord]:
    """Yield the jobs of these records, without damaged ones."""
    for path in paths:
        with contextlib.suppress(UsageError):
            yield read_record(path)


_REQUIRED = [one.name for one in fields(JobRecord) if one.default is MISSING]
_FIELDS = {one.name: _KINDS[str(one.type)] for one in fields(JobRecord)}


def parse_record(values: Any) -> JobRecord:
    """Return the job that a record's keys and values describe; raise ValueError if they do not."""
    if not isinstance(values, dict):
        raise ValueError("it is not a JSON object")
    if missing := [name for name in _REQUIRED if name not in values]:
        raise ValueError(f"{missing[0]} is missing")
    known: dict[str, Any] = {}
    for name in _FIELDS.keys() & values.keys():
        value, (kind, words) = values[name], _FIELDS[name]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ValueError(f"{name} is {value!r} and not {words}")
        known[name] = tuple(map(str, value)) if isinstance(value, list) else value
    if known["scheduler"] not in PACKAGES:
        raise ValueError(f"scheduler is {known['scheduler']!r}")
    _check_values(known)
    return JobRecord(**known)


def _check_values(known: dict[str, Any]) -> None:
    for name, pattern in _PATTERNS:
        texts = known.get(name, ())
        for text in (texts,) if isinstance(texts, str) else texts:
            if not pattern.fullmatch(text):
                raise ValueError(f"{name} is {text!r}")
    for name, most in _MOST.items():
        if not 0 <= (known.get(name) or 0) <= most:
            raise ValueError(f"{name} is {known[name]!r}")
