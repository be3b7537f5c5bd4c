"""A child process or a pool of them fails, and the program tells of it."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys

from program import complain, main, planted, read_table

read_table(__file__)


@planted("decoder-killed", "exception", "0", "SIGKILL")
def decode() -> None:
    subprocess.run(["bash", "-c", "kill -9 $$"], check=True)


@planted("ffmpeg-pipe", "exception", "1", "BrokenPipe|Broken pipe")
def feed_ffmpeg() -> None:
    with subprocess.Popen(["true"], stdin=subprocess.PIPE) as ffmpeg:
        ffmpeg.wait()
        assert ffmpeg.stdin is not None
        os.write(ffmpeg.stdin.fileno(), b"frame" * 9999)


@planted("smi-timeout", "exception", "2", "TimeoutExpired|timed out after", mode="pbs-direct")
def ask_smi() -> None:
    subprocess.run(["sleep", "20"], timeout=1, check=True)


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


@planted("awk-fails", "exception", "1", "exit status 2|awk", mode="slurm")
def call_awk() -> None:
    subprocess.run(["awk", "BEGIN {"], check=True)


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


@planted("child-permission", "permission or exception", "all", "Permission denied", early=True)
def run_child() -> None:
    child = "raise PermissionError(13, 'Permission denied', 'models/cityscapes_best.pth')"
    code = subprocess.run([sys.executable, "-c", child], check=False).returncode
    complain(f"EXIT CODE: {code}")
    assert code == 0


if __name__ == "__main__":
    main()
