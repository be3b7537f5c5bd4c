"""Run folders and the records in them: `runs/NAME/ID/` below the folder of submission.

A record is one JSON file, replaced as a whole: home folders are NFS or Lustre, where locks and
databases are not to be trusted.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from jobgen.errors import UsageError

RUNS = "runs"


@dataclass(frozen=True)
class Job:
    """One submission.

    `pid` and `started` (clock ticks since boot) tell a local job's process. `first_attempt` is the
    number of the attempts that were in the run folder before: schedulers use ids again.
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

    @property
    def run_dir(self) -> Path:
        """The run folder, as the script names it: the id without PBS's server name and brackets."""
        number, _, member = self.id.partition(".")[0].rstrip("]").partition("[")
        return Path(self.folder, RUNS, self.name, f"{number}_{member}" if member else number)

    def task(self, index: int) -> Job:
        """One task of the array, as a job."""
        first = self.earlier.get(f"{self.run_dir.name}_{index}", 0)
        task_id = self.id.replace("[]", f"[{index}]") if "[]" in self.id else f"{self.id}_{index}"
        one = replace(self, id=task_id, array=self.id, first_attempt=first)
        return replace(one, links=(), tasks=0, earlier={})

    def save(self) -> None:
        """Write the record into the run folder, which is made where it is missing."""
        self.run_dir.mkdir(parents=True, exist_ok=True)
        write_atomically(self.run_dir / "job.json", json.dumps(asdict(self), indent=1) + "\n")


def write_atomically(path: Path, text: str) -> None:
    """Replace the file at `path`, whose folder is made; nobody ever sees half of it.

    Where `path` is a symbolic link, what it leads to is replaced.
    """
    target = os.path.realpath(path)
    folder, name = os.path.split(target)
    if os.path.exists(path) and not os.path.isfile(path):
        temporary = target = str(path)  # a pipe or a device is written to, not replaced
    else:
        os.makedirs(folder, exist_ok=True)
        temporary = f"{folder}/.{name}.{os.getpid()}"
    try:
        with open(temporary, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        if temporary != target:
            os.replace(temporary, target)
    except BaseException:
        if temporary != target and os.path.exists(temporary):
            os.unlink(temporary)
        raise


def find(word: str) -> Job:
    """The job that `word` names, or the task of an array: its run folder, or its id below ./runs.

    Raises UsageError where there is none.
    """
    if job := _recorded(word):
        return job
    match = re.fullmatch(r"(.*\d)(?:_(\d+)|\[(\d*)\](?:\..*)?)/?", word)
    array = _recorded(match[1]) if match else None
    if match and array:
        index = match[2] or match[3]
        if not index:
            return array
        if int(index) < array.tasks:
            return array.task(int(index))
    raise UsageError(f"no job {word!r} below ./{RUNS}; give an id or a run folder")


def _recorded(word: str) -> Job | None:
    direct = Path(word, "job.json")
    records = [direct] if direct.is_file() else []
    records += Path(RUNS).glob(f"*/{_escape(word.partition('.')[0])}/job.json")
    for record in records:
        fields = json.loads(record.read_text(encoding="utf-8"))
        lists = {key: tuple(fields.get(key, ())) for key in ("argv", "links")}
        return Job(**{**fields, **lists})
    return None


def ids() -> list[str]:
    """The ids of the jobs below ./runs, sorted."""
    return sorted(path.parent.name for path in Path(RUNS).glob("*/*/job.json"))


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
    except (IndexError, FileNotFoundError):
        return None
    return word, int(code)


def _escape(text: str) -> str:
    from glob import escape

    return escape(text)
