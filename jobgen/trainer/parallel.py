"""The processes of a run: who they are, which device each uses, what they tell each other.

Everything comes from torchrun's environment (RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE,
MASTER_ADDR, MASTER_PORT), which other launchers can set as well. Ranks may change at every restart
and nodes may hold unequal numbers of them, so a rank is used for nothing but dealing out work and
choosing who writes. A process alone is a world of one: the rest of the trainer knows no difference.
"""

import ctypes
import os
import platform
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar, cast

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import Store
from torch.distributed.rendezvous import rendezvous

from .config import Config, TrainerError

# What else may have started this process as one of several: their number, by variable.
_OTHER_LAUNCHERS = ("SLURM_STEP_NUM_TASKS", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE")
_BACKENDS = {"cuda": "nccl", "xpu": "xccl", "cpu": "gloo"}
# What only rank 0 does, as to make the data ready, may take as long as a job; others wait for it.
_PATIENCE = timedelta(days=7)
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h

T = TypeVar("T")


@dataclass(frozen=True)
class World:
    """This process among all of the run. What is sent or summed, all ranks must call."""

    rank: int
    local_rank: int
    size: int
    local_size: int
    device: torch.device
    backend: str
    # Apart from the training's: a checkpoint is written while the next steps reduce gradients, and
    # on one group their operations would wait for each other for ever.
    background: dist.ProcessGroup

    @property
    def main(self) -> bool:
        """Whether this is the one rank that writes."""
        return self.rank == 0

    @property
    def device_name(self) -> str:
        """What the device is called; for a CPU, its kind of instructions."""
        if self.device.type == "cpu":
            return platform.machine()
        return str(getattr(torch, self.device.type).get_device_name(self.device))

    def __str__(self) -> str:
        backend = self.backend if self.size > 1 else "alone"
        return (
            f"rank {self.rank} of {self.size} on {socket.gethostname()}, local rank "
            f"{self.local_rank}, pid {os.getpid()}, {self.device}, {backend}, "
            f"{torch.get_num_threads()} threads"
        )

    def sum(self, values: Sequence[float], first: torch.Tensor | None = None) -> list[float]:
        """Return the sums over the ranks; `first`, on the device, in the place of the first."""
        vector = torch.tensor(values, dtype=torch.float64).to(self.device)
        if first is not None:
            vector[0] = first
        if self.size > 1:
            dist.all_reduce(vector)
        return [float(value) for value in vector.tolist()]

    def tell(self, found: T) -> T:
        """Return what rank 0 found, on every rank."""
        box = [found]
        if self.size > 1:
            dist.broadcast_object_list(box, src=0, group=self.background)
        return box[0]

    def gather(self, value: T) -> list[T]:
        """Return the value of each rank, on every rank."""
        box = [value] * self.size
        if self.size > 1:
            dist.all_gather_object(box, value, group=self.background)
        return box

    def first(self, work: Callable[[], T]) -> T:
        """Return on every rank what `work` returns on rank 0, the only one to call it.

        What it raises there, a TrainerError says on the others.
        """
        found: T | None = None
        problem: TrainerError | None = None
        try:
            if self.main:
                found = work()
        except BaseException as error:
            kind = type(error) if isinstance(error, TrainerError) else TrainerError
            problem = kind(f"rank 0: {type(error).__name__}: {error}")
            raise
        finally:
            found, problem = self.tell((found, problem))
        if problem is not None:
            raise problem
        return cast(T, found)


def join(config: Config) -> World:
    """Become part of the run that the environment describes, or a run of one without it.

    Raises TrainerError when this node's GPUs do not suffice for its processes, or differ in kind
    from rank 0's, or when the environment is half there.
    """
    timeout = timedelta(seconds=max(600, 2 * config.hang_after))
    said, alone = os.environ, "RANK" not in os.environ
    for name in _OTHER_LAUNCHERS:
        if alone and said.get(name, "1") != "1":
            raise TrainerError(
                f"{name} is {said[name]}, but RANK is not set: start the processes with torchrun, "
                f"or export RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR and "
                f"MASTER_PORT in each of them"
            )
    rank, local_rank, size, local_size = 0, 0, 1, 1
    if not alone:
        try:
            rank, local_rank, size = (int(said[k]) for k in ("RANK", "LOCAL_RANK", "WORLD_SIZE"))
            local_size = int(said.get("LOCAL_WORLD_SIZE", local_rank + 1))
        except (KeyError, ValueError) as error:
            raise TrainerError("RANK, LOCAL_RANK or WORLD_SIZE is amiss: use torchrun") from error
    device = _device(config.device, local_rank=local_rank, local_size=local_size)
    if device.type == "cpu":
        _keep_memory()
    else:
        getattr(torch, device.type).set_device(device)
    backend = _BACKENDS[device.type] if config.backend == "auto" else config.backend
    if not dist.is_backend_available(backend):
        raise TrainerError(f"--backend {backend}: this build of torch does not have it")
    if config.reduce == "exact":
        _pin_arithmetic()

    if backend == "mpi":  # It knows rank and size by itself.
        dist.init_process_group(backend)
        rank, size = dist.get_rank(), dist.get_world_size()
    else:
        store: Store = torch._C._distributed_c10d.HashStore()
        if not alone:
            store, _, _ = next(rendezvous("env://", rank, size, timeout=timeout))
        _compare(store, device, rank)
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=timeout)
    background = dist.new_group(backend="mpi" if backend == "mpi" else "gloo", timeout=_PATIENCE)
    return World(rank, local_rank, size, local_size, device, backend, background)


def leave() -> None:
    """End the process group if there is one."""
    if dist.is_initialized():
        dist.destroy_process_group()


def _compare(store: Store, device: torch.device, rank: int) -> None:
    """Raise TrainerError where ranks differ in kind: their backends would wait without a word."""
    if rank == 0:
        store.set("jobgen/device", f"{device.type} on {socket.gethostname()}")
    first = store.get("jobgen/device").decode()
    if not first.startswith(device.type):
        raise TrainerError(
            f"rank {rank} would use {device.type} on {socket.gethostname()}, but rank 0 uses "
            f"{first}; check the GPUs that each node gives, or choose with --device"
        )


def _device(wanted: str, *, local_rank: int, local_size: int) -> torch.device:
    host, modules = socket.gethostname(), {"cuda": torch.cuda, "xpu": torch.xpu}
    seen = {k: m.device_count() for k, m in modules.items() if m.is_available()}
    kind = next((kind for kind in seen if wanted in ("auto", kind)), wanted)
    if kind in ("cpu", "auto"):
        return torch.device("cpu")
    if kind not in seen:
        raise TrainerError(f"--device {kind}: no GPU is visible on {host}")
    if max(local_rank + 1, local_size) > seen[kind]:
        raise TrainerError(
            f"{local_size} processes on {host}, the one with local rank {local_rank} among them, "
            f"but only {seen[kind]} GPUs are visible; start one process per GPU, or choose "
            f"--device cpu"
        )
    return torch.device(kind, local_rank)


def _keep_memory() -> None:
    """Keep what a step frees for the next one.

    Left to itself glibc gives large blocks back to the system (mallopt(3)), which then clears each
    of their pages anew: for a small model that is thousands a step, and a tenth of its time.
    """
    with suppress(OSError, AttributeError):  # another C library
        for threshold in (_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD):
            ctypes.CDLL(None).mallopt(threshold, 1 << 30)


def _pin_arithmetic() -> None:
    """Make a micro-batch's numbers the same in every process of every world.

    The number of threads changes the order in which a sum is taken, and launchers choose it by
    the number of processes.
    """
    torch.set_num_threads(1)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
