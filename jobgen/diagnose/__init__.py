"""The first cause of a job's failure, not its last symptom, with what shows it and what to do.

What the scheduler says decides; then the first process that failed on its own, with all that failed
alike; then the first node, then the script. That others lost their connection to it is a
consequence. If processes only waited, it is the one that they waited for. A job that is alive is
judged by its progress.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from jobgen.diagnose import missing, program, stall
from jobgen.diagnose.cause import Cause
from jobgen.diagnose.diagnosis import (
    MOST_LINES,
    Diagnosis,
    format_line,
    list_names,
    list_ranks,
)
from jobgen.diagnose.ending import Innocent, normalize
from jobgen.diagnose.evidence import STOPPED_BY_OTHERS, Evidence
from jobgen.diagnose.exceptions import TIMED, find_tracebacks
from jobgen.diagnose.matching import (
    CAUSES,
    MOST_WORDS,
    Explained,
    Match,
    explain_failure,
    find_cause,
    find_verdict,
    is_own,
    read_node,
    read_own_words,
    read_ranks,
)
from jobgen.diagnose.reading import SLOW_RANK, Line
from jobgen.jobs import run_folder, status
from jobgen.jobs.record import JobRecord
from jobgen.jobs.verdicts import read_bad_nodes, read_verdicts
from jobgen.schedulers import SCHEDULERS
from jobgen.schedulers.base import State

__all__ = ["CAUSES", "Diagnosis", "diagnose", "find_failure"]

# A process that has failed ends all others within 30 s. If they go on for longer, it was started
# again.
_RECOVERED = 60.0
_MOST_BESIDES, _MOST_CALLS = 3, 8
# How timers end a process, which each of them has: the command `timeout`, SIGALRM.
_OF_TIMERS = (124, -14)
# How one role says that another, its server, has not answered it.
_OF_SERVERS = re.compile(r"[Cc]onnect|Remote|HTTP|[Tt]imed? ?out|URLError|reset by peer")
# Files that an exception names.
_FILES = re.compile(r"['\"]([^'\"\s]*\w[/.]\w[^'\"\s]*)['\"]")
# How those who have compared what they have say that it is not the same.
_COMPARES = re.compile(
    r"(?i)\b(mine|differ|diverge|disagree|mismatch|(not|un)( the)? ?(same|equal)"
    r"|(an?|one|some|any|other|another) (rank|process|worker|replica))"
)
# What the script notes, which is no evidence.
_NOTES = re.compile(r"jobgen: (?!error|FAILED|ENDED|preflight|the chain)")
# Processes that lose each other end within this time.
_TOGETHER = 3.0


def find_failure(job: JobRecord, state: State, *, now: float) -> Diagnosis | None:
    """Say what is wrong with a job that has failed; None of one that has not."""
    if not state.ended or state.name in ("done", "cancelled"):
        return None
    return diagnose(job, state, now=now)


def diagnose(job: JobRecord, state: State, *, now: float) -> Diagnosis:
    """Say what is wrong with `job`, which stands as `state` says at the moment `now`.

    Of an array it is the first task that has failed by its own record, with the others named.
    """
    if failed := _list_failed_tasks(job):
        return _diagnose_tasks(job, failed, now=now)
    evidence = Evidence(job)
    role, words_of_script = evidence.find_role() if state.name != "queued" else ("", "")
    if role:  # of several programs it is the one to be judged
        evidence = Evidence(job, role)
    diagnosis = _judge(job, state, evidence, now=now)._replace(role=role)
    if role and (diagnosis.cause == "unknown" or " was not ready " in words_of_script):
        title = words_of_script.partition(", by /")[0]
        if diagnosis.exception:
            title += f"; it had raised {diagnosis.exception}"
        diagnosis = diagnosis._replace(title=title)
    judged = [*read_verdicts(run_folder.list_own_attempts(job)), *read_bad_nodes(job.run_dir)]
    advice = SCHEDULERS[job.scheduler].advice._asdict()
    advice["release"] = advice["release"].replace("ID", job.id)
    advice["leave_out"] = advice["leave_out"].replace("NODE", diagnosis.node or "NODE")
    return diagnosis._replace(
        verdicts=tuple(map(str, judged)),
        remedy=diagnosis.remedy.format(**advice),
        warnings=tuple(_list_warnings(evidence, diagnosis)),
    )


def _list_failed_tasks(job: JobRecord) -> dict[int, int]:
    """The tasks of an array that have failed by their own record, each with its exit code."""
    failed = {}
    for index in range(job.tasks):
        ended = run_folder.read_outcome(job.task(index))
        if ended and ended[0] == "failed":
            failed[index] = ended[1]
    return failed


def _diagnose_tasks(job: JobRecord, failed: dict[int, int], *, now: float) -> Diagnosis:
    first, *others = failed
    state = State("failed", f"exit code {failed[first]}")
    diagnosis = diagnose(job.task(first), state, now=now)
    named = tuple(f"task {index}: exit code {failed[index]}" for index in others)
    return diagnosis._replace(besides=(*diagnosis.besides, *named[:_MOST_BESIDES]))


def _list_warnings(evidence: Evidence, diagnosis: Diagnosis) -> Iterator[str]:
    """What preflight has warned of, which rank is slow, and what other roles had raised."""
    yield from evidence.warnings
    if diagnosis.cause == program.TIMEOUT.id or not diagnosis.exception:
        yield from _list_slow(evidence)
        yield from stall.find_slow(evidence)
    if evidence.role and _OF_SERVERS.search(diagnosis.exception):
        yield from _list_errors(evidence.job, evidence.role)


def _judge(job: JobRecord, state: State, evidence: Evidence, *, now: float) -> Diagnosis:
    about = Diagnosis(
        f"{job.name} {job.id}", state.described, "unknown", "no known cause was found"
    )
    if state.name == "done":
        return _judge_done(about, state, evidence)
    word = Line(Path(job.scheduler), 0, state.described)
    if state.name == "queued":
        return _judge_waiting(about, state, word, evidence)
    output = evidence.script()
    failures, stopped = _explain_all(evidence)
    first = _choose_first(evidence, failures, stopped)
    verdict = _find_verdict(word, output)
    if verdict and not (first and verdict[0].symptom):  # of a symptom a process has told more
        return _name_verdict(about, verdict, failures, evidence, now=now)
    quiet = stall.measure_silence(evidence, now=now) if state.name == "running" else None
    if state.name in ("running", "stopping") and _goes_on(first, quiet):
        return _judge_progress(about, state, quiet, evidence)
    if first:
        first = _find_elsewhere(evidence, first, [*failures, *stopped]) or first
    if first is None or (first.doubt and _has_left(evidence, failures)):
        return _judge_consequences(about, evidence, [*failures, *stopped], output)
    return _name_first(about, first, failures, stopped, evidence)


def _find_verdict(word: Line, output: list[Line]) -> Match | None:
    """By the scheduler; of a lost node by its launcher, if the script has refused that."""
    verdict = find_verdict([word, *output])
    if verdict is None or verdict[0].id != "node-lost":
        return verdict
    launcher = [line for line in output if line.file.name == "launcher.log" and is_own(line)]
    return find_cause(launcher, "script") or verdict


def _goes_on(first: Explained | None, quiet: stall.Silence | None) -> bool:
    """Whether no process has failed, or the job has written more, long after one did."""
    if first is None:
        return True
    return quiet is not None and quiet.newest > first.failure.time + _RECOVERED


def _choose_first(
    evidence: Evidence, failures: list[Explained], stopped: list[Explained]
) -> Explained | None:
    """The first that failed on its own; if that only waited, the first that surely did not."""
    own = [one for one in failures if not one.cause.symptom]
    if not own:
        return _find_hidden(evidence, failures, stopped)
    if own[0].cause.waits:
        own = [one for one in own if not (one.cause.waits or one.doubt)] or own
    return own[0]


def _find_elsewhere(
    evidence: Evidence, first: Explained, others: list[Explained]
) -> Explained | None:
    """An exception that another process has handled, of a file that `first` has not found.

    What one process could not write, another does not find.
    """
    if first.raised is None or first.cause.id != "file-missing":
        return None
    names = _FILES.findall(first.raised.words)
    ends = {normalize(one.raised.words) for one in others if one.raised}
    for rank, node in evidence.ranks.items():
        for traceback in find_tracebacks(evidence.read_log(node, rank)):
            named = any(name in traceback.words for name in names)
            if named and normalize(traceback.words) not in ends:
                line = traceback.chain[-1].message[0]
                cause, _ = find_cause([line], "rank") or (program.EXCEPTION, line)
                failure = first.failure._replace(node=node, rank=rank)
                who = f"rank {first.failure.rank} on {first.failure.node}"
                words = f"{traceback.words[:MOST_WORDS]}; then {who} failed: {first.title}"
                return Explained(failure, cause, line, None, (line,), words)
    return None


def _has_left(evidence: Evidence, failures: list[Explained]) -> bool:
    """Whether several failed as one other process had left with exit code 0."""
    absent = missing.find_absent(evidence, failures) if len(failures) > 1 else None
    return bool(absent and evidence.exit_codes().get(absent.rank or 0) == 0)


def _judge_done(about: Diagnosis, state: State, evidence: Evidence) -> Diagnosis:
    """Of a job whose commands all left with 0: well, unless several ended as they lost another."""
    if state.reason == status.APART:
        return _name_cause(about, (missing.APART, None))
    _, ended = _explain_all(evidence)
    lost = [one for one in ended if one.raised and one.cause.symptom]
    if len(lost) > 1 and (first := _find_hidden(evidence, lost, ended)):
        about = _name_first(about, first, lost, [], evidence)
    elif len(lost) > 1 and missing.find_absent(evidence, lost):
        about = _judge_consequences(about, evidence, lost, [])
    else:
        return about._replace(cause="healthy", title=state.reason or "it ended well")
    return about._replace(title=f"{about.title}; its command hid that by exit code 0")


def _list_slow(evidence: Evidence) -> tuple[str, ...]:
    """What the bundled trainer has last said of each rank that is slower than the others."""
    lines = evidence.read_log(evidence.ranks[0], 0) if 0 in evidence.ranks else []
    matches = filter(None, [SLOW_RANK.match(line.text) for line in lines])
    slow = {match.group(1, 2): match[0] for match in matches}
    return tuple(slow.values())[:_MOST_BESIDES]


def _list_errors(job: JobRecord, role: str) -> Iterator[str]:
    """The last exception in the log of each process of the other roles, which may go on."""
    others = {folder.name for folder in job.run_dir.glob("roles/*")} - {role}
    for other in sorted(others):
        evidence = Evidence(job, other)
        for rank, node in evidence.ranks.items():
            for traceback in find_tracebacks(evidence.read_log(node, rank))[-1:]:
                place = traceback.chain[-1].place
                at = f", at {place}" if place else ""
                yield f"{other} rank {rank} on {node} had printed {traceback.words}{at}"


def _explain_all(evidence: Evidence) -> tuple[list[Explained], list[Explained]]:
    """Why each process failed, the first first, and what those say that were stopped meanwhile.

    What other processes have survived is not a reason.
    """
    failures = evidence.failures()
    guesses = [explain_failure(failure, Innocent()) for failure in failures]
    failed = {one.failure.rank for one in guesses if not one.cause.symptom}
    innocent = evidence.collect_innocent(evidence.ranks.keys() - failed)
    explained = _demote([explain_failure(failure, innocent) for failure in failures])
    heard = [explain_failure(failure, innocent) for failure in evidence.stopped()]
    return explained, [one for one in heard if _is_telling(one, explained)]


def _is_telling(one: Explained, failures: list[Explained]) -> bool:
    """Whether one that was stopped names a cause, or says what one that failed has said."""
    if one.cause.id != "unknown":
        return True
    if one.key not in {failure.key for failure in failures}:
        return False
    texts = {failure.line.text for failure in failures if failure.line}
    return one.raised is not None or one.line is None or one.line.text in texts


def _demote(explained: list[Explained]) -> list[Explained]:
    """The same, with what follows from another's end where another ended at about that time.

    Who has lost a connection may leave before the process at the other end does.
    """
    own = [one for one in explained if not one.cause.follows]
    least = min((one.doubt for one in own), default=0)
    sure = min((one.failure.time for one in own if one.doubt == least), default=0.0)
    demoted = []
    for one in explained:
        if one in own and one.doubt > least and one.failure.time > sure - _TOGETHER:
            one = one._replace(cause=one.cause._replace(symptom=True))
        demoted.append(one)
    return demoted


def _find_hidden(
    evidence: Evidence, failures: list[Explained], stopped: list[Explained]
) -> Explained | None:
    """Return the first to fail if every known failure is but a lost connection.

    Its launcher may have ended before it noted the exit code, or the code hides that it failed.
    """
    raised = [one for one in stopped if one.raised and not one.cause.follows]
    first = min(raised, key=lambda one: one.failure.time, default=None) if failures else None
    if first is None or not evidence.has_left(first.failure.rank or 0):
        return first
    words = f"{first.words}; {missing.LEFT_EARLY.title}"
    return first._replace(cause=missing.LEFT_EARLY, words=words)


def _name_verdict(
    about: Diagnosis, verdict: Match, failures: list[Explained], evidence: Evidence, *, now: float
) -> Diagnosis:
    """By the scheduler's word; it knows that memory was short, and the agent who was killed."""
    diagnosis = _name_cause(about, verdict)
    if verdict[0].id == "walltime":
        return _judge_walltime(diagnosis, evidence, now=now)
    own = [one for one in failures if not one.cause.symptom]
    if verdict[0].id == "out-of-memory-host" and own:
        killed = next((one for one in own if one.failure.exit_code == -9), own[0])
        return _show_process(diagnosis, killed, failures)
    return diagnosis


