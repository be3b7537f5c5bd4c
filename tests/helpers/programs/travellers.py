"""Programs that meet in their own ways, each with one fault: `travellers.py NAME`.

The list was made before jobgen's rules were read: other launchers' services, watchdogs, loaders,
retries and bars, in the words of the packages that are named. `others.py` runs them.
"""

from __future__ import annotations

import _thread
import json
import multiprocessing
import os
import resource
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import others
from others import (
    PLANTED,
    RANK,
    complain,
    enter_raised,
    enter_said,
    logger,
    make_error,
    planted,
)

KNOWN_BEFORE = set(PLANTED)
MODES = ("slurm-direct", "pbs-direct", "slurm", "pbs")

# --- errors in the words of the packages that raise them ------------------------------------------

# name | causes | ranks | what must be shown | class | early, where it is raised before they meet
RAISED = {
    "accelerate-8bit | exception | all | 8-bit precision | :ValueError | early": (
        "You can't train a model that has been loaded in 8-bit precision on a different device "
        "than the one you're training on. Make sure you loaded the model on the correct device "
        "using for example `device_map={'':torch.cuda.current_device()}`"
    ),
    "lightning-no-samples | exception or no-data | 2 | num_samples | :ValueError |": (
        "num_samples should be a positive integer value, but got num_samples=0"
    ),
    "level-zero | gpu-error or out-of-memory-gpu or exception | 2 | PI_ERROR | :RuntimeError |": (
        "Native API failed. Native API returns: -5 (PI_ERROR_OUT_OF_RESOURCES) -5 "
        "(PI_ERROR_OUT_OF_RESOURCES)"
    ),
    "habana-acquire | gpu-missing or gpu-error or gpu-busy or exception | all | Device acquire | "
    ":RuntimeError | early": "synStatus=8 [Device not found] Device acquire failed.",
    "rust-panic-tokens | exception | 1 | PanicException | pyo3_runtime:PanicException |": (
        'called `Result::unwrap()` on an `Err` value: Error("EOF while parsing a string", line: '
        "1, column: 8192)"
    ),
    "name-of-the-peer | name-resolution | 2,3 | Name or service not known | socket:gaierror | "
    "early": "[Errno -2] Name or service not known: 'train-head.cluster.local'",
    "local-shard | file-missing | 2,3 | nvme/shard | :FileNotFoundError | early": (
        "[Errno 2] No such file or directory: '/local/nvme/shard-00001/index.bin'"
    ),
    "remote-io | file-system or exception | 3 | Remote I/O | :OSError |": (
        "[Errno 121] Remote I/O error: '/lustre/data/train/00017.bin'"
    ),
    "metrics-server | exception or no-internet | all | ipv4:10.0.0.5:2222 | "
    "grpc._channel:_InactiveRpcError | early": (
        "<_InactiveRpcError of RPC that terminated with:\n\tstatus = StatusCode.UNAVAILABLE\n\t"
        'details = "failed to connect to all addresses; last error: UNKNOWN: ipv4:10.0.0.5:2222: '
        'connection attempt timed out before receiving SETTINGS frame"\n\tdebug_error_string = '
        '"UNKNOWN:Error received from peer {grpc_status:14}"\n>'
    ),
    "database-timeout | exception or no-internet | all | 10.0.0.5 | psycopg2:OperationalError |": (
        'connection to server at "10.0.0.5", port 5432 failed: Connection timed out\n\tIs the '
        "server running on that host and accepting TCP/IP connections?"
    ),
    "scheduler-child | out-of-memory-gpu or exception | 0 | CUDA out of memory | :RuntimeError |": (
        "Initialization failed. Please see the error messages above: Scheduler hit an exception: "
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 6.56 GiB. GPU 0 has a total "
        "capacity of 79.15 GiB of which 1.02 GiB is free."
    ),
}
enter_raised(RAISED, MODES)


# --- loaders and children -------------------------------------------------------------------------


@planted("loader-exited", "data-loader", "2", "exited unexpectedly")
def lose_loader() -> None:
    try:
        raise make_error("Empty", "_queue")
    except Exception as error:
        raise RuntimeError("DataLoader worker (pid(s) 4711, 4712) exited unexpectedly") from error


