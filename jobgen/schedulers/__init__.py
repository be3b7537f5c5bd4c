"""The schedulers by name. Each is imported when it is first asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from jobgen.schedulers.registry import PACKAGES

if TYPE_CHECKING:
    from jobgen.schedulers.base import Scheduler


class _Schedulers(Mapping[str, "Scheduler"]):
    """Every scheduler of the registry by its name; a KeyError for others."""

    def __getitem__(self, name: str) -> Scheduler:
        return _load(PACKAGES[name])

    def __iter__(self) -> Iterator[str]:
        return iter(PACKAGES)

    def __len__(self) -> int:
        return len(PACKAGES)


@cache
def _load(package: str) -> Scheduler:
    scheduler: Scheduler = import_module(f"{package}.scheduler").SCHEDULER
    return scheduler


SCHEDULERS: Mapping[str, Scheduler] = _Schedulers()