def _judge_walltime(about: Diagnosis, evidence: Evidence, *, now: float) -> Diagnosis:
    """Of a job that its walltime has ended: a hang, if it was silent to the end or for half of it.

    What it had written last is shown: it may have said that it waits.
    """
    quiet = stall.measure_silence(evidence, now=evidence.ended or now)
    if quiet is None:
        return about
    half = quiet.seconds >= quiet.since_began / 2
    if quiet.to_the_end or (half and stall.find_suspects(evidence, [])):
        return _report_hang(about, quiet, evidence)
    return about._replace(evidence=(*about.evidence, *_show_last(quiet)))


def _name_first(
    about: Diagnosis,
    first: Explained,
    failures: list[Explained],
    stopped: list[Explained],
    evidence: Evidence,
) -> Diagnosis:
    """By the first process that failed on its own, and those that failed alike."""
    diagnosis = _name_cause(about, (first.cause, first.line))._replace(title=first.title)
    diagnosis = _show_process(diagnosis, first, failures)
    ended = [*failures, *stopped]
    alike = [one for one in ended if one.key == first.key] or [first]
    waited = [one for one in ended if one.cause.follows or one.cause.id == first.cause.id]
    if not first.cause.waits and _has_waited(first, alike, waited, evidence):
        first = first._replace(cause=program.TIMEOUT)
        diagnosis = diagnosis._replace(cause=first.cause.id, remedy=first.cause.remedy)
    if first.cause.waits:
        return _suspect_others(diagnosis, evidence, waited)
    if len(alike) > 1:
        diagnosis = _name_odd(diagnosis, evidence, alike)
    own = [one for one in failures if not one.cause.symptom]
    return _name_alike(diagnosis, alike, own, evidence)