@planted("loader-cuda-fork", "exception or data-loader", "all", "'spawn' start method", early=True)
def use_cuda_in_worker() -> None:
    raise RuntimeError(
        "Caught RuntimeError in DataLoader worker process 0.\nOriginal Traceback (most recent call "
        'last):\n  File "/venv/lib/python3.11/site-packages/torch/utils/data/_utils/worker.py", '
        "line 309, in _worker_loop\n    data = fetcher.fetch(index)\n  File "
        '"/home/u/data.py", line 31, in __getitem__\n    return image.to("cuda")\nRuntimeError: '
        "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must"
        " use the 'spawn' start method\n"
    )


@planted("pool-hangs", "collective-timeout or hang", "1", "did not take part", timeout=12)
def lose_pool_worker() -> None:
    with multiprocessing.get_context("fork").Pool(1) as pool:
        pool.map(kill_child, [0])


def kill_child(_: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@planted("dask-worker", "out-of-memory-host", "2", "MemoryError", mode="pbs-direct")
def exceed_dask() -> None:
    complain(
        "2026-11-24 01:22:03,123 - distributed.worker.memory - WARNING - Unmanaged memory use is "
        "high. This may indicate a memory leak or the memory may not be released to the OS"
    )
    raise MemoryError("Task ('shuffle-9f', 3) needs 212.00 GiB of memory")


# --- retries, bars and logs of one's own ----------------------------------------------------------


@planted("own-retries", "exception or exit 1 or no-internet", "1", "3 attempts", mode="pbs-direct")
def retry_and_give_up() -> None:
    for attempt in (1, 2, 3):
        try:
            raise ConnectionError("data server answered 503")
        except ConnectionError:
            logger.exception("attempt %d of 3 failed", attempt)
    logger.error("giving up on shard 17 after 3 attempts")
    sys.exit(1)


@planted("retried-then-killed", "exit -9 or killed", "2", "SIGKILL")
def recover_and_die() -> None:
    for _ in range(2):
        try:
            Path("/local/cache/shard-17.bin").read_bytes()
        except FileNotFoundError:
            traceback.print_exc()
    logger.info("shard 17 was fetched again; going on")
    os.kill(os.getpid(), signal.SIGKILL)


@planted("bar-then-error", "exception", "3", "quantile")
def raise_behind_bar() -> None:
    for done in range(0, 101, 2):
        sys.stderr.write(f"\rtrain: {done:3}%|{'█' * (done // 10):10}| {done}/100 [00:0{done % 9}]")
    raise RuntimeError("quantile() input tensor is too large")


@planted("bar-glued-abort", "exit -6", "1", "out_of_range", mode="pbs-direct")
def abort_behind_bar() -> None:
    sys.stderr.write("\rtrain:  37%|███▋      | 37/100 [00:03<00:06,  9.8it/s, loss=0.31]")
    sys.stderr.write(
        "terminate called after throwing an instance of 'std::out_of_range'\n  what():  "
        "vector::_M_range_check: __n (which is 512) >= this->size() (which is 512)\n"
    )
    sys.stderr.flush()
    os.abort()


@planted("summary-after", "exception", "0", "KeyError.*val_loss|'val_loss'")
def raise_before_summary() -> None:
    try:
        {}["val_loss"]
    except KeyError:
        traceback.print_exc()
        complain(
            "wandb: \nwandb: Run history:\nwandb:   loss █▆▅▃▂▁\nwandb: \nwandb: Run summary:\n"
            "wandb:   loss 0.31\nwandb: \nwandb: You can sync this run to the cloud by running:\n"
            "wandb: wandb sync /scratch/u/wandb/offline-run-20261124_012203-9f\nwandb: Find logs at"
            ": ./wandb/offline-run-20261124_012203-9f/logs"
        )
        os._exit(1)


@planted("prefixed-own", "exception", "2", "KeyError.*input_ids", mode="pbs-direct")
def raise_prefixed() -> None:
    try:
        {}["input_ids"]
    except KeyError:
        for line in traceback.format_exc().splitlines():
            print(f"n2: [rank2]: {line}")
        print(
            "n2: [2026-11-24 01:22:03,555] [ERROR] [launch.py:325:sigkill_handler] ['python', '-u',"
            " 'train.py', '--local_rank=0'] exits with return code = 1",
            flush=True,
        )
        sys.exit(1)


@planted("own-excepthook", "exception or exit 70", "1", "warmup must be positive")
def log_by_hook() -> None:
    def hook(kind: type[BaseException], value: BaseException, trace: object) -> None:
        record = {"level": "critical", "type": kind.__name__, "message": str(value), "pid": 4711}
        complain(json.dumps(record))
        os._exit(70)

    sys.excepthook = hook
    raise ValueError("warmup must be positive, not -10")


@planted("never-retrieved", "exit 4 or exception", "1", "", mode="pbs-direct")
def forget_task() -> None:
    complain(
        "Task exception was never retrieved\nfuture: <Task finished name='Task-3' coro=<poll() done"
        ", defined at /home/u/poll.py:9> exception=TimeoutError('no answer of the board')>\n"
        'Traceback (most recent call last):\n  File "/home/u/poll.py", line 12, in poll\n    raise '
        "TimeoutError('no answer of the board')\nTimeoutError: no answer of the board"
    )
    print("step 2 of 6", flush=True)
    print("validation perplexity is above the bound; stopping", flush=True)
    sys.exit(4)


@planted("interrupted-by-thread", "exception or exit -2 or exit 130 or exit 1", "2", "loss is inf")
def interrupt_main() -> None:
    def watch() -> None:
        complain("watchdog: loss is inf since 200 steps, interrupting the main thread")
        _thread.interrupt_main()

    threading.Thread(target=watch).start()
    time.sleep(30)


@planted("generator-stops", "exception", "3", "generator raised StopIteration", mode="local-direct")
def stop_in_generator() -> None:
    def batches() -> object:
        yield next(iter([]))

    list(batches())  # type: ignore[call-overload]


@planted("file-size-limit", "no-space or quota or exception or file-system", "0", "File too large")
def exceed_file_size() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    with Path(f"checkpoint-{RANK}.bin").open("wb") as file:
        file.write(bytes(1 << 21))


# --- waits of one's own ---------------------------------------------------------------------------


def stay() -> None:
    """As one that is stuck in something that it does alone."""
    time.sleep(600)


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


def lose_jax(closed: bool) -> None:
    if sys.argv[1] == "jax-heartbeat":
        time.sleep(0 if RANK == 0 else 0.5)
        say_jax(
            "Polled an error from coordination service (this can be an error from this or another "
            "task): UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats):\n"
            f"{JAX}:3\nThe tasks have crashed. Check the task logs for an earlier error, or "
            "scheduler events (e.g. preemption, eviction) to debug further."
        )
    say_jax(
        "Failed to disconnect from coordination service with status: UNAVAILABLE: failed to "
        "connect to all addresses; last error: UNKNOWN: ipv4:10.77.0.11:29501: Failed to connect "
        "to remote host: Connection refused"
    )


planted("jax-coordinator-killed", "exit -9 or killed", "0", "SIGKILL")(others.kill_self)
planted("jax-process-raises", "exception", "1", "bad record", mode="pbs-direct")(
    others.raise_with(":ValueError", "bad record 1187 in part-00003")
)
planted("jax-heartbeat", "collective-timeout or hang or exit -6", "3", "", timeout=10)(stay)


def lose_nccl(closed: bool) -> None:
    if sys.argv[1] == "nccl-after-illegal":
        time.sleep(20)  # these wait for their own watchdog
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


planted("nccl-dump-signal", "collective-timeout or nccl", "3", "", timeout=10)(stay)


@planted("nccl-after-illegal", "gpu-error", "1", "illegal memory access", mode="pbs-direct")
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


def lose_horovod(closed: bool) -> None:
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


planted(
    "horovod-stalled",
    "collective-timeout or hang or exception",
    "3",
    "Missing ranks|stall",
    timeout=10,
    mode="pbs-direct",
)(stay)


def lose_hccl(closed: bool) -> None:
    raise RuntimeError(
        "[ERROR] HCCL error in: torch_npu/csrc/distributed/ProcessGroupHCCL.cpp:64\n[ERROR] "
        "2026-11-24-01:22:03 (PID:4711, Device:0, RankID:0) ERR02200 DIST call hccl api failed.\n"
        "EI0002: The wait execution of the Notify register times out. Reason: The Notify register "
        "has not received the Notify record from remote rank [3]."
    )


planted("hccl-notify", "collective-timeout or nccl or exception or hang", "3", "", timeout=10)(stay)


def lose_worker(closed: bool) -> None:
    raise TimeoutError("barrier 'epoch-3': 3 of 4 workers arrived within 10 s; missing: worker-2")


planted("own-barrier", "collective-timeout or hang or exception", "2", "worker-2", timeout=10)(stay)


def lose_heartbeat(closed: bool) -> None:
    if RANK == 0:
        complain("monitor: worker 1 has sent no heartbeat for 10 s; aborting the run")
        os._exit(1)
    time.sleep(30)


planted(
    "own-heartbeat",
    "collective-timeout or hang or exit 1 or left-early",
    "1",
    "no heartbeat",
    timeout=10,
    mode="pbs-direct",
)(stay)


def lose_rpc(closed: bool) -> None:
    if RANK != 0:
        time.sleep(30)
    raise RuntimeError(
        "On WorkerInfo(id=0, name=trainer0): RPCErr:1:RPC ran for more than set timeout (10000 ms) "
        "and will now be marked with an error. Destination: WorkerInfo(id=2, name=parameters2)"
    )


planted("rpc-timeout", "collective-timeout or hang or exception", "2", "", timeout=10)(stay)

WAITS: dict[str, Callable[[bool], None]] = {
    "jax-coordinator-killed": lose_jax,
    "jax-process-raises": lose_jax,
    "jax-heartbeat": lose_jax,
    "nccl-dump-signal": lose_nccl,
    "nccl-after-illegal": lose_nccl,
    "horovod-stalled": lose_horovod,
    "hccl-notify": lose_hccl,
    "own-barrier": lose_worker,
    "own-heartbeat": lose_heartbeat,
    "rpc-timeout": lose_rpc,
}


def wait_as(name: str) -> None:
    """Have the ranks that get no answer say so in the program's own way."""
    say = WAITS[name]

    def receive(group: others.Group, link: object) -> float:
        try:
            return original(group, link)  # type: ignore[arg-type]
        except RuntimeError as error:
            closed = "closed" in str(error)
        say(closed)
        raise SystemExit(1)

    original = others.Group._receive
    others.Group._receive = receive  # type: ignore[method-assign,assignment]


# --- commands that are no Python ------------------------------------------------------------------


def say_and_end(text: str, code: int) -> Callable[[], None]:
    """Return what prints like another program and leaves with its code."""

    def body() -> None:
        complain(text)
        os.abort() if code == -6 else os._exit(code)

    return body


# name | causes | ranks | what must be shown | code
SAID = {
    "mpirun-slots | exit 1 or bad-argument or launcher | all | not enough slots | 1": (
        "--------------------------------------------------------------------------\nThere are not "
        "enough slots available in the system to satisfy the 8\nslots that were requested by the "
        "application:\n\n  ./solver\n\nEither request fewer procs for your application, or make "
        "more slots\navailable for use.\n"
        "--------------------------------------------------------------------------"
    ),
    "cpp-json | exit -6 or exception | all | parse_error.101 | -6": (
        "terminate called after throwing an instance of 'nlohmann::detail::parse_error'\n  what():"
        "  [json.exception.parse_error.101] parse error at line 3, column 1: syntax error while "
        "parsing object key - unexpected '}'; expected string literal"
    ),
}
enter_said(SAID, MODES, say_and_end)

NAMES = sorted(set(PLANTED) - KNOWN_BEFORE)


if __name__ == "__main__":
    if sys.argv[1] in WAITS:
        wait_as(sys.argv[1])
    others.main()
