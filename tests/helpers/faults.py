"""Kill `jobgen submit` before each of its effects: files, folders, processes.

Python reports effects as audit events, so new code is covered too.
"""

from __future__ import annotations

import importlib
import os
import re
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import support
from jobs import list_modules
from support import Ended

# Imported here, so that no child has to: its effects are the command's.
for name in list_modules():
    importlib.import_module(name)

# Events that change something, beside `open` for writing, or of a folder, to have it on the disk.
_EFFECTS = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "subprocess.Popen"}
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_DIRECTORY


def in_a_child(action: Callable[[], Ended], folder: Path, env: Mapping[str, str]) -> Ended | None:
    """The result of `action`, a command, in another process; None if that was killed."""
    read_end, write_end = os.pipe()
    variables = dict(env)
    pid = os.fork()
    if pid == 0:
        os.close(read_end)
        _begin(folder, variables)
        code = 70
        try:
            code, out, err = action()
            os.write(write_end, f"{out}\0{err}".encode())
        except BaseException:
            os.write(write_end, f"\0{traceback.format_exc()}".encode())
        os._exit(code)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as file:
        out, _, err = file.read().decode().partition("\0")
    _, status = os.waitpid(pid, 0)
    return None if os.WIFSIGNALED(status) else Ended(os.WEXITSTATUS(status), out, err)


def _begin(folder: Path, variables: Mapping[str, str]) -> None:
    """Make a child of this process what a command finds.

    Nothing here takes the power away: what is written need not get to the disk, for which
    hundreds of commands at a time would wait most of their time.
    """
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(folder)
    os.fsync = lambda _: None


def at_once(
    actions: Iterable[Callable[[], Ended]], folder: Path, env: Mapping[str, str]
) -> list[int]:
    """Run commands at once, in processes of their own; their exit codes, -9 of one killed."""
    pids, variables = [], dict(env)
    for action in actions:
        pid = os.fork()
        if pid == 0:
            _begin(folder, variables)
            code = 70
            try:
                code = action().code
            finally:
                os._exit(code)
        pids.append(pid)
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]


def command(*words: str) -> Callable[[], Ended]:
    """A command of jobgen."""
    return lambda: support.jobgen(*words)


def killed(number: int, of: str, *words: str) -> Callable[[], Ended]:
    """The same, by SIGKILL before its effect of that number on what is like `of`."""

    def action() -> Ended:
        count = 0

        def watch(event: str, arguments: tuple[object, ...]) -> None:
            nonlocal count
            writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITES
            if (event in _EFFECTS or writes) and re.search(of, f"{event} {arguments}"):
                if count == number:
                    os.kill(os.getpid(), signal.SIGKILL)
                count += 1

        sys.addaudithook(watch)
        return support.jobgen(*words)

    return action


def points(folder: Path, env: Mapping[str, str], *words: str, of: str = "") -> Iterator[Path]:
    """A folder below this one for each effect, in which the command is killed before it.

    Whoever iterates puts the spec into the folder, and calls `next` again for what is left there:
    each folder comes twice. The last is of the command that came to its end. Only effects count
    whose event and arguments are like the pattern `of`.
    """
    for number in range(200):
        here = folder / str(number)
        here.mkdir(parents=True)
        yield here
        ended = in_a_child(killed(number, of, *words), here, env)
        yield here
        if ended is not None:
            assert ended.code == 0, ended
            return
    raise AssertionError("it has more than 200 effects")
