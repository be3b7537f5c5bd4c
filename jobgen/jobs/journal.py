"""The journal of submissions under way: each is on the disk before a scheduler hears of it.

runs/NAME/submissions/TOKEN.json      the intent: what is to be submitted, and by which process
                      TOKEN.sbatch    what the scheduler reads; its last line carries the token too
                      TOKEN.out .err  what the scheduler's command answers, even if jobgen has gone

All of them go once the job is on record, or it is certain that there is no job. The file's name is
the token by which a job is known in a scheduler's list.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, NoReturn

from jobgen import process
from jobgen.errors import (
    JobgenError,
    RecordError,
    RefusedError,
    SchedulerUnavailableError,
    UnsettledError,
    UsageError,
)
from jobgen.jobs.code import DIFF
from jobgen.jobs.files import (
    RUNS,
    get_mtime,
    read_if_left,
    read_run_file,
    sync_folders,
    write_run_file,
)
from jobgen.jobs.record import PLAN, RECORD, JobRecord, parse_record, read_sound
from jobgen.jobs.run_folder import CANCEL, list_attempts
from jobgen.rendering import header
from jobgen.schedulers import SCHEDULERS

FOLDER = "submissions"
# Seconds after which no scheduler still takes a job that was handed over, and no command still
# tries: sbatch and qsub get 120 s, and a scheduler may then have their request in its own queue.
LATE = 300
_KINDS = {"jobs": int, "pid": int, "boot": str, "diff": str, "source": str | None}


@dataclass(frozen=True)
class Intent:
    """A submission that is not settled. `job` has no id before a scheduler has given it one."""

    job: JobRecord
    jobs: int  # how many are submitted, each to go on where the one before has ended
    pid: int  # of the process that submits; 0 once that has given up
    started: int | None  # when that one has, in clock ticks since boot
    boot: str  # of its machine
    source: str | None  # the spec's text
    diff: str = ""  # of the code to git's commit

    @property
    def token(self) -> str:
        """The submission's own name."""
        return self.job.token

    @property
    def script(self) -> Path:
        """The script that the scheduler reads."""
        return Path(self.job.folder, name_script(self.job.name, self.token, self.job.scheduler))

    @property
    def path(self) -> Path:
        """Where the intent itself is kept."""
        return self.script.with_suffix(".json")

    @property
    def withdrawn(self) -> Path:
        """Where the script is once no scheduler may get it any more."""
        return self.script.with_suffix(".withdrawn")

    @property
    def output(self) -> Path:
        """What the scheduler's command has printed; there once it is started."""
        return self.script.with_suffix(".out")

    @property
    def errors(self) -> Path:
        """What the scheduler's command has printed on stderr."""
        return self.script.with_suffix(".err")

    @property
    def begun(self) -> bool:
        """Whether the hand-over has begun; before that there cannot be a job."""
        return (self.job.run_dir if self.job.local else self.output).exists()

    @property
    def when(self) -> str:
        """The submission's time of the day, for people."""
        return format_clock(self.job.submitted)

    @property
    def written(self) -> float:
        """When it was put on the disk, by the file server's clock."""
        return get_mtime(self.path) or self.job.submitted  # another process may have settled it

    @property
    def late(self) -> float:
        """The time, in seconds since 1970, from which on no job can come of it any more."""
        return self.written + LATE


