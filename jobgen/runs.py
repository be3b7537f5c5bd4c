"""Run folders and the records in them: `runs/NAME/ID/` below the folder of submission.

A record is one JSON file, replaced as a whole: home folders are NFS or Lustre, where locks and
databases are not to be trusted. What somebody else has put there, or half of a file, is no record.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import MISSING, Field, asdict, dataclass, field, fields, replace
from glob import escape, glob
from pathlib import Path
from types import NoneType
from typing import Any

from jobgen import schedulers
from jobgen.errors import UsageError
from jobgen.schedulers.base import folder_name

RUNS = "runs"
RECORD = "job.json"


@dataclass(frozen=True)
class Job:
    """One submission.

    `pid` and `started` (clock ticks since boot) tell a local job's process, on the machine `host`.
    `first_attempt` is the number of the attempts that were in the run folder before: schedulers use
    ids again. `token` is the submission's own name and `digest` that of what was submitted (see
    `intents`); both are empty in records of earlier versions.
    """

    id: str
    name: str
    scheduler: str
    folder: str  # where it was submitted, absolute
    submitted: float  # seconds since 1970
    argv: tuple[str, ...]
    pid: int | None = None
    started: int | None = None
    first_attempt: int = 0
    links: tuple[str, ...] = ()  # further jobs, each to go on where the one before has ended
    tasks: int = 0  # of the array that it is
    earlier: dict[str, int] = field(default_factory=dict)  # the first_attempt of tasks, but for 0
    array: str = ""  # the id of the array that it is a task of
    token: str = ""
    digest: str = ""
    host: str = ""  # where it was submitted

    @property
    def run_dir(self) -> Path:
        """The run folder, as the script names it."""
        return Path(self.run_folder)

    @property
    def run_folder(self) -> str:
        """The path of the run folder: of thousands of jobs it is built quicker as a text."""
        return f"{self.folder}/{RUNS}/{self.name}/{folder_name(self.id)}"

    def task(self, index: int) -> Job:
        """One task of the array, as a job."""
        first = self.earlier.get(f"{self.run_dir.name}_{index}", 0)
        task_id = self.id.replace("[]", f"[{index}]") if "[]" in self.id else f"{self.id}_{index}"
        one = replace(self, id=task_id, array=self.id, first_attempt=first)
        return replace(one, links=(), tasks=0, earlier={})

    def save(self) -> None:
        """Write the record into the run folder, which is made where it is missing."""
        write_atomically(
            self.run_dir / RECORD, json.dumps(asdict(self), indent=1) + "\n", sync=True
        )


def read(path: str | Path) -> Job:
    """The job whose record is the file at `path`; raises UsageError where that is none.

    Keys that are not known are of a later version, and left out.
    """
    try:
        with open(path, "rb") as file:
            return from_fields(json.loads(file.read()))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # JSON's and Unicode's are ValueErrors too
        raise UsageError(f"{path}: is no record of a job: {error}") from None


def from_fields(found: Any) -> Job:
    """The job of a record's keys and values; raises ValueError where they are none's."""
    if not isinstance(found, dict):
        raise ValueError("it is no JSON object")
    if missing := [name for name in _REQUIRED if name not in found]:
        raise ValueError(f"it has no {missing[0]}")
    values: dict[str, Any] = {}
    for name in _FIELDS.keys() & found.keys():
        value, (kind, words) = found[name], _KINDS[str(_FIELDS[name].type)]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ValueError(f"{name} is {value!r} and not {words}")
        values[name] = tuple(map(str, value)) if isinstance(value, list) else value
    if values["scheduler"] not in schedulers.NAMES:
        raise ValueError(f"scheduler is {values['scheduler']!r}")
    return Job(**values)


_FIELDS: dict[str, Field[Any]] = {field.name: field for field in fields(Job)}
_REQUIRED = [
    name
    for name, one in _FIELDS.items()
    if one.default is MISSING and one.default_factory is MISSING
]
# By the annotation of a field: the types that JSON may have there, and what they are called.
_KINDS: dict[str, tuple[Any, str]] = {
    "str": (str, "a text"),
    "int": (int, "a whole number"),
    "float": ((int, float), "a number"),
    "int | None": ((int, NoneType), "a whole number or null"),
    "tuple[str, ...]": (list, "a list"),
    "dict[str, int]": (dict, "an object"),
}


def write_atomically(path: Path, content: str | bytes, *, sync: bool = False) -> None:
    """Replace the file at `path`, whose folder is made; nobody ever sees half of it.

    Where `path` is a symbolic link, what it leads to is replaced. With `sync` the file and its name
    are on the disk, or with the server, when this returns.
    """
    target = os.path.realpath(path)
    folder, name = os.path.split(target)
    if os.path.exists(path) and not os.path.isfile(path):
        temporary = target = str(path)  # a pipe or a device is written to, not replaced
    else:
        os.makedirs(folder, exist_ok=True)
        # Process ids are not enough: many hosts may write into one folder.
        temporary = f"{folder}/.{name}.{os.urandom(6).hex()}"
    try:
        with open(temporary, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode("utf-8"))
            if sync:
                file.flush()
                os.fsync(file.fileno())
        if temporary != target:
            os.replace(temporary, target)
    except BaseException:
        if temporary != target and os.path.exists(temporary):
            os.unlink(temporary)
        raise
    if sync:
        sync_folder(folder)


def sync_folder(folder: str | Path) -> None:
    """Have the names in a folder on the disk."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def find(word: str | None = None) -> Job:
    """The job that `word` names: by its run folder, its id below ./runs, or its name.

    Of several it is the latest, and so it is without a word. An id may be that of an array's task.
    Raises UsageError where there is none, or its record is damaged.
    """
    if word is None:
        job = _latest("*/*")
    else:
        job = _recorded(word) or _task(word) or _latest(f"{escape(word)}/*")
    if job is None:
        wanted = "no job" if word is None else f"no job {word!r}"
        raise UsageError(f"{wanted} below ./{RUNS}; give an id, a name or a run folder")
    return job


