"""The first cause of a job's failure, not its last symptom, with what shows it and what to do.

What the scheduler says decides; else the first process that failed by itself, then the first node,
then the script. That others lost their connection to it is a consequence. Where processes have only
waited, it is the one that they waited for. A job that is alive is looked at for its progress.
"""

from __future__ import annotations

import os
from pathlib import Path

from jobgen.diagnose import missing, program, stall
from jobgen.diagnose.cause import Cause
from jobgen.diagnose.diagnosis import MOST_LINES, Diagnosis, format_line, list_ranks
from jobgen.diagnose.evidence import Evidence, Failure
from jobgen.diagnose.matching import CAUSES, explain_failure, find_cause, find_verdict, read_names
from jobgen.diagnose.reading import Line
from jobgen.jobs import run_folder
from jobgen.jobs.record import JobRecord
from jobgen.schedulers.advice import ADVICE
from jobgen.schedulers.base import State

__all__ = ["CAUSES", "Diagnosis", "diagnose"]

Explained = tuple[Failure, tuple[Cause, Line | None]]
_HARMLESS = "The hostname of the client socket cannot be retrieved"
# A process that has failed ends all others within 30 s. Where they go on for longer, it was started
# again.
_RECOVERED = 60.0


def diagnose(job: JobRecord, state: State, *, now: float) -> Diagnosis:
    """Say what is wrong with `job`, which stands as `state` says at the moment `now`.

    Of an array it is the first task that has failed by its own record.
    """
    for index in range(job.tasks):
        ended = run_folder.read_outcome(job.task(index))
        if ended and ended[0] == "failed":
            return diagnose(job.task(index), State("failed", f"exit code {ended[1]}"), now=now)
    evidence = Evidence(job)
    diagnosis = _judge(job, state, evidence, now=now)
    words = ADVICE[job.scheduler]._asdict()
    remedy = diagnosis.remedy.format(**words)
    return diagnosis._replace(remedy=remedy, warnings=evidence.warnings)


def _judge(job: JobRecord, state: State, evidence: Evidence, *, now: float) -> Diagnosis:
    about = Diagnosis(
        f"{job.name} {job.id}", state.described, "unknown", "no known cause was found"
    )
    if state.name == "done":
        return about._replace(cause="healthy", title=state.reason or "it ended well")
    word = Line(Path(job.scheduler), 0, state.described)
    # What a job that waits has left is of an earlier start.
    output = evidence.script() if state.name != "queued" else []
    verdict = find_verdict([word, *output])
    # A scheduler without a history has forgotten what it has deleted.
    if (verdict and verdict[0].id == "cancelled") or state.name == "unknown":
        verdict = missing.find_dependency(job) or verdict
    if state.name == "queued":
        if verdict:
            return _name_cause(about, verdict, evidence)
        return _judge_progress(about, state, None, evidence)
    failures = [(failure, explain_failure(failure)) for failure in evidence.failures()]
    first = next((each for each in failures if not each[1][0].symptom), None)
    if verdict and verdict[0].symptom and first:  # a process has told more
        verdict = None
    if verdict and (verdict[0].id != "out-of-memory-host" or not first):
        diagnosis = _name_cause(about, verdict, evidence)
        if verdict[0].id == "walltime":
            quiet = stall.measure_silence(evidence, now=evidence.ended or now)
            if quiet and quiet.to_the_end:
                return _report_hang(diagnosis, quiet, evidence)
        return diagnosis
    if verdict and first:  # the scheduler knows that memory was short, the agent who was killed
        killed = next((who for who, _ in failures if who.exit_code == -9), first[0])
        return _show_process(_name_cause(about, verdict, evidence), killed, failures)
    if state.name in ("running", "stopping"):
        quiet = stall.measure_silence(evidence, now=now) if state.name == "running" else None
        if first is None or (quiet and quiet.newest > first[0].time + _RECOVERED):
            return _judge_progress(about, state, quiet, evidence)
    if first is None:
        return _judge_consequences(about, evidence, failures, output)
    who, shown = first
    why = missing.find_rank_mismatch(evidence, who, shown[0]) or shown
    diagnosis = _show_process(_name_cause(about, why, evidence), who, failures)
    if why[0].waits:
        waited = [other for other, (cause, _) in failures if cause.waits or cause.symptom]
        return _suspect_others(diagnosis, evidence, waited)
    same = {other.node for other, (cause, _) in failures if cause.id == why[0].id}
    diagnosis = diagnosis._replace(nodes=tuple(node for node in evidence.nodes if node in same))
    if why[0].per_node and diagnosis.nodes == (diagnosis.node,) and len(evidence.nodes) > 1:
        alone = f"{diagnosis.title}; seen on {diagnosis.node} alone, of {len(evidence.nodes)} nodes"
        return diagnosis._replace(title=alone)
    return diagnosis


