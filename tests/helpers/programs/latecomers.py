"""Programs of kinds that no other list here has, each with one fault: `latecomers.py NAME`.

Searches, servers of metrics, queues on disk, solvers, agents, pipelines. `others.py` runs them.
"""

from __future__ import annotations

import argparse
import contextlib
import decimal
import ipaddress
import multiprocessing
import os
import select
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import types
import uuid
import xml.etree.ElementTree as ElementTree
import zoneinfo
from pathlib import Path
from typing import Any

import others
from others import PLANTED, RANK, complain, kill_self, logger, planted, raise_with

KNOWN_BEFORE = set(PLANTED)


def shell(script: str) -> dict[str, Any]:
    """The change of a spec that starts this one by a shell."""
    return {"run": {"command": ["bash", "-c", script]}}


@planted(
    "pipe-head",
    "left-early or peer-lost or exit -13 or exit 1 or exception or exit 0",
    "2",
    "",
    changes=shell(
        "if [ $RANK = 2 ]; then python train.py pipe-head | head -n 1; exit; fi; "
        "python train.py pipe-head"
    ),
)
def print_into_head() -> None:
    while True:
        print("another line of words", flush=True)
        time.sleep(0.05)


planted(
    "subshell-code",
    "exit 77 or exception",
    "1",
    "no licence",
    mode="slurm",
    changes=shell("(python train.py subshell-code) || exit 77"),
)(raise_with(":PermissionError", "no licence for the solver"))
planted(
    "timeout-tool",
    "exit 124 or exit 1 or hang or collective-timeout",
    "all",
    "124|time",
    mode="pbs-direct",
    changes=shell("timeout 5 python train.py timeout-tool; exit $?"),
)(lambda: time.sleep(60))
planted(
    "semicolon-hides",
    "left-early or exception",
    "3",
    "fold 9",
    mode="pbs-direct",
    changes=shell("python train.py semicolon-hides; echo finished"),
)(raise_with(":LookupError", "there is no fold 9"))


@planted("decimal", "exception", "1", "ConversionSyntax|InvalidOperation")
def parse_decimal() -> None:
    decimal.Decimal("3,14")


@planted("time-zone", "exception", "0", "Mars", mode="slurm")
def find_zone() -> None:
    zoneinfo.ZoneInfo("Mars/Olympus")


@planted("xml", "exception", "2", "mismatched tag|ParseError", mode="pbs-direct")
def parse_xml() -> None:
    ElementTree.fromstring("<a><b></a>")


@planted("address", "exception", "3", "does not appear to be", mode="pbs")
def parse_address() -> None:
    ipaddress.ip_address("10.0.0")


@planted("choice-of-one", "bad-argument or exit 2", "1", "invalid choice")
def parse_choice() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fold", choices=["a", "b"])
    parser.parse_args(["--fold", "z"])


@planted("mp-child-died", "exception", "2", "solver", mode="slurm")
def watch_child() -> None:
    child = multiprocessing.get_context("fork").Process(target=lambda: os._exit(9))
    child.start()
    child.join()
    if child.exitcode:
        raise RuntimeError(f"the solver's process ended with {child.exitcode}")


@planted("mp-pipe", "exception", "0", "EOFError", mode="pbs-direct")
def read_of_child() -> None:
    here, there = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=lambda: os._exit(0))
    child.start()
    there.close()
    here.recv()


@planted("trapped-term", "exit 143 or exit -15", "1", "", mode="slurm-direct")
def end_by_handler() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)


@planted("waits-for-file", "collective-timeout or hang", "2", "", timeout=6)
def wait_for_file() -> None:
    while not Path("ready.flag").exists():
        time.sleep(0.5)


@planted("waits-for-input", "exception", "3", "EOF", mode="slurm")
def ask() -> None:
    input("continue? [y/N] ")


@planted(
    "dead-lock-of-threads", "collective-timeout or hang", "1", "", timeout=6, mode="pbs-direct"
)
def lock_twice() -> None:
    lock = threading.Lock()
    with lock:
        lock.acquire()


@planted("sleeps-in-poll", "collective-timeout or hang", "0", "", timeout=6, mode="pbs")
def poll_forever() -> None:
    select.select([], [], [], 60)


@planted("restarts-itself", "exception", "2", "second life", mode="slurm-direct")
def exec_again() -> None:
    os.execv(
        sys.executable, [sys.executable, "-c", "raise RuntimeError('no state in the second life')"]
    )


@planted("stderr-closed", "exit 3", "1", "exit code 3")
def close_errors() -> None:
    os.close(2)
    os._exit(3)


@planted("bytes-in-log", "exit 4", "3", "no beam", mode="pbs-direct")
def print_bytes() -> None:
    sys.stderr.buffer.write(b"\xff\xfe\x00 header\nERROR no beam is left\n")
    sys.stderr.flush()
    os._exit(4)


@planted("exit-by-string-object", "exit 1 or exception", "0", "bad seed")
def leave_by_object() -> None:
    sys.exit(types.SimpleNamespace(reason="bad seed"))  # type: ignore[arg-type]


@planted("sql-locked", "exception", "1", "database is locked", mode="slurm")
def lock_database() -> None:
    one, two = (
        sqlite3.connect(f"study-{os.getpid()}.db", timeout=0.1, isolation_level=None) for _ in "12"
    )
    one.execute("create table trials (n)")
    one.execute("begin exclusive")
    two.execute("insert into trials values (1)")


@planted("uuid", "exception", "2", "badly formed", mode="pbs")
def parse_uuid() -> None:
    uuid.UUID("trial-7")


@planted("rm-tree", "file-missing", "3", "scratch-9", mode="pbs-direct")
def remove_tree() -> None:
    shutil.rmtree("scratch-9")


@planted("accused-solver", "exception", "2", "rank 0 of the solver", mode="slurm-direct")
def accuse_solver() -> None:
    raise RuntimeError("rank 0 of the solver has not answered; its grid is empty")


@planted("accused-peer-log", "exit -9 or killed", "1", "SIGKILL", mode="slurm")
def accuse_and_die() -> None:
    complain("WARNING: rank 3 is missing from the metrics for 5 s")
    kill_self()


@planted("reaper", "exit 1 or exception", "0", "budget", mode="pbs-direct")
def stop_search() -> None:
    logger.error("search stopped: budget of 0 trials is spent")
    sys.exit(1)


@planted("nested-finally", "exception", "3", "division by zero", mode="slurm-direct")
def fail_in_finally() -> None:
    try:
        raise KeyError("fitness")
    finally:
        1 / 0  # noqa: B018


@planted("suppressed-then-leaves", "left-early", "2", "", mode="pbs-direct")
def suppress_and_leave() -> None:
    with contextlib.suppress(Exception):
        raise ValueError("the front is empty")
    os._exit(0)


@planted("awk-fails", "exception", "1", "exit status 2|awk", mode="slurm")
def call_awk() -> None:
    subprocess.run(["awk", "BEGIN {"], check=True)


@planted("all-different", "exception", "all", "grid", early=True, mode="pbs-direct")
def fail_each() -> None:
    raise ValueError(f"rank {RANK}: grid of {RANK + 3} points has no interior")


NAMES = sorted(set(PLANTED) - KNOWN_BEFORE)


if __name__ == "__main__":
    others.main()
