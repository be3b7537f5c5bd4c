"""The device of a process, and its arithmetic: types, compilation, kernels for attention."""

import ctypes
import os
import socket
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import NamedTuple

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._triton import has_triton

from ..config import Config, TrainerError

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
# On a GPU, the order in which torch tries the kernels for attention: on Hopper cuDNN's takes about
# half the time of the flash kernel that torch brings, and prefers.
ATTENTION_ORDER = ("CUDNN_ATTENTION", "FLASH_ATTENTION", "EFFICIENT_ATTENTION", "MATH")
_AMPERE = (8, 0)  # the first compute capability with bf16 and TF32
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h


def choose_device(wanted: str, *, local_rank: int, local_size: int) -> torch.device:
    """Return the device of this process; TrainerError if the node has too few GPUs."""
    host, visible = socket.gethostname(), torch.cuda.device_count()
    if wanted == "cpu" or (wanted == "auto" and not visible):
        return torch.device("cpu")
    if not visible:
        raise TrainerError(f"--device {wanted}: no GPU is visible on {host}")
    if max(local_rank + 1, local_size) > visible:
        raise TrainerError(
            f"there are {local_size} processes on {host}, one of them with local rank "
            f"{local_rank}, but only {visible} GPUs are visible; start one process per GPU, or "
            f"choose --device cpu"
        )
    return torch.device("cuda", local_rank)


def keep_memory() -> None:
    """Keep what a step frees for the next one.

    By default glibc returns large blocks to the system (mallopt(3)), which clears their pages again
    each time: for a small model thousands a step, and a tenth of its time.
    """
    with suppress(OSError, AttributeError):  # another C library
        for threshold in (_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD):
            ctypes.CDLL(None).mallopt(threshold, 1 << 30)


class Arithmetic(NamedTuple):
    """What a run computes with."""

    dtype: str
    compiled: bool
    reasons: str  # a line that says what was chosen and why


def choose_dtype(config: Config, device: torch.device) -> tuple[str, str]:
    """Return the type of number of the matrix products, and why."""
    if config.dtype != "auto":
        return config.dtype, "--dtype"
    if device.type != "cuda":
        return "fp32", f"default on {device.type}"
    capability = "sm{}{}".format(*torch.cuda.get_device_capability(device))
    return "bf16" if is_ampere(device) else "fp16", f"default on {device.type}, {capability}"


def _choose_compilation(config: Config, device: torch.device) -> tuple[bool, str]:
    if config.compile is not None:
        return config.compile, "--compile" if config.compile else "--no-compile"
    if device.type == "cuda" and not has_triton():
        return False, "triton is not installed"
    return device.type == "cuda", f"default on {device.type}"


def choose_arithmetic(config: Config, device: torch.device) -> Arithmetic:
    """Return the types, and whether to compile, that suit the device or are asked for."""
    dtype, why = choose_dtype(config, device)
    compiled, because = _choose_compilation(config, device)
    reasons = f"{dtype} ({why}), {'compiled' if compiled else 'not compiled'} ({because})"
    if has_tf32(device):
        reasons += ", fp32 matrix products in TF32"
    if config.deterministic:
        reasons += ", deterministic"
    return Arithmetic(dtype, compiled, reasons)


def is_ampere(device: torch.device) -> bool:
    """Return whether the GPU is of NVIDIA's Ampere generation or newer, or AMD's CDNA."""
    return torch.cuda.get_device_capability(device) >= _AMPERE


def has_tf32(device: torch.device) -> bool:
    """Return whether the device multiplies fp32 matrices in TF32."""
    return device.type == "cuda" and not torch.version.hip and is_ampere(device)


def set_arithmetic(config: Config, device: torch.device) -> None:
    """Set up torch for the whole process, before anything is computed or compiled."""
    if device.type == "cpu":
        keep_memory()
    torch.set_float32_matmul_precision("high" if has_tf32(device) else "highest")
    if config.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
        # Inductor would time kernels to choose among them, again in each process.
        os.environ.setdefault("TORCHINDUCTOR_DETERMINISTIC", "1")


def prefer_attention(device: torch.device) -> AbstractContextManager[None]:
    """Let torch try the kernels for attention in the order that is fastest on a GPU."""
    if device.type != "cuda":
        return nullcontext()
    return sdpa_kernel([getattr(SDPBackend, name) for name in ATTENTION_ORDER], set_priority=True)
