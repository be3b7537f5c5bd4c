"""What schedulers say of jobs, from one query of each about many."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import TypeVar

from jobgen import process
from jobgen.errors import RefusedError, SchedulerUnavailableError
from jobgen.jobs.record import folder_name
from jobgen.jobs.run_folder import Traces
from jobgen.schedulers import SCHEDULERS
from jobgen.schedulers.base import PAST, Queue, State

# Linux takes 128 KiB in one argument, as which Slurm has its short ids, and 2 MiB in all.
_MOST_IDS = 5_000
_Id = TypeVar("_Id")
_SLACK = 60  # seconds that a job may begin before its script
_DAY = 24 * 3600  # by so much no clocks and zones differ
# How a job has ended that its scheduler no longer knows, and that has not begun.
GONE = "gone"


class SchedulerAnswer:
    """What a scheduler says of jobs: their states, by the names of run folders.

    `silence` is why it does not answer; it is `mute` if a job that it does not list may exist all
    the same.
    """

    def __init__(self, name: str, wanted: Mapping[str, list[str]]) -> None:
        """Ask the scheduler called `name`, at once if the ids fit one command line.

        For each id, `wanted` has the run folders that it stands for.
        """
        self.states: dict[str, State] = {}
        self._name, self._asked = name, {one for names in wanted.values() for one in names}
        self._others: dict[str, SchedulerAnswer] = {}
        self.silence, self.mute = "", False
        self._chains: dict[str, list[str]] = {}  # by the run folder, as files tell them
        try:
            for ids in split_ids(wanted):
                self._ask(SCHEDULERS[name].queue, ids, wanted)
        except (SchedulerUnavailableError, RefusedError) as error:
            self.silence = str(error)

    def _ask(self, queue: Queue, ids: list[str], wanted: Mapping[str, list[str]]) -> None:
        argv, before = queue.make_query(ids), len(self.states)
        answered, stray = self._add(queue, argv, queue.read_states)
        if stray:  # of a job without a line it is not known whether it has one
            self.silence = f"{argv[0]} has printed no answer but {stray[:200]!r}"
        # Of a job alone that it does not know it says so, and fails.
        self.mute |= answered and len(ids) == 1 and len(self.states) == before
        self.mute |= answered and self._has_named_others()
        forgotten = [id for id in ids if not self.states.keys() >= {*wanted[id]}]
        if forgotten and (argv := queue.make_history_query(forgotten)):
            with suppress(SchedulerUnavailableError, RefusedError):  # many clusters keep none
                _, stray = self._add(queue, argv, queue.read_history)
                self.mute |= bool(stray)

    def _has_named_others(self) -> bool:
        """Whether it lists what was not asked about: some job under another name."""
        arrays = {name.partition("_")[0] for name in self._asked if "_" in name}
        others = self.states.keys() - self._asked
        return any(name.partition("_")[0] not in arrays for name in others)

    def _add(
        self, queue: Queue, argv: list[str], read: Callable[[str], tuple[dict[str, State], str]]
    ) -> tuple[bool, str]:
        """Add the states that a command prints; say if it knows some job, and a line without one.

        A line without its end may be half of one. A state that is known counts more.
        """
        answer = process.ask(argv, environment=queue.make_environment(os.environ))
        if answer.code and not queue.knows_none(answer.words):
            raise RefusedError(answer.refusal(argv[0]))
        whole, end, cut = answer.output.rpartition("\n")
        states, stray = read(whole + end)
        self.states = {folder_name(id): state for id, state in states.items()} | self.states
        return not answer.code, (stray or cut).strip()

    @property
    def doubt(self) -> str:
        """Why it is not known whether there is a job that it does not list; empty if it is."""
        if self.mute and not self.silence:
            return "the scheduler has printed nothing about it"
        return self.silence

    def cover(self, left: Traces) -> SchedulerAnswer:
        """Return this, or the answer about a job that goes on under an id not asked about."""
        ids = {id: [folder_name(id)] for id in left.open_chain}
        known = left.job.array or self._asked >= {*map(folder_name, ids)}
        return self if known else SchedulerAnswer(self._name, ids)

    def find_state(self, left: Traces, *, first: bool = False) -> State | None:
        """Return how the job's chain goes on, or else has ended; of its `first` alone if asked.

        None of one that it does not list, or of whose end it does not tell.
        """
        chain = self._list_chain(left)
        known = self._list_states(left, chain[:1] if first else chain)
        going = (one for one in known if not one.ended and one.name != "unknown")
        state = next(going, known[-1] if known else None)
        return None if state == PAST else state

    def find_end(self, job_id: str) -> str:
        """Return how a job that has not begun has ended, or GONE; empty if that is not known.

        Of one that it was not asked about, the scheduler is asked once.
        """
        name = folder_name(job_id)
        if name not in self._asked:
            if name not in self._others:
                self._others[name] = SchedulerAnswer(self._name, {job_id: [name]})
            return self._others[name].find_end(job_id)
        if state := self.states.get(name):
            return state.name * state.ended
        return "" if self.doubt else GONE

    def ask_more(self, left: Traces, state: State) -> State:
        """Return the same, or what another of the scheduler's commands knows of a single job."""
        known = self._list_states(left, self._list_chain(left)[:1])
        # A preemption moves the end of a job that runs.
        early = (state.limit or math.inf) + _SLACK < (left.limit or 0)
        if known and (early or state.name in ("failed", "queued")):
            with suppress(SchedulerUnavailableError, RefusedError):
                queue = SCHEDULERS[left.job.scheduler].queue
                more = queue.ask_more(left.job.id, known[0], process.run)
                return more if more != known[0] else state
        return state

    def _list_chain(self, left: Traces) -> list[str]:
        if left.run_dir not in self._chains:
            self._chains[left.run_dir] = left.open_chain
        return self._chains[left.run_dir]

    def _list_states(self, left: Traces, ids: Iterable[str]) -> list[State]:
        known = [self.states[name] for name in map(folder_name, ids) if name in self.states]
        array = self.states.get(left.job.whole_dir.name) if left.job.array else None
        # A task that has not begun does not have its own entry, or one that does not say why.
        mute = array and array.name == "queued" and {*known} == {State("queued")}
        states = [array] if array and (mute or not known) else known
        return [one for one in states if _is_recent(one, left.job.submitted)]


def _is_recent(state: State, submitted: float) -> bool:
    """Whether a job is not another, long before this one, which had its number."""
    return (state.start or submitted) + _DAY > submitted


def split_ids(ids: Iterable[_Id]) -> Iterator[list[_Id]]:
    """Yield ids, or what has one, in lists that fit one command line."""
    rest = iter(ids)
    while some := list(islice(rest, _MOST_IDS)):
        yield some