def find_all(words: Sequence[str]) -> tuple[list[Job], list[str]]:
    """The jobs that the words name, the latest where there are none, and what is wrong with some.

    Of many words the records are read together.
    """
    known: dict[str, Job] = {}
    if len(words) > 20:
        for job in everything()[0]:
            known.setdefault(folder_name(job.id), job)
    found, problems = [], []
    for word in words or (None,):
        try:
            found.append((word and known.get(folder_name(word))) or find(word))
        except UsageError as error:
            problems.append(str(error))
    return found, problems


def everything() -> tuple[list[Job], list[str]]:
    """All jobs below ./runs, the latest first, and what is wrong with records that are damaged."""
    jobs, damaged = [], []
    for record in glob(f"{RUNS}/*/*/{RECORD}"):
        try:
            jobs.append(read(record))
        except UsageError as error:
            damaged.append(str(error))
    return sorted(jobs, key=lambda job: job.submitted, reverse=True), sorted(damaged)


def words() -> list[str]:
    """What names the jobs below ./runs: their ids, then their names; each sorted."""
    paths = [record.split(os.sep) for record in glob(f"{RUNS}/*/*/{RECORD}")]
    return sorted(path[-2] for path in paths) + sorted({path[-3] for path in paths})


def _recorded(word: str) -> Job | None:
    direct = os.path.join(word, RECORD)
    if os.path.isfile(direct):
        return read(direct)
    if not (folder := folder_name(word)) or "/" in folder or not os.path.isdir(RUNS):
        return None
    records = (os.path.join(RUNS, name, folder, RECORD) for name in os.listdir(RUNS))
    return _newest(filter(os.path.isfile, records))


def _task(word: str) -> Job | None:
    match = re.fullmatch(r"(.*\d)(?:_(\d+)|\[(\d+)\](?:\..*)?)/?", word)
    array = _recorded(match[1]) if match else None
    if match is None or array is None:
        return None
    index = int(match[2] or match[3])
    return array.task(index) if index < array.tasks else None


def _latest(pattern: str) -> Job | None:
    """The one submitted last of those whose folder, NAME/ID, is like `pattern`."""
    if not re.fullmatch(r"[^/]+/[^/]+", pattern):
        return None
    return _newest(glob(f"{RUNS}/{pattern}/{RECORD}"))


def _newest(records: Iterable[str]) -> Job | None:
    return max(map(read, records), key=lambda job: job.submitted, default=None)


def same(job: Job) -> Iterator[Job]:
    """The other jobs on record of what `job` is a submission of, the latest first."""
    found = []
    for path in Path(job.folder, RUNS, job.name).glob(f"*/{RECORD}"):
        try:
            other = read(path)
        except UsageError:  # what somebody has damaged is nobody's double
            continue
        if other.digest == job.digest and other.token != job.token:
            found.append(other)
    yield from sorted(found, key=lambda other: other.submitted, reverse=True)


def attempts(run_dir: Path) -> list[Path]:
    """The folders of the job's attempts, in order."""
    found = [path for path in run_dir.glob("attempts/*") if path.name.isdecimal()]
    return sorted(found, key=lambda path: int(path.name))


def outcome(job: Job) -> tuple[str, int] | None:
    """How the last attempt ended by the script's own word: (done, failed, cancelled; exit code).

    The word is `continued` where another start goes on. None while it runs, or before it began. An
    array ends with its last task, and well where all have.
    """
    if job.tasks and not attempts(job.run_dir):  # a local one has a record of its own
        ended = []
        for index in range(job.tasks):
            if (found := outcome(job.task(index))) is None:
                return None
            ended.append(found)
        return next((found for found in ended if found[0] != "done"), ended[0])
    own = attempts(job.run_dir)[job.first_attempt :]
    try:
        word, code = (own[-1] / "outcome").read_text().split()
        return word, int(code)
    except (IndexError, OSError, ValueError):  # on a full disk it is empty
        return None
