"""The one place where jobgen starts a process."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from jobgen.errors import (
    NoAnswerError,
    Position,
    Problem,
    RefusedError,
    SchedulerUnavailableError,
    SpecError,
)
from jobgen.records import NamedTuple

TIMEOUT_SECONDS = 120
_ON_LOGIN_NODE = "; is this a login node of the cluster?"


# With these words a scheduler's command says that its server has not heard it.
NOT_HEARD = re.compile(r"connect failure|cannot connect|connection refused", re.IGNORECASE)


class CommandResult(NamedTuple):
    """What a command has printed, its exit code, and its words: one that has failed has some."""

    output: str
    code: int
    words: str

    def refusal(self, command: str) -> str:
        """Return a sentence for people about a command that has failed."""
        return f"{command} failed with exit code {self.code}: {self.words[:2000]}"


def run(
    argv: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT_SECONDS,
) -> str:
    """Run a scheduler's command; return what it prints on stdout.

    Raises as `ask`, and RefusedError, with the command's own words, if it fails.
    """
    answer = ask(argv, environment=environment, timeout=timeout)
    if answer.code:
        raise RefusedError(answer.refusal(argv[0]))
    return answer.output


def ask(
    argv: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT_SECONDS,
) -> CommandResult:
    """Run a scheduler's command; return its answer, whatever its exit code.

    Raises SchedulerUnavailableError if there is no such command or no answer in time.
    """
    with _translate_failures(argv, question=_ON_LOGIN_NODE):
        result = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            env=environment,
            timeout=timeout,
        )
    words = result.stderr.strip()
    if result.returncode:
        words = words or result.stdout.strip() or "no message"
    return CommandResult(result.stdout, result.returncode, words)


def run_into(argv: Sequence[str], *, output: Path, errors: Path) -> None:
    """Run a scheduler's command; what it prints is added to files.

    So it is not lost if this process does not live to read it. Raises as `run` does, and OSError
    if the files cannot be written: then the command was not run.
    """
    named = _translate_failures(argv, question=_ON_LOGIN_NODE)
    with open(output, "ab") as out, open(errors, "wb") as err, named:
        result = subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err, timeout=TIMEOUT_SECONDS
        )
        with suppress(OSError):
            os.fsync(out.fileno())
    if result.returncode:
        words = ""
        with suppress(OSError):  # it has run, whatever becomes of its words
            words = errors.read_text(errors="replace").strip()
        words = words or "no message"
        raise RefusedError(CommandResult("", result.returncode, words).refusal(argv[0]))


@contextmanager
def _translate_failures(argv: Sequence[str], *, question: str = "") -> Iterator[None]:
    """Raise jobgen's own errors for a command that cannot be run, or does not come back."""
    try:
        yield
    except FileNotFoundError:
        raise SchedulerUnavailableError(f"there is no {argv[0]} command here{question}") from None
    except PermissionError:
        message = f"{argv[0]} cannot be run here: permission denied"
        raise SchedulerUnavailableError(message) from None
    except subprocess.TimeoutExpired as error:
        message = f"{argv[0]} did not answer within {error.timeout:g} s"
        raise NoAnswerError(message) from None


class Held:
    """A child that waits for the end of a `with` block; it does not run if this process dies first.

    It outlives this process and the terminal, and leads its own process group and session.
    """

    # If this process ends without a word, the child reads the end of its input.
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

    def __enter__(self) -> Held:
        """Let it begin at the end of the block, unless that raises an exception."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Release it, or leave it alone: then it ends."""
        gate = self._process.stdin
        assert gate is not None
        if kind is None:
            gate.write(b"\n")
        gate.close()
        # It is not waited for: keep Python from complaining when the object goes.
        self._process.returncode = 0

    @classmethod
    def waits(cls, pid: int | None) -> bool:
        """Return whether a process is such a child that has not begun."""
        try:
            return cls._GATE.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return False


