"""Errors that people have reported of public programs, each in one program: `reported.py NAME`.

Their words are those of issues on GitHub, found by kind: FSDP, DeepSpeed, webdataset, Horovod, JAX,
Megatron, ROCm, bitsandbytes, Lightning and containers. `others.py` runs them.
"""

from __future__ import annotations

import ctypes
import os
import shlex
import subprocess
import sys
import time

import others
from others import PLANTED, RANK, Truth, complain, enter_raised, make_error, planted

KNOWN_BEFORE = set(PLANTED)

RAISED = {
    "fsdp-devices | exception | all | single device modules | :RuntimeError | early": (
        "FSDP only supports single device modules, but got params on {device(type='cuda', index=0),"
        " device(type='cpu')}"
    ),
    "fsdp-groups | exception | 2,3 | list index out of range | :IndexError | early": (
        "list index out of range"
    ),
    "log-exists | exception | 2 | trainer_log.jsonl | :FileExistsError |": (
        "[Errno 17] File exists: '/mnt/afs/output/trainer_log.jsonl'"
    ),
    "two-devices | exception | 1,3 | same device | :RuntimeError |": (
        "Expected all tensors to be on the same device, but found at least two devices, cuda:1 and "
        "cuda:0!"
    ),
    "few-tars | exception | 3 | list index | :IndexError | early": "list index out of range",
    "tar-url | exception | all | dataset.tar | :AssertionError | early": (
        "k,v = url, /mypath/dataset.tar"
    ),
    "sampler-option | exception | all | IterableDataset | :ValueError | early": (
        "DataLoader with IterableDataset: expected unspecified sampler option, but got sampler="
        "<torch.utils.data.distributed.DistributedSampler object at 0x7f2a>"
    ),
    "jax-too-late | exception | all | must be called before | :RuntimeError | early": (
        "jax.distributed.initialize() must be called before any JAX calls that might initialise the"
        " XLA backend."
    ),
    "tpu-workers | exception | all | Expected 4 worker | :RuntimeError | early": (
        "Bad StatusOr access: UNKNOWN: TPU initialization failed: Invalid "
        "--2a886c8_slice_builder_worker_addresses specified. Expected 4 worker addresses, got 1."
    ),
    "hip-image | driver-mismatch or gpu-error | all | no kernel image | :RuntimeError |": (
        "HIP error: no kernel image is available for execution on the device\nHIP kernel errors "
        "might be asynchronously reported at some other API call, so the stacktrace below might be "
        "incorrect.\nFor debugging consider passing AMD_SERIALIZE_KERNEL=3"
    ),
    "node-id | exception | all | SLURM_NODEID | :KeyError | early": ("SLURM_NODEID"),
    "lightning-tasks | exception | all | ntasks-per-node | :RuntimeError | early": (
        "You set `--ntasks=8` in your SLURM bash script, but this variable is not supported. HINT: "
        "Use `--ntasks-per-node=8` instead."
    ),
    "lightning-devices | exception | all | does not match | :ValueError | early": (
        "You set `devices=1` in Lightning, but the number of tasks per node configured in SLURM "
        "`--ntasks-per-node=2` does not match. HINT: Set `devices=2`."
    ),
    "fsdp-alone | exception | all | only works in distributed | :ValueError | early": (
        "Using fsdp only works in distributed training."
    ),
    "optimizer-devices | exception | all | same index | :RuntimeError |": (
        "Tensors of the same index must be on the same device and the same dtype except `step` "
        "tensors that can be CPU and float32/64 notwithstanding"
    ),
    "flattened-shape | exception | all | global shape metadata | "
    "megatron.core.dist_checkpointing.core:CheckpointingException | early": (
        "Cannot find global shape metadata for N-D flattened tensor ShardedTensor(key='optimizer."
        "state.exp_avg.decoder.layers.0.weight')"
    ),
    "package-of-one | import | 2,3 | deepspeed | :ModuleNotFoundError | early": (
        "No module named 'deepspeed'"
    ),
}
enter_raised(RAISED, ("local-direct", "slurm-direct", "local-direct", "pbs-direct"))


@planted("old-spawn", "exception", "0", "must be CUDA|Process 3 terminated", mode="slurm-direct")
def spawn_as_before() -> None:
    raise Exception(
        "\n\n-- Process 3 terminated with the following error:\n"
        "Traceback (most recent call last):\n"
        '  File "/opt/conda/lib/python3.6/site-packages/torch/multiprocessing/spawn.py'
        '", line 20, in'
        ' _wrap\n    fn(i, *args)\n  File "/workspace/fairseq/train.py", line 157, in main\n'
        "    loss.backward()\nRuntimeError: Tensors must be CUDA and dense\n"
    )


