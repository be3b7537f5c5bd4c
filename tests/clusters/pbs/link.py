"""What the emulator's processes share: settings, refusals, messages over the server's socket."""

from __future__ import annotations

import json
import os
import socket

# Tests start commands thousands of times: what only types need is not imported.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

VERSION = "23.06.06"

DEFAULTS: dict[str, Any] = {
    "server": "login",  # the part of a job id after the number; PBS_SERVER
    "domain": "",  # with "cluster.test" node files hold n1.cluster.test
    "nodes": {
        "n1": {"ncpus": 16, "ngpus": 4, "mem": 64 * 2**20},  # memory in kB
        "n2": {"ncpus": 16, "ngpus": 4, "mem": 64 * 2**20},
        "n3": {"ncpus": 8, "ngpus": 2, "mem": 32 * 2**20},
    },
    "resources": [],  # names of further job-wide resources: storage, jobfs
    "queues": ["workq"],  # the first is the default
    # by queue: what qmgr has set beside queue_type, enabled and started; shown, not enforced
    "queue_attributes": {},
    "kill_delay": 120.0,  # seconds between SIGTERM and SIGKILL; really 10: too few under load
    "poll": 1.0,  # of the mom's checks; really 10, growing to 120
    "down_delay": 2.0,  # until a silent node counts as down; really 60 to 70
    "node_fail_requeue": 3.0,  # then until the job of a lost primary host is requeued; really 310
    "max_poll_downtime": 300.0,  # then until tasks of another lost host count as ended; as real
    "copy_retry": 0.5,  # between 4 tries to bring output home; really about 22
    "start_retry": 0.02,  # between 21 tries to start a job; really about 3
    "max_array_size": 10000,
    "flatuid": False,  # true: qsub and qdel are allowed inside a job
    "operators": False,  # true: users may qrerun and set what is read-only
    "history": False,  # job_history_enable; unset by default
    "home": "",  # the user's home folder, on all hosts
    "shared": [],  # folders that all hosts see although they lie in /tmp or /var/tmp
}

# Error numbers are the real ones; a command exits with `number & 255`.
UNKNOWN_JOB = 15001
UNDEFINED_ATTRIBUTE = 15002
READ_ONLY = 15003
PERMISSION = 15007
BAD_VALUE = 15014
BAD_STATE = 15016
UNKNOWN_QUEUE = 15018
BAD_USER = 15023
UNKNOWN_RESOURCE = 15035
UNKNOWN_SIGNAL = 15013
NOT_RERUNNABLE = 15038
HISTORY = 15139


class RefusedError(Exception):
    """A request the server, or a command, refuses: error number and message."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


def settings(run: Path | str) -> dict[str, Any]:
    """The settings in force: the defaults and what `settings.json` changes."""
    with open(f"{run}/settings.json") as file:
        return DEFAULTS | dict(json.load(file))


def change(run: Path, changes: dict[str, Any]) -> None:
    """Change settings of a running cluster; a value of None restores the default."""
    now = json.loads((run / "settings.json").read_text()) | changes
    now = {key: value for key, value in now.items() if value is not None}
    if unknown := now.keys() - DEFAULTS.keys():
        raise KeyError(f"no such setting: {', '.join(sorted(unknown))}")
    new = run / f"settings.json.{os.getpid()}"
    new.write_text(json.dumps(now))
    new.replace(run / "settings.json")


def host_name(node: str, domain: str) -> str:
    """A node's canonical name: what node files hold."""
    return f"{node}.{domain}" if domain else node


def client_host(run: Path | str) -> str:
    """The host a command runs on; what is not a node of the cluster counts as its login host."""
    now, name = settings(run), os.uname().nodename
    return host_name(name if name in now["nodes"] else now["server"], now["domain"])


class Link:
    """A command's connection to the server: one JSON object per line each way."""

    def __init__(self, run: Path | str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        try:
            self.socket.connect(f"{run}/server.sock")
        except OSError as error:
            text = f"cannot connect to server {settings(run)['server']} (errno=15010)"
            raise RefusedError(15010, text) from error

    def send(self, **message: Any) -> None:
        self.socket.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> dict[str, Any]:
        """The next message. Nothing is read beyond it, so that select() tells of the rest."""
        line = bytearray()
        while not line.endswith(b"\n"):
            ahead = self.socket.recv(65536, socket.MSG_PEEK)
            if not ahead:
                raise RefusedError(15010, "connection to the server is lost")
            line += self.socket.recv(ahead.find(b"\n") + 1 or len(ahead))
        return dict(json.loads(line))

    def ask(self, **message: Any) -> dict[str, Any]:
        """Send a request and return its answer; a refusal is raised."""
        self.send(**message)
        answer = self.receive()
        if "refused" in answer:
            raise RefusedError(answer["refused"], answer["text"])
        return answer
