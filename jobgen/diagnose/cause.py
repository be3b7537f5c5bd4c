"""What a cause of failure is: how it shows itself, and what to do about it."""

from __future__ import annotations

from typing import Literal

from jobgen.records import NamedTuple

# Where a message is found: a process's own output, its node's agent, the script's output, or the
# scheduler's word on how the job ended.
Where = Literal["rank", "agent", "script", "scheduler"]
RANK: tuple[Where, ...] = ("rank",)
NODE: tuple[Where, ...] = ("rank", "agent")
ALL: tuple[Where, ...] = ("rank", "agent", "script")
SCHEDULER: tuple[Where, ...] = ("scheduler", "script")


class Cause(NamedTuple):
    """One kind of failure.

    `pattern` is looked for at the places in `where`, and `own` in what jobgen's script has printed
    anywhere (`jobgen: ...`); what else the script notes is not evidence. In both, groups whose
    names begin with `node` find the node that it is about, where that may be another than the one
    that says so. In a remedy names in braces stand for words of the job's scheduler
    (`Advice` in `schedulers/base.py`).

    `symptom`: something else went wrong first, and this is what it did. `vague`: another line of
    the same log may say it better. `waits`: who says so has only waited for others. `of_group`: an
    exception says so only of the group that the processes are. `of_machine`: not the program's
    fault, so that a start on other nodes may do well.
    """

    id: str
    title: str
    remedy: str
    where: tuple[Where, ...] = ()
    pattern: str = ""
    own: str = ""
    symptom: bool = False
    vague: bool = False
    waits: bool = False
    of_group: bool = False
    of_machine: bool = False

    @property
    def follows(self) -> bool:
        """Whether it tells only of what another process did, or did not do."""
        return self.symptom or self.waits
