"""Which of all that a job has left tells why it failed, or whether it gets on."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import chain
from pathlib import Path

from jobgen.diagnose import missing
from jobgen.diagnose.cause import APART, HANG, TIMEOUT, WAITED, Cause
from jobgen.diagnose.diagnosis import (
    MOST_LINES,
    Diagnosis,
    choose_words,
    list_names,
    list_ranks,
    show_lines,
)
from jobgen.diagnose.ending import find_last_words
from jobgen.diagnose.evidence import STOPPED_BY_OTHERS, Evidence
from jobgen.diagnose.exceptions import TIMED
from jobgen.diagnose.matching import (
    MOST_WORDS,
    Explained,
    Match,
    collect_ranks,
    find_cause,
    find_remedy,
    find_verdict,
    is_own,
    read_node,
    read_own_words,
)
from jobgen.diagnose.processes import Processes
from jobgen.diagnose.reading import NO_LINE, Line, drop, keep, read_words
from jobgen.diagnose.silence import Silence, is_idle, measure_silence
from jobgen.diagnose.stall import Suspects, Waiting, find_accused, find_odd
from jobgen.jobs import run_folder, states
from jobgen.schedulers.base import State

# A process that has failed ends all others within 30 s. If they go on for longer, it was started
# again.
_RECOVERED = 60.0
_MOST_CALLS = 8
# How timers end a process, which each of them has: the command `timeout`, SIGALRM.
_OF_TIMERS = (124, -14)
_COMPARES = read_words("compares", re.IGNORECASE)
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
    def output(self) -> list[Line]:
        """What the script has printed."""
        return self.evidence.script()

    @cached_property
    def processes(self) -> Processes:
        """Which processes have ended, and why."""
        return Processes(self.evidence)

    def judge(self) -> Diagnosis:
        """Say what is wrong."""
        if self.state.name == "done":
            return self._judge_done()
        if self.state.name == "queued":
            return self._judge_waiting()
        first, verdict = self.processes.choose_first(), self._find_verdict()
        if verdict and not (first and verdict.cause.symptom):
            return self._judge_verdict(verdict)
        if self.state.name in ("running", "stopping") and self._goes_on(first):
            return self._judge_progress()
        if first is None:
            return self._judge_consequences()
        first = self.processes.find_elsewhere(first) or first
        if first.doubt and self.processes.has_left():
            return self._judge_consequences()
        return self._judge_first(first)

    @cached_property
    def quiet(self) -> Silence | None:
        """For how long a job that runs has written nothing."""
        if self.state.name != "running":
            return None
        return measure_silence(self.evidence, now=self.now)

    def _goes_on(self, first: Explained | None) -> bool:
        """Whether no process has failed, or the job has written more, long after one did."""
        if first is None:
            return True
        return self.quiet is not None and self.quiet.newest > first.failure.time + _RECOVERED

    def _judge_done(self) -> Diagnosis:
        """Of a job whose commands all left with 0: well, unless several ended as one was lost."""
        if self.state.reason == states.APART:
            return self._name_cause(APART)
        about = self.about._replace(cause="healthy", title=self.state.reason or "it ended well")
        lost = [one for one in self.processes.stopped if one.raised.words and one.cause.symptom]
        if len(lost) < 2:
            return about
        self.processes.failures, first = lost, self.processes.find_hidden()
        self.processes.stopped = []
        if first:
            about = self._judge_first(first)
        elif missing.find_absent(self.evidence, lost):
            about = self._judge_lost(lost)
        else:
            return about
        return about._replace(title=f"{about.title}; its command hid that by exit code 0")

    def _judge_waiting(self) -> Diagnosis:
        """Why it cannot start, perhaps again, or why an earlier start ended."""
        if verdict := find_verdict([self.word]):  # what it has left is of an earlier start
            return self._name_cause(*verdict)
        title = "nothing is wrong so far: it waits to start"
        if self.evidence.attempt:
            before, start = find_verdict(self.output), self.evidence.attempt.name
            reason = self.state.reason
            waits = f"; it waits to start again: {reason}" if reason else ""
            if before and before.cause.id in ("node-lost", "preempted"):
                about = self._name_cause(*before)
                return about._replace(title=f"start {start} ended: {about.title}{waits}")
            if not self.evidence.ended:  # its script was killed before it could say why
                title = f"start {start} was ended from outside, by a lost node or a requeue{waits}"
        return self.about._replace(cause="healthy", title=title)

    def _find_verdict(self) -> Match | None:
        """By the scheduler; of a lost node by its launcher, if the script has refused that."""
        # What srun starts by itself prints the words of its own daemon, which name the job; PBS's
        # go where the job's own errors go.
        ids = "|".join(map(re.escape, run_folder.list_chain(self.evidence.job)))
        ends = re.compile(rf"slurmstepd\S*: error: \*\*\* (JOB|STEP) ({ids})\b|=>> PBS: job killed")
        logs = chain.from_iterable(self.evidence.logs.values())
        verdict = find_verdict([self.word, *self.output, *keep(logs, ends.match)])
        if verdict is None or verdict.cause.id != "node-lost":
            return verdict
        own = [line for line in self.output if line.file.name == "launcher.log" and is_own(line)]
        return find_cause(own, "script") or verdict

    def _judge_verdict(self, verdict: Match) -> Diagnosis:
        """By the scheduler's word; it knows that memory was short, and the agent who was killed."""
        about = self._name_cause(*verdict)
        own = self.processes.own
        if about.cause == "walltime":
            return self._judge_walltime(about)
        if about.cause == "out-of-memory-host" and own:
            killed = [one for one in own if one.failure.exit_code == -9] or own
            return self._show_process(about, killed[0])
        return about

    def _judge_walltime(self, about: Diagnosis) -> Diagnosis:
        """A hang, if it was silent to the end or for half of it; else with what it wrote last."""
        quiet = measure_silence(self.evidence, now=self.evidence.ended or self.now)
        if quiet is None:
            return about
        half = quiet.seconds >= quiet.since_began / 2
        if quiet.to_the_end or (half and Waiting(self.evidence, []).find_suspects()):
            title = f"it had written nothing for {quiet.seconds:.0f} s when its walltime was over"
            return self._judge_hang(quiet, title, about.evidence)
        return about._replace(evidence=about.evidence + show_lines(quiet.last))

    def _judge_progress(self) -> Diagnosis:
        """Of a job that has not ended, and of which no process has: whether it gets on."""
        about, quiet = self.about._replace(cause="healthy"), self.quiet
        if quiet is None:
            title = "it is ending" if self.state.name == "stopping" else "it runs"
            return about._replace(title=f"nothing is wrong so far: {title}")
        seconds = f"{quiet.seconds:.0f} s"
        if quiet.long:
            return self._judge_hang(quiet, f"it is alive, but has written nothing for {seconds}")
        usual = quiet.seconds < quiet.usual
        if not usual and is_idle(self.evidence):
            title = f"it is quiet for {seconds} and idle on all nodes: it may hang"
            return self._judge_hang(quiet, title)
        title = f"it runs{' and is well' if usual else ''}; it has last written {seconds} ago"
        return about._replace(title=title, evidence=show_lines(quiet.last))

    def _judge_hang(self, quiet: Silence, title: str, shown: tuple[str, ...] = ()) -> Diagnosis:
        """Of a job that did not get on, even if its walltime has ended since."""
        about = self._name_cause(HANG)._replace(title=title)
        return self._suspect_others(about._replace(evidence=shown + show_lines(quiet.last)), [])

    def _judge_consequences(self) -> Diagnosis:
        """Of a job in which nothing failed on its own: who is missing, or what the script says."""
        own = find_cause(self.output, "script")
        if own and not own.cause.symptom:
            return self._name_cause(*own)
        if ended := self.processes.ended:
            return self._judge_lost(ended)
        printed = drop(self.output, _NOTES.match)
        last = find_last_words(printed, None)
        title = f"its output says: {last.text.strip()[:MOST_WORDS]}" if last else self.about.title
        shown = show_lines(*printed)[-MOST_LINES:]
        folder = os.path.relpath(self.evidence.run_dir)
        return self.about._replace(title=title, evidence=shown, remedy=f"look into {folder}")

    def _judge_lost(self, ended: list[Explained]) -> Diagnosis:
        """Of processes that have all lost or awaited another: who is missing, if that is known."""
        if absent := missing.find_absent(self.evidence, ended):
            about = self._name_cause(absent.cause, absent.line)
            followed = tuple(sorted(collect_ranks(ended) - {absent.rank}))
            return about._replace(node=absent.node, rank=absent.rank, followed=followed)
        if named := Waiting(self.evidence, ended).find_named():
            about = self._name_cause(TIMEOUT, named.lines[0])
            return self._suspect_others(about, ended)
        return self._show_first(ended[0])

    def _judge_first(self, first: Explained) -> Diagnosis:
        """By the first process that failed on its own, and those that failed alike."""
        about = self._show_first(first)
        ended = self.processes.ended
        alike = [one for one in ended if one.key == first.key] or [first]
        waited = [one for one in ended if one.cause.follows or one.cause.id == first.cause.id]
        if first.cause.waits:
            return self._suspect_others(about, waited)
        if self._has_waited(first, alike, waited):
            about = about._replace(cause=TIMEOUT.id, remedy=TIMEOUT.remedy)
            return self._suspect_others(about, waited)
        if len(alike) > 1:
            about = self._name_odd(about, alike)
        return self._name_alike(about, alike)

    def _has_waited(
        self, first: Explained, alike: list[Explained], waited: list[Explained]
    ) -> bool:
        """Whether the time of several was over at once, or one says who has not come."""
        if len(alike) > 1 and TIMED.match(first.line.text):
            return True
        waiting = Waiting(self.evidence, waited)
        return waiting.find_named() is not None or waiting.has_counted()

    def _name_alike(self, about: Diagnosis, alike: list[Explained]) -> Diagnosis:
        """The same of all that failed `alike`, with those that failed of another cause."""
        evidence, first = self.evidence, alike[0].failure
        ended = [one.failure for one in alike]
        if len(alike) > 1 and first.exit_code in _OF_TIMERS:  # those of others were about to
            ended += evidence.stopped
        ranks = {one.rank for one in ended if one.rank is not None}
        nodes = {one.node for one in ended}
        began = bool(evidence.ranks)
        title = about.title
        if len(nodes) > 1 and not began:
            title = re.sub(rf" on {re.escape(first.node)}\b", "", title)
        unheard = self._tell_unheard_ranks(ranks) if ranks else self._tell_unheard_nodes(nodes)
        return about._replace(
            title=f"{title}{unheard}",
            nodes=tuple(node for node in evidence.nodes if node in nodes),
            ranks=tuple(sorted(ranks)),
            world=evidence.world,
            all_nodes=not began and nodes == {*evidence.nodes},
            besides=tuple(self._list_besides(alike[0].key, ranks)),
        )

    def _list_besides(self, key: str, ranks: set[int]) -> Iterator[str]:
        """Who failed of another cause; a node that was stopped as another failed has not failed."""
        for one in self.processes.own:
            stopped = one.failure.exit_code == STOPPED_BY_OTHERS
            if one.key != key and not stopped and one.failure.rank not in ranks:
                who = "" if one.failure.rank is None else f"rank {one.failure.rank} on "
                yield f"{who}{one.failure.node}: {one.title}"

    def _tell_unheard_ranks(self, ranks: set[int]) -> str:
        """Say who was ended before a word of it, where all others have failed alike."""
        silent = [rank for rank, log in self.evidence.logs.items() if not log and rank not in ranks]
        if len(silent) >= len(ranks) or len(silent) + len(ranks) < self.evidence.world:
            return ""
        return _tell_unheard(list_ranks(silent), len(silent))

    def _tell_unheard_nodes(self, nodes: set[str]) -> str:
        heard = {*nodes, *self.evidence.ranks.values()}
        others = [node for node in self.evidence.nodes if node not in heard]
        return _tell_unheard(list_names(others), len(others))

    def _name_odd(self, about: Diagnosis, alike: list[Explained]) -> Diagnosis:
        """The same, with the one that all name, or that has printed what no other has.

        It is the one where they say that they have compared, or speak of another.
        """
        named = {one.failure.rank: one.named & self.evidence.ranks.keys() for one in alike}
        compared = any(keep(one.tail, _COMPARES.search) for one in alike)
        if not compared and not any(ranks - {rank} for rank, ranks in named.items()):
            return about
        rank, words = self._find_odd([*named.values()])
        if words and rank in named:
            about = about._replace(node=self.evidence.ranks[rank], rank=rank)
        return about._replace(title=f"{about.title}; rank {rank}: {words}") if words else about

    def _find_odd(self, named: list[set[int]]) -> tuple[int, str]:
        if len(named) > 1 and len(named[0]) == 1 and all(ranks == named[0] for ranks in named):
            return min(named[0]), "they name it"
        odd = find_accused(self.evidence) or find_odd(self.evidence, behind=False)
        return (odd.ranks[0], odd.title[:MOST_WORDS]) if odd else (-1, "")

    def _suspect_others(self, about: Diagnosis, waiting: list[Explained]) -> Diagnosis:
        """The same with the rank that was waited for in the place of one that waited, if known."""
        them = Waiting(self.evidence, waiting)
        if operations := them.list_operations():
            title = "their collective operations do not match"
            return self._compare_calls(about, operations, title)
        heard = collect_ranks(waiting)
        if suspects := them.find_suspects():
            return self._name_suspects(about, suspects, heard)
        about = about._replace(node=None, rank=None)
        calls = them.list_calls()
        if len(calls) > 1:
            return self._compare_calls(about, calls, "they waited in different calls")
        lost = any(one.cause.symptom for one in waiting)
        if not lost and 1 < len(heard) == self.evidence.world:
            return self._name_all_waiting(about, waiting, heard)
        title = f"{about.title}, and no file shows which process they waited for"
        return about._replace(title=f"{title}{self._tell_silent(them)}")

    def _tell_silent(self, them: Waiting) -> str:
        """Say who did not say that it waited, if that is no more than half: it ended too early."""
        few = 0 < len(them.silent) * 2 <= len(self.evidence.ranks)
        return f" ({list_ranks(them.silent)} did not say that they waited)" if few else ""

    def _name_suspects(self, about: Diagnosis, suspects: Suspects, waited: set[int]) -> Diagnosis:
        behind = suspects.ranks[0]
        pid = self.evidence.find_pid(behind)
        shown = show_lines(*suspects.lines)
        who = choose_words(len(suspects.ranks), "it", list_ranks(suspects.ranks))
        return self._name_ranks(about, suspects.ranks)._replace(
            node=self.evidence.ranks.get(behind),
            rank=behind,
            title=suspects.title or f"{about.title}; the others waited for {who}",
            place=suspects.place,
            exception="",
            waited_for=suspects.ranks,
            remedy=about.remedy.replace("--pid", f"--pid {pid}".rstrip()),
            evidence=tuple(dict.fromkeys([*shown, *about.evidence]))[:MOST_LINES],
            followed=tuple(sorted({*waited, *about.followed} - {*suspects.ranks})),
        )

    def _name_all_waiting(
        self, about: Diagnosis, waiting: list[Explained], ranks: set[int]
    ) -> Diagnosis:
        """The same of all ranks, none of which had lost another: at one line or more."""
        sources = {one.raised.source for one in waiting} - {""}
        where = f" in {sources.pop()[:MOST_WORDS]}" if len(sources) == 1 else ""
        title = f"they waited in vain for each other{where}, until their time was over"
        about = about._replace(title=title, remedy=WAITED.remedy, followed=())
        return self._name_ranks(about, sorted(ranks))

    def _compare_calls(
        self, about: Diagnosis, calls: dict[str, list[int]], title: str
    ) -> Diagnosis:
        """The same of all ranks of which is known what they were in."""
        sentences = [f"{list_ranks(some)} in {call}" for call, some in calls.items()]
        remedy = WAITED.remedy if about.cause == TIMEOUT.id else about.remedy
        title = f"{title}: {', '.join(sentences[:_MOST_CALLS])}"
        about = about._replace(title=title, remedy=remedy, place="", exception="", followed=())
        return self._name_ranks(about, sorted(rank for some in calls.values() for rank in some))

    def _name_ranks(self, about: Diagnosis, ranks: Iterable[int]) -> Diagnosis:
        places = self.evidence.ranks
        nodes = dict.fromkeys(places[rank] for rank in ranks if rank in places)
        return about._replace(ranks=tuple(ranks), nodes=tuple(nodes), world=self.evidence.world)

    def _name_cause(self, cause: Cause, line: Line = NO_LINE) -> Diagnosis:
        """By a cause, the line that shows it, and the node that this names."""
        return self.about._replace(
            cause=cause.id,
            title=read_own_words(line) or cause.title,
            remedy=cause.remedy,
            node=read_node(cause, line),
            evidence=show_lines(line),
        )

    def _show_first(self, first: Explained) -> Diagnosis:
        about = self._name_cause(first.cause, first.line)
        about = about._replace(title=first.title, remedy=find_remedy(first))
        return self._show_process(about, first)

    def _show_process(self, about: Diagnosis, who: Explained) -> Diagnosis:
        """The same, with who it was, the end of what it said, and who lost it."""
        failure = who.failure
        another = about.node not in (None, failure.node)
        tail = show_lines(*who.tail)
        tail = tail[:MOST_LINES] if who.raised.words else tail[-MOST_LINES:]
        evidence = tail + about.evidence if is_own(who.line) else about.evidence + tail
        lost = [one.failure.rank for one in self.processes.ended if one.cause.symptom]
        return about._replace(
            node=about.node or failure.node,
            rank=None if another else failure.rank,
            exception=who.raised.words,
            place=who.place,
            evidence=tuple(dict.fromkeys(evidence)),
            followed=tuple(rank for rank in lost if rank not in (None, failure.rank)),
        )


def _tell_unheard(unheard: str, count: int) -> str:
    were = choose_words(count, "was", "were")
    return f"; {unheard} {were} ended too early to tell" if count else ""