def _has_waited(
    first: Explained, alike: list[Explained], waited: list[Explained], evidence: Evidence
) -> bool:
    """Whether the time of several was over at once, or one says who or how many did not come."""
    if len(alike) > 1 and first.line and TIMED.match(first.line.text):
        return True
    return bool(stall.suspect_by_name(evidence, waited) or stall.find_uncounted(evidence, waited))


def _name_alike(
    about: Diagnosis, alike: list[Explained], failures: list[Explained], evidence: Evidence
) -> Diagnosis:
    """The same of all that failed `alike`, with those that failed of another cause."""
    first = alike[0].failure
    ended = [one.failure for one in alike]
    if len(alike) > 1 and first.exit_code in _OF_TIMERS:  # those of others were about to
        ended += evidence.stopped()
    ranks = {one.rank for one in ended if one.rank is not None}
    nodes = {one.node for one in ended}
    title = about.title
    if len(nodes) > 1 and not evidence.ranks:
        title = re.sub(rf" on {re.escape(first.node)}\b", "", title)
    return about._replace(
        title=f"{title}{_tell_unheard(evidence, ranks, nodes)}",
        nodes=tuple(node for node in evidence.nodes if node in nodes),
        ranks=tuple(sorted(ranks)),
        world=evidence.world,
        all_nodes=not evidence.ranks and nodes == {*evidence.nodes},
        besides=tuple(_list_besides(alike, failures, ranks)),
    )


