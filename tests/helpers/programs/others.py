"""Programs as others write them, each with one fault, and what is true of it: `others.py NAME`.

`tests/diagnose/plant_faults.py` reads PLANTED and runs them; nothing here knows what jobgen says.
Two nodes with two processes each; most do without torch, as its import takes the most time.
"""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import errno
import faulthandler
import json
import logging
import mmap
import os
import pickle
import resource
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

RANK = int(os.environ.get("RANK", "0"))
WORLD = int(os.environ.get("WORLD_SIZE", "1"))
LOCAL = int(os.environ.get("LOCAL_RANK", "0"))


class Truth(NamedTuple):
    """What is true of a fault: `ranks` whose fault it is ("all", "2", "1,3", "-" for none)."""

    name: str
    causes: str  # ids, any of which is right
    ranks: str
    says: str  # a pattern that the diagnosis must show
    body: Callable[[], None]
    early: bool = False  # before the processes meet
    torch: bool = False
    mode: str = "slurm-direct"
    node: str = ""  # the one that alone has it
    timeout: int = 300  # of collective operations, in seconds
    changes: Mapping[str, Any] = {}
    noise: str = ""
    any_rank: bool = False  # the first of them ends the others before they can tell


PLANTED: dict[str, Truth] = {}


def planted(
    name: str, causes: str, ranks: str, says: str, **more: Any
) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Enter a fault; its function runs in the third step of the ranks that have it."""

    def enter(body: Callable[[], None]) -> Callable[[], None]:
        PLANTED[name] = Truth(name, causes, ranks, says, body, **more)
        return body

    return enter


# --- what programs are made of --------------------------------------------------------------------


class Group:
    """Processes that add numbers over TCP, and complain as gloo does."""

    def __init__(self, timeout: int) -> None:
        host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]) % 20_000 + 30_000
        self.timeout = timeout
        self.links: list[socket.socket] = []
        if RANK == 0:
            server = socket.create_server(("", port))
            server.settimeout(120)
            self.links = [server.accept()[0] for _ in range(WORLD - 1)]
        else:
            end = time.monotonic() + 120
            while not self.links:
                try:
                    self.links = [socket.create_connection((host, port), timeout=5)]
                except OSError:
                    if time.monotonic() > end:
                        raise
                    time.sleep(0.2)
        for link in self.links:
            link.settimeout(timeout)
        self.peers = {link: link.getpeername()[:2] for link in self.links}

    def add(self, value: float) -> float:
        """The sum over all."""
        if RANK:
            with contextlib.suppress(OSError):  # it is noticed as nothing comes back
                self.links[0].sendall(struct.pack("d", value))
            return self._receive(self.links[0])
        total = value + sum(map(self._receive, self.links))
        for link in self.links:
            with contextlib.suppress(OSError):  # it is noticed at the next step
                link.sendall(struct.pack("d", total))
        return total

    def _receive(self, link: socket.socket) -> float:
        host, port = self.peers[link]
        place = "/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp"
        try:
            data = link.recv(8)
        except TimeoutError:
            text = f"Timed out waiting {self.timeout}000ms for recv operation to complete"
            raise RuntimeError(f"[{place}/unbound_buffer.cc:81] {text}") from None
        except ConnectionError:
            data = b""
        if not data:
            text = f"Connection closed by peer [{host}]:{port}"
            raise RuntimeError(f"[{place}/pair.cc:553] {text}")
        return float(struct.unpack("d", data)[0])


def complain(text: str) -> None:
    """Print to stderr, at once."""
    print(text, file=sys.stderr, flush=True)


def make_error(name: str, module: str = "") -> type[Exception]:
    """An exception class as a package has it that is not installed here."""
    return type(name, (Exception,), {"__module__": module or "__main__"})


def enter_raised(rows: Mapping[str, str], modes: Sequence[str]) -> None:
    """Enter a fault for each row and text, the modes in turn.

    A row is `name | causes | ranks | what must be shown | module:class | early or nothing`.
    """
    for number, (row, text) in enumerate(rows.items()):
        name, causes, ranks, says, kind, early = (part.strip() for part in row.split(" |"))
        mode, body = modes[number % len(modes)], raise_with(kind, text)
        PLANTED[name] = Truth(name, causes, ranks, says, body, early=bool(early), mode=mode)


def enter_said(
    rows: Mapping[str, str], modes: Sequence[str], end: Callable[[str, int], Callable[[], None]]
) -> None:
    """Enter a fault for each row and text of what is no Python, the modes in turn.

    A row is `name | causes | ranks | what must be shown | code`; `end` makes what prints the text
    and ends with the code.
    """
    for number, (row, text) in enumerate(rows.items()):
        name, causes, ranks, says, code = (part.strip() for part in row.split(" |"))
        mode, body = modes[number % len(modes)], end(text, int(code))
        PLANTED[name] = Truth(name, causes, ranks, says, body, early=ranks == "all", mode=mode)


def raise_with(kind: str, text: str) -> Callable[[], None]:
    """Return what raises an error of this class, built in or of a package."""
    module, _, name = kind.partition(":")
    error = make_error(name, module) if module else getattr(builtins, name)

    def body() -> None:
        raise error(text)

    return body


logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO)
logger = logging.getLogger("train")


# --- programs that people take --------------------------------------------------------------------


@planted("hf-resume", "exception", "all", "valid checkpoint found in output", early=True)
def resume_without_checkpoint() -> None:
    for done in range(0, 101, 10):
        sys.stderr.write(f"\rLoading checkpoint shards: {done:3}%|{'#' * (done // 10):10}| ")
    raise ValueError("No valid checkpoint found in output directory (out/run-7)")


@planted("hf-offline", "no-internet", "0", "huggingface|hub")
def load_tokenizer() -> None:
    hub = make_error("LocalEntryNotFoundError", "huggingface_hub.errors")
    try:
        raise ConnectionError("(MaxRetryError(\"HTTPSConnectionPool(host='huggingface.co')\"))")
    except ConnectionError as cause:
        try:
            raise hub("An error happened while trying to locate the file on the Hub") from cause
        except hub as error:
            raise OSError(
                "We couldn't connect to 'https://huggingface.co' to load the files, and couldn't "
                "find them in the cached files."
            ) from error


@planted(
    "tokenizer-parallel", "exception", "all", "vocab|index 50257", early=True, mode="pbs-direct"
)
def vocabulary_too_small() -> None:
    complain(
        "huggingface/tokenizers: The current process just got forked, after parallelism has already"
        " been used. Disabling parallelism to avoid deadlocks...\nTo disable this warning, you can "
        "either:\n\t- Avoid using `tokenizers` before the fork if possible"
    )
    raise IndexError("index 50257 is out of bounds for dimension 0 with size 50257")


@planted("deepspeed-config", "exception", "all", "Check batch related parameters", early=True)
def check_batch() -> None:
    complain(
        "[2026-11-23 10:10:10,123] [INFO] [config.py:1001:print] DeepSpeedEngine configuration:"
    )
    assert 32 == 16 * 1 * 4, (
        "Check batch related parameters. train_batch_size is not equal to micro_batch_per_gpu * "
        "gradient_acc_step * world_size 32 != 16 * 1 * 4"
    )


@planted("deepspeed-json", "exception", "all", "JSONDecodeError|Expecting", early=True, mode="pbs")
def read_config() -> None:
    json.loads('{"train_batch_size": 32,\n "zero_optimization": {"stage": 2,}\n}')


@planted("extension-build", "compiler or exception", "0", "cpu_adam|ninja")
def build_extension() -> None:
    complain("[1/3] c++ -MMD -MF cpu_adam.o.d -c cpu_adam.cpp -o cpu_adam.o\nFAILED: cpu_adam.o")
    complain("cpu_adam.cpp:12:10: fatal error: curand_kernel.h: No such file or directory")
    try:
        raise subprocess.CalledProcessError(1, ["ninja", "-v"])
    except subprocess.CalledProcessError as error:
        raise RuntimeError("Error building extension 'cpu_adam'") from error


@planted("lightning-rich", "exception", "all", "MisconfigurationException|num_nodes", early=True)
def show_rich_traceback() -> None:
    complain(
        "╭───────────── Traceback (most recent call last) ─────────────╮\n"
        "│ /home/u/fit.py:41 in <module>                               │\n"
        "│   41 trainer.fit(model, loader)                             │\n"
        "╰─────────────────────────────────────────────────────────────╯\n"
        "MisconfigurationException: You set `num_nodes=1` but the cluster has 2 nodes."
    )
    sys.exit(1)


@planted("hydra-key", "exception", "all", "Key 'lr' is not in struct", early=True, mode="slurm")
def read_hydra() -> None:
    complain("Error executing job with overrides: ['optimizer.lr=0.1']")
    error = make_error("ConfigAttributeError", "omegaconf.errors")
    complain(f'Traceback (most recent call last):\n  File "{__file__}", line 9, in main\n    lr\n')
    complain(
        "omegaconf.errors.ConfigAttributeError: Key 'lr' is not in struct\n    full_key: lr\n\n"
        "Set the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace."
    )
    del error
    sys.exit(1)


@planted("argparse-choice", "bad-argument", "all", "invalid choice", early=True, mode="pbs-direct")
def choose() -> None:
    import argparse

    parser = argparse.ArgumentParser(prog="train.py")
    parser.add_argument("--precision", choices=["bf16", "fp32"])
    parser.parse_args(["--precision", "bf61"])


@planted("fire-argument", "bad-argument or exit 2", "all", "Could not consume arg", early=True)
def consume() -> None:
    complain(
        "ERROR: Could not consume arg: --lrr\nUsage: train.py <flags>\n\nFor detailed help, run"
    )
    sys.exit(2)


@planted("s3-forbidden", "exception or permission", "1", "403")
def list_bucket() -> None:
    error = make_error("ClientError", "botocore.exceptions")
    raise error("An error occurred (403) when calling the HeadObject operation: Forbidden")


@planted("ssl", "no-internet or exception", "0", "CERTIFICATE_VERIFY_FAILED")
def fetch() -> None:
    error = make_error("SSLError", "requests.exceptions")
    raise error(
        "HTTPSConnectionPool(host='data.example', port=443): Max retries exceeded with url: /x "
        "(Caused by SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED]')))"
    )


@planted("sqlite", "exception", "2", "database is locked", mode="pbs")
def open_database() -> None:
    raise sqlite3.OperationalError("database is locked")


@planted(
    "jax-backend", "gpu-missing or exception", "all", "Unable to initialize backend", early=True
)
def find_backend() -> None:
    raise RuntimeError("Unable to initialize backend 'cuda': INTERNAL: no supported devices found")


# --- data and checkpoints -------------------------------------------------------------------------


@planted("worker-killed", "data-loader", "2", "killed by signal", torch=True)
def kill_worker() -> None:
    from torch.utils.data import DataLoader

    list(DataLoader(range(8), num_workers=2, collate_fn=_kill_self))  # type: ignore[arg-type]


def _kill_self(batch: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@planted("worker-raises", "exception", "3", "cannot identify image file", torch=True, mode="slurm")
def refuse_image() -> None:
    from torch.utils.data import DataLoader

    list(DataLoader(range(8), num_workers=1, collate_fn=_refuse))  # type: ignore[arg-type]


def _refuse(batch: object) -> None:
    raise ValueError("cannot identify image file 'n01440764/1.jpeg'")


@planted("worker-pickle", "exception", "all", "[Cc]an't pickle|cannot pickle", early=True)
def spawn_workers() -> None:
    pickle.dumps(lambda batch: batch)


@planted("save-thread", "no-space", "0", "No space left", mode="pbs-direct")
def save_in_a_thread() -> None:
    failed: list[OSError] = []

    def write() -> None:
        try:
            raise OSError(errno.ENOSPC, "No space left on device", "ckpt/step-2.pt")
        except OSError as error:
            failed.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    thread.join()
    raise RuntimeError("the checkpoint's writer has died") from failed[0]


@planted("save-nowhere", "file-missing", "0", "step-2.pt")
def save_into_a_lost_folder() -> None:
    Path("checkpoints-gone/step-2.pt").write_bytes(b"x")


@planted("save-read-only", "permission", "0", "Read-only|Permission")
def save_read_only() -> None:
    raise OSError(errno.EROFS, "Read-only file system", "/datasets/step-2.pt")


@planted("safetensors-cut", "damaged-file", "all", "MetadataIncompleteBuffer", early=True)
def open_safetensors() -> None:
    error = make_error("SafetensorError", "safetensors_rust")
    raise error("Error while deserializing header: MetadataIncompleteBuffer")


@planted("weights-only", "exception", "all", "[Ww]eights.only", torch=True, early=True)
def load_weights_only() -> None:
    import argparse

    import torch

    path = f"weights-{RANK}.pt"
    torch.save({"args": argparse.Namespace(lr=0.1)}, path)
    torch.load(path)


@planted("numpy-objects", "exception", "all", "allow_pickle", early=True)
def load_objects() -> None:
    raise ValueError("Object arrays cannot be loaded when allow_pickle=False")


@planted("tar", "file-missing or exception", "0", "tar")
def unpack() -> None:
    subprocess.run(["tar", "xf", "shard-003.tar"], check=True)


@planted("decoder-killed", "exception", "0", "SIGKILL")
def decode() -> None:
    subprocess.run(["bash", "-c", "kill -9 $$"], check=True)


@planted("uneven-epochs", "left-early", "3", "epoch")
def finish_the_epoch() -> None:
    print("epoch 0 is done; saved nothing, as rank 0 does", flush=True)
    sys.exit(0)


@planted("uneven-torch", "left-early", "1", "", torch=True, mode="pbs")
def finish_early() -> None:
    os._exit(0)


@planted("no-data", "exception", "all", "ZeroDivisionError")
def divide() -> None:
    print(f"mean loss: {0 / len(list(Path('.').glob('*.parquet')))}")


@planted("lmdb-full", "exception", "2", "MDB_MAP_FULL")
def write_lmdb() -> None:
    error = make_error("MapFullError", "lmdb")
    raise error("mdb_put: MDB_MAP_FULL: Environment mapsize limit reached")


@planted("node-tmp-full", "no-space", "2,3", "No space left", node="n2")
def write_tmp() -> None:
    raise OSError(errno.ENOSPC, "No space left on device", "/tmp/cache/index.bin")


@planted("worker-files", "too-many-files", "0", "Too many open files", mode="pbs-direct")
def share_files() -> None:
    raise RuntimeError(
        "Too many open files. Communication with the workers is no longer possible. Please increase"
        " the limit using `ulimit -n` in the shell or change the sharing strategy"
    )


# --- shapes and collectives -----------------------------------------------------------------------


@planted("batch-shape", "exception", "2", "shapes cannot be multiplied", torch=True)
def multiply() -> None:
    import torch

    torch.nn.Linear(8, 4)(torch.ones(3, 7))


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


@planted("lock-file", "collective-timeout", "2", "lock", torch=True, timeout=15, mode="slurm")
def wait_for_a_lock() -> None:
    print("waiting for cache.lock", flush=True)
    time.sleep(90)


@planted("long-evaluation", "collective-timeout", "0", "evaluat", timeout=12)
def evaluate_long() -> None:
    print("rank 0 evaluates", flush=True)
    time.sleep(60)


@planted("nccl-watchdog", "collective-timeout", "1", "", timeout=400)
def hang_alone() -> None:
    time.sleep(90)


@planted("ddp-unused", "exception", "all", "finished reduction", torch=True, mode="pbs")
def leave_parameters() -> None:
    raise RuntimeError(
        "Expected to have finished reduction in the prior iteration before starting a new one. This"
        " error indicates that your module has parameters that were not used in producing loss."
    )


@planted(
    "ddp-other-model",
    "exception or collective-mismatch",
    "2",
    "same model across all ranks",
    torch=True,
)
def wrap_another_model() -> None:
    raise RuntimeError(
        "DDP expects same model across all ranks, but Rank 2 has 6 params, while rank 0 has "
        "inconsistent 4 params."
    )


@planted("nccl-connect", "rendezvous or nccl or network-hardware", "2", "Connection timed out")
def connect_nccl() -> None:
    raise RuntimeError(
        "NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:268, remote process exited or "
        "there was a network error, NCCL version 2.21.5\nncclRemoteError: A call failed possibly "
        "due to a network error or a remote process exiting prematurely.\nLast error:\nsocketPoll"
        "Connect: connect to 10.0.0.3<45321> returned Connection timed out, exceeded error retry"
    )


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
def come_late() -> None:
    print("building the index", flush=True)
    time.sleep(60)


@planted("nan-on-two", "not-a-number", "1,3", "loss is nan", mode="slurm")
def assert_finite() -> None:
    raise AssertionError(f"loss is nan at step 2 on rank {RANK}")


@planted("two-faults", "exception", "1", "KeyError")
def fail_first() -> None:
    raise KeyError("label_map")


# --- code that is not Python ----------------------------------------------------------------------


@planted("segv-thread", "exit -11", "2", "SIGSEGV", mode="slurm")
def crash_in_a_thread() -> None:
    faulthandler.enable()
    thread = threading.Thread(target=ctypes.string_at, args=(0,))
    thread.start()
    thread.join()


@planted("terminate", "exit -6", "1", "bad voxel grid")
def terminate() -> None:
    complain("terminate called after throwing an instance of 'std::runtime_error'")
    complain("  what():  bad voxel grid: 0 x 4 x 4")
    os.abort()


@planted("double-free", "exit -6", "3", "double free", mode="pbs")
def free_twice() -> None:
    complain("double free or corruption (!prev)")
    os.abort()


@planted("illegal-instruction", "exit -4", "2,3", "SIGILL", node="n2", mode="slurm")
def run_wrong_code() -> None:
    os.kill(os.getpid(), signal.SIGILL)


@planted("bus-error", "exit -7", "1", "SIGBUS")
def map_a_cut_file() -> None:
    path = Path(f"cut-{RANK}.bin")
    path.write_bytes(bytes(1 << 16))
    with path.open("r+b") as file:
        view = mmap.mmap(file.fileno(), 0)
        os.truncate(path, 0)
        print(view[0])


@planted("undefined-symbol", "import", "2,3", "undefined symbol", node="n2", early=True)
def import_extension() -> None:
    raise ImportError("flash_attn_2_cuda.so: undefined symbol: _ZN3c104cuda9SetDeviceEi")


@planted("mpi-abort", "exit 5", "2", "MPI_Abort")
def abort_mpi() -> None:
    complain("application called MPI_Abort(MPI_COMM_WORLD, 5) - process 2")
    os._exit(5)


@planted("openblas-threads", "exit -11 or too-many-threads", "1", "pthread_create")
def start_blas() -> None:
    complain(
        "OpenBLAS blas_thread_init: pthread_create failed for thread 7 of 64: Resource temporarily "
        "unavailable\nOpenBLAS blas_thread_init: RLIMIT_NPROC 512 current, 512 max"
    )
    os.kill(os.getpid(), signal.SIGSEGV)


@planted("threads", "too-many-threads", "2", "can't start new thread")
def start_threads() -> None:
    raise RuntimeError("can't start new thread")


@planted("array-memory", "out-of-memory-host", "1", "Unable to allocate", mode="pbs-direct")
def allocate() -> None:
    error = make_error("_ArrayMemoryError", "numpy._core._exceptions")
    raise error("Unable to allocate 74.5 GiB for an array with shape (100000, 100000)")


@planted("memory-killed", "exit -9 or killed or out-of-memory-host", "2", "SIGKILL")
def die_of_memory() -> None:
    print("step 2: rss 61.9 GB", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


@planted("memory-limit", "out-of-memory-host", "3", "MemoryError")
def meet_the_limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29))
    print(len(bytes(1 << 30)))


@planted("interrupted", "exception or exit -2", "2", "KeyboardInterrupt|SIGINT", mode="slurm")
def interrupt() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(5)


@planted(
    "compile-no-compiler",
    "compiler",
    "all",
    "[Cc]ompiler|InductorError|nonexistent",
    torch=True,
    early=True,
    changes={"environment": {"variables": {"CXX": "/nonexistent/c++"}}},
)
def compile_model() -> None:
    import torch

    torch.compile(lambda x: torch.sin(x) + 1)(torch.ones(64))


@planted("compile-fullgraph", "exception", "all", "Unsupported|graph", torch=True, early=True)
def compile_whole() -> None:
    import torch

    def step(x: torch.Tensor) -> torch.Tensor:
        print("a break")
        return x + 1

    torch.compile(step, fullgraph=True, backend="eager")(torch.ones(4))


# --- exceptions that are logged, or come beside others --------------------------------------------


@planted("logged-and-left", "exception", "1", "bad shard 12")
def log_and_leave() -> None:
    try:
        raise ValueError("bad shard 12")
    except ValueError:
        logger.exception("training failed")
        sys.exit(1)


@planted("logged-and-saved", "exception or exit 1", "2", "lr schedule ended")
def log_and_save() -> None:
    try:
        raise RuntimeError("lr schedule ended at 100 of 200 steps")
    except RuntimeError:
        logger.exception("training failed")
        logger.info("writing an emergency checkpoint")
        logger.info("done")
        sys.exit(1)


@planted("destructor-noise", "exception", "3", "bad crop")
def fail_before_destructors() -> None:
    import atexit

    atexit.register(
        complain,
        "Exception ignored in: <function _MultiProcessingDataLoaderIter.__del__ at 0x7f>\n"
        "Traceback (most recent call last):\n"
        '  File "/v/lib/python3.11/site-packages/torch/utils/data/loader.py", line 1, in __del__\n'
        "    self._shutdown_workers()\nAssertionError: can only test a child process",
    )
    raise ValueError("bad crop (0, 0, -4, 4)")


@planted("exit-noise", "exception", "0", "schema 7")
def fail_before_exit_functions() -> None:
    import atexit

    atexit.register(lambda: {}["wandb"])
    raise RuntimeError("unknown schema 7")


@planted("asyncio", "exception", "1", "TimeoutError|reader")
def read_asynchronously() -> None:
    import asyncio

    async def fail() -> None:
        raise ConnectionResetError("stats server")

    async def main() -> None:
        task = asyncio.ensure_future(fail())
        await asyncio.sleep(0.1)
        del task
        await asyncio.wait_for(asyncio.sleep(60), 0.2)

    asyncio.run(main())


@planted("from-reset", "exception", "2", "shard truncated", mode="slurm")
def wrap_a_reset() -> None:
    try:
        raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
    except ConnectionResetError as error:
        raise ValueError("shard truncated at 4096 of 8192 bytes") from error


@planted("group-of-errors", "exception", "2", "unhandled errors|bad record 9", mode="pbs-direct")
def raise_group() -> None:
    raise ExceptionGroup(  # noqa: F821
        "unhandled errors in a TaskGroup",
        [ConnectionResetError("Connection reset by peer"), ValueError("bad record 9")],
    )


@planted("message", "exit 1", "all", "no tokens in data/", early=True, mode="pbs")
def leave_with_a_message() -> None:
    sys.exit("no tokens in data/; run prepare.py first")


# --- what is wrong before the program -------------------------------------------------------------


@planted("shadowed-package", "exception", "all", "has no attribute", early=True)
def import_shadow() -> None:
    Path(f"own-{RANK}").mkdir(exist_ok=True)
    Path(f"own-{RANK}/calendar.py").write_text("x = 1\n")
    sys.path.insert(0, f"own-{RANK}")
    sys.modules.pop("calendar", None)
    import calendar

    calendar.timegm(time.gmtime())


@planted("circular-import", "import or exception", "all", "partially initialized", early=True)
def import_circular() -> None:
    Path(f"own-{RANK}").mkdir(exist_ok=True)
    Path(f"own-{RANK}/model.py").write_text("from loss import Loss\nclass Model: ...\n")
    Path(f"own-{RANK}/loss.py").write_text("from model import Model\nclass Loss: ...\n")
    sys.path.insert(0, f"own-{RANK}")
    __import__("model")


@planted("syntax", "exception", "all", "SyntaxError", early=True, mode="pbs-direct")
def import_wrong_syntax() -> None:
    Path(f"broken_{RANK}.py").write_text("def step(batch)\n    return batch\n")
    sys.path.insert(0, ".")
    __import__(f"broken_{RANK}")


def nothing() -> None:
    """What is wrong is in the spec."""


def of_spec(name: str, causes: str, ranks: str, says: str, **more: Any) -> None:
    """Enter a fault that the spec has, and not the program."""
    planted(name, causes, ranks, says, **more)(nothing)


of_spec(
    "setup-ulimit",
    "setup",
    "",
    "ulimit",
    changes={"environment": {"setup": "ulimit -Hn 100\nulimit -n 9999999"}},
)
of_spec(
    "setup-unset",
    "setup",
    "",
    "SITE_ROOT|unbound",
    changes={"environment": {"setup": "set -u; export DATA=$SITE_ROOT/data"}},
    mode="pbs-direct",
)
of_spec(
    "setup-activate",
    "setup or environment-missing",
    "",
    "activate",
    mode="slurm",
    changes={"environment": {"setup": "source /opt/miniconda/bin/activate base"}},
)
of_spec(
    "not-executable",
    "exit 126 or command-missing or permission",
    "all",
    "train.sh",
    changes={"run": {"command": ["./train.sh"]}},
)
of_spec(
    "carriage-return",
    "exit 126 or exit 127 or command-missing",
    "all",
    "interpreter|crlf.sh",
    changes={"run": {"command": ["./crlf.sh"]}},
    mode="pbs-direct",
)
of_spec(
    "no-shared-library",
    "import or command-missing or exit 127",
    "all",
    "libcudart",
    changes={
        "run": {
            "command": [
                "bash",
                "-c",
                "echo './solver: error while loading shared libraries: libcudart.so.11.0: cannot "
                "open shared object file: No such file or directory' >&2; exit 127",
            ]
        }
    },
)
of_spec(
    "hang-at-once",
    "hang or walltime",
    "-",
    "",
    changes={"run": {"command": ["sleep", "600"]}, "resources": {"walltime": "1m"}},
)
of_spec(
    "module-typo",
    "exit 1 or import",
    "all",
    "No module named",
    mode="slurm",
    changes={"run": {"command": ["python3", "-m", "trian"]}},
)


# --- as others met them ---------------------------------------------------------------------------


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


@planted("hang-at-the-end", "hang", "3", "", changes={"resources": {"walltime": "1m"}})
def hang_at_the_end() -> None:
    print("finished", flush=True)


@planted("recursion", "exception", "2", "RecursionError")
def recurse() -> None:
    recurse()


@planted("hangup", "exit -1", "1", "SIGHUP")
def hang_up() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGHUP)


@planted("torchvision", "import", "all", "torchvision::nms does not exist", early=True)
def import_torchvision() -> None:
    raise RuntimeError("operator torchvision::nms does not exist")


@planted("table-missing", "exception", "0", "relation .runs. does not exist")
def query() -> None:
    raise RuntimeError('relation "runs" does not exist')


@planted("privileged-port", "permission", "2", "below 1024", mode="pbs-direct")
def bind_low() -> None:
    raise PermissionError(errno.EACCES, "Permission denied")


@planted("library-cut", "damaged-file", "2,3", "file too short", early=True, mode="pbs-direct")
def load_cut_library() -> None:
    raise ImportError(
        "/venv/lib/python3.11/site-packages/torch/lib/libtorch_cpu.so: file too short"
    )


@planted("vocabulary-noise", "exception", "2", "vocab.size 32000 != 32001", noise="many")
def assert_vocabulary() -> None:
    raise AssertionError("vocab.size 32000 != 32001")


# --- a second list, of later --------------------------------------------------------------------


def planted_error(name: str, ranks: str, says: str, module: str, text: str, **more: Any) -> None:
    """Enter a fault that is an exception of a package, and nothing else."""
    package, _, kind = module.rpartition(".")

    def body() -> None:
        raise make_error(kind, package)(text)

    planted(name, more.pop("causes", "exception"), ranks, says, **more)(body)


planted_error(
    "few-shards",
    "all",
    "fewer shards",
    "ValueError",
    "fewer shards (2) than workers (4)",
    early=True,
)
planted_error(
    "parquet",
    "1",
    "magic bytes",
    "pyarrow.lib.ArrowInvalid",
    "Parquet magic bytes not found in footer. Either the file is corrupted or this is not "
    "a parquet file.",
    causes="exception or damaged-file",
)
planted_error(
    "hdf5-lock",
    "2",
    "unable to lock",
    "BlockingIOError",
    "[Errno 11] Unable to synchronously open file (unable to lock file, errno = 11)",
    mode="pbs-direct",
)
planted_error(
    "image-cut",
    "3",
    "truncated",
    "OSError",
    "image file is truncated (12 bytes not processed)",
    causes="exception or damaged-file",
)
planted_error(
    "gpu-memory",
    "1",
    "out of memory",
    "torch.OutOfMemoryError",
    "CUDA out of memory. "
    "Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 79.10 GiB of which 1.2 GiB",
    causes="out-of-memory-gpu",
)
planted_error(
    "gpu-memory-all",
    "all",
    "out of memory",
    "torch.cuda.OutOfMemoryError",
    "CUDA out of memory. Tried to allocate 2.00 GiB",
    causes="out-of-memory-gpu",
    mode="slurm",
)
planted_error(
    "cudnn",
    "0",
    "CUDNN_STATUS",
    "RuntimeError",
    "cuDNN error: CUDNN_STATUS_EXECUTION_FAILED",
    causes="exception or gpu-error",
)
planted_error(
    "nccl-memory",
    "3",
    "NCCL",
    "torch.distributed.DistBackendError",
    "NCCL error in: "
    "NCCLUtils.cpp:77, unhandled cuda error, NCCL version 2.27.5\nncclUnhandledCudaError: "
    "Call to CUDA function failed.\nLast error:\nCuda failure 2 'out of memory'",
    causes="nccl or out-of-memory-gpu or gpu-error",
)
planted_error(
    "ecc",
    "2",
    "ECC",
    "torch.AcceleratorError",
    "CUDA error: uncorrectable ECC error encountered",
    causes="gpu-error",
)
planted_error(
    "fsdp-dtype",
    "all",
    "uniform dtype",
    "ValueError",
    "Must flatten tensors with uniform dtype but got torch.bfloat16 and torch.float32",
    mode="pbs",
)
planted_error(
    "padding",
    "0",
    "activate truncation",
    "ValueError",
    "Unable to create tensor, you should probably activate truncation and/or padding",
    mode="slurm",
)
planted_error(
    "stale-handle",
    "2",
    "Stale file handle",
    "OSError",
    "[Errno 116] Stale file handle: '/data/train.bin'",
    causes="exception or file-missing",
)
planted_error(
    "io-error",
    "3",
    "Input/output error",
    "OSError",
    "[Errno 5] Input/output error: '/data/train.bin'",
    mode="pbs-direct",
)
planted_error(
    "quota", "0", "quota", "OSError", "[Errno 122] Disk quota exceeded: 'step-2.pt'", causes="quota"
)
planted_error("manager-gone", "1", "EOFError", "EOFError", "")
planted_error("queue-empty", "2", "Empty", "_queue.Empty", "", mode="slurm")
planted_error(
    "loader-timeout",
    "0",
    "timed out after 10 seconds",
    "RuntimeError",
    "DataLoader timed out after 10 seconds",
    causes="exception or data-loader",
)
planted_error(
    "moved-class",
    "all",
    "No module named 'src'",
    "ModuleNotFoundError",
    "No module named 'src'",
    causes="import",
    early=True,
    mode="pbs-direct",
)
planted_error("no-message", "1", "AssertionError", "AssertionError", "")
planted_error(
    "warning-as-error",
    "all",
    "optimizer.step",
    "UserWarning",
    "Detected call of `lr_scheduler.step()` before `optimizer.step()`",
)


@planted("label-range", "gpu-error", "2", "device-side assert")
def assert_on_device() -> None:
    for thread in range(3):
        complain(
            f"nll_loss.cu:104: block: [0,0,0], thread: [{thread},0,0] Assertion `t >= 0` failed."
        )
    raise RuntimeError("CUDA error: device-side assert triggered")


@planted("number-as-text", "exception", "all", "not supported between", early=True)
def compare_text() -> None:
    print(0.1 <= "1e-4")  # type: ignore[operator]


@planted("no-variable", "exception", "all", "WANDB_API_KEY", early=True, mode="slurm")
def read_variable() -> None:
    print(os.environ["WANDB_API_KEY"])


@planted("wandb-login", "exception", "0", "api_key not configured")
def log_in() -> None:
    import atexit

    atexit.register(
        complain, "wandb: \nwandb: You can sync this run to the cloud later\nwandb: done"
    )
    raise make_error("UsageError", "wandb.errors")("api_key not configured (no-tty)")


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


@planted("slow-shard", "collective-timeout", "1", "loading shard 7", timeout=10, mode="pbs-direct")
def load_slowly() -> None:
    print("loading shard 7 of 9", flush=True)
    time.sleep(40)


@planted("terminated-from-outside", "exit -15 or killed or exception", "2", "SIGTERM")
def terminate_itself() -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(9)


@planted("segv-with-stack", "exit -11", "0", "SIGSEGV")
def crash_with_stack() -> None:
    faulthandler.enable()
    ctypes.string_at(0)


@planted("c-assertion", "exit -6", "1", "kernel.cpp:81")
def assert_in_c() -> None:
    complain("python3: src/kernel.cpp:81: void fuse(int): Assertion `n > 0' failed.")
    os.abort()


@planted("stack-smashed", "exit -6", "3", "stack smashing", mode="slurm")
def smash() -> None:
    complain("*** stack smashing detected ***: terminated")
    os.abort()


@planted("code-4", "exit 4", "2", "exit code 4")
def leave_with_four() -> None:
    complain("perl: warning: Setting locale failed.")
    sys.exit(4)


@planted("indentation", "exception", "all", "IndentationError", early=True)
def import_indented() -> None:
    Path(f"indented_{RANK}.py").write_text("def f():\nreturn 1\n")
    sys.path.insert(0, ".")
    __import__(f"indented_{RANK}")


@planted("others-folder", "permission", "all", "Permission denied", early=True)
def make_folder() -> None:
    raise PermissionError(errno.EACCES, "Permission denied", "/scratch/other")


@planted("mpi-init", "exit 1", "all", "MPI_INIT", early=True)
def initialize_mpi() -> None:
    complain(
        "It looks like MPI_INIT failed for some reason; your parallel process is\nlikely to abort."
    )
    sys.exit(1)


@planted("coloured", "exception", "1", "bad actor")
def raise_in_colour() -> None:
    complain(
        '\x1b[31mTraceback (most recent call last):\x1b[0m\n\x1b[36m  File "/home/u/fit.py", line'
        " 9, in run\x1b[0m\n    act()\n\x1b[31mValueError: bad actor 7\x1b[0m"
    )
    sys.exit(1)


@planted("boxed", "exception", "2", "bad threshold")
def raise_in_a_box() -> None:
    complain(
        "╭──── Traceback (most recent call last) ────╮\n│ /home/u/fit.py:12 in main          │\n"
        "│ ╭── locals ──╮ │\n│ ╰──╯ │\n╰──────╯\nValueError: bad threshold 2.0"
    )
    sys.exit(1)


@planted("loguru", "exception", "3", "bad crop size")
def log_by_loguru() -> None:
    complain(
        "2026-11-23 10:00:00.123 | ERROR    | __main__:main:12 - An error has been caught:\n"
        'Traceback (most recent call last):\n\n> File "train.py", line 12, in <module>\n    main()'
        "\n    └ <function main at 0x7f0000000000>\n\nValueError: bad crop size"
    )
    sys.exit(1)


@planted("generator", "exception", "2", "generator raised StopIteration")
def exhaust() -> None:
    def batches() -> Any:
        yield next(iter([]))

    list(batches())


@planted("killed-in-words", "healthy", "-", "")
def speak_of_killing() -> None:
    complain(
        "oom-killer: Killed process 12 (stress); Traceback (most recent call last) is expected"
    )


of_spec(
    "conda-missing",
    "setup or environment-missing",
    "",
    "conda",
    changes={"environment": {"setup": "conda activate train"}},
)
of_spec(
    "module-in-setup",
    "setup or module-missing",
    "",
    "module",
    mode="pbs-direct",
    changes={"environment": {"setup": "module load cuda/12"}},
)
of_spec(
    "script-typo",
    "command-missing",
    "all",
    "trian.py",
    mode="slurm",
    changes={"run": {"command": ["python3", "trian.py"]}},
)
of_spec(
    "python-2",
    "exception",
    "all",
    "SyntaxError",
    changes={"run": {"command": ["python3", "-c", "print 'hello'"]}},
)
of_spec(
    "wrapper",
    "exit 9",
    "all",
    "exit code 9",
    changes={
        "run": {
            "command": ["bash", "-c", "python3 -c 'exit(9)' || code=$?; echo clean-up; exit $code"]
        }
    },
)
of_spec(
    "busy-to-the-end",
    "walltime",
    "-",
    "",
    changes={
        "run": {"command": ["bash", "-c", "while sleep 1; do echo step; done"]},
        "resources": {"walltime": "1m"},
    },
)


# --- noisy logs -----------------------------------------------------------------------------------

NOISES: dict[str, Callable[[], None]] = {}


def noise(function: Callable[[], None]) -> Callable[[], None]:
    """Enter what a program prints that is no fault."""
    NOISES[function.__name__] = function
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
def many() -> None:
    for other in (optional_import, memory_retry, first_start, board_port, network_retries):
        other()


ENDS: dict[str, tuple[str, str, str, Callable[[], None]]] = {}


def end(name: str, causes: str, ranks: str, says: str, body: Callable[[], None]) -> None:
    """Enter how a noisy program ends."""
    ENDS[name] = (causes, ranks, says, body)


def raise_value() -> None:
    raise ValueError("vocab.size 32000 != 32001")


def kill_self() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def crash() -> None:
    ctypes.string_at(0)


def leave() -> None:
    print("the learning rate is 0; giving up", flush=True)
    sys.exit(1)


def leave_with_words() -> None:
    sys.exit("error: the validation set is empty")


end("value", "exception", "2", "vocab.size 32000 != 32001", raise_value)
end("killed", "exit -9 or killed", "2", "SIGKILL", kill_self)
end("crash", "exit -11", "1", "SIGSEGV", crash)
end("leave", "exit 1", "2", "exit code 1", leave)
end("words", "exit 1 or exception", "3", "validation set is empty", leave_with_words)
end("well", "healthy", "-", "", nothing)
# Each noise with three of the ends, all six in turn.
for at, kind in enumerate(kind for kind in NOISES if kind != "many"):
    for turn in range(3):
        ending = list(ENDS)[(at + 2 * turn) % len(ENDS)]
        ends = ENDS[ending]
        PLANTED[f"noisy-{kind.replace('_', '-')}-{ending}"] = Truth(
            f"noisy-{kind}-{ending}", *ends[:3], ends[3], noise=kind, mode="local-direct"
        )


def main() -> None:
    """Train; what the fault is happens before the processes meet or in the third step."""
    fault = PLANTED[sys.argv[1]]
    here = str(RANK) in fault.ranks.rstrip("?").split(",") or fault.ranks == "all"
    if fault.noise:
        NOISES[fault.noise]()
    if fault.early and here:
        fault.body()
    add: Callable[[float], float]
    if fault.torch:
        from datetime import timedelta

        import torch
        import torch.distributed as dist

        dist.init_process_group("gloo", timeout=timedelta(seconds=fault.timeout))

        def add(value: float) -> float:
            total = torch.tensor([value])
            dist.all_reduce(total)
            return float(total)
    else:
        add = Group(fault.timeout).add
    for step in range(6):
        if step == 2 and here:
            fault.body()
        if step == 2 and fault.name == "nccl-watchdog":
            report_watchdog()
        if step == 4 and fault.name == "two-faults" and RANK == 2:
            raise ValueError("a later fault")
        print(f"step {step}: loss {add(RANK + 1.0):.3f}", flush=True)
        time.sleep(0.3)
    if fault.name == "hang-at-the-end":
        time.sleep(600 if RANK == 3 else 0)


def report_watchdog() -> None:
    """As three of four say whom NCCL's watchdog ends."""
    time.sleep(6)
    complain(
        f"[rank{RANK}]:[E1123 10:11:12.131415 ProcessGroupNCCL.cpp:685] [Rank {RANK}] Watchdog "
        "caught collective operation timeout: WorkNCCL(SeqNum=3, OpType=ALLREDUCE, NumelIn=1, "
        "Timeout(ms)=6000) ran for 6012 milliseconds before timing out.\nterminate called after "
        "throwing an instance of 'c10::DistBackendError'"
    )
    os.abort()


if __name__ == "__main__":
    main()
