"""Memory of the host, of a GPU or shared that is refused, and threads that cannot start."""

from __future__ import annotations

import mmap
import os
import resource
import signal
import subprocess
import sys

from program import complain, main, make_error, planted, read_table

read_table(__file__)


@planted("openblas-threads", "exit -11 or too-many-threads", "1", "pthread_create")
def start_blas() -> None:
    complain(
        "OpenBLAS blas_thread_init: pthread_create failed for thread 7 of 64: Resource temporarily "
        "unavailable\nOpenBLAS blas_thread_init: RLIMIT_NPROC 512 current, 512 max"
    )
    os.kill(os.getpid(), signal.SIGSEGV)


@planted("memory-killed", "exit -9 or killed or out-of-memory-host", "2", "SIGKILL")
def die_of_memory() -> None:
    print("step 2: rss 61.9 GB", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


@planted("memory-limit", "out-of-memory-host", "3", "MemoryError")
def meet_the_limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29))
    print(len(bytes(1 << 30)))


@planted("nccl-shm", "shared-memory or no-space", "1", "shared memory segment")
def fill_shm() -> None:
    complain(
        "n1:4242:4301 [1] misc/shmutils.cc:72 NCCL WARN Error: failed to extend "
        "/dev/shm/nccl-5DjRvG"
        " to 9637892 bytes\nn1:4242:4301 [1] misc/shmutils.cc:113 NCCL WARN Error while creating "
        "shared memory segment /dev/shm/nccl-5DjRvG (size 9637888), error: No space left on device "
        "(28)"
    )
    error = make_error("DistBackendError", "torch.distributed")
    raise error(
        "NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:317, unhandled system error "
        "(run with NCCL_DEBUG=INFO for details), NCCL version 2.21.5\nncclSystemError: System call "
        "(e.g. socket, malloc) or external library call failed or device error. "
        "\nLast error:\nError"
        " while creating shared memory segment /dev/shm/nccl-5DjRvG (size 9637888), "
        "error: No space "
        "left on device (28)"
    )


@planted("vllm-engine", "out-of-memory-gpu or gpu-busy or exception", "0", "Free memory")
def start_engine() -> None:
    complain(
        "(EngineCore_0 pid=771) Traceback (most recent call last):\n"
        '(EngineCore_0 pid=771)   File "vllm/v1/engine/core.py", line 640, in run_engine_core\n'
        "(EngineCore_0 pid=771) ValueError: Free memory on device (2.1/79.1 GiB) on startup "
        "is less "
        "than desired GPU memory utilization (0.9, 71.2 GiB). Decrease GPU memory utilization or "
        "reduce GPU memory used by other processes."
    )
    raise RuntimeError(
        "Engine core initialization failed. See root cause above. Failed core proc(s): {}"
    )


@planted("petabyte", "out-of-memory-host", "1", "allocate", torch=True, mode="slurm")
def ask_for_petabyte() -> None:
    import torch

    torch.empty(1 << 50)


@planted("step-of-steps", "out-of-memory-gpu or exception", "0", "out of memory")
def run_steps() -> None:
    child = "raise RuntimeError('CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 79 GiB')"
    code = subprocess.run([sys.executable, "-c", child], check=False).returncode
    raise RuntimeError(f"Step 1 exited with non-zero status {code}\n\nLaunch command: bash run.sh")


@planted(
    "mmap-memory", "out-of-memory-host or exception", "2", "allocate memory", mode="pbs-direct"
)
def map_memory() -> None:
    mmap.mmap(-1, 1 << 60)


@planted("dask-worker", "out-of-memory-host", "2", "MemoryError", mode="pbs-direct")
def exceed_dask() -> None:
    complain(
        "2026-11-24 01:22:03,123 - distributed.worker.memory - WARNING - Unmanaged memory use is "
        "high. This may indicate a memory leak or the memory may not be released to the OS"
    )
    raise MemoryError("Task ('shuffle-9f', 3) needs 212.00 GiB of memory")


if __name__ == "__main__":
    main()