@planted("mpi-peer", "exit -11", "2", "SIGSEGV", mode="slurm-direct")
def crash_under_mpi() -> None:
    complain(
        "[n2:02773] *** Process received signal ***\n[n2:02773] Signal: Segmentation fault (11)\n"
        "[n2:02773] Signal code: Invalid permissions (2)\n[n2:02773] Failing at address: "
        "0x7f1246cb4a00\n[n2:02773] [ 0] /lib/x86_64-linux-gnu/libpthread.so.0(+0x11390)[0x7f732e9c"
        "3390]"
    )
    ctypes.string_at(0)


@planted("horovod-shut", "exception", "1", "bad bucket 4", mode="slurm-direct")
def shut_horovod() -> None:
    raise ValueError("bad bucket 4")


@planted(
    "jax-clique", "collective-timeout or rendezvous or hang or exit -6", "2", "clique|did not take"
)
def miss_clique() -> None:
    print("compiling", flush=True)
    time.sleep(300)


@planted("hip-fault", "gpu-error or exit -6", "3", "Memory access fault", mode="local-direct")
def fault_in_hip() -> None:
    complain(
        "Memory access fault by GPU node-1 (Agent handle: 0x2fb8040) on address 0x541e00000. "
        "Reason: Page not present or supervisor privilege."
    )
    os.abort()


@planted("bnb-setup", "exception or import or gpu-missing", "all", "CUDA Setup failed", early=True)
def set_up_bnb() -> None:
    complain(
        "\n===================================BUG REPORT===================================\n"
        "Welcome "
        "to bitsandbytes. For bug reports, please run\n\npython -m bitsandbytes\n"
    )
    raise RuntimeError(
        "\n        CUDA Setup failed despite GPU being available. Please run the following command "
        "to get more information:\n\n        python -m bitsandbytes\n\n        Inspect the output "
        "of the command and see if you can locate CUDA libraries.\n"
    )


@planted("bnb-name", "exception or import", "all", "str2optimizer", early=True, mode="pbs-direct")
def load_cpu_library() -> None:
    complain(
        "/home/u/venv/lib/python3.9/site-packages/bitsandbytes/libbitsandbytes_cpu.so: undefined "
        "symbol: cadam32bit_grad_fp32\nCUDA SETUP: WARNING! libcudart.so not found in any path."
    )
    raise NameError("name 'str2optimizer32bit' is not defined")


@planted("ray-load", "exception or shape-mismatch", "0", "Missing key", mode="local-direct")
def load_by_ray() -> None:
    complain(
        "(TaskRunner pid=33092) Unhandled error (suppress with 'RAY_IGNORE_UNHANDLED_ERRORS=1'): "
        "ray::WorkerDict.load_checkpoint() (pid=18579, ip=172.19.1.140)\n(TaskRunner pid=33092)   "
        'File "/v/megatron_workers.py", line 445, in load_checkpoint\n(TaskRunner pid=33092) '
        "RuntimeError: Error(s) in loading state_dict for GPTModel:"
    )
    error = make_error("RayTaskError(RuntimeError)", "ray.exceptions")
    raise error(
        "ray::TaskRunner.run() (pid=33092, ip=172.19.1.140)\n"
        '  File "/v/main_ppo.py", line 90, in run\n    trainer.fit()\n'
        "RuntimeError: Error(s) in loading state_dict for GPTModel:\n"
        "\tMissing key(s) in state_dict:"
        ' "decoder.layers.0.weight".'
    )


@planted("step-of-steps", "out-of-memory-gpu or exception", "0", "out of memory")
def run_steps() -> None:
    child = "raise RuntimeError('CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 79 GiB')"
    code = subprocess.run([sys.executable, "-c", child], check=False).returncode
    raise RuntimeError(f"Step 1 exited with non-zero status {code}\n\nLaunch command: bash run.sh")


@planted("child-permission", "permission or exception", "all", "Permission denied", early=True)
def run_child() -> None:
    child = "raise PermissionError(13, 'Permission denied', 'models/cityscapes_best.pth')"
    code = subprocess.run([sys.executable, "-c", child], check=False).returncode
    complain(f"EXIT CODE: {code}")
    assert code == 0