def _list_besides(
    alike: list[Explained], failures: list[Explained], ranks: set[int]
) -> Iterator[str]:
    """Who failed of another cause; a node that was stopped as another failed has not failed."""
    for one in failures:
        stopped = one.failure.exit_code == STOPPED_BY_OTHERS
        if one.key != alike[0].key and not stopped and one.failure.rank not in ranks:
            who = "" if one.failure.rank is None else f"rank {one.failure.rank} on "
            yield f"{who}{one.failure.node}: {one.title}"


def _tell_unheard(evidence: Evidence, ranks: set[int], nodes: set[str]) -> str:
    """Say who was ended before a word of it, where all others have failed alike; else nothing."""
    if ranks:
        logs = {rank: evidence.read_log(node, rank) for rank, node in evidence.ranks.items()}
        silent = [rank for rank, log in logs.items() if rank not in ranks and not log]
        if len(silent) >= len(ranks) or len(silent) + len(ranks) < evidence.world:
            return ""
        unheard, count = list_ranks(tuple(silent)), len(silent)
    else:
        heard = {*nodes, *evidence.ranks.values()}
        others = [node for node in evidence.nodes if node not in heard]
        unheard, count = list_names(others), len(others)
    were = "was" if count == 1 else "were"
    return f"; {unheard} {were} ended too early to tell" if count else ""


