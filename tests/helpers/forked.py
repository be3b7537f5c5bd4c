"""Forked Python processes that have PyTorch imported already, which otherwise takes seconds.

This is for tests of what a program does, not of how it starts. A server imports torch and the
trainer once, or what else it is asked for, computes nothing, and forks: a child gets the folder,
environment, arguments and streams that it is asked to have, and runs its module or script as Python
would. Under torchrun the agent is such a child, and forks its ranks before it does anything else.
What needs another environment while it imports has a server of its own.

What a job starts can be one of these too: `ask_by(server, script)` are the words of a small process
that has the child run with its own environment, folder and streams, and ends as it does.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import io
import json
import os
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
TORCHRUN = "torch.distributed.run"
#: what the trainer and torchrun have imported by the time they begin
MODULES = ("jobgen.trainer.commands", "jobgen.trainer.flags", "jobgen.trainer.run")
MODULES += ("jobgen.trainer.tasks.gpt", "pydoc_data.topics")
MODULES += ("torch._inductor.utils", "torch._numpy", TORCHRUN)
MODULES += ("torch.distributed.elastic.agent.server.local_elastic_agent",)
MODULES += ("torch.distributed.elastic.rendezvous.c10d_rendezvous_backend",)
#: beginnings of the names of variables that Python and these modules read before they begin
EARLY = ("GOMP", "KMP_", "LANG", "LC_", "LD_", "LOGLEVEL", "MALLOC_", "MKL_", "OMP_")
EARLY += ("OPENBLAS_", "PYTHON", "PYTORCH_", "TORCHINDUCTOR_", "TORCH_", "TRITON_")
_LONGEST = 1 << 17  # bytes of a request


class Request(NamedTuple):
    """What a child is to be."""

    words: Sequence[str]  # those after Python's name
    folder: str
    environment: Mapping[str, str]


class Forked:
    """A process that was forked elsewhere: what tests use of `subprocess.Popen`."""

    def __init__(self, pid: int, status: socket.socket | None) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._status = status

    def poll(self) -> int | None:
        """Return the exit status, or None while the process runs."""
        if self.returncode is None:
            if self._status is None:  # a child of this very process
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                self.returncode = os.waitstatus_to_exitcode(status) if pid else None
            elif select.select([self._status], [], [], 0)[0]:
                self.returncode = int(self._status.recv(20) or -signal.SIGKILL)
                self._status.close()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status once there is one."""
        end = None if timeout is None else time.monotonic() + timeout
        while (status := self.poll()) is None:
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
            if self._status:
                select.select([self._status], [], [], left)
            else:
                time.sleep(0.02)
        return status

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End the process."""
        self.send_signal(signal.SIGKILL)


class Server:
    """A process that forks others, and ends with whoever has started it.

    It imports `modules` before.
    """

    def __init__(self, environment: Mapping[str, str], modules: Sequence[str] = MODULES) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="forked-"))
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(str(self.folder / "socket"))
            listener.listen(100)
            self.process = subprocess.Popen(
                [sys.executable, __file__, str(listener.fileno()), *modules],
                env=dict(environment),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                pass_fds=[listener.fileno()],
            )

    def end(self) -> None:
        """End the server and what still runs of its children."""
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()
        shutil.rmtree(self.folder)


def pick_early(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that have to be there before anything is imported."""
    return {k: v for k, v in environment.items() if k.startswith(EARLY)}


def run_server(modules: Sequence[str]) -> Iterator[Server]:
    """Hand out a server that has imported these modules, with one thread; a fixture's body."""
    server = Server({**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}, modules)
    yield server
    server.end()