def create_token() -> str:
    """Return a name for one submission that no other has, anywhere."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(6).hex()}"


def name_script(name: str, token: str, scheduler: str) -> Path:
    """Return what the scheduler is given to read, from the folder of submission."""
    return Path(RUNS, name, FOLDER, token + SCHEDULERS[scheduler].suffix)


def create_intent(job: JobRecord, *, jobs: int, source: str | None, diff: str) -> Intent:
    """Return the intent of this process to submit; nothing is written yet."""
    pid = os.getpid()
    return Intent(job, jobs, pid, process.get_start(pid), read_boot_id(), source, diff)


@contextlib.contextmanager
def keep_intent(intent: Intent, text: str, *, folders: Iterable[str]) -> Iterator[None]:
    """Have an intent, its script's `text` and `folders` on the disk while it is carried out.

    What is raised inside settles it, if it proves that there is no job: then all is removed. If it
    does not, it is released, and the next command settles it. Raises RecordError, and there is no
    job, for an OSError.
    """
    try:
        for folder in folders:
            os.makedirs(folder, exist_ok=True)
        _write_intent(intent, text)
        yield
        with contextlib.suppress(OSError):  # then the next command does it
            remove_intent(intent)
    except OSError as error:
        remove_intent(intent)
        where = error.filename or f"{RUNS}/{intent.job.name}"
        raise RecordError(f"{where}: {error.strerror}; nothing was submitted") from None
    except BaseException as error:
        unsettled = isinstance(error, UnsettledError)
        # A job is certain if the error has its id, and possible after Control-C.
        none = isinstance(error, JobgenError) and not error.job_id and not unsettled
        if none or not intent.begun:
            remove_intent(intent)
            raise
        _release_intent(intent)
        if unsettled:
            error.args = (
                f"{error}\nthe next 'jobgen submit' or 'jobgen list' finds the job; from "
                f"{format_clock(intent.late)} on it can also say that there is none; before that, "
                f"--again submits another job",
            )
        raise


def _write_intent(intent: Intent, text: str) -> None:
    """Put all on the disk, the script's text first."""
    from jobgen.spec.secrets import holds_secret  # of no use to who only looks

    content = json.dumps(asdict(intent), indent=1) + "\n"
    private = holds_secret(text + content)
    if text:
        write_run_file(intent.script, text, private=private)
    write_run_file(intent.path, content, private=private)
    # Another process may have made these folders, and not have had them on the disk.
    sync_folders(list(intent.script.parents)[1:4])


def _release_intent(intent: Intent) -> None:
    """Let others settle it, however long this process lives: it does nothing more about it."""
    with contextlib.suppress(OSError):  # they know when it ends
        if intent.path.exists():  # otherwise it is settled, and this process was interrupted after
            _write_intent(replace(intent, pid=0), "")


def withdraw_script(intent: Intent) -> None:
    """Take the script away, so that a process that has not handed it over never will."""
    if intent.script.exists():
        os.replace(intent.script, intent.withdrawn)


def remove_intent(intent: Intent) -> None:
    """Remove all files of a settled one. The intent goes first: it would mean less without them."""
    for path in (intent.path, intent.script, intent.withdrawn, intent.output, intent.errors):
        path.unlink(missing_ok=True)


def list_intents(name: str = "*") -> list[Path]:
    """Return the files of all intents below ./runs, the oldest first."""
    return sorted(Path(RUNS).glob(f"{name}/{FOLDER}/*.json"), key=lambda path: path.name)


def read_intent(path: Path) -> Intent | None:
    """Return the intent in a file; None if it is settled meanwhile.

    Raises UsageError if the file is something else.
    """
    try:
        values: Any = json.loads(read_run_file(path))
        job = replace(parse_record(values["job"]), folder=os.getcwd())
        intent = Intent(**{**values, "job": job})
        if not all(isinstance(vars(intent)[key], kind) for key, kind in _KINDS.items()):
            raise ValueError("its values do not fit")
        if not 0 < intent.jobs <= 10_000 or os.path.abspath(path) != str(intent.path):
            raise ValueError(f"it is of {intent.job.name}/{intent.token}")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not the record of a submission: {error}") from None
    return intent


def read_clock(folder: Path) -> float:
    """Return the time by the file server's clock, which alone may be compared with files' times.

    The clocks of two login nodes may differ by minutes.
    """
    from tempfile import TemporaryFile  # of use only to who settles something

    with TemporaryFile(dir=folder) as file:
        return os.fstat(file.fileno()).st_mtime


def list_rivals(intent: Intent) -> Iterator[Intent]:
    """Yield the other intents to submit the same."""
    for path in list_intents(intent.job.name):
        try:
            other = read_intent(path)
        except UsageError:  # `recover_submissions` reports it
            continue
        if other and other.token != intent.token and other.job.digest == intent.job.digest:
            yield other


# Who is at it.


def find_submitter(intent: Intent) -> Literal["alive", "gone", "elsewhere"]:
    """Return how its process is: `elsewhere` if that cannot be seen from here."""
    if intent.boot == read_boot_id():
        return "alive" if process.is_running(intent.pid, intent.started) else "gone"
    return "gone" if intent.job.host == os.uname().nodename else "elsewhere"