def _name_odd(about: Diagnosis, evidence: Evidence, alike: list[Explained]) -> Diagnosis:
    """The same, with the one that all name, or that has printed what no other has.

    It is the one where they say that they have compared, or speak of another.
    """
    named = {one.failure.rank: _list_named(one) & evidence.ranks.keys() for one in alike}
    compared = any(_COMPARES.search(line.text) for one in alike for line in one.tail)
    if not compared and not any(ranks - {rank} for rank, ranks in named.items()):
        return about
    first = next(iter(named.values()))
    odd = stall.find_accused(evidence) or stall.find_odd(evidence, behind=False)
    if len(first) == 1 < len(named) and all(ranks == first for ranks in named.values()):
        (rank,), words = first, "they name it"
    elif odd and odd.title:
        rank, words = odd.ranks[0], odd.title[:MOST_WORDS]
    else:
        return about
    if rank in named:
        about = about._replace(node=evidence.ranks[rank], rank=rank)
    return about._replace(title=f"{about.title}; rank {rank}: {words}")


def _list_named(one: Explained) -> set[int]:
    return {rank for line in one.tail for rank in read_ranks(line.text)}


def _judge_consequences(
    about: Diagnosis, evidence: Evidence, failures: list[Explained], output: list[Line]
) -> Diagnosis:
    """Of a job in which nothing failed on its own: who is missing, or what the script says."""
    own = find_cause(output, "script")
    if own and not own[0].symptom:
        return _name_cause(about, own)
    if failures:
        return _judge_lost(about, evidence, failures)
    telling = [line for line in output if line.text.strip() and not _NOTES.match(line.text)]
    tail = tuple(map(format_line, telling[-MOST_LINES:]))
    folder = os.path.relpath(evidence.run_dir)
    return about._replace(evidence=tail, remedy=f"look into {folder}")


def _judge_lost(about: Diagnosis, evidence: Evidence, failures: list[Explained]) -> Diagnosis:
    """Of processes that have all lost or awaited another: who is missing, if that can be told."""
    if absent := missing.find_absent(evidence, failures):
        lost = {one.failure.rank for one in failures if one.failure.rank is not None}
        diagnosis = _name_cause(about, (absent.cause, absent.line))
        return diagnosis._replace(
            node=absent.node, rank=absent.rank, followed=tuple(sorted(lost - {absent.rank}))
        )
    if named := stall.suspect_by_name(evidence, failures):
        diagnosis = _name_cause(about, (program.TIMEOUT, named.lines[0]))
        return _suspect_others(diagnosis, evidence, failures)
    first = failures[0]
    diagnosis = _name_cause(about, (first.cause, first.line))._replace(title=first.title)
    return _show_process(diagnosis, first, failures)


