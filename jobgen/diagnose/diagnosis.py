"""What is wrong with a job, as `jobgen diagnose` shows it."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from jobgen.diagnose.reading import Line, keep
from jobgen.output import format_names
from jobgen.records import NamedTuple

MOST_LINES = 6
MOST_NAMES = 16  # of nodes or ranks in a sentence


class Diagnosis(NamedTuple):
    """What is wrong with a job; `cause` is the id of one of CAUSES.

    It is `healthy` where nothing is, `exception` where the program raised something that is not
    listed there, `exit CODE` where a process has said nothing, and `unknown` where only the
    evidence is left to show.
    """

    job: str
    state: str
    cause: str
    title: str  # what happened; an exception's own words where one did it
    remedy: str = ""
    node: str | None = None
    rank: int | None = None  # the first of `ranks` to fail
    exception: str = ""  # the words of the one that ended it
    place: str = ""  # file:line of the program where it was raised
    evidence: tuple[str, ...] = ()  # file:line: text, or the scheduler's name and word
    nodes: tuple[str, ...] = ()  # all that show this cause
    all_nodes: bool = False  # they are all there were, and failed before their ranks began
    ranks: tuple[int, ...] = ()  # all that failed of this cause
    world: int = 0  # how many ranks there were
    waited_for: tuple[int, ...] = ()  # ranks
    followed: tuple[int, ...] = ()  # ranks that lost another, or were told to stop
    besides: tuple[str, ...] = ()  # who else failed, of another cause
    verdicts: tuple[str, ...] = ()  # of the script on each of its failures, and the bad nodes
    warnings: tuple[str, ...] = ()  # what else preflight has warned of
    role: str = ""  # which of several programs it was

    @property
    def who(self) -> str:
        """Whose failure it is: `rank 2 on n2`, `all 4 ranks`, `n2`; empty if no process failed."""
        if self.all_nodes and len(self.nodes) > 1:
            return f"all {len(self.nodes)} nodes"
        if len(self.ranks) > 1:
            return self._name_ranks()
        if self.node is None:
            return ""
        if self.rank is not None:
            return f"rank {self.rank} on {self.node}"
        return format_names(self.nodes, most=MOST_NAMES) if len(self.nodes) > 1 else self.node

    def _name_ranks(self) -> str:
        if len(self.ranks) == self.world:
            return f"all {self.world} ranks"
        if len(self.nodes) == 1:
            return f"{list_ranks(self.ranks)} on {self.nodes[0]}"
        world = f" of {self.world}" if self.world else ""  # unknown where none has begun
        return f"{list_ranks(self.ranks)}{world}"

    @property
    def headline(self) -> str:
        """Who it was, and what happened, in one line."""
        if self.who.startswith("all "):
            who = f"{self.who} of {self.role}" if self.role else self.who
        else:
            who = " ".join(filter(None, [self.role, self.who]))
        title = self.title.replace(f" on {who}", "", 1) if who == self.node else self.title
        return f"{who}: {title}" if who else title

    @property
    def brief(self) -> str:
        """The headline, and the file of the first line of the evidence, if any line shows it."""
        shown = re.match(r"(.+?):\d+: ", "".join(self.evidence[:1]))
        return f"{self.headline}; see {shown[1]}" if shown else self.headline

    def as_text(self) -> str:
        """For a person to read."""
        what = f"cause: {self.headline} [{self.cause}]"
        lines = [f"{self.job}: {self.state}", self.headline if self.cause == "healthy" else what]
        if self.place:
            lines.append(f"  {'raised' if self.exception else 'it was'} at {self.place}")
        lines += [f"  {line}" for line in self.evidence]
        if self.followed:
            lines.append(f"then failed, as a consequence: {list_ranks(self.followed)}")
        lines += [f"failed too: {who}" for who in self.besides]
        lines += self.verdicts
        if self.remedy:
            lines.append(f"what to do: {self.remedy}")
        lines += [f"warning: {warning}" for warning in self.warnings]
        return "\n".join(lines) + "\n"


def list_ranks(ranks: Sequence[int]) -> str:
    """Return `rank 1`, `ranks 1, 2, 5`; of many the first."""
    names = format_names(list(map(str, ranks)), most=MOST_NAMES)
    return f"{choose_words(len(ranks), 'rank', 'ranks')} {names}"


def choose_words(count: int, one: str, many: str) -> str:
    """Return the words for one, or those for several."""
    return one if count == 1 else many


def show_lines(*lines: Line) -> tuple[str, ...]:
    """Return the lines that are not blank as `file:line: text`."""
    return tuple(map(_format_line, keep(lines, str.strip)))


def _format_line(line: Line) -> str:
    text = line.text.strip()[:300]
    if not line.number:  # the scheduler's own word, which is in no file
        return f"{line.file}: {text}"
    return f"{os.path.relpath(line.file)}:{line.number}: {text}"
