"""A signal ends the process."""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
import time
import traceback
from pathlib import Path

from program import complain, kill_self, logger, main, planted, read_table, setup

read_table(__file__)


@planted("interrupted", "exception or exit -2", "2", "KeyboardInterrupt|SIGINT", mode="slurm")
def interrupt() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(5)


@planted("terminated-from-outside", "exit -15 or killed or exception", "2", "SIGTERM")
def terminate_itself() -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(9)


@planted("alarm", "exit -14", "2", "SIGALRM", mode="local-direct")
def ring() -> None:
    signal.alarm(1)
    time.sleep(20)


@planted("trapped-term", "exit 143 or exit -15", "1", "", mode="slurm-direct")
def end_by_handler() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)


@planted("accused-peer-log", "exit -9 or killed", "1", "SIGKILL", mode="slurm")
def accuse_and_die() -> None:
    complain("WARNING: rank 3 is missing from the metrics for 5 s")
    kill_self()


@planted("stops-its-parent", "exit -15 or exit 143 or exit 1 or unknown", "2?", "", mode="slurm")
def stop_parent() -> None:
    os.kill(os.getppid(), signal.SIGTERM)
    time.sleep(60)


@planted("retried-then-killed", "exit -9 or killed", "2", "SIGKILL")
def recover_and_die() -> None:
    for _ in range(2):
        try:
            Path("/local/cache/shard-17.bin").read_bytes()
        except FileNotFoundError:
            traceback.print_exc()
    logger.info("shard 17 was fetched again; going on")
    os.kill(os.getpid(), signal.SIGKILL)


@planted("interrupted-by-thread", "exception or exit -2 or exit 130 or exit 1", "2", "loss is inf")
def interrupt_main() -> None:
    def watch() -> None:
        complain("watchdog: loss is inf since 200 steps, interrupting the main thread")
        _thread.interrupt_main()

    threading.Thread(target=watch).start()
    time.sleep(30)


@planted(
    "cpu-limit",
    "exit -24",
    "all",
    "SIGXCPU|CPU time",
    mode="local-direct",
    any_rank=True,
    changes=setup("ulimit -St 4"),
)
def burn() -> None:
    while True:
        pass


if __name__ == "__main__":
    main()
