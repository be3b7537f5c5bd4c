"""How jobs of PBS stand: qstat, with the server's history where it keeps one (qstat(1B))."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence

from jobgen.schedulers.base import DEPENDENT, State, StateName, folder_name
from jobgen.schedulers.pbs import qstat

_STATES: dict[str, StateName] = {
    **dict.fromkeys("QHWTM", "queued"),
    **dict.fromkeys("RBSU", "running"),
    "E": "stopping",
}
# Exit_status, but for a program's own (JOB_EXEC_* of OpenPBS's job.h; 256 + N is signal N).
_ENDS: dict[str, StateName] = {
    "0": "done",
    "": "cancelled",
    "271": "cancelled",
    "-20": "node lost",
    "-29": "timeout",
}
_UNKNOWN = re.compile(r"qstat: (Unknown Job Id|\S+ Job has finished)")


class PbsQueue:
    """Asks for jobs by their ids, and reads what is printed."""

    @staticmethod
    def environment(around: Mapping[str, str]) -> dict[str, str]:
        """As it is."""
        return dict(around)

    @staticmethod
    def argv(ids: Sequence[str]) -> list[str]:
        """Return `qstat` for queued and running jobs, and the tasks of arrays."""
        return qstat.argv(ids, tasks=any("[]" in id for id in ids))

    @staticmethod
    def history_argv(ids: Sequence[str]) -> list[str]:
        """Return `qstat -x`, which tells of ended jobs where the server keeps a history."""
        return qstat.argv(ids, tasks=any("[]" in id for id in ids), ended=True)

    @staticmethod
    def knows_none(refusal: str) -> bool:
        """Whether all that is wrong is that some of the jobs are not known."""
        lines = [line for line in refusal.splitlines() if line.strip()]
        return bool(lines) and all(_UNKNOWN.search(line) for line in lines)

    @staticmethod
    def is_plain(state: State) -> bool:
        """Of a script that fails PBS has the exit status."""
        return state.reason.startswith("Exit_status")

    @staticmethod
    def states(output: str) -> dict[str, State]:
        """By id without the server, that of a task being `12_3`.

        Raises ValueError where it is no answer.
        """
        return {folder_name(id): _read_state(job) for id, job in qstat.parse(output).items()}

    @staticmethod
    def history(output: str) -> dict[str, State]:
        """Return the same of ended jobs; nothing without a history."""
        return PbsQueue.states(output)


def _read_state(job: dict[str, str]) -> State:
    letter, status = job.get("job_state", ""), job.get("Exit_status", "")
    start, comment = _parse_time(job.get("stime")), job.get("comment", "")
    if letter in ("F", "X"):
        name = _ENDS.get(status, "failed")
        if name in ("done", "cancelled"):
            return State(name, comment if name == "cancelled" else "", start)
        return State(name, f"Exit_status {status}", start)
    name = _STATES.get(letter, "unknown")
    if name == "queued":
        return State(name, comment or _read_hold(job), _parse_time(job.get("estimated.start_time")))
    walltime = _parse_seconds(job.get("Resource_List.walltime"))
    limit = start + walltime if start is not None and walltime is not None else None
    return State(name, "suspended" if letter in ("S", "U") else "", start, limit)


def _read_hold(job: dict[str, str]) -> str:
    """What keeps a job from being considered: it is held, or waits for other jobs."""
    if job.get("job_state") != "H":
        return ""
    depend = job.get("depend", "")
    by = {"u": "its owner", "o": "an operator", "s": "the system"}
    hold = next((by[kind] for kind in job.get("Hold_Types", "") if kind in by), "")
    return f"{DEPENDENT}: {depend}" if depend else f"the job is held by {hold or 'PBS'}"


def _parse_time(word: object) -> float | None:
    """A time as ctime(3) writes it, in this machine's zone, as qstat does."""
    try:
        return time.mktime(time.strptime(str(word)))
    except (ValueError, OverflowError):
        return None


def _parse_seconds(word: object) -> int | None:
    match = re.fullmatch(r"(\d+):(\d\d):(\d\d)", str(word))
    return int(match[1]) * 3600 + int(match[2]) * 60 + int(match[3]) if match else None


QUEUE = PbsQueue()
