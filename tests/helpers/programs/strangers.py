"""Programs of kinds that the others lack, each with one fault: `strangers.py NAME`.

The list was made first, by kinds of programs; the words are those of the packages and commands
that are named, or they raise them here. `others.py` runs them.
"""

from __future__ import annotations

import atexit
import configparser
import csv
import faulthandler
import getopt
import gzip
import json
import locale
import logging
import mmap
import os
import queue
import signal
import socket
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import others
from others import PLANTED, RANK, Truth, complain, enter_raised, enter_said, planted

KNOWN_BEFORE = set(PLANTED)
MODES = ("slurm-direct", "pbs-direct")

# --- errors in the words of the packages that raise them ------------------------------------------

# name | causes | ranks | what must be shown | class | early, where it is raised before they meet
RAISED = {
    "flax-shape | exception or shape-mismatch | all | Dense_0 | flax.errors:ScopeParamShapeError | "
    "early": (
        "Initializer expected to generate shape (784, 128) but got shape (784, 64) instead for "
        'parameter "kernel" in "/Dense_0". (https://flax.readthedocs.io)'
    ),
    "orbax-tree | exception or shape-mismatch | all | tree structures do not match | :ValueError |"
    " early": (
        "User-provided restore item and on-disk value metadata tree structures do not match: "
        "Diff(lhs=None, rhs=opt_state)"
    ),
    "chex-shape | exception or shape-mismatch | 1 | assert_shape | :AssertionError |": (
        "[Chex] Assertion assert_shape failed: Error in shape compatibility check: input 0 has "
        "shape (3, 4) but expected (3, 5)."
    ),
    "tf-feature | exception or no-data | 2 | Feature: image | "
    "tensorflow.python.framework.errors_impl:InvalidArgumentError |": (
        "{{function_node __wrapped__IteratorGetNext_output_types_2_device_/job:localhost/replica:0"
        "/task:0/device:CPU:0}} Feature: image (data type: string) is required but could not be "
        "found.\n\t [[{{node ParseSingleExample/ParseExample/ParseExampleV2}}]] [Op:"
        "IteratorGetNext] name: "
    ),
    "tf-record | damaged-file or exception | 2 | corrupted record | "
    "tensorflow.python.framework.errors_impl:DataLossError |": (
        "{{function_node __wrapped__IteratorGetNext_output_types_1_device_/job:localhost}} "
        "corrupted record at 733184 [Op:IteratorGetNext] name: "
    ),
    "keras-layer | exception or shape-mismatch | all | incompatible with the layer | :ValueError | "
    "early": (
        "Exception encountered when calling layer 'sequential' (type Sequential).\n\nInput 0 of "
        'layer "dense" is incompatible with the layer: expected axis -1 of input shape to have '
        "value 784, but received input with shape (None, 28)\n\nCall arguments received by layer "
        "'sequential' (type Sequential):\n  • inputs=tf.Tensor(shape=(None, 28), dtype=float32)"
    ),
    "paddle-summary | exception | 3 | expected float32 | :ValueError |": (
        "(InvalidArgument) The type of data we are trying to retrieve (int64) does not match the "
        "type of data (float32) currently contained in the container: expected float32.\n  "
        "[Hint: Expected dtype() == phi::CppTypeToDataType<T>::Type(), but received dtype():10 != "
        "phi::CppTypeToDataType<T>::Type():7.] (at /paddle/phi/core/dense_tensor.cc:171)"
    ),
    "xgboost-label | exception or not-a-number | all | Label contains NaN | "
    "xgboost.core:XGBoostError | early": (
        "[10:11:12] /workspace/src/data/data.cc:501: Check failed: valid: Label contains NaN, "
        "infinity or a value too large.\nStack trace:\n  [bt] (0) /venv/lib/libxgboost.so("
        "+0x22dcb4) [0x7f2e]\n  [bt] (1) /venv/lib/libxgboost.so(XGDMatrixSetInfo+0x5d) [0x7f2f]\n"
    ),
    "dali-files | no-data or file-missing or exception | all | No files were found | :RuntimeError "
    "| early": (
        "Critical error in pipeline:\nError when executing CPU operator readers__File encountered:"
        "\nNo files were found.\nCurrent pipeline object is no longer valid."
    ),
    "arrow-footer | damaged-file or exception | 3 | magic bytes | pyarrow.lib:ArrowInvalid |": (
        "Could not open Parquet input source '/data/train-00003.parquet': Parquet magic bytes not "
        "found in footer. Either the file is corrupted or this is not a parquet file."
    ),
    "h5-cut | damaged-file or exception | 1 | truncated file | :OSError |": (
        "Unable to synchronously open file (truncated file: eof = 96, sblock->base_addr = 0, "
        "stored_eof = 2048)"
    ),
    "netcdf-error | exception or damaged-file or file-system | 2 | HDF error | :OSError |": (
        "[Errno -101] NetCDF: HDF error: '/data/era5/1979.nc'"
    ),
    "gcs-login | exception or permission | 0 | default credentials | "
    "google.auth.exceptions:DefaultCredentialsError |": (
        "Your default credentials were not found. To set up Application Default Credentials, see "
        "https://cloud.google.com/docs/authentication for more information."
    ),
    "azure-blob | file-missing or exception | 1 | specified blob | "
    "azure.core.exceptions:ResourceNotFoundError |": (
        "The specified blob does not exist.\nRequestId:5c1f-0073\nTime:2026-11-23T10:11:12.13Z\n"
        'ErrorCode:BlobNotFound\nContent: <?xml version="1.0" encoding="utf-8"?>'
    ),
    "hydra-call | exception or bad-argument | all | num_head | "
    "hydra.errors:InstantiationException | early": (
        "Error in call to target 'models.gpt.GPT':\nTypeError(\"GPT.__init__() got an unexpected "
        "keyword argument 'num_head'\")\nfull_key: model"
    ),
    "triton-source | exception or compiler | all | CompilationError | "
    "triton.compiler.errors:CompilationError |": (
        "at 12:15:\n    offsets = start + tl.arange(0, BLOCK)\n    mask = offsets < n\n    x = "
        "tl.load(x_ptr + offsets, mask=mask)\n    y = tl.dot(x, x)\n               ^\n"
        "First input shape (['constexpr[1024]']) is not a matrix"
    ),
    "peft-modules | exception | all | q_proj | :ValueError | early": (
        "Target modules {'q_proj', 'v_proj'} not found in the base model. Please check the target "
        "modules and try again."
    ),
    "other-world | exception | all | world size 8 | :AssertionError | early": (
        "cannot resume: the checkpoint was written with world size 8, and this is 4"
    ),
    "unrecognized-model | exception | all | model_type | :ValueError | early": (
        "Unrecognized model in ./ckpt/step-1000. Should have a `model_type` key in its config.json."
    ),
    "nccl-duplicate | nccl or gpu-shared or exception | all | Duplicate GPU | "
    "torch.distributed:DistBackendError |": (
        "NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1333, invalid usage "
        "(run with NCCL_DEBUG=WARN for details), NCCL version 2.20.5\nncclInvalidUsage: This "
        "usually reflects invalid usage of NCCL library.\nLast error:\nDuplicate GPU detected : "
        "rank 1 and rank 0 both on CUDA device 1b000"
    ),
    "rpc-remote | exception | 0 | bad batch | :ValueError |": (
        "On WorkerInfo(id=1, name=worker1):\nValueError('bad batch 17')\nTraceback (most recent "
        'call last):\n  File "/venv/lib/python3.11/site-packages/torch/distributed/rpc/internal.py'
        '", line 206, in _run_function\n    result = python_udf.func(*python_udf.args)\n'
        "ValueError: bad batch 17\n"
    ),
    "database-full | exception | 3 | too many connections | psycopg2:OperationalError |": (
        'connection to server at "db" (10.0.0.5), port 5432 failed: FATAL:  sorry, too many '
        'connections for role "u"'
    ),
    "neptune-token | exception or permission | 0 | NeptuneMissingApiTokenException | "
    "neptune.exceptions:NeptuneMissingApiTokenException | early": (
        "\n\n----NeptuneMissingApiTokenException-------------------------------------------\n\nThe "
        "Neptune client couldn't find your API token.\n\nYou can get it here:\n    - "
        "https://app.neptune.ai/get_my_api_token\n"
    ),
    "spacy-model | file-missing or exception | all | en_core_web_sm | :OSError | early": (
        "[E050] Can't find model 'en_core_web_sm'. It doesn't seem to be a Python package or a "
        "valid path to a data directory."
    ),
    "nltk-stars | exception or file-missing or no-data | all | punkt | :LookupError | early": (
        f"\n{'*' * 70}\n  Resource \x1b[93mpunkt\x1b[0m not found.\n  Please use the NLTK "
        "Downloader to obtain the resource:\n\n  >>> import nltk\n  >>> nltk.download('punkt')\n"
        f"  \n  Searched in:\n    - '/home/u/nltk_data'\n{'*' * 70}\n"
    ),
    "opencv-empty | exception | 3 | ssize.empty | cv2:error |": (
        "OpenCV(4.8.0) /io/opencv/modules/imgproc/src/resize.cpp:4062: error: (-215:Assertion "
        "failed) !ssize.empty() in function 'resize'\n"
    ),
    "numba-typing | exception | all | nopython | numba.core.errors:TypingError | early": (
        "Failed in nopython mode pipeline (step: nopython frontend)\n\x1b[1m\x1b[1mNo "
        "implementation of function Function(<built-in function add>) found for signature:\n \n "
        ">>> add(array(float64, 1d, C), unicode_type)\n"
    ),
    "cupy-driver | driver-mismatch | 2,3 | cudaErrorInsufficientDriver | "
    "cupy_backends.cuda.api.runtime:CUDARuntimeError | early": (
        "cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version"
    ),
    "pandas-fields | exception or damaged-file | 1 | saw 5 | pandas.errors:ParserError |": (
        "Error tokenizing data. C error: Expected 3 fields in line 12, saw 5\n"
    ),
    "openmm-nan | not-a-number or exception | 2 | coordinate is NaN | openmm:OpenMMException |": (
        "Particle coordinate is NaN.  For more information, see https://github.com/openmm/openmm/"
        "wiki/Frequently-Asked-Questions#nan"
    ),
    "gym-name | exception | all | Hopper-v9 | gymnasium.error:NameNotFound | early": (
        "Environment `Hopper-v9` doesn't exist. Did you mean: `Hopper-v4`?"
    ),
    "not-close | exception | 1 | not close | :AssertionError |": (
        "Tensor-likes are not close!\n\nMismatched elements: 3 / 4 (75.0%)\nGreatest absolute "
        "difference: 0.5 at index (1,) (up to 1e-05 allowed)\n"
    ),
    "map-died | data-loader or exception | 2 | abruptly died | :RuntimeError |": (
        "One of the subprocesses has abruptly died during map operation.To debug the error, "
        "disable multiprocessing."
    ),
    "own-time-out | exception or no-internet | 0 | Errno 110 | :TimeoutError |": (
        "[Errno 110] Connection timed out"
    ),
    "union-types | exception or version-mismatch | all | NoneType | :TypeError | early": (
        "unsupported operand type(s) for |: 'type' and 'NoneType'"
    ),
}
enter_raised(RAISED, MODES)

