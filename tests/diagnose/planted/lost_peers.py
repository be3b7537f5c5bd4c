"""A rank fails or hangs, and the others say by their own library's words that it is gone."""

from __future__ import annotations

import ctypes
import os
import time
from typing import NoReturn

from program import RANK, complain, kill_self, main, make_error, planted, raise_with, stay

JAX = "/job:jax_worker/replica:0/task"


def say_jax(text: str) -> NoReturn:
    complain(
        f"E1124 01:22:03.123456   12345 coordination_service_agent.cc:300] {text}\nF1124 "
        "01:22:03.123999   12345 client.h:77] Terminating process because the JAX distributed "
        "service detected fatal errors. This most likely indicates that another task died; see the "
        "other task logs for more details. Disable Python buffering, i.e. `python -u`, to be sure "
        "to see all the previous output."
    )
    os.abort()


def lose_jax_heartbeat() -> None:
    time.sleep(0 if RANK == 0 else 0.5)
    say_jax(
        "Polled an error from coordination service (this can be an error from this or another "
        "task): UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats):\n"
        f"{JAX}:3\nThe tasks have crashed. Check the task logs for an earlier error, or "
        "scheduler events (e.g. preemption, eviction) to debug further."
    )


def lose_jax() -> None:
    say_jax(
        "Failed to disconnect from coordination service with status: UNAVAILABLE: failed to "
        "connect to all addresses; last error: UNKNOWN: ipv4:10.77.0.11:29501: Failed to connect "
        "to remote host: Connection refused"
    )


def lose_nccl() -> None:
    complain(
        f"[rank{RANK}]:[E1124 01:22:03.131415 ProcessGroupNCCL.cpp:1895] [PG ID 0 PG GUID 0("
        f"default_pg) Rank {RANK}] Received a dump signal due to a collective timeout from  rank 0 "
        "and we will try our best to dump the debug info. Last enqueued NCCL work: 3, last "
        f"completed NCCL work: 2.\n[rank{RANK}]:[E1124 01:22:03.139 ProcessGroupNCCL.cpp:629] [Rank"
        f" {RANK}] Some NCCL operations have failed or timed out. Due to the asynchronous nature of"
        " CUDA kernels, subsequent GPU operations might run on corrupted/incomplete data.\n"
        f"[rank{RANK}]:[E1124 01:22:03.141 ProcessGroupNCCL.cpp:635] [Rank {RANK}] To avoid data "
        "inconsistency, we are taking the entire process down.\nterminate called after throwing an "
        "instance of 'c10::DistBackendError'\n  what():  [PG ID 0 PG GUID 0(default_pg) Rank "
        f"{RANK}] Process group watchdog thread terminated with exception: [Rank {RANK}] Watchdog "
        "caught collective operation timeout: WorkNCCL(SeqNum=3, OpType=ALLREDUCE, NumelIn=1, "
        "NumelOut=1, Timeout(ms)=600000) ran for 600012 milliseconds before timing out."
    )
    os.abort()


def wait_for_watchdog() -> None:
    time.sleep(20)
    lose_nccl()


def lose_remote() -> None:
    raise make_error("DistBackendError", "torch.distributed")(
        "NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:2027, remote process "
        "exited or there was a network error, NCCL version 2.21.5\nncclRemoteError: A call failed "
        "possibly due to a network error or a remote process exiting prematurely.\nLast error:\n"
        "socketProgress: Connection closed by remote peer n2<43210>"
    )


def lose_horovod() -> None:
    if RANK == 0:
        complain(
            "[1,0]<stderr>:[2026-11-24 01:22:03.131415: W /tmp/horovod/common/stall_inspector.cc:"
            "107] One or more tensors were submitted to be reduced, gathered or broadcasted by "
            "subset of ranks and are waiting for remainder of ranks for more than 60 seconds. This "
            "may indicate that different ranks are trying to submit different tensors or that only "
            "subset of ranks is submitting tensors, which will cause deadlock.\nMissing ranks:\n3: "
            "[DistributedOptimizer_Allreduce/grad_0]"
        )
    raise make_error("HorovodInternalError", "horovod.common.exceptions")(
        "Horovod has been shut down because stall time exceeded the shutdown limit"
    )


def lose_shut_horovod() -> None:
    raise make_error("HorovodInternalError", "horovod.common.exceptions")(
        "Horovod has been shut down. This was caused by an exception on one of the ranks or an "
        "attempt to allreduce, allgather or broadcast a tensor after one of the ranks finished "
        "execution. If the shutdown was caused by an exception, you should see the exception in "
        "the log before the first shutdown message."
    )


PEER = """--------------------------------------------------------------------------
An MPI communication peer process has unexpectedly disconnected.  This
usually indicates a failure in the peer process (e.g., a crash or
otherwise exiting without calling MPI_FINALIZE first).

  Local host: n1
  Local PID:  7720
  Peer host:  n2
--------------------------------------------------------------------------"""


def lose_mpi() -> None:
    complain(PEER)
    os._exit(1)


def lose_tensorflow() -> None:
    raise make_error("UnavailableError", "tensorflow.python.framework.errors_impl")(
        "Collective ops is aborted by: failed to connect to all addresses\nThe error could be from "
        "a previous operation. Restart your program to reset. [Op:CollectiveReduceV2]"
    )


