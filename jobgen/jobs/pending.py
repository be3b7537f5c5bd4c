"""Submissions under way: each is on the disk before a scheduler hears of it.

runs/NAME/submissions/TOKEN.json      the intent: what is to be submitted, and by which process
                      TOKEN.sbatch    what the scheduler reads; its last line carries the token too
                      TOKEN.out .err  what the scheduler's command answers, be jobgen there or not

All of them go once the job is on record, or it is certain that there is no job. The file's name is
the token by which a scheduler's list of jobs tells whose a job is.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from jobgen import process, schedulers
from jobgen.errors import UsageError
from jobgen.jobs.code import DIFF
from jobgen.jobs.record import (
    PLAN,
    RUNS,
    JobRecord,
    parse_record,
    read_left,
    read_run_file,
    write_run_file,
)
from jobgen.jobs.run_folder import list_attempts
from jobgen.output import sync_folder
from jobgen.rendering import header

FOLDER = "submissions"
# Seconds after which no scheduler still takes a job that was handed over, and no command still
# tries: sbatch and qsub get 120 s, and a scheduler may then have their request in its own queue.
LATE = 300
_MARK = "#\n"  # before each answer
_OLD = 24 * 3600  # seconds
_LITTER = re.compile(r"\.?[0-9]{8}-[0-9]{6}-[0-9a-f]{12}(\.[a-z]+)?(\.[0-9a-f]{12})?")


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
        script = name_script(self.job.name, self.token, self.job.scheduler)
        return Path(self.job.folder, script)

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
    def when(self) -> str:
        """The submission's time of the day, for people."""
        return format_clock(self.job.submitted)

    @property
    def late(self) -> float:
        """The time, in seconds since 1970, from which on no job can come of it any more."""
        try:
            return self.path.stat().st_mtime + LATE
        except FileNotFoundError:  # another process has settled it
            return self.job.submitted + LATE


# The journal: what is on the disk at which step.


def create_token() -> str:
    """Return a name for one submission that no other has, anywhere."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(6).hex()}"


def name_script(name: str, token: str, scheduler: str) -> Path:
    """Return what the scheduler is given to read, from the folder of submission."""
    return Path(RUNS, name, FOLDER, token + schedulers.get_scheduler(scheduler).suffix)


def create_intent(job: JobRecord, *, jobs: int, source: str | None, diff: str) -> Intent:
    """Return the intent of this process to submit; nothing is written yet."""
    pid = os.getpid()
    return Intent(job, jobs, pid, process.get_start(pid), read_boot_id(), source, diff)


def write_intent(intent: Intent, text: str) -> None:
    """Put all on the disk, the script's text first. Raises OSError if that cannot be done."""
    try:
        write_run_file(intent.script, text, private=_holds_secret(text))
        _save(intent)
        # Another process may have made these folders, and not have had them on the disk.
        for folder in list(intent.script.parents)[1:4]:
            sync_folder(folder)
    except OSError:
        remove_intent(intent)
        raise


def release_intent(intent: Intent) -> None:
    """Let others settle it, however long this process lives: it does nothing more about it."""
    with contextlib.suppress(OSError):  # they know when it ends
        _save(replace(intent, pid=0))


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
        if not all(isinstance(value, int) for value in (intent.jobs, intent.pid)):
            raise ValueError("its values do not fit")
        texts = (intent.boot, intent.source or "", intent.diff)
        if not all(isinstance(text, str) for text in texts):
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


def read_clock(intent: Intent) -> float:
    """Return the time by the file server's clock, which alone may be compared with files' times.

    The clocks of two login nodes may differ by minutes.
    """
    path = intent.path.with_name(f".{intent.token}.{os.urandom(6).hex()}")
    try:
        path.touch(exist_ok=False)
        return path.stat().st_mtime
    finally:
        path.unlink(missing_ok=True)


def sweep_litter(name: str = "*") -> None:
    """Remove what killed commands have left in folders of submissions, once it is a day old.

    That are temporary files, and the files of a submission whose intent has gone.
    """
    for folder in Path(RUNS).glob(f"{name}/{FOLDER}"):
        with contextlib.suppress(OSError):
            litter = [
                path
                for path in folder.iterdir()
                if _LITTER.fullmatch(path.name)
                and path.suffix != ".json"
                and not path.with_suffix(".json").exists()
            ]
            if not litter:
                continue
            probe = folder / f".{create_token()}"
            probe.touch(exist_ok=False)  # by the file server's clock, as in `read_clock`
            now = probe.stat().st_mtime
            probe.unlink()
            for path in litter:
                if path.lstat().st_mtime + _OLD < now:
                    path.unlink(missing_ok=True)


