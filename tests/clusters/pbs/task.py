"""What a mom's child does to become a task of a job."""

import contextlib
import os
import resource
import signal
import socket
import sys
from pathlib import Path
from typing import Any

SCRIPT = 1  # the task that is the job script


def become_task(request: dict[str, Any], report: int, listening: list[socket.socket]) -> None:
    """In the child: a session of its own, the job's output, the user, the program."""
    step = ""
    try:
        os.setsid()
        for number in range(1, signal.NSIG):
            with contextlib.suppress(OSError, ValueError):
                signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        core = 0 if request["task"] == SCRIPT else resource.RLIM_INFINITY
        for what, soft in ((resource.RLIMIT_CORE, core), (resource.RLIMIT_STACK, -1)):
            hard = resource.getrlimit(what)[1]
            if hard == resource.RLIM_INFINITY:
                resource.setrlimit(what, (soft, hard))
        os.initgroups(request["user"], request["gid"])
        os.setgid(request["gid"])
        os.setuid(request["uid"])
        os.umask(request["umask"])
        if request["stdin"]:
            source, sink = os.pipe()
            os.write(sink, request["stdin"].encode())
            os.close(sink)
        else:
            source = os.open("/dev/null", os.O_RDONLY)
        os.dup2(source, 0)
        for number, target in ((1, request["stdout"]), (2, request["stderr"])):
            step = f"{target}: "
            if isinstance(target, str):
                opened = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
            else:
                opened = socket.create_connection(target).detach()
            os.dup2(opened, number)
        step = ""
        if request["task"] == SCRIPT and listening and not os.fork():
            numbers = [listener.fileno() for listener in listening]
            for number in numbers:
                os.set_inheritable(number, True)
            program = [sys.executable, "-ESs", str(Path(__file__).parent / "demux.py")]
            os.execv(sys.executable, [*program, *map(str, numbers)])
        os.chdir(request["cwd"])
    except OSError as error:
        os.write(report, f"{step}{error.strerror}".encode())
        os._exit(255)
    os.set_inheritable(report, False)
    os.closerange(3, report)
    os.closerange(report + 1, 4096)
    argv, environment = request["argv"], request["environment"]
    try:
        encoded = {k: v.encode("utf-8", "surrogateescape") for k, v in environment.items()}
        words = [word.encode("utf-8", "surrogateescape") for word in argv]
        # A name without a slash is looked for in the task's PATH, not in the mom's.
        os.execvpe(request["program"], words, encoded)
    except (OSError, ValueError) as error:
        text = error.strerror if isinstance(error, OSError) else str(error)
        if request["task"] == SCRIPT:
            message = f"pbs_mom, exec of {request['program']} failed with error: {text}\n".encode()
        else:  # the real one prints memory that it has freed, not the program's name
            message = b"`\xd0\x15O\xf6: " + f"{text}\n".encode()
        os.write(2, message)
        os._exit(254)