def lose_clique() -> None:
    complain(
        "E1123 10:10:10.920189 external/xla/xla/service/rendezvous.cc:38] This thread has "
        f"been waiting for `initialize clique for rank {RANK}; clique=devices=[0,1,2,3]` "
        "for 10 seconds and may be stuck. Expected 4 threads to join the rendezvous, but "
        "not all of them arrived on time.\nF1123 10:10:50.920189 external/xla/xla/service/"
        "rendezvous.cc:75] Termination timeout for `initialize clique for rank "
        f"{RANK}` of 40 seconds exceeded. Exiting to ensure a consistent program state."
    )
    os.abort()


def lose_hccl() -> None:
    raise RuntimeError(
        "[ERROR] HCCL error in: torch_npu/csrc/distributed/ProcessGroupHCCL.cpp:64\n[ERROR] "
        "2026-11-24-01:22:03 (PID:4711, Device:0, RankID:0) ERR02200 DIST call hccl api failed.\n"
        "EI0002: The wait execution of the Notify register times out. Reason: The Notify register "
        "has not received the Notify record from remote rank [3]."
    )


def lose_worker() -> None:
    raise TimeoutError("barrier 'epoch-3': 3 of 4 workers arrived within 10 s; missing: worker-2")


def lose_heartbeat() -> None:
    if RANK == 0:
        complain("monitor: worker 1 has sent no heartbeat for 10 s; aborting the run")
        os._exit(1)
    time.sleep(30)


def lose_rpc() -> None:
    if RANK != 0:
        time.sleep(30)
    raise RuntimeError(
        "On WorkerInfo(id=0, name=trainer0): RPCErr:1:RPC ran for more than set timeout (10000 ms) "
        "and will now be marked with an error. Destination: WorkerInfo(id=2, name=parameters2)"
    )


@planted("nccl-remote", "exception", "3", "KeyError.*labels", lost=lose_remote)
def lose_labels() -> None:
    raise KeyError("labels")


@planted("mpi-peer", "exit -11", "2", "SIGSEGV", mode="slurm-direct", lost=lose_mpi)
def crash_under_mpi() -> None:
    complain(
        "[n2:02773] *** Process received signal ***\n[n2:02773] Signal: Segmentation fault (11)\n"
        "[n2:02773] Signal code: Invalid permissions (2)\n[n2:02773] Failing at address: "
        "0x7f1246cb4a00\n[n2:02773] [ 0] /lib/x86_64-linux-gnu/libpthread.so.0(+0x11390)[0x7f732e9c"
        "3390]"
    )
    ctypes.string_at(0)


@planted(
    "horovod-shut", "exception", "1", "bad bucket 4", mode="slurm-direct", lost=lose_shut_horovod
)
def shut_horovod() -> None:
    raise ValueError("bad bucket 4")


@planted(
    "jax-clique",
    "collective-timeout or rendezvous or hang or exit -6",
    "2",
    "clique|did not take",
    timeout=10,
    lost=lose_clique,
)
def miss_clique() -> None:
    print("compiling", flush=True)
    time.sleep(300)


@planted("keras-logs", "exception", "3", "Empty Logs", lost=lose_tensorflow)
def train_on_nothing() -> None:
    raise ValueError("Unexpected result of `train_function` (Empty Logs). Please use compile().")


planted("jax-coordinator-killed", "exit -9 or killed", "0", "SIGKILL", lost=lose_jax)(kill_self)


planted("jax-process-raises", "exception", "1", "bad record", mode="pbs-direct", lost=lose_jax)(
    raise_with("ValueError", "bad record 1187 in part-00003")
)


planted(
    "jax-heartbeat",
    "collective-timeout or hang or exit -6",
    "3",
    "",
    timeout=10,
    lost=lose_jax_heartbeat,
)(stay)


planted("nccl-dump-signal", "collective-timeout or nccl", "3", "", timeout=10, lost=lose_nccl)(stay)


@planted(
    "nccl-after-illegal",
    "gpu-error",
    "1",
    "illegal memory access",
    mode="pbs-direct",
    lost=wait_for_watchdog,
)
def access_illegally() -> None:
    complain(
        "[rank1]:[E1124 01:22:03.131415 ProcessGroupNCCL.cpp:1746] [PG ID 0 PG GUID 0(default_pg) "
        "Rank 1] Process group watchdog thread terminated with exception: CUDA error: an illegal "
        "memory access was encountered\nCUDA kernel errors might be asynchronously reported at some"
        " other API call, so the stacktrace below might be incorrect.\nFor debugging consider "
        "passing CUDA_LAUNCH_BLOCKING=1\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side "
        "assertions.\n\nterminate called after throwing an instance of 'c10::DistBackendError'"
    )
    os.abort()


planted(
    "horovod-stalled",
    "collective-timeout or hang or exception",
    "3",
    "Missing ranks|stall",
    timeout=10,
    mode="pbs-direct",
    lost=lose_horovod,
)(stay)


planted(
    "hccl-notify",
    "collective-timeout or nccl or exception or hang",
    "3",
    "",
    timeout=10,
    lost=lose_hccl,
)(stay)


planted(
    "own-barrier",
    "collective-timeout or hang or exception",
    "2",
    "worker-2",
    timeout=10,
    lost=lose_worker,
)(stay)


planted(
    "own-heartbeat",
    "collective-timeout or hang or exit 1 or left-early",
    "1",
    "no heartbeat",
    timeout=10,
    mode="pbs-direct",
    lost=lose_heartbeat,
)(stay)


planted(
    "rpc-timeout", "collective-timeout or hang or exception", "2", "", timeout=10, lost=lose_rpc
)(stay)


if __name__ == "__main__":
    main()
