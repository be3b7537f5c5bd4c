"""pbsdsh and pbs_tmrsh: programs on the hosts of a job, as tasks of their moms."""

import os
import re
import select
import signal
import socket
import sys
from pathlib import Path
from typing import Any

from link import Link, RefusedError

PBSDSH_USAGE = """\
Usage: pbsdsh [-c copies][-s][-v][-o] -- program [args...]
       pbsdsh [-n node_index][-s][-v][-o] -- program [args...]
       pbsdsh --version
Where -c copies =  run a copy of "program" on the first "copies" nodes,
      -n node_index = run a copy of "program" on the "node_index"-th node,
      -h hostname = run a copy of "program" on the node named by hostname,
      -s = forces synchronous execution,
      -v = forces verbose output.
      -o = no obits are waited for.
"""
TMRSH_USAGE = """\
usage: pbs_tmrsh [-n][-l username] host [-n][-l username] command
       pbs_tmrsh --version
"""
FORWARDED = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


class Tasks(Link):
    """A connection to the task manager of this process's job."""

    def __init__(self, run: str) -> None:
        super().__init__(run)
        hello = {"job": os.environ.get("PBS_JOBID"), "cookie": os.environ.get("PBS_JOBCOOKIE")}
        if not all(hello.values()):
            raise RefusedError(17005, "bad environment (17005) (17005)")
        self.nodes: list[str] = self.ask(op="tm", **hello)["nodes"]


class SignalledError(Exception):
    """A signal that pbsdsh forwards has come."""


class Pbsdsh:
    """The copies by their place in the order of starting, and which have not ended."""

    def __init__(self, tasks: Tasks, *, verbose: bool, wait: bool) -> None:
        self.tasks = tasks
        self.verbose = verbose
        self.wait = wait
        self.running: dict[int, int] = {}  # copy -> task id
        self.ended: dict[int, int] = {}  # task id -> status that came early
        self.signal = 0
        # A signal writes to `waker`, so that a wait for the server ends at once.
        self.woken, waker = socket.socketpair()
        waker.setblocking(False)
        signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        self.waker = waker
        for number in FORWARDED:
            signal.signal(number, self._note)

    def _note(self, number: int, _: Any) -> None:
        self.signal = number

    def _receive(self) -> dict[str, Any]:
        """The server's next message, or SignalledError."""
        while True:
            if self.signal:
                raise SignalledError
            ready, _, _ = select.select([self.tasks.socket, self.woken], [], [])
            if self.tasks.socket in ready:
                return self.tasks.receive()

    def spawn(self, copy: int, node: int, argv: list[str]) -> None:
        self.tasks.send(op="spawn", node=node, argv=argv)
        while True:
            message = self._receive()
            if "error" in message:
                print(f"error {message['error']} on spawn", file=sys.stderr)
                return
            if "task" in message:
                self.running[copy] = message["task"]
                if self.verbose:
                    print(f"pbsdsh: spawned task 0x{copy:08X} on logical node {node} event 2")
                return
            self.ended[message["obit"]] = message["status"]

    def join(self) -> None:
        """Until every copy has ended; a status that is not 0 gives a line."""
        while self.running and self.wait:
            for copy, task in list(self.running.items()):
                if task in self.ended:
                    status = self.ended.pop(task)
                    del self.running[copy]
                    if status or self.verbose:
                        print(f"pbsdsh: task 0x{copy:08X} exit status {status}")
            if self.running:
                message = self._receive()
                self.ended[message["obit"]] = message["status"]

    def forward(self) -> None:
        for task in self.running.values():
            if task not in self.ended:
                print(f"pbsdsh: killing task 0x{task:08X} signal {self.signal}")
                self.tasks.send(op="kill", task=task, signal=self.signal)


