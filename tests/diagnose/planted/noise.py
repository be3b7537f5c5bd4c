"""Words that sound like a fault and are none, and how their programs then truly end."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import errno
import os
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

from program import (
    LOCAL,
    PLANTED,
    RANK,
    Act,
    Truth,
    complain,
    kill_self,
    logger,
    main,
    nothing,
    planted,
    raise_with,
)

NOISES: list[Act] = []


def noise(function: Act) -> Act:
    """Enter what a program prints that is no fault."""
    NOISES.append(function)
    return function


@noise
def optional_import() -> None:
    try:
        import apex  # type: ignore  # noqa: F401
    except ImportError:
        logger.warning("apex is not available; using torch.optim", exc_info=True)


@noise
def memory_retry() -> None:
    try:
        raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 79 GiB total)")
    except RuntimeError:
        traceback.print_exc()
        complain("out of memory, retrying with batch size 16")


@noise
def first_start() -> None:
    try:
        Path("checkpoints/latest.pt").read_bytes()
    except FileNotFoundError:
        logger.info("no checkpoint yet: starting from scratch", exc_info=True)


@noise
def board_port() -> None:
    try:
        raise OSError(errno.EADDRINUSE, "Address already in use")
    except OSError:
        logger.exception("TensorBoard could not bind to port 6006; going on without")


@noise
def cache_permission() -> None:
    warnings.warn("Permission denied: '/home/u/.cache/torch'; not caching", stacklevel=1)
    try:
        raise PermissionError(errno.EACCES, "Permission denied", "/home/u/.cache")
    except PermissionError:
        traceback.print_exc()


@noise
def progress_bar() -> None:
    for done in range(0, 101, 5):
        sys.stderr.write(f"\rEpoch 0: {done:3}%|{'#' * (done // 10):10}| loss=nan? no, 0.{done:02}")
    sys.stderr.flush()


@noise
def network_retries() -> None:
    for again in (1, 2, 3):
        complain(
            f"WARNING urllib3.connectionpool: Retrying (Retry(total={3 - again})) after connection "
            "broken by 'ConnectionResetError(104, 'Connection reset by peer')': /api/v1/metrics"
        )
    complain("HEAD https://hf.co/x failed: ConnectionResetError: Connection reset by peer; retry")


@noise
def tracker_thread() -> None:
    def upload() -> None:
        raise ConnectionError("Max retries exceeded with url: /files (Connection refused)")

    thread = threading.Thread(target=upload, name="ChkStopThr")
    thread.start()
    thread.join()


@noise
def nccl_words() -> None:
    complain("n1:2211:2290 [0] NCCL INFO NET/IB : No device found.")
    complain("n1:2211:2290 [0] NCCL INFO NET/Socket : Using [0]eth0:10.77.0.11<0>")
    complain("n1:2211:2290 [0] transport/net_ib.cc NCCL WARN Call to ibv_open_device failed")


@noise
def handled_chain() -> None:
    try:
        try:
            {}["amp"]
        except KeyError as error:
            raise RuntimeError("amp is not configured") from error
    except RuntimeError:
        logger.info("running without amp", exc_info=True)


@noise
def socket_words() -> None:
    complain(
        "[W1123 10:10:10.123 socket.cpp:464] [c10d] The server socket cannot be initialized on [::]"
        ":29500 (errno: 97 - Address family not supported by protocol).\n[W1123 10:10:11.123 "
        "socket.cpp:755] [c10d] The client socket has failed to connect to [n1]:29500 (errno: 111 -"
        " Connection refused)."
    )


@noise
def compile_fallback() -> None:
    complain(
        "W1123 10:10:10 torch/_dynamo/convert_frame.py:1358] WON'T CONVERT forward train.py 41"
    )
    try:
        raise RuntimeError("failed to find C compiler. Please specify via CC environment variable")
    except RuntimeError:
        complain("due to: \n" + traceback.format_exc())


@noise
def xla_words() -> None:
    complain(
        "2026-11-23 10:10:10.1: E external/local_xla/xla/stream_executor/cuda/cuda_fft.cc:477] "
        "Unable to register cuFFT factory: Attempting to register factory for plugin cuFFT when one"
        " has already been registered\n2026-11-23 10:10:10.2: E external/local_xla/xla/"
        "stream_executor/cuda/cuda_driver.cc:152] failed call to cuInit: CUDA_ERROR_NO_DEVICE: no "
        "CUDA-capable device is detected"
    )


@noise
def sample_skipped() -> None:
    try:
        raise ValueError(
            "Caught ValueError in DataLoader worker process 1.\nOriginal Traceback "
            '(most recent call last):\n  File "d.py", line 3, in __getitem__\n'
            "OSError: image file is truncated (12 bytes not processed)"
        )
    except ValueError as error:
        complain(f"skipped a batch: {error}\n{traceback.format_exc()}")


@noise
def tracker_words() -> None:
    complain(
        "wandb: ERROR Error while calling W&B API: permission denied (<Response [403]>)\nwandb: "
        "Network error (ConnectTimeout), entering retry loop.\nwandb: WARNING W&B is disabled."
    )


@noise
def json_lines() -> None:
    complain(
        '{"level": "error", "logger": "data", "msg": "bad record", "exc": "Traceback (most recent '
        'call last):\\n  File \\"d.py\\", line 3\\nMemoryError: Unable to allocate 3 GiB"}'
    )


@noise
def generated_text() -> None:
    print(
        "sample 3:\n>>> d['x']\nTraceback (most recent call last):\n  File \"<stdin>\", line 1, in "
        "<module>\nKeyError: 'x'\nTry `d.get('x')` instead.",
        flush=True,
    )
    complain('Traceback (most recent call last):\n  File "a.py", line 1, in f\nImportError: b')
    complain("(that was the model's own answer)")


@noise
def late_destructor() -> None:
    def complain_at_exit() -> None:
        complain(
            "Exception ignored in: <function _MultiProcessingDataLoaderIter.__del__ at 0x7f>\n"
            'Traceback (most recent call last):\n  File "dataloader.py", line 1478, in __del__\n'
            "    self._shutdown_workers()\nAssertionError: can only join a child process"
        )

    atexit.register(complain_at_exit)
    warnings.warn("resource_tracker: There appear to be 4 leaked semaphore objects", stacklevel=1)


@noise
def older_checkpoint() -> None:
    try:
        raise RuntimeError(
            "PytorchStreamReader failed reading zip archive: failed finding central directory"
        )
    except RuntimeError:
        logger.exception("step-200.pt is unreadable; falling back to step-100.pt")


@noise
def child_killed() -> None:
    code = subprocess.run(["bash", "-c", "kill -9 $$"], check=False).returncode
    complain(f"decoder died with signal {-code} (out of memory?); restarting it")
    complain("bash: line 1: 4711 Killed                  ffmpeg -i clip.mp4")


def many() -> None:
    for other in (optional_import, memory_retry, first_start, board_port, network_retries):
        other()


def raise_value() -> None:
    raise ValueError("vocab.size 32000 != 32001")


def crash() -> None:
    ctypes.string_at(0)


def leave() -> None:
    print("the learning rate is 0; giving up", flush=True)
    sys.exit(1)


def leave_with_words() -> None:
    sys.exit("error: the validation set is empty")


# Each noise with three of these ends, all six in turn.
ENDS = {
    "value": ("exception", "2", "vocab.size 32000 != 32001", raise_value),
    "killed": ("exit -9 or killed", "2", "SIGKILL", kill_self),
    "crash": ("exit -11", "1", "SIGSEGV", crash),
    "leave": ("exit 1", "2", "exit code 1", leave),
    "words": ("exit 1 or exception", "3", "validation set is empty", leave_with_words),
    "well": ("healthy", "-", "", nothing),
}
for at, kind in enumerate(NOISES):
    for turn in range(3):
        ending = list(ENDS)[(at + (3 if at >= 10 else 0) + 2 * turn) % len(ENDS)]
        name = f"noisy-{kind.__name__.replace('_', '-')}-{ending}"
        PLANTED[name] = Truth(*ENDS[ending], noise=kind, mode="local-direct")


# --- noise of single programs ---------------------------------------------------------------------


def quoted(
    name: str, causes: str, ranks: str, says: str, body: Act, mode: str = "local-direct"
) -> Callable[[Act], Act]:
    """Enter a program that prints what the function does, and ends by `body`."""

    def enter(function: Act) -> Act:
        planted(f"quoted-{name}", causes, ranks, says, noise=function, mode=mode)(body)
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


@planted("vocabulary-noise", "exception", "2", "vocab.size 32000 != 32001", noise=many)
def assert_vocabulary() -> None:
    raise AssertionError("vocab.size 32000 != 32001")


@planted("killed-in-words", "healthy", "-", "")
def speak_of_killing() -> None:
    complain(
        "oom-killer: Killed process 12 (stress); Traceback (most recent call last) is expected"
    )


@planted("accuses-daily", "collective-timeout or hang", "3", "", timeout=6, noise=accuse)
def hang_quietly() -> None:
    time.sleep(60)


@planted(
    "hang-with-heartbeat",
    "walltime or hang",
    "2?",
    "",
    mode="slurm-direct",
    changes={"resources": {"walltime": "1m"}},
    noise=beat,
)
def hang_to_the_end() -> None:
    time.sleep(600)


@quoted("scheduler", "exit 5", "2", "exit code 5", exit_5, "slurm-direct")
def quote_scheduler() -> None:
    complain("slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-11-24 DUE TO TIME LIMIT ***")
    complain("slurmstepd: error: Detected 1 oom-kill event(s) in StepId=12.0")


@quoted("jobgen", "exit 5", "1", "exit code 5", exit_5, "pbs-direct")
def quote_jobgen() -> None:
    complain("jobgen: FAILED with exit code 137: rank 0 on n1, by /x/logs/n1/agent.log")
    complain("jobgen: error: port 29500 on n1 is in use")


@quoted("rank-retry", "exit -9 or killed", "3", "SIGKILL", kill_self)
def retry_rank() -> None:
    complain("ERROR: request to rank 1 timed out after 5 s")
    complain("request to rank 1 was answered at the second try")


@quoted("own-child", "exit 5", "0", "exit code 5", exit_5)
def lose_own_child() -> None:
    child = subprocess.run(
        [sys.executable, "-c", "import os; os.kill(os.getpid(), 11)"], check=False
    )
    complain(f"probe of the codec died ({child.returncode}); using the slow one")


@quoted("thread", "healthy", "-", "", nothing, "pbs-direct")
def lose_thread() -> None:
    thread = threading.Thread(target=lambda: {}["metrics"])
    thread.start()
    thread.join()


@quoted("atexit", "healthy", "-", "", nothing, "slurm")
def fail_at_exit() -> None:
    atexit.register(lambda: {}["run"])


@quoted("stack", "exit 5", "2", "exit code 5", exit_5)
def print_stack() -> None:
    warnings.warn("lr_scheduler.step() before optimizer.step()", stacklevel=1)
    traceback.print_stack()


@quoted("errors", "left-early", "2", "", leave_0, "slurm-direct")
def log_errors() -> None:
    for again in range(3):
        logger.error("cannot push metrics (%d): [Errno 111] Connection refused", again)


@quoted("assertion", "exit -11", "1", "SIGSEGV", crash)
def catch_assertion() -> None:
    with contextlib.suppress(AssertionError):
        try:
            assert LOCAL > 7, "the fused kernel wants 8 processes"
        except AssertionError:
            traceback.print_exc()
            raise


@quoted(
    "fallback", "exception", "0", "val split", raise_with("ValueError", "the val split is empty")
)
def fall_back() -> None:
    complain("RuntimeError: CUDA error: out of memory; falling back to the CPU")
    complain("FATAL: could not open the profiler; going on")


if __name__ == "__main__":
    main()
