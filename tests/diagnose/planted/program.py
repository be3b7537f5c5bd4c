"""Training in small, with one fault, and what is true of it: `KIND.py NAME`, with this beside it.

Each kind of fault has its module, and a table of those that are a message and an end. A module
reads its table and enters what needs more in PLANTED; `plant_faults.py` runs them all. Nothing
here knows what jobgen says. Two nodes with two processes each; most do without torch, as its
import takes the most time.
"""

from __future__ import annotations

import builtins
import contextlib
import logging
import os
import re
import shlex
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

RANK = int(os.environ.get("RANK", "0"))
WORLD = int(os.environ.get("WORLD_SIZE", "1"))
LOCAL = int(os.environ.get("LOCAL_RANK", "0"))
Act = Callable[[], Any]


def nothing() -> None:
    """What is wrong is in the spec, or nothing is."""


class Truth(NamedTuple):
    """What is true of a fault: `ranks` whose fault it is ("all", "2", "1,3", "-" for none)."""

    causes: str  # ids, any of which is right
    ranks: str
    says: str  # a pattern that the diagnosis must show
    body: Act
    early: bool = False  # before the processes meet
    torch: bool = False
    mode: str = "slurm-direct"
    timeout: int = 300  # of collective operations, in seconds
    changes: Mapping[str, Any] = {}
    noise: Act = nothing  # what each rank prints first, which is no fault
    everywhere: bool = False  # each rank runs it, though it is the fault of some
    lost: Act | None = None  # how a rank says that it has no answer; else as gloo says it
    any_rank: bool = False  # the first of them ends the others before they can tell


PLANTED: dict[str, Truth] = {}


def planted(name: str, causes: str, ranks: str, says: str, **more: Any) -> Callable[[Act], Act]:
    """Enter a fault; its function runs in the third step of the ranks that have it."""

    def enter(body: Act) -> Act:
        PLANTED[name] = Truth(causes, ranks, says, body, **more)
        return body

    return enter


def run(words: str) -> dict[str, Any]:
    """The change of a spec that runs this command."""
    return {"run": {"command": shlex.split(words)}}


def shell(script: str) -> dict[str, Any]:
    """The change of a spec that runs this script."""
    return {"run": {"command": ["bash", "-c", script]}}


def setup(commands: str) -> dict[str, Any]:
    """The change of a spec that runs these before the program."""
    return {"environment": {"setup": commands}}


def read_table(module: str) -> None:
    """Enter the faults of a module's table: each a row, and below it the words that it is about.

    A row is `name | causes | ranks | what must be shown | mode | how | early, any_rank or nothing`.
    The words are the message of an exception, `Class` or `module:Class`; what is printed before
    `exit CODE`, negative for a signal; or a part of the spec: `run` a command, a `shell`, `setup`.
    """
    text = Path(module).with_suffix(".txt").read_text(encoding="utf-8")
    for head, *lines in (part.split("\n") for part in re.split(r"\n(?=[^\s])", text)):
        name, causes, ranks, says, mode, how, more = (part.strip() for part in head.split(" |"))
        words = "\n".join(line[4:] for line in lines).rstrip("\n")
        for written, meant in {r"\n": "\n", r"\x1b": "\x1b", r"\x20": " "}.items():
            words = words.replace(written, meant)
        changes = _IN_SPEC[how](words) if how in _IN_SPEC else {}
        body = nothing if changes else end_as(how, words)
        options = {"mode": mode, "changes": changes, **({more: True} if more else {})}
        PLANTED[name] = Truth(causes, ranks, says, body, **options)


_IN_SPEC = {"run": run, "shell": shell, "setup": setup}


def end_as(how: str, text: str) -> Act:
    """Return what ends as a row of a table says."""
    exits, code = how.startswith("exit "), how[5:]
    return say_and_end(text, int(code)) if exits else raise_with(how, text)


