"""The processes of a run: their ranks, the device of each, and what they tell each other.

Everything comes from torchrun's environment (RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE,
MASTER_ADDR, MASTER_PORT), which other launchers can set as well. Ranks may change at every restart
and nodes may hold unequal numbers of them, so a rank decides only what it computes and who writes.
A process alone is a world of one: the rest of the trainer makes no difference.
"""

import os
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import Store
from torch.distributed.rendezvous import rendezvous

from ..config import Config, TrainerError
from .device import choose_device

# What else may have started this process as one of several: their number, by variable.
_OTHER_LAUNCHERS = ("SLURM_STEP_NUM_TASKS", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE")
# What only rank 0 does, such as preparing the data, may take as long as a job; others wait for it.
_PATIENCE = timedelta(days=7)

T = TypeVar("T")


@dataclass(frozen=True)
class World:
    """This process among all of the run. Every rank must call what sends or sums."""

    rank: int
    local_rank: int
    size: int
    device: torch.device
    # On CPUs, for objects: one group for the main thread, and one for the thread that writes
    # checkpoints. On one group the operations of two threads would wait for each other.
    foreground: dist.ProcessGroup
    background: dist.ProcessGroup

    @property
    def main(self) -> bool:
        """Whether this is the one rank that writes."""
        return self.rank == 0

    def __str__(self) -> str:
        backend = dist.get_backend() if self.size > 1 else "alone"
        return (
            f"rank {self.rank} of {self.size} on {socket.gethostname()}, local rank "
            f"{self.local_rank}, pid {os.getpid()}, {self.device}, {backend}, "
            f"{torch.get_num_threads()} threads"
        )

    def sum_later(
        self, numbers: Mapping[str, Tensor | float], *, alone: bool = False
    ) -> Callable[[], dict[str, float]]:
        """Begin to sum numbers over the ranks; the function returned waits for the sums, by name.

        Alone, they are this rank's own. On a GPU it does not wait for anything begun after this, so
        that the device always has work when the sums are read a step later.
        """
        there = {name: each for name, each in numbers.items() if isinstance(each, Tensor)}
        here = {name: float(each) for name, each in numbers.items() if name not in there}
        cuda = self.device.type == "cuda"
        floats = torch.tensor(list(here.values()), dtype=torch.float64)
        if cuda:
            floats = floats.pin_memory().to(self.device, non_blocking=True)
        vector = torch.cat([floats, *(each.detach().double().view(1) for each in there.values())])
        work = dist.all_reduce(vector, async_op=True) if self.size > 1 and not alone else None
        if cuda:
            if work:
                work.wait()  # orders the work on the device; the host goes on
            copy = torch.empty_like(vector, device="cpu", pin_memory=True)
            copy.copy_(vector, non_blocking=True)
            copied: Any = torch.cuda.Event()  # type: ignore[no-untyped-call]
            copied.record()

        def read() -> dict[str, float]:
            if cuda:
                copied.synchronize()
            elif work:
                work.wait()
            values = (copy if cuda else vector).tolist()
            return dict(zip([*here, *there], values, strict=True))

        return read

    def tell(self, value: T) -> T:
        """Return rank 0's value on every rank."""
        box = [value]
        if self.size > 1:
            dist.broadcast_object_list(box, src=0, group=self.foreground)
        return box[0]

    def gather(self, value: T, group: dist.ProcessGroup | None = None) -> list[T]:
        """Return the value of each rank, on every rank."""
        box = [value] * self.size
        if self.size > 1:
            dist.all_gather_object(box, value, group=group or self.foreground)
        return box

    def first(self, work: Callable[[], T]) -> T:
        """Return on every rank what `work` returns on rank 0, the only one to call it.

        If it raises there, the others raise a TrainerError that says so.
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
            # Not before rank 0, which has the cause to say: torchrun ends all with the first.
            with suppress(RuntimeError):
                self.tell(None)
            raise problem
        return cast(T, result)


def _refuse_other_launchers() -> None:
    """Refuse a run of one in each of several tasks that a launcher started without ranks."""
    for name in _OTHER_LAUNCHERS:
        if os.environ.get(name, "1") != "1":
            raise TrainerError(
                f"{name} is {os.environ[name]}, but RANK is not set: start the processes with "
                f"torchrun, or export RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR "
                f"and MASTER_PORT in each of them"
            )


def join(config: Config) -> World:
    """Become part of the run that the environment describes, or a run of one without it.

    Raises TrainerError if this node has fewer GPUs than processes, if ranks differ in their kind of
    device, or if the environment is incomplete.
    """
    timeout = timedelta(seconds=max(600, 2 * config.hang_after))
    alone = "RANK" not in os.environ
    if alone:
        _refuse_other_launchers()
    rank, local_rank, size, local_size = (0, 0, 1, 1) if alone else _read_environment()
    device = choose_device(config.device, local_rank=local_rank, local_size=local_size)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    backend = "nccl" if device.type == "cuda" else "gloo"
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
        # NCCL then connects now, and need not guess which device belongs to which rank.
        device_id=device if device.type == "cuda" else None,
    )
    groups = (dist.new_group(backend="gloo", timeout=_PATIENCE) for _ in range(2))
    return World(rank, local_rank, size, device, *groups)


def _read_environment() -> tuple[int, int, int, int]:
    """Return rank, local rank, and the numbers of processes in all and on this node."""
    try:
        names = ("RANK", "LOCAL_RANK", "WORLD_SIZE")
        rank, local_rank, size = (int(os.environ[name]) for name in names)
        local_size = int(os.environ.get("LOCAL_WORLD_SIZE", local_rank + 1))
    except (KeyError, ValueError) as error:
        raise TrainerError("RANK, LOCAL_RANK or WORLD_SIZE is wrong: use torchrun") from error
    return rank, local_rank, size, local_size


def leave() -> None:
    """Destroy the process group if there is one."""
    if dist.is_initialized():
        dist.destroy_process_group()


def _compare_devices(store: Store, device: torch.device, rank: int) -> None:
    """Raise TrainerError if ranks differ in kind: their backends would wait without a word."""
    if rank == 0:
        store.set("jobgen/device", f"{device.type} on {socket.gethostname()}")
    first = store.get("jobgen/device").decode()
    if not first.startswith(device.type):
        raise TrainerError(
            f"rank {rank} would use {device.type} on {socket.gethostname()}, but rank 0 uses "
            f"{first}; check the GPUs of each node, or choose one with --device"
        )
