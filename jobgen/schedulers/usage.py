"""What a job was given and has used, as its scheduler counts it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from jobgen.process import CommandResult
from jobgen.records import NamedTuple

# Runs a command and returns its answer, whatever its exit status is, as `process.ask`.
AskAnswer = Callable[[Sequence[str]], CommandResult]


class Used(NamedTuple):
    """What all starts of a job have used; memory in bytes, times in seconds. None is not known.

    Both memories are of all nodes together, or with `of_one_node` of the one that held most.
    """

    source: str
    submitted: float | None = None
    started: float | None = None  # the first time
    elapsed: float | None = None  # of all starts together
    longest: float | None = None  # of one start
    limit: float | None = None  # for one start
    nodes: int | None = None
    cpus: int | None = None
    cpu_seconds: float | None = None
    gpus: int | None = None
    gpu_use: float | None = None  # percent
    memory_asked: float | None = None
    memory: float | None = None
    of_one_node: bool = False
    energy: float | None = None  # joules, of the nodes

    def and_then(self, following: Used) -> Used:
        """Return the sum with a job that continued this one."""

        def both(first: float | None, second: float | None) -> float | None:
            if first is None or second is None:
                return second if first is None else first
            return first + second

        return following._replace(
            submitted=self.submitted,
            started=self.started,
            elapsed=both(self.elapsed, following.elapsed),
            longest=max(filter(None, (self.longest, following.longest)), default=None),
            cpu_seconds=both(self.cpu_seconds, following.cpu_seconds),
            memory=max(filter(None, (self.memory, following.memory)), default=None),
            energy=both(self.energy, following.energy),
        )


class UsageReader(Protocol):
    """How to ask a scheduler what jobs have used."""

    def read_usage(self, ids: Sequence[str], ask: AskAnswer) -> dict[str, Used]:
        """Ask once for all these jobs; unknown ones are left out.

        Raises RefusedError if there is no answer, and what `ask` raises.
        """


def parse_whole(text: Any) -> int | None:
    """Return a number without a sign or a fraction."""
    return int(text) if re.fullmatch(r"[0-9]{1,12}", str(text)) else None
