"""The schedulers by name, each in a folder or module that is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING

from jobgen.capabilities import SCHEDULERS, get_capabilities
from jobgen.schedulers.base import (
    Access,
    Ask,
    BatchScheduler,
    ChainScheduler,
    OwnJobs,
    Queue,
    Scheduler,
)

if TYPE_CHECKING:
    from jobgen.schedulers.usage import UsageReader

NAMES = tuple(SCHEDULERS)


def is_local(name: str) -> bool:
    """Return whether jobs of the scheduler called `name` are processes of this machine."""
    return not get_capabilities(name).batch


def get_scheduler(name: str) -> Scheduler:
    """Return the scheduler called `name`."""
    module = "local" if is_local(name) else f"{name}.directives"
    scheduler: Scheduler = import_module(f"jobgen.schedulers.{module}").SCHEDULER
    return scheduler


def get_batch_scheduler(name: str) -> BatchScheduler:
    """Return the scheduler called `name`, which has a queue."""
    scheduler: BatchScheduler = import_module(f"jobgen.schedulers.{name}.directives").SCHEDULER
    return scheduler


def get_chain_scheduler(name: str) -> ChainScheduler:
    """Return the scheduler called `name`, whose jobs cannot submit others."""
    scheduler: ChainScheduler = import_module(f"jobgen.schedulers.{name}.directives").SCHEDULER
    return scheduler


def get_queue(name: str) -> Queue:
    """Return where to ask how jobs of the scheduler called `name` stand."""
    queue: Queue = import_module(f"jobgen.schedulers.{name}.queue").QUEUE
    return queue


def get_access(name: str) -> Access:
    """Return the way to the nodes of jobs of the scheduler called `name`."""
    access: Access = import_module(f"jobgen.schedulers.{name}.access").ACCESS
    return access


def get_usage(name: str) -> UsageReader:
    """Return where to ask what jobs of the scheduler called `name` have used."""
    usage: UsageReader = import_module(f"jobgen.schedulers.{name}.usage").USAGE
    return usage


def list_own_jobs(name: str, ask: Ask, since: float) -> Iterator[OwnJobs]:
    """Yield a list of the user's jobs from each place that the scheduler has, the best first.

    Raises what `ask` raises, and RefusedError for what is not an answer.
    """
    jobs: Iterator[OwnJobs] = import_module(f"jobgen.schedulers.{name}.own_jobs").list_own_jobs(
        ask, since
    )
    return jobs
