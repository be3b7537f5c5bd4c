"""Ranks that miss a collective or take part in another one, and what NCCL says of its own."""

from __future__ import annotations

import os
import sys
import time
from datetime import timedelta

from program import RANK, complain, logger, main, make_error, planted, read_table

read_table(__file__)


@planted(
    "gather-shape",
    "collective-mismatch or collective-timeout",
    "1?",
    "",
    torch=True,
    mode="slurm",
    timeout=20,
)
def reduce_another_size() -> None:
    import torch
    import torch.distributed as dist

    dist.all_reduce(torch.ones(999))
    time.sleep(60)


@planted(
    "other-collective", "collective-timeout or collective-mismatch", "2", "", torch=True, timeout=15
)
def wait_elsewhere() -> None:
    import torch.distributed as dist

    dist.barrier()
    time.sleep(60)


@planted("nccl-watchdog", "collective-timeout", "1", "", timeout=400, everywhere=True)
def hang_alone() -> None:
    time.sleep(90 if RANK == 1 else 6)
    complain(
        f"[rank{RANK}]:[E1123 10:11:12.131415 ProcessGroupNCCL.cpp:685] [Rank {RANK}] Watchdog "
        "caught collective operation timeout: WorkNCCL(SeqNum=3, OpType=ALLREDUCE, NumelIn=1, "
        "Timeout(ms)=6000) ran for 6012 milliseconds before timing out.\nterminate called after "
        "throwing an instance of 'c10::DistBackendError'"
    )
    os.abort()


@planted(
    "late-rank",
    "rendezvous or collective-timeout",
    "3",
    "",
    torch=True,
    early=True,
    timeout=15,
    mode="slurm",
)
def index_late() -> None:
    print("building the index", flush=True)
    time.sleep(60)


@planted(
    "other-broadcast",
    "collective-timeout or collective-mismatch",
    "3?",
    "",
    torch=True,
    timeout=12,
    mode="slurm",
)
def broadcast_instead() -> None:
    import torch
    import torch.distributed as dist

    dist.broadcast(torch.ones(1), src=3)
    time.sleep(60)


@planted(
    "jax-barrier",
    "collective-timeout or rendezvous",
    "3",
    "task:3|rank 3",
    early=True,
    everywhere=True,
)
def come_late() -> None:
    if RANK == 3:
        print("building the vocabulary", flush=True)
        time.sleep(300)
    time.sleep(12)
    raise make_error("XlaRuntimeError", "jaxlib.xla_extension")(
        "DEADLINE_EXCEEDED: Barrier timed out. Id: [Init]Wait_for_all_tasks_to_register::0. "
        "This usually happens because a task triggered the barrier too early or too slowly. # "
        "of tasks that reached the barrier: 3/4. The first task at the barrier: "
        "/job:jax_worker/replica:0/task:0. Some timed out task names:\n"
        "/job:jax_worker/replica:0/task:3"
    )


@planted(
    "store-clients",
    "rendezvous or collective-timeout",
    "2,3",
    "2/4|2, 3",
    early=True,
    everywhere=True,
)
def unpack() -> None:
    if RANK >= 2:
        print("unpacking 120 GB to /tmp", flush=True)
        time.sleep(300)
    time.sleep(12)
    if RANK == 0:
        raise make_error("DistStoreError", "torch.distributed")(
            "Timed out after 601 seconds waiting for clients. 2/4 clients joined."
        )
    raise make_error("DistNetworkError", "torch.distributed")(
        "The client socket has timed out after 600000ms while trying to connect to (n1, 29500)."
    )


@planted(
    "monitored",
    "collective-timeout",
    "2",
    "",
    torch=True,
    timeout=15,
    mode="local-direct",
    everywhere=True,
)
def miss_barrier() -> None:
    import torch.distributed as dist

    if RANK == 2:
        print("reading shard 2", flush=True)
        time.sleep(120)
    dist.monitored_barrier(timeout=timedelta(seconds=10), wait_all_ranks=True)


@planted("other-size", "collective-mismatch or exception", "2?", "", torch=True, timeout=10)
def reduce_other_size() -> None:
    import torch

    torch.distributed.all_reduce(torch.ones(700))


@planted(
    "monitored-barrier",
    "collective-timeout",
    "2",
    "",
    torch=True,
    timeout=60,
    mode="slurm",
    everywhere=True,
)
def meet_at_barrier() -> None:
    import torch.distributed as dist

    if RANK == 2:
        time.sleep(60)
    dist.monitored_barrier(timeout=timedelta(seconds=8))


@planted(
    "busy-alone", "collective-timeout or hang", "3", "", torch=True, timeout=8, mode="pbs-direct"
)
def count_alone() -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        pass


@planted("nccl-logged", "gpu-error or nccl or exit 1", "1", "NCCL error|Cuda failure")
def log_and_leave() -> None:
    complain("n1:1689:2800 [0] include/alloc.h:112 NCCL WARN Cuda failure 999 'unknown error'")
    logger.error(
        "Error during training: NCCL error in: NCCLUtils.hpp:268, unhandled cuda error (run with "
        "NCCL_DEBUG=INFO for details), NCCL version 2.21.5\nncclUnhandledCudaError: Call to CUDA "
        "function failed.\nLast error:\nCuda failure 999 'unknown error'"
    )
    complain("wandb:\nwandb: You can sync this run to the cloud by running:\nwandb: wandb sync x")
    sys.exit(1)


@planted("port-error", "network-hardware or nccl", "2", "port error|NCCL", mode="pbs-direct")
def lose_port() -> None:
    complain("n2:77:99 [0] NCCL WARN NET/IB : mlx5_0:1 Got async event : port error")
    raise make_error("DistBackendError", "torch.distributed")(
        "NCCL error in: ProcessGroupNCCL.cpp:2027, unhandled system error (run with NCCL_DEBUG=INFO"
        " for details), NCCL version 2.18.1\nncclSystemError: System call (e.g. socket, malloc) or "
        "external library call failed or device error.\nLast error:\nNET/IB : Got completion from "
        "peer 10.1.1.2<4242> with status=12 opcode=0 len=0 vendor err 129"
    )


if __name__ == "__main__":
    main()
