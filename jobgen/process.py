"""The one place where jobgen starts a process."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from jobgen.errors import (
    NoAnswerError,
    Position,
    Problem,
    RefusedError,
    SchedulerUnavailableError,
    SpecError,
)

TIMEOUT_SECONDS = 120


class Answer(NamedTuple):
    """What a command has printed, its exit code, and its words where that is not 0."""

    output: str
    code: int
    words: str

    def refusal(self, command: str) -> str:
        """A sentence for people about a command that has failed."""
        return f"{command} failed with exit code {self.code}: {self.words[:2000]}"


def run(argv: Sequence[str], *, timeout: float = TIMEOUT_SECONDS) -> str:
    """What a scheduler's command printed on stdout.

    Raises as `ask`, and RefusedError, with the command's own words, where it failed.
    """
    answer = ask(argv, timeout=timeout)
    if answer.code:
        raise RefusedError(answer.refusal(argv[0]))
    return answer.output


def ask(
    argv: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT_SECONDS,
) -> Answer:
    """What a scheduler's command answers, whose exit code does not say if that is any use.

    Raises SchedulerUnavailableError where there is no such command or no answer in time.
    """
    with _failures(argv):
        result = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            env=environment,
            timeout=timeout,
        )
    words = result.stderr.strip() or result.stdout.strip() or "no message"
    return Answer(result.stdout, result.returncode, words if result.returncode else "")


def run_into(argv: Sequence[str], *, output: Path, errors: Path) -> None:
    """Run a scheduler's command; what it prints is added to files.

    So it is not lost where this process does not live to read it. Raises as `run` does, and OSError
    where the files cannot be written: then the command was not run.
    """
    with open(output, "ab") as out, open(errors, "wb") as err, _failures(argv):
        result = subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err, timeout=TIMEOUT_SECONDS
        )
    if result.returncode:
        words = errors.read_text(errors="replace").strip() or "no message"
        raise RefusedError(Answer("", result.returncode, words).refusal(argv[0]))


@contextmanager
def _failures(argv: Sequence[str]) -> Iterator[None]:
    """The errors of a command that cannot be run, or does not come back, as jobgen's own."""
    try:
        yield
    except FileNotFoundError:
        raise SchedulerUnavailableError(
            f"there is no {argv[0]} command here; is this a login node of the cluster?"
        ) from None
    except PermissionError:
        raise SchedulerUnavailableError(f"{argv[0]} may not be run here") from None
    except subprocess.TimeoutExpired as error:
        seconds = error.timeout
        raise NoAnswerError(f"{argv[0]} has not answered for {seconds:g} s") from None


class Held:
    """A process that waits for `release` before it does anything, and ends where nobody says it.

    It outlives this one and the terminal, and leads a process group and session of its own.
    """

    # What this process has not said before it ends is the end of the file for that one.
    _GATE = 'read -r _ || exit; exec "$@" </dev/null'

    def __init__(
        self, argv: Sequence[str], *, environment: dict[str, str], output: str | Path
    ) -> None:
        with open(output, "ab") as file:
            self._process = subprocess.Popen(
                ["bash", "-c", self._GATE, "gate", *argv],
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment},
                start_new_session=True,
            )
        self.pid = self._process.pid

    def release(self) -> None:
        """Let it begin."""
        gate = self._process.stdin
        assert gate is not None
        gate.write(b"\n")
        self.forget()

    def forget(self) -> None:
        """Leave it alone; it ends where it was not released."""
        gate = self._process.stdin
        assert gate is not None
        gate.close()
        # It is not waited for: keep Python from complaining when the object goes.
        self._process.returncode = 0

    @classmethod
    def waits(cls, pid: int) -> bool:
        """Whether a process is such a one that has not begun."""
        try:
            return cls._GATE.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return False


def started(pid: int | None) -> int | None:
    """When a living process started, in clock ticks since boot (proc(5), field 22); else None."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def check_syntax(script: str, setup: Position) -> None:
    """Raise SpecError where bash cannot parse `script`; the one reason is the spec's own setup."""
    result = subprocess.run(["bash", "-n"], input=script.encode(), capture_output=True)
    if result.returncode:
        words = result.stderr.decode(errors="replace").strip()
        raise SpecError([Problem(setup, "environment.setup", f"is not bash: {words}")])


def attached(argv: Sequence[str]) -> int:
    """The exit code of a command that prints where this one does.

    Its standard input ends when this process does. Raises SchedulerUnavailableError where there is
    no such command.
    """
    try:
        with subprocess.Popen(argv, stdin=subprocess.PIPE) as process:
            return process.wait()
    except FileNotFoundError:
        raise SchedulerUnavailableError(f"there is no {argv[0]} command here") from None