# --- what Python and the packages that are here do by themselves ----------------------------------


@planted("locale-missing", "exception", "all", "unsupported locale", early=True, mode="pbs-direct")
def set_locale() -> None:
    locale.setlocale(locale.LC_ALL, "xx_XX.UTF-8")


@planted("getopt-option", "exception or bad-argument", "all", "--warmup", early=True)
def read_options() -> None:
    getopt.getopt(["--warmup=3"], "", ["steps="])


@planted("ini-section", "exception", "all", "No section", early=True, mode="pbs-direct")
def read_ini() -> None:
    configparser.ConfigParser().get("train", "steps")


@planted("csv-field", "exception or damaged-file", "2", "field larger")
def read_csv() -> None:
    next(csv.reader(["x" * 200_000]))


@planted("short-record", "exception or damaged-file", "3", "unpack requires", mode="pbs-direct")
def read_record() -> None:
    struct.unpack("<q", b"1234")


@planted("no-gzip", "damaged-file or exception", "0", "gzipped")
def read_gzip() -> None:
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(b"<html>404</html>")
        gzip.decompress(Path(file.name).read_bytes())


@planted(
    "mmap-memory", "out-of-memory-host or exception", "2", "allocate memory", mode="pbs-direct"
)
def map_memory() -> None:
    mmap.mmap(-1, 1 << 60)


