"""More programs as others write them, each with one fault, and what is true: `guests.py NAME`.

The list was made before jobgen's rules were read. It stands beside `others.py`, which runs them.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import time
import traceback
import warnings
from datetime import timedelta
from pathlib import Path

import others
from others import (
    ENDS,
    NOISES,
    PLANTED,
    RANK,
    Truth,
    complain,
    enter_raised,
    logger,
    make_error,
    noise,
    planted,
)

KNOWN_BEFORE = set(PLANTED)


# --- errors in the words of the packages that raise them ------------------------------------------

XLA = "jaxlib.xla_extension:XlaRuntimeError"

# name | causes | ranks | what must be shown | class | early, where it is raised before they meet
RAISED = {
    f"jax-memory | out-of-memory-gpu | 2 | RESOURCE_EXHAUSTED | {XLA} |": (
        "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes.\n"
        "BufferAssignment OOM Debugging."
    ),
    "jax-tracer | exception | all | TracerBoolConversion | jax.errors:TracerBoolConversionError | "
    "early": (
        "Attempted boolean conversion of traced array with shape bool[].\nThe error occurred while "
        "tracing the function step at train.py:61 for jit. This concrete value was not available"
    ),
    "jax-versions | import or version-mismatch or exception | all | incompatible | :RuntimeError | "
    "early": (
        "jaxlib version 0.4.30 is newer than and incompatible with jax version 0.4.20. Please "
        "update your jax and/or jaxlib packages."
    ),
    "megatron-sizes | exception | all | not divisible | :AssertionError | early": (
        "world size (4) is not divisible by tensor_model_parallel_size (3) x "
        "pipeline_model_parallel_size (1) x context_parallel_size (1)"
    ),
    "megatron-nan | not-a-number | 2 | NaN | :AssertionError |": (
        "Rank 2: found NaN in local forward loss calculation. Device: 0, node: n2"
    ),
    "deepspeed-scale | exception or not-a-number | all | loss scale | :Exception |": (
        "Current loss scale already at minimum - cannot decrease scale anymore. Exiting run."
    ),
    "deepspeed-cuda | compiler or version-mismatch or driver-mismatch or exception | all | CUDA "
    "version 11.8 | deepspeed.ops.op_builder.builder:CUDAMismatchException | early": (
        ">- DeepSpeed Op Builder: Installed CUDA version 11.8 does not match the version torch was "
        "compiled with 12.1, unable to compile cuda/cpp extensions without a matching cuda version."
    ),
    "deepspeed-aio | compiler or import or exception | all | async_io | :RuntimeError | early": (
        "Unable to JIT load the async_io op due to it not being compatible due to hardware/software"
        " issue. None"
    ),
    "hf-offline-mode | no-internet or exception | all | offline mode | "
    "huggingface_hub.errors:OfflineModeIsEnabled | early": (
        "Cannot reach https://huggingface.co/api/models/gpt2: offline mode is enabled. To disable "
        "it, please unset the `HF_HUB_OFFLINE` environment variable."
    ),
    "hf-lock | exception | 3 | could not be acquired | filelock._error:Timeout |": (
        "The file lock '/home/u/.cache/huggingface/hub/.locks/models--gpt2/a1.lock' could not be "
        "acquired."
    ),
    "hf-backend | import or exception | all | sentencepiece | :ValueError | early": (
        "Couldn't instantiate the backend tokenizer from one of: \n(1) a `tokenizers` library "
        "serialization file, \n(2) a slow tokenizer instance to convert or \n(3) an equivalent slow"
        " tokenizer class to instantiate and convert. \nYou need to have sentencepiece or tiktoken "
        "installed to convert a slow tokenizer to a fast one."
    ),
    "hf-keyword | exception or bad-argument | all | evaluation_strategy | :TypeError | early": (
        "TrainingArguments.__init__() got an unexpected keyword argument 'evaluation_strategy'"
    ),
    "driver-old | driver-mismatch | 2,3 | too old | :RuntimeError | early": (
        "The NVIDIA driver on your system is too old (found version 11040). Please update your GPU "
        "driver by downloading and installing a new version from the URL: "
        "http://www.nvidia.com/Download/index.aspx Alternatively, go to: https://pytorch.org"
    ),
    "driver-803 | driver-mismatch | 2,3 | Error 803 | :RuntimeError | early": (
        "Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling"
        " NumCudaDevices() that might have already set an error? Error 803: system has unsupported "
        "display driver / cuda driver combination"
    ),
    "kernel-image | gpu-error or driver-mismatch or version-mismatch or exception | all | no kernel"
    " image | torch:AcceleratorError |": (
        "CUDA error: no kernel image is available for execution on the device\nCUDA kernel errors "
        "might be asynchronously reported at some other API call, so the stacktrace below might be "
        "incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1"
    ),
    "cublas | out-of-memory-gpu or gpu-error | 1 | CUBLAS_STATUS_ALLOC_FAILED | :RuntimeError |": (
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"
    ),
    "nvlink | gpu-error or network-hardware | 1 | NVLink | torch:AcceleratorError |": (
        "CUDA error: uncorrectable NVLink error detected during the execution"
    ),
    "gpu-lost | gpu-error | 3 | GPU is lost | pynvml:NVMLError_GpuIsLost |": "GPU is lost",
    "glibc | import | 2,3 | GLIBC_2.32 | :ImportError | early": (
        "/lib64/libc.so.6: version `GLIBC_2.32' not found (required by /home/u/venv/lib/python3.11/"
        "site-packages/flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so)"
    ),
    "triton-resources | exception | all | out of resource | triton.runtime.errors:OutOfResources "
    "|": (
        "out of resource: shared memory, Required: 131072, Hardware limit: 101376. Reducing block "
        "sizes or `num_stages` may help."
    ),
    "save-cut | no-space or quota or exception | 0 | unexpected pos | :RuntimeError |": (
        "[enforce fail at inline_container.cc:664] . unexpected pos 2304 vs 2194"
    ),
    "lustre-evicted | exception | 2,3 | transport endpoint | :OSError |": (
        "[Errno 108] Cannot send after transport endpoint shutdown: '/lustre/data/train-3.bin'"
    ),
    "lfs-pointer | damaged-file or exception | all | invalid load key | _pickle:UnpicklingError | "
    "early": "invalid load key, 'v'.",
    "safetensors-pointer | damaged-file or exception | all | HeaderTooLarge | "
    "safetensors_rust:SafetensorError | early": (
        "Error while deserializing header: HeaderTooLarge"
    ),
    "optimizer-groups | exception or shape-mismatch | all | parameter group | :ValueError |"
    " early": (
        "loaded state dict contains a parameter group that doesn't match the size of optimizer's "
        "group"
    ),
    "tensor-sizes | exception or shape-mismatch | 3 | 513 | :RuntimeError |": (
        "The size of tensor a (512) must match the size of tensor b (513) at non-singleton "
        "dimension 1"
    ),
    "node-splitter | exception | all | nodesplitter | :ValueError | early": (
        "you need to add an explicit nodesplitter to your input pipeline for multi-node training "
        "wds.split_by_node"
    ),
    "worker-bus | shared-memory or data-loader | 2 | shared memory | :RuntimeError |": (
        "DataLoader worker (pid 4242) is killed by signal: Bus error. It is possible that "
        "dataloader's workers are out of shared memory. Please try to raise your shared memory "
        "limit."
    ),
    "ancdata | too-many-files | 1 | ancdata | :RuntimeError |": "received 0 items of ancdata",
    "worker-limit | too-many-files | 2 | ulimit -n | :RuntimeError |": (
        "Too many open files. Communication with the workers is no longer possible. Please increase"
        " the limit using `ulimit -n` in the shell or change the sharing strategy by calling "
        "`torch.multiprocessing.set_sharing_strategy('file_system')` at the beginning of your code"
    ),
    "inotify | exception or too-many-files | 0 | inotify | :OSError |": (
        "[Errno 28] inotify watch limit reached"
    ),
    "mlflow | exception or no-internet | 0 | mlflow | mlflow.exceptions:MlflowException |": (
        "API request to http://mlflow:5000/api/2.0/mlflow/runs/log-batch failed with exception "
        "HTTPConnectionPool(host='mlflow', port=5000): Max retries exceeded with url: /api/2.0 "
        "(Caused by NewConnectionError('<urllib3.connection.HTTPConnection object at 0x7f>: Failed "
        "to establish a new connection: [Errno 111] Connection refused'))"
    ),
    "wandb-timeout | exception or no-internet | 0 | Run initialization | wandb.errors:CommError"
    " |": (
        "Run initialization has timed out after 90.0 sec. Please try increasing the timeout with "
        "the `init_timeout` setting: `wandb.init(settings=wandb.Settings(init_timeout=120))`."
    ),
    "store-port | port-in-use | 0 | EADDRINUSE | torch.distributed:DistNetworkError | early": (
        "The server socket has failed to listen on any local network address. port: 29500, useIpv6:"
        " false, code: -98, name: EADDRINUSE, message: address already in use"
    ),
    "interface-of-one | interface | 2,3 | ib0 | :RuntimeError | early": (
        "[enforce fail at /pytorch/third_party/gloo/gloo/transport/tcp/device.cc:83] ifa != "
        "nullptr. Unable to find interface for: [ib0]"
    ),
    "numpy-2 | import or exception | all | [Nn]umpy is not available | :RuntimeError | early": (
        "Numpy is not available"
    ),
    "protobuf | import or exception or version-mismatch | all | Descriptors | :TypeError | early": (
        "Descriptors cannot be created directly.\nIf this call came from a _pb2.py file, your "
        "generated code is out of date and must be regenerated with protoc >= 3.19.0."
    ),
    "vllm-cache | out-of-memory-gpu or exception | 0 | gpu_memory_utilization | :ValueError |": (
        "No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when "
        "initializing the engine."
    ),
    "tf-memory | out-of-memory-gpu | 3 | OOM when allocating | "
    "tensorflow.python.framework.errors_impl:ResourceExhaustedError |": (
        "{{function_node __wrapped__MatMul}} OOM when allocating tensor with shape[64,2048] and "
        "type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc"
    ),
    "credentials | exception or permission | 0 | Unable to locate credentials | "
    "botocore.exceptions:NoCredentialsError |": "Unable to locate credentials",
    "download-reset | exception or no-internet | 2 | Connection aborted | "
    "requests.exceptions:ConnectionError |": (
        "('Connection aborted.', ConnectionResetError(104, 'Connection reset by peer'))"
    ),
    "redis | exception | 3 | 6379 | redis.exceptions:ConnectionError |": (
        "Error 111 connecting to localhost:6379. Connection refused."
    ),
    "shm-object | shared-memory or exception | 1 | shared memory object | :RuntimeError |": (
        "unable to open shared memory object </torch_77_8812_1> in read-write mode: Cannot allocate"
        " memory (12)"
    ),
    "cuda-index | gpu-missing or exception | all | device_count | :RuntimeError | early": (
        "Attempting to deserialize object on CUDA device 4 but torch.cuda.device_count() is 4. "
        "Please use torch.load with map_location to map your storages to an existing device."
    ),
    "pydantic | exception or bad-argument | all | 1 validation error | "
    "pydantic_core._pydantic_core:ValidationError | early": (
        "1 validation error for Config\nlr\n  Input should be a valid number, unable to parse "
        "string as a number [type=float_parsing, input_value='1e-3x', input_type=str]"
    ),
    "yaml-config | exception | all | mapping values | yaml.scanner:ScannerError | early": (
        'mapping values are not allowed here\n  in "config.yaml", line 12, column 9'
    ),
    "inductor | compiler or exception | all | triton | torch._dynamo.exc:BackendCompilerFailed | "
    "early": (
        "backend='inductor' raised:\nRuntimeError: Cannot find a working triton installation. "
        'Either the package is not installed or it is too old.\n\nSet TORCH_LOGS="+dynamo" and '
        "TORCHDYNAMO_VERBOSE=1 for more information"
    ),
    "spawned | exception | 1 | ZeroDivisionError | "
    "torch.multiprocessing.spawn:ProcessRaisedException |": (
        "\n\n-- Process 1 terminated with the following error:\n"
        "Traceback (most recent call last):\n"
        '  File "/home/u/venv/lib/python3.11/site-packages/torch/multiprocessing/spawn.py", line 75'
        ', in _wrap\n    fn(i, *args)\n  File "/home/u/train.py", line 31, in work\n    x = 1 / 0\n'
        "ZeroDivisionError: division by zero\n"
    ),
    "spawned-killed | exception or killed | 2 | SIGKILL | "
    "torch.multiprocessing.spawn:ProcessExitedException |": (
        "process 0 terminated with signal SIGKILL"
    ),
    "ray-task | exception | 0 | bad config 7 | ray.exceptions:RayTaskError(ValueError) |": (
        "\x1b[36mray::train()\x1b[39m (pid=4711, ip=10.0.0.1)\n"
        '  File "/home/u/tune.py", line 12, in train\n    raise ValueError("bad config 7")\n'
        "ValueError: bad config 7"
    ),
}
enter_raised(
    RAISED,
    ("local-direct", "local-direct", "slurm-direct", "local-direct", "pbs-direct", "slurm"),
)


# --- programs that need more than a sentence ------------------------------------------------------


@planted("jax-frames", "exception or shape-mismatch", "all", "Incompatible shapes")
def add_shapes() -> None:
    try:
        raise TypeError("add got incompatible shapes for broadcasting: (8, 128), (4, 128).")
    except TypeError:
        complain(
            "jax.errors.SimplifiedTraceback: For simplicity, JAX has removed its internal frames "
            "from the traceback of the following exception. Set JAX_TRACEBACK_FILTERING=off to "
            "include these.\n\nThe above exception was the direct cause of the "
            "following exception:\n"
        )
        raise ValueError(
            "Incompatible shapes for broadcasting: shapes=[(8, 128), (4, 128)]"
        ) from None


@planted("jax-barrier", "collective-timeout or rendezvous", "3", "task:3|rank 3", early=True)
def come_late() -> None:
    print("building the vocabulary", flush=True)
    time.sleep(300)


@planted("megatron-argument", "bad-argument", "all", "use-flash-atn", early=True, mode="pbs")
def unknown_argument() -> None:
    complain("usage: train.py [-h] [--num-layers NUM_LAYERS]\n                [--seed SEED] ...")
    complain("train.py: error: unrecognized arguments: --use-flash-atn")
    sys.exit(2)


@planted("megatron-data", "file-missing", "all", "text_document.idx", early=True, mode="pbs")
def open_index() -> None:
    Path("data/my-gpt2_text_document.idx").read_bytes()


@planted("hf-gated", "exception or permission", "all", "gated", early=True, mode="local")
def open_gated() -> None:
    gated = make_error("GatedRepoError", "huggingface_hub.errors")
    try:
        raise gated(
            "401 Client Error. (Request ID: Root=1-67)\n\nCannot access gated repo for url "
            "https://huggingface.co/meta/x/resolve/main/config.json.\nAccess to model meta/x is "
            "restricted. You must have access to it and be authenticated to access it."
        )
    except gated as error:
        raise OSError("You are trying to access a gated repo.\nMake sure to have access") from error


@planted("datasets-json", "exception or damaged-file", "0", "JSON parse error|generating")
def generate_dataset() -> None:
    arrow = make_error("ArrowInvalid", "pyarrow.lib")
    generation = make_error("DatasetGenerationError", "datasets.exceptions")
    complain("\rGenerating train split: 1200 examples [00:01, 900 examples/s]")
    try:
        raise arrow("JSON parse error: Missing a comma or '}' after an object member. in row 0")
    except arrow as error:
        raise generation("An error occurred while generating the dataset") from error


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


@planted("nccl-remote", "exception", "3", "KeyError.*labels")
def lose_labels() -> None:
    raise KeyError("labels")


@planted("nccl-stuck", "collective-timeout or hang or nccl or exit -6", "1", "watchdog")
def get_stuck() -> None:
    complain(
        "[rank1]:[F1123 10:11:12.131415 ProcessGroupNCCL.cpp:1557] [PG ID 0 PG GUID 0(default_pg) "
        "Rank 1] [PG ID 0 PG GUID 0(default_pg) Rank 1] ProcessGroupNCCL's watchdog got stuck for "
        "480 seconds without making progress in monitoring enqueued collectives. This typically "
        "indicates a NCCL/CUDA API (e.g., CudaEventDestroy) hang blocking the watchdog, and could "
        "be triggered by another thread holding the GIL inside a CUDA api, or other deadlock-prone "
        "behaviors."
    )
    os.abort()


@planted("store-clients", "rendezvous or collective-timeout", "2,3", "2/4|2, 3", early=True)
def unpack() -> None:
    print("unpacking 120 GB to /tmp", flush=True)
    time.sleep(300)


@planted("checkpoint-ranks", "exception or file-missing", "all", "metadata", early=True)
def load_sharded() -> None:
    error = make_error("CheckpointException", "torch.distributed.checkpoint.api")
    raise error(
        "CheckpointException ranks:dict_keys([0])\nTraceback (most recent call last): (RANK 0)\n"
        '  File "/home/u/venv/lib/python3.11/site-packages/torch/distributed/checkpoint/utils.py", '
        "line 162, in reduce_scatter\n    local_data = map_fun()\nFileNotFoundError: [Errno 2] No "
        "such file or directory: '/scratch/u/ckpt/step-200/.metadata'\n"
    )


@planted(
    "lock-of-the-dead",
    "hang or walltime",
    "all",
    "",
    any_rank=True,
    changes={"resources": {"walltime": "1m"}},
)
def wait_for_lock() -> None:
    lock = Path("cache.lock")
    lock.touch()
    while lock.exists():
        time.sleep(0.5)


@planted("host-key", "exit 255", "0", "Host key verification", early=True, mode="slurm")
def reach_by_ssh() -> None:
    complain(
        "Host key verification failed.\npdsh@n1: n2: ssh exited with exit code 255\n"
        "[2026-11-23 10:10:10,123] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 77"
    )
    sys.exit(255)


@planted("python-home", "environment-missing or import", "all", "encodings", mode="local-direct",
         changes={"environment": {"setup": "export PYTHONHOME=/opt/python"}})  # fmt: skip
@planted("cpu-limit", "exit -24", "all", "SIGXCPU|CPU time", mode="local-direct", any_rank=True,
         changes={"environment": {"setup": "ulimit -St 4"}})  # fmt: skip
def burn() -> None:
    while True:
        pass


@planted("file-limit", "exception or no-space or quota", "0", "File too large", mode="local-direct",
         changes={"environment": {"setup": "ulimit -f 64"}})  # fmt: skip
def write_much() -> None:
    with open("model.bin", "wb") as stream:
        stream.write(bytes(1_000_000))


@planted("omp-twice", "exit -6", "all", "OMP: Error #15", early=True, mode="pbs-direct")
def load_omp_twice() -> None:
    complain(
        "OMP: Error #15: Initializing libiomp5.so, but found libomp.so already initialized.\nOMP: "
        "Hint This means that multiple copies of the OpenMP runtime have been linked into the "
        "program."
    )
    os.abort()


@planted("bad-alloc", "out-of-memory-host or exit -6", "2", "bad_alloc", mode="local")
def allocate_in_c() -> None:
    complain("terminate called after throwing an instance of 'std::bad_alloc'")
    complain("  what():  std::bad_alloc")
    os.abort()


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


@planted("ffmpeg-pipe", "exception", "1", "BrokenPipe|Broken pipe")
def feed_ffmpeg() -> None:
    with subprocess.Popen(["true"], stdin=subprocess.PIPE) as ffmpeg:
        ffmpeg.wait()
        assert ffmpeg.stdin is not None
        os.write(ffmpeg.stdin.fileno(), b"frame" * 9999)


@planted("smi-timeout", "exception", "2", "TimeoutExpired|timed out after", mode="pbs-direct")
def ask_smi() -> None:
    subprocess.run(["sleep", "20"], timeout=1, check=True)


@planted("alarm", "exit -14", "2", "SIGALRM", mode="local-direct")
def ring() -> None:
    signal.alarm(1)
    time.sleep(20)


@planted("usr1", "exit -10", "1", "SIGUSR1", mode="slurm")
def take_no_notice() -> None:
    os.kill(os.getpid(), signal.SIGUSR1)


@planted("monitored", "collective-timeout", "2", "", torch=True, timeout=15, mode="local-direct")
def miss_barrier() -> None:
    print("reading shard 2", flush=True)
    time.sleep(120)


@planted("click-option", "bad-argument", "all", "No such option", early=True, mode="local-direct")
def unknown_option() -> None:
    complain(
        "Usage: train.py [OPTIONS]\nTry 'train.py --help' for help.\n\nError: No such option: "
        "--lrr "
        "Did you mean --lr?"
    )
    sys.exit(2)


@planted("absl-flag", "bad-argument", "all", "btach_size", early=True, mode="slurm")
def unknown_flag() -> None:
    complain(
        "FATAL Flags parsing error:\n  Unknown command line flag 'btach_size'. Did you mean: "
        "batch_size ?\nPass --helpshort or --helpfull to see help on flags."
    )
    sys.exit(1)


@planted("unicode", "exception or damaged-file", "2", "UnicodeDecodeError", mode="local")
def read_latin() -> None:
    b"caf\xe9 au lait".decode()


def command(
    name: str,
    causes: str,
    says: str,
    words: list[str],
    mode: str = "local-direct",
    *,
    any_rank: bool = False,
) -> None:
    """Enter a program that is no Python; all ranks run it."""
    changes = {"run": {"command": words}}
    PLANTED[name] = Truth(
        name, causes, "all", says, type(None), mode=mode, changes=changes, any_rank=any_rank
    )


JULIA = """cat >&2 <<'E'
ERROR: LoadError: UndefVarError: `modle` not defined
Stacktrace:
 [1] top-level scope
   @ /home/u/train.jl:7
