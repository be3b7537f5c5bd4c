"""A rank waits for something of its own: a lock, a file, a thread, a sleep without end."""

from __future__ import annotations

import atexit
import faulthandler
import multiprocessing
import os
import queue
import select
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from program import RANK, complain, main, nothing, planted, run, shell

SHORT = {"resources": {"walltime": "1m"}}


def read_slowly() -> None:
    """As from a file system that hangs."""
    time.sleep(60)


def kill_child(_: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@planted("lock-file", "collective-timeout", "2", "lock", torch=True, timeout=15, mode="slurm")
def wait_for_a_lock() -> None:
    print("waiting for cache.lock", flush=True)
    time.sleep(90)


@planted("long-evaluation", "collective-timeout", "0", "evaluat", timeout=12)
def evaluate_long() -> None:
    print("rank 0 evaluates", flush=True)
    time.sleep(60)


planted("hang-at-once", "hang or walltime", "-", "", changes={**run("sleep 600"), **SHORT})(nothing)


@planted("prefetch-thread", "collective-timeout", "2", "cannot decode image 17", timeout=12)
def lose_a_thread() -> None:
    def prefetch() -> None:
        raise RuntimeError("prefetch thread: cannot decode image 17.jpg")

    thread = threading.Thread(target=prefetch, name="prefetch")
    thread.start()
    thread.join()
    time.sleep(40)


@planted("stopped-rank", "collective-timeout", "3", "did not take part", timeout=12)
def stop_itself() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


@planted("hang-at-the-end", "hang", "3", "", changes=SHORT)
def hang_at_the_end() -> None:
    print("finished", flush=True)
    atexit.register(time.sleep, 600)


@planted("slow-shard", "collective-timeout", "1", "loading shard 7", timeout=10, mode="pbs-direct")
def load_slowly() -> None:
    print("loading shard 7 of 9", flush=True)
    time.sleep(40)


planted(
    "busy-to-the-end",
    "walltime",
    "-",
    "",
    changes={**shell("while sleep 1; do echo step; done"), **SHORT},
)(nothing)


@planted("lock-of-the-dead", "hang or walltime", "all", "", any_rank=True, changes=SHORT)
def wait_for_lock() -> None:
    lock = Path("cache.lock")
    lock.touch()
    while lock.exists():
        time.sleep(0.5)


@planted("waits-for-file", "collective-timeout or hang", "2", "", timeout=6)
def wait_for_file() -> None:
    while not Path("ready.flag").exists():
        time.sleep(0.5)


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


@planted(
    "alarm-everywhere",
    "exception or collective-timeout or hang",
    "1",
    "read_slowly",
    mode="pbs-direct",
    everywhere=True,
)
def set_alarm() -> None:
    def stop(*_: object) -> None:
        raise TimeoutError("a step took longer than 6 s")

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(6)
    if RANK == 1:
        read_slowly()


@planted(
    "fault-timer",
    "exit 1 or collective-timeout or hang or exception",
    "2",
    "read_slowly",
    mode="slurm",
    everywhere=True,
)
def set_fault_timer() -> None:
    faulthandler.dump_traceback_later(6, exit=True)
    if RANK == 2:
        read_slowly()


@planted("lost-future", "collective-timeout or hang", "3", "did not take part", timeout=6)
def wait_for_pool() -> None:
    batches: queue.Queue[int] = queue.Queue()

    def produce() -> None:
        raise ValueError("bad header in shard 9")

    ThreadPoolExecutor().submit(produce)
    batches.get()


@planted("own-watchdog", "exit 1 or exception or hang", "3", "Timeout|train.py", mode="pbs-direct")
def be_watched() -> None:
    faulthandler.dump_traceback_later(3, exit=True)
    time.sleep(600)


@planted("two-locks", "collective-timeout or hang", "2", "2", timeout=12)
def lock_and_lock() -> None:
    lock = threading.Lock()
    complain("flushing the metrics")
    with lock, lock:
        pass


@planted("no-producer", "collective-timeout or hang", "1", "17.tar", timeout=12, mode="pbs-direct")
def wait_for_producer() -> None:
    def produce() -> None:
        raise EOFError("shard 17.tar ends in a record")

    threading.Thread(target=produce, name="producer").start()
    queue.Queue[int]().get()


@planted(
    "file-barrier",
    "exception or collective-timeout or hang",
    "1",
    "rank-1.ready",
    early=True,
    everywhere=True,
)
def wait_for_a_file_of_each() -> None:
    time.sleep(600 if RANK == 1 else 8)
    raise TimeoutError("waited 8 s for /scratch/sync/rank-1.ready")


@planted(
    "tells-on-another",
    "collective-timeout or hang or exit -6",
    "2",
    "",
    mode="pbs-direct",
    early=True,
    everywhere=True,
)
def abort_by_own_watchdog() -> None:
    time.sleep(600 if RANK == 2 else 8)
    complain("watchdog: no step for 8 s, aborting")
    os.abort()


@planted("pool-hangs", "collective-timeout or hang", "1", "did not take part", timeout=12)
def lose_pool_worker() -> None:
    with multiprocessing.get_context("fork").Pool(1) as pool:
        pool.map(kill_child, [0])


if __name__ == "__main__":
    main()