@planted("tokenizer-file", "file-missing or exception", "all", "os error 2", early=True)
def open_tokenizer() -> None:
    import tokenizers

    tokenizers.Tokenizer.from_file("tokenizer.json")


@planted("tiktoken-model", "exception", "all", "nope-7", early=True, mode="pbs-direct")
def open_tiktoken() -> None:
    import tiktoken

    tiktoken.encoding_for_model("nope-7")


@planted("grpc-unavailable", "exception or no-internet", "2", "UNAVAILABLE", mode="pbs-direct")
def call_service() -> None:
    import grpc

    channel = grpc.insecure_channel("127.0.0.1:9")
    channel.unary_unary("/params.Store/Get")(b"", timeout=5)


@planted("read-timed-out", "exception or no-internet", "0", "Read timed out")
def read_slow_server() -> None:
    import requests

    server = socket.create_server(("127.0.0.1", 0))
    requests.get(f"http://127.0.0.1:{server.getsockname()[1]}/tokens", timeout=2)


@planted("future-timeout", "exception", "1", "TimeoutError", mode="pbs-direct")
def await_future() -> None:
    Future[int]().result(timeout=1)


@planted("broken-thread-barrier", "exception", "2", "BrokenBarrier")
def break_barrier() -> None:
    threading.Barrier(2, timeout=1).wait()


