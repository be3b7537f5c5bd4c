"""How jobs of Toy stand: toyq prints `12 waits`, `12 runs` or `12 broken why`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from jobgen.schedulers.base import Ask, OwnJobs, State, StateName

_STATES: dict[str, StateName] = {"waits": "queued", "runs": "running", "broken": "failed"}


def make_environment(around: Mapping[str, str]) -> dict[str, str]:
    """Return the environment as it is."""
    return dict(around)


def make_query(ids: Sequence[str]) -> list[str]:
    """Return the command that lists jobs."""
    return ["toyq", *ids]


def knows_none(refusal: str) -> bool:
    """Return whether no job is known."""
    return "no such job" in refusal


def read_states(output: str) -> tuple[dict[str, State], str]:
    """Return the states by id, and a line that is about no job."""
    states, stray = {}, ""
    for line in output.splitlines():
        job_id, _, rest = line.partition(" ")
        word, _, reason = rest.partition(" ")
        if job_id.isdecimal():
            states[job_id] = State(_STATES.get(word, "unknown"), reason)
        else:
            stray = stray or line
    return states, stray


def is_plain(state: State) -> bool:
    """Return whether the reason says no more than that it failed."""
    return not state.reason


def make_history_query(ids: Sequence[str]) -> list[str]:
    """Return nothing: Toy forgets."""
    return []


def read_history(output: str) -> tuple[dict[str, State], str]:
    """Return nothing."""
    return {}, ""


def ask_more(job_id: str, state: State, ask: Ask) -> State:
    """Nothing more."""
    return state


def list_own_jobs(ask: Ask, since: float) -> Iterator[OwnJobs]:
    """Yield the ids and scripts of the user's jobs."""
    yield [
        (job_id, words)
        for job_id, _, words in (
            line.partition(" ") for line in ask(["toyq", "--mine"]).splitlines()
        )
    ]
