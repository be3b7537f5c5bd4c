"""The first cause of a job's failure, not its last symptom, with what shows it and what to do.

What the scheduler says decides; else the first process that failed by itself, then the first node,
then the script. That others lost their connection to it is a consequence. Where processes have only
waited, it is the one that they waited for. A job that is alive is looked at for its progress.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from jobgen import runs
from jobgen.diagnose import machine, program, scheduler, script, stall
from jobgen.diagnose.cause import Cause, Where
from jobgen.diagnose.evidence import STOPPED_BY_OTHERS, Evidence, Failure
from jobgen.diagnose.reading import Line
from jobgen.runs import Job
from jobgen.schedulers.base import State

CAUSES = (*scheduler.CAUSES, *script.CAUSES, *machine.CAUSES, *program.CAUSES)
Found = tuple[Failure, tuple[Cause, Line | None]]
_MOST_LINES = 6
_HARMLESS = re.compile(r"The hostname of the client socket cannot be retrieved")
# A process that has failed ends all others within 30 s. Where they go on for longer, it was started
# again.
_RECOVERED = 60.0


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

    def as_text(self) -> str:
        """For a person to read."""
        who = "" if self.rank is None else f"rank {self.rank} on "
        where = f"{who}{self.node}: " if self.node else ""
        lines = [f"{self.job}: {self.state}", f"cause: {where}{self.title} [{self.cause}]"]
        if self.place:
            lines.append(f"  {'raised' if self.exception else 'it was'} at {self.place}")
        lines += [f"  {line}" for line in self.evidence]
        if self.followed:
            lines.append(f"then failed, as a consequence: {_ranks(self.followed)}")
        if self.remedy:
            lines.append(f"what to do: {self.remedy}")
        return "\n".join(lines) + "\n"


def diagnose(job: Job, state: State) -> Diagnosis:
    """What is wrong with `job`, which stands as `state` says; of an array, its first
    task that has failed by its own record.
    """
    for index in range(job.tasks):
        ended = runs.outcome(job.task(index))
        if ended and ended[0] == "failed":
            return diagnose(job.task(index), State("failed", f"exit code {ended[1]}"))
    evidence = Evidence(job)
    about = Diagnosis(f"{job.name} {job.id}", state.said, "unknown", "no known cause was found")
    if state.name == "done":
        return about._replace(cause="healthy", title="it ended well")
    word = Line(Path(job.scheduler), 0, state.said)
    # What a job that waits has left is of an earlier start.
    output = evidence.script() if state.name != "queued" else []
    decided = _verdict([word, *output])
    if state.name == "queued":
        return _told(about, decided, evidence) if decided else _alive(about, state, None, evidence)
    failures = [(failure, _of(failure)) for failure in evidence.failures()]
    first = next((found for found in failures if not found[1][0].symptom), None)
    if decided and (decided[0].id != "out-of-memory-host" or not first):
        quiet = stall.silence(evidence) if decided[0].id == "walltime" else None
        found = _told(about, decided, evidence)
        return _hanging(found, quiet, evidence) if quiet and quiet.long else found
    if decided and first:  # the scheduler knows that memory was short, the agent who was killed
        killed = next((who for who, _ in failures if who.exit_code == -9), first[0])
        return _shown(_told(about, decided, evidence), killed, failures)
    if state.name in ("running", "stopping"):
        quiet = stall.silence(evidence) if state.name == "running" else None
        if first is None or (quiet and quiet.newest > first[0].time + _RECOVERED):
            return _alive(about, state, quiet, evidence)
    if first is None:
        said = _first(output, "script")
        if said and not said[0].symptom:
            return _told(about, said, evidence)
        first = failures[0] if failures else None
    if first is None:
        tail = [line for line in output if line.text.strip()][-_MOST_LINES:]
        remedy = f"look into {os.path.relpath(job.run_dir)}"
        return about._replace(evidence=tuple(map(_cited, tail)), remedy=remedy)
    who, why = first
    found = _shown(_told(about, why, evidence), who, failures)
    if why[0].waits:
        waited = [other for other, (cause, _) in failures if cause.waits or cause.symptom]
        return _blamed(found, evidence, waited)
    same = {other.node for other, (cause, _) in failures if cause.id == why[0].id}
    found = found._replace(nodes=tuple(node for node in evidence.nodes if node in same))
    if why[0].per_node and found.nodes == (found.node,) and len(evidence.nodes) > 1:
        alone = f"{found.title}; seen on {found.node} alone, of {len(evidence.nodes)} nodes"
        return found._replace(title=alone)
    return found


def _alive(
    about: Diagnosis, state: State, quiet: stall.Silence | None, evidence: Evidence
) -> Diagnosis:
    """Of a job that has not ended, and of which no process has: whether it gets on."""
    if quiet and quiet.long:
        return _hanging(about, quiet, evidence)
    title = {"queued": "it waits to start", "stopping": "it is ending"}.get(state.name, "it runs")
    title = f"nothing is wrong so far: {title}"
    if quiet:
        title = f"it runs and is well; it has last written {quiet.seconds:.0f} s ago"
    last = (_cited(quiet.last),) if quiet and quiet.last else ()
    return about._replace(cause="healthy", title=title, evidence=last)


def _hanging(about: Diagnosis, quiet: stall.Silence, evidence: Evidence) -> Diagnosis:
    """A job that did not get on, be it that its walltime has ended meanwhile."""
    title = f"it is alive, but has written nothing for {quiet.seconds:.0f} s"
    if about.cause == "walltime":
        title = f"it had written nothing for {quiet.seconds:.0f} s when its walltime was over"
    found = _told(about, (program.HANG._replace(title=title), None), evidence)
    last = (_cited(quiet.last),) if quiet.last else ()
    return _blamed(found._replace(evidence=(*about.evidence, *last)), evidence, [])


def _blamed(about: Diagnosis, evidence: Evidence, waiting: list[Failure]) -> Diagnosis:
    """The same with who was waited for in the place of one who waited, where files tell it."""
    heard = {failure.rank for failure in waiting if failure.rank is not None}
    found = stall.suspects(evidence) or (stall.unheard(evidence, heard) if heard else None)
    if found is None:
        said = "" if about.rank is None else f"; rank {about.rank} was the first to say so"
        return about._replace(title=f"{about.title}{said}, and no file tells for whom they waited")
    behind = found.ranks[0]
    who = "it" if len(found.ranks) == 1 else _ranks(found.ranks)
    return about._replace(
        node=evidence.ranks.get(behind),
        rank=behind,
        title=f"{about.title}; the others waited for {who}",
        place=found.place,
        exception="",
        waited_for=found.ranks,
        evidence=tuple(dict.fromkeys([*map(_cited, found.lines), *about.evidence]))[:_MOST_LINES],
        followed=tuple(sorted({*heard, *about.followed} - {*found.ranks})),
    )


def _told(about: Diagnosis, why: tuple[Cause, Line | None], evidence: Evidence) -> Diagnosis:
    """The same with a cause, the line that tells of it, and the node that this names."""
    cause, line = why
    node, key = _named(cause, line) if line else (None, None)
    lines = [line] if line else []
    if node and key and (report := evidence.reported(node, key)):
        lines.append(report)
    return about._replace(
        cause=cause.id,
        title=cause.title,
        remedy=cause.remedy,
        node=node,
        evidence=tuple(map(_cited, lines)),
    )


def _shown(about: Diagnosis, who: Failure, failures: list[Found]) -> Diagnosis:
    """The same, with who it was, the end of what it said, and who failed after it."""
    said = who.raised or tuple(line for line in who.lines if not _HARMLESS.search(line.text))
    tail = [line for line in said if line.text.strip()][-_MOST_LINES:]
    another = about.node not in (None, who.node)
    return about._replace(
        node=about.node or who.node,
        rank=None if another else who.rank,
        exception=who.raised[0].text.strip() if who.raised else "",
        place=who.place,
        evidence=tuple(dict.fromkeys([*about.evidence, *map(_cited, tail)]))[:_MOST_LINES],
        followed=tuple(
            other.rank for other, _ in failures if other is not who and other.rank is not None
        ),
    )


def _of(failure: Failure) -> tuple[Cause, Line | None]:
    """Why a process or node failed, and the line that shows it; exceptions before the rest."""
    raised = failure.raised
    found = _first(raised, failure.where)
    if not raised or (found and found[0].vague):
        found = _first(failure.lines, failure.where) or found
    if found:
        return found
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


def _verdict(lines: list[Line]) -> tuple[Cause, Line] | None:
    """What the scheduler says was the end; a time limit before the signal that tells of it, and a
    line that names the node before one that does not.
    """
    for cause in CAUSES:
        if "scheduler" in cause.where:
            told = [line for line in lines if re.search(cause.pattern, line.text)]
            if told:
                return cause, next((line for line in told if _named(cause, line)[0]), told[0])
    return None


def _named(cause: Cause, line: Line) -> tuple[str | None, str | None]:
    """The node that a line names, and what is said to differ there."""
    found = re.search(cause.pattern, line.text) if cause.pattern else None
    groups = {name: text for name, text in found.groupdict().items() if text} if found else {}
    node = next((groups[name] for name in groups if name.startswith("node")), None)
    return node, groups.get("key")


def _first(lines: Iterable[Line], where: Where) -> tuple[Cause, Line] | None:
    """The first line that shows a cause; one that is vague or but a symptom, where no other is."""
    lesser = None
    anything = _anything(where)
    for line in lines:
        if not anything.search(line.text):
            continue
        for cause in CAUSES:
            if where in cause.where and re.search(cause.pattern, line.text):
                if not (cause.symptom or cause.vague):
                    return cause, line
                if lesser is None or (lesser[0].symptom and cause.vague):
                    lesser = cause, line
                break
    return lesser


@cache
def _anything(where: Where) -> re.Pattern[str]:
    """What any of the causes there may be known by, to pass over other lines at once."""
    patterns = [re.sub(r"\?P<\w+>", "?:", one.pattern) for one in CAUSES if where in one.where]
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns))


def _ranks(ranks: tuple[int, ...]) -> str:
    more = f" and {len(ranks) - 16} more" if len(ranks) > 16 else ""
    return f"rank {', '.join(map(str, ranks[:16]))}{more}"


def _cited(line: Line) -> str:
    text = line.text.strip()[:300]
    if not line.number:  # the scheduler's own word, which is in no file
        return f"{line.file}: {text}"
    return f"{os.path.relpath(line.file)}:{line.number}: {text}"