@planted("file-closed", "exception", "0", "closed file", mode="pbs-direct")
def write_closed() -> None:
    with tempfile.TemporaryFile() as file:
        pass
    file.write(b"x")


@planted("json-array", "exception", "0", "JSON serializable")
def dump_bytes() -> None:
    json.dumps({"loss": b"0.5"})


@planted("left-debugger", "exception", "0", "BdbQuit", mode="pbs-direct")
def debug() -> None:
    breakpoint()


@planted("no-answer", "exception", "0", "EOF when reading")
def ask() -> None:
    input("overwrite the old run? [y/N] ")


@planted("exit-256", "left-early", "2", "", mode="pbs-direct")
def leave_with_256() -> None:
    sys.exit(256)


@planted("exit-minus-1", "exit 255", "1", "255")
def leave_with_minus_1() -> None:
    sys.exit(-1)


@planted("os-exit-17", "exit 17", "2", "gave up", mode="pbs-direct")
def leave_at_once() -> None:
    complain("checkpoint server: gave up after 5 tries")
    os._exit(17)


@planted("bad-atexit", "healthy", "-", "")
def fail_at_exit() -> None:
    atexit.register(lambda: 1 / 0)


@planted("own-watchdog", "exit 1 or exception or hang", "3", "Timeout|train.py", mode="pbs-direct")
def be_watched() -> None:
    faulthandler.dump_traceback_later(3, exit=True)
    time.sleep(600)


@planted("long-line", "exception", "1", "bad sample ids")
def say_much() -> None:
    raise ValueError(f"bad sample ids: {list(range(9000))}")


@planted("prefixed-lines", "exit 1 or exception", "2", "vocabulary", mode="pbs-direct")
def log_with_prefixes() -> None:
    def log(line: str) -> None:
        complain(f"[2026-11-23 10:11:12,131] [rank{RANK}] [ERROR] {line}")

    log("Traceback (most recent call last):")
    log('  File "/work/train.py", line 81, in main')
    log("    check(vocabulary)")
    log("ValueError: the vocabulary has 32000 words, not 32001")
    sys.exit(1)


# --- by signals, locks and waiting ----------------------------------------------------------------

for number, name in enumerate(("SIGQUIT", "SIGPIPE", "SIGUSR2", "SIGPROF")):
    code = signal.Signals[name].value

    def raise_signal(code: int = code) -> None:
        signal.signal(code, signal.SIG_DFL)
        os.kill(os.getpid(), code)

    PLANTED[f"by-{name.lower()}"] = Truth(
        name, f"exit -{code}", str(number), name, raise_signal, mode=MODES[number % 2]
    )


@planted("two-locks", "collective-timeout or hang", "2", "2", timeout=12)
def lock_twice() -> None:
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


@planted("file-barrier", "exception or collective-timeout or hang", "1", "rank-1.ready")
def never_write() -> None:
    time.sleep(600)


@planted("tells-on-another", "collective-timeout or hang or exit -6", "2", "", mode="pbs-direct")
def be_stuck() -> None:
    time.sleep(600)


def meet_by_files(_: float) -> float:
    """As a program whose ranks wait for each other's files."""
    if RANK != 1:
        time.sleep(8)
        raise TimeoutError("waited 8 s for /scratch/sync/rank-1.ready")
    time.sleep(600)
    return 0.0


def abort_by_watchdog(_: float) -> float:
    """As a program whose own watchdog ends a process that has made no step."""
    time.sleep(600 if RANK == 2 else 8)
    complain("watchdog: no step for 8 s, aborting")
    os.abort()


# --- what is no Python ----------------------------------------------------------------------------


def say_and_end(text: str, code: int) -> Callable[[], None]:
    """Return what prints like another program and ends as it does."""

    def body() -> None:
        complain(text)
        if code < 0:
            signal.signal(-code, signal.SIG_DFL)
            os.kill(os.getpid(), -code)
        os._exit(code)

    return body


