"""Submissions under way: each is on the disk before a scheduler hears of it.

runs/NAME/submissions/TOKEN.json      the intent: what is to be submitted, and by which process
                      TOKEN.sbatch    what the scheduler reads; its last line carries the token too
                      TOKEN.out .err  what the scheduler's command answers, be jobgen there or not

All of them go once the job is on record, or it is sure that there is none. The file's name is the
token by which a scheduler's list of jobs tells whose a job is.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from jobgen import process, runs, schedulers
from jobgen.errors import UsageError
from jobgen.runs import RUNS, Job

FOLDER = "submissions"
# Seconds after which nobody takes a job any more that was handed over, and no command still tries:
# sbatch and qsub get 120 s, and a scheduler may then have their request in its own queue.
LATE = 300


def new_token() -> str:
    """A name for one submission that no other has, anywhere."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(6).hex()}"


def script_file(name: str, token: str, scheduler: str) -> Path:
    """What the scheduler is given to read, from the folder of submission."""
    return Path(RUNS, name, FOLDER, token + schedulers.get(scheduler).suffix)


@dataclass(frozen=True)
class Intent:
    """A submission that is not settled. `job` has no id before a scheduler has given it one."""

    job: Job
    jobs: int  # how many are submitted, each to go on where the one before has ended
    pid: int  # of the process that submits; 0 once that has given up
    started: int | None  # when that one has, in clock ticks since boot
    boot: str  # of its machine
    source: str | None  # the spec's text

    @property
    def token(self) -> str:
        """The submission's own name."""
        return self.job.token

    @property
    def file(self) -> Path:
        """The script that the scheduler reads."""
        return Path(self.job.folder, script_file(self.job.name, self.token, self.job.scheduler))

    @property
    def output(self) -> Path:
        """What the scheduler's command has printed; there once it is started."""
        return self.file.with_suffix(".out")

    @property
    def errors(self) -> Path:
        """What the scheduler's command has said on stderr."""
        return self.file.with_suffix(".err")

    @property
    def when(self) -> str:
        """The submission's time of the day, for people."""
        return clock(self.job.submitted)

    @property
    def late(self) -> float:
        """The time, in seconds since 1970, from which on no job can come of it any more."""
        try:
            return self._path.stat().st_mtime + LATE
        except FileNotFoundError:  # somebody else has settled it
            return self.job.submitted + LATE

    @property
    def _path(self) -> Path:
        return self.file.with_suffix(".json")

    @property
    def _withdrawn(self) -> Path:
        return self.file.with_suffix(".withdrawn")

    def begin(self, text: str) -> None:
        """Put all on the disk, the script's text first. Raises OSError where that cannot be."""
        try:
            runs.write_atomically(self.file, text, sync=True)
            self._save()
            for folder in (self.file.parent.parent, self.file.parent.parent.parent):
                runs.sync_folder(folder)
        except OSError:
            self.end()
            raise

    def leave(self) -> None:
        """This process does nothing more about it; others may settle it, however long it lives."""
        with contextlib.suppress(OSError):  # they know when it ends
            replace(self, pid=0)._save()

    def _save(self) -> None:
        runs.write_atomically(self._path, json.dumps(asdict(self), indent=1) + "\n", sync=True)

    def text(self) -> str:
        """The script."""
        path = self.file if self.file.exists() else self._withdrawn
        return path.read_text(encoding="utf-8")

    def ids(self) -> list[str]:
        """The ids that the scheduler's command has printed; none where there is anything else."""
        try:
            lines = self.output.read_text(encoding="utf-8", errors="replace").split("\n")
        except FileNotFoundError:
            return []
        parse = schedulers.batch(self.job.scheduler).parse_job_id
        found = [parse(line) for line in lines if line.strip()]
        return [job_id for job_id in found if job_id] if all(found) else []

    def withdraw(self) -> None:
        """Take the script away, so that a process that has not handed it over never will."""
        if self.file.exists():
            os.replace(self.file, self._withdrawn)

    def end(self) -> None:
        """Nothing is open any more. The intent goes first: without the rest it would say less."""
        for path in (self._path, self.file, self._withdrawn, self.output, self.errors):
            path.unlink(missing_ok=True)

    def record(self, ids: list[str]) -> Job:
        """Put the job, whose chain has these ids, on record; to do it again changes nothing."""
        job = replace(self.job, id=ids[0], links=tuple(ids[1:]))
        earlier = {}
        if job.tasks:
            for folder in job.run_dir.parent.glob(f"{job.run_dir.name}_*"):
                if count := self._earlier(folder):
                    earlier[folder.name] = count
        job = replace(job, first_attempt=self._earlier(job.run_dir), earlier=earlier)
        self.keep(job, self.text())
        return job

    def keep(self, job: Job, text: str) -> None:
        """Put a job on record, and what was submitted beside it."""
        runs.write_atomically(job.run_dir / "script", text, sync=True)
        if self.source is not None:
            runs.write_atomically(job.run_dir / "job.yaml", self.source, sync=True)
        job.save()

    def _earlier(self, run_dir: Path) -> int:
        """How many attempts in a run folder are not of this submission: ids are used again."""
        begun = self.late - LATE
        for count, attempt in enumerate(found := runs.attempts(run_dir)):
            try:
                own = self.token in (attempt / "script").read_text(errors="replace")
            except OSError:
                own = False
            if own or attempt.stat().st_mtime >= begun:
                return count
        return len(found)

    def who(self) -> str:
        """`alive` while its process submits, `gone`, or `elsewhere` where that cannot be seen."""
        if self.boot == _boot():
            return "alive" if process.started(self.pid) == self.started else "gone"
        return "gone" if self.job.host == os.uname().nodename else "elsewhere"

    def in_flight(self) -> int | None:
        """A process of this machine that still hands it over though jobgen has gone."""
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if self.token.encode() in path.read_bytes():
                    return int(path.parent.name)
            except OSError:  # it has ended, or is not for us to see
                continue
        return None


def intend(job: Job, *, jobs: int, source: str | None) -> Intent:
    """The intent of this process to submit."""
    pid = os.getpid()
    return Intent(job, jobs, pid, process.started(pid), _boot(), source)


def clock(seconds: float) -> str:
    """A time of the day, for people."""
    return time.strftime("%H:%M:%S", time.localtime(seconds))


def pending(name: str = "*") -> list[Path]:
    """The files of all intents below ./runs, the oldest first."""
    return sorted(Path(RUNS).glob(f"{name}/{FOLDER}/*.json"), key=lambda path: path.name)


def read(path: Path) -> Intent | None:
    """The intent in a file; None where it is settled meanwhile.

    Raises UsageError where the file is something else.
    """
    try:
        found: Any = json.loads(path.read_bytes())
        job = runs.from_fields(found["job"])
        intent = Intent(**{**found, "job": job})
        whole = [intent.jobs, intent.pid]
        if not all(isinstance(value, int) for value in whole) or intent.token != path.stem:
            raise ValueError("its values are not those of one")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"{path}: is no record of a submission: {error}") from None
    return intent


def others(intent: Intent) -> Iterable[Intent]:
    """Intents to submit the same."""
    for path in pending(intent.job.name):
        try:
            other = read(path)
        except UsageError:  # `settle` says so
            continue
        if other and other.token != intent.token and other.job.digest == intent.job.digest:
            yield other


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
