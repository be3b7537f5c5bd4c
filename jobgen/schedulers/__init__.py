"""The schedulers by name, each in a module of its own that is imported when it is asked for."""

from __future__ import annotations

from importlib import import_module

from jobgen.schedulers.base import BatchScheduler, Queue, Scheduler

LOCAL = "local"
_MODULES = {name: f"jobgen.schedulers.{name}" for name in ("slurm", "pbs", LOCAL)}
NAMES = tuple(_MODULES)


def get(name: str) -> Scheduler:
    """The scheduler called `name`."""
    scheduler: Scheduler = import_module(_MODULES[name]).SCHEDULER
    return scheduler


def batch(name: str) -> BatchScheduler:
    """The scheduler called `name`, which is not the local one."""
    scheduler: BatchScheduler = import_module(_MODULES[name]).SCHEDULER
    return scheduler


def queue(name: str) -> Queue:
    """Where to ask how jobs of the scheduler called `name` stand, which is not the local one."""
    found: Queue = import_module(f"{_MODULES[name]}_queue").QUEUE
    return found