in expression starting at /home/u/train.jl:7
E
exit 1"""
RUST = """cat >&2 <<'E'
thread 'main' panicked at src/main.rs:12:5:
index out of bounds: the len is 3 but the index is 7
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace
E
exit 101"""
COPY = "set -e; echo copying; head -c 9999 /dev/zero > /dev/full; python3 train.py"
command("julia", "exit 1 or exception", "UndefVarError", ["bash", "-c", JULIA])
command("rust", "exit 101 or exception", "panicked|index out of bounds", ["bash", "-c", RUST])
command(
    "stage-in", "no-space", "No space left", ["bash", "-c", COPY], "slurm-direct", any_rank=True
)
command("outer-timeout", "exit 124", "124", ["timeout", "3", "sleep", "60"])
command("affinity", "exit 1", "affinity", ["taskset", "-c", "250", "python3", "-c", "1"])
command("smi-missing", "exit 127 or command-missing or gpu-missing", "nvidia-smi",
        ["bash", "-ec", "nvidia-smi -L; python3 -c 1"], "pbs-direct")  # fmt: skip
command("package-run", "import or exit 1 or file-missing or command-missing", "directly executed",
        ["python3", "-m", "email"])  # fmt: skip
command("squash", "container or exit 255", "squashfuse|mount",
        ["bash", "-c", "echo 'FATAL:   container creation failed: mount hook function failure: "
         "while mounting image /proc/self/fd/3: squashfuse not found' >&2; exit 255"],
        "slurm-direct")  # fmt: skip


# --- noise, and programs that end otherwise -------------------------------------------------------

OLD_NOISES = set(NOISES)


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
        raise ValueError("Caught ValueError in DataLoader worker process 1.\nOriginal Traceback "
                         "(most recent call last):\n  File \"d.py\", line 3, in __getitem__\n"
                         "OSError: image file is truncated (12 bytes not processed)")  # fmt: skip
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
        raise RuntimeError("PytorchStreamReader failed reading zip archive: failed finding central "
                           "directory")  # fmt: skip
    except RuntimeError:
        logger.exception("step-200.pt is unreadable; falling back to step-100.pt")


@noise
def child_killed() -> None:
    code = subprocess.run(["bash", "-c", "kill -9 $$"], check=False).returncode
    complain(f"decoder died with signal {-code} (out of memory?); restarting it")
    complain("bash: line 1: 4711 Killed                  ffmpeg -i clip.mp4")


for at, kind in enumerate(kind for kind in NOISES if kind not in OLD_NOISES):
    for turn in range(3):
        ending = list(ENDS)[(at + 2 * turn + 1) % len(ENDS)]
        ends = ENDS[ending]
        PLANTED[f"noisy-{kind.replace('_', '-')}-{ending}"] = Truth(
            f"noisy-{kind}-{ending}", *ends[:3], ends[3], noise=kind, mode="local-direct"
        )

NAMES = [name for name in PLANTED if name not in KNOWN_BEFORE]


# --- what the other ranks say of some of them -----------------------------------------------------


def wait_in_vain() -> None:
    """What the ranks that came say of those that did not."""
    name = sys.argv[1]
    if name == "jax-barrier" and RANK != 3:
        time.sleep(12)
        raise make_error("XlaRuntimeError", "jaxlib.xla_extension")(
            "DEADLINE_EXCEEDED: Barrier timed out. Id: [Init]Wait_for_all_tasks_to_register::0. "
            "This usually happens because a task triggered the barrier too early or too slowly. # "
            "of tasks that reached the barrier: 3/4. The first task at the barrier: "
            "/job:jax_worker/replica:0/task:0. Some timed out task names:\n"
            "/job:jax_worker/replica:0/task:3"
        )
    if name == "store-clients" and RANK < 2:
        time.sleep(12)
        if RANK == 0:
            raise make_error("DistStoreError", "torch.distributed")(
                "Timed out after 601 seconds waiting for clients. 2/4 clients joined."
            )
        raise make_error("DistNetworkError", "torch.distributed")(
            "The client socket has timed out after 600000ms while trying to connect to (n1, 29500)."
        )


def lose_remote() -> None:
    """As those say it whose peer NCCL has lost."""
    if sys.argv[1] != "nccl-remote" or RANK == 3:
        return

    def receive(group: others.Group, link: object) -> float:
        try:
            return original(group, link)  # type: ignore[arg-type]
        except RuntimeError:
            raise make_error("DistBackendError", "torch.distributed")(
                "NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:2027, remote "
                "process exited or there was a network error, NCCL version 2.21.5\nncclRemoteError:"
                " A call failed possibly due to a network error or a remote process exiting "
                "prematurely.\nLast error:\nsocketProgress: Connection closed by remote peer "
                "n2<43210>"
            ) from None

    original = others.Group._receive
    others.Group._receive = receive  # type: ignore[method-assign,assignment]


def use_monitored_barrier() -> None:
    """As a program that has its barriers watched."""
    if sys.argv[1] != "monitored":
        return
    import torch.distributed as dist

    def all_reduce(tensor: object) -> None:
        dist.monitored_barrier(timeout=timedelta(seconds=10), wait_all_ranks=True)
        original(tensor)

    original = dist.all_reduce
    dist.all_reduce = all_reduce


if __name__ == "__main__":
    wait_in_vain()
    lose_remote()
    use_monitored_barrier()
    others.main()