def raise_with(kind: str, text: str) -> Act:
    """Return what raises an error of this class, built in or of a package."""
    module, _, name = kind.rpartition(":")
    error = make_error(name, module) if module else getattr(builtins, name)

    def body() -> None:
        raise error(text)

    return body


def say_and_end(text: str, code: int) -> Act:
    """Return what prints like another program and ends as it does."""

    def body() -> None:
        if text:
            complain(text)
        if code < 0:
            signal.signal(-code, signal.SIG_DFL)
            os.kill(os.getpid(), -code)
        os._exit(code)

    return body


# --- what programs are made of --------------------------------------------------------------------


class Group:
    """Processes that add numbers over TCP, and complain as gloo does, or by `lost`."""

    def __init__(self, timeout: int, lost: Act | None = None) -> None:
        host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]) % 20_000 + 30_000
        self.timeout, self.lost = timeout, lost
        self.links: list[socket.socket] = []
        if RANK == 0:
            server = socket.create_server(("", port))
            server.settimeout(120)
            self.links = [server.accept()[0] for _ in range(WORLD - 1)]
        else:
            end = time.monotonic() + 120
            while not self.links:
                try:
                    self.links = [socket.create_connection((host, port), timeout=5)]
                except OSError:
                    if time.monotonic() > end:
                        raise
                    time.sleep(0.2)
        for link in self.links:
            link.settimeout(timeout)
        self.peers = {link: link.getpeername()[:2] for link in self.links}

    def add(self, value: float) -> float:
        """The sum over all."""
        if RANK:
            with contextlib.suppress(OSError):  # it is noticed as nothing comes back
                self.links[0].sendall(struct.pack("d", value))
            return self._hear(self.links[0])
        total = value + sum(map(self._hear, self.links))
        for link in self.links:
            with contextlib.suppress(OSError):  # it is noticed at the next step
                link.sendall(struct.pack("d", total))
        return total

    def _hear(self, link: socket.socket) -> float:
        try:
            return self._receive(link)
        except RuntimeError:
            if not self.lost:
                raise
        self.lost()
        raise SystemExit(1)

    def _receive(self, link: socket.socket) -> float:
        host, port = self.peers[link]
        place = "/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp"
        try:
            data = link.recv(8)
        except TimeoutError:
            text = f"Timed out waiting {self.timeout}000ms for recv operation to complete"
            raise RuntimeError(f"[{place}/unbound_buffer.cc:81] {text}") from None
        except ConnectionError:
            data = b""
        if not data:
            text = f"Connection closed by peer [{host}]:{port}"
            raise RuntimeError(f"[{place}/pair.cc:553] {text}")
        return float(struct.unpack("d", data)[0])


def complain(text: str) -> None:
    """Print to stderr, at once."""
    print(text, file=sys.stderr, flush=True)


def make_error(name: str, module: str = "") -> type[Exception]:
    """An exception class as a package has it that is not installed here."""
    return type(name, (Exception,), {"__module__": module or "__main__"})


def kill_self() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def stay() -> None:
    """As one that is stuck in something that it does alone."""
    time.sleep(600)


logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO)
logger = logging.getLogger("train")


def main() -> None:
    """Train; what the fault is happens before the processes meet or in the third step."""
    fault = PLANTED[sys.argv[1]]
    here = fault.everywhere or fault.ranks == "all"
    here = here or str(RANK) in fault.ranks.rstrip("?").split(",")
    fault.noise()
    if fault.early and here:
        fault.body()
    add: Callable[[float], float]
    if fault.torch:
        from datetime import timedelta

        import torch
        import torch.distributed as dist

        dist.init_process_group("gloo", timeout=timedelta(seconds=fault.timeout))

        def add(value: float) -> float:
            total = torch.tensor([value])
            dist.all_reduce(total)
            return float(total)
    else:
        add = Group(fault.timeout, fault.lost).add
    for step in range(6):
        if step == 2 and here:
            fault.body()
        print(f"step {step}: loss {add(RANK + 1.0):.3f}", flush=True)
        time.sleep(0.3)