# name | causes | ranks | what must be shown | code
SAID = {
    "rsync-closed | exit 12 | 1 | rsync | 12": (
        "rsync: connection unexpectedly closed (0 bytes received so far) [Receiver]\nrsync error: "
        "error in rsync protocol data stream (code 12) at io.c(231) [Receiver=3.2.7]"
    ),
    "link-cublas | compiler or exit 1 | all | -lcublas | 1": (
        "/usr/bin/ld: cannot find -lcublas: No such file or directory\ncollect2: error: ld returned"
        " 1 exit status"
    ),
    "address-sanitizer | exit 1 or exit -6 | 3 | use-after-free | 1": (
        "=================================================================\n==4242==ERROR: "
        "AddressSanitizer: heap-use-after-free on address 0x602000000010 at pc 0x55 bp 0x7f sp 0x7f"
        "\nREAD of size 4 at 0x602000000010 thread T0\n    #0 0x55d0 in step(int) /src/step.cpp:17"
        "\nSUMMARY: AddressSanitizer: heap-use-after-free /src/step.cpp:17 in step(int)\n"
        "Shadow bytes around the buggy address:\n=>0x0c047fff8000: fa fa[fd]fd fa fa fa fa\n"
        "==4242==ABORTING"
    ),
    "fortran-end | exit 2 | 1 | End of file | 2": (
        "At line 42 of file solver.f90 (unit = 11, file = 'restart.dat')\nFortran runtime error: "
        "End of file\n\nError termination. Backtrace:\n#0  0x7f8e in ???\n#1  0x4011 in ???"
    ),
    "mpich-truncated | exit 15 | 2 | truncated | 15": (
        "Abort(810645775) on node 2 (rank 2 in comm 0): Fatal error in internal_Recv: Message "
        "truncated, error stack:\ninternal_Recv(127): MPI_Recv(buf=0x7ffe, count=1, MPI_INT, 0, 0, "
        "MPI_COMM_WORLD, status=0x1) failed\nMPIDIG_handle_unexpected(58): Message from rank 0 and "
        "tag 0 truncated; 8 bytes received but buffer size is 4"
    ),
    "pure-virtual | exit -6 | 2 | pure virtual | -6": (
        "pure virtual method called\nterminate called without an active exception"
    ),
    "illegal-access | gpu-error | 2 | illegal memory access | -6": (
        "terminate called after throwing an instance of 'c10::Error'\n  what():  CUDA error: an "
        "illegal memory access was encountered\nCUDA kernel errors might be asynchronously reported"
        " at some other API call\nException raised from c10_cuda_check_implementation at "
        "../c10/cuda/CUDAException.cpp:43 (most recent call first):\nframe #0: c10::Error::Error + "
        "0x57 (0x7f in /venv/lib/libc10.so)"
    ),
    "matlab-license | exit 1 | 0 | License | 1": (
        "License checkout failed.\nLicense Manager Error -15\nUnable to connect to the license "
        "server. \nCheck that the license manager has been started.\n"
    ),
    "node-module | exit 1 or file-missing or import | all | tfjs-node | 1": (
        "node:internal/modules/cjs/loader:1078\n  throw err;\n  ^\n\nError: Cannot find module "
        "'@tensorflow/tfjs-node'\nRequire stack:\n- /home/u/train.js\n    at Module._resolve"
        "Filename (node:internal/modules/cjs/loader:1075:15)\n    at node:internal/main/"
        "run_main:23:47 {\n  code: 'MODULE_NOT_FOUND',\n  requireStack: [ '/home/u/train.js' ]\n}"
        "\n\nNode.js v18.19.0"
    ),
    "qt-display | exit -6 | 0 | display | -6": (
        "qt.qpa.xcb: could not connect to display \nqt.qpa.plugin: Could not load the Qt platform "
        'plugin "xcb" in "" even though it was found.\nThis application failed to start because no '
        "Qt platform plugin could be initialized. Reinstalling the application may fix this problem"
    ),
}
enter_said(SAID, MODES, say_and_end)

NAMES = sorted(set(PLANTED) - KNOWN_BEFORE)


if __name__ == "__main__":
    logging.basicConfig()
    if sys.argv[1] == "bad-atexit":
        fail_at_exit()
    waits = {"file-barrier": meet_by_files, "tells-on-another": abort_by_watchdog}
    if sys.argv[1] in waits:
        others.Group.add = lambda _, value: waits[sys.argv[1]](value)  # type: ignore[method-assign]
    others.main()