def _parse(arguments: list[str]) -> tuple[dict[str, str], list[str]]:
    """pbsdsh's options and the program with its arguments; RefusedError(1) is a usage error."""
    options: dict[str, str] = {}
    rest = list(arguments)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word == "--":
            break
        letters = word[1:]
        while letters:
            letter, letters = letters[0], letters[1:]
            if letter in "svo":
                options[letter] = ""
            elif letter in "cnh" and (letters or rest):
                options[letter], letters = letters or rest.pop(0), ""
            else:
                raise RefusedError(1, f"pbsdsh: invalid option -- '{letter}'\n{PBSDSH_USAGE}")
    for letter in "cn":
        if letter in options:  # as C's atoi(): what is no number is 0
            found = re.match(r"\s*[+-]?\d+", options[letter])
            options[letter] = found[0] if found else "0"
            if int(options[letter]) < 0:
                raise RefusedError(1, PBSDSH_USAGE)
    if not rest or ("c" in options and ("n" in options or "h" in options)):
        raise RefusedError(1, PBSDSH_USAGE)
    return options, rest


def pbsdsh(run: str, arguments: list[str]) -> int:
    options, argv = _parse(arguments)
    if "PBS_ENVIRONMENT" not in os.environ:
        raise RefusedError(1, "pbsdsh: not executing under PBS")
    try:
        tasks = Tasks(run)
    except RefusedError as refused:
        raise RefusedError(1, f"pbsdsh: tm_init failed, rc = {refused.text}") from None
    start, count = 0, len(tasks.nodes)
    if "h" in options:
        file = os.environ.get("PBS_NODEFILE")
        names = Path(file).read_text().split() if file else []
        if options["h"] not in names:
            raise RefusedError(1, PBSDSH_USAGE)
        start, count = names.index(options["h"]), 1
    elif "n" in options:
        start, count = int(options["n"]), 1
    elif "c" in options:
        count = int(options["c"])
    copies = Pbsdsh(tasks, verbose="v" in options, wait="o" not in options)
    try:
        for copy in range(count):
            copies.spawn(copy, (start + copy) % len(tasks.nodes), argv)
            if "s" in options:
                copies.join()
        copies.join()
    except SignalledError:
        copies.forward()
        return 1
    except RefusedError:
        raise RefusedError(2, "pbsdsh: Event poll failed, error TM_ESYSTEM") from None
    return 0


def tmrsh(run: str, arguments: list[str]) -> int:
    rest = list(arguments)
    host = ""
    while rest and (rest[0].startswith("-") or not host):
        word = rest.pop(0)
        if not word.startswith("-"):
            host = word
        elif word.startswith("-l"):
            if word == "-l" and rest:
                rest.pop(0)
        elif word != "-n":
            raise RefusedError(255, TMRSH_USAGE)
    if not host or not rest:
        raise RefusedError(255, TMRSH_USAGE)
    if "PBS_ENVIRONMENT" not in os.environ:
        raise RefusedError(255, "pbs_tmrsh: not executing under PBS")
    file = os.environ.get("PBS_NODEFILE")
    if not file:
        raise RefusedError(255, "pbs_tmrsh: cannot find PBS_NODEFILE")
    if "PBS_JOBID" not in os.environ:
        raise RefusedError(255, "pbs_tmrsh: PBS jobid not in environment")
    try:
        tasks = Tasks(run)
    except RefusedError as refused:
        raise RefusedError(255, f"pbs_tmrsh: tm_init: {refused.text}") from None
    names = Path(file).read_text().split()
    matching = [at for at, name in enumerate(names) if host in (name, _address(name))]
    if not matching:
        job = os.environ["PBS_JOBID"]
        raise RefusedError(255, f'pbs_tmrsh: host "{host}" is not a node in job <{job}>')
    answer = tasks.ask(op="spawn", node=matching[0], argv=rest)
    if "error" in answer:
        text = f'pbs_tmrsh: tm_poll(spawn): host "{host}" err TM_ESYSTEM {answer["error"]}'
        raise RefusedError(255, text)
    return int(tasks.receive()["status"]) & 255


def _address(name: str) -> str:
    try:
        return socket.gethostbyname(name)
    except OSError:
        return ""