def _judge_consequences(
    about: Diagnosis, evidence: Evidence, failures: list[Explained], output: list[Line]
) -> Diagnosis:
    """Of a job in which nothing failed by itself: who is missing, or what the script says."""
    own = find_cause(output, "script")
    if own and not own[0].symptom:
        if own[0].id == "chain-ended":  # the first start of it that says so knows why
            own = find_cause(evidence.all_output(), "script") or own
        return _name_cause(about, own, evidence)
    lost = {failure.rank for failure, _ in failures if failure.rank is not None}
    if failures and (absent := missing.find_absent(evidence, lost)):
        diagnosis = _name_cause(about, (absent.cause, absent.line), evidence)
        return diagnosis._replace(
            node=absent.node, rank=absent.rank, followed=tuple(sorted(lost - {absent.rank}))
        )
    if failures:
        who, why = failures[0]
        return _show_process(_name_cause(about, why, evidence), who, failures)
    tail = [line for line in output if line.text.strip()][-MOST_LINES:]
    folder = os.path.relpath(evidence.run_dir)
    return about._replace(evidence=tuple(map(format_line, tail)), remedy=f"look into {folder}")


def _judge_progress(
    about: Diagnosis, state: State, quiet: stall.Silence | None, evidence: Evidence
) -> Diagnosis:
    """Of a job that has not ended, and of which no process has: whether it gets on."""
    if quiet and quiet.long:
        return _report_hang(about, quiet, evidence)
    title = {"queued": "it waits to start", "stopping": "it is ending"}.get(state.name, "it runs")
    title = f"nothing is wrong so far: {title}"
    if quiet:
        title = f"it runs and is well; it has last written {quiet.seconds:.0f} s ago"
    last = (format_line(quiet.last),) if quiet and quiet.last else ()
    return about._replace(cause="healthy", title=title, evidence=last)


def _report_hang(about: Diagnosis, quiet: stall.Silence, evidence: Evidence) -> Diagnosis:
    """A job that did not get on, be it that its walltime has ended meanwhile."""
    title = f"it is alive, but has written nothing for {quiet.seconds:.0f} s"
    if about.cause == "walltime":
        title = f"it had written nothing for {quiet.seconds:.0f} s when its walltime was over"
    diagnosis = _name_cause(about, (program.HANG._replace(title=title), None), evidence)
    last = (format_line(quiet.last),) if quiet.last else ()
    return _suspect_others(diagnosis._replace(evidence=(*about.evidence, *last)), evidence, [])


def _suspect_others(about: Diagnosis, evidence: Evidence, waiting: list[Failure]) -> Diagnosis:
    """The same with who was waited for in the place of one who waited, where files tell it."""
    heard = {failure.rank for failure in waiting if failure.rank is not None}
    suspects = stall.find_suspects(evidence)
    if suspects is None:
        first = "" if about.rank is None else f"; rank {about.rank} was the first to say so"
        title = f"{about.title}{first}, and no file tells for whom they waited"
        # Who has said nothing may have been ended before it could.
        if unheard := stall.find_unheard(evidence, heard) if heard else ():
            title += f" ({list_ranks(unheard)} alone did not say so)"
        return about._replace(title=title, node=None, rank=None)
    behind = suspects.ranks[0]
    shown = map(format_line, suspects.lines)
    who = "it" if len(suspects.ranks) == 1 else list_ranks(suspects.ranks)
    return about._replace(
        node=evidence.ranks.get(behind),
        rank=behind,
        title=f"{about.title}; the others waited for {who}",
        place=suspects.place,
        exception="",
        waited_for=suspects.ranks,
        evidence=tuple(dict.fromkeys([*shown, *about.evidence]))[:MOST_LINES],
        followed=tuple(sorted({*heard, *about.followed} - {*suspects.ranks})),
    )


def _name_cause(about: Diagnosis, why: tuple[Cause, Line | None], evidence: Evidence) -> Diagnosis:
    """The same with a cause, the line that tells of it, and the node that this names."""
    cause, line = why
    node, key = read_names(cause, line) if line else (None, None)
    lines = [line] if line else []
    if node and key and (report := evidence.reported(node, key)):
        lines.append(report)
    return about._replace(
        cause=cause.id,
        title=cause.title,
        remedy=cause.remedy,
        node=node,
        evidence=tuple(map(format_line, lines)),
    )


def _show_process(about: Diagnosis, who: Failure, failures: list[Explained]) -> Diagnosis:
    """The same, with who it was, the end of what it said, and who failed after it."""
    lines = who.raised or tuple(line for line in who.lines if _HARMLESS not in line.text)
    tail = [line for line in lines if line.text.strip()][-MOST_LINES:]
    another = about.node not in (None, who.node)
    return about._replace(
        node=about.node or who.node,
        rank=None if another else who.rank,
        exception=who.raised[0].text.strip() if who.raised else "",
        place=who.place,
        evidence=tuple(dict.fromkeys([*about.evidence, *map(format_line, tail)]))[:MOST_LINES],
        followed=tuple(
            other.rank for other, _ in failures if other is not who and other.rank is not None
        ),
    )
