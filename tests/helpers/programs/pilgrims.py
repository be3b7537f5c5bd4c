"""Programs that fail in unusual order or behind a mask, each with one fault: `pilgrims.py NAME`.

The list was made before jobgen's rules were read again: shells that hide exit codes, ranks that
die later than those that waited for them, words that accuse the innocent. `others.py` runs them.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import faulthandler
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import others
from others import LOCAL, NOISES, PLANTED, RANK, Truth, complain, kill_self, logger, planted

KNOWN_BEFORE = set(PLANTED)
EVERYWHERE: set[str] = set()  # what each rank runs, though it is the fault of some


def shell(script: str) -> dict[str, Any]:
    """The change of a spec that starts this one by a shell."""
    return {"run": {"command": ["bash", "-c", script]}}


def everywhere(name: str, causes: str, ranks: str, says: str, **more: Any) -> Any:
    """Enter a fault whose function runs in each rank."""
    EVERYWHERE.add(name)
    return planted(name, causes, ranks, says, **more)


# --- shells that hide what ended a program --------------------------------------------------------


@planted(
    "tee-masks",
    "exception or left-early",
    "2",
    "'labels'",
    changes=shell("python train.py tee-masks 2>&1 | tee log-$RANK"),
)
def raise_into_tee() -> None:
    {}["labels"]


@planted(
    "or-true",
    "left-early or exit -11",
    "1",
    "SIGSEGV|Segmentation",
    mode="pbs-direct",
    changes=shell("python train.py or-true || true"),
)
def crash_behind_true() -> None:
    ctypes.string_at(0)


planted(
    "or-words",
    "killed or exit 1 or exit -9",
    "3",
    "Killed|SIGKILL",
    changes=shell("python train.py or-words || { echo 'training failed' >&2; exit 1; }"),
)(kill_self)


@planted(
    "retry-loop",
    "exit 9 or exception",
    "all",
    "no vocab",
    early=True,
    mode="pbs-direct",
    changes=shell(
        "for i in 1 2 3; do python train.py retry-loop && exit 0; sleep 0.2; done; exit 9"
    ),
)
def raise_thrice() -> None:
    raise ValueError("tokenizer.json has no vocab")


@planted(
    "trap-exits-0",
    "exception or left-early",
    "2",
    "patch size 14",
    changes=shell("trap 'rm -rf scratch; exit 0' EXIT; python train.py trap-exits-0"),
)
def raise_in_trap() -> None:
    raise ValueError("patch size 14 does not divide 224 + 1")


@planted(
    "module-run",
    "exception",
    "1",
    "not in list",
    mode="slurm",
    changes={"run": {"command": ["python", "-m", "train", "module-run"]}},
)
def raise_in_module() -> None:
    ["train", "test"].index("validation")


planted(
    "inline-program",
    "exception",
    "all",
    "'DATA_ROOT'",
    changes={"run": {"command": ["python", "-c", "import os; print(os.environ['DATA_ROOT'])"]}},
)(others.nothing)
planted(
    "no-numactl",
    "command-missing or exit 127",
    "all",
    "numactle",
    mode="pbs-direct",
    changes=shell("numactle --localalloc python train.py"),
)(others.nothing)
planted(
    "sh-source",
    "command-missing or exit 127",
    "all",
    "source",
    mode="slurm",
    changes={"run": {"command": ["sh", "-c", "source env.sh && exec python train.py"]}},
)(others.nothing)

# --- who dies later than those who waited ---------------------------------------------------------


@planted("slow-death", "exception or collective-timeout", "1", "overflow in layer 11", timeout=6)
def save_before_raising() -> None:
    try:
        raise FloatingPointError("overflow in layer 11")
    except FloatingPointError:
        logger.exception("saving an emergency checkpoint")
        time.sleep(25)
        raise


@everywhere(
    "alarm-everywhere",
    "exception or collective-timeout or hang",
    "1",
    "read_slowly",
    mode="pbs-direct",
)
def set_alarm() -> None:
    def stop(*_: object) -> None:
        raise TimeoutError("a step took longer than 6 s")

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(6)
    if RANK == 1:
        read_slowly()


def read_slowly() -> None:
    """As from a file system that hangs."""
    time.sleep(60)


@everywhere("errors-gathered", "exception", "all", "'bleu'")
def evaluate() -> None:
    if RANK == 2:
        try:
            {}["bleu"]
        except KeyError:
            traceback.print_exc()
    time.sleep(0.5)
    raise RuntimeError("evaluation failed on at least one process")


@everywhere(
    "fault-timer",
    "exit 1 or collective-timeout or hang or exception",
    "2",
    "read_slowly",
    mode="slurm",
)
def set_fault_timer() -> None:
    faulthandler.dump_traceback_later(6, exit=True)
    if RANK == 2:
        read_slowly()


@planted("lost-future", "collective-timeout or hang", "3", "did not take part", timeout=6)
def wait_for_producer() -> None:
    batches: queue.Queue[int] = queue.Queue()

    def produce() -> None:
        raise ValueError("bad header in shard 9")

    ThreadPoolExecutor().submit(produce)
    batches.get()


@planted("thread-ends-all", "exit 42", "0", "exit code 42", mode="pbs-direct")
def end_from_thread() -> None:
    def watch() -> None:
        faulthandler.dump_traceback()
        os._exit(42)

    threading.Thread(target=watch).start()
    time.sleep(30)


@planted("stops-its-parent", "exit -15 or exit 143 or exit 1 or unknown", "2?", "", mode="slurm")
def stop_parent() -> None:
    os.kill(os.getppid(), signal.SIGTERM)
    time.sleep(60)


@planted("child-killed-words", "exit 1 or killed or out-of-memory-host", "1", "-9", mode="pbs")
def report_child() -> None:
    child = subprocess.run(
        [sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"], check=False
    )
    sys.exit(f"preprocessing failed with {child.returncode}")


@planted("captured-child", "exception", "2", "CalledProcessError|exit status 3", mode="pbs-direct")
def capture_child() -> None:
    code = "import sys; sys.exit(3)"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@planted("port-twice", "port-in-use or exception", "1,3", "6106", early=True)
def bind_twice() -> None:
    time.sleep(1)
    socket.create_server(("127.0.0.1", 6106))


@planted("left-after-traceback", "left-early", "1", "shard-00017", mode="slurm")
def leave_after_traceback() -> None:
    try:
        raise OSError("cannot identify image file 'shard-00017/3.jpg'")
    except OSError:
        traceback.print_exc()
        sys.exit(0)


@planted("empty-shard", "left-early", "3", "no samples", mode="pbs-direct")
def leave_without_samples() -> None:
    logger.warning("rank 3 has no samples; nothing to do")
    sys.exit(0)


# --- words that accuse, and words that hide -------------------------------------------------------


@planted("accuses-own-worker", "exception", "3", "tokenizer pool")
def accuse_worker() -> None:
    raise TimeoutError("no answer from worker 2 of the tokenizer pool within 5 s")


@planted("accuses-daily", "collective-timeout or hang", "3", "", timeout=6, noise="accuse")
def hang_quietly() -> None:
    time.sleep(60)


@planted("accuses-the-healthy", "exception", "0", "bad batch", mode="slurm")
def accuse_healthy() -> None:
    raise RuntimeError("rank 3 sent a bad batch: timed out waiting for its header")


@planted("stats-after", "exception", "2", "0 steps", mode="pbs")
def print_stats_after() -> None:
    atexit.register(lambda: complain("\n".join(f"counter_{i}: {i * i}" for i in range(400))))
    raise ValueError("the schedule has 0 steps")


@planted("with-notes", "exception", "1", "pixel_values")
def raise_with_notes() -> None:
    error = KeyError("pixel_values")
    for text in ("while collating sample 311", "of shard-0007.tar, read by worker 2"):
        getattr(error, "add_note", complain)(text)
    raise error


@planted("own-print", "exit 1 or exception", "2", "Training crashed: .*crop", mode="pbs-direct")
def print_crash() -> None:
    try:
        raise ValueError("crop is larger than the image")
    except ValueError as error:
        print(f"Training crashed: {error!r}", flush=True)
        sys.exit(1)


@planted("interleaved", "exception", "1", "'attention_mask'", mode="slurm")
def print_between() -> None:
    lines = ["Traceback (most recent call last):", f'  File "{__file__}", line 9, in step']
    lines += ["    mask = batch['attention_mask']", "KeyError: 'attention_mask'"]
    for line in lines:
        complain(line)
        complain("[monitor] gpu 0: 31 C, 12 W")
    os._exit(1)


@planted("child-of-agent", "exit 1 or exception", "1", "Child process with PID", mode="pbs-direct")
def kill_as_lightning() -> None:
    complain(
        "[rank: 1] Child process with PID 4711 terminated with code 1. Forcefully terminating all "
        "other processes to avoid zombies 🧟"
    )
    sys.exit(1)


@planted("accelerate-launcher", "exit -11 or exit 1 or exception", "2", "SIGSEGV|return code = -11")
def report_as_deepspeed() -> None:
    child = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", "import ctypes; ctypes.string_at(0)"],
        check=False,
    )
    complain(
        "[2026-11-24 05:11:12,555] [ERROR] [launch.py:325:sigkill_handler] ['python', '-u', "
        f"'train.py'] exits with return code = {child.returncode}"
    )
    sys.exit(1)


# --- torch itself ---------------------------------------------------------------------------------


@planted("other-size", "collective-mismatch or exception", "2?", "", torch=True, timeout=10)
def reduce_other_size() -> None:
    import torch

    torch.distributed.all_reduce(torch.ones(700))


@everywhere(
    "monitored-barrier", "collective-timeout", "2", "", torch=True, timeout=60, mode="slurm"
)
def meet_at_barrier() -> None:
    from datetime import timedelta

    import torch.distributed as dist

    if RANK == 2:
        read_slowly()
    dist.monitored_barrier(timeout=timedelta(seconds=8))


@planted(
    "busy-alone", "collective-timeout or hang", "3", "", torch=True, timeout=8, mode="pbs-direct"
)
def count_alone() -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        pass


@planted("cut-checkpoint", "damaged-file", "0", "PytorchStreamReader|zip", torch=True, mode="pbs")
def load_cut() -> None:
    import torch

    path = Path("model-cut.pt")
    torch.save({"weight": torch.ones(1000)}, path)
    os.truncate(path, 2000)
    torch.load(path)


@planted("loader-leaves", "data-loader or exception", "1", "exited unexpectedly", torch=True)
def lose_loader() -> None:
    from torch.utils.data import DataLoader

    list(DataLoader(range(8), num_workers=1, collate_fn=lambda _: os._exit(1)))  # type: ignore[arg-type]


@planted("backward-twice", "exception", "3", "second time", torch=True, mode="pbs-direct")
def go_back_twice() -> None:
    import torch

    total = (torch.ones(3, requires_grad=True) ** 2).sum()
    total.backward()
    total.backward()


@planted("petabyte", "out-of-memory-host", "1", "allocate", torch=True, mode="slurm")
def ask_for_petabyte() -> None:
    import torch

    torch.empty(1 << 50)


# --- files and packages ---------------------------------------------------------------------------


@planted("dev-full", "no-space", "0", "No space left")
def write_to_full() -> None:
    with Path("/dev/full").open("w") as file:
        file.write("loss 0.3\n")


@planted(
    "folder-for-file", "exception or file-missing or permission", "0", "Is a directory", mode="pbs"
)
def write_to_folder() -> None:
    Path("last.ckpt").mkdir(exist_ok=True)
    Path("last.ckpt").write_bytes(b"0")


@planted("package-of-n2", "import", "2,3", "flash_attn_9", early=True, mode="slurm")
def import_missing() -> None:
    import flash_attn_9  # type: ignore[import-not-found]  # noqa: F401


@planted("own-shards", "file-missing", "all", "shard-0000", early=True, mode="pbs-direct")
def open_own_shard() -> None:
    Path(f"/data/c4/shard-{RANK:05}.tar").read_bytes()


@planted(
    "hang-with-heartbeat",
    "walltime or hang",
    "2?",
    "",
    mode="slurm-direct",
    changes={"resources": {"walltime": "1m"}},
    noise="beat",
)
def hang_to_the_end() -> None:
    time.sleep(600)


# --- innocent noise, and how its programs end -----------------------------------------------------


def noisy(
    name: str, causes: str, ranks: str, says: str, body: Any, mode: str = "local-direct"
) -> Any:
    """Enter a program that prints what `name` does, and ends by `body`."""

    def enter(function: Any) -> Any:
        NOISES[name] = function
        PLANTED[f"quoted-{name}"] = Truth(
            f"quoted-{name}", causes, ranks, says, body, noise=name, mode=mode
        )
        return function

    return enter


def exit_5() -> None:
    os._exit(5)


def leave_0() -> None:
    os._exit(0)


def accuse() -> None:
    if RANK == 0:
        complain("still waiting for rank 1: no metrics yet")


def beat() -> None:
    def run() -> None:
        while True:
            if RANK == 0:
                print("heartbeat: ok", flush=True)
            time.sleep(5)

    threading.Thread(target=run, daemon=True).start()


NOISES.update(accuse=accuse, beat=beat)


@noisy("scheduler", "exit 5", "2", "exit code 5", exit_5, "slurm-direct")
def quote_scheduler() -> None:
    complain("slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-11-24 DUE TO TIME LIMIT ***")
    complain("slurmstepd: error: Detected 1 oom-kill event(s) in StepId=12.0")


@noisy("jobgen", "exit 5", "1", "exit code 5", exit_5, "pbs-direct")
def quote_jobgen() -> None:
    complain("jobgen: FAILED with exit code 137: rank 0 on n1, by /x/logs/n1/agent.log")
    complain("jobgen: error: port 29500 on n1 is in use")


@noisy("rank-retry", "exit -9 or killed", "3", "SIGKILL", kill_self)
def retry_rank() -> None:
    complain("ERROR: request to rank 1 timed out after 5 s")
    complain("request to rank 1 was answered at the second try")


@noisy("own-child", "exit 5", "0", "exit code 5", exit_5)
def lose_own_child() -> None:
    child = subprocess.run(
        [sys.executable, "-c", "import os; os.kill(os.getpid(), 11)"], check=False
    )
    complain(f"probe of the codec died ({child.returncode}); using the slow one")


@noisy("thread", "healthy", "-", "", others.nothing, "pbs-direct")
def lose_thread() -> None:
    thread = threading.Thread(target=lambda: {}["metrics"])
    thread.start()
    thread.join()


@noisy("atexit", "healthy", "-", "", others.nothing, "slurm")
def fail_at_exit() -> None:
    atexit.register(lambda: {}["run"])


@noisy("stack", "exit 5", "2", "exit code 5", exit_5)
def print_stack() -> None:
    warnings.warn("lr_scheduler.step() before optimizer.step()", stacklevel=1)
    traceback.print_stack()


@noisy("errors", "left-early", "2", "", leave_0, "slurm-direct")
def log_errors() -> None:
    for again in range(3):
        logger.error("cannot push metrics (%d): [Errno 111] Connection refused", again)


@noisy("assertion", "exit -11", "1", "SIGSEGV", lambda: ctypes.string_at(0))
def catch_assertion() -> None:
    with contextlib.suppress(AssertionError):
        try:
            assert LOCAL > 7, "the fused kernel wants 8 processes"
        except AssertionError:
            traceback.print_exc()
            raise


@noisy(
    "fallback",
    "exception",
    "0",
    "val split",
    lambda: others.raise_with(":ValueError", "the val split is empty")(),
)
def fall_back() -> None:
    complain("RuntimeError: CUDA error: out of memory; falling back to the CPU")
    complain("FATAL: could not open the profiler; going on")


NAMES = sorted(set(PLANTED) - KNOWN_BEFORE)


if __name__ == "__main__":
    if sys.argv[1] in EVERYWHERE:
        PLANTED[sys.argv[1]] = PLANTED[sys.argv[1]]._replace(ranks="all")
    if sys.argv[1] == "port-twice" and LOCAL == 0:
        holder = socket.create_server(("127.0.0.1", 6106))
    others.main()
