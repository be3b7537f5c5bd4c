"""How jobs of Slurm stand: squeue, and sacct for what squeue has forgotten (22.05 to 25.05)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from jobgen.schedulers.base import DEPENDENT, ENDED, State, StateName

_WORDS: dict[StateName, str] = {
    "queued": "PENDING CONFIGURING REQUEUED REQUEUE_HOLD SPECIAL_EXIT RESV_DEL_HOLD",
    "running": "RUNNING SUSPENDED STOPPED SIGNALING RESIZING",
    "stopping": "COMPLETING STAGE_OUT",
    "done": "COMPLETED",
    "cancelled": "CANCELLED REVOKED PREEMPTED",
    "timeout": "TIMEOUT DEADLINE",
    "node lost": "NODE_FAIL BOOT_FAIL",
}
_STATES = {word: name for name, words in _WORDS.items() for word in words.split()}
# Reasons to wait that nothing but the user changes.
_STUCK = {
    "DependencyNeverSatisfied": "what it waits for cannot come true any more: cancel it",
    "JobHeldUser": "let it go with scontrol release",
    "launch_failed_requeued_held": "it could not be started again: scontrol release",
}
_FIELDS = 5


class SlurmQueue:
    """Asks for jobs by their ids, and reads what is printed: a line for each job or task."""

    @staticmethod
    def environment(around: Mapping[str, str]) -> dict[str, str]:
        """Without the user's own filters and formats, and with times in seconds since 1970."""
        own = {key: value for key, value in around.items() if not re.match("SQUEUE_|SACCT_", key)}
        return own | {"SLURM_TIME_FORMAT": "%s"}

    @staticmethod
    def argv(ids: Sequence[str]) -> list[str]:
        """`squeue`, which knows a job for some minutes after its end too (MinJobAge)."""
        options = ["--noheader", "--states=all", "--array", f"--jobs={','.join(ids)}"]
        return ["squeue", *options, "--format=%i|%T|%r|%S|%e"]

    @staticmethod
    def history_argv(ids: Sequence[str]) -> list[str]:
        """`sacct`, which a cluster without accounting refuses; one line for each allocation."""
        options = ["--noheader", "--parsable2", "--allocations", f"--jobs={','.join(ids)}"]
        return ["sacct", *options, "--format=JobID,State,Reason,Start,End"]

    @staticmethod
    def knows_none(refusal: str) -> bool:
        """Whether the answer is that there are no such jobs: squeue fails for a single one."""
        return "Invalid job id specified" in refusal

    @staticmethod
    def is_plain(state: State) -> bool:
        """FAILED is what Slurm calls any exit status but 0."""
        return state.reason.startswith("FAILED")

    @staticmethod
    def states(output: str) -> dict[str, State]:
        """By id, that of a task being `12_3`. Raises ValueError where it is no answer."""
        return dict(_read_states(output))

    @staticmethod
    def history(output: str) -> dict[str, State]:
        """As `states`, of the jobs that have ended: of others accounting may have lost track."""
        return {id: state for id, state in _read_states(output) if state.ended}


def _read_states(output: str) -> Iterator[tuple[str, State]]:
    for line in output.splitlines():
        fields = line.strip().split("|")
        name = re.fullmatch(r"([0-9]+)(_[0-9]+|_\[.*)?(\+[0-9]+)?", fields[0])
        if name is None or len(fields) != _FIELDS:
            raise ValueError(line)
        number, task, component = name.groups(default="")
        if component in ("", "+0"):  # the first component of a heterogeneous job has the script
            state, _, _ = fields[1].partition(" ")  # of `CANCELLED by 1000`
            answer = _read_state(
                state, fields[2], start=_parse_time(fields[3]), end=_parse_time(fields[4])
            )
            # `12_[3-5]` are tasks that have not begun, and as the array itself.
            yield number if "[" in task else number + task, answer


def _read_state(word: str, reason: str, *, start: float | None, end: float | None) -> State:
    reason = "" if reason in ("None", "") else reason
    name = _STATES.get(word, "failed")
    if name in ENDED and name != "done" and word != "CANCELLED":
        reason = f"{word} {reason}".strip()
    if word in ("SUSPENDED", "STOPPED"):
        reason = "suspended"
    if name == "queued":
        reason = DEPENDENT if reason == "Dependency" else reason
        reason += f": {_STUCK[reason]}" if reason in _STUCK else ""
    return State(name, reason, start, None if name == "queued" else end)


def _parse_time(word: str) -> float | None:
    return float(word) if word.isdecimal() else None


QUEUE = SlurmQueue()
