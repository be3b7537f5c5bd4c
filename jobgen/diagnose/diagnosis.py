"""What is wrong with a job, as `jobgen diagnose` shows it."""

from __future__ import annotations

import os
from typing import NamedTuple

from jobgen.diagnose.reading import Line

MOST_LINES = 6


class Diagnosis(NamedTuple):
    """What is wrong with a job; `cause` is the id of one of CAUSES.

    It is `healthy` where nothing is, `exception` where the program raised something that is not
    listed there, `exit CODE` where a process has said nothing, and `unknown` where only the
    evidence is left to show.
    """

    job: str
    state: str
    cause: str
    title: str
    remedy: str = ""
    node: str | None = None
    rank: int | None = None
    exception: str = ""  # the first that was raised
    place: str = ""  # file:line of the program where it was raised
    evidence: tuple[str, ...] = ()  # file:line: text, or the scheduler's name and word
    nodes: tuple[str, ...] = ()  # all that show this cause
    waited_for: tuple[int, ...] = ()  # ranks
    followed: tuple[int, ...] = ()  # ranks that failed as a consequence
    warnings: tuple[str, ...] = ()  # what else preflight has warned of

    def as_text(self) -> str:
        """For a person to read."""
        who = "" if self.rank is None else f"rank {self.rank} on "
        where = f"{who}{self.node}: " if self.node else ""
        lines = [f"{self.job}: {self.state}", f"cause: {where}{self.title} [{self.cause}]"]
        if self.place:
            lines.append(f"  {'raised' if self.exception else 'it was'} at {self.place}")
        lines += [f"  {line}" for line in self.evidence]
        if self.followed:
            lines.append(f"then failed, as a consequence: {list_ranks(self.followed)}")
        if self.remedy:
            lines.append(f"what to do: {self.remedy}")
        lines += [f"warning: {warning}" for warning in self.warnings]
        return "\n".join(lines) + "\n"


def list_ranks(ranks: tuple[int, ...]) -> str:
    """Return `rank 1, 2, 5`; of many the first."""
    more = f" and {len(ranks) - 16} more" if len(ranks) > 16 else ""
    return f"rank {', '.join(map(str, ranks[:16]))}{more}"


def format_line(line: Line) -> str:
    """Return a line of evidence as `file:line: text`."""
    text = line.text.strip()[:300]
    if not line.number:  # the scheduler's own word, which is in no file
        return f"{line.file}: {text}"
    return f"{os.path.relpath(line.file)}:{line.number}: {text}"
