"""Errors and their exit codes; the table of codes in README is part of the API."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from jobgen.records import NamedTuple

EXIT_CODES = """\
0 ok, 1 unexpected error, 2 wrong usage, 3 spec or site profile invalid, 4 a script is
stale, 5 the scheduler refused, 6 the scheduler's command is missing or does not answer, 7 the job
failed (wait, submit --wait), 8 lint or doctor found something, 9 imported with losses,
130 interrupted"""


class Position(NamedTuple):
    """A place in a document; line and column count from 1, and are 0 if unknown."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


class Problem(NamedTuple):
    """A problem in a document: its place and key, what is wrong, and how to write it.

    `setting` is what `--set` takes to solve it, where the key alone tells that.
    """

    where: Position
    path: str
    message: str
    hint: str = ""
    setting: str = ""

    def __str__(self) -> str:
        path = self.path if self.where.file != f"--set {self.path}" else ""
        parts = [str(self.where), path, self.message]
        return ": ".join(part for part in parts if part) + (f"; {self.hint}" if self.hint else "")


class JobgenError(Exception):
    """A problem that the user can solve; `exit_code` is that of the process.

    Bugs are other exceptions. `job_id` is set if a job was submitted nevertheless; `warnings` are
    about what was refused; `problems` are those of a document.
    """

    exit_code = 1
    job_id = ""
    warnings: tuple[str, ...] = ()
    problems: Sequence[Problem] = ()


class UsageError(JobgenError):
    """The command line cannot be carried out as it is written."""

    exit_code = 2


class AlreadySubmittedError(UsageError):
    """The same script is queued, running, or being submitted."""


class SpecError(JobgenError):
    """A job spec or site profile is invalid; `problems` has all problems, in document order.

    `plan` is what was decided in spite of them.
    """

    exit_code = 3

    def __init__(
        self, problems: Iterable[Problem], warnings: Iterable[str] = (), plan: Any = None
    ) -> None:
        self.problems = sorted(problems, key=lambda problem: problem.where)
        self.warnings, self.plan = tuple(warnings), plan
        super().__init__("\n".join(str(problem) for problem in self.problems))


class StaleError(JobgenError):
    """A committed script differs from what its spec renders."""

    exit_code = 4


class RefusedError(JobgenError):
    """The scheduler refused; `cancelled` has the jobs that were ended nevertheless."""

    exit_code = 5
    cancelled: tuple[str, ...] = ()


class SchedulerUnavailableError(JobgenError):
    """The scheduler's command is missing or does not answer."""

    exit_code = 6


class NoAnswerError(SchedulerUnavailableError):
    """The scheduler's command was started and did not return; its effect is not known."""


class UnsettledError(SchedulerUnavailableError):
    """It is not known yet whether the submission became a job."""


class RecordError(JobgenError):
    """A record cannot be written: the disk is full, or permission is denied."""


class JobFailedError(JobgenError):
    """The job ended without being done."""

    exit_code = 7


class FaultsFoundError(JobgenError):
    """The examined files have faults, which are on stdout."""

    exit_code = 8


class LossesError(JobgenError):
    """A script was imported with losses, which are on stderr."""

    exit_code = 9
