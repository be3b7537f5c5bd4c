"""The first cause of a job's failure, not its last symptom, with what shows it and what to do.

What the scheduler says decides; else the first process that failed by itself, then the first node,
then the script. That others lost their connection to it is a consequence.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from jobgen.diagnose import machine, program
from jobgen.diagnose.cause import Cause, Where
from jobgen.diagnose.evidence import Evidence, Failure, Line
from jobgen.runs import Job
from jobgen.schedulers.base import State

_CAUSES = (*machine.CAUSES, *program.CAUSES)
_MOST_LINES = 6


class Diagnosis(NamedTuple):
    """What is wrong with a job; `cause` is an id of `machine` or `program`.

    It is `healthy` where nothing is, `exception` where the program raised something that is not
    listed there, and `unknown` where only the evidence is left to show.
    """

    job: str
    state: str
    cause: str
    title: str
    remedy: str = ""
    node: str | None = None
    rank: int | None = None
    place: str = ""  # file:line of the program where it was raised
    evidence: tuple[str, ...] = ()  # file:line: text
    followed: tuple[int, ...] = ()  # ranks that failed as a consequence

    def as_text(self) -> str:
        """For a person to read."""
        who = "" if self.rank is None else f"rank {self.rank} on "
        where = f"{who}{self.node}: " if self.node else ""
        lines = [f"{self.job}: {self.state}", f"cause: {where}{self.title} [{self.cause}]"]
        if self.place:
            lines.append(f"  raised at {self.place}")
        lines += [f"  {line}" for line in self.evidence]
        if self.followed:
            others = ", ".join(map(str, self.followed[:16]))
            more = f" and {len(self.followed) - 16} more" if len(self.followed) > 16 else ""
            lines.append(f"then failed, as a consequence: rank {others}{more}")
        if self.remedy:
            lines.append(f"what to do: {self.remedy}")
        return "\n".join(lines) + "\n"


def diagnose(job: Job, state: State) -> Diagnosis:
    """What is wrong with `job`, which stands as `state` says."""
    evidence = Evidence(job)
    known = f"{state.name} ({state.reason})" if state.reason else state.name
    about = Diagnosis(f"{job.name} {job.id}", known, "unknown", "no known cause was found")
    if state.name == "done":
        return about._replace(cause="healthy", title="it ended well")
    script = evidence.script()
    decided = _verdict([Line(job.run_dir / "job.json", 1, known), *script])
    failures = evidence.failures()
    own = [(failure, _of(failure)) for failure in failures]
    first = next(((who, why) for who, why in own if not why[0].symptom), None)
    if decided and (decided[0].id != "out-of-memory-host" or not first):
        return _told(about, *decided)
    if decided and first:  # the scheduler knows that memory was short, the agent who was killed
        who = next((who for who, _ in own if who.exit_code == -9), first[0])
        return _shown(_told(about, *decided), who, failures)
    if first is None and state.name in ("queued", "running", "stopping"):
        return about._replace(cause="healthy", title="nothing is wrong so far")
    if first is None:
        said = _first(script, "script")
        if said and not said[0].symptom:
            return _told(about, *said)
        first = own[0] if own else None
    if first is None:
        tail = [line for line in script if line.text.strip()][-_MOST_LINES:]
        remedy = f"look into {os.path.relpath(job.run_dir)}"
        return about._replace(evidence=tuple(map(_cited, tail)), remedy=remedy)
    who, (cause, line) = first
    return _shown(_told(about, cause, line), who, failures)


def _told(about: Diagnosis, cause: Cause, line: Line | None) -> Diagnosis:
    evidence = () if line is None else (_cited(line),)
    return about._replace(cause=cause.id, title=cause.title, remedy=cause.remedy, evidence=evidence)


def _shown(about: Diagnosis, who: Failure, failures: list[Failure]) -> Diagnosis:
    """The same, with who it was, the end of what it said, and who failed after it."""
    tail = [line for line in (who.raised or who.lines) if line.text.strip()][-_MOST_LINES:]
    return about._replace(
        node=who.node,
        rank=who.rank,
        place=who.place,
        evidence=tuple(dict.fromkeys([*about.evidence, *map(_cited, tail)]))[:_MOST_LINES],
        followed=tuple(
            other.rank for other in failures if other is not who and other.rank is not None
        ),
    )


def _of(failure: Failure) -> tuple[Cause, Line | None]:
    """Why a process or node failed, and the line that shows it; exceptions before the rest."""
    where: Where = "agent" if failure.rank is None else "rank"
    raised = failure.raised
    found = _first(raised, where)
    if found and found[0].vague:
        found = _first((line for line in failure.lines if line not in raised), where) or found
    if not raised:
        found = _first(failure.lines, where)
    if found:
        return found
    last = failure.lines[-1] if failure.lines else None
    if raised:
        title = f"it raised {raised[0].text.strip()[:200]}"
        return Cause("exception", (), "", title, "look at the place above"), raised[0]
    if failure.exit_code is None:
        return Cause("unknown", (), "", "it failed without a word", "look at its log"), last
    usual = (f"it ended with exit code {failure.exit_code}", "the last lines of its log may tell")
    title, remedy = program.EXITS.get(failure.exit_code, usual)
    symptom = failure.exit_code in (-15, 143)
    return Cause(f"exit {failure.exit_code}", (), "", title, remedy, symptom), last


def _verdict(lines: list[Line]) -> tuple[Cause, Line] | None:
    """What the scheduler says was the end; a time limit before the signal that tells of it."""
    for cause in _CAUSES:
        for line in lines if "scheduler" in cause.where else ():
            if re.search(cause.pattern, line.text):
                return cause, line
    return None


def _first(lines: Iterable[Line], where: Where) -> tuple[Cause, Line] | None:
    """The first line that shows a cause; one that is only a symptom, where no other is."""
    symptom = None
    anything = _anything(where)
    for line in lines:
        if not anything.search(line.text):
            continue
        for cause in _CAUSES:
            if where in cause.where and re.search(cause.pattern, line.text):
                if not cause.symptom:
                    return cause, line
                symptom = symptom or (cause, line)
                break
    return symptom


@cache
def _anything(where: Where) -> re.Pattern[str]:
    """What any of the causes there may be known by, to pass over other lines at once."""
    return re.compile("|".join(f"(?:{cause.pattern})" for cause in _CAUSES if where in cause.where))


def _cited(line: Line) -> str:
    file = os.path.relpath(line.file)
    return f"{file}:{line.number}: {line.text.strip()[:300]}"
