"""The processes of a run: who they are, which device each uses, what they tell each other.

Everything comes from torchrun's environment (RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE,
MASTER_ADDR, MASTER_PORT), which other launchers can set as well. Ranks may change at every restart
and nodes may hold unequal numbers of them, so a rank is used for nothing but dealing out work and
choosing who writes. A process alone is a world of one: the rest of the trainer knows no difference.
"""

import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar, cast

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import Store
from torch.distributed.rendezvous import rendezvous

from ..config import Config, TrainerError
from .device import choose_device, get_module, name_device

# What else may have started this process as one of several: their number, by variable.
_OTHER_LAUNCHERS = ("SLURM_STEP_NUM_TASKS", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE")
_BACKENDS = {"cuda": "nccl", "xpu": "xccl", "cpu": "gloo"}
# What only rank 0 does, as to make the data ready, may take as long as a job; others wait for it.
_PATIENCE = timedelta(days=7)

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
        return name_device(self.device)

    def __str__(self) -> str:
        backend = self.backend if self.size > 1 else "alone"
        return (
            f"rank {self.rank} of {self.size} on {socket.gethostname()}, local rank "
            f"{self.local_rank}, pid {os.getpid()}, {self.device}, {backend}, "
            f"{torch.get_num_threads()} threads"
        )

    def sum(self, values: Sequence[float]) -> list[float]:
        """Return the sums over the ranks."""
        return self.sum_later(torch.tensor(values, dtype=torch.float64, device=self.device))()

    def sum_later(self, vector: torch.Tensor) -> Callable[[], list[float]]:
        """Begin to add a vector up over the ranks; the function returned waits for the sums.

        On a GPU it does not wait for anything begun after this, so that the device always has work
        when the sums are read a step later.
        """
        work = dist.all_reduce(vector, async_op=True) if self.size > 1 else None
        module = get_module(self.device)
        if module is None:

            def read() -> list[float]:
                if work:
                    work.wait()
                return cast(list[float], vector.tolist())

            return read

        if work:
            work.wait()  # orders the work on the device; the host goes on
        copy = torch.empty_like(vector, device="cpu", pin_memory=True)
        copy.copy_(vector, non_blocking=True)
        copied = module.Event()
        copied.record()

        def read_copy() -> list[float]:
            copied.synchronize()
            return cast(list[float], copy.tolist())

        return read_copy

    def tell(self, value: T) -> T:
        """Return rank 0's value on every rank."""
        box = [value]
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
        result: T | None = None
        problem: TrainerError | None = None
        try:
            if self.main:
                result = work()
        except BaseException as error:
            kind = type(error) if isinstance(error, TrainerError) else TrainerError
            problem = kind(f"rank 0: {type(error).__name__}: {error}")
            raise
        finally:
            result, problem = self.tell((result, problem))
        if problem is not None:
            raise problem
        return cast(T, result)


def join(config: Config) -> World:
    """Become part of the run that the environment describes, or a run of one without it.

    Raises TrainerError when this node's GPUs do not suffice for its processes, or differ in kind
    from rank 0's, or when the environment is half there.
    """
    timeout = timedelta(seconds=max(600, 2 * config.hang_after))
    alone = "RANK" not in os.environ
    for name in _OTHER_LAUNCHERS:
        if alone and os.environ.get(name, "1") != "1":
            raise TrainerError(
                f"{name} is {os.environ[name]}, but RANK is not set: start the processes with "
                f"torchrun, or export RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR "
                f"and MASTER_PORT in each of them"
            )
    rank, local_rank, size, local_size = (0, 0, 1, 1) if alone else _read_environment()
    device = choose_device(config.device, local_rank=local_rank, local_size=local_size)
    if module := get_module(device):
        module.set_device(device)
    backend = _BACKENDS[device.type] if config.backend == "auto" else config.backend
    if not dist.is_backend_available(backend):
        raise TrainerError(f"--backend {backend}: this build of torch does not have it")

    if backend == "mpi":  # It knows rank and size by itself.
        dist.init_process_group(backend)
        rank, size = dist.get_rank(), dist.get_world_size()
    else:
        store: Store = torch._C._distributed_c10d.HashStore()
        if not alone:
            store, _, _ = next(rendezvous("env://", rank, size, timeout=timeout))
        _compare_devices(store, device, rank)
        dist.init_process_group(
            backend,
            store=store,
            rank=rank,
            world_size=size,
            timeout=timeout,
            # NCCL then connects now, and need not guess which device is whose.
            device_id=device if device.type == "cuda" else None,
        )
    background = dist.new_group(backend="mpi" if backend == "mpi" else "gloo", timeout=_PATIENCE)
    return World(rank, local_rank, size, local_size, device, backend, background)


def _read_environment() -> tuple[int, int, int, int]:
    """Return rank, local rank, and the numbers of processes in all and on this node."""
    try:
        rank, local_rank, size = (
            int(os.environ[name]) for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE")
        )
        local_size = int(os.environ.get("LOCAL_WORLD_SIZE", local_rank + 1))
    except (KeyError, ValueError) as error:
        raise TrainerError("RANK, LOCAL_RANK or WORLD_SIZE is amiss: use torchrun") from error
    return rank, local_rank, size, local_size


def leave() -> None:
    """End the process group if there is one."""
    if dist.is_initialized():
        dist.destroy_process_group()


def _compare_devices(store: Store, device: torch.device, rank: int) -> None:
    """Raise TrainerError where ranks differ in kind: their backends would wait without a word."""
    if rank == 0:
        store.set("jobgen/device", f"{device.type} on {socket.gethostname()}")
    first = store.get("jobgen/device").decode()
    if not first.startswith(device.type):
        raise TrainerError(
            f"rank {rank} would use {device.type} on {socket.gethostname()}, but rank 0 uses "
            f"{first}; check the GPUs that each node gives, or choose with --device"
        )