def ask_for(path: str, request: Request, streams: Sequence[int]) -> Forked:
    """Have the server at `path` fork a child with these streams: input, output, errors."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(path)
    socket.send_fds(connection, [json.dumps(request).encode()], streams)
    return Forked(int(connection.recv(20)), connection)


def ask_by(server: Server, *words: str) -> list[str]:
    """Return the command of a process that stands for a child: Python on `words`."""
    return [sys.executable, __file__, str(server.folder / "socket"), *words]


def _stand_for(path: str, words: Sequence[str]) -> int:
    """Have a child run in the place of this process; returns its exit status."""
    child = ask_for(path, Request(words, os.getcwd(), dict(os.environ)), [0, 1, 2])
    status = child.wait()
    return status if status >= 0 else 128 - status


#: by what they have imported, and with which variables
_servers: dict[tuple[Sequence[str], str], Server] = {}


def start_python(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdout: IO[str],
    stderr: IO[str] | None = None,
    modules: Sequence[str] = MODULES,
) -> Forked:
    """Start Python on what follows its name in `argv`; without `stderr` all goes into one file."""
    errors = stderr or stdout
    kind = (modules, json.dumps(pick_early(env), sort_keys=True))
    if kind not in _servers:
        _servers[kind] = Server(env, modules)
        atexit.register(_servers[kind].end)
    server = _servers[kind]
    with open(os.devnull) as nothing:
        streams = [nothing.fileno(), stdout.fileno(), errors.fileno()]
        path = str(server.folder / "socket")
        return ask_for(path, Request(argv[1:], str(cwd), dict(env)), streams)


def _serve(listener: socket.socket) -> Request | None:
    """Fork a child for each request; returns in the child with it, and without one at the end."""
    children: dict[int, socket.socket] = {}
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        ready = select.select([listener, woken, sys.stdin, *children.values()], [], [])[0]
        if woken in ready:
            os.read(woken, 4096)
            while children and (ended := os.waitpid(-1, os.WNOHANG))[0]:
                with children.pop(ended[0]) as status, suppress(OSError):
                    status.send(str(os.waitstatus_to_exitcode(ended[1])).encode())
        for pid, status in children.items():
            if sys.stdin in ready or status in ready:  # whoever asked for it is gone
                os.kill(pid, signal.SIGKILL)
        if sys.stdin in ready:
            return None
        if listener in ready:
            status, _ = listener.accept()
            data, streams, _, _ = socket.recv_fds(status, _LONGEST, 3)
            if (pid := os.fork()) == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                signal.signal(signal.SIGINT, signal.default_int_handler)
                for open_socket in (listener, status, *children.values()):
                    open_socket.detach()
                request = Request(*json.loads(data))
                _take_over(request, streams)
                return request
            children[pid] = status
            status.send(str(pid).encode())
            for fd in streams:
                os.close(fd)


def _take_over(request: Request, streams: Sequence[int]) -> None:
    """Become what is asked, but for running it; `streams` are the last of the usual three."""
    for number, fd in enumerate(streams, start=3 - len(streams)):
        os.dup2(fd, number)
    os.closerange(3, 1024)
    os.chdir(request.folder)
    os.environ.clear()
    os.environ.update(request.environment)
    tempfile.tempdir = None


def _become(request: Request) -> None:
    """Run the module, script or input of a request in this process, as Python does."""
    words = list(request.words)
    if words[0] == "-u":
        words.pop(0)
        bare = io.FileIO(1, "w", closefd=False)
        streams = (sys.stdout.encoding, sys.stdout.errors)
        sys.stdout = sys.__stdout__ = io.TextIOWrapper(bare, *streams, write_through=True)  # type: ignore
    if words[0] == "-m":
        sys.argv[:], sys.path[0] = words[1:], os.getcwd()
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif words[0] == "-":
        sys.argv[:] = words
        exec(sys.stdin.read(), vars(sys.modules["__main__"]))
    else:
        sys.argv[:], sys.path[0] = words, str(Path(words[0]).resolve().parent)
        runpy.run_path(words[0], run_name="__main__")


def _fork_ranks(request: Request) -> Request:
    """Fork the ranks that torchrun will start; returns in each of them with what it is to be."""
    from torch.distributed.elastic.multiprocessing.subprocess_handler import SubprocessHandler

    (count,) = (x.partition("=")[2] for x in request.words if x.startswith("--nproc-per-node="))
    idle: list[tuple[int, socket.socket]] = []
    for _ in range(int(count)):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if (pid := os.fork()) == 0:
            os.setsid()
            theirs.send(b"ready")
            for open_socket in (ours, *(other for _, other in idle)):
                open_socket.close()
            data, streams, _, _ = socket.recv_fds(theirs, _LONGEST, 2)
            if not data:
                os._exit(0)  # the agent has ended
            theirs.detach()
            asked = Request(*json.loads(data))
            _take_over(asked, streams)
            return asked
        theirs.close()
        ours.recv(20)
        idle.append((pid, ours))
    usual = SubprocessHandler._popen

    def start(
        self: SubprocessHandler, args: tuple[str, ...], env: dict[str, str]
    ) -> Forked | subprocess.Popen[bytes]:
        if not idle or args[0] != sys.executable:
            return usual(self, args, env)
        pid, control = idle.pop(0)
        streams = [
            (own or usual).fileno()
            for own, usual in ((self._stdout, sys.stdout), (self._stderr, sys.stderr))
        ]
        with control:
            asked = json.dumps(Request(args[1:], os.getcwd(), env))
            socket.send_fds(control, [asked.encode()], streams)
        return Forked(pid, None)

    SubprocessHandler._popen = start  # type: ignore
    return request


def _prepare(modules: Sequence[str]) -> None:
    """Import what children need, and make sure that a fork harms none of it."""
    for name in modules:
        importlib.import_module(name)
    sys.modules.pop(TORCHRUN, None)  # or Python warns that it is there before it is run
    assert len(os.listdir("/proc/self/task")) == 1, "threads do not survive a fork"
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    if not sys.argv[1].isdigit():
        sys.exit(_stand_for(sys.argv[1], sys.argv[2:]))
    _prepare(sys.argv[2:])
    to_run = _serve(socket.socket(fileno=int(sys.argv[1])))
    if to_run and to_run.words[:2] == ["-m", TORCHRUN] and "--no-python" not in to_run.words:
        to_run = _fork_ranks(to_run)
    if to_run:
        _become(to_run)
