"""What a cause of failure is: how it shows itself, and what to do about it."""

from __future__ import annotations

from typing import Literal, NamedTuple

# Where a message is found: a process's own output, its node's agent, the script's output, or the
# scheduler's word on how the job ended.
Where = Literal["rank", "agent", "script", "scheduler"]
RANK: tuple[Where, ...] = ("rank",)
NODE: tuple[Where, ...] = ("rank", "agent")
ALL: tuple[Where, ...] = ("rank", "agent", "script")
SCHEDULER: tuple[Where, ...] = ("scheduler", "script")


class Cause(NamedTuple):
    """One kind of failure.

    `symptom`: something else went wrong first, and this is what it did. `vague`: another line of
    the same log may say it better.
    """

    id: str
    where: tuple[Where, ...]
    pattern: str
    title: str
    remedy: str
    symptom: bool = False
    vague: bool = False