def _judge_waiting(about: Diagnosis, state: State, word: Line, evidence: Evidence) -> Diagnosis:
    """Of a job that waits to start, perhaps again: why it cannot, or why an earlier start ended."""
    if verdict := find_verdict([word]):  # what it has left is of an earlier start
        return _name_cause(about, verdict)
    title = "nothing is wrong so far: it waits to start"
    if evidence.attempt:
        before, start = find_verdict(evidence.script()), evidence.attempt.name
        waits = f"; it waits to start again: {state.reason}" if state.reason else ""
        if before and before[0].id in ("node-lost", "preempted"):
            diagnosis = _name_cause(about, before)
            return diagnosis._replace(title=f"start {start} ended: {diagnosis.title}{waits}")
        if not evidence.ended:  # its script was killed before it could say why
            title = f"start {start} was ended from outside, by a lost node or a requeue{waits}"
    return about._replace(cause="healthy", title=title)


def _judge_progress(
    about: Diagnosis, state: State, quiet: stall.Silence | None, evidence: Evidence
) -> Diagnosis:
    """Of a job that has not ended, and of which no process has: whether it gets on."""
    if quiet is None:
        title = "it is ending" if state.name == "stopping" else "it runs"
        return about._replace(cause="healthy", title=f"nothing is wrong so far: {title}")
    if quiet.long:
        return _report_hang(about, quiet, evidence)
    usual = quiet.seconds < quiet.usual
    if not usual and stall.is_idle(evidence):
        title = f"it is quiet for {quiet.seconds:.0f} s and idle on all nodes: it may hang"
        return _report_hang(about, quiet, evidence, title=title)
    well = " and is well" if usual else ""
    title = f"it runs{well}; it has last written {quiet.seconds:.0f} s ago"
    return about._replace(cause="healthy", title=title, evidence=_show_last(quiet))


def _show_last(quiet: stall.Silence) -> tuple[str, ...]:
    return (format_line(quiet.last),) if quiet.last else ()


def _report_hang(
    about: Diagnosis, quiet: stall.Silence, evidence: Evidence, *, title: str = ""
) -> Diagnosis:
    """A job that did not get on, even if its walltime has ended since."""
    title = title or f"it is alive, but has written nothing for {quiet.seconds:.0f} s"
    if about.cause == "walltime":
        title = f"it had written nothing for {quiet.seconds:.0f} s when its walltime was over"
    diagnosis = _name_cause(about, (program.HANG._replace(title=title), None))
    shown = (*about.evidence, *_show_last(quiet))
    return _suspect_others(diagnosis._replace(evidence=shown), evidence, [])


def _suspect_others(about: Diagnosis, evidence: Evidence, waiting: list[Explained]) -> Diagnosis:
    """The same with the rank that was waited for in the place of one that waited, if known."""
    if operations := stall.list_operations(waiting):
        title = "their collective operations do not match"
        return _compare_calls(about, evidence, operations, title)
    heard = {one.failure.rank for one in waiting if one.failure.rank is not None}
    if suspects := stall.find_suspects(evidence, waiting):
        return _name_suspects(about, evidence, suspects, heard)
    about = about._replace(node=None, rank=None)
    calls = stall.list_calls(waiting)
    if len(calls) > 1:
        return _compare_calls(about, evidence, calls, "they waited in different calls")
    lost = any(one.cause.symptom for one in waiting)
    if not lost and len(heard) == evidence.world:
        return _name_all_waiting(about, evidence, waiting, heard)
    title = f"{about.title}, and no file shows which process they waited for"
    return about._replace(title=f"{title}{_tell_silent(evidence, heard)}")


