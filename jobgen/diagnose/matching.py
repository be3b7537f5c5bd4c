"""Which cause a line shows, of processes, agents, scripts and schedulers.

Lines of jobgen's own script count for the causes that it names itself, and for no others: what it
merely notes is no evidence.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from jobgen.diagnose import machine, program, scheduler, script
from jobgen.diagnose.cause import Cause, Where
from jobgen.diagnose.evidence import STOPPED_BY_OTHERS, Failure
from jobgen.diagnose.reading import Line

CAUSES = (*scheduler.CAUSES, *script.CAUSES, *machine.CAUSES, *program.CAUSES)
Match = tuple[Cause, Line]
_OWN = "jobgen: "
# How the lines begin that a scheduler prints into a job's output, among those of the program.
_DAEMONS = re.compile(
    r"(slurm\w+(-\S+)?|srun|sbatch): |=>> PBS: |Unable to copy file |Job deleted |PBS: |pbs_mom"
)


def find_cause(lines: Sequence[Line], where: Where) -> Match | None:
    """Return the first line that shows a cause; what jobgen's script says of itself comes first.

    One that is vague, or but a symptom, counts where no other is.
    """
    lesser = []
    for own in (True, False):
        match = _find_first([line for line in lines if _is_own(line) == own], where, own=own)
        if match and not (match[0].symptom or match[0].vague):
            return match
        lesser += [match] if match else []
    return next((match for match in lesser if not match[0].symptom), lesser[0] if lesser else None)


def find_verdict(lines: Sequence[Line]) -> Match | None:
    """Return what the scheduler says was the end.

    A time limit comes before the signal that tells of it, and a line that names the node before one
    that does not.
    """
    for cause in CAUSES:
        if "scheduler" in cause.where:
            matching = [
                line
                for line in lines
                if (_is_own(line) if cause.own else not line.number or _DAEMONS.match(line.text))
                and re.search(cause.pattern, line.text)
            ]
            if matching:
                named = (line for line in matching if read_names(cause, line)[0])
                return cause, next(named, matching[0])
    return None


def explain_failure(failure: Failure) -> tuple[Cause, Line | None]:
    """Return why a process or node failed, and the line that shows it; exceptions come first."""
    raised = failure.raised
    match = find_cause(raised, failure.where)
    if not raised or (match and match[0].vague):
        match = find_cause(failure.lines, failure.where) or match
    if match:
        return match
    last = next((line for line in reversed(failure.lines) if line.text.strip()), None)
    if raised:
        title = f"it raised {raised[0].text.strip()[:200]}"
        return Cause("exception", (), "", title, "look at the place above"), raised[0]
    if failure.exit_code is None:
        return Cause("unknown", (), "", "it failed without a word", "look at its log"), last
    usual = (f"it ended with exit code {failure.exit_code}", "the last lines of its log may tell")
    title, remedy = program.EXITS.get(failure.exit_code, usual)
    symptom = failure.exit_code == STOPPED_BY_OTHERS
    return Cause(f"exit {failure.exit_code}", (), "", title, remedy, symptom), last


def read_names(cause: Cause, line: Line) -> tuple[str | None, str | None]:
    """Return the node that a line names, and what differs there."""
    match = re.search(cause.pattern, line.text) if cause.pattern else None
    groups = {name: text for name, text in match.groupdict().items() if text} if match else {}
    node = next((groups[name] for name in groups if name.startswith("node")), None)
    return node, groups.get("key")


def _is_own(line: Line) -> bool:
    return line.text.startswith(_OWN)


def _find_first(lines: Sequence[Line], where: Where, *, own: bool) -> Match | None:
    lesser = None
    anything = _combine_patterns(where, own)
    for line in lines:
        if not anything.search(line.text):
            continue
        for cause in CAUSES:
            if where in cause.where and cause.own == own and re.search(cause.pattern, line.text):
                if not (cause.symptom or cause.vague):
                    return cause, line
                if lesser is None or (lesser[0].symptom and cause.vague):
                    lesser = cause, line
                break
    return lesser


@cache
def _combine_patterns(where: Where, own: bool) -> re.Pattern[str]:
    """What any of the causes there may be known by, to pass over other lines at once."""
    patterns = [
        re.sub(r"\?P<\w+>", "?:", one.pattern)
        for one in CAUSES
        if where in one.where and one.own == own
    ]
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns))
