"""How a job or a task stands: what is seen of it, and by the table `states.txt` what that means."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from functools import cache
from typing import Any

from jobgen.jobs.dependencies import find_unmet
from jobgen.jobs.files import read_if_left
from jobgen.jobs.queries import SchedulerAnswer
from jobgen.jobs.record import JobRecord
from jobgen.jobs.run_folder import SIGTERM_CODE, Traces, read_nodes, read_traces
from jobgen.output import format_names
from jobgen.records import NamedTuple
from jobgen.schedulers import SCHEDULERS
from jobgen.schedulers.base import DEPENDENT, State
from jobgen.spec.tables import read_rows

# What a good end is told with where nodes have seen no connection between processes.
APART = "no two of its processes had a connection to each other: each may have worked alone"
# What PBS prints as it ends a job because a node's daemon has died.
_NODE_DIED = r"node \d+ \(\S+\) requested job die"
# What the script prints at its walltime, or PBS as it ends a job there.
_AT_WALLTIME = r"(?m)ENDED by the (walltime|end of)|^=>> PBS: job killed: walltime"
_NOT_STARTED = r"(?s).*: not started: .*"
_SIGNALS = {137: "SIGKILL", SIGTERM_CODE: "SIGTERM"}
# A job may run this much less than its walltime: it began before its script.
_SLACK_SECONDS = 30
_BETWEEN_SECONDS = 60  # from a job of a chain to the next


class Look(NamedTuple):
    """A look at a job or a task: what it has left, and its state if that shows it."""

    left: Traces
    own: State | None


class _Seen(NamedTuple):
    """What is seen of one, in the words of the table, and `why` that is not more."""

    left: Traces
    says: tuple[str, ...] = ()
    listed: State = State("unknown")
    why: str = ""


class _Row(NamedTuple):
    says: set[str]
    word: set[str]
    fact: Callable[[_Seen], object]
    state: Any
    reason: str


# What else may be seen, by its name in the table; most of it is read from a file only then.
_FACTS: dict[str, Callable[[_Seen], object]] = {
    "*": lambda seen: True,
    "started_since": lambda seen: (seen.listed.start or 0) > seen.left.ended,
    "node_died": lambda seen: _search(_NODE_DIED, seen.left.output),
    "says_more": lambda seen: not (seen.listed.name == "done" or _is_plain(seen)),
    "chain": lambda seen: seen.left.job.links,  # whose later jobs only repeat the end
    "told_to_end": lambda seen: seen.left.told_to_end and not seen.left.job.array,
    "asked_to_stop": lambda seen: os.path.exists(f"{seen.left.run_dir}/STOPPED"),
    "left_over": lambda seen: _name_left_over(seen.left),
    "apart": lambda seen: APART if seen.left.apart else "",
    "not_started": lambda seen: _search(_NOT_STARTED, seen.left.loss),
    "lost_nodes": lambda seen: seen.left.loss,
    "at_walltime": lambda seen: (
        seen.left.code == SIGTERM_CODE and _search(_AT_WALLTIME, seen.left.output)
    ),
    "signal": lambda seen: _SIGNALS.get(seen.left.code),
    "waits": lambda seen: DEPENDENT if os.path.exists(f"{seen.left.run_dir}/waits") else "",
    # Of a chain that was submitted by hand, which names its next job only once that begins.
    "between": lambda seen: (
        not seen.left.job.argv and time.time() - seen.left.ended < _BETWEEN_SECONDS
    ),
    "awaited": lambda seen: seen.left.awaited,
    "copied": lambda seen: not seen.left.has_own_times,
    "outran": lambda seen: seen.left.ended + _SLACK_SECONDS >= (seen.left.limit or float("inf")),
    "heard_of": lambda seen: seen.left.alive and f"{time.time() - seen.left.last_sign:.0f} s",
    "heard_from": lambda seen: _name_last_sign(seen.left),
    "lifeless": lambda seen: not seen.left.alive,
    "cancelled": lambda seen: seen.left.cancelled,  # maybe before its script could note it
    "dropped": lambda seen: not seen.left.attempts and find_unmet(seen.left.job),
    "unbegun": lambda seen: not seen.left.attempts,
    "unbegun_task": lambda seen: seen.left.job.array and not seen.left.attempts,
    "cancelled_unbegun": lambda seen: seen.left.cancelled and not seen.left.attempts,
}


def examine(job: JobRecord) -> Look:
    """Judge by the job's own record, and a local one by its process.

    A failure may be the scheduler's doing, such as a preemption, or followed by another start: that
    is asked for once.
    """
    says = _look_at_process(job) if job.local else ""  # first: what it leaves, it leaves before
    left = read_traces(job)
    if says or left.word == "done":
        return Look(left, _judge(_Seen(left, (says,), why=f"it was started on {job.host}")))
    return Look(left, left.kept_state)


def judge(left: Traces, answer: SchedulerAnswer) -> tuple[State, bool]:
    """Judge by what the scheduler says, and what the script has left; say if that is the end."""
    listed = answer.find_state(left, first=left.over)
    silent = "the scheduler does not answer" if answer.silence else answer.doubt  # said once
    why = silent or "the scheduler no longer knows it"
    certain = left.over and not answer.silence
    if listed is None:
        return _judge(_Seen(left, ("silent" if answer.doubt else "gone",), why=why)), certain
    state = _judge(_Seen(left, (listed.name, "ended" * listed.ended), listed, why))
    return state, certain if listed.name == "unknown" else listed.ended and state.ended


def _look_at_process(job: JobRecord) -> str:
    if job.alive:
        return "alive"
    return "dead" if job.host in ("", os.uname().nodename) else "elsewhere"


def _judge(seen: _Seen) -> State:
    """Return what the table says of it."""
    rows = _list_rows(seen.says, seen.left.word or "-")
    row, fact = next((row, fact) for row in rows if (fact := row.fact(seen)))
    if row.state in ("listed", "stopping"):
        return seen.listed._replace(name=row.state) if row.state == "stopping" else seen.listed
    reason = row.reason.format(left=seen.left, why=seen.why, fact=fact)
    if row.state == "running" and "gone" not in seen.says:  # else it may have ended
        return State("running", reason, seen.left.begun, seen.left.limit)
    return State(row.state, reason)


@cache
def _list_rows(says: tuple[str, ...], word: str) -> list[_Row]:
    """Return the rows for what is said of a job, of which a list asks many times."""
    own, words = {"*", *says}, {"*", word}
    return [row for row in _read_table() if own & row.says and words & row.word]


@cache
def _read_table() -> list[_Row]:
    return [
        _Row({*says.split()}, {*word.split()}, _FACTS[fact], state, reason.removeprefix("-"))
        for says, word, fact, state, reason in read_rows("states.txt", room="jobs")
    ]


def _name_last_sign(left: Traces) -> str:
    """Return which nodes a job had, and when one gave the last sign of life; nothing without."""
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(left.last_sign))
    nodes = format_names(read_nodes(left.job), most=16)
    return f"{nodes}, with the last sign of life at {when}" if nodes and left.last_sign else ""


def _name_left_over(left: Traces) -> str:
    """Return which programs that may end alone had not, when the last ended; nothing without."""
    ends = {name: read_traces(role).word for name, role in left.job.roles.items()}
    alone = re.findall(r"start_role (\w+) alone", read_if_left(f"{left.last}/script") * bool(ends))
    names = [name for name in alone if ends.get(name) == "cancelled"]
    return "; ".join(f"{name} was stopped before it ended" for name in names)


def _search(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    return match[0] if match else ""


def _is_plain(seen: _Seen) -> bool:
    return SCHEDULERS[seen.left.job.scheduler].queue.is_plain(seen.listed)
