"""Which of all that a job has left tells why it failed, or whether it gets on."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import cached_property
from itertools import chain, takewhile
from pathlib import Path

from jobgen.diagnose.alike import name_alike
from jobgen.diagnose.cause import (
    ALONE,
    APART,
    HANG,
    HIDDEN,
    KILLED_SCRIPT,
    NO_SPACE,
    TIMEOUT,
    Cause,
)
from jobgen.diagnose.diagnosis import MOST_LINES, Diagnosis, show_lines
from jobgen.diagnose.ending import find_last_words
from jobgen.diagnose.evidence import LAUNCHER, Evidence
from jobgen.diagnose.exceptions import TIMED
from jobgen.diagnose.explaining import Explained, collect_ranks, find_remedy, find_started
from jobgen.diagnose.matching import Match, find_cause, find_verdict, is_own, read_own_words
from jobgen.diagnose.missing import find_absent
from jobgen.diagnose.processes import Processes
from jobgen.diagnose.reading import MOST_WORDS, NO_LINE, Line, drop, keep, read_words
from jobgen.diagnose.silence import Silence, is_idle, measure_silence
from jobgen.diagnose.waiting import Waiting
from jobgen.jobs import run_folder, states
from jobgen.schedulers.base import State

# A process that has failed ends all others within 30 s. If they go on for longer, it was started
# again.
_RECOVERED = 60.0
_LITTLE = 1 << 20  # bytes, with which no file system serves a job
# What ends a start, and the scheduler starts the job again; and what to do.
_BY_ITSELF = {
    "node-lost": "it starts again by itself; to {leave_out}, cancel it and submit again",
    "preempted": "it starts again by itself; other queues or QoS are not preempted",
}
# How the script says for what it ends, and what it quotes of others after that.
_DIES, _QUOTES = re.compile(r"jobgen: error: "), re.compile(r"jobgen: FAILED")
_HIDDEN = read_words("hidden")
# What the script notes, which is no evidence.
_NOTES = re.compile(r"jobgen: (?!error|FAILED|ENDED|preflight|the chain)")


class Judge:
    """Judges a job, or a role of it, by its `evidence`, as it stands at the moment `now`."""

    def __init__(self, evidence: Evidence, state: State, *, now: float) -> None:
        self.evidence, self.state, self.now = evidence, state, now
        job = evidence.job
        title = "no known cause was found"
        self.about = Diagnosis(f"{job.name} {job.id}", state.described, "unknown", title)
        self.word = Line(Path(job.scheduler), 0, state.described)

    @cached_property
    def processes(self) -> Processes:
        """Which processes have ended, and why."""
        return Processes(self.evidence)

    @cached_property
    def first(self) -> Explained | None:
        """The process that failed first on its own."""
        return self.processes.choose_first()

    @cached_property
    def quiet(self) -> Silence | None:
        """For how long a job that runs has written nothing."""
        if self.state.name != "running":
            return None
        return measure_silence(self.evidence, now=self.now)

    def judge(self) -> Diagnosis:
        """Say what is wrong, by the first of `_RANKED` that tells."""
        return next(filter(None, (tell(self) for tell in _RANKED)))

    def tell_success(self) -> Diagnosis | None:
        """Of a job whose commands all left with 0: well, unless several ended as one was lost."""
        if self.state.name != "done":
            return None
        if self.state.reason == states.APART:
            return self._name_cause(APART)
        processes = self.processes
        lost = [one for one in processes.stopped if one.raised.words and one.cause.symptom]
        hidden = processes.find_hidden()
        if len(lost) < 2 or not (hidden or find_absent(self.evidence, lost)):
            logs = chain.from_iterable(self.evidence.logs.values())
            if failed := keep(logs, _HIDDEN.match):
                return self._name_cause(HIDDEN, failed[0])
            return self._call_healthy(self.state.reason or "it ended well")
        processes.failures, processes.stopped = lost, []
        about = self._judge_first(hidden) if hidden else self.tell_lost()
        return about and about._replace(title=f"{about.title}; its command hid that by exit code 0")

    def tell_wait(self) -> Diagnosis | None:
        """Why it cannot start, perhaps again, or why an earlier start ended."""
        if self.state.name != "queued":
            return None
        if verdict := find_verdict([self.word]):  # what it has left is of an earlier start
            return self._name_cause(*verdict)
        title = "nothing is wrong so far: it waits to start"
        if self.evidence.attempt:
            before, start = find_verdict(self.evidence.output), int(self.evidence.attempt.name) + 1
            reason = self.state.reason
            waits = f"; it waits to start again: {reason}" if reason else ""
            if before and before.cause.id in _BY_ITSELF:
                about = self._name_cause(*before)._replace(remedy=_BY_ITSELF[before.cause.id])
                return about._replace(title=f"start {start} ended: {about.title}{waits}")
            if not self.evidence.ended:  # its script was killed before it could say why
                title = f"start {start} was ended from outside, by a lost node or a requeue{waits}"
        return self._call_healthy(title)

    def tell_own_end(self) -> Diagnosis | None:
        """By the last error that the script says of itself, for which it has ended."""
        output = self.evidence.output if self.state.ended else []
        own = takewhile(lambda line: not _QUOTES.match(line.text), output)
        errors = [line for line in own if _DIES.match(line.text) and line.file.name != LAUNCHER]
        match = find_cause(errors[-1:], "script")
        return self._name_cause(*match) if match and match.sure else None

    def tell_verdict(self) -> Diagnosis | None:
        """By the scheduler's word; it knows that memory was short, and the agent who was killed."""
        verdict = self._find_verdict()
        if verdict is None or (verdict.cause.symptom and self._comes_after(verdict)):
            return None
        about, own = self._name_cause(*verdict), self.processes.own
        if about.cause == "walltime":
            return self._judge_walltime(about)
        if about.cause == "out-of-memory-host":
            killed = [one for one in own if one.failure.exit_code == -9] or own
            return self._show_process(about, killed[0]) if killed else about
        return about

    def _comes_after(self, verdict: Match) -> bool:
        """Whether a process had failed, and not by the SIGKILL of what a killed script leaves."""
        if self.first is None:
            return False
        return self.first.failure.exit_code != -9 or verdict.line is not self.word

    def _find_verdict(self) -> Match | None:
        """By the scheduler; of a lost node by its launcher, if the script has refused that."""
        # What srun starts by itself prints the words of its own daemon, which name the job; PBS's
        # go where the job's own errors go.
        ids = "|".join(map(re.escape, run_folder.list_chain(self.evidence.job)))
        ends = re.compile(rf"slurmstepd\S*: error: \*\*\* (JOB|STEP) ({ids})\b|=>> PBS: job killed")
        logs = chain.from_iterable(self.evidence.logs.values())
        output = self.evidence.output
        verdict = find_verdict([self.word, *output, *keep(logs, ends.match)])
        # Slurm's word for a job that was not started stands for one whose script was killed, too.
        if verdict and verdict.cause.id == "output-folder" and self._has_begun():
            return Match(KILLED_SCRIPT, verdict.line)
        if verdict is None or verdict.cause.id != "node-lost":
            return verdict
        own = [line for line in output if line.file.name == LAUNCHER and is_own(line)]
        return find_cause(own, "script") or verdict

    def _has_begun(self) -> bool:
        """Whether its last start has begun by what its script has left, but not how it ended."""
        left = run_folder.read_traces(self.evidence.job)
        return left.begun is not None and not left.word

    def _judge_walltime(self, about: Diagnosis) -> Diagnosis:
        """A hang, if it was silent to the end or for half of it; else with what it wrote last."""
        quiet = measure_silence(self.evidence, now=self.evidence.ended or self.now)
        if quiet is None:
            return about
        if self._is_alone():  # it waits for nobody of this job: a server may be silent for hours
            silent = f"; it had written nothing for {quiet.seconds:.0f} s" * quiet.to_the_end
            shown = about.evidence + show_lines(quiet.last)
            return about._replace(title=f"{about.title}{silent}", evidence=shown)
        half = quiet.seconds >= quiet.since_began / 2
        if quiet.to_the_end or (half and Waiting(self.evidence, []).find_suspects()):
            title = f"it had written nothing for {quiet.seconds:.0f} s when its walltime was over"
            return self._judge_hang(quiet, title, shown=about.evidence)
        return about._replace(evidence=about.evidence + show_lines(quiet.last))

    def _is_alone(self) -> bool:
        """Whether the job was one process, by its plan and by its logs."""
        plan = self.evidence.plan
        return bool(plan and plan.mode != "body") and self.evidence.world == 1

    def tell_progress(self) -> Diagnosis | None:
        """Of a job that has not ended, and of which no process has: whether it gets on."""
        if self.state.name not in ("running", "stopping") or not self._goes_on():
            return None
        if (quiet := self.quiet) is None:
            title = "it is ending" if self.state.name == "stopping" else "it runs"
            return self._call_healthy(f"nothing is wrong so far: {title}")
        seconds = f"{quiet.seconds:.0f} s"
        if quiet.long:
            return self._judge_hang(quiet, f"it is alive, but has written nothing for {seconds}")
        if quiet.seconds >= quiet.usual and is_idle(self.evidence):
            title = f"it has been quiet for {seconds}, and all nodes are idle: it may hang"
            return self._judge_hang(quiet, title)
        about = self._call_healthy(f"it runs; it has last written {seconds} ago")
        return about._replace(evidence=show_lines(quiet.last))

    def _goes_on(self) -> bool:
        """Whether no process has failed, or the job has written more, long after one did."""
        if self.first is None:
            return True
        return self.quiet is not None and self.quiet.newest > self.first.failure.time + _RECOVERED

    def _judge_hang(self, quiet: Silence, title: str, *, shown: tuple[str, ...] = ()) -> Diagnosis:
        """Of a job that did not get on, even if its walltime has ended since."""
        about = self._name_cause(HANG)
        about = about._replace(title=title, evidence=shown + show_lines(quiet.last))
        if self._is_alone():
            return about._replace(remedy=ALONE.remedy)
        return Waiting(self.evidence, []).blame(about)

    def tell_first(self) -> Diagnosis | None:
        """By the first process that failed on its own, unless it may only have lost another."""
        if self.first is None:
            return None
        first = self.processes.find_elsewhere(self.first) or self.first
        if first.doubt and self.processes.has_left():
            return None
        about = self._judge_first(first)
        return self._look_at_disk(about) if about.cause.startswith("exit ") else about

    def _look_at_disk(self, about: Diagnosis) -> Diagnosis:
        """The same by a full file system, where there was or is one, which hides the reason."""
        lines = [line for line in self.evidence.output if re.search(NO_SPACE.says, line.text)]
        if lines:
            words = "a file system was full"
        elif self._is_disk_full():
            words = "the file system of the run folder is full"
        else:
            return about
        return about._replace(
            cause=NO_SPACE.id,
            title=f"{words}; {about.title}",
            remedy=NO_SPACE.remedy,
            evidence=show_lines(*lines[:1]) + about.evidence,
        )

    def _is_disk_full(self) -> bool:
        disk = os.statvfs(self.evidence.job.whole_dir)
        without_inodes = disk.f_files and not disk.f_favail
        return bool(without_inodes) or disk.f_bavail * disk.f_frsize < _LITTLE

    def _judge_first(self, first: Explained) -> Diagnosis:
        """With those that failed alike, or with the one that it waited for."""
        about, ended = self._show_first(first), self.processes.ended
        alike = [one for one in ended if one.key == first.key] or [first]
        waited = [one for one in ended if one.cause.follows or one.cause.id == first.cause.id]
        waiting = Waiting(self.evidence, waited)
        if first.cause.waits:
            return waiting.blame(about)
        # The time of several was over at once, or one says who has not come.
        timed = len(alike) > 1 and TIMED.match(first.line.text)
        if timed or waiting.find_named() or waiting.has_counted():
            return waiting.blame(about._replace(cause=TIMEOUT.id, remedy=TIMEOUT.remedy))
        return name_alike(about, alike, self.processes)

    def tell_script(self) -> Diagnosis | None:
        """By what the script says of itself, if nothing failed on its own."""
        own = find_cause(self.evidence.output, "script")
        return self._name_cause(*own) if own and not own.cause.symptom else None

    def tell_lost(self) -> Diagnosis | None:
        """Of processes that have all lost or awaited another: who is missing, if that is known."""
        if not (ended := self.processes.ended):
            return None
        if absent := find_absent(self.evidence, ended):
            about = self._name_cause(absent.cause, absent.line)
            followed = tuple(sorted(collect_ranks(ended) - {absent.rank}))
            return about._replace(node=absent.node, rank=absent.rank, followed=followed)
        waiting = Waiting(self.evidence, ended)
        if named := waiting.find_named():
            return waiting.blame(self._name_cause(TIMEOUT, named.lines[0]))
        return self._show_first(ended[0])

    def tell_output(self) -> Diagnosis:
        """By the end of its output, where no cause is known."""
        printed = drop(self.evidence.output, _NOTES.match)
        last = find_last_words(printed)
        title = f"its output says: {last.text.strip()[:MOST_WORDS]}" if last else self.about.title
        shown = show_lines(*printed)[-MOST_LINES:]
        folder = os.path.relpath(self.evidence.run_dir)
        about = self.about._replace(title=title, evidence=shown, remedy=f"look into {folder}")
        return self._look_at_disk(about)

    def _call_healthy(self, title: str) -> Diagnosis:
        return self.about._replace(cause="healthy", title=title)

    def _name_cause(self, cause: Cause, line: Line = NO_LINE) -> Diagnosis:
        """By a cause, the line that shows it, and the node that this names."""
        return self.about._replace(
            cause=cause.id,
            title=read_own_words(line) or cause.title,
            remedy=cause.remedy,
            node=Match(cause, line).node,
            evidence=show_lines(line),
        )

    def _show_first(self, first: Explained) -> Diagnosis:
        about = self._name_cause(first.cause, first.line)
        about = about._replace(title=first.title, remedy=find_remedy(first))
        return self._show_process(about, first)

    def _show_process(self, about: Diagnosis, who: Explained) -> Diagnosis:
        """The same, with who it was, the end of what it said, and who lost it."""
        failure = who.failure
        node = about.node or find_started(failure.lines) or failure.node
        tail = show_lines(*who.tail)
        tail = tail[:MOST_LINES] if who.raised.words else tail[-MOST_LINES:]
        evidence = tail + about.evidence if is_own(who.line) else about.evidence + tail
        lost = [one.failure.rank for one in self.processes.ended if one.cause.symptom]
        return about._replace(
            node=node,
            rank=failure.rank if node == failure.node else None,
            exception=who.raised.words,
            place=who.place,
            evidence=tuple(dict.fromkeys(evidence)),
            followed=tuple(rank for rank in lost if rank not in (None, failure.rank)),
        )


# The evidence, what decides first. Each tells nothing where there is none of its kind.
_RANKED: tuple[Callable[[Judge], Diagnosis | None], ...] = (
    Judge.tell_success,
    Judge.tell_wait,
    Judge.tell_own_end,
    Judge.tell_verdict,
    Judge.tell_progress,
    Judge.tell_first,
    Judge.tell_script,
    Judge.tell_lost,
    Judge.tell_output,
)