def get_start(pid: int | None) -> int | None:
    """Return when a living process started, in clock ticks since boot (proc(5), field 22)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def is_running(pid: int | None, started: int | None) -> bool:
    """Return whether the process that began at that time still runs; False if there is none."""
    return pid is not None and pid > 1 and started is not None and get_start(pid) == started


def list_marked(marks: Collection[str]) -> list[int]:
    """Return the user's processes of this machine that have one of these, NAME=VALUE, around them.

    They are a job's, whoever started them; a process that has ended meanwhile is left out.
    """
    wanted = {mark.encode() for mark in marks}
    marked = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # it has ended, or is another user's
            about = path.stat()
            if about.st_uid == os.geteuid() and wanted & {*path.read_bytes().split(b"\0")}:
                marked.append(int(path.parent.name))
    return marked


def check_syntax(script: str, setup: Position) -> None:
    """Raise SpecError if bash cannot parse `script`; the reason is the spec's own setup.

    Where no bash can be asked, as in a browser, nothing is known of it.
    """
    try:
        result = subprocess.run(["bash", "-n"], input=script.encode(), capture_output=True)
    except OSError:
        return
    if result.returncode:
        words = "; ".join(result.stderr.decode(errors="replace").splitlines())
        raise SpecError([Problem(setup, "environment.setup", f"not valid bash: {words}")])


def filter_text(argv: Sequence[str], text: bytes, *, cpu_seconds: int) -> str:
    """Return what a command prints for a text; nothing if it does not exist, or takes longer."""

    def limit() -> None:
        import resource  # which the page in a browser does not have

        resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))

    try:
        result = subprocess.run(
            argv, input=text, capture_output=True, timeout=TIMEOUT_SECONDS, preexec_fn=limit
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return "" if result.returncode < 0 else result.stdout.decode(errors="replace")


#: options of `git ls-files` for files that it neither knows nor ignores, but for run folders
NEW_FILES = ("-o", "--exclude-standard", "--exclude=runs")


def list_tracked_files(folder: str = ".", *options: str) -> list[str] | None:
    """Return the files that git knows in a folder and that are there; None if it is none of git's.

    Those of its submodules are among them. With options of `git ls-files`, such as --others, those
    that git lists. Paths begin with the folder's.
    """
    options = options or ("--recurse-submodules",)
    try:
        answer = ask(["git", "-C", folder, "ls-files", "-z", *options])
    except SchedulerUnavailableError:
        return None
    if answer.code:
        return None
    names = filter(None, answer.output.split("\0"))
    paths = [os.path.normpath(os.path.join(folder, name)) for name in names]
    return [path for path in paths if os.path.isfile(path)]


def list_absent_submodules() -> list[str]:
    """Return the submodules below this folder that are not checked out, which a dash marks."""
    with suppress(SchedulerUnavailableError):
        answer = ask(["git", "submodule", "status", "--recursive", "."])
        return re.findall(r"(?m)^-\w+ (.+)", answer.output)
    return []


def run_here(argv: Sequence[str], *, environment: Mapping[str, str] | None = None) -> int:
    """Run a command in the place of this process, terminal and all; return its exit code.

    `environment` is added to this one's. Ctrl-C is the command's. Raises
    SchedulerUnavailableError if there is no such command.
    """
    around = {**os.environ, **(environment or {})}
    with _translate_failures(argv), subprocess.Popen(argv, env=around) as process:
        while True:
            with suppress(KeyboardInterrupt):
                code = process.wait()
                return 128 - code if code < 0 else code


def replace_process(argv: Sequence[str]) -> NoReturn:
    """Become another program, so that what ends this process ends that one.

    Raises SchedulerUnavailableError if there is no such command.
    """
    with _translate_failures(argv):
        os.execvp(argv[0], list(argv))


def run_attached(argv: Sequence[str], sent: bytes, take: Callable[[bytes], bytes]) -> int:
    """Run a command that is given `sent`; pass on what it prints as it comes; return its exit code.

    What `take` returns is sent in answer. What the command prints as errors goes where this
    process's do. Its standard input ends when this process does. Raises SchedulerUnavailableError
    if there is no such command.
    """
    with _translate_failures(argv):
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        while True:
            with suppress(BrokenPipeError):  # its exit code tells
                process.stdin.write(sent)
                process.stdin.flush()
            if not (chunk := os.read(process.stdout.fileno(), 65536)):
                break
            sent = take(chunk)
        code = process.wait()
        with suppress(BrokenPipeError):
            process.stdin.close()
        return code
