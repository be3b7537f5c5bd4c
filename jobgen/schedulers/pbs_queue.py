"""How jobs of PBS stand: qstat, with the server's history where it keeps one (qstat(1B))."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

from jobgen.schedulers.base import State, StateName

_STATES: dict[str, StateName] = {
    **dict.fromkeys("QHWTM", "queued"),
    **dict.fromkeys("RBSU", "running"),
    "E": "stopping",
}
# Exit_status, but for a program's own (JOB_EXEC_* of OpenPBS's job.h; 256 + N is signal N).
_ENDS: dict[object, StateName] = {
    0: "done",
    None: "cancelled",
    271: "cancelled",
    -20: "node lost",
    -29: "timeout",
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
        """-x: ended jobs too, where the server keeps a history; -t: the tasks of arrays too."""
        tasks = ["-t"] if any("[]" in id for id in ids) else []
        return ["qstat", "-x", "-f", *tasks, "-F", "json", *ids]

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
        answer = json.loads(output, strict=False)
        jobs = answer.get("Jobs", {}) if isinstance(answer, dict) else None
        if not isinstance(jobs, dict) or not all(isinstance(job, dict) for job in jobs.values()):
            raise ValueError(output)
        return {
            re.sub(r"\[(\d*)\]", lambda match: match[1] and f"_{match[1]}", id.partition(".")[0]): (
                _state(job)
            )
            for id, job in jobs.items()
        }

    @staticmethod
    def history(output: str) -> dict[str, State]:
        """Of nobody."""
        return {}


def _state(job: dict[str, Any]) -> State:
    letter, comment, status = job.get("job_state"), job.get("comment", ""), job.get("Exit_status")
    start, comment = _time(job.get("stime")), str(comment)
    if letter in ("F", "X") and isinstance(status, int | None):
        name = _ENDS.get(status, "failed")
        if name in ("done", "cancelled"):
            return State(name, comment if name == "cancelled" else "", start)
        return State(name, f"Exit_status {status}", start)
    name = _STATES.get(letter, "unknown") if isinstance(letter, str) else "unknown"
    if name == "queued":
        estimate = job.get("estimated")
        expected = _time(estimate.get("start_time")) if isinstance(estimate, dict) else None
        return State(name, comment, expected)
    asked = job.get("Resource_List")
    walltime = _seconds(asked.get("walltime")) if isinstance(asked, dict) else None
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
