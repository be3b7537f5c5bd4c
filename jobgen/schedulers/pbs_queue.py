"""How jobs of PBS stand: qstat, with the server's history where it keeps one (qstat(1B))."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence

from jobgen.schedulers import pbs_jobs
from jobgen.schedulers.base import State, StateName, folder_name

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
        """For all of them, and the tasks of arrays."""
        return pbs_jobs.argv(ids, tasks=any("[]" in id for id in ids))

    @staticmethod
    def history_argv(ids: Sequence[str]) -> list[str]:
        """None: there is nobody else to ask."""
        return []

    @staticmethod
    def knows_none(refusal: str) -> bool:
        """Whether all that is wrong is that some of the jobs are not known."""
        lines = [line for line in refusal.splitlines() if line.strip()]
        return bool(lines) and all(_UNKNOWN.search(line) for line in lines)

    @staticmethod
    def states(output: str) -> dict[str, State]:
        """By id without the server, that of a task being `12_3`.

        Raises ValueError where it is no answer.
        """
        return {folder_name(id): _state(job) for id, job in pbs_jobs.parse(output).items()}

    @staticmethod
    def history(output: str) -> dict[str, State]:
        """Of nobody."""
        return {}


def _state(job: dict[str, str]) -> State:
    letter, status = job.get("job_state", ""), job.get("Exit_status", "")
    start, comment = _time(job.get("stime")), job.get("comment", "")
    if letter in ("F", "X"):
        name = _ENDS.get(status, "failed")
        if name in ("done", "cancelled"):
            return State(name, comment if name == "cancelled" else "", start)
        return State(name, f"Exit_status {status}", start)
    name = _STATES.get(letter, "unknown")
    if name == "queued":
        return State(name, comment, _time(job.get("estimated.start_time")))
    walltime = _seconds(job.get("Resource_List.walltime"))
    limit = start + walltime if start is not None and walltime is not None else None
    return State(name, "", start, limit)


def _time(word: object) -> float | None:
    """A time as ctime(3) writes it, in this machine's zone, as qstat does."""
    try:
        return time.mktime(time.strptime(str(word)))
    except (ValueError, OverflowError):
        return None


def _seconds(word: object) -> int | None:
    match = re.fullmatch(r"(\d+):(\d\d):(\d\d)", str(word))
    return int(match[1]) * 3600 + int(match[2]) * 60 + int(match[3]) if match else None


QUEUE = PbsQueue()
