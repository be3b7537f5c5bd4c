"""The device of a process, and the arithmetic that it is to use: types, compiling, attention."""

import ctypes
import os
import platform
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

from ..config import Config, TrainerError

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
# On a GPU, the kernels for attention in the order in which torch is to try them: on Hopper cuDNN's
# takes about half the time of the flash kernel that torch brings, which it prefers by itself.
ATTENTION_ORDER = ("CUDNN_ATTENTION", "FLASH_ATTENTION", "EFFICIENT_ATTENTION", "MATH")
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h


def choose_device(wanted: str, *, local_rank: int, local_size: int) -> torch.device:
    """Return the device of this process; TrainerError when the node has too few of the kind."""
    host, modules = socket.gethostname(), {"cuda": torch.cuda, "xpu": torch.xpu}
    visible = {
        kind: module.device_count() for kind, module in modules.items() if module.is_available()
    }
    kind = next((kind for kind in visible if wanted in ("auto", kind)), wanted)
    if kind in ("cpu", "auto"):
        return torch.device("cpu")
    if kind not in visible:
        raise TrainerError(f"--device {kind}: no GPU is visible on {host}")
    if max(local_rank + 1, local_size) > visible[kind]:
        raise TrainerError(
            f"{local_size} processes on {host}, the one with local rank {local_rank} among them, "
            f"but only {visible[kind]} GPUs are visible; start one process per GPU, or choose "
            f"--device cpu"
        )
    return torch.device(kind, local_rank)


def get_module(device: torch.device) -> Any:
    """Return torch's module for a kind of GPU, such as torch.cuda; None for a CPU."""
    return None if device.type == "cpu" else getattr(torch, device.type)


def name_device(device: torch.device) -> str:
    """Return what the device is called; for a CPU, its kind of instructions."""
    module = get_module(device)
    return str(module.get_device_name(device)) if module else platform.machine()


def keep_memory() -> None:
    """Keep what a step frees for the next one.

    Left to itself glibc gives large blocks back to the system (mallopt(3)), which then clears each
    of their pages anew: for a small model that is thousands a step, and a tenth of its time.
    """
    with suppress(OSError, AttributeError):  # another C library
        for threshold in (_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD):
            ctypes.CDLL(None).mallopt(threshold, 1 << 30)


class Arithmetic(NamedTuple):
    """What a run computes with."""

    dtype: str
    compiled: bool
    reasons: str  # a line that says what was chosen and why

    @property
    def torch_dtype(self) -> torch.dtype:
        """The type of the forward pass, by autocast where it is not that of the weights."""
        return DTYPES[self.dtype]


def choose_arithmetic(config: Config, device: torch.device) -> Arithmetic:
    """Return the types, and whether to compile, that suit the device or are asked for."""
    dtype, why = config.dtype, "--dtype"
    if dtype == "auto":
        dtype = "bf16" if has_bf16(device) else "fp32"
        why = f"{device.type} has it" if dtype == "bf16" else f"usual on {device.type}"
    compiled, because = config.compile, "--compile" if config.compile else "--no-compile"
    if compiled is None:
        compiled = device.type != "cpu" and has_triton()
        because = f"usual on {device.type}"
        if device.type != "cpu" and not compiled:
            because = "triton is not installed"
    reasons = f"{dtype} ({why}), {'compiled' if compiled else 'not compiled'} ({because})"
    if device.type == "cuda":
        reasons += ", products of fp32 matrices in TF32"
    if is_deterministic(config):
        reasons += ", deterministic"
    return Arithmetic(dtype, compiled, reasons)


def has_bf16(device: torch.device) -> bool:
    """Return whether the device computes in bf16 at full speed; CPUs are taken not to."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return device.type != "cpu"


def has_triton() -> bool:
    """Return whether torch.compile can write kernels for a GPU."""
    from torch.utils._triton import has_triton

    return bool(has_triton())


def is_deterministic(config: Config) -> bool:
    """Return whether the same bits are wanted again whatever it costs."""
    return config.deterministic or config.reduce == "exact"


def set_arithmetic(config: Config, device: torch.device) -> None:
    """Set up torch for the whole process, before anything is computed or compiled."""
    if device.type == "cpu":
        keep_memory()
    # TF32 on GPUs that have it; nothing changes on a CPU.
    torch.set_float32_matmul_precision("high" if device.type == "cuda" else "highest")
    if config.reduce == "exact":
        # The number of threads changes the order in which a sum is taken, and launchers choose it
        # by the number of processes.
        torch.set_num_threads(1)
    if is_deterministic(config):
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
        if device.type == "cuda":
            torch.backends.cudnn.benchmark = False
            # Inductor would choose among kernels by timing them, anew in each process.
            os.environ.setdefault("TORCHINDUCTOR_DETERMINISTIC", "1")


@contextmanager
def prefer_attention(device: torch.device) -> Iterator[None]:
    """Let torch try the kernels for attention in the order that is fastest on a GPU."""
    with ExitStack() as stack:
        if device.type == "cuda":
            kernels = [getattr(SDPBackend, name) for name in ATTENTION_ORDER]
            stack.enter_context(sdpa_kernel(kernels, set_priority=True))
        yield


class _AttentionSpy(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Takes note of the operations that compute attention."""

    supports_higher_order_operators = True  # as flex attention is one

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.name().partition("::")[2] or func.name()
        if "attention" in name or "sdp" in name:
            self.names.add(name)
        return func(*args, **(kwargs or {}))


def observe_attention(run: Callable[[], object]) -> str | None:
    """Return which kernels for attention a forward pass runs: "flash", "cudnn", ...; None: none."""
    with _AttentionSpy() as spy, torch.compiler.set_stance("force_eager"):
        run()
    short = {
        name.removeprefix("_")
        .removeprefix("scaled_dot_product_")
        .replace("_attention", "")
        .removesuffix("_for_cpu")
        for name in spy.names
    }
    return " and ".join(sorted(short)) or None


def run_uncompiled() -> Any:
    """Return a context in which compiled functions run as they were written."""
    return torch.compiler.set_stance("force_eager")


def count_parameters(model: nn.Module) -> int:
    """Return how many numbers are trained, or kept as they are, in the model."""
    return sum(parameter.numel() for parameter in model.parameters())
