"""Which cause a line shows, of processes, agents, scripts and schedulers.

Lines of jobgen's own script count for the causes that it names itself, and for no others: what it
merely notes is not evidence.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from jobgen.diagnose.cause import CAUSES, Cause, Where
from jobgen.diagnose.reading import MOST_WORDS, Line, read_words
from jobgen.records import NamedTuple

_OWN = "jobgen: "
_ERROR = re.compile(
    r"jobgen: (error: |FAILED: (role \S+: )?[^:]+: (?=not started: )|"
    r"(?=preflight: |the setup ended at: ))|(?=srun: error: Unable to create step)"
)
_DAEMONS = read_words("daemons")


class Match(NamedTuple):
    """A cause, and the line that shows it."""

    cause: Cause
    line: Line

    @property
    def sure(self) -> bool:
        """Whether no other line may say it better."""
        return not (self.cause.vague or self.cause.symptom)

    @property
    def shown(self) -> re.Match[str] | None:
        """The words of the line that show it."""
        return _search(self.cause, self.line)

    @property
    def node(self) -> str | None:
        """The node that the line names."""
        return next(filter(None, self.shown.groupdict().values()), None) if self.shown else None


def find_cause(lines: Sequence[Line], where: Where) -> Match | None:
    """Return the first line that shows a cause; what jobgen's script says of itself comes first.

    One that is vague, or but a symptom, counts where no other is.
    """
    matches = []
    for line in lines:
        own = is_own(line)
        if _combine_patterns(where, own).search(line.text):
            causes = (one for one in CAUSES if own or where in one.where)
            matches.append(Match(next(one for one in causes if _search(one, line)), line))
    return min(matches, key=_rate, default=None)


def _rate(match: Match) -> tuple[bool, bool, bool]:
    return match.cause.symptom, match.cause.vague, not is_own(match.line)


def find_verdict(lines: Sequence[Line]) -> Match | None:
    """Return what the scheduler says was the end.

    A time limit comes before the signal that follows from it, a line that names the node before one
    that does not, and the script's own words before others.
    """
    spoken = sorted(filter(_may_decide, lines), key=is_own, reverse=True)
    for cause in CAUSES:
        matching = [Match(cause, line) for line in spoken if _search(cause, line)]
        if matching and "scheduler" in cause.where:
            return next((one for one in matching if one.node), matching[0])
    return None


def _may_decide(line: Line) -> bool:
    """Whether the script says it, or the scheduler by its word on the job (0) or a daemon."""
    return is_own(line) or not line.number or _DAEMONS.match(line.text) is not None


def read_own_words(line: Line) -> str:
    """Return what an error of the script or its preflight says, or srun of a step; else nothing."""
    error = _ERROR.match(line.text)
    return line.text[error.end() :].strip()[:MOST_WORDS] if error else ""


def _search(cause: Cause, line: Line) -> re.Match[str] | None:
    """Look for a cause in a line: by its own pattern in one that jobgen's script has printed."""
    pattern = cause.own if is_own(line) else cause.says
    return re.search(pattern, line.text) if pattern else None


def is_own(line: Line) -> bool:
    """Whether jobgen's script has printed a line."""
    return line.text.startswith(_OWN)


@cache
def _combine_patterns(where: Where, own: bool) -> re.Pattern[str]:
    """What any of the causes there may be known by, to pass over other lines at once."""
    patterns = [one.own if own else one.says for one in CAUSES if own or where in one.where]
    plain = (re.sub(r"\?P<\w+>", "?:", pattern) for pattern in patterns if pattern)
    return re.compile("|".join(f"(?:{pattern})" for pattern in plain))
