"""The processes of a run: who they are, which device each uses, what they tell each other.

Everything comes from torchrun's environment (RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE,
MASTER_ADDR, MASTER_PORT). Ranks may change at every restart and nodes may hold unequal numbers of
them, so a rank is used for nothing but dealing out work and choosing who writes.
"""

import os
import socket
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar, cast

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel

from .config import TrainerError

# A node that loses power closes no connection; its peers notice after this long.
_TIMEOUT = timedelta(minutes=10)

T = TypeVar("T")


@dataclass(frozen=True)
class World:
    """This process among all of the run."""

    rank: int
    local_rank: int
    size: int
    device: torch.device
    backend: str | None

    @property
    def main(self) -> bool:
        """Whether this is the one rank that writes."""
        return self.rank == 0

    def __str__(self) -> str:
        backend = self.backend or "alone"
        return (
            f"rank {self.rank} of {self.size} on {socket.gethostname()}, local rank "
            f"{self.local_rank}, pid {os.getpid()}, {self.device}, {backend}, "
            f"{torch.get_num_threads()} threads"
        )

    def wrap(self, model: nn.Module) -> nn.Module:
        """Return the model such that backward averages gradients over the ranks."""
        if self.backend is None:
            return model
        devices = [self.device] if self.device.type == "cuda" else None
        return DistributedDataParallel(model, device_ids=devices, gradient_as_bucket_view=True)

    def sum(self, values: Sequence[float]) -> list[float]:
        """Return the sums over the ranks; all ranks must call it, with as many values."""
        if self.backend is None:
            return list(values)
        tensor = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(tensor)
        return [float(value) for value in tensor.tolist()]

    def agree(self, find: Callable[[], T]) -> T:
        """Return what rank 0 finds, on every rank; all ranks must call it."""
        if self.backend is None:
            return find()
        box = [find() if self.main else None]
        dist.broadcast_object_list(box, src=0, device=self.device)
        return cast(T, box[0])


def accumulating(model: nn.Module, more: bool) -> AbstractContextManager[None]:
    """Return a context in which backward keeps gradients local while `more` parts are to come."""
    if more and isinstance(model, DistributedDataParallel):
        return cast(AbstractContextManager[None], model.no_sync())
    return nullcontext()


def join(device: str) -> World:
    """Become part of the run that the environment describes, or a run of one without it.

    `device` is auto, cuda or cpu. Raises TrainerError when this node's GPUs do not suffice for
    its processes, or differ in kind from rank 0's.
    """
    if "RANK" not in os.environ:
        return World(0, 0, 1, _device(device, local_rank=0, local_size=1), None)
    rank, local_rank, size = (_number(name) for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"))
    local_size = int(os.environ.get("LOCAL_WORLD_SIZE", local_rank + 1))
    chosen = _device(device, local_rank=local_rank, local_size=local_size)
    if chosen.type == "cuda":
        torch.cuda.set_device(chosen)
    backend = "nccl" if chosen.type == "cuda" else "gloo"

    store, _, _ = next(rendezvous("env://", rank, size, timeout=_TIMEOUT))
    # Ranks with different backends would wait for each other without a word.
    if rank == 0:
        store.set("jobgen/device", f"{chosen.type} on {socket.gethostname()}")
    first = store.get("jobgen/device").decode()
    if not first.startswith(chosen.type):
        raise TrainerError(
            f"rank {rank} would use {chosen.type} on {socket.gethostname()}, but rank 0 uses "
            f"{first}; check the GPUs that each node gives, or choose with --device"
        )
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=_TIMEOUT)
    return World(rank, local_rank, size, chosen, backend)


def leave() -> None:
    """End the process group if there is one."""
    if dist.is_initialized():
        dist.destroy_process_group()


def _number(name: str) -> int:
    try:
        return int(os.environ[name])
    except (KeyError, ValueError) as error:
        raise TrainerError(
            f"RANK is set but {name} is not a number; start the processes with torchrun"
        ) from error


def _device(wanted: str, *, local_rank: int, local_size: int) -> torch.device:
    seen = torch.cuda.device_count()
    if wanted == "cpu" or (wanted == "auto" and seen == 0):
        return torch.device("cpu")
    if seen == 0:
        raise TrainerError(f"--device cuda: no GPU is visible on {socket.gethostname()}")
    if max(local_rank + 1, local_size) > seen:
        raise TrainerError(
            f"{local_size} processes on {socket.gethostname()}, the one with local rank "
            f"{local_rank} among them, but only {seen} GPUs are visible; start one process per "
            f"GPU, or choose --device cpu"
        )
    return torch.device("cuda", local_rank)
