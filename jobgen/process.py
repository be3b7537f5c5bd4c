"""The one place where jobgen starts a process."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

from jobgen.errors import Position, Problem, RefusedError, SchedulerUnavailableError, SpecError

TIMEOUT_SECONDS = 120


def run(argv: Sequence[str], *, timeout: float = TIMEOUT_SECONDS) -> str:
    """What a scheduler's command printed on stdout.

    Raises SchedulerUnavailableError where there is no such command or no answer in time, and
    RefusedError, with the command's own words, where it failed.
    """
    try:
        result = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=timeout,
        )
    except FileNotFoundError:
        raise SchedulerUnavailableError(
            f"there is no {argv[0]} command here; is this a login node of the cluster?"
        ) from None
    except PermissionError:
        raise SchedulerUnavailableError(f"{argv[0]} may not be run here") from None
    except subprocess.TimeoutExpired:
        raise SchedulerUnavailableError(f"{argv[0]} has not answered for {timeout:g} s") from None
    if result.returncode:
        words = (result.stderr.strip() or result.stdout.strip() or "no message")[:2000]
        raise RefusedError(f"{argv[0]} failed with exit code {result.returncode}: {words}")
    return result.stdout


def detach(argv: Sequence[str], *, environment: dict[str, str], output: str) -> int:
    """Start a process that outlives this one and the terminal; both its outputs go to a file.

    It leads a process group and session of its own. Returns its pid.
    """
    with open(output, "ab") as file:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
            start_new_session=True,
        )
    # It is not waited for: keep Python from complaining when the object goes.
    process.returncode = 0
    return process.pid


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