@planted("ucx-signal", "exit -11", "1", "SIGSEGV", mode="pbs-direct")
def crash_in_ucx() -> None:
    complain(
        "[ava02:21329:1:21329] Caught signal 11 (Segmentation fault: address not mapped to object "
        "at address 0x8)\n==== backtrace (tid:  21329) ====\n 0 0x0000000000068d1c ucs_handle_error"
        "()  ucs/debug/debug.c:641\n 1 0x000000000036ac7f MPIDI_CH3_EagerContigShortSend()  ??:0\n"
        "================================="
    )
    ctypes.string_at(0)


HOOK = """echo 'nvidia-container-cli: mount error: mount failed: /tmp/enroot/c: operation \
not permitted
[ERROR] /apps/enroot/3.4.0/etc/enroot/hooks.d/98-nvidia.sh exited with return code 1' >&2; exit 1"""
MOUNT = "echo 'FATAL:   failed to mount proc filesystem: operation not permitted' >&2; exit 255"
for name, says, text, mode in (
    ("enroot-hook", "98-nvidia.sh|mount error", HOOK, "slurm-direct"),
    ("proc-mount", "failed to mount proc", MOUNT, "local-direct"),
):
    PLANTED[name] = Truth(
        name,
        "container or permission",
        "all",
        says,
        type(None),
        mode=mode,
        changes={"run": {"command": ["bash", "-c", text]}},
        any_rank=True,
    )

# A second draw: NCCL, TensorFlow, Ray, Detectron, Triton, Open MPI and safetensors.
LATER = {
    "semaphore | permission or shared-memory | 2 | Permission denied | :PermissionError |": (
        "[Errno 13] Permission denied"
    ),
    "shm-manager | permission | all | torch_shm_manager | :RuntimeError |": (
        'torch_shm_manager at "/home/u/venv/lib/python3.11/site-packages/torch/bin/'
        'torch_shm_manager": execl failed: Permission denied\nException raised from start_manager '
        "at /pytorch/torch/lib/libshm/core.cpp:67 (most recent call first):\nframe #0: c10::Error::"
        "Error(c10::SourceLocation, std::string) + 0x57 (0x7f9 in /home/u/libc10.so)"
    ),
    "broken-pool | exception or killed | 1 | terminated abruptly | "
    "concurrent.futures.process:BrokenProcessPool |": (
        "A process in the process pool was terminated abruptly while the future was running or "
        "pending."
    ),
    "nccl-arch | nccl | all | Attribute arch | torch.distributed:DistBackendError | early": (
        "NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.hpp:268, internal error - "
        "please report this issue to the NCCL developers, NCCL version 2.18.1\nncclInternalError: "
        "Internal check failed.\nLast error:\nAttribute arch of node cpu not found"
    ),
    "nccl-config | nccl | all | Invalid config | torch.distributed:DistBackendError | early": (
        "NCCL error in: /pytorch/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1287, invalid "
        "usage, NCCL version 2.17.1\nncclInvalidUsage: This usually reflects invalid usage of NCCL "
        "library.\nLast error:\nInvalid config blocking attribute value -2147483648"
    ),
    "ray-actor | killed or out-of-memory-host or exception | 0 | actor died | "
    "ray.exceptions:ActorDiedError |": (
        "The actor died unexpectedly before finishing this task.\n\tclass_name: WorkerDict\n\tpid: "
        "909447\nThe actor is dead because its worker process has died. Worker exit type: "
        "SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error code 2."
        " End of file. There are some potential root causes. (1) The process is killed by SIGKILL "
        "by OOM killer due to high memory usage."
    ),
    "not-registered | exception | all | not registered | :KeyError | early": (
        "Dataset 'custom_dataset' is not registered! Available datasets are: coco_2017_train"
    ),
    "no-valid-data | exception | all | No valid data | :AssertionError | early": (
        "No valid data found in my_dataset_train."
    ),
    "ptx-version | compiler or version-mismatch | all | ptxas | :RuntimeError |": (
        "Internal Triton PTX codegen error: \nptxas /tmp/filebRJ6R0, line 6; fatal   : Unsupported "
        ".version 7.8; current version is '7.4'"
    ),
    "triton-image | compiler or gpu-error or driver-mismatch or exception | all | kernel image | "
    ":RuntimeError |": "Triton Error [CUDA]: device kernel image is invalid",
    "shared-tensors | exception | 0 | share memory | :RuntimeError |": (
        "\n            Some tensors share memory, this will lead to duplicate memory on disk and "
        "potential differences when loading them again: [{'lm_head.weight', 'embed.weight'}]."
    ),
    "safetensors-write | exception | 0 | os error 22 | safetensors_rust:SafetensorError |": (
        "Error while serializing: I/O error: Invalid argument (os error 22)"
    ),
    "safetensors-full | no-space | 0 | StorageFull | safetensors_rust:SafetensorError |": (
        'Error while serializing: IoError(Os { code: 28, kind: StorageFull, message: "No space left'
        ' on device" })'
    ),
    "safetensors-header | damaged-file or exception | all | InvalidHeader | "
    "safetensors_rust:SafetensorError | early": (
        "Error while deserializing header: InvalidHeaderDeserialization"
    ),
    "generation-config | exception | 0 | generation config | :ValueError |": (
        "The generation config instance is invalid -- `.validate()` throws warnings and/or "
        "exceptions. Fix these issues to save the configuration."
    ),
}
enter_raised(LATER, ("local-direct", "slurm-direct", "local-direct", "pbs-direct"))


