"""The schedulers by name. Each is imported on first use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from jobgen.schedulers.registry import PACKAGES

if TYPE_CHECKING:
    from jobgen.schedulers.base import Scheduler


class _Schedulers(Mapping[str, "Scheduler"]):
    """Every scheduler in the registry by name; KeyError for others."""

    def __getitem__(self, name: str) -> Scheduler:
        scheduler: Scheduler = import_module(f"{PACKAGES[name]}.scheduler").SCHEDULER
        return scheduler

    def __iter__(self) -> Iterator[str]:
        return iter(PACKAGES)

    def __len__(self) -> int:
        return len(PACKAGES)


SCHEDULERS: Mapping[str, Scheduler] = _Schedulers()