def find_command(intent: Intent) -> int | None:
    """Return the process of this machine that still hands it over though jobgen has gone."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if intent.token.encode() in path.read_bytes():
                return int(path.parent.name)
        except OSError:  # it has ended, or belongs to another user
            continue
    return None


# The record that comes of it.


def record_job(intent: Intent, ids: list[str]) -> JobRecord:
    """Put the job, whose chain has these ids, on record; to do it again changes nothing.

    Raises RefusedError, and the jobs are cancelled, if their run folder is that of another job.
    """
    job = _name_job(intent, ids)
    if not intent.job.id and (taken := _find_taken(intent, job)):
        _refuse_folder(intent, ids, job.id, taken)
    script = intent.script if intent.script.exists() else intent.withdrawn
    if script.exists():
        try:
            _write_record(job, script.read_bytes(), intent)
        except BaseException:
            if job.local:  # its script does not run then
                (job.run_dir / RECORD).unlink(missing_ok=True)
            raise
    elif job.token not in [known.token for known in read_sound([job.run_dir / RECORD])]:
        job.save()  # a crash has lost the script, and there is a job all the same
    return job


def _refuse_folder(intent: Intent, ids: list[str], job_id: str, taken: Path) -> NoReturn:
    """Cancel a job that would share the run folder of an earlier one."""
    _cancel_jobs(intent, ids)
    raise RefusedError(
        f"job {job_id} has the number of an earlier job, and would share its run folder "
        f"{os.path.relpath(taken)}; it is cancelled; submit it again, which gives another "
        f"number, or under another name with -J"
    )


def _name_job(intent: Intent, ids: list[str]) -> JobRecord:
    """Return the job with its ids; one that goes on in its run folder has these further ones."""
    job = intent.job
    if job.id and not job.local:
        (job.run_dir / CANCEL).unlink(missing_ok=True)
        return replace(job, links=(*job.links, *ids))
    return replace(job, id=ids[0], links=tuple(ids[1:]))


def _find_taken(intent: Intent, job: JobRecord) -> Path | None:
    """Return the run folder, its own or a task's, that another job has made.

    Schedulers begin their numbers again, and two of them may share a file system.
    """
    known = [one.token for one in read_sound([job.run_dir / RECORD])]
    if not {"", job.token}.issuperset(known):  # one without may be this job, adopted meanwhile
        return job.run_dir
    tasks = job.run_dir.parent.glob(f"{job.run_dir.name}_*") if job.tasks else ()
    return next((folder for folder in (job.run_dir, *tasks) if _has_other(intent, folder)), None)


def _has_other(intent: Intent, run_dir: Path) -> bool:
    """Return whether a run folder has an attempt that is not of this submission."""
    older = (one for one in list_attempts(run_dir) if get_mtime(one) < intent.written)
    return any(intent.token not in read_if_left(f"{attempt}/script") for attempt in older)


def _cancel_jobs(intent: Intent, ids: list[str]) -> None:
    """Cancel jobs, the last of a chain first; if it fails, their script ends them as they start."""
    with contextlib.suppress(SchedulerUnavailableError, OSError):
        process.ask(SCHEDULERS[intent.job.scheduler].cancel_argv(ids[::-1]))


def _write_record(job: JobRecord, script: bytes, intent: Intent) -> None:
    """Write the record of a job, and what was submitted beside it; all is on the disk then."""
    from jobgen.spec.secrets import holds_secret, mask_override

    text = script.decode(errors="replace")
    files = {"script": text, "job.yaml": intent.source, DIFF: intent.diff or None}
    private = holds_secret("\n".join(filter(None, files.values())))
    if about := header.read(text):
        about = about._replace(overrides=tuple(map(mask_override, about.overrides)))
        files[PLAN] = header.write_json(about) + "\n"
    for name, content in files.items():
        if content is not None:
            write_run_file(job.run_dir / name, content, private=private and name != PLAN)
    job.save()
    sync_folders([job.run_dir.parent])


def format_clock(seconds: float) -> str:
    """Return a time of the day, for people."""
    return time.strftime("%H:%M:%S", time.localtime(seconds))


def read_boot_id() -> str:
    """Return what tells one run of this machine from the next; empty if unknown."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