def list_rivals(intent: Intent) -> Iterator[Intent]:
    """Yield the other intents to submit the same."""
    for path in list_intents(intent.job.name):
        try:
            other = read_intent(path)
        except UsageError:  # `recover_submissions` reports it
            continue
        if other and other.token != intent.token and other.job.digest == intent.job.digest:
            yield other


def _save(intent: Intent) -> None:
    private = _holds_secret(f"{intent.source or ''}{intent.diff}")
    write_run_file(intent.path, json.dumps(asdict(intent), indent=1) + "\n", private=private)


def _holds_secret(text: str) -> bool:
    from jobgen.spec.secrets import holds_secret  # of no use to who only looks

    return holds_secret(text)


# The hand-over: who is at it, and what was answered.


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


def begin_answer(intent: Intent) -> None:
    """Have the files for the answer on the disk before the scheduler's command is run.

    So their absence proves that it was not, but for a power cut on a file server that does not
    keep its word. Each answer stands below a mark of its own.
    """
    for path, mark in ((intent.output, _MARK), (intent.errors, "")):
        with open(path, "a") as file:
            file.write(mark)
            file.flush()
            os.fsync(file.fileno())
    sync_folder(intent.output.parent)


def rewrite_answers(intent: Intent, ids: list[str]) -> None:
    """Put ids that the scheduler's list has in the place of answers that were none."""
    write_run_file(intent.output, "".join(f"{_MARK}{job_id}\n" for job_id in ids))


def read_ids(intent: Intent) -> list[str]:
    """Return the ids that the scheduler's commands have printed, up to an answer that is not one.

    An answer is one id on a line that has its end: half of it may be another job's.
    """
    try:
        answers = read_left(intent.output).split(_MARK)
    except FileNotFoundError:
        return []
    parse = schedulers.get_batch_scheduler(intent.job.scheduler).parse_job_id
    ids: list[str] = []
    for answer in filter(None, answers):
        lines = [line for line in answer.split("\n") if line.strip()]
        job_id = parse(lines[0]) if len(lines) == 1 and answer.endswith("\n") else None
        if not job_id or job_id in ids:
            break
        ids.append(job_id)
    return ids[: intent.jobs]


# The record that comes of it.


def record_job(intent: Intent, ids: list[str]) -> JobRecord:
    """Put the job, whose chain has these ids, on record; to do it again changes nothing."""
    job = replace(intent.job, id=ids[0], links=tuple(ids[1:]))
    earlier = {}
    if job.tasks:
        for folder in job.run_dir.parent.glob(f"{job.run_dir.name}_*"):
            if count := _count_earlier(intent, folder):
                earlier[folder.name] = count
    job = replace(job, first_attempt=_count_earlier(intent, job.run_dir), earlier=earlier)
    path = intent.script if intent.script.exists() else intent.withdrawn
    write_record(job, path.read_bytes(), intent)
    return job


def write_record(job: JobRecord, text: str | bytes, intent: Intent) -> None:
    """Write the record of a job, and what was submitted beside it; all is on the disk then."""
    from jobgen.spec.secrets import mask_override

    script = text if isinstance(text, str) else text.decode(errors="replace")
    write_run_file(job.run_dir / "script", text, private=_holds_secret(script))
    about = header.read(script)
    if about is not None:
        about = about._replace(overrides=tuple(map(mask_override, about.overrides)))
        write_run_file(job.run_dir / PLAN, header.write_json(about) + "\n")
    for name, content in (("job.yaml", intent.source), (DIFF, intent.diff or None)):
        if content is not None:
            write_run_file(job.run_dir / name, content, private=_holds_secret(content))
    job.save()
    sync_folder(job.run_dir.parent)


def format_clock(seconds: float) -> str:
    """Return a time of the day, for people."""
    return time.strftime("%H:%M:%S", time.localtime(seconds))


def _count_earlier(intent: Intent, run_dir: Path) -> int:
    """Count the attempts in a run folder that are not of this submission: ids are used again."""
    begun = intent.late - LATE
    for count, attempt in enumerate(attempts := list_attempts(run_dir)):
        try:
            own = intent.token in read_left(attempt / "script")
        except OSError:
            own = False
        if own or attempt.stat().st_mtime >= begun:
            return count
    return len(attempts)


def read_boot_id() -> str:
    """Return what tells one run of this machine from the next; empty if unknown."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