def _tell_silent(evidence: Evidence, heard: set[int]) -> str:
    """Say who did not say that it waited, if that is no more than half: it ended too early."""
    silent = tuple(rank for rank in evidence.ranks if rank not in heard)
    if not heard or not silent or len(silent) * 2 > len(evidence.ranks):
        return ""
    return f" ({list_ranks(silent)} did not say that they waited)"


def _name_all_waiting(
    about: Diagnosis, evidence: Evidence, waiting: list[Explained], ranks: set[int]
) -> Diagnosis:
    """The same of all ranks, none of which had lost another: at one line of the program or more."""
    sources = {one.source for one in waiting} - {""}
    where = f" in {sources.pop()[:MOST_WORDS]}" if len(sources) == 1 else ""
    return about._replace(
        ranks=tuple(sorted(ranks)),
        nodes=tuple(dict.fromkeys(evidence.ranks.values())),
        world=evidence.world,
        title=f"they waited in vain for each other{where}, until their time was over",
        remedy=program.SAME_ORDER,
        followed=(),
    )


def _name_suspects(
    about: Diagnosis, evidence: Evidence, suspects: stall.Suspects, waited: set[int]
) -> Diagnosis:
    """The same of those that others waited for."""
    behind = suspects.ranks[0]
    shown = map(format_line, suspects.lines)
    who = "it" if len(suspects.ranks) == 1 else list_ranks(suspects.ranks)
    return about._replace(
        node=evidence.ranks.get(behind),
        rank=behind,
        ranks=suspects.ranks,
        nodes=tuple(dict.fromkeys(evidence.ranks[rank] for rank in suspects.ranks)),
        world=evidence.world,
        title=suspects.title or f"{about.title}; the others waited for {who}",
        place=suspects.place,
        exception="",
        waited_for=suspects.ranks,
        remedy=about.remedy.replace("--pid", f"--pid {evidence.find_pid(behind)}".rstrip()),
        evidence=tuple(dict.fromkeys([*shown, *about.evidence]))[:MOST_LINES],
        followed=tuple(sorted({*waited, *about.followed} - {*suspects.ranks})),
    )


def _compare_calls(
    about: Diagnosis, evidence: Evidence, calls: dict[str, list[int]], title: str
) -> Diagnosis:
    """The same of all ranks of which is known what they were in."""
    ranks = sorted(rank for some in calls.values() for rank in some)
    sentences = [f"{list_ranks(tuple(some))} in {call}" for call, some in calls.items()]
    nodes = dict.fromkeys(evidence.ranks[rank] for rank in ranks if rank in evidence.ranks)
    return about._replace(
        ranks=tuple(ranks),
        nodes=tuple(nodes),
        world=evidence.world,
        title=f"{title}: {', '.join(sentences[:_MOST_CALLS])}",
        remedy=program.SAME_ORDER if about.cause == program.TIMEOUT.id else about.remedy,
        place="",
        exception="",
        followed=(),
    )


def _name_cause(about: Diagnosis, why: tuple[Cause, Line | None]) -> Diagnosis:
    """The same with a cause, the line that shows it, and the node that this names."""
    cause, line = why
    return about._replace(
        cause=cause.id,
        title=(line and read_own_words(line)) or cause.title,
        remedy=cause.remedy,
        node=read_node(cause, line) if line else None,
        evidence=(format_line(line),) if line else (),
    )


def _show_process(about: Diagnosis, who: Explained, failures: list[Explained]) -> Diagnosis:
    """The same, with who it was, the end of what it said, and who lost it."""
    failure = who.failure
    another = about.node not in (None, failure.node)
    tail = [line for line in who.tail if line.text.strip()]
    tail = tail[:MOST_LINES] if who.raised else tail[-MOST_LINES:]
    shown = [format_line(line) for line in tail]
    evidence = [*about.evidence, *shown]
    if who.line and is_own(who.line):
        evidence = [*shown, *about.evidence]
    lost = [one.failure.rank for one in failures if one.cause.symptom]
    return about._replace(
        node=about.node or failure.node,
        rank=None if another else failure.rank,
        exception=who.exception,
        place=who.place,
        evidence=tuple(dict.fromkeys(evidence)),
        followed=tuple(rank for rank in lost if rank not in (None, failure.rank)),
    )