@planted("error-handler", "permission", "all", "Permission denied", early=True)
def report_as_torch() -> None:
    complain(
        "ERROR:torch.distributed.elastic.multiprocessing.errors.error_handler:{\n"
        '  "message": {\n    "message": "RuntimeError: Permission denied",\n    "extraInfo": {\n'
        '      "py_callstack": "Traceback (most recent call last):\\n  File \\"run.py\\"",\n'
        '      "timestamp": "1644000000"\n    }\n  }\n}'
    )
    raise RuntimeError("Permission denied")


@planted("nccl-logged", "gpu-error or nccl or exit 1", "1", "NCCL error|Cuda failure")
def log_and_leave() -> None:
    complain("n1:1689:2800 [0] include/alloc.h:112 NCCL WARN Cuda failure 999 'unknown error'")
    others.logger.error(
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


@planted("keras-logs", "exception", "3", "Empty Logs")
def train_on_nothing() -> None:
    raise ValueError("Unexpected result of `train_function` (Empty Logs). Please use compile().")


@planted("logged-and-raised", "not-a-number", "2", "infinite or NaN", mode="local-direct")
def log_and_raise() -> None:
    try:
        raise FloatingPointError("Loss became infinite or NaN at iteration=2!\nloss_dict = {}")
    except FloatingPointError:
        others.logger.exception("Exception during training:")
        raise


@planted("worker-assertion", "exception or data-loader", "1", "AssertionError")
def assert_in_worker() -> None:
    raise AssertionError(
        "Caught AssertionError in DataLoader worker process 0.\nOriginal Traceback (most recent "
        'call last):\n  File "/home/u/mmdet/datasets/pipelines/loading.py", line 41, in __call__\n'
        "    assert results['seg_fields']\nAssertionError\n"
    )


@planted("bare-assertion", "exception", "all", "teacher", early=True, mode="pbs-direct")
def assert_teacher() -> None:
    assert hasattr(sys, "teacher")


@planted("no-libcuda", "compiler", "all", "lcuda|gcc", mode="slurm")
def link_without_cuda() -> None:
    complain(
        "/usr/bin/ld: cannot find -lcuda: No such file or directory\ncollect2: error: ld returned 1"
        " exit status"
    )
    failed = make_error("BackendCompilerFailed", "torch._dynamo.exc")
    try:
        raise subprocess.CalledProcessError(1, ["/usr/bin/gcc", "/tmp/tmp1/main.c", "-lcuda"])
    except subprocess.CalledProcessError as error:
        raise failed(f"backend='inductor' raised:\nCalledProcessError: {error}") from error


@planted("no-cuda-header", "compiler or file-missing or exception", "all", "cuda.h")
def compile_without_header() -> None:
    complain(
        "/tmp/tmpx/main.c:2:10: fatal error: cuda.h: No such file or directory\n    2 | #include "
        '"cuda.h"\n      |          ^~~~~~~~\ncompilation terminated.'
    )
    raise subprocess.CalledProcessError(1, ["/usr/bin/gcc", "/tmp/tmpx/main.c", "-O3"])


@planted(
    "ompi-pml",
    "exit 1 or launcher",
    "all",
    "pml framework|PML ucx",
    early=True,
    mode="local-direct",
)
def open_no_pml() -> None:
    line = "-" * 74
    complain(
        f"{line}\nNo components were able to be opened in the pml framework.\n\nThis typically "
        "means that either no components of this type were\ninstalled, or none of the installed "
        f"components can be loaded.\n\n  Host:      cn557\n  Framework: pml\n{line}\n"
        "[cn557:1724353] PML ucx cannot be selected"
    )
    sys.exit(1)


@planted("ompi-pmi", "exit 1 or launcher", "all", "PMI", early=True)
def start_without_pmi() -> None:
    line = "-" * 74
    complain(
        f'{line}\nThe application appears to have been direct launched using "srun",\nbut OMPI was '
        "not built with SLURM's PMI support and therefore cannot\nexecute. There are several "
        f"options for building PMI support under\nSLURM.\n\nPlease configure as appropriate and try"
        f" again.\n{line}\n*** An error occurred in MPI_Init_thread\n*** on a NULL communicator\n"
        "*** MPI_ERRORS_ARE_FATAL (processes in this communicator will now abort,\n***    and "
        "potentially your MPI job)"
    )
    sys.exit(1)


@planted("ucx-memory", "out-of-memory-host or exit 1", "2", "Out of memory", mode="local-direct")
def allocate_in_ucx() -> None:
    complain(
        "[1741292755.638058] [udc:711629:0]         address.c:1733 UCX  ERROR failed to allocate "
        "address list\n[udc:711629] pml_ucx.c:431  Error: ucp_ep_create(proc=509) failed: Out of "
        "memory"
    )
    sys.exit(1)


TCL = 'couldn\'t read file "/mpcdf/Modules/5.0.1/libexec/modulecmd.tcl": no such file or directory'
PLANTED["module-command"] = Truth(
    "module-command",
    "setup or module-missing",
    "all",
    "modulecmd",
    type(None),
    changes={"environment": {"setup": f"echo {shlex.quote(TCL)} >&2\nfalse"}},
    any_rank=True,
)

NAMES = [name for name in PLANTED if name not in KNOWN_BEFORE]


# --- what the other ranks say of some of them -----------------------------------------------------

SHUT = (
    "Horovod has been shut down. This was caused by an exception on one of the ranks or an attempt "
    "to allreduce, allgather or broadcast a tensor after one of the ranks finished execution. If "
    "the shutdown was caused by an exception, you should see the exception in the log before the "
    "first shutdown message."
)
PEER = """--------------------------------------------------------------------------
An MPI communication peer process has unexpectedly disconnected.  This
usually indicates a failure in the peer process (e.g., a crash or
otherwise exiting without calling MPI_FINALIZE first).

  Local host: n1
  Local PID:  7720
  Peer host:  n2
--------------------------------------------------------------------------"""


def lose_other() -> None:
    """As Horovod and MPI say that another process is gone."""
    original = others.Group._receive

    def receive(group: others.Group, link: object) -> float:
        try:
            return original(group, link)  # type: ignore[arg-type]
        except RuntimeError:
            if sys.argv[1] == "mpi-peer":
                complain(PEER)
                os._exit(1)
            if sys.argv[1] == "keras-logs":
                raise make_error("UnavailableError", "tensorflow.python.framework.errors_impl")(
                    "Collective ops is aborted by: failed to connect to all addresses\nThe error "
                    "could be from a previous operation. Restart your program to reset. "
                    "[Op:CollectiveReduceV2]"
                ) from None
            error = make_error("HorovodInternalError", "horovod.common.exceptions")
            raise error(SHUT) from None

    others.Group._receive = receive  # type: ignore[method-assign,assignment]


def wait_for_clique() -> None:
    """As XLA says that not all threads have come."""

    def receive(group: others.Group, link: object) -> float:
        link.settimeout(10)  # type: ignore[attr-defined]
        try:
            data = link.recv(8)  # type: ignore[attr-defined]
        except TimeoutError:
            data = b""
        if not data:
            complain(
                "E1123 10:10:10.920189 external/xla/xla/service/rendezvous.cc:38] This thread has "
                f"been waiting for `initialize clique for rank {RANK}; clique=devices=[0,1,2,3]` "
                "for 10 seconds and may be stuck. Expected 4 threads to join the rendezvous, but "
                "not all of them arrived on time.\nF1123 10:10:50.920189 external/xla/xla/service/"
                "rendezvous.cc:75] Termination timeout for `initialize clique for rank "
                f"{RANK}` of 40 seconds exceeded. Exiting to ensure a consistent program state."
            )
            os.abort()
        return float(others.struct.unpack("d", data)[0])

    others.Group._receive = receive  # type: ignore[method-assign,assignment]


if __name__ == "__main__":
    if sys.argv[1] in ("mpi-peer", "horovod-shut", "keras-logs"):
        lose_other()
    elif sys.argv[1] == "jax-clique":
        wait_for_clique()
    others.main()
